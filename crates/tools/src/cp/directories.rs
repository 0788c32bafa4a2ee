//! Copying directories: making each, listing its source, fetching the files that were listed, and giving it what its source has when all
//! in it is done.
//!
//! Files that are not in memory are fetched before they are copied: on a device with a head in the order in which they lie on it, on
//! others some at the same time.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, SeekFrom, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use seekless_engine::cache;
use seekless_engine::facts::SeekFacts;
use seekless_engine::files::{FileId, FileRef, FileState, IoFailure, Own};
use seekless_engine::walk::{FOUND_FILE, Handles, Listing, StatFacts, is_sure};
use seekless_sys as sys;
use seekless_sys::lock_mutex;

use super::copying::{BATCH, CopyBatch, CopyJob, Copying, LISTED, ListedEntries, Worker};
use super::data::is_cold;
use super::names::{OPENED, collision};
use super::pair::{At, Pair, SourceFacts, copy_path, source_path};
use super::{CpDurability, CpEvent, Existing, FollowedLinks};
use crate::disk_order::{MEASURED_BYTES, fetch_in_order, seek_facts, spread};

/// Makes the copy of a directory.
pub(super) fn enter(shared: &Copying<'_>, directory: &Arc<Pair>, worker: &mut Worker) {
    let Some(parent) = directory.parent().cloned() else {
        return;
    };
    let made = match shared.handles(&parent, worker) {
        None => None,
        Some(_) if shared.options.dry_run => Some(true),
        Some(handles) => match make_directory(&At::of(&parent, handles.borrowed(), directory.name())) {
            Ok(is_new) => Some(is_new),
            Err((action, error)) => {
                shared.fail(worker, copy_path(directory), action, &error);
                None
            }
        },
    };
    let Some(is_new) = made else {
        parent.release(1);
        finish(shared, &parent, 1, worker);
        return;
    };
    directory.own.is_new.store(is_new, Ordering::Relaxed);
    let mut failures = Vec::new();
    if let Some((handles, facts)) = directory.open(&mut |tree, action, error| failures.push((tree, action, error))) {
        return entered(shared, directory, &handles, &facts, worker);
    }
    for (tree, action, error) in failures {
        let action = if tree == 1 && !is_new {
            "use it as a directory"
        } else {
            action
        };
        shared.fail(worker, [source_path, copy_path][tree](directory), action, &error);
    }
    unmake(shared, directory);
    finish(shared, &parent, 1, worker);
}

/// Removes the empty copy of a directory that cannot be copied.
fn unmake(shared: &Copying<'_>, directory: &Pair) {
    let is_made = directory.own.is_new.load(Ordering::Relaxed) && !shared.options.dry_run;
    if let Some(Ok(above)) = directory.parent().filter(|_| is_made).map(|above| above.handles()) {
        let _ = unlinkat(above.borrowed()[1], directory.name(), AtFlags::REMOVEDIR);
    }
}

/// Lists a directory that was opened with its copy, unless that would not end.
pub(super) fn entered(
    shared: &Copying<'_>,
    directory: &Arc<Pair>,
    handles: &Handles<2>,
    facts: &[StatFacts; 2],
    worker: &mut Worker,
) {
    let [source, copy] = handles.borrowed();
    let own = &directory.own;
    let is_new = own.is_new.load(Ordering::Relaxed);
    let is_replaced = is_replaced(shared, directory, copy);
    let refused = refusal(shared, directory, source, facts);
    if let Some(reason) = refused.or(is_replaced.then_some("another process replaced its new copy")) {
        let path = source_path(directory);
        shared.fail(worker, path, "copy the directory", &io::Error::other(reason));
        if !is_replaced {
            unmake(shared, directory);
        }
        leave(shared, directory, worker);
        return;
    }
    match SourceFacts::of_directory(source, shared.options) {
        Ok(origin) => {
            // What is put into it must not be open to more users than in the source, not even before it is complete.
            if shared.options.preserved.mode
                && !is_new
                && !shared.options.dry_run
                && let Err(error) = origin.restrict(copy, &facts[1], shared.options)
            {
                let path = copy_path(directory);
                shared.fail(worker, path, "restrict the directory's permissions", &error);
            }
            lock_mutex(&shared.entered).insert(origin.state.id());
            note_directory(shared, directory, source, &origin.state);
            drop(directory.own.origin.set(origin));
        }
        Err(error) => shared.fail(worker, source_path(directory), "read the attributes", &error),
    }
    worker.done.directories += 1;
    if directory.parent().is_none() {
        lock_mutex(&shared.targets).extend(StatFacts::of(copy).map(|facts| facts.id()));
    }
    shared.tell(CpEvent::Copied {
        from: &|| source_path(directory),
        to: &|| copy_path(directory),
    });
    if !is_new && let Err(error) = own.names.list([source, copy], shared.journal.as_ref()) {
        shared.fail(worker, copy_path(directory), "list the directory", &error);
    }
    let above = sources_above(directory).next();
    if shared.options.one_file_system && above.is_some_and(|above| above.state.device != facts[0].device) {
        finish(shared, directory, 1, worker);
    } else {
        shared.push([CopyJob::List(Arc::clone(directory), 0)]);
    }
}

