//! What the target has under a name, and what gets it: new entries, which have a temporary name or none until they are whole, or are in a
//! staged tree, which nobody sees; and further names of copies.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, mem};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, linkat, mkdirat, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use seekless_engine::files::{FileId, FileState, IoFailure, Own, Time, times};
use seekless_engine::walk::{FOUND_FILE, StatFacts, is_sure};
use seekless_sys::{self as sys, FileSystemTrait, Support};

use super::copying::{Copying, Worker};
use super::data::{are_equal, first_difference, have_equal_content};
use super::directories::complete;
use super::journal::{CopyJournal, UNFINISHED, is_private};
use super::names::{OPENED, collision, remove_temporary, rename_to_free};
use super::pair::{At, LinkTurn, Name, NewFiles, UMASK};
use super::{CpEvent, Existing, Sameness};

/// What the target has under the name of a copy.
pub(super) enum Found {
    Nothing,
    /// Something that stays as it is.
    Stays(StatFacts),
    Replaced(StatFacts),
}

/// What the target has under a name.
pub(super) fn existing(shared: &Copying<'_>, at: &At<'_>, source: FileId, modified: Time) -> Result<Found, IoFailure> {
    if at.is_in_new() {
        return Ok(Found::Nothing);
    }
    let found = match StatFacts::at(at.handles[1], at.to) {
        Err(Errno::NOENT) => return at.claim(None).map(|()| Found::Nothing),
        found => found.map_err(|error| ("stat", error.into()))?,
    };
    let stays = stays(shared, at, &found, source, modified)?;
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
pub(super) fn stays(
    shared: &Copying<'_>,
    at: &At<'_>,
    found: &StatFacts,
    source: FileId,
    modified: Time,
) -> Result<bool, IoFailure> {
    if found.id() == source {
        return Err(("copy to it", io::Error::other("source and target are the same file")));
    }
    Ok(match shared.options.existing {
        Existing::Replaced => false,
        Existing::Kept => true,
        Existing::ReplacedIfOlder => found.modified >= modified || has_time(shared, at, found, modified),
    })
}

/// Whether an interrupted copy has copied a file. Another file may have its name now in a directory that changed since, behind a
/// link, or by a mount.
pub(super) fn is_done(
    shared: &Copying<'_>,
    at: &At<'_>,
    found: &StatFacts,
    source: &File,
    metadata: &Metadata,
) -> bool {
    let is_unchanged = at.directory.own.is_unchanged.load(Ordering::Relaxed);
    let journal = shared.journal.as_ref().filter(|_| is_unchanged);
    journal.is_some_and(|journal| {
        journal.is_done(found, metadata)
            && at.is_own(journal)
            // Something was mounted over the source.
            && !journal.has_named(!at.key())
            && has_time(shared, at, found, times(metadata)[1])
            && StatFacts::at(at.handles[0], at.from).is_ok_and(|entry| entry.is(metadata))
            && !sys::is_mount_root(source)
    })
}

/// Whether a file of the target has a time of modification, as exactly as its file system
/// stores it.
fn has_time(shared: &Copying<'_>, at: &At<'_>, found: &StatFacts, wanted: Time) -> bool {
    let without_name = || NewFile::make(at, 0o600, None, shared).ok()?.file.try_clone().ok();
    found.modified == wanted || found.modified == shared.stored_times.of(wanted, found.device, without_name)
}

/// Whether a file of the target has the size and the time of modification of its source.
pub(super) fn is_alike(shared: &Copying<'_>, at: &At<'_>, found: &StatFacts, source: &Metadata) -> bool {
    found.is_file() && found.bytes == source.len() && has_time(shared, at, found, times(source)[1])
}

/// Whether a file of the target is the same as its source, if that is asked for.
pub(super) fn is_same(
    shared: &Copying<'_>,
    at: &At<'_>,
    found: &StatFacts,
    source: &File,
    metadata: &Metadata,
    worker: &mut Worker,
) -> bool {
    match shared.options.same {
        None => false,
        Some(Sameness::Time) => is_alike(shared, at, found, metadata),
        Some(Sameness::Bytes) if !found.is_file() || found.bytes != metadata.len() => false,
        Some(Sameness::Bytes) => openat(at.handles[1], at.to, FOUND_FILE, Mode::empty())
            .is_ok_and(|copy| matches!(first_difference(shared, source, &copy.into(), worker), Ok(None))),
    }
}

/// Whether something of the target, found like its source, is neither ours nor of the user who owns the source. Root would give its owner the
/// rights of the source, such as a set-user-ID bit.
pub(super) fn is_of_another(at: &At<'_>, found: &StatFacts, source_owner: u32) -> bool {
    sys::effective_user() == 0
        && ![0, source_owner].contains(&found.owner)
        && sys::file_system_of(at.handles[1]).is_ok_and(|system| system.has(FileSystemTrait::Owners))
}

/// A new file in a directory, or another new entry, which is removed unless it gets its name.
pub(super) struct NewFile<'a> {
    directory: BorrowedFd<'a>,
    /// Only a handle ([`sys::open_entry`]) if it is not a regular file.
    pub file: File,
    /// Where it is.
    place: NewFilePlace<'a>,
    /// How many of its bytes are right already.
    pub right_bytes: u64,
}

