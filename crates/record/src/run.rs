//! A run: every trial of one invocation of the lab, with the machine and the storages it happened on.

mod machine;
mod published;
mod random;
mod system;
mod trial;
mod update;

use std::borrow::Cow;

pub use machine::{Device, DeviceId, Machine, SIMULATED, Storage, StorageCosts, StorageId, driver, is_same_memory};
pub use published::{Column, Finding, Published};
pub use random::{Latency, RandomAccess};
use seekless_method::{Choice, Durability, Operation, PlannedChoice};
use serde::{Deserialize, Serialize};
pub use system::{Mode, SystemUse};
pub use trial::{DeviceCounters, Trial};
pub use update::{UpdateAccount, UpdatePattern};

use crate::interval::Interval;
use crate::verdict::{Standing, Status};
use crate::visit::{Field, step};
use crate::{Bounds, Cache, Differ, DropScope, Ended, EntryVerdict, ExitCode, Target, Text, Visitor};

documents! {
    /// One invocation of the lab.
    ///
    /// Optional fields, here and in the parts, may be missing in a document.
    #[derive(Default)]
    pub struct Run {
        /// The version of this document's form.
        pub version: u32,
        /// The name of the run: its start in UTC and the experiments, as in `2026-11-20T14-03-22-read`.
        pub id: String => Text::Private,
        /// The version of seekless that measured.
        pub seekless: String => Text::Version,
        /// When it started, RFC 3339, UTC.
        pub started: String => Text::Started,
        /// How long the run took, set-up included, in seconds.
        pub elapsed_seconds: f64 => Bounds::SECONDS,
        /// How it ended.
        pub ended: Ended,
        /// The names of the experiments.
        pub experiments: Vec<String> => Text::Experiment,
        /// The seed of all shuffling and of the test data.
        pub seed: u64 => Bounds::SEED,
        /// The budget, in seconds; `None` if a number of rounds was given instead.
        pub budget_seconds: Option<f64> => Bounds::SECONDS,
        /// Whether it is not to be combined with other runs: `--alone`, or a file that is not stored as it is read.
        #[serde(default)]
        pub alone: bool,
        /// How the page cache was emptied.
        pub drop: DropScope,
        /// The revision that measured it; `None` in documents of early builds.
        pub revision: Option<Revision>,
        /// The machine.
        pub machine: Machine,
        /// The storages measured.
        pub storages: Vec<Storage>,
        /// What was compared with what: methods are ranked only inside one contest.
        pub contests: Vec<Contest>,
        /// Every trial, in the order it happened.
        pub trials: Vec<Trial>,
        /// The cost of measuring.
        pub lab_cost: LabCost,
        /// How quiet the machine was.
        pub noise: NoiseFloor,
        /// Choices the lab made for its user and why, such as a smaller size on a small disk.
        pub choices: Vec<String> => Text::Private,
        /// Caveats of the figures, each with what to do next.
        pub warnings: Vec<String> => Text::Private,
        /// When it was resumed, in seconds of measuring since its start; empty if it never was.
        #[serde(default)]
        pub resumed_at_seconds: Vec<f64> => Bounds::SECONDS,
        /// Published results on the same question, as the experiments quote them.
        #[serde(default)]
        pub published: Vec<Published>,
        /// The columns in which documents published times by file size, as the experiments give them.
        #[serde(default)]
        pub columns: Vec<Column>,
    }

    /// The revision that measured a run. Runs of different revisions are never combined.
    #[derive(Copy, Default, Eq)]
    pub struct Revision {
        /// The revision of how trials are made and timed.
        pub protocol: u32,
        /// The revision of how the mechanisms move bytes.
        pub mechanisms: u32,
    }

    /// An external command timed beside the methods.
    #[derive(Eq)]
    pub struct Command {
        /// Its name in the tables.
        pub name: String => Text::CommandName,
        /// The program and its arguments, with placeholders such as `{file}`.
        pub argv: Vec<String> => Text::Private,
        /// A command that runs before the clock starts, such as one that makes the input of this one.
        #[serde(default)]
        pub before: Vec<String> => Text::Private,
        /// The meaning of its exit code.
        #[serde(default)]
        pub exit_code: ExitCode,
        /// Whether its output must equal that of the other commands of its contest with this flag.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub same_output: bool,
        /// A remark, shown with its figures.
        pub note: Option<String> => Text::Private,
    }

    /// Methods that are measured under the same conditions and ranked together.
    #[derive(Default)]
    pub struct Contest {
        /// The experiment's name.
        pub experiment: String => Text::Experiment,
        /// What is done with the files.
        pub operation: Operation,
        /// The index of the storage in [`Run::storages`].
        pub storage: usize,
        /// The index of the storage of the second file of a comparison, if it differs from the first.
        pub other_storage: Option<usize>,
        /// The existing directory whose files are read as they are; `None` if test files are read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tree: Option<String> => Text::Path,
        /// The file's size, in bytes; for an existing directory, the mean size.
        pub size_bytes: u64 => Bounds::COUNT,
        /// The size of the existing file of which each round reads another part of `size_bytes`; `None` if files are read as
        /// a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub part_of_bytes: Option<u64> => Bounds::COUNT,
        /// Whether the lab chose that size (false: the user or the experiment did).
        #[serde(default)]
        pub size_chosen: bool,
        /// Distinct files per trial.
        pub files: u32 => Bounds::FILES,
        /// The cache state.
        pub cache: Cache,
        /// Whether the metadata of its cold files was dropped, too, with all caches of the system.
        #[serde(default)]
        pub cold_metadata: bool,
        /// The target of a write or copy.
        pub target: Target,
        /// What is done with the bytes.
        pub kernel: String => Text::Consumer,
        /// Extra work of consumer or producer, in nanoseconds per KiB.
        pub work_ns_per_kib: u64 => Bounds::COUNT,
        /// Where the second file of a comparison differs.
        #[serde(default)]
        pub differ: Differ,
        /// The device's read-ahead window that was set for its trials, in KiB; `None` where it was left as it is.
        pub read_ahead_kib: Option<u64> => Bounds::COUNT,
        /// The updates; `None` for other operations.
        pub updates: Option<UpdatePattern>,
        /// Whether each trial writes files one after the other until a limit is reached, to see how long the device
        /// keeps its rate. Not ranked. `files` is then the largest possible number.
        #[serde(default)]
        pub sustained: bool,
        /// The requests of a trial at random places, or its appends; `None` where files are read or written from their
        /// start to their end.
        pub random: Option<RandomAccess>,
        /// How the files that are read are laid out, as in `1023M hole, 1M data`; `None` where they are data
        /// throughout.
        pub layout: Option<String> => Text::Layout,
        /// The memory allowed for its trials, page cache included, in bytes; `None` where it was not limited.
        pub memory_bytes: Option<u64> => Bounds::COUNT,
        /// The byte that occurs most often, as the histograms found; `None` for other kernels.
        pub mode: Option<Mode>,
        /// Whether the copies share blocks with their source: never ranked with those that do not.
        pub shared_blocks: bool,
        /// Whether holes were skipped, which is less work and never ranked with reading everything.
        #[serde(default)]
        pub holes_skipped: bool,
        /// What is on the device at the end: different durability is never ranked together.
        pub durability: Durability,
        /// What was measured.
        pub entries: Vec<Entry>,
        /// The conclusion at the time.
        pub conclusion: Option<Conclusion>,
    }
}

