//! The lines of a journal, and what they say of its run when they are read.
//!
//! Not here: the file that holds them (`journal`), and what is recorded of a step (`record`).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::origin::{MACHINE_ID, machine_id};
use super::record::StepRecord;
use super::twin::KnownFile;
use super::{Action, Ran, StepOutcome};
use crate::json;

/// A line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum JournalLine {
    Journal(JournalHeader),
    Step(Box<StepRecord>),
    Outcome {
        step: u64,
        #[serde(flatten)]
        outcome: StepOutcome,
    },
    End {
        #[serde(flatten)]
        ran: Ran,
        was_killed: bool,
    },
    /// A file was made to undo a step.
    Restoring {
        step: u64,
        #[serde(flatten)]
        file: KnownFile,
    },
    /// An undo tried a step.
    Undone {
        step: u64,
        is_undone: bool,
    },
    /// An undo failed, and restored nothing.
    Tried,
}

/// The first line.
#[derive(Serialize, Deserialize)]
pub(super) struct JournalHeader {
    pub version: u64,
    /// What distinguishes the temporary names of its run from those of others.
    pub run: String,
    pub machine: Option<String>,
    /// How IDs of users and groups were mapped.
    pub id_maps: Option<String>,
    pub process: u32,
    pub started_ns: u64,
    #[serde(flatten)]
    pub action: Action,
}

impl JournalHeader {
    /// When the run began.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started_ns)
    }
}

/// A journal that was read.
pub(super) struct RunRecord {
    pub header: JournalHeader,
    pub entries: Vec<StepRecord>,
    /// Outcomes of steps, by their numbers.
    pub outcomes: BTreeMap<u64, StepOutcome>,
    /// Files that were made to undo a step, the last one by the last undo.
    pub restored: BTreeMap<u64, Vec<KnownFile>>,
    /// Steps that an undo tried, and whether nothing is left to undo.
    pub undone: BTreeMap<u64, bool>,
    pub is_complete: bool,
    /// Whether its run was stopped before its end, or killed and then settled.
    pub is_cut_short: bool,
    /// Whether the last undo restored nothing and failed.
    pub is_tried: bool,
}

impl JournalLine {
    /// Whether temporary names of its run stay in their directories.
    fn has_plain_run(&self) -> bool {
        matches!(self, Self::Journal(header) if !header.run.contains('/'))
    }

    /// Reads a line; `None` if it is cut off.
    pub fn of(text: &[u8]) -> Option<Self> {
        json::read(serde_json::from_slice(text).ok()?).ok()
    }
}

impl RunRecord {
    /// The version of its form.
    pub const VERSION: u64 = 1;

    /// Reads a journal. Lines that are cut off are skipped: their steps were not begun.
    pub fn of(text: &[u8]) -> io::Result<Self> {
        let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let header: Value = serde_json::from_slice(first).unwrap_or_default();
        if header["kind"] != "journal" {
            return Err(invalid("not a journal"));
        }
        if header["version"] != Self::VERSION {
            let why = format!(
                "it has version {}; this program reads version {}. Use the version of seekless that made it",
                header["version"],
                Self::VERSION
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let Some(JournalLine::Journal(header)) = JournalLine::of(first).filter(JournalLine::has_plain_run) else {
            return Err(invalid("a journal with a damaged first line"));
        };
        let mut read = Self {
            header,
            entries: Vec::new(),
            outcomes: BTreeMap::new(),
            restored: BTreeMap::new(),
            undone: BTreeMap::new(),
            is_complete: false,
            is_cut_short: false,
            is_tried: false,
        };
        for line in lines.filter_map(JournalLine::of) {
            read.take(line);
        }
        Ok(read)
    }

    fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Journal(_) => {}
            JournalLine::Step(mut entry) => {
                entry.name(&self.header.action, &self.header.run);
                self.entries.push(*entry);
            }
            JournalLine::Outcome { step, outcome } => drop(self.outcomes.insert(step, outcome)),
            JournalLine::Restoring { step, file } => self.restored.entry(step).or_default().push(file),
            JournalLine::Undone { step, is_undone } => {
                self.undone.insert(step, is_undone);
                self.is_tried = false;
            }
            JournalLine::Tried => self.is_tried = true,
            JournalLine::End { ran, was_killed } => {
                self.is_complete = true;
                self.is_cut_short = was_killed || ran.is_stopped;
            }
        }
    }

    /// The steps that may have changed something, the last one first.
    pub fn undoable(&self) -> impl Iterator<Item = &StepRecord> {
        let has_acted = |entry: &&StepRecord| self.outcomes.get(&entry.number).is_none_or(StepOutcome::has_acted);
        self.entries.iter().rev().filter(has_acted)
    }

    /// The space that all steps freed.
    pub fn gained_bytes(&self) -> u64 {
        self.outcomes.values().map(StepOutcome::gained_bytes).sum()
    }

    /// Fails for a journal of another machine, and if this one has an ID that cannot be read.
    pub fn require_own(&self) -> io::Result<()> {
        let ours = machine(Path::new(MACHINE_ID));
        let ours = ours.map_err(|error| io::Error::new(error.kind(), format!("cannot read {MACHINE_ID}: {error}")))?;
        let differ = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
        if differ(&self.header.machine, &ours) {
            return Err(invalid("the journal was made on another machine"));
        }
        if differ(&self.header.id_maps, &sys::id_maps().map(|maps| maps.text)) {
            return Err(invalid(
                "the journal was made in another user namespace, where IDs of users and groups mean others; use it there",
            ));
        }
        Ok(())
    }
}

/// Identifies this machine: its ID, or its name if it has none. An ID that cannot be read now is an error, because it may be
/// readable when a journal is undone.
pub(super) fn machine(id: &Path) -> io::Result<Option<String>> {
    let id = String::from_utf8(machine_id(id)?).map_err(io::Error::other)?;
    let id = Some(id).filter(|id| !id.is_empty());
    Ok(id.or_else(sys::host_name))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
