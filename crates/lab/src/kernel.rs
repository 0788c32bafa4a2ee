//! What is done with the bytes: the kernels of a read and their answers, and simulated processing.

use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use seekless_engine::{Chunk, Consumer, Producer};
use seekless_sys::lock_mutex;

seekless_record::words! {
    /// What is done with the bytes.
    #[derive(Default)]
    Kernel {
        /// Nothing. Of a mapped file, each page is touched, because otherwise it would not be read.
        None = "none",
        /// Occurrences of the byte 0xFF are counted (the check of the 2014 document).
        #[default]
        Count = "count",
        /// Occurrences of every byte are counted (2003).
        Histogram = "histogram",
        /// Newlines are counted (2012).
        Lines = "lines",
    }
}

impl Kernel {
    /// The expected answer for a histogram.
    #[must_use]
    pub fn answer(self, histogram: &[u64]) -> KernelAnswer {
        match self {
            Self::None => KernelAnswer::Unseen,
            Self::Count => KernelAnswer::Count(histogram[usize::from(NEEDLE)]),
            Self::Lines => KernelAnswer::Count(histogram[usize::from(b'\n')]),
            Self::Histogram => KernelAnswer::Histogram(histogram.to_vec()),
        }
    }
}

/// The byte that [`Kernel::Count`] counts.
const NEEDLE: u8 = 0xff;

/// What a kernel found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelAnswer {
    /// The bytes were not looked at.
    Unseen,
    /// How often the byte, or the newline, occurs.
    Count(u64),
    /// How often each byte occurs.
    Histogram(Vec<u64>),
}

/// A consumer that runs a kernel, called from any number of threads.
pub struct Tally {
    kernel: Kernel,
    count: AtomicU64,
    histogram: Mutex<[u64; 256]>,
}

impl Tally {
    /// An empty tally.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            count: AtomicU64::new(0),
            histogram: Mutex::new([0; 256]),
        }
    }

    /// What was found.
    #[must_use]
    pub fn answer(&self) -> KernelAnswer {
        match self.kernel {
            Kernel::None => KernelAnswer::Unseen,
            Kernel::Count | Kernel::Lines => KernelAnswer::Count(self.count.load(Ordering::Relaxed)),
            Kernel::Histogram => KernelAnswer::Histogram(self.counts().to_vec()),
        }
    }

    /// How often each byte occurs; only for [`Kernel::Histogram`].
    pub fn counts(&self) -> std::sync::MutexGuard<'_, [u64; 256]> {
        lock_mutex(&self.histogram)
    }

    /// Adds how often `byte` occurs, by the widest vectors the processor has.
    fn add_to_count(&self, chunk: Chunk<'_>, byte: u8) {
        let found = match chunk {
            Chunk::Memory(bytes) => memchr::memchr_iter(byte, bytes).count() as u64,
            Chunk::Mapped(bytes) => bytes.raw().count(byte),
        };
        self.count.fetch_add(found, Ordering::Relaxed);
    }
}

impl Consumer for Tally {
    fn data(&self, _offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        match self.kernel {
            Kernel::None => chunk.touch(),
            Kernel::Count => self.add_to_count(chunk, NEEDLE),
            Kernel::Lines => self.add_to_count(chunk, b'\n'),
            Kernel::Histogram => {
                let mut counts = [0; 256];
                match chunk {
                    Chunk::Memory(bytes) => histogram(bytes, &mut counts),
                    Chunk::Mapped(bytes) => bytes.raw().histogram(&mut counts),
                }
                for (total, count) in self.counts().iter_mut().zip(counts) {
                    *total += count;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn zeros(&self, _offset: u64, length: u64) -> ControlFlow<()> {
        if self.kernel == Kernel::Histogram {
            self.counts()[0] += length;
        }
        ControlFlow::Continue(())
    }

    fn needs_order(&self) -> bool {
        false
    }
}

/// Adds how often each byte occurs. Four tables, so that equal neighbours do not wait for each other's store.
fn histogram(bytes: &[u8], counts: &mut [u64; 256]) {
    let mut tables = [[0_u64; 256]; 4];
    let (quads, rest) = bytes.as_chunks::<4>();
    for quad in quads {
        for (table, &byte) in tables.iter_mut().zip(quad) {
            table[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        tables[0][usize::from(byte)] += 1;
    }
    for (byte, count) in counts.iter_mut().enumerate() {
        *count += tables.iter().map(|table| table[byte]).sum::<u64>();
    }
}

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

/// A consumer or producer with simulated processing of each chunk, which shows when overlapping pays off.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_engine::method::{MECHANISMS, Operation, variants};
    use seekless_engine::{Probe, Reader};

    use super::*;
    use crate::generator::Generator;

    fn naive(kernel: Kernel, bytes: &[u8]) -> KernelAnswer {
        let mut counts = vec![0; 256];
        for &byte in bytes {
            counts[usize::from(byte)] += 1;
        }
        kernel.answer(&counts)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if crate::is_long() { 256 } else { 32 }))]

        #[test]
        fn kernels_agree_with_looking_at_each_byte(bytes: Vec<u8>, split: prop::sample::Index, hole in 0u64..200_000) {
            let at = if bytes.is_empty() { 0 } else { split.index(bytes.len()) };
            let mut whole = bytes.clone();
            whole.splice(at..at, std::iter::repeat_n(0, hole as usize));
            for kernel in Kernel::ALL {
                let tally = Tally::new(kernel);
                let _ = tally.data(0, Chunk::Memory(&bytes[..at]));
                let _ = tally.zeros(at as u64, hole);
                let _ = tally.data(at as u64 + hole, Chunk::Memory(&bytes[at..]));
                prop_assert_eq!(tally.answer(), naive(kernel, &whole));
            }
        }
    }

    #[test]
    fn kernels_find_the_same_by_every_method() {
        seekless_engine::allow_mapping().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut bytes = vec![0; 1_000_003];
        Generator::new(42).fill(0, &mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let expected = Kernel::ALL.map(|kernel| (kernel, naive(kernel, &bytes)));
        let mut probe = Probe::new(directory.path()).unwrap();
        let reading = MECHANISMS
            .iter()
            .filter(|mechanism| mechanism.operation == Operation::Read);
        // The engine's own tests read by every method what std reads.
        for method in reading.flat_map(variants).step_by(if crate::is_long() { 1 } else { 7 }) {
            if let Some(reason) = probe.availability(&method).reason() {
                println!("skipped: {method}: {reason}");
                continue;
            }
            for (kernel, answer) in &expected {
                let tally = Tally::new(*kernel);
                Reader::prepare_for(&method, 1 << 20)
                    .unwrap()
                    .read(&path, &tally)
                    .unwrap();
                assert_eq!(tally.answer(), *answer, "{method} {kernel}");
            }
        }
    }
}
