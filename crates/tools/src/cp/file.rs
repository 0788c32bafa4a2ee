//! Copying a regular file: to a file without a name, or with a temporary one, which gets its name when it is whole; in a staged tree,
//! which nobody sees, to a file that has its name.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use seekless::files::{FileId, FileRef, FileState, Own, Time, times, with_article};
use seekless::walk::{FOUND_FILE, NAMED_FILE, StatFacts, is_sure};
use seekless_sys::{self as sys, Support, without_atime};

use super::copying::{Copying, Worker, is_full};
use super::data::{LARGE_BYTES, Moved};
use super::given::{SourceFacts, UMASK};
use super::journal::CopyJournal;
use super::names::collision;
use super::pair::At;
use super::piece::PIECE_SYNCED;
use super::queue::lock;
use super::staged::rename_to_free;
use super::{CpDurability, Existing, FollowedLinks, Sameness};

/// A new file in a directory, or another new entry, which is removed unless it gets its name.
pub(super) struct NewFile<'a> {
    directory: BorrowedFd<'a>,
    /// Only a handle ([`sys::open_entry`]) if it is not a regular file.
    pub file: File,
    /// Where it is.
    place: Place<'a>,
    /// How many of its bytes are right already.
    right_bytes: u64,
}

/// A copy that is only without what its source has beside the bytes, and without its name.
struct Copied<'a> {
    new: NewFile<'a>,
    /// What it has of its own.
    own: Own,
    origin: SourceFacts,
    moved: Moved,
    /// What the source is by now, if it changed meanwhile.
    changed: Option<Metadata>,
}

enum Place<'a> {
    Unnamed,
    /// Under a temporary name.
    Temporary(CString),
    /// Under its name, in a tree that nobody sees. What is true if one that is not whole could not be removed.
    Staged(&'a CStr, &'a AtomicBool),
    Given,
}

/// What begins the names of files that are not whole.
pub(super) const UNFINISHED: &str = ".seekless-cp-";

/// An unguessable name, by which only a copy with the same journal finds what a kill leaves.
pub(super) fn temporary_name(journal: Option<&CopyJournal>) -> CString {
    let random = || CString::new(format!("{UNFINISHED}{:016x}", fastrand::u64(..))).unwrap_or_default();
    journal.map_or_else(random, |journal| journal.temporary(fastrand::u32(..)))
}

/// Makes something under a temporary name that nothing has.
fn with_temporary_name<T>(
    journal: Option<&CopyJournal>,
    make: impl Fn(&CStr) -> io::Result<T>,
) -> io::Result<(CString, T)> {
    loop {
        let name = temporary_name(journal);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok((name, done?)),
        }
    }
}

/// An entry whose ctime is later than its time of modification by more than this was not made just now.
const RENAMED_NS: u64 = 2_000_000_000;

impl<'a> NewFile<'a> {
    /// Makes one; without a name or staged, it has this mode, less the umask. A large one goes on with what an interrupted copy has.
    fn make(
        at: &At<'a>,
        mode: u32,
        large: Option<(&CopyJournal, &FileState)>,
        shared: &'a Copying<'_>,
    ) -> io::Result<Self> {
        let directory = at.handles[1];
        let new = |file, place| Self {
            directory,
            file,
            place,
            right_bytes: 0,
        };
        if let Some((journal, source)) = large
            && let Some((file, name, right_bytes)) = journal.unfinished(directory, at.to, source)?
        {
            let mut new = new(file, Place::Temporary(name));
            new.right_bytes = right_bytes;
            return Ok(new);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if at.is_in_new() && at.directory.own.is_staged {
            return match retry_on_intr(|| openat(directory, at.to, flags, Mode::from_raw_mode(mode as RawMode))) {
                Err(Errno::EXIST) => Err(collision()),
                opened => Ok(new(opened?.into(), Place::Staged(at.to, &shared.has_partial))),
            };
        }
        if let Support::Available((file, _)) = sys::unnamed_file_with(directory, mode)? {
            return Ok(new(file, Place::Unnamed));
        }
        at.require_renames()?;
        let create = |name: &CStr| {
            Ok(retry_on_intr(|| {
                openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
            })?)
        };
        let (name, file) = with_temporary_name(shared.journal.as_ref(), create)?;
        let file = File::from(file);
        // Until it is renamed, because what a killed process left is not locked.
        file.try_lock()?;
        Ok(new(file, Place::Temporary(name)))
    }

    /// Makes an entry of another kind by `make`. It has its name at once only where nobody else can rename it: what is given by a
    /// name goes to the file that another process puts there.
    pub fn make_entry(
        at: &At<'a>,
        kind: FileType,
        make: &dyn Fn(&CStr) -> io::Result<()>,
        shared: &'a Copying<'_>,
    ) -> io::Result<Self> {
        let directory = at.handles[1];
        let is_staged = at.is_in_new() && at.directory.own.is_staged;
        let (name, place) = if is_staged || at.require_renames().is_err() {
            match make(at.to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    at.require_renames()?;
                    return Err(collision());
                }
                done => done?,
            }
            let staged = is_staged.then_some(Place::Staged(at.to, &shared.has_partial));
            (at.to.to_owned(), staged.unwrap_or(Place::Given))
        } else {
            let (name, ()) = with_temporary_name(shared.journal.as_ref(), make)?;
            (name.clone(), Place::Temporary(name))
        };
        let opened = sys::open_entry(directory, &name).inspect_err(|_| {
            let _ = unlinkat(directory, &name, AtFlags::empty());
        });
        let mut new = Self {
            directory,
            file: opened?.into(),
            place,
            right_bytes: 0,
        };
        let found = StatFacts::of(&new.file)?;
        let is_own = found.owner == sys::effective_user() || found.owner == StatFacts::of(directory)?.owner;
        // Renaming sets the ctime alone.
        let was_renamed = found.changed_ns.abs_diff(found.modified_ns) > RENAMED_NS;
        if found.kind != kind || found.names > 1 || (!is_own || was_renamed) && is_sure(&new.file) {
            new.place = Place::Given;
            return Err(io::Error::other("another process replaced it"));
        }
        Ok(new)
    }

