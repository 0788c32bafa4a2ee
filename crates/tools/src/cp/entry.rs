//! Copying an entry that is not a directory: its bytes, what it has beside them, and its further names.

use std::cell::Cell;
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat, symlinkat};
use rustix::io::retry_on_intr;
use seekless_engine::files::{FileId, FileRef, FileState, IoFailure, Own, times, with_article};
use seekless_engine::walk::{FOUND_FILE, NAMED_FILE, StatFacts, is_sure};
use seekless_sys::{self as sys, without_atime};

use super::copying::{Copying, LARGE_BYTES, Worker, is_full};
use super::data::{Moved, StreamCopy, copy_bytes, file_checksum, have_equal_content, verify};
use super::directories::{enter_at, finish};
use super::journal::PIECE_SYNCED;
use super::pair::{At, LinkTurn, Name, SourceFacts};
use super::target::{
    Found, MakeEntry, NewFile, existing, is_alike, is_done, is_of_another, is_same, keep_name, link_again, link_name,
    link_or_wait, stays,
};
use super::{CpDurability, CpEvent, Existing, FollowedLinks};

/// What became of an entry.
enum EntryCopy {
    New,
    /// It is another name of a copy; if that is not over, another thread gives it.
    Linked {
        is_over: bool,
    },
    /// The target has the same.
    Same,
    /// What the target has stays.
    Kept,
}

/// A copy that is only without what its source has beside the bytes, and without its name.
pub(super) struct Copied<'a> {
    new: NewFile<'a>,
    /// What it has of its own.
    own: Own,
    origin: SourceFacts,
    moved: Moved,
    /// What the source is by now, if it changed meanwhile.
    changed: Option<Metadata>,
}

/// Copies an entry that is not a directory; its kind is not known if it was named. Returns false if another thread finishes it.
pub(super) fn copy_entry(shared: &Copying<'_>, at: &At<'_>, kind: Option<FileType>, worker: &mut Worker) -> bool {
    if shared
        .journal
        .as_ref()
        .is_some_and(|journal| journal.is_called(at.from))
    {
        return true;
    }
    let is_followed = match shared.options.followed {
        FollowedLinks::None => false,
        FollowedLinks::Named => kind.is_none(),
        FollowedLinks::All => true,
    };
    let kind = match kind {
        Some(kind) if kind != FileType::Symlink || !is_followed => kind,
        _ => match stat(at, is_followed) {
            Ok(found) => StatFacts::of_stat(&found).kind,
            Err((action, error)) => {
                shared.fail(worker, at.source_path(), action, &error);
                return true;
            }
        },
    };
    if shared.options.dry_run && kind != FileType::Directory {
        count_only(shared, at, kind, is_followed, worker);
        return true;
    }
    let copied = match kind {
        FileType::RegularFile => return copy_file(shared, at, is_followed, worker),
        FileType::Directory => {
            enter_at(shared, at, is_followed);
            return false;
        }
        FileType::Symlink => copy_link(shared, at, worker),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
            copy_special(shared, at, is_followed, worker)
        }
        FileType::Unknown => Err(("copy", io::Error::other("unknown file type"))),
    };
    match copied {
        Ok(EntryCopy::New) => {
            let done = &mut worker.done;
            *(if kind == FileType::Symlink {
                &mut done.symbolic_links
            } else {
                &mut done.special
            }) += 1;
            shared.tell_copied(at, 0);
        }
        Ok(EntryCopy::Linked { is_over }) => return is_over,
        Ok(EntryCopy::Same) => worker.done.resumed += 1,
        Ok(EntryCopy::Kept) => worker.done.kept += 1,
        Err((action, error)) => shared.fail(worker, at.source_path(), action, &error),
    }
    true
}

/// Counts what would be copied.
fn count_only(shared: &Copying<'_>, at: &At<'_>, kind: FileType, is_followed: bool, worker: &mut Worker) {
    match stat(at, is_followed).map(|found| StatFacts::of_stat(&found)) {
        Ok(facts) if is_met_again(shared, &facts, at) => worker.done.hard_links += 1,
        Ok(facts) if facts.is_file() => {
            worker.done.files += 1;
            worker.done.bytes += facts.bytes;
            worker.done.hole_bytes += facts.bytes.saturating_sub(facts.allocated_bytes);
        }
        Ok(_) if kind == FileType::Symlink => worker.done.symbolic_links += 1,
        Ok(_) => worker.done.special += 1,
        Err((action, error)) => shared.fail(worker, at.source_path(), action, &error),
    }
    shared.tell_copied(at, 0);
}

