//! What lets an interrupted copy go on: when it began, and until when everything that it made is on the device.
//!
//! Files get their names when they are whole, with the size and time of modification of their sources. So whether a file of the
//! target is done follows from the file and from the journal: it is if the journal has its name or that of a directory above, if it
//! is like its source, which did not change since the copy began, and if it was named since then. After a crash, this holds for what
//! was named before the last sync only. All times are those of the target's file system, because the journal is a file in it.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use seekless_engine::files::{FileRef, FileState, RecordForm, RecordReader, RecordWriter, Time, lock, sync_written};
use seekless_engine::walk::{StatFacts, is_sure};
use seekless_sys::{self as sys, Directory, Support, effective_user};
use serde::{Deserialize, Serialize};

use super::FollowedLinks;
use crate::handle::path_of;
use crate::visible::visible_path;
use crate::volume::system_of;

/// The journal of a copy.
pub(super) struct CopyJournal {
    records: RecordWriter,
    name: CString,
    /// When the copy began, also if it was interrupted since.
    began_ns: i64,
    /// What makes the names of its temporary files.
    secret: u64,
    /// What interrupted processes named in directories that they had not made.
    named: HashSet<u64>,
    /// What this process named and the journal does not have yet.
    unwritten: Mutex<Vec<u64>>,
    /// Whether it was not interrupted.
    pub is_first: bool,
    /// Whether this process made it.
    pub is_made: bool,
    /// When what was named is whole.
    trusted: Vec<[i64; 2]>,
    last_sync: Mutex<Instant>,
    /// What of large files is on the device.
    pub pieces: Mutex<Vec<SyncedPiece>>,
    /// Whether this process has synced one of them.
    has_piece_on_device: AtomicBool,
    /// The times of the directory that it is in, before and after it was made.
    directory_times: [[Time; 2]; 2],
}

/// What a record of it says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum CopyJournalLine {
    /// A process began or went on.
    Began {
        /// When the first one began.
        began_ns: i64,
        went_on_ns: i64,
        boot: String,
        mount: Option<u64>,
        #[serde(default)]
        secret: Option<u64>,
        /// The sources, in their order: which directories they are, as far as that is known.
        #[serde(default)]
        sources: Vec<Option<SourceRoot>>,
    },
    /// These were named, or made: digests of their paths below the target.
    Named(Vec<u64>),
    /// What was named before this time is on the device.
    Synced { before_ns: i64 },
    /// A large file was copied so far.
    Piece(SyncedPiece),
}

/// Which directory a source is, or has a source that is a file. Another one may have its path later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceRoot {
    inode: u64,
    created_ns: Option<i64>,
    /// The file system, or subvolume: the inodes of snapshots are the same. Its mount where inode numbers may change.
    system: String,
    /// Whether another one most likely means that its file system is not mounted.
    is_required: bool,
}

impl SourceRoot {
    /// Of a path; `None` if that cannot be opened, or its file system is not known.
    fn of(path: &Path, followed: FollowedLinks) -> Option<Self> {
        let is_directory = |found: io::Result<Metadata>| found.is_ok_and(|found| found.is_dir());
        let is_plain = is_directory(path.symlink_metadata());
        let is_link = || followed != FollowedLinks::None && is_directory(path.metadata());
        let place = if is_plain || is_link() {
            Some(path)
        } else {
            path.parent()
        };
        let directory = Directory::open(or_here(place.unwrap_or(Path::new("")))).ok()?;
        let is_sure = is_sure(&directory);
        let metadata = directory.metadata().ok()?;
        let created = metadata.created().ok();
        let created = created.and_then(|created| created.duration_since(SystemTime::UNIX_EPOCH).ok());
        Some(Self {
            inode: metadata.ino(),
            created_ns: created.and_then(|created| i64::try_from(created.as_nanos()).ok()),
            system: if is_sure {
                system_of(&directory).ok()?
            } else {
                format!("mount {:?}", sys::unique_mount_id(&directory))
            },
            is_required: is_plain && is_sure,
        })
    }
}