impl Run {
    /// Passes every text, figure and list to the visitor, in the order of the document.
    pub fn visit(&mut self, visitor: &mut dyn Visitor) {
        Field::visit(self, &mut String::new(), (), visitor);
    }
}

/// An entry of a contest, with its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredEntry", into = "StoredEntry")]
pub struct Entry {
    /// What is measured.
    pub subject: Subject,
    /// The name under which a document published it, where the experiment gives it by that name.
    pub label: Option<String>,
    /// The figures of its valid trials; `None` before the first.
    pub summary: Option<Summary>,
    /// The verdict on it.
    pub verdict: EntryVerdict,
}

/// An entry as documents have it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredEntry {
    /// One field, `method`, `plan` or `command`.
    #[serde(flatten)]
    subject: Subject,
    label: Option<String>,
    status: Status,
    summary: Option<Summary>,
    standing: Option<Standing>,
}

impl From<StoredEntry> for Entry {
    fn from(stored: StoredEntry) -> Self {
        Self {
            subject: stored.subject,
            label: stored.label,
            summary: stored.summary,
            verdict: (stored.status, stored.standing).into(),
        }
    }
}

impl From<Entry> for StoredEntry {
    fn from(entry: Entry) -> Self {
        let (status, standing) = entry.verdict.into();
        Self {
            subject: entry.subject,
            label: entry.label,
            status,
            summary: entry.summary,
            standing,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A method, by its canonical text. It may be one that only an earlier version knows.
    Method(String),
    /// The method that a planner chooses.
    Plan(PlannedChoice),
    /// A command.
    Command(Command),
}

impl From<Choice> for Subject {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Method(method) => Self::Method(method.to_string()),
            Choice::Plan(plan) => Self::Plan(plan),
        }
    }
}

