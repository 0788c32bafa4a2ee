//! Plans from what was measured: the candidates are the curves of the storage's profile, asked before anything is called certain.
//!
//! The method to use has the least expected regret: what it takes longer than another one, over what is known of both. Of methods
//! whose regret is nearly the same, one that leaves the file in the page cache is used, then the one that needs least processor
//! time, then the simplest. The time is the sum of set-up, of the part that is in the page cache, and of the part that is not.

use std::time::Duration;

use seekless_method::{
    CachePolicy, CompareMechanism, CopyMechanism, Durability, MechanismId, Method, Operation, Preallocate,
    ReadMechanism, Setting, WriteMechanism,
};
use seekless_record::{Cache, Conditions, DEVIATION_BETWEEN_STORAGES, ERRORS_OF_BOUNDS, Target};

use super::{
    BUFFERS_PART, FILES_OF_SCAN, MeasuredSittings, Plan, Predicted, Reason, SAME_REGRET, SPARE, SizeTimes, Task,
    resident, sizes, usual,
};
use crate::facts::{Costs, Facts, FileFacts, ProcessFacts};
use crate::profile::{StorageProfile, time_since};

/// So little more processor time decides nothing.
const SAME_CPU: f64 = 1.1;
/// In a list of sizes, a method stays the one to use up to this much more regret.
const STAYS_REGRET: f64 = 0.03;
/// A larger standard error says nothing.
const MOST_ERROR: f64 = 3.5;
/// 30 years: nothing takes longer.
const MOST_SECONDS: f64 = 1e9;
/// Of more methods under the same conditions, only so many of the fastest are compared: no experiment has as many.
const MOST_COMPARED: usize = 64;
/// A part in the page cache smaller than this, or lacking less than this, does not count.
pub(super) const SMALL_PART: f64 = 0.02;

/// A method that was measured, with its time for this task.
struct MeasuredMethod {
    method: Method,
    seconds: f64,
    /// The standard error of the logarithm of the seconds, apart from what those of all methods have in common.
    error: f64,
    /// The standard deviation of what they have in common.
    level_deviation: f64,
    cpu_seconds: f64,
    /// Whether the size is among those that were measured, not beyond them.
    is_within: bool,
    sittings: u32,
    /// When the newest of them began, in seconds since 1970.
    newest_unix_seconds: u64,
}

/// The plan for a task, if enough was measured for it.
pub(super) fn plan(operation: Operation, task: &Task, facts: &Facts) -> Option<Plan> {
    let asked = ProfileQuery {
        profile: facts.profile?,
        operation,
        task,
        facts,
    };
    let part = asked.part();
    let found = asked.measured(part);
    let used = &found[best(&found)?];
    Some(Plan {
        method: used.method,
        otherwise: usual(operation).with(task.durability).ok()?,
        predicted: used.predicted(),
        is_certain: true,
        reason: asked.reason(&found, used, part),
        facts: facts.files[0].resident.map(resident).into_iter().collect(),
    })
}

/// The place of the method to use; `None` if there is no choice.
fn best(found: &[MeasuredMethod]) -> Option<usize> {
    let regrets: Vec<f64> = found.iter().map(|one| one.regret(found)).collect();
    let least = regrets.iter().copied().reduce(f64::min).filter(|_| found.len() > 1)?;
    let near: Vec<usize> = (0..found.len())
        .filter(|&at| regrets[at] <= least + SAME_REGRET)
        .collect();
    let leaves_cached = |at: usize| found[at].method.options().cache() == CachePolicy::Cached;
    let cached: Vec<usize> = near.iter().copied().filter(|&at| leaves_cached(at)).collect();
    let near = if cached.is_empty() { near } else { cached };
    let least_cpu = near.iter().map(|&at| found[at].cpu_seconds).fold(f64::MAX, f64::min);
    let few = near
        .into_iter()
        .filter(|&at| found[at].cpu_seconds <= SAME_CPU * least_cpu);
    few.min_by_key(|&at| found[at].method.simplicity_rank())
}

/// The method with least to get wrong.
fn simplest(found: &[MeasuredMethod]) -> Option<&MeasuredMethod> {
    found.iter().min_by_key(|one| one.method.simplicity_rank())
}

/// The methods to use over all sizes that a profile covers, for a file or [`FILES_OF_SCAN`], if everything works and there is memory; ascending. `part` of a file to
/// read is in the page cache.
#[must_use]
pub fn curve(profile: &StorageProfile, operation: Operation, durability: Durability, part: f64) -> Vec<SizeTimes> {
    let file = FileFacts {
        direct_alignment: Some(4096),
        ..FileFacts::default()
    };
    let process = ProcessFacts {
        can_map: true,
        has_rings: true,
        ..ProcessFacts::without_rings()
    };
    let facts = Facts::assumed([file; 2], process);
    let mut curve: Vec<SizeTimes> = Vec::new();
    for bytes in sizes(10..40) {
        let files = if operation == Operation::Scan { FILES_OF_SCAN } else { 1 };
        let task = Task {
            files,
            bytes,
            durability,
        };
        let asked = ProfileQuery {
            profile,
            operation,
            task: &task,
            facts: &facts,
        };
        let mut found = asked.measured(part);
        found.retain(|one| one.is_within);
        let Some(best) = best(&found).map(|best| &found[best]) else {
            continue;
        };
        // A method stays until another one is clearly better.
        let before = curve
            .last()
            .and_then(|last| found.iter().find(|one| one.method == last.method));
        let used = before
            .filter(|before| before.regret(&found) <= best.regret(&found) + STAYS_REGRET)
            .unwrap_or(best);
        let plain = simplest(&found).map_or(used.seconds, |plain| plain.seconds);
        curve.push(SizeTimes {
            bytes,
            method: used.method,
            predicted: used.predicted(),
            over_plain: found.iter().map(|one| (one.method, one.seconds / plain)).collect(),
        });
    }
    curve
}

