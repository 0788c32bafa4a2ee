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

use seekless::{Method, Visits};
use seekless_record::{Contest, Entry, Status, Trial};
use serde::{Deserialize, Serialize};

pub(crate) use counters::requests_of;
pub use launch::{Child, LaunchError, Stop};
pub(crate) use update::updates_seed;

use crate::experiment::{ContestPlan, Size};
use crate::kernel::{Answer, Kernel};

/// What a child is to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spec {
    /// The contest, with the entry that is measured as its only one; `None` for nothing, so that the cost of measuring is known.
    pub contest: Option<Contest>,
    /// The files, one after the other inside the clock.
    pub jobs: Vec<Job>,
    /// The seed of what is written.
    pub seed: u64,
    /// Whether one unchanged block of the stream is written over and over: each buffer is filled once, and writing alone is
    /// timed. That is what fio does, so comparing with it needs this. Only the file's size can be checked.
    pub repeats_block: bool,
    /// The seed by which blocks are drawn, where random ones are moved.
    pub draw_seed: u64,
    /// The devices' directories in `/sys`, whose requests are counted together.
    pub device_directories: Vec<OsString>,
    /// A memory control group to join first.
    pub cgroup: Option<OsString>,
    /// No file of a sustained write begins that would end later, in seconds, if it takes as long as the one before; `None` for no
    /// limit.
    pub seconds_left: Option<f64>,
    /// No file of a sustained write begins that would leave less free space, in bytes.
    pub spare_bytes: u64,
}

impl Spec {
    /// A method that moves one file from its start to its end, into a fresh file where it writes one.
    #[must_use]
    pub fn of(method: Method, kernel: Kernel, job: Job) -> Self {
        let mut contest = ContestPlan::of(method.operation(), vec![method.into()], Size::Auto).common;
        contest.kernel = kernel.to_string();
        (contest.size_bytes, contest.files) = (job.bytes, 1);
        contest.durability = method.options().durability();
        Self {
            contest: Some(contest),
            jobs: vec![job],
            ..Self::default()
        }
    }

    /// The contest and what of it is measured.
    fn measured(&self) -> Option<(&Contest, &Entry)> {
        let contest = self.contest.as_ref()?;
        Some((contest, contest.entries.first()?))
    }

    fn is_of_command(&self) -> bool {
        self.measured().is_some_and(|(_, entry)| entry.command().is_some())
    }

    fn is_sustained(&self) -> bool {
        self.contest.as_ref().is_some_and(|contest| contest.sustained)
    }
}

/// The blocks of each file that a trial moves at random places, the same for all methods of a round; empty where files are moved
/// from start to end.
pub(crate) fn visits(contest: &Contest, draw_seed: u64) -> Vec<Visits> {
    let Some(random) = contest.random else {
        return Vec::new();
    };
    let draw = |index| {
        let seed = draw_seed.wrapping_add(u64::from(index));
        Visits::draw(contest.size_bytes, random.block_bytes, random.requests, seed)
    };
    (0..contest.files).map(draw).collect()
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
    /// A hash of what a command printed, where it must print the same as others.
    pub printed: Option<u64>,
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
    /// One ends before the other, after this many bytes.
    Ended(u64),
}

/// What a child says at last: its report, or what becomes of its entry without one.
pub type Outcome = Result<Report, Status>;
