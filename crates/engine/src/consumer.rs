//! Who takes the bytes of a read.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::Chunk;

/// A page of zeros, large enough that feeding a hole costs few calls.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Takes the bytes of a read, chunk by chunk.
///
/// It is shared, because `threads` hands it chunks from several threads at once, in any order; a consumer that needs
/// them in order says so. [`sequential`] makes one from a closure.
pub trait Consumer: Sync {
    /// Takes the bytes that start at `offset`. `Break` ends the read early.
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()>;

    /// Takes a hole: `length` zeros from `offset`. The default feeds zeros to [`Consumer::data`]; a consumer that can
    /// do without looking at them should.
    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(ZEROS.len() as u64);
            self.data(offset + done, Chunk::Memory(&ZEROS[..piece as usize]))?;
            done += piece;
        }
        ControlFlow::Continue(())
    }

    /// Whether chunks must come in order, one at a time.
    fn needs_order(&self) -> bool {
        true
    }
}

/// A consumer made by [`sequential`].
pub struct Sequential<F>(Mutex<F>);

/// Makes a consumer of a closure that gets the offset and the bytes, in order.
pub fn sequential<F: FnMut(u64, &[u8]) + Send>(take: F) -> Sequential<F> {
    Sequential(Mutex::new(take))
}

impl<F: FnMut(u64, &[u8]) + Send> Consumer for Sequential<F> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        // A closure that panicked has poisoned the lock; its panic is already on its way to the caller.
        let Ok(mut take) = self.0.lock() else {
            return ControlFlow::Break(());
        };
        chunk.for_each_slice(|start, bytes| take(offset + start as u64, bytes));
        ControlFlow::Continue(())
    }
}