/// Whether another process put another directory in the place of a copy that this one made.
fn is_replaced(shared: &Copying<'_>, directory: &Pair, copy: BorrowedFd<'_>) -> bool {
    // Nobody else can enter a staged tree.
    let is_safe = !directory.own.is_new.load(Ordering::Relaxed) || directory.own.is_staged || shared.options.dry_run;
    let made_in = directory.parent().filter(|_| !is_safe);
    made_in.is_some_and(|above| {
        let above = above.handles();
        !above.is_ok_and(|above| sys::is_just_made(copy, above.borrowed()[1], 0o700).unwrap_or(false))
    })
}

/// The sources of the directories above one, the nearest first.
fn sources_above(directory: &Pair) -> impl Iterator<Item = &SourceFacts> {
    let above = std::iter::successors(directory.parent(), |above| above.parent());
    above.filter_map(|above| above.own.origin.get())
}

/// Why a directory with these facts, of it and of its copy, is not copied: that would not end.
fn refusal(
    shared: &Copying<'_>,
    directory: &Pair,
    source: BorrowedFd<'_>,
    facts: &[StatFacts; 2],
) -> Option<&'static str> {
    let [id, copy_id] = [facts[0].id(), facts[1].id()];
    // A link that leads back is told even where inode numbers are not sure: it would have no end.
    let is = |other: FileId| other == id && (is_sure(source) || shared.options.followed == FollowedLinks::All);
    if id == copy_id && !shared.options.dry_run {
        Some("source and target are the same directory")
    } else if lock_mutex(&shared.entered).contains(&id) && sources_above(directory).any(|above| is(above.state.id())) {
        Some("it leads back to one of its parent directories")
    } else if lock_mutex(&shared.targets).iter().any(|target| is(*target)) {
        Some("it is the target of this copy")
    } else {
        None
    }
}

/// Finds out what the journal says of a directory, or notes that it was made.
fn note_directory(shared: &Copying<'_>, directory: &Pair, source: BorrowedFd<'_>, state: &FileState) {
    let Some(journal) = &shared.journal else { return };
    let own = &directory.own;
    let above = directory.parent().map(|above| &above.own);
    // An unchanged directory has what it had, but for mounts in it and links that lead out of it: these may show anything else by
    // now, and what they showed before may be gone.
    let is_passage = above.is_some_and(|above| {
        let device = above.origin.get().map(|origin| origin.state.device);
        directory.is_link() || device != Some(state.device) || sys::is_mount_root(source)
    });
    if is_passage {
        journal.note(!own.key, true);
    }
    let is_unchanged = above.is_none_or(|above| above.is_unchanged.load(Ordering::Relaxed))
        && journal.is_unchanged(state)
        && !is_passage
        && !journal.has_named(!own.key);
    own.is_unchanged.store(is_unchanged, Ordering::Relaxed);
    let mut is_own = above.is_some_and(|above| above.is_own.load(Ordering::Relaxed)) || journal.has_named(own.key);
    if !is_own && own.is_new.load(Ordering::Relaxed) {
        journal.note(own.key, true);
        is_own = true;
    }
    own.is_own.store(is_own, Ordering::Relaxed);
}