enum NewFilePlace<'a> {
    Unnamed,
    /// Under a temporary name.
    Temporary(CString),
    /// Under a temporary name in a directory of that name, which other users may rename, but not enter.
    Private(OwnedFd, CString),
    /// Under its name, in a tree that nobody sees. What is true if one that is not whole could not be removed.
    Staged(&'a CStr, &'a AtomicBool),
    Given,
}

/// Makes an entry with a name in a directory.
pub(super) type MakeEntry<'a> = dyn Fn(BorrowedFd<'_>, &CStr) -> io::Result<()> + 'a;

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

impl<'a> NewFile<'a> {
    /// Makes one; without a name or staged, it has this mode, less the umask. A large one goes on with what an interrupted copy has.
    pub fn make(
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
            let mut new = new(file, NewFilePlace::Temporary(name));
            new.right_bytes = right_bytes;
            return Ok(new);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if at.is_in_new() && at.directory.own.is_staged {
            return match retry_on_intr(|| openat(directory, at.to, flags, Mode::from_raw_mode(mode as RawMode))) {
                Err(Errno::EXIST) => Err(collision()),
                opened => Ok(new(opened?.into(), NewFilePlace::Staged(at.to, &shared.has_partial))),
            };
        }
        if let Support::Available((file, _)) = sys::unnamed_file_with(directory, mode)? {
            return Ok(new(file, NewFilePlace::Unnamed));
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
        Ok(new(file, NewFilePlace::Temporary(name)))
    }

    /// Makes an entry of another kind by `make`, where nobody else can put another one in its place: what is given by a name goes to
    /// what has that name.
    pub fn make_entry(at: &At<'a>, make: &MakeEntry<'_>, shared: &'a Copying<'_>) -> io::Result<Self> {
        let directory = at.handles[1];
        let new = |opened: io::Result<OwnedFd>, name: &CStr, place| {
            let opened = opened.inspect_err(|_| remove_temporary(directory, name));
            Ok(Self {
                directory,
                file: opened?.into(),
                place,
                right_bytes: 0,
            })
        };
        let journal = shared.journal.as_ref();
        let is_staged = at.is_in_new() && at.directory.own.is_staged;
        if is_staged || at.require_renames().is_err() {
            match make(directory, at.to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    at.require_renames()?;
                    return Err(collision());
                }
                done => done?,
            }
            let staged = is_staged.then_some(NewFilePlace::Staged(at.to, &shared.has_partial));
            let place = staged.unwrap_or(NewFilePlace::Given);
            return new(sys::open_entry(directory, at.to), at.to, place);
        }
        if is_private(&StatFacts::of(directory)?) {
            let (name, ()) = with_temporary_name(journal, |name| make(directory, name))?;
            let opened = sys::open_entry(directory, &name);
            return new(opened, &name.clone(), NewFilePlace::Temporary(name));
        }
        let (name, ()) = with_temporary_name(journal, |name| Ok(mkdirat(directory, name, Mode::RWXU)?))?;
        let inside = || -> io::Result<(OwnedFd, OwnedFd)> {
            let private = openat(directory, &name, OPENED, Mode::empty())?;
            if !sys::is_just_made(private.as_fd(), directory, 0o700)? {
                return Err(io::Error::other("another process replaced it"));
            }
            make(private.as_fd(), &name)?;
            let entry = sys::open_entry(private.as_fd(), &name)?;
            Ok((private, entry))
        };
        let (private, entry) = inside().inspect_err(|_| remove_temporary(directory, &name))?;
        new(Ok(entry), &name.clone(), NewFilePlace::Private(private, name))
    }

