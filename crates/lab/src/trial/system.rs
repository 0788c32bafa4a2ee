//! Counters of the whole system, for the columns of vmstat(8): from `proc_stat(5)`, `/proc/vmstat` and
//! `proc_meminfo(5)`.

use std::fs;

use seekless_record::SystemUse;

use crate::noise::CpuTime;

/// Shorter trials have only the growth of the cache, because processor time is counted in ticks of 10 ms, and reading
/// the counters would dominate.
pub const SHORTEST_SECONDS: f64 = 0.1;

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
    #[must_use]
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
    #[must_use]
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
        assert_eq!(
            [during.user, during.system, during.idle, during.wait, during.stolen],
            [Some(0.3), Some(0.2), Some(0.3), Some(0.1), Some(0.1)]
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