/// Whether a file whose copy is counted would get another name.
fn is_met_again(shared: &Copying<'_>, facts: &StatFacts, at: &At<'_>) -> bool {
    if facts.names < 2 || !shared.options.preserved.links {
        return false;
    }
    let turn = shared.links.turn(facts.id(), facts.names, at);
    if matches!(turn, LinkTurn::Copy) {
        shared.links.copied(facts.id(), Some(facts.id()), false, at);
    }
    !matches!(turn, LinkTurn::Copy)
}

fn copy_link(shared: &Copying<'_>, at: &At<'_>, worker: &mut Worker) -> Result<EntryCopy, IoFailure> {
    let target =
        readlinkat(at.handles[0], at.from, Vec::new()).map_err(|error| ("read the symbolic link", error.into()))?;
    let make = |directory: BorrowedFd<'_>, name: &CStr| Ok(symlinkat(&target, directory, name)?);
    make_copy(shared, at, false, &make, worker)
}

fn copy_special(
    shared: &Copying<'_>,
    at: &At<'_>,
    is_followed: bool,
    worker: &mut Worker,
) -> Result<EntryCopy, IoFailure> {
    let facts = StatFacts::of_stat(&stat(at, is_followed)?);
    let make =
        |directory: BorrowedFd<'_>, name: &CStr| sys::make_node(directory, name, facts.kind, facts.number)?.required();
    make_copy(shared, at, is_followed, &make, worker)
}

/// Makes a copy by `make`, with what its source has.
fn make_copy(
    shared: &Copying<'_>,
    at: &At<'_>,
    is_followed: bool,
    make: &MakeEntry<'_>,
    worker: &mut Worker,
) -> Result<EntryCopy, IoFailure> {
    let facts = StatFacts::of_stat(&stat(at, is_followed)?);
    let existing = match existing(shared, at, facts.id(), facts.modified)? {
        Found::Stays(found) => {
            let is_older = shared.options.existing == Existing::ReplacedIfOlder;
            if is_older || facts.names > 1 && is_equal_entry(shared, at, &found, &facts, worker) {
                keep_name(shared, at, facts.id(), facts.names, (&found, true), worker);
            }
            return Ok(EntryCopy::Kept);
        }
        Found::Replaced(found) => {
            let is_link = facts.kind == FileType::Symlink;
            if is_link && StatFacts::behind(at.handles[0], at.from).is_ok_and(|end| end.id() == found.id()) {
                let reason = "the link leads to it, and would be all that is left";
                return Err(("replace it by the link", io::Error::other(reason)));
            }
            Some(found)
        }
        Found::Nothing => None,
    };
    let is_linked = shared.options.preserved.links && facts.names > 1;
    // Elsewhere two files may have one number.
    let has_links = is_linked && is_sure(at.handles[0]);
    if is_linked && !has_links {
        *worker.done.not_preserved.entry("hard links").or_default() += 1;
    }
    if has_links && let Some(is_over) = link_or_wait(shared, at, facts.id(), facts.names, existing.as_ref(), worker) {
        return Ok(EntryCopy::Linked { is_over });
    }
    let same = existing.filter(|found| {
        shared.options.same.is_some()
            && is_equal_entry(shared, at, found, &facts, worker)
            && !is_of_another(at, found, facts.owner)
            && shared.links.claim(found, facts.id())
    });
    if let Some(found) = same {
        let given = give_equal(shared, at, &facts, &found, worker);
        if has_links {
            link_waiting(shared, at, facts.id(), Some(found.id()), facts.kind, worker);
        }
        return given.map(|()| EntryCopy::Same);
    }
    let given = make_new(shared, at, &facts, make, existing.is_some(), worker);
    if has_links {
        let copy = given.as_ref().ok().map(|copy| copy.id());
        link_waiting(shared, at, facts.id(), copy, facts.kind, worker);
    }
    given.map(|_| EntryCopy::New)
}

