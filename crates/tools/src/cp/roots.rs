//! The named sources and the target: which name of which directory each copy gets.

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::files::{FileId, IoFailure, sync_written};
use seekless_engine::plan;
use seekless_engine::walk::{Limit, StatFacts, open_seen};
use seekless_sys::{self as sys, FileSystem, FileSystemTrait, PATH_ONLY, PathWalk};

use super::copying::{COLD_THREADS, CopyBatch, CopyJob, Copying, LARGE_BYTES, Work, Worker};
use super::directories::{enter, entered, fetch, fetch_ahead, finish, list, name_staged};
use super::entry::{copy_entry, copy_named};
use super::journal::{CopyJournal, is_append_only, or_here};
use super::names::{OPENED, Staged, TargetNames};
use super::pair::{At, Pair, PairState, copy_path};
use super::{CpDurability, CpError, CpEvent, CpOptions, CpSummary, Existing, FollowedLinks, TargetMeaning, When};
use crate::Stop;
use crate::threads::{beside, in_threads};
use crate::watch::{JobProgress, JobWatch};

/// Copies sources, which may be trees, to a target: a directory that gets them, or what the copy is called.
///
/// # Errors
/// If the target cannot be opened, or is no directory where it must be one. Other failures are reported and counted, and the rest is
/// copied.
pub fn copy_trees(
    sources: &[impl AsRef<Path> + Sync],
    target: &Path,
    options: &CpOptions,
    watch: &dyn for<'e> JobWatch<CpEvent<'e>>,
) -> Result<CpSummary, CpError> {
    // Before it was interrupted, the same command made a directory of the target's name.
    let goes_on = options.target == TargetMeaning::AsFound && CopyJournal::is_beside(sources, target);
    let meaning = if goes_on { TargetMeaning::Name } else { options.target };
    let mut container = Container::of(target, sources.len(), meaning)?;
    if sources.len() > 1 {
        container.names = TargetNames::shared();
    }
    let mut shared = Copying::new(options, watch);
    let stop = shared.stop;
    let are_met_again = sources.len() > 1 || options.followed != FollowedLinks::None;
    shared.links.are_met_again.store(are_met_again, Ordering::Relaxed);
    let is_long = |source: &_| fs::metadata(source).is_ok_and(|found| found.is_dir() || found.len() >= LARGE_BYTES);
    let are_long = sources.iter().any(is_long);
    // In an append-only directory it would stay.
    if are_long && !options.dry_run && !is_append_only(&container.handle) {
        let opened = CopyJournal::open(container.handle.as_fd(), sources, target, options.followed);
        let opened = opened.map_err(|source| container.error("open the journal of this copy", source))?;
        shared.journal = Some(opened.ok_or_else(|| CpError::Busy(target.to_owned()))?);
    }
    let process = ProcessFacts::without_rings();
    shared.threads = threads(&process);
    let batch = plan::batch(&process);
    let limit = Limit::new(batch.open_directories.min(process.open_files_max / 4).max(1));
    let mut worker = Worker::default();
    let roots = begin_all(&shared, sources, &container, &limit, &mut worker);
    let surveyed = (are_long && !options.dry_run).then_some(target);
    let mut summary = run_with_survey(&shared, sources, surveyed, &container, &roots);
    // What an interrupted copy has is whole.
    for root in &roots {
        name_staged(&shared, root, &mut worker);
    }
    summary.add(&worker.done);
    if options.durability == CpDurability::AtEnd && !stop.is_stopped() {
        sync_written(&container.file()?).map_err(|source| container.error("sync", source))?;
    }
    let device = shared.by_place.get().copied().flatten();
    summary.by_place = device.map(|device| device.to_string());
    summary.is_unfinished = stop.is_stopped();
    let is_left = summary.is_unfinished || shared.is_left.load(Ordering::Relaxed);
    match &shared.journal {
        Some(journal) if is_left => journal.write_named(),
        Some(journal) => journal.end(container.handle.as_fd()),
        None => {}
    }
    Ok(summary)
}

