//! All regular files below some paths, listed by several threads in no order: for jobs that need every file before they begin.

mod sorter;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use seekless_engine::files::{FileId, IoFailure};
use seekless_engine::plan::BatchPlan;
use seekless_engine::walk::{FileAt, Handles, Limit, Listing, StatFacts, WalkDirectory, open_root};
use seekless_sys::{file_system_of, is_mount_root};

use super::files::{Files, FoundPlace};
use super::filter::Named;
use super::ignored::Ignored;
use super::selection::{Root, SeenMounts, System, place, place_of};
use super::{Filter, Left, Selection};
use crate::threads::in_threads;
use crate::watch::{JobPhase, JobProgress, JobWatch};
use crate::work_queue::{ALL, Taken, WorkQueue};
use sorter::Sorter;

/// A directory that was listed.
pub(crate) struct Visited {
    pub directory: Arc<WalkDirectory<1>>,
    pub id: FileId,
    /// The number of the root.
    pub root: u32,
    /// Its links, and its empty files that were not listed; `None` if it may hold anything else unlisted, or if not requested.
    pub others: Option<Vec<Other>>,
    /// Number of directories in it that were to be visited, too.
    pub children: u64,
}

/// The name of a symbolic link, and its target; or the name of an empty file.
pub(crate) type Other = (Vec<u8>, Option<Vec<u8>>);

/// What could not be listed, and why.
pub(crate) type Unlisted = (PathBuf, String);

/// The reason reported for an entry that was listed and no longer exists.
pub(crate) const GONE: &str = "moved or removed during the search";

/// What the listing threads share.
struct Shared<'a> {
    selection: &'a Selection,
    /// Whether one directory may be listed by two paths.
    has_several: bool,
    filter: &'a Filter,
    /// Whether directories are returned, too.
    with_directories: bool,
    watch: &'a dyn JobWatch,
    threads: usize,
    listed: AtomicU64,
    limit: &'a Arc<Limit<1>>,
    queue: WorkQueue<Queue<'a>>,
}

/// A directory that is to be listed.
struct Waiting<'a> {
    directory: Arc<WalkDirectory<1>>,
    root: &'a Root,
    /// Number of directories above it, up to the root.
    above: usize,
    /// Its identity unless something is mounted on it: the device of its parent, and the inode listed there.
    listed: Option<FileId>,
    /// Whether it was opened before.
    is_open: bool,
    ignored: Option<Arc<Ignored>>,
}

#[derive(Default)]
struct Queue<'a> {
    /// Directories that are to be listed.
    waiting: Vec<Waiting<'a>>,
    /// Mount points and links to directories, by path. Directories below them may have another path, too. They are entered last,
    /// one at a time, so that every search reports the same path.
    later: BTreeMap<PathBuf, Waiting<'a>>,
    /// Directories that were listed: a bind mount shows one in two places.
    listed: HashSet<FileId>,
    /// Paths of listed directories that inode numbers do not identify.
    places: HashSet<PathBuf>,
    mounts: SeenMounts,
    /// What is known of the file systems, by their devices.
    systems: HashMap<u64, System>,
}

/// What was found.
#[derive(Default)]
pub(crate) struct WalkFound {
    pub files: Files,
    pub left: Left,
    /// Directories that are not entered by default.
    pub left_out: Vec<PathBuf>,
    pub failures: Vec<Unlisted>,
    /// Entries that disappeared during the listing.
    pub gone: Vec<Unlisted>,
    /// Listed directories, if requested.
    pub directories: Vec<Visited>,
}

impl Files {
    /// Lists all wanted files, and reports their number so far as progress.
    pub fn list(
        selection: &Selection,
        filter: &Filter,
        with_directories: bool,
        plan: &BatchPlan,
        watch: &dyn JobWatch,
    ) -> WalkFound {
        let limit = Limit::new(plan.open_directories);
        let mut found = WalkFound::default();
        let mut queue = Queue::default();
        let has_several = selection.has_several();
        // References come first: what is in them is not listed again.
        for selection in selection.references().into_iter().chain([selection]) {
            let shared = Shared {
                selection,
                has_several,
                filter,
                with_directories,
                watch,
                threads: plan.threads,
                listed: AtomicU64::new(found.files.len().into()),
                limit: &limit,
                queue: WorkQueue::new(queue),
            };
            shared.begin(&mut found);
            let parts = in_threads(plan.threads, || shared.work());
            for part in parts {
                found.add(part);
            }
            queue = shared.queue.into_own();
        }
        found
    }
}

impl WalkFound {
    fn add(&mut self, other: Self) {
        self.files.add(other.files);
        self.left.add(&other.left);
        self.left_out.extend(other.left_out);
        self.failures.extend(other.failures);
        self.gone.extend(other.gone);
        self.directories.extend(other.directories);
    }