    /// Gives it a name that is free.
    fn name(&mut self, name: &CStr) -> io::Result<()> {
        match &self.place {
            Place::Unnamed => sys::name_open_file(&self.file, self.directory, as_os(name))?,
            Place::Temporary(old) => rename_to_free(self.directory, old, name)?,
            Place::Staged(..) | Place::Given => {}
        }
        self.place = Place::Given;
        Ok(())
    }

    /// Gives it the name of a copy.
    pub fn publish(&mut self, at: &At<'_>, replaces: bool, journal: Option<&CopyJournal>) -> Result<(), Failed> {
        match self.name(at.to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replaces => {
                at.require_renames()
                    .map_err(|error| ("replace the existing file", error))?;
                if let Place::Unnamed = self.place {
                    let temporary = temporary_name(journal);
                    self.file.try_lock().map_err(|error| ("lock the copy", error.into()))?;
                    self.name(&temporary)
                        .map_err(|error| ("give the copy a temporary name", error))?;
                    self.place = Place::Temporary(temporary);
                }
                if let Place::Temporary(temporary) = &self.place {
                    renameat(at.handles[1], temporary, at.handles[1], at.to)
                        .map_err(|error| ("replace the existing file", error.into()))?;
                }
                self.place = Place::Given;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(("create the copy", collision())),
            named => named.map_err(|error| ("name the copy", error)),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        let name = match &self.place {
            Place::Temporary(name) => name.as_c_str(),
            Place::Staged(name, _) => name,
            Place::Unnamed | Place::Given => return,
        };
        let removed = retry_on_intr(|| unlinkat(self.directory, name, AtFlags::empty()));
        if let (Place::Staged(_, has_partial), Err(_)) = (&self.place, removed) {
            has_partial.store(true, Ordering::Relaxed);
        }
    }
}

fn as_os(name: &CStr) -> &std::ffi::OsStr {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(name.to_bytes())
}

/// What was tried, and why it failed.
pub(super) type Failed = (&'static str, io::Error);

impl Copying<'_> {
    /// Copies a regular file. Returns false if the name waits for another thread.
    pub fn copy_file(&self, at: &At<'_>, is_followed: bool, worker: &mut Worker) -> bool {
        let path = || at.source_path();
        let (source, metadata) = match open_source(at, is_followed) {
            Ok(opened) => opened,
            Err((action, error)) => {
                self.fail(worker, path(), action, &error);
                return true;
            }
        };
        let file = FileId::of(&metadata);
        let existing = match self.existing(at, file, times(&metadata)[1]) {
            Ok(Found::Nothing) => None,
            Ok(Found::Replaced(found)) if !matches!(found.kind, FileType::RegularFile | FileType::Symlink) => {
                let reason = format!("it is {}; to write into it, use `cat`", with_article(found.kind));
                self.fail(worker, at.copy_path(), "replace it", &io::Error::other(reason));
                return true;
            }
            Ok(Found::Replaced(found)) => Some(found),
            Ok(Found::Stays(found)) => {
                worker.done.kept += 1;
                self.watch.progress(metadata.len());
                self.forget(at, &source);
                let is_known =
                    self.options.existing == Existing::ReplacedIfOlder || self.is_done(at, &found, &source, &metadata);
                if is_known || self.may_have_more_names(metadata.nlink()) && self.is_alike(at, &found, &metadata) {
                    self.keep_name(at, file, metadata.nlink(), (&found, is_known), worker);
                }
                return true;
            }
            Err((action, error)) => {
                self.fail(worker, at.copy_path(), action, &error);
                return true;
            }
        };
        let is_linked = self.may_have_more_names(metadata.nlink());
        // Elsewhere two files may have one number.
        let has_links = is_linked && is_sure(&source);
        if is_linked && !has_links && metadata.nlink() > 1 {
            *worker.done.not_preserved.entry("hard links").or_default() += 1;
        }
        if has_links && let Some(is_over) = self.link_or_wait(at, file, metadata.nlink(), existing.as_ref(), worker) {
            self.forget(at, &source);
            return is_over;
        }
        let done = existing.filter(|found| {
            (self.is_done(at, found, &source, &metadata) || self.is_same(at, found, &source, &metadata, worker))
                && self.links.claim(found, file)
        });
        let copied = match done.filter(|found| self.give_again(at, found, &source, &metadata, worker)) {
            Some(done) => {
                worker.done.resumed += 1;
                self.watch.progress(metadata.len());
                self.forget(at, &source);
                let told = self.tell_checksum(at, (&source, &metadata), done.id(), worker);
                told.map(|()| done.id())
            }
            None => self.copy_twice(at, &source, metadata, existing.is_some(), worker),
        };
        if let Err((action, error)) = &copied {
            let path = if is_full(error) { at.copy_path() } else { path() };
            self.fail(worker, path, action, error);
        }
        if has_links {
            self.link_waiting(at, file, copied.ok(), FileType::RegularFile, worker);
        }
        true
    }

    /// Drops from the page cache what was fetched of a file that is not copied.
    fn forget(&self, at: &At<'_>, source: &File) {
        if at.was_fetched && !self.options.keep_cached {
            let _ = sys::drop_from_cache(source);
        }
    }

    /// Copies a file, and once more if it changed meanwhile.
    fn copy_twice(
        &self,
        at: &At<'_>,
        source: &File,
        mut metadata: Metadata,
        replaces: bool,
        worker: &mut Worker,
    ) -> Result<FileId, Failed> {
        let mut first = self.copy_once(at, source, &metadata, worker);
        let changed = match &mut first {
            Ok(copied) => copied.changed.take(),
            Err(_) if self.stop.is_stopped() => None,
            // It became shorter, for example.
            Err(_) => source
                .metadata()
                .ok()
                .filter(|after| FileState::of(after) != FileState::of(&metadata)),
        };
        let copied = match changed {
            Some(after) => {
                drop(first);
                metadata = after;
                self.copy_once(at, source, &metadata, worker)?
            }
            None => first?,
        };
        if copied.changed.is_some() {
            worker.done.changed += 1;
            let reason = io::Error::other("it changed during both attempts; the copy may mix versions");
            self.fail(worker, at.source_path(), "make a consistent copy", &reason);
        }
        // Only now: of a staged file, the times of its source say that it is whole.
        let Copied { mut new, origin, .. } = copied;
        let copy = FileRef::Open(new.file.as_fd());
        let made = self.give(&origin, copy, (&copied.own, true), || at.copy_path(), worker);
        let made = made.map_err(|error| ("stat the copy", error))?;
        if self.options.durability == CpDurability::Each {
            sys::sync(&new.file).map_err(|error| ("sync", error))?;
        }
        self.tell_checksum(at, (source, &metadata), made.id(), worker)?;
        new.publish(at, replaces, self.journal.as_ref())?;
        copied.moved.count(&mut worker.done);
        worker.done.files += 1;
        worker.done.bytes += metadata.len();
        self.tell_copied(at, metadata.len());
        Ok(made.id())
    }

    /// Whether another name of a source with so many names may be met, which becomes a name of the copy.
    pub fn may_have_more_names(&self, names: u64) -> bool {
        self.options.preserved.links && (names > 1 || self.options.followed != FollowedLinks::None)
    }

    /// Tells the checksum of a copy, and keeps it for further names.
    fn tell_checksum(
        &self,
        at: &At<'_>,
        (source, metadata): (&File, &Metadata),
        copy: FileId,
        worker: &mut Worker,
    ) -> Result<(), Failed> {
        if let Some(kind) = self.options.checksum {
            let checksum = self.checksum(source, kind, worker);
            let checksum = checksum.map_err(|error| ("compute the checksum", error))?;
            self.watch.checksum(&checksum, &at.copy_path());
            if self.may_have_more_names(metadata.nlink()) {
                lock(&self.links.checksums).insert(copy, checksum);
            }
        }
        Ok(())
    }

    fn copy_once<'h>(
        &'h self,
        at: &At<'h>,
        source: &File,
        metadata: &Metadata,
        worker: &mut Worker,
    ) -> Result<Copied<'h>, Failed> {
        let origin = SourceFacts::of(source, metadata, self.options).map_err(|error| ("read the attributes", error))?;
        let large = self.journal.as_ref().filter(|_| metadata.len() >= LARGE_BYTES);
        let large_source = large.map(|journal| (journal, &origin.state));
        let made = NewFile::make(at, origin.first_mode(), large_source, self);
        let mut new = made.map_err(|error| ("create the copy", error))?;
        let all = at.new_files(&new.file).map_err(|error| ("stat the copy", error))?;
        let saved = Cell::new(Instant::now());
        let save = |bytes| match large {
            Some(journal) if saved.get().elapsed() >= PIECE_SYNCED => {
                saved.set(Instant::now());
                journal.save_piece(&new.file, at.from, &origin.state, bytes)
            }
            _ => Ok(()),
        };
        let pieces = (new.right_bytes, &save as &dyn Fn(u64) -> _);
        let moved = self
            .data
            .copy([source, &new.file], metadata, all.device, pieces, at, self, worker);
        let moved = moved.map_err(|error| ("copy", error)).and_then(|moved| {
            if self.options.verify {
                self.verify(source, &new.file, worker)?;
            }
            Ok(moved)
        });
        let moved = match moved {
            Ok(moved) => moved,
            Err((action, error)) => {
                // The same copy goes on with it.
                if (self.stop.is_stopped() || is_full(&error))
                    && let Some(journal) = large
                    && StatFacts::of(&new.file).is_ok_and(|found| journal.goes_on_with(&found, at.handles[0]))
                {
                    new.place = Place::Given;
                }
                return Err((action, error));
            }
        };
        let own = Own {
            owner: all.owner,
            group: all.group,
            mode: match new.place {
                Place::Unnamed | Place::Staged(..) => origin.first_mode() & !*UMASK,
                Place::Temporary(_) | Place::Given => 0o600,
            },
            may_have_extended: all.inherit,
        };
        let after = source.metadata().map_err(|error| ("stat", error))?;
        let changed = (FileState::of(&after) != origin.state).then_some(after);
        Ok(Copied {
            new,
            own,
            origin,
            moved,
            changed,
        })
    }