    /// Leaves the file to the next run of the same copy, if that will go on with it.
    pub fn leave_to_next(&mut self, journal: Option<&CopyJournal>, source: BorrowedFd<'_>) {
        let goes_on = |journal: &CopyJournal| {
            let found = StatFacts::of(&self.file);
            found.is_ok_and(|found| journal.goes_on_with(&found, source))
        };
        if journal.is_some_and(goes_on) {
            self.place = NewFilePlace::Given;
        }
    }

    /// What a file that was made with a mode has of its own; `all` have all new files in its directory.
    pub fn own(&self, all: &NewFiles, first_mode: u32) -> Own {
        Own {
            owner: all.owner,
            group: all.group,
            mode: match self.place {
                NewFilePlace::Unnamed | NewFilePlace::Staged(..) => first_mode & !*UMASK,
                _ => 0o600,
            },
            may_have_extended: all.inherit,
        }
    }

    /// The directory in which it has a temporary name, and that name.
    fn temporary(&self) -> Option<(BorrowedFd<'_>, &CStr)> {
        match &self.place {
            NewFilePlace::Temporary(name) => Some((self.directory, name)),
            NewFilePlace::Private(private, name) => Some((private.as_fd(), name)),
            NewFilePlace::Unnamed | NewFilePlace::Staged(..) | NewFilePlace::Given => None,
        }
    }

    /// Notes that it has its name, and removes the directory in which it was made.
    fn set_given(&mut self) -> io::Result<()> {
        let place = mem::replace(&mut self.place, NewFilePlace::Given);
        if let NewFilePlace::Private(_, holder) = &place {
            return match retry_on_intr(|| unlinkat(self.directory, holder, AtFlags::REMOVEDIR)) {
                // Somebody moved it away, and may have put another there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
                removed => Ok(removed?),
            };
        }
        Ok(())
    }

    /// Gives it a name that is free.
    fn name(&mut self, name: &CStr) -> io::Result<()> {
        if let NewFilePlace::Unnamed = self.place {
            sys::name_open_file(&self.file, self.directory, as_os(name))?;
        } else if let Some((from, old)) = self.temporary() {
            rename_to_free([from, self.directory], old, name)?;
        }
        self.set_given()
    }

