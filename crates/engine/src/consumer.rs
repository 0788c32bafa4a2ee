//! Consumers, which take the bytes of a read.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use seekless_method::AccessPattern;
use seekless_sys::Buffer;

use crate::Chunk;
use crate::caller_memory::CallerMemory;
use crate::error::Error;
use crate::transfer::{OpenFile, TOLD_BYTES};

/// Bytes aligned for direct I/O.
#[repr(align(4096))]
pub(crate) struct Aligned(pub [u8; 64 << 10]);

/// Zeros, enough that a hole is fed in few calls.
pub(crate) static ZEROS: Aligned = Aligned([0; 64 << 10]);

/// Takes the bytes of a read, chunk by chunk.
///
/// It is `Sync`, because the mechanism `threads` passes it chunks from several threads, in any order. A consumer that
/// needs them in order says so in [`Consumer::needs_order`]. [`sequential`] makes a consumer from a closure.
pub trait Consumer: Sync {
    /// Takes the bytes at `offset`, counted from the start of the part that is read. `Break` ends the read early.
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()>;

    /// Takes a hole: `length` zeros from `offset`. The default feeds zeros to [`Consumer::data`]; override it if there
    /// is a faster way.
    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(ZEROS.0.len() as u64);
            self.data(offset + done, Chunk::Memory(&ZEROS.0[..piece as usize]))?;
            done += piece;
        }
        ControlFlow::Continue(())
    }

    /// Whether chunks must come in order, one at a time.
    fn needs_order(&self) -> bool {
        true
    }

    /// Whether the consumer has a place in memory for the bytes: see [`Consumer::place`].
    fn has_places(&self) -> bool {
        false
    }

    /// The memory where the bytes at `offset` belong, of a consumer that has places. A method that can read into it does,
    /// and does not pass these bytes to [`Consumer::data`]; other methods do not ask. The default is none.
    fn place(&self, offset: u64, length: usize) -> Option<CallerMemory<'_>> {
        let _ = (offset, length);
        None
    }

    /// An empty buffer of this many bytes, of a consumer that keeps whole buffers. A method that gets one puts it in the
    /// place of a buffer that it has filled, and passes that to [`Consumer::filled`] instead of its bytes to
    /// [`Consumer::data`]. The default is none.
    fn spare(&self, bytes: usize) -> Option<Buffer> {
        let _ = bytes;
        None
    }

    /// Takes a buffer whose first `length` bytes are those at `offset`. It comes in exchange for a [`Consumer::spare`] one.
    fn filled(&self, offset: u64, buffer: Buffer, length: usize) -> ControlFlow<()> {
        self.data(offset, Chunk::Memory(&buffer[..length]))
    }
}

impl<C: Consumer + ?Sized> Consumer for &C {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        (**self).data(offset, chunk)
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        (**self).zeros(offset, length)
    }

    fn needs_order(&self) -> bool {
        (**self).needs_order()
    }

    fn has_places(&self) -> bool {
        (**self).has_places()
    }

    fn place(&self, offset: u64, length: usize) -> Option<CallerMemory<'_>> {
        (**self).place(offset, length)
    }

    fn spare(&self, bytes: usize) -> Option<Buffer> {
        (**self).spare(bytes)
    }

    fn filled(&self, offset: u64, buffer: Buffer, length: usize) -> ControlFlow<()> {
        (**self).filled(offset, buffer, length)
    }
}

/// A consumer made by [`sequential`].
pub struct Sequential<F>(Mutex<F>);

/// Makes a consumer from a closure that gets offsets and bytes in order, and may end the read by `Break`.
pub fn sequential<F: FnMut(u64, &[u8]) -> ControlFlow<()> + Send>(take: F) -> Sequential<F> {
    Sequential(Mutex::new(take))
}

impl<F: FnMut(u64, &[u8]) -> ControlFlow<()> + Send> Consumer for Sequential<F> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        // If the closure panicked, the lock is poisoned, and the panic is already being propagated.
        let Ok(mut take) = self.0.lock() else {
            return ControlFlow::Break(());
        };
        chunk.for_each_slice(|start, bytes| take(offset + start as u64, bytes))
    }
}

/// Counts the bytes that reach another consumer, and passes it offsets from the start of the part. Where blocks come at random,
/// it tells the progress, too, because nothing else knows how much is done.
pub(crate) struct Delivered<'a> {
    inner: &'a dyn Consumer,
    source: &'a OpenFile<'a>,
    start: u64,
    is_random: bool,
    pub bytes: AtomicU64,
    /// The number of these bytes that are in holes.
    pub hole_bytes: AtomicU64,
    /// Why the progress ended the read.
    pub ended: OnceLock<Error>,
}

impl<'a> Delivered<'a> {
    pub fn to(inner: &'a dyn Consumer, source: &'a OpenFile<'a>) -> Self {
        Self {
            inner,
            source,
            start: source.start(),
            is_random: source.method.options().access() == AccessPattern::Random,
            bytes: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
            ended: OnceLock::new(),
        }
    }

    fn count(&self, length: u64) -> ControlFlow<()> {
        let before = self.bytes.fetch_add(length, Ordering::Relaxed);
        if self.is_random {
            return self.tell(before, before + length);
        }
        ControlFlow::Continue(())
    }

    /// Tells the progress from one number of bytes to another, if that is due.
    #[cold]
    fn tell(&self, before: u64, after: u64) -> ControlFlow<()> {
        if self.ended.get().is_some() {
            return ControlFlow::Break(());
        }
        let at = self.start + after;
        if before / TOLD_BYTES == after / TOLD_BYTES && at < self.source.bytes {
            return ControlFlow::Continue(());
        }
        match self.source.tell(at) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                let _ = self.ended.set(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Consumer for Delivered<'_> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        self.count(chunk.len() as u64)?;
        self.inner.data(offset - self.start, chunk)
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.count(length)?;
        self.hole_bytes.fetch_add(length, Ordering::Relaxed);
        self.inner.zeros(offset - self.start, length)
    }

    fn needs_order(&self) -> bool {
        self.inner.needs_order()
    }

    fn has_places(&self) -> bool {
        self.inner.has_places()
    }

    fn place(&self, offset: u64, length: usize) -> Option<CallerMemory<'_>> {
        let place = self.inner.place(offset - self.start, length)?;
        // Without a place, the block is passed to `data`, which ends the read.
        self.count(length as u64).is_continue().then_some(place)
    }

    fn spare(&self, bytes: usize) -> Option<Buffer> {
        self.inner.spare(bytes)
    }

    fn filled(&self, offset: u64, buffer: Buffer, length: usize) -> ControlFlow<()> {
        self.count(length as u64)?;
        self.inner.filled(offset - self.start, buffer, length)
    }
}
