//! How quiet the machine was: steal time, processor time of other processes, and the cost of the lab itself.

use std::fs;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Whose};

use crate::generator::Generator;

/// The processors' time since the start of the system (`proc_stat(5)`), in ticks and in the columns of vmstat(8): of programs,
/// of the kernel, idle, waiting, stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime([u64; 5]);

impl CpuTime {
    /// Reads it; `None` if the system does not report it.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of `/proc/stat`: `nice` counts as programs, interrupts count as the kernel.
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

    /// The part of the time since that other processes used, 0 to 1: all busy time except `own`, the time of this process and its
    /// children. It includes the kernel's threads that write our data back.
    fn others_since(self, earlier: Self, own: Duration) -> Option<f64> {
        let [user, system, ..] = self.parts_since(earlier)?;
        let ticks: u64 = self.0.iter().sum::<u64>().checked_sub(earlier.0.iter().sum())?;
        let own = own.as_secs_f64() / (TICK.as_secs_f64() * ticks.max(1) as f64);
        Some((user + system - own).clamp(0.0, 1.0))
    }

    /// The part of each column in the time since, 0 to 1; `None` where there was none.
    pub fn parts_since(self, earlier: Self) -> Option<[f64; 5]> {
        // The waiting time may decrease (proc_stat(5)).
        let spent: [u64; 5] = std::array::from_fn(|column| self.0[column].saturating_sub(earlier.0[column]));
        let all: u64 = spent.iter().sum();
        (all > 0).then(|| spent.map(|ticks| ticks as f64 / all as f64))
    }
}

/// The unit of `/proc/stat`: `USER_HZ` is 100 on all systems that seekless runs on.
const TICK: Duration = Duration::from_millis(10);

/// The load of the processors until now, and our part of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    all: Option<CpuTime>,
    own: Duration,
}

impl Load {
    /// Reads the load.
    pub fn now() -> Self {
        let used = |whose| sys::usage(whose).map_or(Duration::ZERO, |usage| usage.user + usage.system);
        Self {
            all: CpuTime::now(),
            own: used(Whose::Process) + used(Whose::Children),
        }
    }

    /// The parts of all processors' time since then that the host took away, and that other processes used, 0 to 1; `None` if the
    /// system does not report them, or no time has passed.
    pub fn noise_since(self, earlier: Self) -> Option<(f64, f64)> {
        let (now, then) = self.all.zip(earlier.all)?;
        let [.., stolen] = now.parts_since(then)?;
        let others = now.others_since(then, self.own.saturating_sub(earlier.own))?;
        Some((stolen, others))
    }
}

const SAMPLE_BYTES: usize = 16 << 20;

/// The speed at which test data is generated, in bytes per second.
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

    #[test]
    fn others_used_what_was_busy_and_is_not_ours() {
        let before = CpuTime::parse("cpu  10 0 10 70 0 0 0 10 0 0").unwrap();
        // A second of 100 ticks: 40 of programs, 20 of the kernel, 30 idle, 10 stolen.
        let after = CpuTime::parse("cpu  50 0 30 100 0 0 0 20 0 0").unwrap();
        let others = |own_ms| after.others_since(before, Duration::from_millis(own_ms)).unwrap();
        for (own_ms, expected) in [(0, 0.6), (250, 0.35), (600, 0.0), (700, 0.0)] {
            assert!((others(own_ms) - expected).abs() < 1e-9, "{own_ms}: {}", others(own_ms));
        }
        assert_eq!(after.others_since(after, Duration::ZERO), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_busy_loop_of_another_program_is_noticed() {
        let processors = std::thread::available_parallelism().unwrap().get() as f64;
        let loops = "while :; do :; done";
        let mut busy = std::process::Command::new("sh").args(["-c", loops]).spawn().unwrap();
        let before = Load::now();
        std::thread::sleep(Duration::from_millis(500));
        // Until it has been waited for, its time is not this process's.
        let noise = Load::now().noise_since(before);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let (_, others) = noise.unwrap();
        assert!(others * processors > 0.5, "{others} of {processors}");
    }
}
