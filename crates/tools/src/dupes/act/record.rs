//! What a journal says of a step, enough to undo it or to recover it after a kill; the lines of a journal, and what they say of its
//! run when they are read.
//!
//! Not here: the file that holds them (`journal`), and what a name leads to (`name_state`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_engine::files::{Attributes, FileId, FileRef, RecordForm, RecordReader, nanoseconds, read_full, times};
use seekless_sys as sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dir_handle::{DirEntryHandle, Directories};
use super::{Action, Ran, RefusalReason, Step, StepOutcome, TEMPORARY, cannot};
use crate::Stop;
use crate::json;
use crate::walk::StatFacts;

/// The directory of files in a trash.
pub(super) const TRASHED_FILES: &str = "files";
/// The directory of what is known of them.
const TRASHED_INFO: &str = "info";
/// How much of the end of a name is part of the name in the trash.
const TRASHED_NAME_BYTES: usize = 150;

const BLOCK_BYTES: usize = 1 << 20;

/// A step with all that undoing it needs, which is known before it is done: a line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepRecord {
    #[serde(rename = "step")]
    pub number: u64,
    #[serde(flatten)]
    pub step: Step,
    /// BLAKE3 of the bytes of both files.
    #[serde(rename = "blake3")]
    pub digest: String,
    /// When the kept file was made, if its file system records this.
    pub keep_born_ns: Option<i64>,
    /// The volumes that the file and the kept file are on.
    pub volume: String,
    pub keep_volume: String,
    pub old: OldFile,
    /// What is done with each path of the file.
    pub names: Vec<StepName>,
    /// What came of it; `None` if that was not written down.
    #[serde(skip)]
    pub outcome: Option<StepOutcome>,
    /// Files that were made to undo it, the last one by the last undo.
    #[serde(skip)]
    pub restored: Vec<KnownFile>,
    /// Whether an undo left nothing of it to undo.
    #[serde(skip)]
    pub is_undone: bool,
}

/// What undoing gives to a new file, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OldFile {
    #[serde(flatten)]
    pub attributes: Attributes,
    /// Flags (chattr(1)); `None` if the file system has none.
    pub flags: Option<u32>,
    /// Flags, extent sizes and project ([`seekless_sys::extended_flags`]); `None` if the file system has none.
    pub extended_flags: Option<[u32; 4]>,
    /// Seconds and ns since 1970: years after 2262 do not fit into ns alone.
    pub modified: (i64, u32),
    pub accessed: (i64, u32),
    /// Number of its hard links; the search may have seen fewer.
    pub links: u64,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
}

/// A name of a file, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepName {
    #[serde(skip)]
    pub path: PathBuf,
    /// The temporary name, in the same directory, of the file or of what takes its place.
    pub temporary: String,
    #[serde(flatten)]
    pub change: NameChange,
}

/// What is done with a name, and so what gives it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub(super) enum NameChange {
    /// The file loses it to nothing or to the kept file, or only shares blocks. A copy of the kept file gets it back.
    Taken,
    /// A symbolic link takes it. A copy of the kept file gets it back.
    Linked {
        #[serde(with = "json::path")]
        target: PathBuf,
    },
    /// The file is moved elsewhere, and moved back.
    Moved(NewPlace),
}

/// Where a file is moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewPlace {
    #[serde(with = "json::path")]
    pub to: PathBuf,
    /// How many of the last directories of that path are made for it.
    pub made: u64,
    /// Whether that is a trash, in which another file says where it was.
    pub is_trash: bool,
}

/// Where a path is moved to: below a directory, with its whole path.
pub(super) fn moved_to(to: &Path, path: &Path) -> PathBuf {
    to.join(path.strip_prefix("/").unwrap_or(path))
}

impl NewPlace {
    /// The file that says where a file in a trash was.
    pub fn info(&self) -> Option<PathBuf> {
        let files = self.to.parent().filter(|_| self.is_trash)?;
        let mut name = self.to.file_name()?.to_owned();
        name.push(".trashinfo");
        Some(files.with_file_name(TRASHED_INFO).join(name))
    }
}

impl OldFile {
    /// What an open file has.
    pub fn of(file: &File) -> Result<Self, RefusalReason> {
        let found = file.metadata().map_err(cannot("stat"))?;
        let [accessed, modified] = times(&found);
        Ok(Self {
            attributes: Attributes::of(file).map_err(cannot("read its attributes"))?,
            flags: sys::inode_flags(file).map_err(cannot("read its flags"))?.available(),
            extended_flags: sys::extended_flags(file)
                .map_err(cannot("read its extended flags"))?
                .available(),
            modified,
            accessed,
            links: found.nlink(),
            born_ns: born_ns_of(&found),
        })
    }

