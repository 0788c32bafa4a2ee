//! The journal of a run, in JSON lines: a header; each step before it is done; its outcome; an end. Undone steps are
//! added after that.
//!
//! Not here: what is done about a journal that has no end (`settle`), and undoing (`undo`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::{OFlags, fcntl_setfl};
use seekless::files::{Attributes, Exposed, lock, open_own, read_within};
use seekless::update::{Step as Watched, StepKind, Watch};
use seekless_sys::{Access, Support};
use serde_json::{Value, json};

use super::origin::{MACHINE_ID, machine_id};
use super::place::Place;
use super::twin::Known;
use super::{Action, Error, Outcome, Ran, Seen};
use crate::json::{bytes_of, digits, path_in, with_path};
use crate::walk::Facts;

const VERSION: u64 = 1;
/// The longest header.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// The longest journal that is read.
const BYTES_MAX: u64 = 4 << 30;
/// A process that was killed, or is just starting another, may hold a lock for a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// A name of a file, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub path: PathBuf,
    /// The temporary name, in the same directory, of the file or of what takes its place.
    pub temporary: String,
    /// The target of the symbolic link that takes its place.
    pub link: Option<PathBuf>,
    /// Where it is moved to.
    pub moved_to: Option<PathBuf>,
    /// How many of the last directories of that path are made for it.
    pub made: u64,
}

/// What is known of a step before it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub step: u64,
    pub names: Vec<Name>,
    pub seen: Seen,
    /// Number of its hard links; the search may have seen fewer.
    pub links: u64,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
    pub keep: PathBuf,
    pub keep_seen: Seen,
    pub keep_born_ns: Option<i64>,
    /// BLAKE3 of the bytes of both.
    pub digest: String,
    pub attributes: Attributes,
    /// Flags (chattr(1)); `None` if the file system has none.
    pub flags: Option<u32>,
    /// Flags, extent sizes and project ([`seekless_sys::extended_flags`]); `None` if the file system has none.
    pub extended_flags: Option<[u32; 4]>,
    /// Seconds and ns since 1970: years after 2262 do not fit into ns alone.
    pub modified: (i64, u32),
    pub accessed: (i64, u32),
    pub why: String,
}

impl Name {
    fn to_json(&self) -> Value {
        let name = with_path(json!({"temporary": self.temporary}), "path", Some(&self.path));
        let name = match &self.link {
            Some(link) => with_path(name, "link", Some(link)),
            None => name,
        };
        match &self.moved_to {
            Some(to) => {
                let mut name = with_path(name, "moved_to", Some(to));
                name["made"] = self.made.into();
                name
            }
            None => name,
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let temporary = value["temporary"].as_str()?.to_owned();
        let is_name = !temporary.is_empty() && !temporary.contains('/') && temporary != "..";
        Some(Self {
            path: path_in(value, "path")?,
            temporary: is_name.then_some(temporary)?,
            link: path_in(value, "link"),
            moved_to: path_in(value, "moved_to"),
            made: value["made"].as_u64().unwrap_or(0),
        })
    }
}

impl Entry {
    pub fn to_json(&self) -> Value {
        let extended = self.attributes.extended.as_ref().map(|extended| {
            let one = |(name, value): &(Vec<u8>, Vec<u8>)| json!([digits(name), digits(value)]);
            extended.iter().map(one).collect::<Vec<_>>()
        });
        let entry = json!({
            "kind": "step",
            "step": self.step,
            "names": self.names.iter().map(Name::to_json).collect::<Vec<_>>(),
            "seen": self.seen,
            "links": self.links,
            "born_ns": self.born_ns,
            "keep_seen": self.keep_seen,
            "keep_born_ns": self.keep_born_ns,
            "blake3": self.digest,
            "mode": self.attributes.mode,
            "owner": self.attributes.owner,
            "group": self.attributes.group,
            "extended_attributes": extended,
            "flags": self.flags,
            "extended_flags": self.extended_flags,
            "modified": self.modified,
            "accessed": self.accessed,
            "why": self.why,
        });
        with_path(entry, "keep", Some(&self.keep))
    }

    fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
        let extended = match &value["extended_attributes"] {
            Value::Null => None,
            Value::Array(all) => {
                let one = |pair: &Value| Some((bytes_of(pair[0].as_str()?)?, bytes_of(pair[1].as_str()?)?));
                Some(all.iter().map(one).collect::<Option<Vec<_>>>()?)
            }
            _ => return None,
        };
        Some(Self {
            step: value["step"].as_u64()?,
            names: value["names"].as_array()?.iter().map(Name::of).collect::<Option<_>>()?,
            seen: serde_json::from_value(value["seen"].clone()).ok()?,
            links: value["links"].as_u64()?,
            born_ns: value["born_ns"].as_i64(),
            keep: path_in(value, "keep")?,
            keep_born_ns: value["keep_born_ns"].as_i64(),
            keep_seen: serde_json::from_value(value["keep_seen"].clone()).ok()?,
            digest: value["blake3"].as_str()?.to_owned(),
            attributes: Attributes {
                owner: number("owner")?,
                group: number("group")?,
                mode: number("mode")?,
                extended,
            },
            flags: number("flags"),
            extended_flags: serde_json::from_value(value["extended_flags"].clone()).ok()?,
            modified: serde_json::from_value(value["modified"].clone()).ok()?,
            accessed: serde_json::from_value(value["accessed"].clone()).ok()?,
            why: value["why"].as_str()?.to_owned(),
        })
    }
}

/// An action, without what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Remove,
    Hardlink,
    Symlink,
    Reflink,
    Move,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Remove, "remove"),
    (Kind::Hardlink, "hardlink"),
    (Kind::Symlink, "symlink"),
    (Kind::Reflink, "reflink"),
    (Kind::Move, "move"),
];

impl Kind {
    pub fn of(action: &Action) -> Self {
        match action {
            Action::Remove => Self::Remove,
            Action::Hardlink => Self::Hardlink,
            Action::Symlink { .. } => Self::Symlink,
            Action::Reflink => Self::Reflink,
            Action::Move { .. } => Self::Move,
        }
    }

    pub fn name(self) -> &'static str {
        KINDS
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| *name)
    }
}

/// The outcome of a step, as far as a later reader needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Something was done.
    Acted {
        /// The space that is free.
        gained_bytes: u64,
    },
    /// Nothing was changed.
    Left,
}

impl Came {
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done { gained_bytes } => Self::Acted {
                gained_bytes: *gained_bytes,
            },
            Outcome::Failed { .. } => Self::Acted { gained_bytes: 0 },
            Outcome::Left { .. } | Outcome::Needless(_) => Self::Left,
        }
    }
}

/// A journal that was read.
pub(super) struct Lines {
    pub kind: Kind,
    pub started: SystemTime,
    pub entries: Vec<Entry>,
    /// Outcomes of steps, by their numbers.
    pub came: BTreeMap<u64, Came>,
    /// Files that were made to undo a step, the last one by the last undo.
    pub restored: BTreeMap<u64, Vec<Known>>,
    /// Steps that an undo tried, and whether nothing is left to undo.
    pub undone: BTreeMap<u64, bool>,
    pub is_complete: bool,
    /// Whether the last undo restored nothing and failed.
    pub is_tried: bool,
    machine: Option<String>,
}

/// A journal that is open for adding lines, and locked.
pub(super) struct Journal {
    pub path: PathBuf,
    file: File,
    lines: Vec<u8>,
}

/// The file systems that were written to, by device: a path, and a directory if one can be read.
#[derive(Default)]
pub(super) struct Written(BTreeMap<u64, (PathBuf, Option<File>)>);

impl Written {
    /// Notes the file system of a place, which has this device number.
    pub fn note(&mut self, place: &Place, device: u64) {
        if let Slot::Vacant(vacant) = self.0.entry(device) {
            // The handle of a directory is for lookups only, and cannot be synced.
            let directory = place.directory.open_plain(OsStr::new("."), Access::Read);
            vacant.insert((place.path.clone(), directory.ok()));
        }
    }