    /// What the target has under a name.
    pub fn existing(&self, at: &At<'_>, source: FileId, modified: Time) -> Result<Found, Failed> {
        if at.is_in_new() {
            return Ok(Found::Nothing);
        }
        let found = match StatFacts::at(at.handles[1], at.to) {
            Err(Errno::NOENT) => return at.claim(None).map(|()| Found::Nothing),
            found => found.map_err(|error| ("stat", error.into()))?,
        };
        let stays = self.stays(at, &found, source, modified)?;
        if found.kind == FileType::Directory {
            return Err(("overwrite the directory with a non-directory", Errno::ISDIR.into()));
        }
        at.claim(Some(&found))?;
        Ok(if stays {
            Found::Stays(found)
        } else {
            Found::Replaced(found)
        })
    }

    /// Whether what the target has stays. Fails if that is the source.
    pub fn stays(&self, at: &At<'_>, found: &StatFacts, source: FileId, modified: Time) -> Result<bool, Failed> {
        if found.id() == source {
            return Err(("copy to it", io::Error::other("source and target are the same file")));
        }
        Ok(match self.options.existing {
            Existing::Replaced => false,
            Existing::Kept => true,
            Existing::ReplacedIfOlder => found.modified >= modified || self.has_time(at, found, modified),
        })
    }