    /// Whether every owner of a file may give this to it.
    pub fn is_plain(&self) -> bool {
        self.attributes.mode & 0o7000 == 0
            && self.attributes.extended.as_ref().is_none_or(Vec::is_empty)
            && self.flags.is_none_or(|flags| flags == 0)
            && self.extended_flags.unwrap_or_default() == [0; 4]
    }

    /// What distinguishes it from files that get something else.
    pub fn kind(&self) -> String {
        format!("{:?} {:?} {:?}", self.attributes, self.flags, self.extended_flags)
    }

    /// Gives an empty file the flags, some of which only an empty file takes.
    pub fn give_flags(&self, new: &File) -> Result<(), RefusalReason> {
        if let Some(flags) = self.flags {
            sys::set_inode_flags(new, flags).map_err(cannot("restore its flags (lsattr)"))?;
        }
        if let Some(flags) = self.extended_flags {
            sys::set_extended_flags(new, flags).map_err(cannot("restore its project or extent size (xfs_io)"))?;
        }
        Ok(())
    }

    /// Gives a file the owner, mode, attributes and times.
    pub fn give_attributes(&self, new: &File) -> Result<(), RefusalReason> {
        let given = self.attributes.give(new);
        given.map_err(|(attribute, error)| cannot(format!("restore its {attribute}"))(error))?;
        self.give_times(new)
    }

    /// Gives a file the times.
    pub fn give_times(&self, new: &File) -> Result<(), RefusalReason> {
        let set = FileRef::Open(new.as_fd()).set_times(Some(self.accessed), self.modified);
        set.map_err(cannot("restore its times"))
    }
}

impl StepRecord {
    /// A step that is not done yet, on a volume.
    pub fn new(number: u64, step: &Step, volume: &str, old: OldFile, names: Vec<StepName>) -> Self {
        Self {
            number,
            step: step.clone(),
            digest: String::new(),
            keep_born_ns: None,
            volume: volume.to_owned(),
            keep_volume: volume.to_owned(),
            old,
            names,
            outcome: None,
            restored: Vec::new(),
            is_undone: false,
        }
    }

    /// Sets the paths of the names, which a line has once; `None` if it is damaged: a temporary name stays in its directory.
    fn with_paths(mut self) -> Option<Self> {
        let (names, paths) = (&mut self.names, &self.step.file.paths);
        let is_plain = |name: &StepName| name.temporary.starts_with(TEMPORARY) && !name.temporary.contains('/');
        let is_whole = !paths.is_empty() && names.len() == paths.len() && names.iter().all(is_plain);
        for (name, path) in names.iter_mut().zip(paths) {
            name.path.clone_from(path);
        }
        is_whole.then_some(self)
    }

    /// The place that one of its paths names. Fails if the volume that it was on is not mounted there.
    pub fn place(&self, path: &Path, directories: &Directories) -> io::Result<DirEntryHandle> {
        let is_kept = *path == self.step.keep.path;
        let volume = if is_kept { &self.keep_volume } else { &self.volume };
        directories.place_on(path, volume)
    }

    /// How many names of the file the step is not about.
    pub fn links_elsewhere(&self) -> u64 {
        self.old.links.saturating_sub(self.names.len() as u64)
    }

    /// The file that was acted on.
    pub fn acted_on(&self) -> KnownFile {
        KnownFile::new(self.step.file.state.id(), self.old.born_ns)
    }

    /// The file that was kept.
    pub fn kept(&self) -> KnownFile {
        KnownFile::new(self.step.keep.state.id(), self.keep_born_ns)
    }

    /// Whether a file has the size and the time of the one that was acted on.
    pub fn is_as_old(&self, found: &StatFacts) -> bool {
        let was = &self.step.file.state;
        (was.bytes, was.modified_ns) == (found.bytes, found.modified_ns)
    }

    /// Whether a file has the bytes that both files had.
    ///
    /// # Errors
    /// It was stopped before that was known.
    pub fn has_digest(&self, found: &StatFacts, file: &File, stop: &Stop) -> io::Result<bool> {
        if found.bytes != self.step.file.state.bytes {
            return Ok(false);
        }
        match digest_of(file, found.bytes, &mut Vec::new(), &|| !stop.is_stopped()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            digest => Ok(digest.is_ok_and(|digest| digest == self.digest)),
        }
    }
}