/// Makes an entry by `make` with what its source has, and gives it its name.
fn make_new(
    shared: &Copying<'_>,
    at: &At<'_>,
    facts: &StatFacts,
    make: &MakeEntry<'_>,
    replaces: bool,
    worker: &mut Worker,
) -> Result<StatFacts, IoFailure> {
    let new = NewFile::make_entry(at, make, shared);
    let mut new = new.map_err(|error| ("create the copy", error))?;
    let origin = SourceFacts::of_entry(at.handles[0], at.from, facts, shared.options);
    let copy = FileRef::Handle(new.file.as_fd(), facts.kind);
    let own = copy.facts().map(|own| Own::of(&own));
    let given = own.and_then(|own| shared.give(&origin, copy, (&own, true), || at.copy_path(), worker));
    let given = given.map_err(|error| ("stat the copy", error))?;
    new.publish(at, replaces, shared.journal.as_ref())?;
    Ok(given)
}

/// Gives an entry of the target that is what its source is the attributes of that.
fn give_equal(
    shared: &Copying<'_>,
    at: &At<'_>,
    facts: &StatFacts,
    found: &StatFacts,
    worker: &mut Worker,
) -> Result<(), IoFailure> {
    let failed = |error| ("open the copy", error);
    let file = sys::open_entry(at.handles[1], at.to).map_err(failed)?;
    let now = StatFacts::of(&file).map_err(|error| failed(error.into()))?;
    if now.id() != found.id() {
        return Err(failed(io::Error::other("another process replaced it")));
    }
    let origin = SourceFacts::of_entry(at.handles[0], at.from, facts, shared.options);
    let copy = FileRef::Handle(file.as_fd(), facts.kind);
    let given = shared.give(&origin, copy, (&Own::of(&now), true), || at.copy_path(), worker);
    given.map(drop).map_err(|error| ("stat the copy", error))
}

/// Whether an entry of the target is what its source is, but for attributes.
fn is_equal_entry(
    shared: &Copying<'_>,
    at: &At<'_>,
    found: &StatFacts,
    source: &StatFacts,
    worker: &mut Worker,
) -> bool {
    let names = [(at.handles[0], at.from), (at.handles[1], at.to)];
    (found.kind, found.number) == (source.kind, source.number) && have_equal_content(shared, names, source.kind, worker)
}

