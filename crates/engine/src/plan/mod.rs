//! A [`Plan`]: which method to use, how long it will take, and why. [`Reader::plan`](crate::Reader::plan) and others make one.
//!
//! It rests on facts: what the system reports about the file, and the costs of calls and bytes on its storage, which
//! are measured in at most 100 ms. If the method is the same at every plausible cost, nothing is measured. Times are
//! [`Duration`]s; costs are in nanoseconds, for each call or each byte.
//!
//! Not here: doing what was planned, and measuring.

// Inside: pure functions, one file per operation, from a task (`Task`) and facts (`crate::facts`) to a plan. No I/O,
// and no clock, apart from `outcome` and `uses`, which follow a plan. The only cost model is in `cost`.

mod batch;
mod compare;
mod copy;
mod cost;
mod duplicates;
#[cfg(feature = "profile")]
mod from_profile;
mod gaps;
mod lines;
pub(crate) mod outcome;
mod read;
mod reason;
#[cfg(test)]
mod tests;
mod update;
mod uses;
mod write;

use std::sync::LazyLock;
use std::time::Duration;

pub(crate) use batch::FEWEST_FOR_RING;
pub use batch::{BATCH, BatchPlan, FEWEST_TO_ASK, FILES_AHEAD, FILES_OF_SCAN, LARGE_BYTES, Scan, batch, scan};
pub(crate) use compare::may_bypass_cache;
pub use compare::{FIRST_LOOK_BYTES, compare};
pub use copy::copy;
pub(crate) use copy::depends_on_sharing;
pub(crate) use cost::Amounts;
#[cfg(test)]
use cost::KINDS;
use cost::POINTS;
pub use duplicates::{DuplicatesPlan, FIRST_BYTES, WHOLE_BYTES, duplicates};
#[cfg(feature = "profile")]
pub(crate) use from_profile::costs as known_costs;
#[cfg(feature = "profile")]
pub use from_profile::{alternatives, curve, shared_gap_bytes};
pub(crate) use gaps::BlockCount;
pub use gaps::{Gaps, UpdateWork};
pub use read::read;
pub(crate) use read::read_into_memory;
pub use reason::{GapLimit, MeasuredSittings, Reason};
#[cfg(test)]
pub(crate) use update::by_costs;
pub use update::{PlanLimits, UpdateFacts, extremes, update};
pub(crate) use update::{amounts, amounts_of_safety, expected_ns, is_certain, weighs_wear};
pub use uses::PlanClock;
pub use write::write;

#[doc(inline)]
pub use crate::facts::{Fact, Source};

use seekless_method::{Durability, Method, Operation};

use crate::facts::{DeviceLimits, Facts};

/// A task on one file, a pair of files, or many files of one size. For updates, [`PlanLimits`] has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// How many files: one, except for scans.
    pub files: u64,
    /// The bytes to read, write or copy, or to compare of each file; of many files, their mean.
    pub bytes: u64,
    /// What must be on the device at the end, if something is written.
    pub durability: Durability,
}

/// A method, its predicted time, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The method to use.
    pub method: Method,
    /// The method to use if that one is unavailable, or would write more than the limit.
    pub otherwise: Method,
    /// The predicted time; only an order of magnitude if it rests on assumed facts.
    pub predicted: Predicted,
    /// Whether the method is the same for all facts within their bounds, so that nothing need be measured.
    pub is_certain: bool,
    /// The reason for the method.
    pub reason: Reason,
    /// The facts that decide and predict.
    pub facts: Vec<NamedFact>,
}

impl Plan {
    /// Of so little that examining the file would take longer.
    pub(crate) fn little(operation: Operation) -> Self {
        let (method, reason) = (usual(operation), Reason::Little { operation });
        Self {
            method,
            otherwise: method,
            predicted: Predicted::default(),
            is_certain: true,
            reason,
            facts: Vec::new(),
        }
    }
}

/// A time, with bounds that follow from those of the facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// The lower bound.
    pub low: Duration,
    /// The most likely time.
    pub value: Duration,
    /// The upper bound.
    pub high: Duration,
}

/// A fact with its name and unit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NamedFact {
    /// Its name, as text.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The fact.
    pub fact: Fact,
}

/// The unit of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds for each byte.
    NanosecondsPerByte,
    /// A part of the whole, 0 to 1.
    Part,
}