/// Where a file is in a trash. `temporary` is a name that no other run uses.
pub(super) fn in_trash_of(trash: &Path, path: &Path, temporary: &str) -> PathBuf {
    let own = path.file_name().unwrap_or_default().as_bytes();
    let is_start = |at: &usize| own[*at] & 0xc0 != 0x80;
    let start = (own.len().saturating_sub(TRASHED_NAME_BYTES)..own.len()).find(is_start);
    let mut name = OsString::from(temporary.trim_start_matches('.').to_owned() + "-");
    name.push(OsStr::from_bytes(&own[start.unwrap_or(0)..]));
    trash.join(TRASHED_FILES).join(name)
}

/// Birth time of a file, in ns since 1970, if its file system has it. A new file with the inode number of a removed one was
/// made at another time.
pub(super) fn born_ns(file: &File) -> Option<i64> {
    born_ns_of(&file.metadata().ok()?)
}

/// The same, of its metadata.
pub(super) fn born_ns_of(metadata: &Metadata) -> Option<i64> {
    let born = metadata.created().ok()?;
    let since = born.duration_since(UNIX_EPOCH).ok()?;
    let seconds = i64::try_from(since.as_secs()).ok()?;
    Some(nanoseconds(seconds, since.subsec_nanos().into()))
}

/// What identifies a file in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownFile {
    device: u64,
    inode: u64,
    born_ns: Option<i64>,
}

impl KnownFile {
    pub fn new(id: FileId, born_ns: Option<i64>) -> Self {
        Self {
            device: id.device,
            inode: id.inode,
            born_ns,
        }
    }

    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(StatFacts::of(file)?.id(), born_ns(file)))
    }

    /// Whether a name leads to this file.
    pub fn is_at(&self, place: &DirEntryHandle, called: &OsStr) -> bool {
        let opened = place.opened(called);
        opened.is_some_and(|(found, file)| self.is(&found, file.as_deref()))
    }

    pub fn is_open(&self, file: &File) -> bool {
        StatFacts::of(file).is_ok_and(|found| self.is(&found, Some(file)))
    }

    /// Whether a file is this one. A file system may have another device number after a restart, so the number decides
    /// only if a birth time is missing; one that this user may not open has none.
    pub fn is(&self, found: &StatFacts, file: Option<&File>) -> bool {
        self.inode == found.inode
            && match self.born_ns.zip(file.and_then(born_ns)) {
                Some((was, now)) => was == now,
                None => self.device == found.device,
            }
    }
}

/// BLAKE3 of the first bytes of a file, as digits.
pub(super) fn digest_of(
    file: &File,
    bytes: u64,
    block: &mut Vec<u8>,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<String> {
    // Room for a small file only: most are small, and a long block takes longer to clear than they take to read.
    let wanted = bytes.min(BLOCK_BYTES as u64) as usize;
    if block.len() < wanted {
        block.resize(wanted, 0);
    }
    let mut digest = blake3::Hasher::new();
    let mut at = 0;
    while at < bytes {
        if !goes_on() {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "stopped, or another process opens it for writing",
            ));
        }
        let length = (bytes - at).min(block.len() as u64) as usize;
        let read = read_full(file, &mut block[..length], at)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it is shorter than it was",
            ));
        }
        digest.update(&block[..read]);
        at += read as u64;
    }
    Ok(digest.finalize().to_hex().to_string())
}

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
    pub machine: Option<String>,
    /// How IDs of users and groups were mapped.
    pub id_maps: Option<String>,
    pub process: u32,
    pub started_ns: u64,
    #[serde(flatten)]
    pub action: Action,
}

/// The form of a journal.
pub(super) const FORM: RecordForm = RecordForm {
    program: "dupes",
    version: 3,
    payload_bytes_max: 1 << 30,
    earlier: b"{",
};
/// The version of journals whose lines have no sums.
const LINES_VERSION: u64 = 2;

impl JournalHeader {
    /// Reads the header of a journal. The reader goes on after it.
    pub fn read(journal: &File) -> io::Result<(Self, RecordReader<&File>)> {
        let mut records = RecordReader::new(&FORM, journal)?;
        let first = records.next().transpose()?.and_then(Result::ok).unwrap_or_default();
        let header: Value = serde_json::from_slice(&first).unwrap_or_default();
        if header["kind"] != "journal" {
            return Err(invalid("not a journal"));
        }
        if records.has_lines() && header["version"] != LINES_VERSION {
            return Err(FORM.other_version(&header["version"].to_string()));
        }
        match JournalLine::of(&first) {
            Some(JournalLine::Journal(header)) => Ok((header, records)),
            _ => Err(invalid("a journal with a damaged first line")),
        }
    }