/// What begins its name.
const NAME: &str = ".seekless-cp-journal-";
/// What begins the name of a tree that is not complete.
const STAGED: &str = ".seekless-cp-tree-";
const FORM: RecordForm = RecordForm {
    program: "cp",
    version: 2,
    payload_bytes_max: 256 << 20,
    earlier: b"{",
};
/// Names that a kill may take from the journal: their files are copied again.
const UNWRITTEN_MAX: usize = 256;
/// A process that was killed, or is just starting another, may hold the lock for a moment.
const PATIENCE: Duration = Duration::from_millis(200);
/// While a copy lasts, what it made is synced this often.
pub(super) const SYNCED: Duration = Duration::from_secs(30);

/// The name of the journal of copying these sources to a target, whether that exists or not.
fn name_of(sources: &[impl AsRef<Path>], target: &Path) -> io::Result<CString> {
    let place = |path: &Path| match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) if above.as_os_str().is_empty() => Ok(fs::canonicalize(".")?.join(name)),
        (Some(above), Some(name)) => Ok::<_, io::Error>(fs::canonicalize(above)?.join(name)),
        _ => fs::canonicalize(path),
    };
    let mut digest = blake3::Hasher::new();
    for path in sources.iter().map(AsRef::as_ref).chain([target]) {
        let path = place(path)?;
        digest.update(path.as_os_str().as_bytes()).update(b"\0");
    }
    Ok(CString::new(format!("{NAME}{}", &digest.finalize().to_hex()[..16]))?)
}

impl CopyJournal {
    /// Whether copying these sources was interrupted after it had made a directory that is called as the target.
    pub fn is_beside(sources: &[impl AsRef<Path>], target: &Path) -> bool {
        let above = or_here(target.parent().unwrap_or(Path::new("")));
        let name = name_of(sources, target).map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
        let found = name.and_then(|name| above.join(name).symlink_metadata());
        found.is_ok_and(|found| found.is_file() && found.uid() == effective_user())
    }

    /// Makes or finds the journal of copying these sources to a target, in the directory that gets the copies. `None` if another process
    /// is copying the same.
    pub fn open(
        directory: BorrowedFd<'_>,
        sources: &[impl AsRef<Path>],
        target: &Path,
        followed: FollowedLinks,
    ) -> io::Result<Option<Self>> {
        let name = name_of(sources, target)?;
        let before = times_of(directory)?;
        let Some((file, found, is_made)) = open_locked(directory, &name)? else {
            return Ok(None);
        };
        let here = (
            fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            sys::unique_mount_id(directory),
        );
        let is_readable = !is_made && found.owner == effective_user();
        let told = is_readable.then(|| read(&file, &here)).transpose()?.flatten();
        if !is_made && told.is_none() {
            // A kill or a crash came before its first record, or it is another file, also of another user, which is not written to.
            unlinkat(directory, &name, AtFlags::empty())?;
            return Self::open(directory, sources, target, followed);
        }
        let mut told = told.unwrap_or_default();
        let roots = sources.iter().map(|path| SourceRoot::of(path.as_ref(), followed));
        let roots: Vec<_> = roots.collect();
        // In a directory that others may write, they could say that a file is whole. Some file systems keep no modes; others can remove
        // files there anyway, also those that the secret proves to be unfinished.
        if !began_with(&told.sources, &roots, sources, &name)? || !is_private(&found) {
            // What begins now ends what was before it, but for the secret.
            told = told.anew();
        }
        let journal = Self {
            began_ns: told.began_ns.map_or_else(|| now(&file), Ok)?,
            secret: told.secret.unwrap_or_else(|| fastrand::u64(..)),
            named: told.named,
            unwritten: Mutex::default(),
            is_first: told.began_ns.is_none(),
            is_made,
            trusted: told.trusted,
            records: if is_made {
                RecordWriter::begin(file, &FORM)
            } else {
                RecordWriter::go_on(file)
            },
            name,
            last_sync: Mutex::new(Instant::now()),
            pieces: Mutex::new(told.pieces),
            has_piece_on_device: AtomicBool::new(false),
            directory_times: [before, times_of(directory)?],
        };
        let (boot, mount) = here;
        let begin = || {
            journal.write(&CopyJournalLine::Began {
                began_ns: journal.began_ns,
                went_on_ns: if journal.is_first {
                    journal.began_ns
                } else {
                    now(&journal.records.file)?
                },
                boot,
                mount,
                secret: Some(journal.secret),
                sources: roots,
            })
        };
        let written: io::Result<()> = begin();
        if written.is_err() && is_made {
            let _ = unlinkat(directory, &journal.name, AtFlags::empty());
        }
        written.map(|()| Some(journal))
    }

