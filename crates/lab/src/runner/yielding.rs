//! Waiting while others use the devices.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Runner;
use crate::trial::requests_of;

/// How long the devices are watched, and with how many requests they are not in use: between trials nothing of ours is
/// under way but what a journal writes.
type Quiet = (Duration, u64);
/// Before each trial.
const GLANCE: Quiet = (Duration::from_millis(20), 2);
/// Where they were in use.
const AGAIN: Quiet = (Duration::from_millis(500), 10);
/// A device that is always in use is measured all the same, after so long in all: the run's noise tells.
const MOST: Duration = Duration::from_secs(600);
/// How often a request to stop is looked for.
const STEP: Duration = Duration::from_millis(50);

impl Runner<'_> {
    /// Waits until nobody else uses the devices. The clock of the run stands still meanwhile.
    pub(super) fn wait_for_others(&mut self) {
        let devices = self.places.iter().filter_map(|place| place.facts.device.as_ref());
        let folders: Vec<_> = devices.map(|device| device.sys_folder.clone()).collect();
        let start = Instant::now();
        let mut quiet = GLANCE;
        while !self.stop.is_requested() && self.waited + start.elapsed() < MOST && are_used(&folders, quiet) {
            quiet = AGAIN;
        }
        let waited = start.elapsed();
        self.started += waited;
        if quiet == AGAIN {
            self.waited += waited;
        }
    }
}

/// Whether others use one of these devices.
fn are_used<P: AsRef<Path>>(folders: &[P], (watch, few): Quiet) -> bool {
    let all = || {
        folders
            .iter()
            .filter_map(|folder| requests_of(folder.as_ref()))
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
