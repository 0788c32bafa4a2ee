//! Who takes the bytes of a read.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Chunk;

/// Bytes that direct I/O can reach.
#[repr(align(4096))]
pub(crate) struct Aligned(pub [u8; 64 << 10]);

/// Zeros, so many that feeding a hole costs few calls.
pub(crate) static ZEROS: Aligned = Aligned([0; 64 << 10]);

/// Takes the bytes of a read, chunk by chunk.
///
/// It is shared, because `threads` hands it chunks from several threads at once, in any order; a consumer that needs
/// them in order says so. [`sequential`] makes one from a closure.
pub trait Consumer: Sync {
    /// Takes the bytes that start at `offset`, which counts from the start of what is read. `Break` ends the read early.
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()>;

    /// Takes a hole: `length` zeros from `offset`. The default feeds zeros to [`Consumer::data`]; a consumer that can
    /// do without looking at them should.
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
}

/// A consumer made by [`sequential`].
pub struct Sequential<F>(Mutex<F>);

/// Makes a consumer of a closure that gets the offset and the bytes, in order, and may break off.
pub fn sequential<F: FnMut(u64, &[u8]) -> ControlFlow<()> + Send>(take: F) -> Sequential<F> {
    Sequential(Mutex::new(take))
}

impl<F: FnMut(u64, &[u8]) -> ControlFlow<()> + Send> Consumer for Sequential<F> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        // A closure that panicked has poisoned the lock; its panic is already on its way to the caller.
        let Ok(mut take) = self.0.lock() else {
            return ControlFlow::Break(());
        };
        chunk.for_each_slice(|start, bytes| take(offset + start as u64, bytes))
    }
}

/// Counts the bytes that reach another consumer, and tells it offsets from where the part begins.
pub(crate) struct Delivered<'a> {
    inner: &'a dyn Consumer,
    start: u64,
    pub bytes: AtomicU64,
    /// How many of these came as holes.
    pub hole_bytes: AtomicU64,
}

impl<'a> Delivered<'a> {
    pub fn to(inner: &'a dyn Consumer, start: u64) -> Self {
        Self {
            inner,
            start,
            bytes: AtomicU64::new(0),
            hole_bytes: AtomicU64::new(0),
        }
    }
}

impl Consumer for Delivered<'_> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        self.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        self.inner.data(offset - self.start, chunk)
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.bytes.fetch_add(length, Ordering::Relaxed);
        self.hole_bytes.fetch_add(length, Ordering::Relaxed);
        self.inner.zeros(offset - self.start, length)
    }

    fn needs_order(&self) -> bool {
        self.inner.needs_order()
    }
}