/// Lists some entries of a directory, and queues them.
pub(super) fn list(shared: &Copying<'_>, directory: &Arc<Pair>, from: u64, worker: &mut Worker) {
    let Some(handles) = shared.handles(directory, worker) else {
        finish(shared, directory, 1, worker);
        return;
    };
    let mut listing = Listing::default();
    let rest = match add_entries(&mut listing, handles.borrowed()[0], from) {
        // It was removed, and so was all in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            shared.fail(worker, source_path(directory), "list the directory", &error);
            None
        }
        Ok(rest) => rest,
    };
    listing.sort_by_inode();
    let entries = listing.entries();
    directory.own.unfinished.fetch_add(entries.len(), Ordering::Relaxed);
    let mut jobs: Vec<CopyJob> = rest
        .map(|rest| CopyJob::List(Arc::clone(directory), rest))
        .into_iter()
        .collect();
    let directories = entries.iter().filter(|entry| entry.kind == FileType::Directory).rev();
    if directory.own.names.ignore_case() {
        // In this order, whichever thread enters one first.
        for entry in directories.clone().rev() {
            let name = listing.c_str(entry);
            let found = StatFacts::at(handles.borrowed()[1], name);
            // Entering a directory tells.
            let _ = At::of(directory, handles.borrowed(), name).claim(found.ok().as_ref());
        }
    }
    jobs.extend(directories.map(|entry| {
        let name = listing.c_str(entry);
        CopyJob::Enter(directory.child(name, directory.own.below(name)))
    }));
    let children = jobs.len() - usize::from(rest.is_some());
    let (count, has_files) = (entries.len(), entries.len() > children);
    let listed = Arc::new(ListedEntries {
        directory: Arc::clone(directory),
        listing,
    });
    look_at_device(shared, &listed);
    let starts = (0..if has_files { count } else { 0 }).step_by(BATCH);
    let batches = starts.map(|start| CopyBatch {
        listed: Arc::clone(&listed),
        range: start..count.min(start + BATCH),
        fetched: HashSet::new(),
    });
    shared.push_listed(jobs, batches);
    if rest.is_none() {
        finish(shared, directory, 1, worker);
    }
}

/// With fewer files, looking does not pay.
const LEAST_LOOKED_AT: usize = 16;
/// Larger files are read by large requests anyway.
const FETCHED_BYTES_MAX: u64 = 8 << 20;
/// The most that is fetched at a time, where memory has it.
const WINDOW_BYTES: u64 = 256 << 20;
/// In so many directories at most, files are looked for that are far enough from each other.
const LOOKS: u32 = 16;

/// So many files are fetched before they are copied: a device without a head serves them at the same time.
const AHEAD: usize = 32;
/// So much of each; the kernel reads ahead in the rest.
const AHEAD_BYTES: u64 = 1 << 20;

/// Finds out by the files of a directory whether a head moves between them, unless that is known.
pub(super) fn look_at_device(shared: &Copying<'_>, listed: &ListedEntries) {
    if shared.options.dry_run || shared.by_place.get().is_some() {
        return;
    }
    let entries = listed.listing.entries().iter();
    let files: Vec<_> = entries.filter(|entry| entry.kind == FileType::RegularFile).collect();
    if files.len() < LEAST_LOOKED_AT {
        return;
    }
    let is_long = |path: &PathBuf| path.metadata().is_ok_and(|found| found.len() >= MEASURED_BYTES);
    let path = |entry| listed.directory.path_of(listed.listing.name(entry));
    let paths = |most: usize| {
        spread(&files, 64)
            .map(|entry| path(entry))
            .filter(is_long)
            .take(most)
            .collect()
    };
    let facts = seek_facts(&listed.directory.path_of(b""), paths);
    // Other files may lie farther apart, and a head sometimes happens to be near. Without one, three measurements say so.
    let weight = match facts.claims_rotational {
        Some(false) => LOOKS,
        _ if facts.are_in_doubt() => 1,
        _ => LOOKS.div_ceil(3),
    };
    if facts.moves_head() || shared.looks.fetch_add(weight, Ordering::Relaxed) + weight >= LOOKS {
        let _ = shared.by_place.set(Some(facts).filter(SeekFacts::moves_head));
    }
}

/// Lists entries of a directory from a position. Returns the position of the rest, if there is more.
fn add_entries(listing: &mut Listing, directory: BorrowedFd<'_>, from: u64) -> io::Result<Option<u64>> {
    // One that was opened again is at its start.
    if from > 0 && rustix::fs::tell(directory) != Ok(from) {
        rustix::fs::seek(directory, SeekFrom::Start(from))?;
    }
    loop {
        match listing.add_some(directory, |_| true)? {
            Some(_) if listing.entries().len() < LISTED => {}
            rest => return Ok(rest),
        }
    }
}