    /// Syncs it, and its name in its directory.
    pub fn sync(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        sys::sync(&self.records.file)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        sys::sync(&File::from(openat(directory, ".", flags, Mode::empty())?))
    }

    /// What the copy of a directory is called until it is complete.
    pub fn staged_name(&self, name: &CStr) -> CString {
        CString::new(format!("{STAGED}{}", &self.digest_of(name).to_hex()[..16])).unwrap_or_default()
    }

    /// What says in such a directory that a copy made it.
    pub fn marker_name(&self) -> CString {
        CString::new(format!("{UNFINISHED}{}", &self.digest_of(c".").to_hex()[..16])).unwrap_or_default()
    }

    /// What the copy of a large file is called until it is complete.
    pub fn unfinished_name(&self, name: &CStr) -> CString {
        let digest = self.digest_of(name);
        self.temporary(
            digest
                .as_bytes()
                .iter()
                .take(4)
                .fold(0, |number, byte| number << 8 | u32::from(*byte)),
        )
    }

    fn digest_of(&self, name: &CStr) -> blake3::Hash {
        blake3::hash(&[self.name.to_bytes(), name.to_bytes()].join(&b'/'))
    }

    /// A temporary name: a number, and what only this journal makes of it.
    pub fn temporary(&self, number: u32) -> CString {
        let proof = mixed(self.secret, number.into()) as u32;
        CString::new(format!("{UNFINISHED}{number:08x}{proof:08x}")).unwrap_or_default()
    }