    fn sync(&self, watch: &dyn Watch) -> Result<(), Error> {
        for (path, directory) in self.0.values() {
            let synced = before(watch, StepKind::Sync, path).and_then(|()| {
                let Some(directory) = directory else {
                    rustix::fs::sync();
                    return Ok(());
                };
                sync_file_system(directory)
            });
            synced.map_err(failed(path, "cannot sync its file system"))?;
        }
        Ok(())
    }
}

/// The device of a place.
pub(super) fn device_of(place: &Place) -> u64 {
    Facts::of(&*place.directory).map_or(0, |facts| facts.device)
}

/// Syncs the file system of an open file: syncfs(2). On an overlay that syncs the upper layer only, and some systems have no such
/// call: there, everything is synced.
pub(super) fn sync_file_system(file: &File) -> io::Result<()> {
    let is_overlay = || Ok::<_, io::Error>(seekless_sys::file_system_of(file)?.type_name == "overlay");
    if matches!(seekless_sys::sync_file_system(file)?, Support::Unavailable(_)) || is_overlay()? {
        seekless_sys::sync(file)?;
        rustix::fs::sync();
    }
    Ok(())
}

/// A journal that is to be synced.
pub(super) struct Syncing {
    path: PathBuf,
    file: File,
}

impl Syncing {
    pub fn sync(self, watch: &dyn Watch) -> Result<(), Error> {
        let synced = before(watch, StepKind::Sync, &self.path).and_then(|()| self.file.sync_data());
        synced.map_err(failed(&self.path, "cannot sync the journal"))
    }
}

fn failed<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error {
        path: path.to_owned(),
        action,
        source,
    }
}

/// The directory of the journals.
pub(super) fn directory(state: &Path) -> PathBuf {
    state.join("dupes")
}

/// The journals in a directory, the oldest first.
pub(super) fn all(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed(directory, "cannot list the journals"))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed(directory, "cannot list the journals"))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Identifies this machine: its ID, or its name if it has none. An ID that cannot be read now is an error, because it may be
/// readable when a journal is undone.
fn machine(id: &Path) -> io::Result<Option<String>> {
    let id = String::from_utf8(machine_id(id)?).map_err(io::Error::other)?;
    let id = Some(id).filter(|id| !id.is_empty());
    Ok(id.or_else(seekless_sys::host_name))
}

/// Fails if another user could remove or rename journals: what they say could not be undone.
fn require_private(directory: &Path) -> Result<(), Error> {
    // What is made below the last directory that exists is this user's own.
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    match Exposed::on_the_way(existing).map_err(failed(directory, "cannot examine the directory of journals"))? {
        Some(exposed) => {
            let hint = "other users could remove journals; take away their write access, or set XDG_STATE_HOME to another directory";
            let why = io::Error::new(io::ErrorKind::PermissionDenied, format!("{exposed}: {hint}"));
            Err(failed(directory, "cannot keep a journal")(why))
        }
        None => Ok(()),
    }
}

/// The time in the name of a new journal: now, or right after the last one if the clock was set back since.
pub(super) fn after_all(directory: &Path, now: SystemTime) -> Result<String, Error> {
    const FORM: &str = "%Y%m%dT%H%M%S%.6fZ";
    let time_of = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let time = DateTime::strptime(FORM, name.split('-').next()?).ok()?;
        let next = TimeZone::UTC
            .to_timestamp(time)
            .ok()?
            .checked_add(Duration::from_micros(1));
        next.ok()
    };
    let others = all(directory)?;
    let after = others.iter().filter_map(time_of).max();
    // A clock beyond the year 9999 is no clock: the journal comes right after the last one.
    let time = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
    let time = after.map_or(time, |after| after.max(time));
    Ok(time.strftime(FORM).to_string())
}