/// Fetches the files of batches in the order in which they lie on the device, and returns those batches that have to wait for the
/// next time because of the memory.
pub(super) fn fetch(shared: &Copying<'_>, batches: &mut Vec<CopyBatch>) -> Vec<CopyBatch> {
    let most = cache::memory().map_or(0, |memory| memory.available_bytes / 8);
    let most = most.clamp(FETCHED_BYTES_MAX, WINDOW_BYTES);
    let (mut bytes, mut count, mut wanted) = (0, 0, Vec::new());
    for batch in &*batches {
        if bytes > most {
            break;
        }
        if let Ok(handles) = batch.listed.directory.handles() {
            for number in batch.range.clone() {
                if may_stay(shared, batch, number, handles.borrowed()[1]) {
                    continue;
                }
                let found = StatFacts::at(handles.borrowed()[0], batch.listed.name(number)).ok();
                let is_wanted = |found: &StatFacts| {
                    found.is_file() && found.bytes <= FETCHED_BYTES_MAX && !may_be_linked(shared, batch, found)
                };
                if let Some(found) = found.filter(is_wanted) {
                    wanted.push(((count, number), 0..found.bytes));
                    bytes += found.bytes;
                }
            }
        }
        count += 1;
    }
    let rest = batches.split_off(count);
    let open = |(count, number): (usize, usize)| {
        let listed = &batches[count].listed;
        let handles = listed.directory.handles().map_err(|(_, error)| error)?;
        let opened = openat(handles.borrowed()[0], listed.name(number), FOUND_FILE, Mode::empty());
        Ok(File::from(opened?))
    };
    let fetched = fetch_in_order(wanted, u64::MAX, open, || !shared.stop.is_stopped());
    for (count, number) in fetched {
        batches[count].fetched.insert(number);
    }
    rest
}

/// Whether the target has something that may stay in the place of a file, which then is not read.
fn may_stay(shared: &Copying<'_>, batch: &CopyBatch, number: usize, target: BorrowedFd<'_>) -> bool {
    let resumes = shared.journal.as_ref().is_some_and(|journal| !journal.is_first);
    let may_stay = resumes || shared.options.existing != Existing::Replaced || shared.options.same.is_some();
    let is_new = batch.listed.directory.own.is_new.load(Ordering::Relaxed);
    may_stay && !is_new && StatFacts::at(target, batch.listed.name(number)).is_ok()
}

/// Whether a name may only be linked, because another name of the file was met or may be in the target.
fn may_be_linked(shared: &Copying<'_>, batch: &CopyBatch, found: &StatFacts) -> bool {
    let is_new = batch.listed.directory.own.is_new.load(Ordering::Relaxed);
    found.names > 1 && shared.options.preserved.links && (!is_new || shared.links.is_met(found.id()))
}

/// Begins to fetch those of the `next` files of a batch that are not in memory, and does not wait for them. Those before `ahead` were
/// fetched.
pub(super) fn fetch_ahead(shared: &Copying<'_>, batch: &mut CopyBatch, next: usize, ahead: &mut usize) {
    if shared.is_by_place() {
        return;
    }
    let Ok(handles) = batch.listed.directory.handles() else {
        return;
    };
    let until = batch.range.end.min(next + AHEAD);
    for number in next.max(*ahead)..until {
        if batch.listed.listing.entries()[number].kind != FileType::RegularFile {
            continue;
        }
        if may_stay(shared, batch, number, handles.borrowed()[1]) {
            continue;
        }
        // Errors are told when it is copied.
        let name = batch.listed.name(number);
        if let Ok(file) = openat(handles.borrowed()[0], name, FOUND_FILE, Mode::empty()) {
            let file = File::from(file);
            let Ok(found) = StatFacts::of(&file) else { continue };
            let bytes = found.bytes.min(AHEAD_BYTES);
            if bytes > 0
                && !may_be_linked(shared, batch, &found)
                && is_cold(&file, true).unwrap_or(false)
                && cache::fetch(&file, 0..bytes).is_ok()
            {
                batch.fetched.insert(number);
            }
        }
    }
    *ahead = until.max(*ahead);
}

/// Enters a directory that a link leads to if `is_followed`.
pub(super) fn enter_at(shared: &Copying<'_>, at: &At<'_>, is_followed: bool) {
    let below = at.directory.own.below(at.from);
    shared.push([CopyJob::Enter(if is_followed {
        at.directory.linked_child(at.from, below)
    } else {
        at.directory.child(at.from, below)
    })]);
}

