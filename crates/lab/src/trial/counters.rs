//! Counters of the system, read before and after a trial: of the process, the devices, and the whole system, for the
//! columns of vmstat(8): from `proc_stat(5)`, `/proc/vmstat` and `proc_meminfo(5)`.

use std::fs;
use std::path::Path;

use seekless_record::{DeviceCounters, SystemUse};
use seekless_sys::{self as sys, ProcessIo, Usage, Whose};

use super::TrialRequest;
use crate::noise::CpuTime;

/// The counters that are read before and after.
pub(super) struct Counters {
    pub usage: Usage,
    pub io: Option<ProcessIo>,
    pub device: Option<DeviceCounters>,
    pub system: SystemCounters,
}

impl Counters {
    pub fn now(spec: &TrialRequest) -> Self {
        let whose = if spec.is_of_command() {
            Whose::Children
        } else {
            Whose::Process
        };
        Self {
            usage: sys::usage(whose).unwrap_or_default(),
            // The I/O of a command is added to that of its parent when it has ended.
            io: sys::process_io().ok().and_then(sys::Support::available),
            device: devices_use(spec),
            system: SystemCounters::now(),
        }
    }
}

/// The sum of the counters of all devices of a trial; `None` if one of them has none.
fn devices_use(spec: &TrialRequest) -> Option<DeviceCounters> {
    let mut devices = spec
        .device_directories
        .iter()
        .map(|directory| device_use(Path::new(directory)));
    let first = devices.next()??;
    devices.try_fold(first, |sum, next| Some(combined(sum, next?, u64::saturating_add)))
}

/// Combines each count of one with that of the other.
pub(super) fn combined(one: DeviceCounters, other: DeviceCounters, with: fn(u64, u64) -> u64) -> DeviceCounters {
    let merges = one.read_merges.zip(other.read_merges);
    DeviceCounters {
        reads: with(one.reads, other.reads),
        read_bytes: with(one.read_bytes, other.read_bytes),
        read_merges: merges.map(|(one, other)| with(one, other)),
        writes: with(one.writes, other.writes),
        write_bytes: with(one.write_bytes, other.write_bytes),
        reliable: false,
    }
}

/// Reads a device's `stat` (the kernel's Documentation/block/stat.rst): requests and sectors of 512 bytes.
fn device_use(directory: &Path) -> Option<DeviceCounters> {
    let text = fs::read_to_string(directory.join("stat")).ok()?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    Some(DeviceCounters {
        reads: *numbers.first()?,
        read_merges: numbers.get(1).copied(),
        read_bytes: numbers.get(2)? * 512,
        writes: *numbers.get(4)?,
        write_bytes: numbers.get(6)? * 512,
        reliable: false,
    })
}

/// Shorter trials have only the growth of the cache, because processor time is counted in ticks of 10 ms, and reading
/// the counters would dominate.
const SHORTEST_SECONDS: f64 = 0.1;

/// The system's counters at one time; unknown ones are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCounters {
    ticks: Option<CpuTime>,
    switches: Option<u64>,
    interrupts: Option<u64>,
    blocks_in_kib: Option<u64>,
    cache_kib: Option<u64>,
}

