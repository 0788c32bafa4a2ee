//! Extra work for consumer and producer, so that a user sees when overlapping starts to pay.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use seekless::{Chunk, Consumer, Producer};

/// Keeps the processor busy for so many nanoseconds for each KiB of `bytes`.
fn work(ns_per_kib: u64, bytes: usize) {
    if ns_per_kib == 0 {
        return;
    }
    let end = Instant::now() + Duration::from_nanos(ns_per_kib * bytes as u64 / 1024);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// A consumer that works on each chunk for longer.
pub struct BusyConsumer<'a> {
    /// The consumer itself.
    pub inner: &'a dyn Consumer,
    /// The extra work, in nanoseconds per KiB.
    pub ns_per_kib: u64,
}

impl Consumer for BusyConsumer<'_> {
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

/// A producer that works on each block for longer.
pub struct BusyProducer<'a> {
    /// The producer itself.
    pub inner: &'a dyn Producer,
    /// The extra work, in nanoseconds per KiB.
    pub ns_per_kib: u64,
}

impl Producer for BusyProducer<'_> {
    fn produce(&self, offset: u64, bytes: &mut [u8]) {
        work(self.ns_per_kib, bytes.len());
        self.inner.produce(offset, bytes);
    }
}