    /// Whether a name is a temporary one of this copy.
    pub fn is_temporary(&self, name: &[u8]) -> bool {
        let digits = name
            .strip_prefix(UNFINISHED.as_bytes())
            .and_then(|digits| digits.get(..8));
        let number = digits.and_then(|digits| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        number.is_some_and(|number| self.temporary(number).to_bytes() == name)
    }

    /// Whether a name is that of the journal itself. A mount may show it in a source.
    pub fn is_called(&self, name: &CStr) -> bool {
        *name == *self.name
    }

    /// Notes what was named, or made if `is_urgent`: after a kill, it counts for nothing unless that was written.
    pub fn note(&self, key: u64, is_urgent: bool) {
        let mut unwritten = sys::lock_mutex(&self.unwritten);
        unwritten.push(key);
        let is_due = is_urgent || unwritten.len() >= UNWRITTEN_MAX;
        drop(unwritten);
        if is_due {
            self.write_named();
        }
    }

    /// Writes what was named. If that fails, more is copied again.
    pub fn write_named(&self) {
        let named = std::mem::take(&mut *sys::lock_mutex(&self.unwritten));
        let _ = self.write(&CopyJournalLine::Named(named));
    }

    /// Whether an interrupted process named or made this.
    pub fn has_named(&self, key: u64) -> bool {
        self.named.contains(&key)
    }

    pub fn write(&self, line: &CopyJournalLine) -> io::Result<()> {
        self.records.add(&serde_json::to_vec(line)?);
        self.records.write(|| Ok(()))
    }

    /// Whether a file or directory of the source did not change since the copy began. Times of whole seconds may be rounded.
    pub fn is_unchanged(&self, source: &FileState) -> bool {
        let second = 1_000_000_000;
        let rounded = if source.changed_ns % second == 0 { 2 * second } else { 0 };
        source.changed_ns + rounded < self.began_ns
    }

    /// Whether a file of the target is the whole copy of a file, if it has its time.
    pub fn is_done(&self, copy: &StatFacts, source: &Metadata) -> bool {
        let source = FileState::of(source);
        copy.is_file() && copy.bytes == source.bytes && self.is_unchanged(&source) && self.is_trusted(copy)
    }

    /// Whether what got its name at this time is whole.
    pub fn is_trusted(&self, copy: &StatFacts) -> bool {
        self.trusted
            .iter()
            .any(|[from, until]| (*from..*until).contains(&copy.changed_ns))
    }

    /// Whether a file that this copy made under its name is whole: it got the time of its source at last, and before had that of its
    /// making.
    pub fn is_whole(&self, copy: &StatFacts) -> bool {
        copy.modified_ns < self.began_ns && self.is_trusted(copy)
    }

    /// Syncs what was made, if that was not done lately.
    pub fn checkpoint(&self) -> io::Result<()> {
        let Ok(mut last) = self.last_sync.try_lock() else {
            return Ok(());
        };
        if last.elapsed() < SYNCED {
            return Ok(());
        }
        let before_ns = now(&self.records.file)?;
        self.write_named();
        sync_written(&self.records.file)?;
        self.write(&CopyJournalLine::Synced { before_ns })?;
        sys::sync_data(&self.records.file)?;
        *last = Instant::now();
        Ok(())
    }

    /// Removes it. The directory gets back the times that it would have without it.
    pub fn end(&self, directory: BorrowedFd<'_>) {
        let [before, made] = &self.directory_times;
        self.remove_pieces(directory);
        let now = times_of(directory);
        // It may have gone with the directory.
        let _ = unlinkat(directory, &self.name, AtFlags::empty());
        if let Ok(now) = now {
            let [accessed, modified] = if now[1] == made[1] { *before } else { now };
            let _ = FileRef::Handle(directory, FileType::Directory).set_times(Some(accessed), modified);
        }
    }
}

/// Opens a file for reading and writing, or makes it for this user alone. Returns also whether it was made.
fn open_or_make(directory: BorrowedFd<'_>, name: &CStr, more: OFlags) -> Result<(File, bool), Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    let open = |more| openat(directory, name, flags | more, Mode::RUSR | Mode::WUSR).map(File::from);
    match open(OFlags::CREATE | OFlags::EXCL) {
        Err(Errno::EXIST) => Ok((open(OFlags::empty())?, false)),
        made => Ok((made?, true)),
    }
}

/// Opens or makes a journal, and locks it. Returns also whether it was made; `None` if another process has it.
fn open_locked(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<(File, StatFacts, bool)>> {
    let (file, is_made) = open_or_make(directory, name, OFlags::APPEND)?;
    let found = StatFacts::of(&file)?;
    if !found.is_file() || found.names > 1 {
        return Err(io::Error::other(
            "the journal of an interrupted copy there is no file, or has hard links; remove it",
        ));
    }
    // Without names, it is that of a copy that ended meanwhile.
    let is_free = lock(&file, PATIENCE)? && StatFacts::of(&file)?.names > 0;
    Ok(is_free.then_some((file, found, is_made)))
}

/// Whether an interrupted copy began with the same directories. Fails if one of them is most likely not mounted.
fn began_with(
    before: &[Option<SourceRoot>],
    now: &[Option<SourceRoot>],
    sources: &[impl AsRef<Path>],
    journal: &CStr,
) -> io::Result<bool> {
    let mut is_same = true;
    for ((before, now), source) in before.iter().zip(now).zip(sources) {
        let Some(other) = before.as_ref().filter(|before| Some(*before) != now.as_ref()) else {
            continue;
        };
        if other.is_required {
            return Err(io::Error::other(format!(
                "{} is not the directory that an interrupted copy began with; mount its file system, or remove {} to start over",
                visible_path(source.as_ref()),
                journal.to_string_lossy(),
            )));
        }
        is_same = false;
    }
    Ok(is_same)
}

/// Whether something is of this user alone.
pub(super) fn is_private(found: &StatFacts) -> bool {
    let others = found.mode & 0o077;
    found.owner == effective_user() && others == 0
}

/// The time of the file system of a file.
fn now(file: &File) -> io::Result<i64> {
    file.set_modified(SystemTime::now())?;
    Ok(StatFacts::of(file)?.changed_ns)
}

fn times_of(directory: BorrowedFd<'_>) -> io::Result<[Time; 2]> {
    let found = StatFacts::at(directory, c".")?;
    Ok([found.accessed, found.modified])
}

/// What a journal says.
#[derive(Default)]
struct JournalContents {
    /// When the copy began.
    began_ns: Option<i64>,
    /// When what was named is whole.
    trusted: Vec<[i64; 2]>,
    secret: Option<u64>,
    named: HashSet<u64>,
    /// The sources that it began with.
    sources: Vec<Option<SourceRoot>>,
    /// What is on the device of large files.
    pieces: Vec<SyncedPiece>,
}

impl JournalContents {
    /// What counts if a copy starts over.
    fn anew(self) -> Self {
        Self {
            secret: self.secret,
            ..Self::default()
        }
    }
}

/// Reads a journal; `None` if it is not one that a copy began. A crash between two processes that wrote it, or after the last one,
/// takes what was named after the last sync before it. What is not understood counts for nothing.
fn read(journal: &File, here: &(String, Option<u64>)) -> io::Result<Option<JournalContents>> {
    let records = match RecordReader::new(&FORM, journal) {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => return Ok(None),
        records => records?,
    };
    let mut told = JournalContents::default();
    let mut last: Option<Uptime> = None;
    for record in records {
        match record?.ok().and_then(|payload| serde_json::from_slice(&payload).ok()) {
            Some(CopyJournalLine::Began {
                began_ns,
                went_on_ns,
                boot,
                mount,
                secret,
                sources,
            }) => {
                if began_ns == went_on_ns {
                    (told, last) = (told.anew(), None);
                }
                told.secret = told.secret.or(secret);
                if told.began_ns.is_none() {
                    (told.began_ns, told.sources) = (Some(began_ns), sources);
                }
                let now = Uptime {
                    place: (boot, mount),
                    from: went_on_ns,
                    synced_until: None,
                };
                if !last.as_ref().is_some_and(|last| last.is_at(&now.place)) {
                    told.trusted.extend(last.as_ref().and_then(Uptime::synced));
                    last = Some(now);
                }
            }
            Some(CopyJournalLine::Named(keys)) => told.named.extend(keys),
            Some(CopyJournalLine::Synced { before_ns }) => {
                if let Some(last) = &mut last {
                    last.synced_until = Some(before_ns);
                }
            }
            Some(CopyJournalLine::Piece(piece)) => add_piece(&mut told.pieces, piece),
            // A record that a crash cut, or anything before the first one.
            None => told.trusted.extend(last.take().as_ref().and_then(Uptime::synced)),
        }
    }
    let is_here = last.as_ref().is_some_and(|last| last.is_at(here));
    let trusted = last.and_then(|last| {
        if is_here {
            Some([last.from, i64::MAX])
        } else {
            last.synced()
        }
    });
    told.trusted.extend(trusted);
    Ok(told.began_ns.is_some().then_some(told))
}

/// The time from a start of the system, or a mount, to the next one.
struct Uptime {
    /// Which: as far as that is known.
    place: (String, Option<u64>),
    /// When the copy went on.
    from: i64,
    /// When the last sync began.
    synced_until: Option<i64>,
}

impl Uptime {
    fn is_at(&self, place: &(String, Option<u64>)) -> bool {
        place.1.is_some() && self.place == *place
    }

    /// What was named in it is on the device.
    fn synced(&self) -> Option<[i64; 2]> {
        self.synced_until.map(|until| [self.from, until])
    }
}

/// What begins the names of files that are not whole.
pub(super) const UNFINISHED: &str = ".seekless-cp-";

/// What was copied of a large file is synced as often as all that a copy made.
pub(super) const PIECE_SYNCED: Duration = if cfg!(test) { Duration::ZERO } else { SYNCED };

/// What of an unfinished copy is on the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SyncedPiece {
    /// The inode of the copy.
    copy: u64,
    /// So many from its start.
    bytes: u64,
    /// What its source is called.
    name: Vec<u8>,
    source: FileState,
}

/// Adds a piece to those that are known: only the last one of a copy counts.
pub(super) fn add_piece(pieces: &mut Vec<SyncedPiece>, piece: SyncedPiece) {
    pieces.retain(|known| known.copy != piece.copy);
    pieces.push(piece);
}

impl CopyJournal {
    /// Opens or makes the unfinished copy of a large file. Returns its name, and how many of its bytes are right; `None` if it cannot
    /// have one.
    pub fn unfinished(
        &self,
        directory: BorrowedFd<'_>,
        to: &CStr,
        source: &FileState,
    ) -> io::Result<Option<(File, CString, u64)>> {
        let name = self.unfinished_name(to);
        if is_append_only(&directory) {
            return Ok(None);
        }
        let Ok((file, is_made)) = open_or_make(directory, &name, OFlags::empty()) else {
            return Ok(None);
        };
        let found = StatFacts::of(&file)?;
        let is_own = found.is_file() && is_private(&found) && found.names == 1;
        // Until it is renamed, because what a killed process left is not locked.
        if !is_own || file.try_lock().is_err() {
            // A file system without modes made it open to all.
            if is_made {
                let _ = unlinkat(directory, &name, AtFlags::empty());
            }
            return Ok(None);
        }
        let known = self.piece_of(&found);
        let right = known
            .as_ref()
            .filter(|piece| piece.is_of(source) && piece.bytes <= found.bytes)
            .map_or(0, |piece| piece.bytes);
        if right == 0 && !is_made {
            // Another file may have the name by now. Truncated to nothing, ext4 would write it back when it is closed.
            unlinkat(directory, &name, AtFlags::empty())?;
            return self.unfinished(directory, to, source);
        }
        if let Some(piece) = known.filter(|_| right == 0) {
            // Of another file, whose number this one has now.
            self.save(SyncedPiece { bytes: 0, ..piece })?;
        }
        Ok(Some((file, name, right)))
    }