    fn failed(&mut self, path: PathBuf, action: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            self.gone.push((path, GONE.to_owned()));
        } else {
            self.failures.push((path, format!("cannot {action}: {error}")));
        }
    }
}

impl<'a> Shared<'a> {
    /// Queues the roots that are directories, and takes those that are files.
    fn begin(&self, found: &mut WalkFound) {
        let mut here = None;
        for root in self.selection.roots().iter().chain(self.selection.links()) {
            let result = match &root.refused {
                Some(reason) => {
                    found.failures.push((root.path.clone(), reason.clone()));
                    continue;
                }
                None if root.is_directory => self.begin_below(root),
                None if self.is_in_reference(&root.path) => continue,
                None => self.add_named(root, &mut here, found),
            };
            if let Err((action, error)) = result {
                found.failed(root.path.clone(), action, &error);
            }
        }
    }

    fn begin_below(&self, root: &'a Root) -> Result<(), IoFailure> {
        let opened = open_root(&root.path).map_err(|error| ("open", error))?;
        root.require_same(&StatFacts::of(&opened).map_err(|error| ("stat", error.into()))?)?;
        self.queue.lock().own.waiting.push(Waiting {
            directory: WalkDirectory::root([opened], &root.path, self.limit, ()),
            root,
            above: 0,
            listed: None,
            is_open: false,
            ignored: None,
        });
        Ok(())
    }

    /// Whether a file is a reference, or in a directory of one.
    fn is_in_reference(&self, path: &Path) -> bool {
        let Some(references) = self.selection.references() else {
            return false;
        };
        let place = place(path);
        let directory = place.parent().unwrap_or(&place);
        let id = fs::metadata(directory).map(|metadata| FileId::of(&metadata));
        let queue = &self.queue.lock().own;
        references.is_at(&place) || queue.places.contains(directory) || id.is_ok_and(|id| queue.listed.contains(&id))
    }

    /// Adds a file that was given as a path; `here` is the working directory.
    fn add_named(
        &self,
        root: &Root,
        here: &mut Option<Arc<WalkDirectory<1>>>,
        found: &mut WalkFound,
    ) -> Result<(), IoFailure> {
        let facts = FileAt::named(&root.path).facts()?;
        root.require_same(&facts)?;
        let entry = Named {
            name: Path::new(root.path.file_name().unwrap_or_default()),
            path: &|| root.path.clone(),
        };
        if !self.filter.wants(&entry, &facts) {
            return Ok(());
        }
        let directory = if let Some(here) = here {
            here
        } else {
            let opened = open_root(Path::new(".")).map_err(|error| ("open", error))?;
            here.insert(WalkDirectory::root([opened], Path::new(""), self.limit, ()))
        };
        let place = found.files.add_place(FoundPlace {
            directory: Arc::clone(directory),
            root: root.number,
            is_followed: true,
            system: root.system,
            is_of_others: AtomicBool::new(false),
        });
        found.files.push(place, root.path.as_os_str().as_bytes(), &facts);
        Ok(())
    }