/// A candidate for a plan: a method, its amounts, and the reason for it.
struct Candidate {
    method: Method,
    amounts: Amounts,
    reason: Reason,
}

/// A regret smaller than this decides nothing.
const SAME_REGRET: f64 = 0.02;
/// A method that leaves nothing in the page cache, or needs more, is used only if it is expected to be faster by this part, which allows
/// for what the model omits.
const MARGIN: f64 = 0.1;

/// Chooses among candidates, the simplest first: the method with the least expected regret over what the costs may be. A later one is
/// used only if its regret is clearly less than those before it. The first one is the fallback.
fn choose(candidates: &[Candidate], facts: &Facts) -> Plan {
    let costs = &facts.costs;
    let chosen = &candidates[least_regret(candidates, facts)];
    let is_clear = |other: &Candidate| {
        let margin = if std::ptr::eq(other, chosen) { 1.0 } else { 1.0 + MARGIN };
        chosen.amounts.times(margin).is_never_slower(&other.amounts, costs)
    };
    // Limits change with what else the process does.
    let is_certain = candidates.len() < 2 || facts.limits == DeviceLimits::NONE && candidates.iter().all(is_clear);
    let all = candidates.iter().map(|candidate| candidate.amounts);
    let used = all.fold(Amounts::default(), Amounts::and).facts(costs);
    Plan {
        method: chosen.method,
        otherwise: candidates[0].method,
        predicted: chosen.amounts.predicted_of_file(facts),
        is_certain,
        reason: chosen.reason.clone(),
        facts: residency(facts).into_iter().chain(used).collect(),
    }
}

/// The place of the candidate with the least expected regret.
fn least_regret(candidates: &[Candidate], facts: &Facts) -> usize {
    if candidates.len() < 2 {
        return 0;
    }
    let amounts: Vec<Amounts> = candidates.iter().map(|one| one.amounts).collect();
    let times = Amounts::times_within(&amounts, facts);
    let least = |point: usize| times.iter().map(|times| times[point]).fold(f64::MAX, f64::min);
    let least: Vec<f64> = (0..POINTS).map(least).collect();
    let regret = |times: &[f64; POINTS]| {
        let over = times
            .iter()
            .zip(&least)
            .map(|(time, least)| time / least.max(1e-9) - 1.0);
        over.sum::<f64>() / POINTS as f64
    };
    let regrets: Vec<f64> = times.iter().map(regret).collect();
    let best = regrets.iter().copied().fold(f64::MAX, f64::min);
    regrets.iter().position(|regret| *regret <= best + MARGIN).unwrap_or(0)
}

/// The plan for a task; for updates, [`update`] makes it.
#[must_use]
pub fn plan(operation: Operation, task: &Task, facts: &Facts) -> Plan {
    match operation {
        Operation::Write => write(task, facts),
        Operation::Copy => copy(task, facts),
        Operation::Compare => compare(task, facts),
        Operation::Read | Operation::Update => read(task, facts),
        Operation::Scan => scan(&Scan::of(task, facts), facts),
    }
}

/// The methods that a plan without a profile chooses from, the simplest first, with their predicted times.
#[must_use]
pub fn considered(operation: Operation, task: &Task, facts: &Facts) -> Vec<(Method, Predicted)> {
    let candidates = match operation {
        Operation::Write => write::candidates(task, facts),
        Operation::Copy => copy::candidates(task, facts),
        Operation::Read | Operation::Update => read::candidates(task, facts),
        Operation::Compare => compare::candidates(task, facts),
        // A rule chooses one.
        Operation::Scan => {
            let plan = plan(operation, task, facts);
            return vec![(plan.method, plan.predicted)];
        }
    };
    let predicted = |one: &Candidate| (one.method, one.amounts.predicted_of_file(facts));
    candidates.iter().map(predicted).collect()
}

/// The method to use for files of one size, and the times of all.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTimes {
    /// The size, in bytes.
    pub bytes: u64,
    /// The method to use.
    pub method: Method,
    /// Its time.
    pub predicted: Predicted,
    /// The time of each method over that of the simplest one.
    pub over_plain: Vec<(Method, f64)>,
}