    /// Syncs an unfinished copy, and notes that so many bytes are right.
    pub fn save_piece(&self, copy: &File, name: &CStr, source: &FileState, bytes: u64) -> io::Result<()> {
        // Without the name of the journal and the marker of a staged tree, nobody would go on with it after a power cut.
        if self.has_piece_on_device.swap(true, Ordering::Relaxed) {
            sys::sync_data(copy)?;
        } else {
            sync_written(copy)?;
        }
        self.save(SyncedPiece {
            copy: StatFacts::of(copy)?.inode,
            bytes,
            name: name.to_bytes().to_owned(),
            source: *source,
        })
    }

    fn save(&self, piece: SyncedPiece) -> io::Result<()> {
        add_piece(&mut sys::lock_mutex(&self.pieces), piece.clone());
        self.write(&CopyJournalLine::Piece(piece))?;
        sys::sync_data(&self.records.file)
    }

    /// Whether something of an unfinished copy with this name is known to be right.
    pub fn has_piece(&self, found: &StatFacts, name: &[u8]) -> bool {
        self.piece_of(found)
            .is_some_and(|piece| piece.bytes > 0 && self.temporary_of(&piece).to_bytes() == name)
    }

    fn piece_of(&self, copy: &StatFacts) -> Option<SyncedPiece> {
        let pieces = sys::lock_mutex(&self.pieces);
        pieces.iter().find(|piece| piece.copy == copy.inode).cloned()
    }

