//! Consumers, most of which take chunks in any order, and a producer.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;

use seekless_engine::{Chunk, Consumer};

/// Keeps the bytes of chunks that come in order.
pub fn in_order(kept: &mut Vec<u8>) -> impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send {
    |offset, bytes| {
        assert_eq!(offset, kept.len() as u64, "offsets count from the start of the range");
        kept.extend_from_slice(bytes);
        ControlFlow::Continue(())
    }
}

/// Produces one byte, again and again.
pub fn repeated(byte: u8) -> impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync {
    move |_offset, bytes| {
        bytes.fill(byte);
        Ok(())
    }
}

/// Keeps the data and the holes by their offsets; each byte comes once.
#[derive(Default)]
pub struct Kept(Mutex<BTreeMap<u64, Vec<u8>>>);

impl Kept {
    fn take(&self, offset: u64, piece: Vec<u8>) -> ControlFlow<()> {
        if !piece.is_empty() {
            let before = self.0.lock().unwrap().insert(offset, piece);
            assert!(before.is_none(), "the bytes at {offset} came twice");
        }
        ControlFlow::Continue(())
    }

    /// The chunks by their offsets.
    pub fn chunks(self) -> BTreeMap<u64, Vec<u8>> {
        self.0.into_inner().unwrap()
    }

    /// All bytes, which begin at 0 and have no gaps.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (offset, piece) in self.chunks() {
            assert_eq!(offset, bytes.len() as u64, "bytes are missing, or came twice");
            bytes.extend(piece);
        }
        bytes
    }
}

impl Consumer for Kept {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        let mut piece = Vec::with_capacity(chunk.len());
        let _ = chunk.for_each_slice(|_, bytes| {
            piece.extend_from_slice(bytes);
            ControlFlow::Continue(())
        });
        self.take(offset, piece)
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.take(offset, vec![0; length as usize])
    }

    fn needs_order(&self) -> bool {
        false
    }
}

/// Calls a function for each chunk of data, and with `None` for each hole.
pub struct ForEach<F>(pub F);

impl<F: Fn(Option<Chunk<'_>>) -> ControlFlow<()> + Sync> Consumer for ForEach<F> {
    fn data(&self, _offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        (self.0)(Some(chunk))
    }

    fn zeros(&self, _offset: u64, _length: u64) -> ControlFlow<()> {
        (self.0)(None)
    }

    fn needs_order(&self) -> bool {
        false
    }
}
