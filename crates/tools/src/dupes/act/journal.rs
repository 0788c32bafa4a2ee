//! The journal of a run, records of JSON: a header; each step before it is done; its outcome; an end. Undone steps are
//! added after that. Which journals there are, and removing them.
//!
//! Not here: what records say (`record`), what is done about a journal that has no end, and undoing (`undo`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::{OFlags, fcntl_setfl};
use seekless_engine::files::{FileId, RecordReader, RecordWriter, WritableByOthers, lock, open_own, sync_written};
use seekless_engine::update::{StepKind, Watch};
use seekless_sys::{self as sys, Access};

use super::dir_handle::DirEntryHandle;
use super::record::{FORM, JournalHeader, JournalLine, MACHINE_ID, RunRecord, StepRecord, machine};
use super::{Action, Error};
use crate::json;

/// A process that was killed, or is just starting another, may hold a lock for a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// A journal that is open for adding lines, and locked.
pub(super) struct RunJournal {
    pub path: PathBuf,
    records: RecordWriter,
}

/// The file systems that were written to, by device: a path, and a directory if one can be read.
#[derive(Default)]
pub(super) struct Written(BTreeMap<u64, (PathBuf, Option<File>)>);

impl Written {
    /// Notes the file system of a place that was written to; if it `will_be`, unless it is read-only.
    pub fn note(&mut self, place: &DirEntryHandle, will_be: bool) {
        let found = || sys::file_system_of(&*place.directory);
        if let Slot::Vacant(vacant) = self.0.entry(place.limits.device)
            && !(will_be && found().is_ok_and(|found| found.read_only))
        {
            // The handle of a directory is for lookups only, and cannot be synced.
            let directory = place.directory.open_plain(OsStr::new("."), Access::Read);
            vacant.insert((place.path.clone(), directory.ok()));
        }
    }

    fn sync(&self, watch: &dyn Watch) -> Result<(), Error> {
        for (path, directory) in self.0.values() {
            let synced = watch.announce(StepKind::Sync, path).and_then(|()| {
                let Some(directory) = directory else {
                    rustix::fs::sync();
                    return Ok(());
                };
                sync_written(directory)
            });
            synced.map_err(failed(path, "cannot sync its file system"))?;
        }
        Ok(())
    }
}

/// The error of a call on a journal, or on a directory.
pub(super) fn failed<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
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
    let paths = entries.map(|entry| Ok(entry.map_err(failed(directory, "cannot list the journals"))?.path()));
    let mut paths: Vec<_> = paths.collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    Ok(paths)
}

