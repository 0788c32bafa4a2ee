//! Simulated processing for consumers and producers, which shows when overlapping pays off.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use seekless::{Chunk, Consumer, Producer};

/// Keeps the processor busy for this many nanoseconds for each KiB of `bytes`.
fn work(ns_per_kib: u64, bytes: usize) {
    if ns_per_kib == 0 {
        return;
    }
    let end = Instant::now() + Duration::from_nanos(ns_per_kib * bytes as u64 / 1024);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// A consumer or producer with simulated processing of each chunk.
pub struct Busy<T> {
    /// The consumer or producer itself.
    pub inner: T,
    /// The simulated processing, in nanoseconds per KiB.
    pub ns_per_kib: u64,
}

impl Consumer for Busy<&dyn Consumer> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        work(self.ns_per_kib, chunk.len());
        self.inner.data(offset, chunk)
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.inner.zeros(offset, length)
    }

    fn needs_order(&self) -> bool {
        self.inner.needs_order()
    }
}

impl<T: Producer> Producer for Busy<T> {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        work(self.ns_per_kib, bytes.len());
        self.inner.produce(offset, bytes)
    }
}