impl Command {
    /// Whether it is run once per trial, with the directory of all its files.
    #[must_use]
    pub fn takes_tree(&self) -> bool {
        let is_tree = |argument: &String| argument.contains("{tree}") || argument.contains("{one-tree}");
        self.argv.iter().any(is_tree)
    }
}

impl Entry {
    /// Its name in the contest: the text of the method or plan, or `command/NAME`.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match &self.subject {
            Subject::Method(text) => Cow::Borrowed(text),
            Subject::Plan(plan) => Cow::Owned(plan.to_string()),
            Subject::Command(command) => Cow::Owned(format!("command/{}", command.name)),
        }
    }

    /// The method or plan; `None` for a command, and for a method that this version does not know.
    #[must_use]
    pub fn choice(&self) -> Option<Choice> {
        match &self.subject {
            Subject::Method(text) => text.parse().ok().map(Choice::Method),
            Subject::Plan(plan) => Some(Choice::Plan(*plan)),
            Subject::Command(_) => None,
        }
    }

    /// The command, if it is one.
    #[must_use]
    pub fn command(&self) -> Option<&Command> {
        match &self.subject {
            Subject::Command(command) => Some(command),
            Subject::Method(_) | Subject::Plan(_) => None,
        }
    }
}

/// As it is written: a method, plan or command is a field of the entry.
impl Field<()> for Entry {
    fn visit(&mut self, place: &mut String, (): (), visitor: &mut dyn Visitor) -> bool {
        match &mut self.subject {
            Subject::Method(text) => step(place, "method", &mut |place| text.visit(place, Text::Method, visitor)),
            Subject::Plan(_) => true,
            Subject::Command(command) => step(place, "command", &mut |place| command.visit(place, (), visitor)),
        };
        step(place, "label", &mut |place| {
            self.label.visit(place, Text::Label, visitor)
        });
        if let EntryVerdict::Unavailable { why } | EntryVerdict::Failed { why } = &mut self.verdict {
            step(place, "status", &mut |place| why.visit(place, Text::Reason, visitor));
        }
        step(place, "summary", &mut |place| self.summary.visit(place, (), visitor));
        step(place, "standing", &mut |place| {
            self.verdict.relative().visit(place, (), visitor)
        })
    }
}