impl Journal {
    /// Makes the journal of a run that begins.
    pub fn make(directory: &Path, action: &Action, watch: &dyn Watch) -> Result<Self, Error> {
        let is_new = !directory.exists();
        require_private(directory)?;
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(failed(directory, "cannot make the directory of journals"))?;
        require_private(directory)?;
        let id = Path::new(MACHINE_ID);
        let machine = machine(id).map_err(failed(id, "cannot read the ID of this machine"))?;
        let now = SystemTime::now();
        let time = after_all(directory, now)?;
        let mut number = 0;
        let (path, file) = loop {
            let more = if number == 0 {
                String::new()
            } else {
                format!("-{number}")
            };
            let path = directory.join(format!("{time}-{}{more}.jsonl", std::process::id()));
            let how = OpenOptions::new()
                .read(true)
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match how {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                opened => break (path.clone(), opened.map_err(failed(&path, "cannot make the journal"))?),
            }
        };
        // Another process may be checking whether this run was killed.
        let locked = lock(&file, PATIENCE).and_then(|is_locked| {
            let is_locked = is_locked.then_some(());
            is_locked.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        locked.map_err(failed(&path, "cannot lock the journal"))?;
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut header = json!({
            "kind": "journal",
            "version": VERSION,
            "action": Kind::of(action).name(),
            "machine": machine,
            "process": std::process::id(),
            "started_ns": u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        });
        if let Action::Move { to } = action {
            header = with_path(header, "to", Some(to));
        }
        let mut journal = Self {
            path,
            file,
            lines: Vec::new(),
        };
        journal.add(&header);
        let written = journal.write(watch).and_then(|()| {
            // The names of directories that were made above it must last, too.
            let sync = |open: File| {
                if is_new {
                    sync_file_system(&open)
                } else {
                    seekless_sys::sync(&open)
                }
            };
            let synced = File::open(directory).and_then(sync);
            synced.map_err(failed(directory, "cannot sync the directory of journals"))
        });
        if written.is_err() {
            let _ = fs::remove_file(&journal.path);
        }
        written.map(|()| journal)
    }

    /// Opens a journal to add to it; `None` if its run is at work.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        // Another user could make this one write files anywhere.
        let file = open_own(path, Access::Overwrite).map_err(failed(path, "cannot use the journal"))?;
        let appending = rustix::fs::fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::APPEND));
        appending.map_err(|error| failed(path, "cannot open the journal")(error.into()))?;
        if !lock(&file, PATIENCE).map_err(failed(path, "cannot lock the journal"))? {
            return Ok(None);
        }
        let mut journal = Self {
            path: path.to_owned(),
            file,
            lines: Vec::new(),
        };
        // A kill or a full disk may have cut off the last line.
        if journal.tail(1).is_ok_and(|tail| tail != b"\n") {
            journal.lines.push(b'\n');
        }
        Ok(Some(journal))
    }

    /// Opens a journal that another process may be adding to.
    pub fn read_only(path: &Path) -> Result<Self, Error> {
        let file = open_own(path, Access::Read).map_err(failed(path, "cannot use the journal"))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            lines: Vec::new(),
        })
    }

    /// Adds a line, which is written by the next call of [`Self::write`].
    pub fn add(&mut self, line: &Value) {
        self.lines.extend_from_slice(line.to_string().as_bytes());
        self.lines.push(b'\n');
    }

    pub fn add_outcome(&mut self, step: u64, outcome: &Outcome) {
        self.add(&match outcome {
            Outcome::Done { gained_bytes } => {
                json!({"kind": "outcome", "step": step, "outcome": "done", "gained_bytes": gained_bytes})
            }
            Outcome::Left { why } => json!({"kind": "outcome", "step": step, "outcome": "left", "why": why}),
            Outcome::Needless(why) => {
                json!({"kind": "outcome", "step": step, "outcome": "left", "why": why.to_string()})
            }
            Outcome::Failed { why } => json!({"kind": "outcome", "step": step, "outcome": "failed", "why": why}),
        });
    }

    pub fn add_end(&mut self, ran: &Ran, was_killed: bool) {
        self.add(&json!({
            "kind": "end",
            "done": ran.done,
            "left": ran.left,
            "failed": ran.failed,
            "gained_bytes": ran.gained_bytes,
            "was_stopped": ran.is_stopped,
            "was_killed": was_killed,
        }));
    }

    /// Writes the lines that were added.
    pub fn write(&mut self, watch: &dyn Watch) -> Result<(), Error> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let written = before(watch, StepKind::Write, &self.path).and_then(|()| self.file.write_all(&self.lines));
        self.lines.clear();
        if written.is_err() {
            // The last line may be cut off; what follows begins a line.
            self.lines.push(b'\n');
        }
        written.map_err(failed(&self.path, "cannot write the journal"))
    }

    /// Writes the lines that were added, and syncs the journal.
    pub fn sync(&mut self, watch: &dyn Watch) -> Result<(), Error> {
        self.write(watch)?;
        self.syncing()?.sync(watch)
    }

    /// Makes what was done durable, then the record of it: syncs the lines so far and all file systems that were written to, then
    /// writes the lines that `record` adds. A record that a power cut loses is made again from what the names lead to.
    pub fn commit(
        &mut self,
        written: &Written,
        watch: &dyn Watch,
        record: impl FnOnce(&mut Self),
    ) -> Result<(), Error> {
        self.sync(watch)?;
        written.sync(watch)?;
        record(self);
        self.write(watch)
    }

    /// A handle to sync the lines written so far, while others may be added.
    pub fn syncing(&self) -> Result<Syncing, Error> {
        let file = self.file.try_clone();
        Ok(Syncing {
            path: self.path.clone(),
            file: file.map_err(failed(&self.path, "cannot sync the journal"))?,
        })
    }

    /// Fails if its path no longer leads to it: undo would not find it.
    pub fn require_named(&self) -> Result<(), Error> {
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        let is_named = self.file.metadata().is_ok_and(|own| {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| id(found) == id(own))
        });
        let lost = || {
            let why = "another program removed or renamed it: what was done cannot be undone, and nothing more is done";
            failed(&self.path, "cannot write the journal")(io::Error::new(io::ErrorKind::NotFound, why))
        };
        is_named.then_some(()).ok_or_else(lost)
    }

    /// When its run began: only the header is read.
    pub fn started(&self) -> Result<SystemTime, Error> {
        let mut header = Vec::new();
        let mut file = &self.file;
        let read = file
            .rewind()
            .and_then(|()| BufReader::new(file.take(HEADER_BYTES_MAX)).read_until(b'\n', &mut header));
        let lines = read.and_then(|_| Lines::of(&header));
        lines
            .map(|lines| lines.started)
            .map_err(failed(&self.path, "cannot read the journal"))
    }

    /// Reads all of it.
    pub fn read(&self) -> Result<Lines, Error> {
        // What is not a journal is not read as a whole.
        self.started()?;
        let mut file = &self.file;
        let text = file.rewind().and_then(|()| read_within(file, BYTES_MAX));
        let text = text.map_err(failed(&self.path, "cannot read the journal"))?;
        Lines::of(&text).map_err(failed(&self.path, "cannot read the journal"))
    }

    /// Whether its run ended: only the end of the file is read.
    pub fn is_complete(&self) -> bool {
        self.tail(64 << 10).is_ok_and(|tail| {
            let mut lines = tail.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let last = lines.next().and_then(|line| serde_json::from_slice::<Value>(line).ok());
            let kind = last.as_ref().and_then(|line| line["kind"].as_str());
            match kind {
                Some("end") => true,
                // The lines of an undo follow the end, if there is one.
                Some("restoring" | "undone" | "tried") => self.read().is_ok_and(|lines| lines.is_complete),
                _ => false,
            }
        })
    }

    fn tail(&self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(tail)
    }
}