/// Counts finished entries of a directory. After the last one, its copy becomes like it.
pub(super) fn finish(shared: &Copying<'_>, directory: &Arc<Pair>, entries: usize, worker: &mut Worker) {
    if entries > 0 && directory.own.unfinished.fetch_sub(entries, Ordering::AcqRel) == entries {
        complete(shared, directory, worker);
        leave(shared, directory, worker);
    }
}

/// Gives up a directory, which is an entry of the one above.
fn leave(shared: &Copying<'_>, directory: &Arc<Pair>, worker: &mut Worker) {
    let mut left = directory;
    loop {
        left.release(1);
        let Some(parent) = left.parent() else { return };
        if parent.own.unfinished.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        complete(shared, parent, worker);
        left = parent;
    }
}

/// Gives the copy of a directory its owner, mode, attributes and times.
pub(super) fn complete(shared: &Copying<'_>, directory: &Arc<Pair>, worker: &mut Worker) {
    let Some(origin) = directory.own.origin.get() else {
        return;
    };
    lock_mutex(&shared.entered).remove(&origin.state.id());
    if shared.options.dry_run {
        return;
    }
    let Some(handles) = shared.handles(directory, worker) else {
        return;
    };
    if !name_staged(shared, directory, worker) {
        return;
    }
    let is_new = directory.own.is_new.load(Ordering::Relaxed);
    if let Some(journal) = shared.journal.as_ref().filter(|_| !is_new && !shared.stop.is_stopped()) {
        journal.remove_pieces(handles.borrowed()[1]);
    }
    let path = || copy_path(directory);
    let copy = match handles.borrowed()[1].try_clone_to_owned() {
        Ok(copy) => File::from(copy),
        Err(error) => return shared.fail(worker, path(), "reopen the directory", &error),
    };
    let own = match StatFacts::of(&copy) {
        Ok(own) => Own::of(&own),
        Err(error) => return shared.fail(worker, path(), "stat", &error.into()),
    };
    if let Err(error) = shared.give(origin, FileRef::Open(copy.as_fd()), (&own, is_new), path, worker) {
        shared.fail(worker, path(), "stat", &error);
    }
    if shared.options.durability == CpDurability::Each
        && let Err(error) = sys::sync(&copy)
    {
        shared.fail(worker, path(), "sync the directory", &error);
    }
}

/// Gives the copy of a named directory its name, if it was staged. Returns false if that cannot be done.
pub(super) fn name_staged(shared: &Copying<'_>, root: &Arc<Pair>, worker: &mut Worker) -> bool {
    let Some(staged) = lock_mutex(&root.own.staged).take() else {
        return true;
    };
    let name = || {
        if shared.has_partial.load(Ordering::Relaxed) {
            return Err(io::Error::other("a file that is not whole could not be removed"));
        }
        let handles = root.handles().map_err(|(_, error)| error)?;
        let directory = handles.borrowed()[1];
        if shared.options.durability != CpDurability::Each {
            return staged.give_name(directory);
        }
        sys::sync(&File::from(directory.try_clone_to_owned()?))?;
        staged.give_name(directory)?;
        sys::sync(&File::from(openat(&staged.container, ".", OPENED, Mode::empty())?))
    };
    let named = name();
    if let Err(error) = &named {
        let hidden = Path::new(OsStr::from_bytes(staged.hidden.to_bytes()));
        let reason = io::Error::other(format!("{error}; what was copied is in {}", hidden.display()));
        shared.fail(worker, copy_path(root), "give the copy its name", &reason);
        shared.is_left.store(true, Ordering::Relaxed);
    }
    named.is_ok()
}

/// Makes the copy of a directory. Returns false if the target had it before.
fn make_directory(at: &At<'_>) -> Result<bool, IoFailure> {
    match mkdirat(at.handles[1], at.to, Mode::RWXU) {
        Ok(()) => at.claim(None).map(|()| true),
        Err(Errno::EXIST) if at.is_in_new() => Err(("create the directory", collision())),
        Err(Errno::EXIST) => {
            let found = StatFacts::at(at.handles[1], at.to).map_err(|error| ("stat", error.into()))?;
            at.claim(Some(&found)).map(|()| false)
        }
        Err(error) => Err(("create the directory", error.into())),
    }
}
