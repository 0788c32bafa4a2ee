//! Simulated processing for consumers and producers, which shows when overlapping pays off; and a producer that does
//! almost nothing.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use seekless::{Chunk, Consumer, Producer};

use crate::generator::Generator;

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

impl Producer for Busy<Box<dyn Producer>> {
    fn produce(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        work(self.ns_per_kib, bytes.len());
        self.inner.produce(offset, bytes)
    }
}

/// A producer that fills each buffer once and then leaves it as it is: the start of a stream, whatever the offset.
///
/// fio fills its buffer before its clock and writes it unchanged from then on. A write that is compared with fio's must
/// not make new bytes inside the clock, or the comparison times the generator.
pub struct UnchangedBlock(Generator);

impl UnchangedBlock {
    /// The block of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Generator::new(seed))
    }

    /// Whether the buffer was filled before, by its first and last word. Its address would not tell: a window of a
    /// mapped file may lie where the one before lay, and is empty nevertheless.
    fn is_filled(&self, bytes: &[u8]) -> bool {
        let begins = |offset: usize| {
            let mut word = [0; 8];
            self.0.fill(offset as u64, &mut word);
            let found = &bytes[offset..];
            found[..found.len().min(8)] == word[..found.len().min(8)]
        };
        begins(0) && begins(bytes.len().saturating_sub(8))
    }
}

impl Producer for UnchangedBlock {
    fn produce(&self, _offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if !self.is_filled(bytes) {
            self.0.fill(0, bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_block_fills_what_is_new_and_leaves_the_rest() {
        let producer = UnchangedBlock::new(1);
        let mut expected = vec![0; 100];
        Generator::new(1).fill(0, &mut expected);
        let mut buffer = vec![0; 100];
        producer.produce(4096, &mut buffer).unwrap();
        assert_eq!(buffer, expected);

        buffer[50] ^= 1;
        producer.produce(8192, &mut buffer).unwrap();
        assert_ne!(buffer, expected, "it was filled, so it is not looked at");
        for length in [100, 12, 8, 3, 0] {
            buffer.fill(0);
            producer.produce(0, &mut buffer[..length]).unwrap();
            assert_eq!(buffer[..length], expected[..length]);
        }
    }
}
