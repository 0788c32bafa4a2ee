//! The lab of seekless: fair trials of methods on a storage.
//!
//! A [`Bench`] says what to measure, [`run`] measures it and gives a [`seekless_record::Run`] with every sample. Each
//! trial runs in a process of its own ([`trial`]), in a cache state that is verified.
//!
//! Not here: how bytes move (the crate `seekless`), what follows from a run (`seekless_results`), and how results look on
//! a terminal.

pub mod experiment;
pub mod regret;
pub mod store;
pub mod trial;

mod cache_state;
mod cgroup;
mod generator;
mod kernel;
mod layout;
mod machine;
mod noise;
mod read_ahead;
mod runner;
mod scratch;
mod testfile;
mod updates;

/// The time now; the last that can be written if the clock is beyond the year 9999.
#[must_use]
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(jiff::Timestamp::MAX)
}

pub use kernel::{Kernel, KernelAnswer, Tally};
pub use machine::machine;
pub use read_ahead::put_back_windows;
pub use runner::{Bench, BenchError, Event, Obstacle, RunWatch, run, unmeasured};
pub use scratch::{Scratch, remove_scratch};
pub use testfile::stored_otherwise;

/// Whether tests try everything, however long it takes.
#[cfg(test)]
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}
