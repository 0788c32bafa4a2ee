//! The journal of a run, in JSON lines: a header; each step before it is done; its outcome; an end. Undone steps are
//! added after that.
//!
//! Not here: what is done about a journal that has no end (`settle`), and undoing (`undo`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::fs::{OFlags, fcntl_setfl};
use seekless::files::{Exposed, FileId, lock, open_own, read_within, sync_written};
use seekless::update::{StepKind, Watch};
use seekless_sys::{self as sys, Access};

use super::origin::MACHINE_ID;
use super::place::ExaminedName;
use super::run_record::{JournalHeader, JournalLine, RunRecord, machine};
use super::{Action, Error};
use crate::json;
use crate::walk::StatFacts;

/// The longest header.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// The longest journal that is read.
const BYTES_MAX: u64 = 4 << 30;
/// A process that was killed, or is just starting another, may hold a lock for a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// A journal that is open for adding lines, and locked.
pub(super) struct RunJournal {
    pub path: PathBuf,
    file: File,
    /// Lines that were added and not written yet.
    lines: Mutex<Vec<u8>>,
}

/// The file systems that were written to, by device: a path, and a directory if one can be read.
#[derive(Default)]
pub(super) struct Written(BTreeMap<u64, (PathBuf, Option<File>)>);

impl Written {
    /// Notes the file system of a place that will be written to, unless it is read-only.
    pub fn note_before(&mut self, place: &ExaminedName) {
        let found = || sys::file_system_of(&*place.directory);
        self.note_if(place, || !found().is_ok_and(|found| found.read_only));
    }

    /// Notes the file system of a place that was written to.
    pub fn note(&mut self, place: &ExaminedName) {
        self.note_if(place, || true);
    }

    fn note_if(&mut self, place: &ExaminedName, is_wanted: impl FnOnce() -> bool) {
        let device = StatFacts::of(&*place.directory).map_or(0, |facts| facts.device);
        if let Slot::Vacant(vacant) = self.0.entry(device)
            && is_wanted()
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

/// How a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its run, and undoing it, ended.
    Whole,
    /// Its run was killed.
    KilledRun,
    /// An undo was killed while it restored files.
    KilledUndo,
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

impl RunJournal {
    /// Makes the journal of a run that begins.
    pub fn make(directory: &Path, action: &Action, run: &str, watch: &dyn Watch) -> Result<Self, Error> {
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
        let header = JournalHeader {
            version: RunRecord::VERSION,
            run: run.to_owned(),
            machine,
            id_maps: sys::id_maps().map(|maps| maps.text),
            process: std::process::id(),
            started_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            action: action.clone(),
        };
        let journal = Self {
            path,
            file,
            lines: Mutex::default(),
        };
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
        let journal = Self {
            path: path.to_owned(),
            file,
            lines: Mutex::default(),
        };
        // A kill or a full disk may have cut off the last line.
        if journal.tail(1).is_ok_and(|tail| tail != b"\n") {
            journal.lines().push(b'\n');
        }
        Ok(Some(journal))
    }

    /// Opens a journal that another process may be adding to.
    pub fn read_only(path: &Path) -> Result<Self, Error> {
        let file = open_own(path, Access::Read).map_err(failed(path, "cannot use the journal"))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            lines: Mutex::default(),
        })
    }

    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, which is written by the next call of [`Self::write`].
    pub fn add(&self, line: &JournalLine) {
        let text = json::written(line).to_string() + "\n";
        self.lines().extend_from_slice(text.as_bytes());
    }

    /// Writes the lines that were added.
    pub fn write(&self, watch: &dyn Watch) -> Result<(), Error> {
        let mut lines = self.lines();
        if lines.is_empty() {
            return Ok(());
        }
        let told = watch.announce(StepKind::Write, &self.path);
        let written = told.and_then(|()| (&self.file).write_all(&lines));
        lines.clear();
        if written.is_err() {
            // The last line may be cut off; what follows begins a line.
            lines.push(b'\n');
        }
        written.map_err(failed(&self.path, "cannot write the journal"))
    }

    /// Writes the lines that were added, and syncs the journal; others may add and write lines meanwhile.
    pub fn sync(&self, watch: &dyn Watch) -> Result<(), Error> {
        self.write(watch)?;
        let told = watch.announce(StepKind::Sync, &self.path);
        let synced = told.and_then(|()| self.file.sync_data());
        synced.map_err(failed(&self.path, "cannot sync the journal"))
    }

    /// Makes what was done durable, then the record of it: syncs the lines so far and all file systems that were written to, then
    /// writes the lines that `record` adds. A record that a power cut loses is made again from what the names lead to.
    pub fn commit(&self, written: &Written, watch: &dyn Watch, record: impl FnOnce(&Self)) -> Result<(), Error> {
        self.sync(watch)?;
        written.sync(watch)?;
        record(self);
        self.write(watch)
    }

    /// Fails if its path no longer leads to it: undo would not find it.
    pub fn require_named(&self) -> Result<(), Error> {
        let is_named = self.file.metadata().is_ok_and(|own| {
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
        let mut header = Vec::new();
        let mut file = &self.file;
        let read = file
            .rewind()
            .and_then(|()| BufReader::new(file.take(HEADER_BYTES_MAX)).read_until(b'\n', &mut header));
        let lines = read.and_then(|_| RunRecord::of(&header));
        lines
            .map(|lines| lines.header.started())
            .map_err(failed(&self.path, "cannot read the journal"))
    }

    /// Reads all of it.
    pub fn read(&self) -> Result<RunRecord, Error> {
        // What is not a journal is not read as a whole.
        self.started()?;
        let mut file = &self.file;
        let text = file.rewind().and_then(|()| read_within(file, BYTES_MAX));
        let text = text.map_err(failed(&self.path, "cannot read the journal"))?;
        RunRecord::of(&text).map_err(failed(&self.path, "cannot read the journal"))
    }

    /// How it ends: only the end of the file is read.
    pub fn ending(&self) -> Ending {
        let tail = self.tail(64 << 10).unwrap_or_default();
        let mut lines = tail.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        match lines.next().and_then(JournalLine::of) {
            Some(JournalLine::End { .. }) => Ending::Whole,
            // The lines of an undo follow the end, if there is one.
            Some(last @ (JournalLine::Restoring { .. } | JournalLine::Undone { .. } | JournalLine::Tried)) => {
                match self.read() {
                    Ok(lines) if !lines.is_complete => Ending::KilledRun,
                    _ if matches!(last, JournalLine::Restoring { .. }) => Ending::KilledUndo,
                    _ => Ending::Whole,
                }
            }
            _ => Ending::KilledRun,
        }
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

    #[test]
    fn an_id_of_this_machine_that_cannot_be_read_is_not_taken_for_none() {
        let place = tempfile::tempdir().unwrap();
        let id = place.path().join("machine-id");
        let name = sys::host_name();
        assert_eq!(machine(&id).unwrap(), name);
        fs::write(&id, "\n").unwrap();
        assert_eq!(machine(&id).unwrap(), name);
        fs::write(&id, "0123456789abcdef\n").unwrap();
        assert_eq!(machine(&id).unwrap().as_deref(), Some("0123456789abcdef"));
        machine(place.path()).unwrap_err();
    }
}
