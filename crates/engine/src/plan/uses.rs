//! Noting what a plan predicted and what its operation then took, by which a profile is checked.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::Plan;
use crate::facts::Planner;

/// Operations that were begun, and those that have not ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// A shorter use is not noted.
const SHORTEST: Duration = Duration::from_millis(20);

/// The clock of a planned operation.
#[derive(Debug)]
pub struct PlanClock {
    started: Instant,
    /// How many operations of this process were begun; `None` if another one was running.
    number: Option<u64>,
}

impl PlanClock {
    /// Starts the clock, before the operation.
    #[must_use]
    pub fn start() -> Self {
        let number = BEGUN.fetch_add(1, Relaxed) + 1;
        let is_alone = RUNNING.fetch_add(1, Relaxed) == 0;
        Self {
            started: Instant::now(),
            number: is_alone.then_some(number),
        }
    }

    /// Notes the use of a plan on a path, with the bytes that were moved or compared, if it took at least 20 ms and no other planned
    /// operation of this process ran meanwhile. A use that cannot be noted is lost. Without the feature `profile`, nothing is noted.
    pub fn note(self, path: &Path, plan: &Plan, bytes: u64, planner: Planner<'_>) {
        let took = self.started.elapsed();
        if took >= SHORTEST && self.number == Some(BEGUN.load(Relaxed)) && !plan.predicted.value.is_zero() {
            note(path, plan, bytes, took, planner);
        }
    }
}

impl Drop for PlanClock {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Relaxed);
    }
}

#[cfg(feature = "profile")]
use on_storage::note;

#[cfg(not(feature = "profile"))]
fn note(_path: &Path, _plan: &Plan, _bytes: u64, _took: Duration, _planner: Planner<'_>) {}

#[cfg(feature = "profile")]
mod on_storage {
    use std::fs;
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::{Duration, SystemTime};

    use seekless_method::Operation;
    use seekless_record::{Cache, Conditions, PlanUse, Target};
    use seekless_sys::lock_mutex;

    use crate::facts::Planner;
    use crate::plan::from_profile::SMALL_PART;
    use crate::plan::{Plan, Source};
    use crate::profile::{StorageName, StorageUses};
    use crate::{full_text, log};

    pub(super) fn note(path: &Path, plan: &Plan, bytes: u64, took: Duration, planner: Planner<'_>) {
        let Some(conditions) = conditions(plan).filter(|_| planner.profiles.are_found()) else {
            return;
        };
        let sittings = plan.reason.sittings();
        let is_in_doubt = match sittings {
            Some(sittings) => sittings.borrowed_from.is_some(),
            None => plan.facts.iter().any(|named| named.fact.source == Source::Assumed),
        };
        if is_in_doubt {
            return;
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let one = PlanUse {
            unix_seconds: now.as_secs(),
            conditions,
            bytes,
            method: plan.method.to_string(),
            predicted_seconds: plan.predicted.value.as_secs_f64(),
            actual_seconds: took.as_secs_f64(),
            sitting_unix_seconds: sittings.map(|sittings| sittings.newest_unix_seconds),
        };
        if let Err(error) = on_device(path, |uses| uses.add(&one)) {
            log::debug!(path = %path.display(), error = full_text(&error), "a use of a plan is not noted");
        }
    }

    /// The conditions of a use; `None` if part of a file was in the page cache, or that is unknown.
    fn conditions(plan: &Plan) -> Option<Conditions> {
        let operation = plan.method.operation();
        let cache = match operation {
            Operation::Write | Operation::Update => Cache::None,
            _ => {
                let parts: Vec<f64> = plan.resident_parts().collect();
                if parts.is_empty() {
                    return None;
                } else if parts.iter().all(|part| *part <= SMALL_PART) {
                    Cache::Cold
                } else if parts.iter().all(|part| *part >= 1.0 - SMALL_PART) {
                    Cache::Warm
                } else {
                    return None;
                }
            }
        };
        Some(Conditions {
            operation,
            cache,
            target: Target::Fresh,
            durability: plan.method.options().durability(),
        })
    }

    /// Calls `add` with the uses on the storage of a path, which is identified once for each device.
    fn on_device(path: &Path, add: impl FnOnce(&StorageUses) -> io::Result<()>) -> io::Result<()> {
        static DEVICES: Mutex<Vec<(u64, StorageUses)>> = Mutex::new(Vec::new());
        let device = fs::metadata(path)?.dev();
        let mut devices = lock_mutex(&DEVICES);
        if !devices.iter().any(|(known, _)| *known == device) {
            let name = StorageName::of(path).map_err(io::Error::other)?;
            devices.push((device, StorageUses::of(&name)));
        }
        let found = devices.iter().find(|(known, _)| *known == device);
        found.map_or(Ok(()), |(_, uses)| add(uses))
    }
}