fn stat(at: &At<'_>, is_followed: bool) -> Result<rustix::fs::Stat, IoFailure> {
    let flags = if is_followed {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    statat(at.handles[0], at.from, flags).map_err(|error| ("stat", error.into()))
}

/// Copies a regular file. Returns false if the name waits for another thread.
pub(super) fn copy_file(shared: &Copying<'_>, at: &At<'_>, is_followed: bool, worker: &mut Worker) -> bool {
    let path = || at.source_path();
    let (source, metadata) = match open_source(at, is_followed) {
        Ok(opened) => opened,
        Err((action, error)) => {
            shared.fail(worker, path(), action, &error);
            return true;
        }
    };
    let file = FileId::of(&metadata);
    let is_mount = at.listed_inode.is_some_and(|listed| listed != metadata.ino()) && sys::is_mount_root(&source);
    if let Some(journal) = shared.journal.as_ref().filter(|_| is_mount) {
        journal.note(!at.key(), true);
    }
    let existing = match existing(shared, at, file, times(&metadata)[1]) {
        Ok(Found::Nothing) => None,
        Ok(Found::Replaced(found)) if !matches!(found.kind, FileType::RegularFile | FileType::Symlink) => {
            let reason = format!("it is {}; to write into it, use `cat`", with_article(found.kind));
            shared.fail(worker, at.copy_path(), "replace it", &io::Error::other(reason));
            return true;
        }
        Ok(Found::Replaced(found)) => Some(found),
        Ok(Found::Stays(found)) => {
            keep_file(shared, at, (&source, &metadata), &found, worker);
            return true;
        }
        Err((action, error)) => {
            shared.fail(worker, at.copy_path(), action, &error);
            return true;
        }
    };
    let is_linked = shared.may_have_more_names(metadata.nlink());
    // Elsewhere two files may have one number.
    let has_links = is_linked && is_sure(&source);
    if is_linked && !has_links && metadata.nlink() > 1 {
        *worker.done.not_preserved.entry("hard links").or_default() += 1;
    }
    if has_links && let Some(is_over) = link_or_wait(shared, at, file, metadata.nlink(), existing.as_ref(), worker) {
        forget(shared, at, &source);
        return is_over;
    }
    let done = existing.filter(|found| {
        (is_done(shared, at, found, &source, &metadata) || is_same(shared, at, found, &source, &metadata, worker))
            && !is_of_another(at, found, metadata.uid())
            && shared.links.claim(found, file)
    });
    let copied = match done.filter(|found| give_again(shared, at, found, &source, &metadata, worker)) {
        Some(done) => {
            worker.done.resumed += 1;
            shared.advance(0, metadata.len());
            forget(shared, at, &source);
            let told = tell_checksum(shared, at, (&source, &metadata), done.id(), worker);
            told.map(|()| done.id())
        }
        None => copy_twice(shared, at, &source, metadata, existing.is_some(), worker),
    };
    if let Err((action, error)) = &copied {
        let path = if is_full(error) { at.copy_path() } else { path() };
        shared.fail(worker, path, action, error);
    }
    if has_links {
        link_waiting(shared, at, file, copied.ok(), FileType::RegularFile, worker);
    }
    true
}

/// Leaves a file of the target as it is.
fn keep_file(
    shared: &Copying<'_>,
    at: &At<'_>,
    (source, metadata): (&File, &Metadata),
    found: &StatFacts,
    worker: &mut Worker,
) {
    worker.done.kept += 1;
    shared.advance(0, metadata.len());
    forget(shared, at, source);
    let (file, names) = (FileId::of(metadata), metadata.nlink());
    let is_known = shared.options.existing == Existing::ReplacedIfOlder || is_done(shared, at, found, source, metadata);
    if is_known || shared.may_have_more_names(names) && is_alike(shared, at, found, metadata) {
        keep_name(shared, at, file, names, (found, is_known), worker);
    }
}

/// Drops from the page cache what was fetched of a file that is not copied.
fn forget(shared: &Copying<'_>, at: &At<'_>, source: &File) {
    if at.was_fetched && !shared.options.keep_cached {
        let _ = sys::drop_from_cache(source);
    }
}

/// Copies a file, and once more if it changed meanwhile.
fn copy_twice(
    shared: &Copying<'_>,
    at: &At<'_>,
    source: &File,
    mut metadata: Metadata,
    replaces: bool,
    worker: &mut Worker,
) -> Result<FileId, IoFailure> {
    let mut first = copy_once(shared, at, source, &metadata, worker);
    let changed = match &mut first {
        Ok(copied) => copied.changed.take(),
        Err(_) if shared.stop.is_stopped() => None,
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
            copy_once(shared, at, source, &metadata, worker)?
        }
        None => first?,
    };
    if copied.changed.is_some() {
        worker.done.changed += 1;
        let reason = io::Error::other("it changed during both attempts; the copy may mix versions");
        shared.fail(worker, at.source_path(), "make a consistent copy", &reason);
    }
    // Only now: of a staged file, the times of its source say that it is whole.
    let Copied { mut new, origin, .. } = copied;
    let copy = FileRef::Open(new.file.as_fd());
    let made = shared.give(&origin, copy, (&copied.own, true), || at.copy_path(), worker);
    let made = made.map_err(|error| ("stat the copy", error))?;
    if shared.options.durability == CpDurability::Each {
        sys::sync(&new.file).map_err(|error| ("sync", error))?;
    }
    tell_checksum(shared, at, (source, &metadata), made.id(), worker)?;
    new.publish(at, replaces, shared.journal.as_ref())?;
    copied.moved.count(&mut worker.done);
    worker.done.files += 1;
    worker.done.bytes += metadata.len();
    shared.tell_copied(at, metadata.len());
    Ok(made.id())
}

/// Tells the checksum of a copy, and keeps it for further names.
fn tell_checksum(
    shared: &Copying<'_>,
    at: &At<'_>,
    (source, metadata): (&File, &Metadata),
    copy: FileId,
    worker: &mut Worker,
) -> Result<(), IoFailure> {
    if let Some(kind) = shared.options.checksum {
        let checksum = file_checksum(shared, source, kind, worker);
        let checksum = checksum.map_err(|error| ("compute the checksum", error))?;
        let to = &at.copy_path();
        shared.tell(CpEvent::Checksum {
            checksum: &checksum,
            to,
        });
        if shared.may_have_more_names(metadata.nlink()) {
            sys::lock_mutex(&shared.links.checksums).insert(copy, checksum);
        }
    }
    Ok(())
}