impl SizeTimes {
    /// The time of a method over that of the simplest one.
    #[must_use]
    pub fn of(&self, method: &Method) -> Option<f64> {
        let found = self.over_plain.iter().find(|(other, _)| other == method);
        found.map(|(_, ratio)| *ratio)
    }

    /// Of ascending sizes, those from which another method is used, the smallest included.
    pub fn changes(all: &[Self]) -> impl Iterator<Item = &Self> {
        all.chunk_by(|one, next| one.method == next.method)
            .filter_map(<[Self]>::first)
    }
}

/// Sizes between two powers of two. Four sizes a doubling are as exact as what is measured.
pub fn sizes(powers: std::ops::Range<u32>) -> impl Iterator<Item = u64> {
    powers.flat_map(|power| [16, 19, 22, 27].map(|sixteenths| (sixteenths << power) >> 4))
}

/// The name of the fact that [`resident`] makes.
const RESIDENT: &str = "part of the file in the page cache";

/// The residency of a file, as a named fact.
fn resident(part: f64) -> NamedFact {
    NamedFact {
        name: RESIDENT,
        unit: Unit::Part,
        fact: Fact::claimed(part),
    }
}

impl Plan {
    /// The part of each file that was in the page cache, as far as known.
    #[cfg(feature = "profile")]
    pub(crate) fn resident_parts(&self) -> impl Iterator<Item = f64> {
        let parts = self.facts.iter().filter(|named| named.name == RESIDENT);
        parts.map(|named| named.fact.value)
    }
}

/// The residency of the files, as far as known.
fn residency(facts: &Facts) -> Vec<NamedFact> {
    let [one, other] = facts.files;
    let all = [Some(one), (other != one).then_some(other)].into_iter().flatten();
    all.filter_map(|file| file.resident.map(resident)).collect()
}

/// Fewer bytes are moved or compared in one block, because nothing else pays off.
pub(crate) const SMALL_BYTES: u64 = 1 << 20;
/// The page cache is bypassed only for files of which at least this part is not in it.
const DIRECT_FROM_ABSENT: f64 = 0.9;
/// Buffers may take this part of the available memory.
const BUFFERS_PART: u64 = 8;
/// If less than this many times the bytes is free, all blocks are allocated first, so that a full disk causes an error
/// at once and not after minutes.
const SPARE: u64 = 2;

/// The plan from what was measured on the storage; `None` if not enough was.
#[cfg_attr(
    not(feature = "profile"),
    expect(unused_variables, reason = "without profiles, nothing was")
)]
fn measured_plan(operation: Operation, task: &Task, facts: &Facts) -> Option<Plan> {
    #[cfg(feature = "profile")]
    return from_profile::plan(operation, task, facts);
    #[cfg(not(feature = "profile"))]
    None
}

/// Whether the page cache can be bypassed with buffers of this many bytes.
fn can_be_direct(facts: &Facts, file: usize, buffer_bytes: u64) -> bool {
    facts.files[file].direct_alignment.is_some() && buffer_bytes <= facts.memory_bytes / BUFFERS_PART
}

/// The state of a file after an update that ends early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Safety {
    /// Some updates are in it, and some are not.
    #[default]
    InPlace,
    /// A journal beside it has all updates and the old bytes: an error undoes all updates, and
    /// [`crate::update::recover`] finishes what a crash interrupted.
    Journal,
    /// It is as before: the updates go to a new file that takes its name.
    Replace,
}

/// The default method of an operation, which works on every file system and keeps holes.
#[must_use]
pub fn usual(operation: Operation) -> Method {
    // Parsing takes a tenth of the time of reading a small file.
    static PARSED: LazyLock<[Method; Operation::ALL.len()]> = LazyLock::new(|| {
        Operation::ALL.map(|operation| {
            Method::known(match operation {
                Operation::Read => "read/sync,block=128K",
                Operation::Write => "write/sync,block=1M",
                Operation::Copy => "copy/sync,block=128K,holes=skip",
                Operation::Compare => "compare/sync,block=128K",
                Operation::Update => "update/sync",
                Operation::Scan => "scan/sync,threads=32",
            })
        })
    });
    PARSED[operation as usize]
}

/// Parses the text of a method in this module.
fn method(text: &str) -> Method {
    text.parse()
        .unwrap_or_else(|error| panic!("a plan has an invalid method: {error}"))
}
