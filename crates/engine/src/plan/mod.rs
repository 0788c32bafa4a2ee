//! Which method is to be used: pure functions, a file for each operation, from what is asked for and what is known
//! ([`crate::facts`]) to a plan. No I/O here, and no clock.
//!
//! One idea holds for all: where the answer is the same at every cost that storages have, nothing need be measured.

mod batch;
mod compare;
mod gaps;
mod update;

pub use batch::{BATCH, BatchPlan, THREADS_OF_FILES, batch};
pub use compare::{CompareFacts, compare};
pub use gaps::Gaps;
#[cfg(test)]
pub(crate) use update::by_costs;
pub use update::{PlanLimits, UpdateFacts, Work, update};
pub(crate) use update::{WritingCost, is_certain};

use seekless_method::{Method, Operation};

/// A method, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The method to use.
    pub method: Method,
    /// What is to be used where that one turns out not to be available, or to write more than it may.
    pub otherwise: Method,
    /// Why, for people.
    pub why: String,
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
