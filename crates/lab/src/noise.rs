//! How quiet the machine was: time stolen by the host, and what the lab itself costs.

use std::fs;
use std::time::Instant;

use crate::generator::Generator;

/// The processors' time since the start of the system (`proc_stat(5)`), in ticks and in the columns of vmstat(8): of programs,
/// of the kernel, idle, waiting, stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime([u64; 5]);

impl CpuTime {
    /// Reads it; `None` where the system does not tell.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// What the first line of `/proc/stat` tells: `nice` is a program's time, interrupts are the kernel's.
    #[must_use]
    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        let [user, nice, system, idle, wait, interrupts, soft_interrupts, stolen, ..] = *ticks.as_slice() else {
            return None;
        };
        let user = user.checked_add(nice)?;
        let system = system.checked_add(interrupts)?.checked_add(soft_interrupts)?;
        Some(Self([user, system, idle, wait, stolen]))
    }

    /// The part of each column in the time since, 0 to 1; `None` where there was none.
    #[must_use]
    pub fn parts_since(self, earlier: Self) -> Option<[f64; 5]> {
        // The time of waiting may run backwards (proc_stat(5)).
        let spent: [u64; 5] = std::array::from_fn(|column| self.0[column].saturating_sub(earlier.0[column]));
        let all: u64 = spent.iter().sum();
        (all > 0).then(|| spent.map(|ticks| ticks as f64 / all as f64))
    }
}

const SAMPLE_BYTES: usize = 16 << 20;

/// The speed at which the producer makes bytes, in bytes per second.
#[must_use]
pub fn producer_bytes_per_second() -> f64 {
    let mut buffer = vec![0; 1 << 20];
    let generator = Generator::new(1);
    // Once, so that the memory has been touched.
    generator.fill(0, &mut buffer);
    let start = Instant::now();
    for offset in (0..SAMPLE_BYTES).step_by(buffer.len()) {
        generator.fill(offset as u64, std::hint::black_box(&mut buffer));
    }
    SAMPLE_BYTES as f64 / start.elapsed().as_secs_f64()
}

/// The speed of the first and of the second touch of memory, in bytes per second.
#[must_use]
pub fn touch_bytes_per_second() -> (f64, f64) {
    let mut memory: Vec<u8> = Vec::with_capacity(SAMPLE_BYTES);
    let start = Instant::now();
    memory.resize(SAMPLE_BYTES, 1);
    std::hint::black_box(&mut memory);
    let first = start.elapsed();
    let start = Instant::now();
    memory.fill(2);
    std::hint::black_box(&mut memory);
    let second = start.elapsed();
    (
        SAMPLE_BYTES as f64 / first.as_secs_f64(),
        SAMPLE_BYTES as f64 / second.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_column() {
        let before = CpuTime::parse("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1").unwrap();
        let after = CpuTime::parse("cpu  20 0 20 140 0 0 0 20 5 5\n").unwrap();
        assert_eq!(after.parts_since(before), Some([0.1, 0.1, 0.7, 0.0, 0.1]));
        assert_eq!(after.parts_since(after), None);
        assert!(CpuTime::parse("").is_none());
    }
}