    /// Whether an interrupted copy has copied a file. Another file may have its name now in a directory that changed since, behind a
    /// link, or by a mount.
    fn is_done(&self, at: &At<'_>, found: &StatFacts, source: &File, metadata: &Metadata) -> bool {
        let is_unchanged = at.directory.own.is_unchanged.load(Ordering::Relaxed);
        let journal = self.journal.as_ref().filter(|_| is_unchanged);
        journal.is_some_and(|journal| {
            journal.is_done(found, metadata)
                && at.is_own(journal)
                && self.has_time(at, found, times(metadata)[1])
                && StatFacts::at(at.handles[0], at.from).is_ok_and(|entry| entry.is(metadata))
                && !sys::is_mount_root(source)
        })
    }

    /// Whether a file of the target has a time of modification, as exactly as its file system
    /// stores it.
    fn has_time(&self, at: &At<'_>, found: &StatFacts, wanted: Time) -> bool {
        let without_name = || NewFile::make(at, 0o600, None, self).ok()?.file.try_clone().ok();
        found.modified == wanted || found.modified == self.stored_times.of(wanted, found.device, without_name)
    }

    /// Whether a file of the target has the size and the time of modification of its source.
    fn is_alike(&self, at: &At<'_>, found: &StatFacts, source: &Metadata) -> bool {
        found.is_file() && found.bytes == source.len() && self.has_time(at, found, times(source)[1])
    }