/// Queues the sources, and returns their roots, to keep them open.
fn begin_all(
    shared: &Copying<'_>,
    sources: &[impl AsRef<Path>],
    container: &Container,
    limit: &Arc<Limit<2>>,
    worker: &mut Worker,
) -> Vec<Arc<Pair>> {
    let mut taken = HashSet::new();
    let mut roots = Vec::new();
    for path in sources {
        let path = path.as_ref();
        let named = SourceName::of(path);
        let own_name = named.name.as_ref().filter(|_| !container.is_for_directory);
        let name = container.name.as_ref().or(own_name).cloned();
        if let Some(name) = &name
            && !taken.insert(name.clone())
        {
            let reason = io::Error::other("another source already has this name in the target");
            shared.fail(worker, path.to_owned(), "copy", &reason);
            continue;
        }
        match begin(shared, path, &named, container, name, limit, worker) {
            Ok(root) => roots.push(root),
            Err((action, error)) => shared.fail(worker, path.to_owned(), action, &error),
        }
    }
    roots
}

/// Copies what is queued. A copy to a target that may be surveyed is counted beside, if somebody wants that.
fn run_with_survey(
    shared: &Copying<'_>,
    sources: &[impl AsRef<Path> + Sync],
    target: Option<&Path>,
    container: &Container,
    roots: &[Arc<Pair>],
) -> CpSummary {
    let space = target.and_then(|_| space_for(container, roots, shared));
    let target = target.filter(|_| shared.watch.wants_progress() || space.is_some());
    let is_over = Stop::default();
    let survey = || target.map(|target| survey(shared, sources, target, space.as_ref(), &is_over));
    let (mut summary, surveyed) = beside(usize::from(target.is_some()), survey, || {
        let summary = run(shared, roots.iter().any(|root| root.own.origin.get().is_some()));
        is_over.stop();
        summary
    });
    surveyed.iter().flatten().for_each(|surveyed| summary.add(surveyed));
    summary
}

/// The space of the target, if all of the sources has to be in it and may not fit: if their file systems have more than is free.
fn space_for(container: &Container, roots: &[Arc<Pair>], shared: &Copying<'_>) -> Option<FileSystem> {
    let options = shared.options;
    let is_first = shared.journal.as_ref().is_some_and(|journal| journal.is_first);
    let are_replaced = is_first && options.existing == Existing::Replaced && options.same.is_none();
    let space = sys::file_system_of(&container.handle).ok()?;
    if !space.has(FileSystemTrait::Uncompressed) {
        return None;
    }
    let device = StatFacts::of(&container.handle).ok()?.device;
    let may_not_fit = |root: &Arc<Pair>| {
        // What is there already is not counted. A root that is not copied itself has named files.
        let is_new = root.own.is_new.load(Ordering::Relaxed) || root.own.origin.get().is_none() && are_replaced;
        is_new.then_some(())?;
        let handles = root.handles().ok()?;
        let source = handles.borrowed()[0];
        let found = sys::file_system_of(source).ok()?;
        let may_share = options.reflink != When::Never && StatFacts::of(source).ok()?.device == device;
        Some(!may_share && found.total_bytes.saturating_sub(found.free_bytes) > space.free_bytes)
    };
    let all: Option<Vec<_>> = roots.iter().map(may_not_fit).collect();
    all.filter(|all| all.contains(&true)).map(|_| space)
}

/// Threads that copy.
fn threads(process: &ProcessFacts) -> usize {
    sys::processors().min(process.open_files_max / 16).max(1)
}

/// The directory that copies are put into.
struct Container {
    path: PathBuf,
    handle: Arc<OwnedFd>,
    /// Whether the only copy must be one of a directory.
    is_for_directory: bool,
    /// What the only copy is called; or else each is called as its source.
    name: Option<CString>,
    names: Arc<TargetNames>,
}

impl Container {
    fn of(target: &Path, sources: usize, meaning: TargetMeaning) -> Result<Self, CpError> {
        let is_directory = fs::metadata(target).is_ok_and(|found| found.is_dir());
        if meaning != TargetMeaning::Name && is_directory {
            return Self::open(target, None, false);
        }
        if meaning == TargetMeaning::Directory || sources > 1 {
            return Err(CpError::NotDirectory(target.to_owned()));
        }
        let named = SourceName::of(target);
        match named.name {
            Some(name) => Self::open(&named.above, Some(name), named.is_directory),
            // Such as `.`, with the meaning of a name.
            None => Self::open(target, None, true),
        }
    }

