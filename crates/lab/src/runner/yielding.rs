//! Waiting while other processes use the devices.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{BenchSession, Event};
use crate::trial::requests_of;

/// How long the devices are watched, and up to how many requests they count as unused. Between trials, our only
/// requests are those of a journal.
type Quiet = (Duration, u64);
/// Before each trial.
const GLANCE: Quiet = (Duration::from_millis(20), 2);
/// After they were in use.
const AGAIN: Quiet = (Duration::from_millis(500), 10);
/// After this total time of waiting, a device is measured even if it is always in use; the noise of the run shows that.
const MOST: Duration = Duration::from_mins(10);
/// How often a request to stop is checked.
const STEP: Duration = Duration::from_millis(50);

impl BenchSession<'_> {
    /// Waits until no other process uses the devices. The run's clock is paused meanwhile.
    pub(super) fn wait_for_others(&mut self) {
        let devices = self.storages.iter().filter_map(|storage| storage.facts.device.as_ref());
        let directories: Vec<_> = devices.map(|device| device.sys_directory.clone()).collect();
        let start = Instant::now();
        let mut quiet = GLANCE;
        while !self.stop.is_requested() && self.clock.waited + start.elapsed() < MOST && are_used(&directories, quiet) {
            if quiet == GLANCE && self.clock.waited.is_zero() {
                self.watch.event(&Event::Yielding);
            }
            quiet = AGAIN;
        }
        let waited = start.elapsed();
        self.clock.started += waited;
        if quiet == AGAIN {
            self.clock.waited += waited;
        }
    }
}

/// Whether other processes use one of these devices.
fn are_used<P: AsRef<Path>>(directories: &[P], (watch, few): Quiet) -> bool {
    let all = || {
        directories
            .iter()
            .filter_map(|directory| requests_of(directory.as_ref()))
            .sum::<u64>()
    };
    let (before, start) = (all(), Instant::now());
    while start.elapsed() < watch {
        std::thread::sleep(STEP.min(watch));
        if all().saturating_sub(before) > few {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_device_is_in_use_while_its_requests_grow() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("stat");
        let tell = |reads: u64| fs::write(&stat, format!("{reads} 0 8 0 5 0 8 0 0 0 0\n")).unwrap();
        tell(10);
        assert!(!are_used(&[directory.path()], GLANCE));
        std::thread::scope(|scope| {
            let grows = scope.spawn(|| {
                for reads in 10..50 {
                    tell(reads);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            assert!(are_used(&[directory.path()], AGAIN));
            grows.join().unwrap();
        });
        assert!(!are_used(&[directory.path()], GLANCE));
        assert!(!are_used(&["/nowhere"], GLANCE), "what does not tell is not in use");
    }
}