    /// Whether a file of the target is the same as its source, if that is asked for.
    fn is_same(&self, at: &At<'_>, found: &StatFacts, source: &File, metadata: &Metadata, worker: &mut Worker) -> bool {
        if !found.is_file() || found.bytes != metadata.len() {
            return false;
        }
        match self.options.same {
            None => false,
            Some(Sameness::Time) => self.has_time(at, found, times(metadata)[1]),
            Some(Sameness::Bytes) => openat(at.handles[1], at.to, FOUND_FILE, Mode::empty())
                .is_ok_and(|copy| matches!(self.first_difference(source, &copy.into(), worker), Ok(None))),
        }
    }

    /// Gives a copy by an interrupted one what it may not have got. Returns false if that cannot be done: then it is copied again.
    fn give_again(
        &self,
        at: &At<'_>,
        found: &StatFacts,
        source: &File,
        metadata: &Metadata,
        worker: &mut Worker,
    ) -> bool {
        let Ok(copy) = openat(at.handles[1], at.to, FOUND_FILE, Mode::empty()) else {
            return false;
        };
        let copy = File::from(copy);
        let is_it = StatFacts::of(&copy).is_ok_and(|copy| copy.id() == found.id());
        let Some(origin) = SourceFacts::of(source, metadata, self.options).ok().filter(|_| is_it) else {
            return false;
        };
        let own = (&Own::of(found), true);
        self.give(&origin, FileRef::Open(copy.as_fd()), own, || at.copy_path(), worker)
            .is_ok()
    }

    /// Notes that something was copied, and tells it if that is wanted.
    pub fn tell_copied(&self, at: &At<'_>, bytes: u64) {
        let journal = self.journal.as_ref();
        if let Some(journal) = journal.filter(|_| !at.directory.own.is_own.load(Ordering::Relaxed)) {
            journal.note(at.key(), bytes >= LARGE_BYTES);
        }
        if self.watch.wants_names() {
            self.watch.copied(&at.source_path(), &at.copy_path());
        }
    }
}

impl At<'_> {
    /// Places something that `make` makes under the name: the name of the copy, or a temporary one that then replaces what has it.
    pub fn place(&self, make: &dyn Fn(&CStr) -> io::Result<()>, journal: Option<&CopyJournal>) -> io::Result<()> {
        match make(self.to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !self.is_in_new() => {
                let found = StatFacts::at(self.handles[1], self.to)?;
                self.claim(Some(&found)).map_err(|(_, error)| error)?;
                self.replace(make, journal)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(collision()),
            done => done,
        }
    }

    /// Replaces what has the name by something that `make` makes under a temporary one.
    pub fn replace(&self, make: &dyn Fn(&CStr) -> io::Result<()>, journal: Option<&CopyJournal>) -> io::Result<()> {
        self.require_renames()?;
        let temporary = temporary_name(journal);
        make(&temporary)?;
        let renamed = renameat(self.handles[1], &temporary, self.handles[1], self.to);
        // Renaming one name of a file over another does nothing.
        let _ = unlinkat(self.handles[1], &temporary, AtFlags::empty());
        Ok(renamed?)
    }
}

/// What the target has under the name of a copy.
pub(super) enum Found {
    Nothing,
    /// Something that stays as it is.
    Stays(StatFacts),
    Replaced(StatFacts),
}

/// Opens a file of the source. It may be of another kind by now.
fn open_source(at: &At<'_>, is_followed: bool) -> Result<(File, Metadata), Failed> {
    let flags = OFlags::RDONLY | if is_followed { NAMED_FILE } else { FOUND_FILE };
    let open = |more| retry_on_intr(|| openat(at.handles[0], at.from, flags | more, Mode::empty()));
    let file = File::from(without_atime(open).map_err(|error| ("open", error.into()))?);
    let metadata = file.metadata().map_err(|error| ("stat", error))?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(("copy", io::Error::other("no longer a regular file")))
    }
}