fn copy_once<'h>(
    shared: &'h Copying<'_>,
    at: &At<'h>,
    source: &File,
    metadata: &Metadata,
    worker: &mut Worker,
) -> Result<Copied<'h>, IoFailure> {
    let origin = SourceFacts::of(source, metadata, shared.options).map_err(|error| ("read the attributes", error))?;
    let large = shared.journal.as_ref().filter(|_| metadata.len() >= LARGE_BYTES);
    let large_source = large.map(|journal| (journal, &origin.state));
    let made = NewFile::make(at, origin.first_mode(), large_source, shared);
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
    let files = [source, &new.file];
    let moved = copy_bytes(files, metadata, all.device, pieces, at, shared, worker);
    let moved = moved.map_err(|error| ("copy", error)).and_then(|moved| {
        if shared.options.verify {
            verify(shared, source, &new.file, worker)?;
        }
        Ok(moved)
    });
    let moved = match moved {
        Ok(moved) => moved,
        Err((action, error)) => {
            if shared.stop.is_stopped() || is_full(&error) {
                new.leave_to_next(large, at.handles[0]);
            }
            return Err((action, error));
        }
    };
    let own = new.own(&all, origin.first_mode());
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

/// Gives a copy by an interrupted one what it may not have got. Returns false if that cannot be done: then it is copied again.
fn give_again(
    shared: &Copying<'_>,
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
    let Some(origin) = SourceFacts::of(source, metadata, shared.options).ok().filter(|_| is_it) else {
        return false;
    };
    let own = (&Own::of(found), true);
    shared
        .give(&origin, FileRef::Open(copy.as_fd()), own, || at.copy_path(), worker)
        .is_ok()
}

/// Opens a file of the source. It may be of another kind by now.
fn open_source(at: &At<'_>, is_followed: bool) -> Result<(File, Metadata), IoFailure> {
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

/// Links the names that waited for a copy, or copies each if there is no copy.
pub(super) fn link_waiting(
    shared: &Copying<'_>,
    at: &At<'_>,
    file: FileId,
    copy: Option<FileId>,
    kind: FileType,
    worker: &mut Worker,
) {
    let may_stay = shared.options.existing != Existing::Replaced;
    let (waiting, first) = shared.links.copied(file, copy, may_stay, at);
    if let Some((first, kept)) = first
        .as_ref()
        .filter(|(_, first)| Some(*first) != copy && copy.is_some())
    {
        link_again(shared, &Name::of(at), first, *kept, worker);
    }
    for name in waiting {
        if let Ok(handles) = name.directory.handles() {
            let waited = name.at(handles.borrowed());
            let is_linked = first
                .as_ref()
                .is_some_and(|(first, copy)| link_name(shared, first, *copy, &waited, false, worker));
            if !is_linked && !copy_entry(shared, &waited, Some(kind), worker) {
                continue;
            }
        }
        finish(shared, &name.directory, 1, worker);
    }
}

/// Copies a named entry: its bytes if it or its target is a stream.
pub(super) fn copy_named(shared: &Copying<'_>, at: &At<'_>, worker: &mut Worker) {
    let copy = match StreamCopy::of(at, shared.options) {
        Ok(copy) if copy.is_read || copy.is_written => copy,
        // Errors are met there again, and reported.
        _ => {
            copy_entry(shared, at, None, worker);
            return;
        }
    };
    match copy_stream(shared, at, &copy, worker) {
        Ok(true) => shared.tell_copied(at, 0),
        Ok(false) => worker.done.kept += 1,
        Err((action, error)) => {
            let path = if copy.is_written {
                at.copy_path()
            } else {
                at.source_path()
            };
            shared.fail(worker, path, action, &error);
        }
    }
}

/// Copies the bytes. Returns false if what the target has stays.
fn copy_stream(shared: &Copying<'_>, at: &At<'_>, copy: &StreamCopy, worker: &mut Worker) -> Result<bool, IoFailure> {
    let source = &copy.source;
    copy.require_possible(shared.options)?;
    if let Ok(found) = StatFacts::behind(at.handles[1], at.to)
        && stays(shared, at, &found, source.id(), source.modified)?
    {
        return Ok(false);
    }
    if !shared.options.dry_run {
        copy.write(shared, at, worker)?;
    }
    worker.done.files += 1;
    Ok(true)
}