    /// When the run began.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started_ns)
    }
}

/// A journal that was read.
pub(super) struct RunRecord {
    pub header: JournalHeader,
    /// Its steps by their numbers, in the order in which they were done.
    pub entries: BTreeMap<u64, StepRecord>,
    pub is_complete: bool,
    /// Whether its run was stopped before its end, or killed and then recovered.
    pub is_cut_short: bool,
    /// Whether the last undo restored nothing and failed.
    pub is_tried: bool,
    /// Whether it ends while an undo restores files: that was killed.
    pub is_restoring: bool,
}

impl JournalLine {
    /// Reads what a record says; `None` if it is cut off.
    pub fn of(text: &[u8]) -> Option<Self> {
        json::read(serde_json::from_slice(text).ok()?).ok()
    }
}

impl RunRecord {
    /// Reads a journal. Records that are cut off or damaged are skipped: steps that were cut off were not begun.
    pub fn read(journal: &File) -> io::Result<Self> {
        let (header, records) = JournalHeader::read(journal)?;
        let mut read = Self {
            header,
            entries: BTreeMap::new(),
            is_complete: false,
            is_cut_short: false,
            is_tried: false,
            is_restoring: false,
        };
        for record in records {
            if let Some(line) = record?.ok().and_then(|payload| JournalLine::of(&payload)) {
                read.take(line);
            }
        }
        Ok(read)
    }

    fn take(&mut self, line: JournalLine) {
        self.is_restoring = matches!(line, JournalLine::Restoring { .. });
        match line {
            JournalLine::Journal(_) => {}
            JournalLine::Step(entry) => {
                let entry = entry.with_paths();
                self.entries.extend(entry.map(|entry| (entry.number, entry)));
            }
            JournalLine::Outcome { step, outcome } => self.note(step, |entry| entry.outcome = Some(outcome)),
            JournalLine::Restoring { step, file } => self.note(step, |entry| entry.restored.push(file)),
            JournalLine::Undone { step, is_undone } => {
                self.note(step, |entry| entry.is_undone = is_undone);
                self.is_tried = false;
            }
            JournalLine::Tried => self.is_tried = true,
            JournalLine::End { ran, was_killed } => {
                self.is_complete = true;
                self.is_cut_short = was_killed || ran.is_stopped;
            }
        }
    }

    fn note(&mut self, step: u64, change: impl FnOnce(&mut StepRecord)) {
        self.entries.get_mut(&step).map(change);
    }

    /// The steps that may have changed something, the last one first.
    pub fn undoable(&self) -> impl Iterator<Item = &StepRecord> {
        let has_acted = |entry: &&StepRecord| entry.outcome.as_ref().is_none_or(StepOutcome::has_acted);
        self.entries.values().rev().filter(has_acted)
    }

    /// The space that all steps freed.
    pub fn gained_bytes(&self) -> u64 {
        let outcomes = self.entries.values().filter_map(|entry| entry.outcome.as_ref());
        outcomes.map(StepOutcome::gained_bytes).sum()
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

/// Where this machine's ID is: machine-id(5).
pub(super) const MACHINE_ID: &str = "/etc/machine-id";

/// The machine's ID in this file; empty if it has none.
pub(super) fn machine_id(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read?.trim_ascii().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_trash_keeps_its_end_and_is_never_too_long() {
        let long = format!("/d/{}.jpg", "\u{e9}".repeat(120));
        for path in ["/d/a.jpg", &long] {
            let to = in_trash_of(Path::new("/t"), Path::new(path), ".seekless-dupes-1-0-0");
            let (made, is_trash) = (0, true);
            let info = NewPlace {
                to: to.clone(),
                made,
                is_trash,
            }
            .info()
            .unwrap();
            let name = info.file_name().unwrap().to_str().unwrap();
            assert!(name.ends_with(".jpg.trashinfo") && name.len() < 255, "{name}");
            assert_eq!(to.file_name().unwrap().to_str(), name.strip_suffix(".trashinfo"));
            assert_eq!(info.parent(), Some(Path::new("/t/info")));
        }
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
