//! How quiet the machine was: time stolen by the host, and what the lab itself costs.

use std::fs;
use std::time::Instant;

use crate::generator::Generator;

/// The processors' time since the start of the system (`proc_stat(5)`), in ticks.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    all: u64,
    stolen: u64,
}

impl CpuTime {
    /// Reads it; `None` where the system does not tell.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        Some(Self {
            all: ticks.iter().take(8).sum(),
            stolen: *ticks.get(7)?,
        })
    }

    /// The part stolen since, 0 to 1.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> f64 {
        (self.stolen.saturating_sub(earlier.stolen)) as f64 / (self.all.saturating_sub(earlier.all)).max(1) as f64
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
        assert!((after.stolen_since(before) - 0.1).abs() < 1e-9);
        assert!(CpuTime::parse("").is_none());
    }
}