/// All methods that were measured and can be used for a task, with their times, the fastest first.
#[must_use]
pub fn alternatives(operation: Operation, task: &Task, facts: &Facts) -> Vec<(Method, Predicted)> {
    let Some(profile) = facts.profile else {
        return Vec::new();
    };
    let asked = ProfileQuery {
        profile,
        operation,
        task,
        facts,
    };
    let mut found = asked.measured(asked.part());
    found.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    found.iter().map(|one| (one.method, one.predicted())).collect()
}

/// A task on a storage with a profile.
struct ProfileQuery<'a> {
    profile: &'a StorageProfile,
    operation: Operation,
    task: &'a Task,
    facts: &'a Facts<'a>,
}

impl ProfileQuery<'_> {
    /// The part of what is read that is in the page cache.
    fn part(&self) -> f64 {
        let [one, other] = self.facts.files.map(|file| file.resident_part());
        match self.operation {
            Operation::Write | Operation::Update => 0.0,
            Operation::Compare => one.midpoint(other),
            Operation::Read | Operation::Copy | Operation::Scan => one,
        }
    }

    fn conditions(&self, cache: Cache) -> Conditions {
        Conditions {
            operation: self.operation,
            cache,
            target: Target::Fresh,
            durability: self.task.durability,
        }
    }

    /// The methods that were measured and can be used, if `part` of the bytes to read is in the page cache.
    fn measured(&self, part: f64) -> Vec<MeasuredMethod> {
        let cache = match self.operation {
            Operation::Write => Cache::None,
            _ if part >= 1.0 - SMALL_PART => Cache::Warm,
            _ => Cache::Cold,
        };
        self.measured_under(self.conditions(cache), part)
    }

    fn measured_under(&self, conditions: Conditions, part: f64) -> Vec<MeasuredMethod> {
        let is_mixed = conditions.cache == Cache::Cold && part >= SMALL_PART;
        let warm = self.conditions(Cache::Warm);
        let elsewhere = self.profile.deviation_elsewhere();
        let found = self.profile.curves(conditions).filter_map(|(method, curve)| {
            let time = curve.at(self.task.bytes)?;
            let (mut seconds, mut error) = (time.log_seconds.exp(), time.error);
            if is_mixed {
                let mut cached = self.profile.curves(warm);
                let cached = cached.find(|(found, _)| *found == method)?.1.at(self.task.bytes)?;
                seconds = (1.0 - part) * seconds + part * cached.log_seconds.exp();
                error = error.max(cached.error);
            }
            seconds *= self.task.files as f64;
            // Of impossible figures, and of those that are known within a factor of a million only, nothing follows.
            if !(time.error.hypot(time.level_deviation) < MOST_ERROR && seconds < MOST_SECONDS) {
                return None;
            }
            Some(MeasuredMethod {
                method: self.fitting(*method)?,
                error: error.hypot(elsewhere),
                level_deviation: time.level_deviation.hypot(
                    self.profile
                        .deviation_in_use(|of| *of == conditions, time.newest_unix_seconds),
                ),
                cpu_seconds: time.cpu_part * seconds,
                seconds: seconds + time.setup_seconds / self.facts.process.files_of_a_plan as f64,
                is_within: time.is_within,
                sittings: time.sittings,
                newest_unix_seconds: time.newest_unix_seconds,
            })
        });
        let mut found: Vec<MeasuredMethod> = found.collect();
        if found.len() > MOST_COMPARED {
            found.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
            found.truncate(MOST_COMPARED);
        }
        found
    }

    /// A method as it can be used for the task; `None` if it cannot.
    fn fitting(&self, method: Method) -> Option<Method> {
        let options = method.options();
        let [depth, threads] = [options.depth().unwrap_or(1), options.threads()].map(u64::from);
        let in_flight = match self.operation {
            Operation::Scan => depth * threads,
            _ => depth.max(threads).max(2),
        };
        let buffer_bytes = options.block_bytes().unwrap_or(0).saturating_mul(in_flight);
        let [from, to] = self.facts.files;
        let needed = match self.operation {
            Operation::Read | Operation::Scan => [Some(from), None],
            Operation::Write => [None, Some(to)],
            _ => [Some(from), Some(to)],
        };
        let mut needed = needed.into_iter().flatten();
        let is_possible = match options.cache() {
            CachePolicy::Direct => needed.all(|file| file.direct_alignment.is_some()),
            _ => !maps(&method) || self.facts.process.can_map,
        };
        if !is_possible || buffer_bytes > self.facts.memory_bytes / BUFFERS_PART {
            return None;
        }
        match self.operation {
            Operation::Scan if options.depth().is_some() && !self.facts.process.has_rings => None,
            Operation::Copy => match method.with(Setting::holes_skipped(true)) {
                Err(_) if from.is_sparse() => None,
                skipping => Some(skipping.unwrap_or(method)),
            },
            // Mapping each data range takes longer.
            Operation::Compare if maps(&method) && (from.is_sparse() || to.is_sparse()) => None,
            Operation::Write if self.task.bytes.saturating_mul(SPARE) >= self.facts.free_bytes => {
                Some(method.with(Preallocate::Allocate).unwrap_or(method))
            }
            _ => Some(method),
        }
    }

    /// The sittings asked, what they say, and which state of the page cache would change the choice.
    fn reason(&self, found: &[MeasuredMethod], used: &MeasuredMethod, part: f64) -> Reason {
        let plain = simplest(found).filter(|plain| plain.method != used.method);
        let is_cached = part >= 0.5;
        let others = if self.operation == Operation::Write {
            Vec::new()
        } else {
            self.measured(if is_cached { 0.0 } else { 1.0 })
        };
        let instead = best(&others).map(|best| others[best].method);
        Reason::Measured {
            sittings: sittings(self.profile, used.sittings, used.newest_unix_seconds),
            plain: plain.map(|plain| (plain.method, used.seconds / plain.seconds)),
            files: self.task.files,
            is_cached,
            instead: instead.filter(|method| *method != used.method),
        }
    }
}