/// Fails if another user could remove or rename journals: what they say could not be undone.
fn require_private(directory: &Path) -> Result<(), Error> {
    // What is made below the last directory that exists is this user's own.
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    let exposed = WritableByOthers::on_the_way(existing);
    let exposed = exposed.map_err(failed(directory, "cannot examine the directory of journals"))?;
    let Some(exposed) = exposed else { return Ok(()) };
    let hint =
        "other users could remove journals; take away their write access, or set XDG_STATE_HOME to another directory";
    let why = io::Error::new(io::ErrorKind::PermissionDenied, format!("{exposed}: {hint}"));
    Err(failed(directory, "cannot keep a journal")(why))
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

impl RunJournal {
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
        let path = directory.join(format!("{time}-{}.jsonl", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(failed(&path, "cannot make the journal"))?;
        // Another process may be checking whether this run was killed.
        let locked = lock(&file, PATIENCE)
            .and_then(|is_locked| is_locked.then_some(()).ok_or_else(|| io::ErrorKind::WouldBlock.into()));
        locked.map_err(failed(&path, "cannot lock the journal"))?;
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = JournalHeader {
            machine,
            id_maps: sys::id_maps().map(|maps| maps.text),
            process: std::process::id(),
            started_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            action: action.clone(),
        };
        let records = RecordWriter::begin(file, &FORM);
        let journal = Self { path, records };
        journal.add(&JournalLine::Journal(header));
        let written = journal.write(watch).and_then(|()| {
            // The names of directories that were made above it must last, too.
            let sync = |open: File| {
                if is_new { sync_written(&open) } else { sys::sync(&open) }
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
        Ok(Some(Self::of(path, file)))
    }

    /// Opens a journal that another process may be adding to.
    pub fn read_only(path: &Path) -> Result<Self, Error> {
        let file = open_own(path, Access::Read).map_err(failed(path, "cannot use the journal"))?;
        Ok(Self::of(path, file))
    }

    fn of(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            records: RecordWriter::go_on(file),
        }
    }

    /// Adds a record, which is written by the next call of [`Self::write`].
    pub fn add(&self, line: &JournalLine) {
        self.records.add(json::written(line).to_string().as_bytes());
    }

    /// Writes the records that were added.
    pub fn write(&self, watch: &dyn Watch) -> Result<(), Error> {
        let written = self.records.write(|| watch.announce(StepKind::Write, &self.path));
        written.map_err(failed(&self.path, "cannot write the journal"))
    }

    /// Writes the records that were added, and syncs the journal; others may add and write records meanwhile.
    pub fn sync(&self, watch: &dyn Watch) -> Result<(), Error> {
        self.write(watch)?;
        let told = watch.announce(StepKind::Sync, &self.path);
        let synced = told.and_then(|()| self.records.file.sync_data());
        synced.map_err(failed(&self.path, "cannot sync the journal"))
    }

    /// Makes what was done durable, then the record of it: syncs the records so far and all file systems that were written to, then
    /// writes the records that `record` adds. A record that a power cut loses is made again from what the names lead to.
    pub fn commit(&self, written: &Written, watch: &dyn Watch, record: impl FnOnce(&Self)) -> Result<(), Error> {
        self.sync(watch)?;
        written.sync(watch)?;
        record(self);
        self.write(watch)
    }

    /// Fails if its path no longer leads to it: undo would not find it.
    pub fn require_named(&self) -> Result<(), Error> {
        let is_named = self.records.file.metadata().is_ok_and(|own| {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| FileId::of(&found) == FileId::of(&own))
        });
        let lost = || {
            let why = "another program removed or renamed it: what was done cannot be undone, and nothing more is done";
            failed(&self.path, "cannot write the journal")(io::Error::new(io::ErrorKind::NotFound, why))
        };
        is_named.then_some(()).ok_or_else(lost)
    }

    /// When its run began: only the header is read.
    pub fn started(&self) -> Result<SystemTime, Error> {
        let header = JournalHeader::read(&self.records.file).map_err(failed(&self.path, "cannot read the journal"))?;
        Ok(header.0.started())
    }

    /// Reads all of it.
    pub fn read(&self) -> Result<RunRecord, Error> {
        RunRecord::read(&self.records.file).map_err(failed(&self.path, "cannot read the journal"))
    }

    /// Whether its last record is the end of its run: only the end of the file is read.
    pub fn has_end(&self) -> bool {
        const TAIL_BYTES: u64 = 64 << 10;
        let mut file = &self.records.file;
        let mut tail = Vec::new();
        let read = file.seek(SeekFrom::End(0)).and_then(|length| {
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            file.read_to_end(&mut tail)
        });
        let last = RecordReader::within(&FORM, Cursor::new(tail)).last();
        let line = last.and_then(|last| JournalLine::of(&last.ok()?.ok()?));
        read.is_ok() && matches!(line, Some(JournalLine::End { .. }))
    }
}

/// What a journal says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// The journal.
    pub path: PathBuf,
    /// When the run began.
    pub started: SystemTime,
    /// What it did.
    pub action: Action,
    /// Files that were acted on, each with all its names.
    pub files: u64,
    /// Directories that were removed because their files moved.
    pub directories: u64,
    /// How many of both were undone.
    pub undone: u64,
    /// The space that the run freed.
    pub gained_bytes: u64,
    /// Whether the run is at work.
    pub is_running: bool,
    /// Whether something is left to settle or to undo.
    pub is_open: bool,
    /// Whether the run was stopped or killed before its end.
    pub is_interrupted: bool,
    /// Whether undoing it failed, and restored nothing, the last time.
    pub is_tried: bool,
}

impl PastRun {
    /// Whether all that it did was undone.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        let steps = self.files + self.directories;
        self.undone >= steps && steps > 0
    }
}

/// Journals are kept for 90 days.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// The newest are kept in any case: the clock may have been set forward.
const NEWEST_KEPT: usize = if cfg!(test) { 0 } else { 20 };

/// The journals, and why others cannot be trusted, each the newest first.
///
/// # Errors
/// If the directory cannot be read; one that does not exist has none.
pub fn list(state_directory: &Path) -> Result<(Vec<PastRun>, Vec<Error>), Error> {
    let (mut found, mut untrusted) = (Vec::new(), Vec::new());
    for path in all(&directory(state_directory))? {
        // The journal of a run at work is locked, but can be read.
        let (lines, is_running) = match RunJournal::open(&path) {
            Ok(Some(open)) => (open.read(), false),
            Ok(None) => (RunJournal::read_only(&path).and_then(|open| open.read()), true),
            Err(error) => (Err(error), false),
        };
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                if error.source.kind() == io::ErrorKind::PermissionDenied {
                    untrusted.push(error);
                }
                continue;
            }
        };
        let is_done = |entry: &&StepRecord| entry.outcome.is_some();
        let done: Vec<&StepRecord> = lines.undoable().filter(is_done).collect();
        let directories = done.iter().filter(|entry| entry.step.file.is_directory).count() as u64;
        let undone = done.iter().filter(|entry| entry.is_undone).count();
        found.push(PastRun {
            path,
            started: lines.header.started(),
            action: lines.header.action.clone(),
            files: done.len() as u64 - directories,
            directories,
            undone: undone as u64,
            gained_bytes: lines.gained_bytes(),
            is_running,
            is_open: !lines.is_complete || undone < done.len(),
            is_interrupted: !lines.is_complete || lines.is_cut_short,
            is_tried: lines.is_tried,
        });
    }
    found.reverse();
    untrusted.reverse();
    Ok((found, untrusted))
}