    fn work(&self) -> WalkFound {
        let mut found = WalkFound::default();
        let _unwinding = Unwinding(self);
        let take = |queue: &mut Queue<'a>, at_work| {
            let mut next = queue.waiting.pop();
            if next.is_none() && at_work == 0 {
                next = queue.later.pop_first().map(|(_, later)| later);
            }
            match next {
                Some(next) => Taken::Work(next),
                None if at_work == 0 => Taken::End,
                None => Taken::Nothing,
            }
        };
        while let Some(next) = self.queue.next(self.watch.stop(), take) {
            let before = found.files.len();
            let children = self.list(next, &mut found);
            let new: u64 = (found.files.len() - before).into();
            let listed = self.listed.fetch_add(new, Ordering::Relaxed) + new;
            let progress = JobProgress::of_entries(JobPhase::Listing, listed, None);
            self.watch.progress(&progress);
            self.queue.end_work(|queue, at_work| {
                let count = children.len();
                queue.waiting.extend(children);
                // This thread takes one of them. Waking all others for each directory would take longer than listing it.
                if at_work == 0 && queue.waiting.is_empty() {
                    ALL
                } else {
                    count.saturating_sub(1)
                }
            });
        }
        found
    }

    /// Adds the files of a directory, and returns its subdirectories.
    fn list(&self, next: Waiting<'a>, found: &mut WalkFound) -> Vec<Waiting<'a>> {
        let directory = Arc::clone(&next.directory);
        let (handles, facts) = match opened(&next) {
            Ok(opened) => opened,
            Err((action, error)) => {
                found.failed(directory.path_of(b""), action, &error);
                return Vec::new();
            }
        };
        let [handle] = handles.borrowed();
        if next.listed.is_some_and(|listed| listed != facts.id()) && is_mount_root(handle) {
            let path = directory.path_of(b"");
            let later = Waiting {
                listed: None,
                is_open: true,
                ..next
            };
            self.queue.lock().own.later.insert(path, later);
            return Vec::new();
        }
        let mut children = Vec::new();
        if let Some(system) = self.enters(&next, &facts, handle, found) {
            let mut entries = Listing::default();
            let listed = entries.add_all(handle);
            entries.sort_by_inode();
            let mut sorter = Sorter {
                shared: self,
                next: &next,
                handle,
                device: facts.device,
                system,
                ignored: next.ignored.clone(),
                places: [None; 2],
                others: (self.with_directories && listed.is_ok()).then(Vec::new),
                children: Vec::new(),
                found,
            };
            sorter.sort_out(&entries);
            let others = sorter.others;
            children = sorter.children;
            if self.with_directories {
                found.directories.push(Visited {
                    directory: Arc::clone(&directory),
                    id: facts.id(),
                    root: next.root.number,
                    others,
                    children: children.len() as u64,
                });
            }
            if let Err(error) = listed {
                found.failed(directory.path_of(b""), "list", &error);
            }
        }
        directory.release(1);
        children
    }

    /// The file system of a directory to list; `None` if the directory is skipped.
    fn enters(
        &self,
        next: &Waiting<'_>,
        facts: &StatFacts,
        directory: BorrowedFd<'_>,
        found: &mut WalkFound,
    ) -> Option<System> {
        if facts.device != next.root.id.device && !self.selection.other_file_systems {
            found.left.other_file_systems += 1;
            return None;
        }
        let system = self.system(facts.device, directory);
        let is_below = next.above > 0;
        // Its files report wrong sizes.
        if system.is_pseudo {
            found.left.other_file_systems += 1;
            return None;
        }
        if !self.filter.everything && is_below && is_read_only_snapshot(directory, facts, system) {
            found.left_out.push(next.directory.path_of(b""));
            return None;
        }
        let is_listed = if system.inodes_identify {
            // A directory that was itself given as a path is listed under that path.
            if is_below && self.selection.contains(facts.id()) {
                return None;
            }
            !self.queue.lock().own.listed.insert(facts.id())
        } else if next.directory.is_link() {
            found.left.links += 1;
            return None;
        } else if is_below && self.selection.is_mounted_at_another(directory, facts) {
            return None;
        } else {
            let place = self
                .has_several
                .then(|| place_of(directory, || next.directory.path_of(b"")));
            if is_below && place.as_ref().is_some_and(|place| self.selection.is_at(place)) {
                return None;
            }
            let queue = &mut self.queue.lock().own;
            queue.mounts.add(directory, facts) || place.is_some_and(|place| !queue.places.insert(place))
        };
        found.left.repeated += u64::from(is_listed);
        (!is_listed).then_some(system)
    }

    /// The file system of a device, read from a descriptor that is open on it.
    fn system(&self, device: u64, open: BorrowedFd<'_>) -> System {
        let known = self.queue.lock().own.systems.get(&device).copied();
        known.unwrap_or_else(|| {
            let system = file_system_of(open).map_or_else(|_| System::default(), |found| System::of(&found));
            self.queue.lock().own.systems.insert(device, system);
            system
        })
    }
}

/// Opens a directory, through those above it if they are closed.
fn opened(next: &Waiting<'_>) -> Result<(Arc<Handles<1>>, StatFacts), IoFailure> {
    if next.is_open {
        let handles = next.directory.handles().map_err(|(_, error)| ("open again", error))?;
        let facts = StatFacts::of(handles.borrowed()[0]).map_err(|error| ("stat", error.into()))?;
        return Ok((handles, facts));
    }
    let mut failure = None;
    let opened = next
        .directory
        .open(&mut |_, action, error| failure = Some((action, error)));
    let opened = opened.map(|(handles, [facts])| (handles, facts));
    opened.ok_or_else(|| failure.unwrap_or(("open", Errno::BADF.into())))
}

/// Lets the other threads end if one panics.
struct Unwinding<'s, 'a>(&'s Shared<'a>);

impl Drop for Unwinding<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.end_work(|queue, _| {
                queue.waiting.clear();
                queue.later.clear();
                ALL
            });
        }
    }
}

/// The inode of the root of a subvolume of btrfs.
const SUBVOLUME_INODE: u64 = 256;

/// Whether a directory is a read-only btrfs snapshot on a file system that is mounted read-write.
fn is_read_only_snapshot(directory: BorrowedFd<'_>, facts: &StatFacts, system: System) -> bool {
    let is_subvolume = system.is_btrfs && facts.inode == SUBVOLUME_INODE;
    let is_refused = || accessat(directory, c".", Access::WRITE_OK, AtFlags::empty()) == Err(Errno::ROFS);
    is_subvolume && is_refused() && file_system_of(directory).is_ok_and(|found| !found.read_only)
}
