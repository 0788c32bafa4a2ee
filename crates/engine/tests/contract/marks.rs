//! A consumer that looks at every byte and takes them in any order.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_engine::{Chunk, Consumer};

/// Counts the bytes, and those among them that are 0xFF.
#[derive(Default)]
pub struct Marks {
    pub bytes: AtomicU64,
    pub marked: AtomicU64,
}

impl Marks {
    /// The marked bytes and all bytes.
    pub fn found(&self) -> (u64, u64) {
        (self.marked.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Consumer for Marks {
    fn data(&self, _offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        self.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        chunk.for_each_slice(|_start, bytes| {
            let marked = bytes.iter().map(|&byte| u64::from(byte == 0xff)).sum();
            self.marked.fetch_add(marked, Ordering::Relaxed);
            ControlFlow::Continue(())
        })
    }

    fn zeros(&self, _offset: u64, length: u64) -> ControlFlow<()> {
        self.bytes.fetch_add(length, Ordering::Relaxed);
        ControlFlow::Continue(())
    }

    fn needs_order(&self) -> bool {
        false
    }
}