    /// Gives it the name of a copy.
    pub fn publish(&mut self, at: &At<'_>, replaces: bool, journal: Option<&CopyJournal>) -> Result<(), IoFailure> {
        match self.name(at.to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replaces => {
                at.require_renames()
                    .map_err(|error| ("replace the existing file", error))?;
                if let NewFilePlace::Unnamed = self.place {
                    let temporary = temporary_name(journal);
                    self.file.try_lock().map_err(|error| ("lock the copy", error.into()))?;
                    self.name(&temporary)
                        .map_err(|error| ("give the copy a temporary name", error))?;
                    self.place = NewFilePlace::Temporary(temporary);
                }
                if let Some((from, old)) = self.temporary() {
                    renameat(from, old, self.directory, at.to)
                        .map_err(|error| ("replace the existing file", error.into()))?;
                }
                self.set_given()
                    .map_err(|error| ("remove the directory beside it in which it was made", error))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(("create the copy", collision())),
            named => named.map_err(|error| ("name the copy", error)),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        let name = match &self.place {
            NewFilePlace::Temporary(name) => name.as_c_str(),
            NewFilePlace::Staged(name, _) => name,
            NewFilePlace::Private(_, holder) => return remove_temporary(self.directory, holder),
            NewFilePlace::Unnamed | NewFilePlace::Given => return,
        };
        let removed = retry_on_intr(|| unlinkat(self.directory, name, AtFlags::empty()));
        if let (NewFilePlace::Staged(_, has_partial), Err(_)) = (&self.place, removed) {
            has_partial.store(true, Ordering::Relaxed);
        }
    }
}

fn as_os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
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

/// Links a name of a file with several to its copy, if there is one; `existing` is what has the name. Returns whether the name is
/// done, or false if another thread links it; `None` if it must be copied.
pub(super) fn link_or_wait(
    shared: &Copying<'_>,
    at: &At<'_>,
    file: FileId,
    names: u64,
    existing: Option<&StatFacts>,
    worker: &mut Worker,
) -> Option<bool> {
    match shared.links.turn(file, names, at) {
        LinkTurn::Copy => None,
        LinkTurn::Wait => Some(false),
        LinkTurn::Link(mut first, mut copy) => loop {
            if existing.is_some_and(|found| found.id() == copy) {
                tell_linked(shared, at, copy);
                return Some(true);
            }
            if link_name(shared, &first, copy, at, false, worker) {
                return Some(true);
            }
            // A copy that stays may have been met meanwhile.
            let Some(now) = shared.links.copy_of(file).filter(|(_, now)| *now != copy) else {
                *worker.done.not_preserved.entry("hard links").or_default() += 1;
                return None;
            };
            (first, copy) = now;
        },
    }
}

/// Notes a name whose copy stays, so that all names of its file become names of that copy. `is_known` says that the copy needs no
/// proof.
pub(super) fn keep_name(
    shared: &Copying<'_>,
    at: &At<'_>,
    file: FileId,
    names: u64,
    (copy, is_known): (&StatFacts, bool),
    worker: &mut Worker,
) {
    if !shared.may_have_more_names(names) || !is_sure(at.handles[0]) {
        return;
    }
    let mut name = Name::of(at);
    name.is_unproven = !is_known;
    match shared.links.keep(file, names, copy.id(), &name) {
        Ok(given) => {
            for given in &given {
                link_again(shared, given, &name, copy.id(), worker);
            }
        }
        // A kill came between two names.
        Err((first, copy)) if may_be_joined(shared, &first, at, worker) => {
            link_again(shared, &name, &first, copy, worker);
        }
        Err(_) => count_apart(shared, at, worker),
    }
}

/// Whether a name that stays may become one of another file that stays: nothing is lost then.
fn may_be_joined(shared: &Copying<'_>, first: &Name, at: &At<'_>, worker: &mut Worker) -> bool {
    first.directory.handles().is_ok_and(|handles| {
        let there = first.at(handles.borrowed());
        let are_own = |journal: &CopyJournal| at.is_own(journal) && there.is_own(journal);
        let may_change =
            shared.options.existing == Existing::ReplacedIfOlder || shared.journal.as_ref().is_some_and(are_own);
        may_change && are_equal(shared, [(there.handles[1], there.to), (at.handles[1], at.to)], worker)
    })
}

/// Makes a name of a copy one of a copy that stays.
pub(super) fn link_again(shared: &Copying<'_>, name: &Name, first: &Name, copy: FileId, worker: &mut Worker) {
    let Ok(handles) = name.directory.handles() else {
        return;
    };
    let at = name.at(handles.borrowed());
    if !link_name(shared, first, copy, &at, true, worker) {
        count_apart(shared, &at, worker);
    }
    // It may have had its times already.
    if name.directory.own.unfinished.load(Ordering::Acquire) == 0 {
        complete(shared, &name.directory, worker);
    }
}

/// Tells the checksum of a copy that has one more name.
fn tell_linked(shared: &Copying<'_>, at: &At<'_>, copy: FileId) {
    if let Some(checksum) = sys::lock_mutex(&shared.links.checksums).get(&copy) {
        let to = &at.copy_path();
        shared.tell(CpEvent::Checksum { checksum, to });
    }
}

fn count_apart(shared: &Copying<'_>, at: &At<'_>, worker: &mut Worker) {
    let reason = io::Error::other("another name of the same source has a copy of its own in the target");
    shared.count_not_given(vec![("hard links", reason)], || at.copy_path(), worker);
}

/// Gives a copy another name. Returns false if it must be copied again, because the file system has no links for it. `is_given` says
/// that this run gave the name to another copy.
pub(super) fn link_name(
    shared: &Copying<'_>,
    first: &Name,
    copy: FileId,
    at: &At<'_>,
    is_given: bool,
    worker: &mut Worker,
) -> bool {
    let Ok(handles) = first.directory.handles() else {
        return false;
    };
    let there = handles.borrowed()[1];
    let is_copy = |worker: &mut Worker| {
        let names = [(there, first.to.as_c_str()), (at.handles[0], at.from)];
        !first.is_unproven || have_equal_content(shared, names, FileType::RegularFile, worker)
    };
    // Another process may have given the name to another file.
    if StatFacts::at(there, &first.to).is_ok_and(|found| found.id() == copy) && is_copy(worker) {
        let make =
            |name: &CStr| -> io::Result<()> { Ok(linkat(there, &first.to, at.handles[1], name, AtFlags::empty())?) };
        let journal = shared.journal.as_ref();
        let placed = if is_given {
            at.replace(&make, journal)
        } else {
            at.place(&make, journal)
        };
        // It fails where a file system has no links, or no more for this file.
        if placed.is_ok() {
            worker.done.hard_links += 1;
            tell_linked(shared, at, copy);
            shared.tell_copied(at, 0);
            return true;
        }
    }
    false
}
