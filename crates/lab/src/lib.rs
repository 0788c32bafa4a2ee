//! The lab of seekless: fair trials of methods on a storage, plain statistics, and what follows from them.
//!
//! A [`Bench`] says what to measure, [`run`] measures it and gives a [`seekless_record::Run`] with every sample. Each
//! trial runs in a process of its own ([`trial`]), in a cache state that is verified; verdicts are paired by round
//! ([`ranking`]).
//!
//! Not here: how bytes move (the crate `seekless`), and how results look on a terminal.

pub mod experiment;
pub mod export;
pub mod ranking;
pub mod read_ahead;
pub mod report;
pub mod runs;
pub mod statistics;
pub mod trial;

mod cache_state;
mod cgroup;
mod columns;
mod layout;
mod machine;
mod noise;
mod runner;
mod scratch;
#[cfg(test)]
mod simulation;
mod system_table;
mod testfile;
mod updates;
mod whole_file;
mod work;

pub use cache_state::Drop;
pub use machine::machine;
pub use runner::{Bench, BenchError, Event, Watch, is_told_in_times, label_of, run, title};
pub use scratch::Scratch;
pub use system_table::{SYSTEM_HEADS, SystemRow, asks_for_system, mode_words, system_rows};
pub use whole_file::WholeFile;
