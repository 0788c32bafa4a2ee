//! One timed execution, in a process of its own.
//!
//! The parent starts the same binary again and hands it a [`Spec`]; the child makes its buffers, rings and threads and
//! says that it is ready; the parent brings the page cache into the state asked for, verifies it, and says go; the child
//! runs the method between two looks at the clock and answers with a [`Report`]. What the parent checks afterwards is
//! outside the clock.

pub mod account;
pub mod child;
mod command;
mod counters;
mod launch;
mod system;
mod update;

use std::ffi::OsString;

use seekless::Visits;
use seekless::method::Choice;
use seekless_record::{Command, Target, Trial, UpdatePattern};
use serde::{Deserialize, Serialize};

pub(crate) use counters::requests_of;
pub use launch::{Child, LaunchError, Stop};
pub(crate) use update::updates_seed;

use crate::kernel::{Answer, Kernel};

/// What a child is to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spec {
    /// The work.
    pub action: Action,
    /// The files, one after the other inside the clock.
    pub jobs: Vec<Job>,
    /// The blocks of each file that are moved, where that is at random places.
    pub drawing: Option<Drawing>,
    /// Extra work of consumer or producer, in nanoseconds per KiB.
    pub work_ns_per_kib: u64,
    /// The devices' directories in `/sys`, whose requests are counted together.
    pub device_directories: Vec<OsString>,
    /// A memory control group to join first.
    pub cgroup: Option<OsString>,
    /// Whether the target of a command is synced inside the clock, as the methods beside it sync theirs.
    pub sync_target: bool,
    /// Whether everything is done once before the clock (the cache state `over`).
    pub rehearse: bool,
    /// Where jobs are the files of a sustained write: when it ends before the last of them.
    pub sustained: Option<Bounds>,
}

/// What ends a sustained write before its last file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// No file begins that would end later, in seconds, if it takes as long as the one before; `None` for no limit.
    pub seconds: Option<f64>,
    /// No file begins that would leave less free space, in bytes.
    pub free_bytes: u64,
    /// Whether it ends when the rate has fallen and settled.
    pub settles: bool,
}

/// The work of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum Action {
    /// Reading, with a kernel.
    Read(Choice, Kernel),
    /// Writing, and what is written.
    Write(Choice, Content, Target),
    /// Copying.
    Copy(Choice, Target),
    /// Comparing.
    Compare(Choice),
    /// Updating, the updates, and the seed by which they are drawn.
    Update(Choice, UpdatePattern, u64),
    /// Nothing, so that the cost of measuring is known.
    #[default]
    Nothing,
    /// An external command; `{file}`, `{target}`, `{one}` and `{other}` are replaced.
    Command(Command),
}

/// The blocks that the requests of a trial are for: the same for all methods of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// At most so many in each file.
    pub requests: u32,
    /// The seed of the first file; each has another.
    pub seed: u64,
}

impl Drawing {
    /// The blocks of files of these sizes.
    pub fn visits(&self, sizes: impl IntoIterator<Item = u64>) -> Vec<Visits> {
        let files = (0..).zip(sizes);
        let draw = |(index, bytes)| Visits::draw(bytes, self.block_bytes, self.requests, self.seed.wrapping_add(index));
        files.map(draw).collect()
    }
}

/// What a write puts into its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The stream of a seed, handed out from a block that is drawn before the clock. It can be checked.
    Stream(u64),
    /// One unchanged block of the stream of a seed, over and over: each buffer is filled once, and writing alone is
    /// timed. That is what fio does, so comparing with it needs this. Only the file's size can be checked.
    Block(u64),
}

/// One file of a trial. Paths are texts of the system, which pass through JSON whatever their bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// What is read; unused by writes.
    pub source: OsString,
    /// What it is compared with; used by comparisons only.
    pub other: OsString,
    /// What is written; unused by reads.
    pub target: OsString,
    /// The size.
    pub bytes: u64,
}

/// What a child measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The trial as runs keep it. What it was a trial of, its cache state and whether it is valid are its parent's to say.
    pub trial: Trial,
    /// What the kernel found, for each job.
    pub answers: Vec<Answer>,
    /// What comparing found, for each job.
    pub compared: Vec<Compared>,
}

/// What comparing two files found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The verdict.
    pub found: Found,
    /// Lines of the part that is equal; `None` for a method that does not count them.
    pub newlines: Option<u64>,
    /// Bytes that were taken for equal without being read.
    pub unread_bytes: u64,
}

/// Whether two files are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// They are.
    Equal,
    /// They differ, first in this byte; a command does not tell in which.
    Differ(Option<u64>),
    /// One ends before the other, after so many bytes.
    Ended(u64),
}

/// What a child says at last: its report, or why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran.
    Measured(Box<Report>),
    /// The method is not to be had.
    Unavailable(String),
    /// It failed.
    Failed(String),
}