/// Tells the watch that a step follows.
pub(super) fn before(watch: &dyn Watch, kind: StepKind, path: &Path) -> io::Result<()> {
    watch.before(&Watched {
        kind,
        path,
        offset: 0,
        bytes: 0,
    })
}

impl Lines {
    /// Reads a journal. Lines that are cut off are skipped: their steps were not begun.
    fn of(text: &[u8]) -> io::Result<Self> {
        let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let header = lines.next().and_then(|line| serde_json::from_slice::<Value>(line).ok());
        let header = header.filter(|header| header["kind"] == "journal");
        let header = header.ok_or_else(|| invalid("not a journal"))?;
        if header["version"] != VERSION {
            let why = format!(
                "it has version {}; this program reads version {VERSION}. Use the version of seekless that made it",
                header["version"]
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let kind = KINDS.iter().find(|(_, name)| header["action"] == *name);
        let kind = kind.ok_or_else(|| invalid("a journal of an unknown action"))?.0;
        let since = Duration::from_nanos(header["started_ns"].as_u64().unwrap_or(0));
        let mut read = Self {
            kind,
            started: UNIX_EPOCH + since,
            entries: Vec::new(),
            came: BTreeMap::new(),
            restored: BTreeMap::new(),
            undone: BTreeMap::new(),
            is_complete: false,
            is_tried: false,
            machine: header["machine"].as_str().map(str::to_owned),
        };
        for line in lines {
            if let Ok(line) = serde_json::from_slice::<Value>(line) {
                read.take(&line);
            }
        }
        Ok(read)
    }

    fn take(&mut self, line: &Value) {
        let step = line["step"].as_u64();
        match (line["kind"].as_str(), step) {
            (Some("step"), _) => self.entries.extend(Entry::of(line)),
            (Some("outcome"), Some(step)) => {
                let gained_bytes = line["gained_bytes"].as_u64().unwrap_or(0);
                let is_left = line["outcome"] == "left";
                self.came.insert(
                    step,
                    if is_left {
                        Came::Left
                    } else {
                        Came::Acted { gained_bytes }
                    },
                );
            }
            (Some("restoring"), Some(step)) => {
                if let (Some(device), Some(inode)) = (line["device"].as_u64(), line["inode"].as_u64()) {
                    let born_ns = line["born_ns"].as_i64();
                    let known = Known { device, inode, born_ns };
                    self.restored.entry(step).or_default().push(known);
                }
            }
            (Some("undone"), Some(step)) => {
                self.undone.insert(step, line["is_undone"] == true);
                self.is_tried = false;
            }
            (Some("tried"), _) => self.is_tried = true,
            (Some("end"), _) => self.is_complete = true,
            _ => {}
        }
    }

    /// The space that all steps freed.
    pub fn gained_bytes(&self) -> u64 {
        let gained = |came: &Came| match came {
            Came::Acted { gained_bytes } => *gained_bytes,
            Came::Left => 0,
        };
        self.came.values().map(gained).sum()
    }

    /// Fails for a journal of another machine, and if this one has an ID that cannot be read.
    pub fn require_own(&self) -> io::Result<()> {
        let ours = machine(Path::new(MACHINE_ID));
        let ours = ours.map_err(|error| io::Error::new(error.kind(), format!("cannot read {MACHINE_ID}: {error}")))?;
        match (&self.machine, ours) {
            (Some(theirs), Some(ours)) if *theirs != ours => Err(invalid("the journal was made on another machine")),
            _ => Ok(()),
        }
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_this_machine_that_cannot_be_read_is_not_taken_for_none() {
        let place = tempfile::tempdir().unwrap();
        let id = place.path().join("machine-id");
        let name = seekless_sys::host_name();
        assert_eq!(machine(&id).unwrap(), name);
        fs::write(&id, "\n").unwrap();
        assert_eq!(machine(&id).unwrap(), name);
        fs::write(&id, "0123456789abcdef\n").unwrap();
        assert_eq!(machine(&id).unwrap().as_deref(), Some("0123456789abcdef"));
        machine(place.path()).unwrap_err();
    }
}