    fn open(path: &Path, name: Option<CString>, is_for_directory: bool) -> Result<Self, CpError> {
        // No link of another user redirects what is written.
        let opened = PathWalk::protected(path).and_then(PathWalk::into_directory);
        let opened = opened.map_err(|source| CpError::System {
            path: or_here(path).to_owned(),
            action: "open",
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            handle: Arc::new(opened.into()),
            is_for_directory,
            name,
            names: Arc::default(),
        })
    }

    fn file(&self) -> Result<fs::File, CpError> {
        let opened = openat(
            &self.handle,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        opened
            .map(fs::File::from)
            .map_err(|error| self.error("open", error.into()))
    }

    fn error(&self, action: &'static str, source: io::Error) -> CpError {
        CpError::System {
            path: or_here(&self.path).to_owned(),
            action,
            source,
        }
    }

    /// Whether a directory is this one or has it somewhere below.
    fn is_below(&self, directory: FileId) -> io::Result<bool> {
        let mut at = (*self.handle).try_clone()?;
        let mut id = StatFacts::of(&at)?.id();
        loop {
            if id == directory {
                return Ok(true);
            }
            at = openat(
                &at,
                "..",
                PATH_ONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let above = StatFacts::of(&at)?.id();
            if above == id {
                return Ok(false);
            }
            id = above;
        }
    }
}

/// Opens a directory for the names in it.
fn open_place(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        or_here(path),
        PATH_ONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// A path, taken apart.
pub(super) struct SourceName {
    /// The directory above; empty for the working directory.
    above: PathBuf,
    /// The last name; `None` for a path that ends in `.`, `..` or is the root, which has no name for a copy.
    name: Option<CString>,
    /// Whether it ended in a slash, so that it must be a directory.
    is_directory: bool,
}

impl SourceName {
    fn of(path: &Path) -> Self {
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let start = bytes[..end]
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let name = &bytes[start..end];
        let has_name = !matches!(name, b"" | b"." | b"..");
        Self {
            above: PathBuf::from(OsStr::from_bytes(&bytes[..start])),
            name: CString::new(name).ok().filter(|_| has_name),
            is_directory: end < bytes.len(),
        }
    }
}

/// Queues a source. Returns the root that it is, to keep it open.
fn begin(
    shared: &Copying<'_>,
    source: &Path,
    named: &SourceName,
    container: &Container,
    name: Option<CString>,
    limit: &Arc<Limit<2>>,
    worker: &mut Worker,
) -> Result<Arc<Pair>, IoFailure> {
    let is_followed = shared.options.followed != FollowedLinks::None || named.is_directory || named.name.is_none();
    let metadata = if is_followed {
        fs::metadata(source)
    } else {
        fs::symlink_metadata(source)
    };
    let metadata = metadata.map_err(|error| ("stat", error))?;
    if !metadata.is_dir() {
        return begin_entry(shared, named, container, name, limit);
    }
    let id = FileId::of(&metadata);
    // Another file system in the source is not entered then.
    let is_apart = shared.options.one_file_system
        && StatFacts::of(&container.handle).is_ok_and(|target| target.device != metadata.dev());
    let is_below = || container.is_below(id);
    if !is_apart && is_below().map_err(|error| ("check the parent directories of the target", error))? {
        let reason = "the target is the directory itself or inside it";
        return Err(("copy the directory", io::Error::other(reason)));
    }
    let opened = open_seen(source, id).map_err(|error| ("open", error))?;
    let (copy, own) = copy_of(shared, &opened, container, name, worker)?;
    let mut root = Pair::root([opened, copy], source, limit, own);
    if shared.options.dry_run {
        root = root.only_in(0);
    }
    let mut failure = None;
    let Some((handles, facts)) = root.open(&mut |_, action, error| failure = Some((action, error))) else {
        name_staged(shared, &root, worker);
        return Err(failure.unwrap_or(("open", Errno::BADF.into())));
    };
    entered(shared, &root, &handles, &facts, worker);
    Ok(root)
}

/// Queues a source that is not a directory. Returns the directory that it is in.
fn begin_entry(
    shared: &Copying<'_>,
    named: &SourceName,
    container: &Container,
    name: Option<CString>,
    limit: &Arc<Limit<2>>,
) -> Result<Arc<Pair>, IoFailure> {
    if named.is_directory || container.is_for_directory {
        return Err(("copy it to a path that must be a directory", Errno::NOTDIR.into()));
    }
    let (Some(from), Some(to)) = (named.name.clone(), name) else {
        return Err(("copy", Errno::NOENT.into()));
    };
    let above = open_place(&named.above).map_err(|error| ("open the parent directory", error))?;
    let target = (*container.handle).try_clone();
    let handles = [above, target.map_err(|error| ("open the target", error))?];
    let state = PairState::of_root(&container.path, &container.names);
    let place = Pair::root(handles, &named.above, limit, state);
    let handles = place.handles().map_err(|(_, error)| ("open", error))?;
    let journal = shared.journal.as_ref().filter(|journal| !journal.is_made);
    if journal.is_some() {
        // Only to remove what a killed process left.
        let _ = place.own.names.list(handles.borrowed(), journal);
    }
    let at = At {
        to: &to,
        ..At::of(&place, handles.borrowed(), &from)
    };
    // Before another source, copied at the same time, finds what the target has by a name that is only alike.
    at.claim(StatFacts::at(at.handles[1], at.to).ok().as_ref())?;
    shared.push([CopyJob::Named(Arc::clone(&place), from, to)]);
    Ok(place)
}

/// Makes or opens the copy of a named directory.
fn copy_of(
    shared: &Copying<'_>,
    opened: &OwnedFd,
    container: &Container,
    name: Option<CString>,
    worker: &mut Worker,
) -> Result<(OwnedFd, PairState), IoFailure> {
    let failed = |error: io::Error| ("create the target directory", error);
    let (path, name, names) = match name {
        None => (container.path.clone(), c".".to_owned(), Arc::clone(&container.names)),
        Some(name) => (
            container.path.join(OsStr::from_bytes(name.to_bytes())),
            name,
            Arc::default(),
        ),
    };
    let is_synced = shared.options.durability == CpDurability::Each;
    let to: Arc<Path> = Arc::from(path.as_path());
    let state = |is_new, staged| PairState::of_new_root(Arc::clone(&to), &name, is_new, staged, names);
    if shared.options.dry_run {
        return Ok((opened.try_clone().map_err(|error| ("open", error))?, state(true, None)));
    }
    if let Some(journal) = shared.journal.as_ref().filter(|_| name.as_c_str() != c".") {
        let has_times = shared.options.preserved.timestamps;
        if let Err((action, error)) = Staged::take_up(&container.handle, &name, journal, has_times) {
            let left = path.with_file_name(OsStr::from_bytes(journal.staged_name(&name).to_bytes()));
            shared.fail(worker, left, action, &error);
            shared.is_left.store(true, Ordering::Relaxed);
        }
    }
    let found = match StatFacts::at(&container.handle, &name) {
        Err(Errno::NOENT) => None,
        found => Some(found.map_err(|error| ("stat", error.into()))?),
    };
    if name.as_c_str() != c"." {
        let handles = [opened.as_fd(), container.handle.as_fd()];
        let claim = (Arc::as_ptr(&to).cast::<()>().addr(), name.clone());
        container.names.claim(handles, &name, &claim, found.as_ref())?;
    }
    if let Some(journal) = shared.journal.as_ref().filter(|_| found.is_none())
        && let Some((staged, copy)) = Staged::make(&container.handle, &name, journal, is_synced).map_err(failed)?
    {
        return Ok((copy, state(true, Some(staged))));
    }
    let is_new = match mkdirat(&container.handle, &name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(failed(error.into())),
    };
    let copy = openat(&container.handle, &name, OPENED, Mode::empty());
    let copy = copy.map_err(|error| ("open the target as a directory", error.into()))?;
    if is_new && !sys::is_just_made(copy.as_fd(), container.handle.as_fd(), 0o700).map_err(failed)? {
        return Err(failed(io::Error::other("another process replaced it")));
    }
    Ok((copy, state(is_new, None)))
}

/// Does what is queued, and all that follows from it. Of trees, files that are not in memory are copied by more threads.
pub(super) fn run(shared: &Copying<'_>, has_trees: bool) -> CpSummary {
    let mut all = CpSummary {
        threads: shared.threads as u64,
        ..CpSummary::default()
    };
    let most = shared.threads * if has_trees { COLD_THREADS } else { 1 };
    for worker in in_threads(most, || work(shared)) {
        all.add(&worker.done);
    }
    all
}

fn work(shared: &Copying<'_>) -> Worker {
    let mut worker = Worker::default();
    while let Some(work) = shared.next() {
        let mut copied = None;
        match work {
            Work::Job(CopyJob::Enter(directory)) => enter(shared, &directory, &mut worker),
            Work::Job(CopyJob::List(directory, from)) => list(shared, &directory, from, &mut worker),
            Work::Job(CopyJob::Named(directory, from, to)) => {
                if let Some(handles) = shared.handles(&directory, &mut worker) {
                    let at = At {
                        to: &to,
                        ..At::of(&directory, handles.borrowed(), &from)
                    };
                    copy_named(shared, &at, &mut worker);
                }
            }
            Work::Batch(batch) => {
                copied = Some(Arc::clone(&batch.listed));
                copy_files(shared, batch, &mut worker);
            }
            Work::Fetch(mut batches) => {
                let rest = fetch(shared, &mut batches);
                shared.push_fetched(batches, rest);
            }
        }
        shared.end_work(copied.as_ref());
    }
    worker
}

/// Copies what is not a directory among entries.
fn copy_files(shared: &Copying<'_>, mut batch: CopyBatch, worker: &mut Worker) {
    let listed = Arc::clone(&batch.listed);
    let entries = listed.listing.entries();
    let numbers = batch.range.clone().map(|number| (number, &entries[number]));
    let files = numbers.filter(|(_, entry)| entry.kind != FileType::Directory);
    let Some(handles) = shared.handles(&listed.directory, worker) else {
        finish(shared, &listed.directory, files.count(), worker);
        return;
    };
    let (mut finished, mut ahead) = (0, 0);
    for (number, entry) in files {
        if shared.stop.is_stopped() {
            return;
        }
        if shared.meets_cold() {
            fetch_ahead(shared, &mut batch, number, &mut ahead);
        }
        let name = listed.listing.c_str(entry);
        let at = At {
            was_fetched: batch.fetched.contains(&number),
            listed_inode: Some(entry.inode),
            ..At::of(&listed.directory, handles.borrowed(), name)
        };
        finished += usize::from(copy_entry(shared, &at, Some(entry.kind), worker));
    }
    shared.advance(finished, 0);
    finish(shared, &listed.directory, finished, worker);
    if let Some(Err(error)) = shared.journal.as_ref().map(CopyJournal::checkpoint) {
        let path = copy_path(&listed.directory);
        shared.fail(worker, path, "sync what was copied so far", &error);
    }
}

/// A shorter copy ends sooner than its survey. Tests do not wait that long.
const BEGUN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1000 });
const LOOKED: Duration = Duration::from_millis(20);

/// Counts what there is to copy. If the target, which has this much space, is found to be too small, it is told, and the copy
/// stops. Ends with `is_over`.
pub(super) fn survey(
    shared: &Copying<'_>,
    sources: &[impl AsRef<Path> + Sync],
    target: &Path,
    space: Option<&FileSystem>,
    is_over: &Stop,
) -> CpSummary {
    let mut worker = Worker::default();
    let began = Instant::now();
    while began.elapsed() < BEGUN {
        if is_over.is_stopped() {
            return worker.done;
        }
        std::thread::sleep(LOOKED);
    }
    let options = CpOptions {
        dry_run: true,
        ..shared.options.clone()
    };
    let Ok(all) = copy_trees(sources, target, &options, is_over) else {
        return worker.done;
    };
    if is_over.is_stopped() {
        return worker.done;
    }
    let needed = all.bytes.saturating_sub(all.hole_bytes);
    let total = JobProgress::of_bytes(0, Some(needed));
    let of_entries = Some(all.entries());
    let _ = shared.counters.total.set(JobProgress { of_entries, ..total });
    shared.advance(0, 0);
    // Some space is reserved for root, usually a twentieth.
    let free = |space: &FileSystem| space.free_bytes + space.total_bytes / 16;
    if let Some(space) = space.filter(|space| needed > free(space))
        && shared.options.sparse != When::Always
    {
        let reason = format!(
            "{} MiB needed, {} MiB free",
            needed.div_ceil(1 << 20),
            space.free_bytes >> 20
        );
        let full = io::Error::new(io::ErrorKind::StorageFull, reason);
        shared.fail(&mut worker, target.to_owned(), "copy everything", &full);
    }
    worker.done
}