/// Where the journal with a name is, if there is one.
#[must_use]
pub fn path_of(state_directory: &Path, name: &Path) -> PathBuf {
    let mut file = name.as_os_str().to_owned();
    if name.extension().is_none_or(|extension| extension != "jsonl") {
        file.push(".jsonl");
    }
    directory(state_directory).join(file)
}

/// Opens a journal that is not at work.
pub(super) fn own(path: &Path) -> Result<RunJournal, Error> {
    let running = || io::Error::new(io::ErrorKind::WouldBlock, "its run, or an undo of it, is still running");
    RunJournal::open(path)?.ok_or_else(|| failed(path, "cannot lock the journal")(running()))
}

/// Removes a journal: what it says can no longer be undone.
///
/// # Errors
/// The system's, or that its run is still at work.
pub fn forget(journal: &Path) -> Result<(), Error> {
    let open = own(journal)?;
    // A file without a header is not a journal.
    open.read()?;
    fs::remove_file(journal).map_err(failed(journal, "cannot remove the journal"))
}

/// Removes journals that are older than 90 days, but for the newest; returns how many.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn expire(state_directory: &Path, now: SystemTime) -> Result<u64, Error> {
    let mut count = 0;
    let mut all = all(&directory(state_directory))?;
    all.truncate(all.len().saturating_sub(NEWEST_KEPT));
    for path in all {
        let Ok(Some(open)) = RunJournal::open(&path) else {
            continue;
        };
        let Ok(started) = open.started() else { continue };
        let age = now.duration_since(started).unwrap_or_default();
        if age > KEPT && fs::remove_file(&path).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Mounted;

    #[test]
    fn a_file_system_that_became_read_only_is_not_said_to_be_synced() {
        let place = tempfile::tempdir().unwrap();
        sync_written(&File::open(place.path()).unwrap()).unwrap();
        let Some(_mounted) = Mounted::tmpfs(place.path().to_owned(), "ro") else {
            return;
        };
        let synced = sync_written(&File::open(place.path()).unwrap());
        assert_eq!(synced.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
}
