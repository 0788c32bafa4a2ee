//! A [`Plan`]: which method to use, how long it will take, and why. [`seekless::plan`](crate::plan()) makes one.
//!
//! It rests on facts: what the system says of the file, and what calls and bytes cost on its storage, measured in at most 100 ms.
//! If the method is the same at every cost that storages have, nothing is measured. Times are [`Duration`]s; costs are in
//! nanoseconds, for each call or each byte.
//!
//! Not here: doing what was planned, and measuring.

// Inside: pure functions, a file for each operation, from what is asked for (`Task`) and what is known (`crate::facts`) to a
// plan. No I/O, and no clock. What a method takes is said in one place, `cost`.

mod batch;
mod compare;
mod copy;
mod cost;
mod gaps;
mod lines;
mod read;
mod scan;
#[cfg(test)]
mod tests;
mod update;
mod write;

use std::time::Duration;

#[doc(hidden)]
pub use batch::{BATCH, BatchPlan, FILES_AHEAD, LARGE_BYTES, THREADS_OF_FILES, batch};
pub(crate) use batch::{FEWEST_FOR_RING, HEAD_BYTES, READ_BYTES};
pub(crate) use compare::depends_on_seeks;
#[doc(hidden)]
pub use compare::{FIRST_LOOK_BYTES, compare};
#[doc(hidden)]
pub use copy::copy;
pub(crate) use copy::depends_on_sharing;
pub(crate) use cost::Amounts;
#[doc(hidden)]
pub use gaps::Gaps;
#[doc(hidden)]
pub use read::read;
#[doc(hidden)]
pub use scan::{SCAN, Scan, ScanPlan, WARMED_BYTES, scan};
#[cfg(test)]
pub(crate) use update::by_costs;
#[doc(hidden)]
pub use update::{PlanLimits, UpdateFacts, Work, update};
pub(crate) use update::{amounts, amounts_of_safety, is_certain};
#[doc(hidden)]
pub use write::write;

#[doc(inline)]
pub use crate::facts::{Fact, Source};

use seekless_method::{Durability, Method, Operation};

use crate::facts::Facts;

/// What is asked for, of one file or of a pair; what becomes of a file that is updated is asked for by [`PlanLimits`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Bytes to be read, written, copied, or compared of each.
    pub bytes: u64,
    /// What is on the device in the end, where something is written.
    pub durability: Durability,
}

/// A method, what it will take, and why it is used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The method to use.
    pub method: Method,
    /// The method to use if that one is unavailable, or would write more than it may.
    pub otherwise: Method,
    /// The predicted time; only an order of magnitude if it rests on assumed facts.
    pub predicted: Predicted,
    /// Whether the method is the same wherever the facts lie between their bounds: then there is nothing to measure.
    pub is_certain: bool,
    /// Why, for people.
    pub why: String,
    /// The facts that decide and predict.
    pub facts: Vec<NamedFact>,
}

/// A time, and the bounds that follow from those of the facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// The least.
    pub low: Duration,
    /// The most likely.
    pub value: Duration,
    /// The most.
    pub high: Duration,
}

/// A fact, and what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NamedFact {
    /// What it is, for people.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// The fact.
    pub fact: Fact,
}

/// What facts are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Nanoseconds for each byte.
    NanosecondsPerByte,
    /// A part of the whole, 0 to 1.
    Part,
    /// How many times as much.
    Times,
}

/// A method that may be planned, what it takes, and why it would be used.
struct Candidate {
    method: Method,
    amounts: Amounts,
    why: &'static str,
}

/// A method is used instead of a safer one only if it is faster by this factor, which covers what the model leaves out.
const CLEARLY: f64 = 1.25;

/// The plan of those that may be, from the safest on, by the costs: each but the first is used only where it takes clearly less
/// time than those before. The first is what is to be used otherwise.
fn choose(candidates: &[Candidate], facts: &Facts) -> Plan {
    let weights = (0..).map(|place| CLEARLY.powi(place));
    let weighted = candidates.iter().zip(weights);
    let weighted = weighted.map(|(candidate, weight)| (candidate, candidate.amounts.times(weight)));
    let weighted: Vec<(&Candidate, Amounts)> = weighted.collect();
    let time = |(_, amounts): &(_, Amounts)| amounts.nanoseconds(&facts.costs);
    let first = weighted[0];
    let best = weighted
        .iter()
        .copied()
        .min_by(|one, other| time(one).total_cmp(&time(other)));
    let (Candidate { method, amounts, why }, best) = best.unwrap_or(first);
    let is_certain = weighted
        .iter()
        .all(|(_, other)| best.is_never_slower(other, &facts.costs));
    let all = candidates.iter().map(|candidate| candidate.amounts);
    let used = all.fold(Amounts::default(), Amounts::and).facts(&facts.costs);
    Plan {
        method: *method,
        otherwise: candidates[0].method,
        predicted: amounts.predicted(&facts.costs),
        is_certain,
        why: (*why).to_owned(),
        facts: residency(facts).into_iter().chain(used).collect(),
    }
}

/// The part of a file that is in the page cache, as the system tells.
fn resident(part: f64) -> NamedFact {
    NamedFact {
        name: "part of the file in the page cache",
        unit: Unit::Part,
        fact: Fact::claimed(part),
    }
}

/// What is in the page cache of the files, where that is known.
fn residency(facts: &Facts) -> Vec<NamedFact> {
    let [one, other] = facts.files;
    let all = [Some(one), (other != one).then_some(other)].into_iter().flatten();
    all.filter_map(|file| file.resident.map(resident)).collect()
}

/// Less than this is moved or compared in one go: nothing else pays.
const SMALL_BYTES: u64 = 1 << 20;
/// The page cache is bypassed only for files of which at least this part is not in it.
const DIRECT_FROM_ABSENT: f64 = 0.9;
/// Buffers may take this part of the memory that is available.
const BUFFERS_PART: u64 = 8;

/// Whether the page cache can be passed by with buffers of this many bytes.
fn can_be_direct(facts: &Facts, file: usize, buffer_bytes: u64) -> bool {
    facts.files[file].direct_alignment.is_some() && buffer_bytes <= facts.memory_bytes / BUFFERS_PART
}

/// What becomes of a file when changing it ends early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Safety {
    /// Some changes are in it and some are not.
    #[default]
    InPlace,
    /// What was written before is found in a journal beside it: an error undoes all, and [`crate::update::recover`] finishes
    /// what a crash interrupted.
    Journal,
    /// It is as before: the changes go to a new file that takes its name.
    Replace,
}

/// The method of an operation where nothing is known: it works on every file system, and keeps holes.
#[doc(hidden)]
#[must_use]
pub fn usual(operation: Operation) -> Method {
    Method::known(match operation {
        Operation::Read => "read/sync,block=1M",
        Operation::Write => "write/sync,block=1M",
        Operation::Copy => "copy/sync,block=1M,holes=skip",
        Operation::Compare => "compare/sync,block=128K",
        Operation::Update => "update/sync",
    })
}

/// The method that a text in here names.
fn method(text: &str) -> Method {
    text.parse()
        .unwrap_or_else(|error| panic!("a plan names a method that is none: {error}"))
}