/// The sittings that a plan by a profile rests on.
fn sittings(profile: &StorageProfile, count: u32, newest_unix_seconds: u64) -> MeasuredSittings {
    MeasuredSittings {
        count,
        newest_age: time_since(newest_unix_seconds),
        newest_unix_seconds,
        borrowed_from: profile.borrowed_from(),
    }
}

/// The costs of a storage by its profile, and the sittings that they rest on.
pub(crate) fn costs(profile: &StorageProfile) -> Option<(Costs, MeasuredSittings)> {
    let known = profile.head.costs.as_ref()?;
    let elsewhere = if profile.is_borrowed() {
        DEVIATION_BETWEEN_STORAGES
    } else {
        0.0
    };
    let in_use = profile.deviation_in_use(|of| of.operation == Operation::Update, known.newest_unix_seconds);
    let wider = (ERRORS_OF_BOUNDS * elsewhere.hypot(in_use)).exp();
    let basis = sittings(profile, known.sittings, known.newest_unix_seconds);
    Some((Costs::of_profile(&known.costs, wider), basis))
}

/// The bytes between two updates up to which a write of both is faster than one for each, by the costs of a profile; `None` if it has
/// none. `absent_part` of the file is not in the page cache.
#[must_use]
#[expect(clippy::cast_sign_loss, reason = "costs are not negative")]
pub fn shared_gap_bytes(profile: &StorageProfile, durability: Durability, absent_part: f64) -> Option<u64> {
    let (costs, _) = costs(profile)?;
    Some(super::update::worth(&costs, durability, absent_part).1 as u64)
}

/// Whether a method maps files.
fn maps(method: &Method) -> bool {
    matches!(
        method.mechanism().id,
        MechanismId::Read(ReadMechanism::Mmap)
            | MechanismId::Write(WriteMechanism::Mmap)
            | MechanismId::Copy(CopyMechanism::Mmap)
            | MechanismId::Compare(CompareMechanism::Mmap)
    )
}

impl MeasuredMethod {
    /// The expected part by which it takes longer than another one, the largest of all.
    fn regret(&self, all: &[Self]) -> f64 {
        let over = |other: &Self| {
            let behind = (self.seconds / other.seconds).ln();
            let error = self.error.hypot(other.error).max(1e-6);
            // The mean of exp(x) - 1 above 0, for x of a normal distribution.
            let above = normal((behind + error * error) / error);
            (behind + error * error / 2.0).exp() * above - normal(behind / error)
        };
        let others = all.iter().filter(|other| other.method != self.method);
        others.map(over).fold(0.0, f64::max)
    }

    fn predicted(&self) -> Predicted {
        let error = self.error.hypot(self.level_deviation);
        let time = |errors: f64| {
            let seconds = self.seconds * (errors * error).exp();
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        };
        Predicted {
            low: time(-ERRORS_OF_BOUNDS),
            value: time(0.0),
            high: time(ERRORS_OF_BOUNDS),
        }
    }
}

/// The probability that a normal variable is below `x`. Source: Bowling and others, "A logistic approximation to the cumulative
/// normal distribution", 2009; it is off by less than 0.0002.
fn normal(x: f64) -> f64 {
    1.0 / (1.0 + (-(0.07056 * x.powi(3) + 1.5976 * x)).exp())
}

#[cfg(test)]
mod tests;