documents! {
    /// The figures of an entry's valid trials.
    pub struct Summary {
        /// The number of valid trials.
        pub rounds: u32,
        /// The number of invalid trials, which are left out.
        pub invalid: u32,
        /// Seconds from open to close, fsync included.
        pub seconds: Interval => Bounds::SECONDS,
        /// The arithmetic mean of the seconds.
        pub mean_seconds: f64 => Bounds::SECONDS,
        /// Their sample standard deviation; `None` for one trial.
        pub deviation_seconds: Option<f64> => Bounds::SECONDS,
        /// Their 90th percentile, by the nearest rank; `None` in documents without it.
        pub p90_seconds: Option<f64> => Bounds::SECONDS,
        /// Bytes per second at the median.
        pub bytes_per_second: f64 => Bounds::RATIO,
        /// Median user and system seconds together.
        pub cpu_seconds: f64 => Bounds::SECONDS,
        /// Median seconds in fsync.
        pub fsync_seconds: f64 => Bounds::SECONDS,
        /// Median seconds of set-up, before the clock.
        pub setup_seconds: f64 => Bounds::SECONDS,
        /// Median user seconds.
        pub user_seconds: Option<f64> => Bounds::SECONDS,
        /// Median system seconds.
        pub system_seconds: Option<f64> => Bounds::SECONDS,
        /// Median number of system calls that moved the bytes; `None` for a command.
        pub calls: Option<f64> => Bounds::COUNT,
        /// Median number of read requests that the device completed; `None` if other processes used the device in all
        /// trials.
        pub device_reads: Option<f64> => Bounds::COUNT,
        /// Median of the mean size of these requests; `None` if there were none.
        pub device_request_bytes: Option<f64> => Bounds::COUNT,
        /// Median bytes written for each byte that updates name; `None` for other operations.
        pub amplification: Option<f64> => Bounds::COUNT,
        /// Median of the predicted seconds; `None` if the planner's model does not cover the method.
        pub predicted_seconds: Option<f64> => Bounds::SECONDS,
        /// The method that was planned in most of the trials; `None` for a method that was named.
        pub planned: Option<String> => Text::Method,
        /// Latencies of requests: medians over the trials, except that the longest is the longest of all; `None` if
        /// they were not timed.
        pub latency: Option<Latency>,
        /// The same for requests of a write that read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub read_latency: Option<Latency>,
        /// Medians of the figures of the whole system; `None` if no trial has them.
        pub system: Option<SystemUse>,
    }

    /// The conclusion of a contest.
    pub struct Conclusion {
        /// The method to use; `None` where it is undecided.
        pub recommended: Option<String> => Text::Method,
        /// If undecided, the method to use for now: the one with the smallest bound.
        pub until_decided: Option<String> => Text::Method,
        /// An upper bound, with a probability of 95 %, on the extra time of that method compared with the best: 0.05 is
        /// 5 %.
        pub costs_at_most: Option<f64> => Bounds::COUNT,
        /// If all methods are shown to be equal: within this part of the time.
        pub equal_within: Option<f64> => Bounds::COUNT,
        /// If undecided: how many times as many rounds should decide it.
        pub decided_by_times: Option<f64> => Bounds::COUNT,
        /// The sittings it rests on; `None` if it rests on this run alone.
        #[serde(default)]
        pub sittings: Option<Sittings>,
        /// The leader: the fastest, or one that is not told apart from it.
        pub best: Option<String> => Text::Method,
        /// The best of those that wait for each call.
        pub best_synchronous: Option<String> => Text::Method,
        /// The best of those that overlap.
        pub best_overlapping: Option<String> => Text::Method,
        /// What each option gained or cost on its own.
        pub effects: Vec<OptionEffect>,
        /// The recommendation in one sentence.
        pub sentence: String => Text::Private,
    }

    /// The sittings that a conclusion rests on: runs of the same contests on the same storage, hours or days apart.
    #[derive(Copy)]
    pub struct Sittings {
        /// How many.
        pub count: u32,
        /// How many runs they are: those within an hour are one sitting.
        #[serde(default)]
        pub runs: u32,
        /// In how many of them the method to use was not slower than the best.
        pub agreeing: u32,
        /// How many in all should decide it; `None` if it is decided.
        pub needed: Option<u32>,
        /// The standard deviation, between sittings, of the logarithm of a method's time.
        pub deviation: f64 => Bounds::RATIO,
    }

    /// The effect of one option: two methods that differ in nothing else, paired by round.
    pub struct OptionEffect {
        /// The option, as in `direct`.
        pub option: String => Text::Private,
        /// The method without it.
        pub without: String => Text::Method,
        /// The method with it.
        pub with: String => Text::Method,
        /// Seconds with over seconds without: below 1 it gained.
        pub ratio: Interval => Bounds::RATIO,
        /// CPU seconds with, less CPU seconds without, at the medians.
        pub cpu_seconds_difference: f64 => Bounds::SECONDS_DIFFERENCE,
    }

    /// The cost of measuring.
    #[derive(Default)]
    pub struct LabCost {
        /// Seconds inside the clock of trials that do nothing.
        pub null_seconds: Vec<f64> => Bounds::SECONDS,
        /// The producer's speed, in bytes per second.
        pub producer_bytes_per_second: Option<f64> => Bounds::RATIO,
        /// Speed of the first touch of memory, in bytes per second.
        pub first_touch_bytes_per_second: Option<f64> => Bounds::RATIO,
        /// Speed of the second touch.
        pub second_touch_bytes_per_second: Option<f64> => Bounds::RATIO,
    }

    /// How quiet the machine was during the run.
    #[derive(Default)]
    pub struct NoiseFloor {
        /// Steal time: the part of the processors' time that the host took away, 0 to 1.
        pub stolen: Option<f64> => Bounds::PART,
        /// The part of the processors' time that other processes used, 0 to 1: all busy time except that of the lab and
        /// its trials; `None` in documents of early builds.
        pub others: Option<f64> => Bounds::PART,
        /// The part of the bytes read from devices during trials that other processes read, 0 to 1.
        pub other_io: Option<f64> => Bounds::PART,
    }
}