impl SystemCounters {
    /// Reads them.
    pub fn now() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&text("/proc/stat"), &text("/proc/vmstat"), &text("/proc/meminfo"))
    }

    fn parse(stat: &str, vmstat: &str, meminfo: &str) -> Self {
        let first = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
            let (_, numbers) = lines.find(|(found, _)| *found == name)?;
            numbers.split_whitespace().next()?.parse::<u64>().ok()
        };
        Self {
            ticks: CpuTime::parse(stat),
            switches: first(stat, "ctxt"),
            interrupts: first(stat, "intr"),
            blocks_in_kib: first(vmstat, "pgpgin"),
            cache_kib: first(meminfo, "Cached:")
                .zip(first(meminfo, "Buffers:"))
                .map(|(cached, buffers)| cached + buffers),
        }
    }

    /// The changes since then, within this many seconds; `None` if the system reports nothing.
    pub fn since(self, earlier: Self, seconds: f64) -> Option<SystemUse> {
        if self == Self::default() {
            return None;
        }
        let growth = self.cache_kib.zip(earlier.cache_kib);
        let growth = growth.and_then(|(now, then)| {
            let kib = i64::try_from(now).ok()? - i64::try_from(then).ok()?;
            kib.checked_mul(1024)
        });
        let of_cache = SystemUse {
            cache_growth_bytes: growth,
            ..SystemUse::default()
        };
        if seconds < SHORTEST_SECONDS {
            return Some(of_cache);
        }
        let rate = |now: Option<u64>, then: Option<u64>| {
            let (now, then) = now.zip(then)?;
            Some(now.saturating_sub(then) as f64 / seconds)
        };
        let parts = self.ticks.zip(earlier.ticks);
        let parts = parts.and_then(|(now, then)| now.parts_since(then));
        let [user, system, idle, wait, stolen] = parts.map_or([None; 5], |parts| parts.map(Some));
        Some(SystemUse {
            user,
            system,
            idle,
            wait,
            stolen,
            switches_per_second: rate(self.switches, earlier.switches),
            interrupts_per_second: rate(self.interrupts, earlier.interrupts),
            blocks_in_kib_per_second: rate(self.blocks_in_kib, earlier.blocks_in_kib),
            ..of_cache
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(stat: &str, pages: &str, memory: &str) -> SystemCounters {
        SystemCounters::parse(stat, pages, memory)
    }

    #[test]
    fn columns_are_those_of_vmstat() {
        let before = counters(
            "cpu  100 10 50 800 20 5 5 10 3 0\ncpu0 1 2\nintr 1000 5 6\nctxt 500\n",
            "nr_free_pages 3\npgpgin 4000\npgpgout 7\n",
            "MemTotal: 9 kB\nBuffers:  100 kB\nCached:   1000 kB\nSwapCached: 7 kB\n",
        );
        let after = counters(
            "cpu  120 20 60 830 30 10 10 20 3 0\ncpu0 1 2\nintr 1200 5 6\nctxt 700\n",
            "nr_free_pages 3\npgpgin 4434\npgpgout 7\n",
            "MemTotal: 9 kB\nBuffers:  90 kB\nCached:   900 kB\nSwapCached: 7 kB\n",
        );
        let during = after.since(before, 2.0).unwrap();
        // 100 ticks: 30 of programs, 20 of the kernel, 30 idle, 10 waiting, 10 stolen.
        let expected = [Some(0.3), Some(0.2), Some(0.3), Some(0.1), Some(0.1)];
        assert_eq!(
            [during.user, during.system, during.idle, during.wait, during.stolen],
            expected
        );
        assert_eq!(during.switches_per_second, Some(100.0));
        assert_eq!(during.interrupts_per_second, Some(100.0));
        assert_eq!(during.blocks_in_kib_per_second, Some(217.0));
        assert_eq!(during.cache_growth_bytes, Some(-110 * 1024));
    }

    #[test]
    fn short_trials_have_no_parts_and_no_rates() {
        let counters = counters(
            "cpu  1 1 1 1 1 1 1 1\nctxt 5\nintr 6\n",
            "pgpgin 7\n",
            "Cached: 1 kB\nBuffers: 1 kB\n",
        );
        let during = counters.since(counters, SHORTEST_SECONDS / 2.0).unwrap();
        let growth = SystemUse {
            cache_growth_bytes: Some(0),
            ..SystemUse::default()
        };
        assert_eq!(during, growth);
        // No tick passed, as far as the clock tells: that is no part of anything.
        assert_eq!(counters.since(counters, 1.0).unwrap().user, None);
    }

    #[test]
    fn what_a_system_does_not_tell_is_none() {
        let nothing = counters("", "", "");
        assert_eq!(nothing.since(nothing, 1.0), None);
        let odd = counters("cpu  1 2 x\nctxt many\n", "pgpgin\n", "Cached: 1 kB\n");
        assert_eq!(odd, SystemCounters::default());
        let backwards = counters("cpu  1 1 1 1 9 1 1 1\n", "", "");
        let later = counters("cpu  2 1 1 1 8 1 1 1\n", "", "");
        assert_eq!(later.since(backwards, 1.0).unwrap().wait, Some(0.0));
    }
}