    fn temporary_of(&self, piece: &SyncedPiece) -> CString {
        self.unfinished_name(&CString::new(piece.name.as_slice()).unwrap_or_default())
    }

    /// Removes from a directory that is complete the unfinished copies that nothing went on with.
    pub fn remove_pieces(&self, directory: BorrowedFd<'_>) {
        for piece in &*sys::lock_mutex(&self.pieces) {
            let name = self.temporary_of(piece);
            if StatFacts::at(directory, &name).is_ok_and(|found| found.inode == piece.copy) {
                let _ = unlinkat(directory, &name, AtFlags::empty());
            }
        }
    }

    /// Whether an unfinished copy can go on: its source is in the directory, and did not change.
    pub fn goes_on_with(&self, found: &StatFacts, source: BorrowedFd<'_>) -> bool {
        let is_of = |piece: &SyncedPiece| {
            StatFacts::at(source, piece.name.as_slice()).is_ok_and(|source| piece.is_of(&source.state))
        };
        self.piece_of(found)
            .is_some_and(|piece| piece.bytes > 0 && is_of(&piece))
    }
}

impl SyncedPiece {
    /// The number of a device may change when it is mounted again.
    fn is_of(&self, source: &FileState) -> bool {
        self.source.inode == source.inode && self.source.version() == source.version()
    }
}

/// Whether nothing in a directory can be renamed.
pub(super) fn is_append_only(directory: &impl AsRawFd) -> bool {
    let path = path_of(directory);
    path.is_some_and(|path| matches!(sys::protection(&path), Ok(Support::Available(Some(_)))))
}

/// A path of a directory: the working directory if it is empty.
pub(super) fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// Mixes two numbers as wyhash does: by the halves of a product. Nobody gains by numbers that make the same one.
pub(super) fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one ^ 0xa076_1d64_78bd_642f) * u128::from(other ^ 0xe703_7ed1_a0b4_28db);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn cp_journal_trusts_names_until_a_crash_and_syncs_beyond() {
        let began = |boot: &str, mount, went_on_ns| {
            let line = CopyJournalLine::Began {
                began_ns: 10,
                went_on_ns,
                boot: boot.to_owned(),
                mount,
                secret: None,
                sources: vec![],
            };
            serde_json::to_string(&line).unwrap()
        };
        let first = |boot, mount| began(boot, mount, 10);
        // The first run, if it was before a crash, and a run after it, here.
        let (crashed, again) = (first("other", Some(7)), began("boot", Some(7), 30));
        let killed = first("boot", Some(7));
        let synced = |before_ns| serde_json::to_string(&CopyJournalLine::Synced { before_ns }).unwrap();
        let here = ("boot".to_owned(), Some(7));
        let all = i64::MAX;
        let cut = "{\"synced\":{\"before".to_owned();
        let other = began("other", Some(7), 30);
        for (name, lines, trusted) in [
            ("no journal", &[][..], &[][..]),
            ("killed", &[&killed], &[[10, all]]),
            ("killed twice", &[&killed, &again], &[[10, all]]),
            ("another boot", &[&crashed], &[]),
            ("mounted again", &[&first("boot", Some(6))], &[]),
            ("mounts unknown", &[&first("boot", None)], &[]),
            ("synced, then another boot", &[&crashed, &synced(20)], &[[10, 20]]),
            (
                "killed here after a crash",
                &[&crashed, &synced(20), &again],
                &[[10, 20], [30, all]],
            ),
            // What was named between the first sync and the crash may be lost.
            (
                "a crash, a sync, and another crash",
                &[&first("one", Some(7)), &synced(20), &other, &synced(40)],
                &[[10, 20], [30, 40]],
            ),
            (
                "a crash before any sync",
                &[&crashed, &again, &synced(40)],
                &[[30, all]],
            ),
            ("cut", &[&killed, &cut], &[]),
            ("cut after a sync", &[&killed, &synced(20), &cut], &[[10, 20]]),
            ("cut, then killed here", &[&killed, &cut, &again], &[[30, all]]),
            ("started over", &[&crashed, &synced(20), &killed], &[[10, all]]),
        ] {
            let mut journal = RecordWriter::begin(tempfile::tempfile().unwrap(), &FORM);
            let mut earlier = tempfile::tempfile().unwrap();
            for line in lines {
                if *line == &cut {
                    journal.write(|| Ok(())).unwrap();
                    (&journal.file).write_all(b"00000010 0").unwrap();
                    journal = RecordWriter::go_on(journal.file);
                } else {
                    journal.add(line.as_bytes());
                }
                writeln!(earlier, "{line}").unwrap();
            }
            journal.write(|| Ok(())).unwrap();
            for file in [&journal.file, &earlier] {
                let told = read(file, &here).unwrap();
                assert_eq!(told.is_some(), !lines.is_empty(), "{name}");
                let told = told.map(|told| (told.trusted, told.began_ns));
                assert_eq!(told.unwrap_or_default().0, trusted, "{name}");
            }
        }
    }
}
