//! One timed execution, in a process of its own.
//!
//! The parent starts the same binary again and hands it a [`TrialRequest`]; the child makes its buffers, rings and threads and
//! says that it is ready; the parent brings the page cache into the state asked for, verifies it, and says go; the
//! child runs the method between two readings of the clock and answers with a [`TrialReport`]. What the parent checks
//! afterwards is outside the clock.

pub(crate) mod account;
pub mod child;
mod command;
mod counters;
mod error;
mod launch;
mod update;

use std::ffi::OsString;

use seekless_engine::{Operation, Visits};
use seekless_record::{Contest, Entry, EntryVerdict, Target, Trial};
use serde::{Deserialize, Serialize};

pub use launch::{Child, LaunchError, LaunchStop};
pub(crate) use update::updates_seed;

use crate::kernel::KernelAnswer;

/// The task of a child.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrialRequest {
    /// The contest, with the measured entry as its only one; `None` for a trial that does nothing, to measure its cost.
    pub contest: Option<Contest>,
    /// The files, one after the other inside the clock.
    pub jobs: Vec<TrialPaths>,
    /// The seed of the written bytes.
    pub seed: u64,
    /// The seed of the random blocks, for random access.
    pub draw_seed: u64,
    /// The devices' directories in `/sys`, whose requests are counted together.
    pub device_directories: Vec<OsString>,
    /// A memory control group to join first.
    pub cgroup: Option<OsString>,
    /// For a sustained write, the time limit in seconds: a file is started only if it would end before, if it takes as
    /// long as the previous one; `None` for no limit.
    pub seconds_left: Option<f64>,
    /// For a sustained write, the free space to leave, in bytes.
    pub spare_bytes: u64,
}

impl TrialRequest {
    /// The contest and the measured entry.
    fn measured(&self) -> Option<(&Contest, &Entry)> {
        let contest = self.contest.as_ref()?;
        Some((contest, contest.entries.first()?))
    }

    fn is_of_command(&self) -> bool {
        self.measured().is_some_and(|(_, entry)| entry.command().is_some())
    }

    /// How many files are handed to the method at a time.
    fn jobs_together(&self) -> usize {
        let scans = |(_, entry): (&Contest, &Entry)| Some(entry.choice()?.operation() == Operation::Scan);
        let is_scan = self.measured().and_then(scans).unwrap_or_default();
        if is_scan { self.jobs.len().max(1) } else { 1 }
    }

    fn is_sustained(&self) -> bool {
        self.contest.as_ref().is_some_and(|contest| contest.sustained)
    }
}

/// For random access, the blocks of each file, the same for all methods of a round, or the blocks to append; empty
/// otherwise.
pub(crate) fn visits(contest: &Contest, draw_seed: u64) -> Vec<Visits> {
    let Some(random) = contest.random else {
        return Vec::new();
    };
    if contest.target == Target::Append {
        return vec![Visits::appends(contest.size_bytes, random.block_bytes)];
    }
    let draw = |index| {
        let seed = draw_seed.wrapping_add(u64::from(index));
        Visits::draw(contest.size_bytes, random.block_bytes, random.requests, seed).mixed(random.reads_percent, seed)
    };
    (0..contest.files).map(draw).collect()
}

/// One file of a trial. Paths may have any bytes, also in JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrialPaths {
    /// The source; unused by writes.
    pub source: OsString,
    /// The second file of a comparison.
    pub other: OsString,
    /// The target; unused by reads.
    pub target: OsString,
    /// The size, or that of the part of the source that is read.
    pub bytes: u64,
    /// Where that part starts; `None` if the whole source is read.
    pub part_start: Option<u64>,
}

/// The measurements of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialReport {
    /// The trial for the run. The parent fills in what it was a trial of, its cache state, and whether it is valid.
    pub trial: Trial,
    /// The answer of the kernel, for each job.
    pub answers: Vec<KernelAnswer>,
    /// The result of a comparison, for each job.
    pub compared: Vec<Compared>,
    /// The hash of a command's output, if it must equal that of others.
    pub printed: Option<u64>,
}

/// The result of comparing two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The verdict.
    pub verdict: ComparedVerdict,
    /// Newlines of the equal part; `None` for a method that does not count them.
    pub newlines: Option<u64>,
    /// Bytes that counted as equal without being read.
    pub unread_bytes: u64,
}

/// Whether two files are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComparedVerdict {
    /// They are.
    Equal,
    /// They differ, first in this byte; `None` for a command, which does not report it.
    Differ(Option<u64>),
    /// One ends before the other, after this many bytes.
    Ended(u64),
}

/// The final answer of a child: its report, or the new status of its entry.
pub type TrialReply = Result<TrialReport, EntryVerdict>;
