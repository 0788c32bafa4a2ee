//! Copying directories: making each, listing its source, and giving it what its source has when all in it is done.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, RawMode, SeekFrom, fchmod, mkdirat, unlinkat};
use rustix::io::Errno;
use seekless::files::{FileId, FileRef, Own};
use seekless::walk::{Handles, Listing, StatFacts, is_sure};
use seekless_sys::{self as sys, effective_user};

use super::copying::{Copying, Worker};
use super::file::remove_unfinished;
use super::given::SourceFacts;
use super::pair::{At, Pair, copy_path, source_path};
use super::queue::{BATCH, CopyBatch, CopyJob, LISTED, ListedEntries, lock};
use super::{CpDurability, FollowedLinks};

impl Copying<'_> {
    /// Makes the copy of a directory.
    pub fn enter(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let Some(parent) = directory.parent().cloned() else {
            return;
        };
        let made = match self.handles(&parent, worker) {
            None => None,
            Some(_) if self.options.dry_run => Some(true),
            Some(handles) => match mkdirat(handles.borrowed()[1], directory.name(), Mode::RWXU) {
                Ok(()) => Some(true),
                Err(Errno::EXIST) => Some(false),
                Err(error) => {
                    self.fail(worker, copy_path(directory), "create the directory", &error.into());
                    None
                }
            },
        };
        let Some(is_new) = made else {
            parent.release(1);
            self.finish(&parent, 1, worker);
            return;
        };
        directory.own.is_new.store(is_new, Ordering::Relaxed);
        let mut failures = Vec::new();
        if let Some((handles, facts)) = directory.open(&mut |tree, action, error| failures.push((tree, action, error)))
        {
            return self.entered(directory, &handles, &facts, worker);
        }
        for (tree, action, error) in failures {
            let action = if tree == 1 && !is_new {
                "use it as a directory"
            } else {
                action
            };
            self.fail(worker, [source_path, copy_path][tree](directory), action, &error);
        }
        if is_new && let Ok(handles) = parent.handles() {
            let _ = unlinkat(handles.borrowed()[1], directory.name(), AtFlags::REMOVEDIR);
        }
        self.finish(&parent, 1, worker);
    }

    /// Lists a directory that was opened with its copy, unless that would not end.
    pub fn entered(&self, directory: &Arc<Pair>, handles: &Handles<2>, facts: &[StatFacts; 2], worker: &mut Worker) {
        let [source, copy] = handles.borrowed();
        // A link that leads back is told even where inode numbers are not sure: it would have no end.
        let is =
            |other: FileId| other == facts[0].id() && (is_sure(source) || self.options.followed == FollowedLinks::All);
        let above = std::iter::successors(directory.parent(), |above| above.parent());
        let mut above = above.filter_map(|above| above.own.origin.get());
        let is_new = directory.own.is_new.load(Ordering::Relaxed);
        // FAT gives each file the owner of its directory.
        let owner_above = directory.parent().and_then(|above| above.handles().ok());
        let owner_above = owner_above.and_then(|above| StatFacts::of(above.borrowed()[1]).ok());
        let is_ours =
            facts[1].owner == effective_user() || owner_above.is_none_or(|above| above.owner == facts[1].owner);
        let is_boundary = self.options.one_file_system
            && directory.parent().is_some()
            && above
                .clone()
                .next()
                .is_some_and(|above| above.state.device != facts[0].device);
        let refused = if facts[0].id() == facts[1].id() && !self.options.dry_run {
            Some("source and target are the same directory")
        } else if above.any(|above| is(above.state.id())) {
            Some("it leads back to one of its parent directories")
        } else if lock(&self.targets).iter().any(|target| is(*target)) {
            Some("it is the target of this copy")
        } else if is_new && !is_ours {
            Some("another process replaced its new copy")
        } else {
            None
        };
        if let Some(reason) = refused {
            let path = source_path(directory);
            self.fail(worker, path, "copy the directory", &io::Error::other(reason));
            self.leave(directory, worker);
            return;
        }
        match SourceFacts::of_directory(source, self.options) {
            Ok(origin) => {
                // What is put into it must not be open to more users than in the source, not even before it is complete.
                let open = facts[1].mode & !origin.mode() & 0o077;
                if self.options.preserved.mode && !is_new && open != 0 && !self.options.dry_run {
                    let mode = Mode::from_raw_mode((facts[1].mode & !open) as RawMode);
                    if let Err(error) = fchmod(copy, mode) {
                        let path = copy_path(directory);
                        self.fail(worker, path, "restrict the directory's permissions", &error.into());
                    }
                }
                drop(directory.own.origin.set(origin));
            }
            Err(error) => self.fail(worker, source_path(directory), "read the attributes", &error),
        }
        worker.done.directories += 1;
        if directory.parent().is_none() {
            lock(&self.targets).extend(StatFacts::of(copy).map(|facts| facts.id()));
        }
        if self.watch.wants_names() {
            self.watch.copied(&source_path(directory), &copy_path(directory));
        }
        let old = self.journal.as_ref().filter(|_| !is_new);
        let removed = old.map(|journal| remove_unfinished(source, copy, journal));
        if let Some(Err(error)) = removed {
            self.fail(
                worker,
                copy_path(directory),
                "remove temporary files of an interrupted copy",
                &error,
            );
        }
        if is_boundary {
            self.finish(directory, 1, worker);
        } else {
            self.push([CopyJob::List(Arc::clone(directory), 0)]);
        }
    }

    /// Lists some entries of a directory, and queues them.
    pub fn list(&self, directory: &Arc<Pair>, from: u64, worker: &mut Worker) {
        let Some(handles) = self.handles(directory, worker) else {
            self.finish(directory, 1, worker);
            return;
        };
        let source = handles.borrowed()[0];
        let mut listing = Listing::default();
        let mut list = || -> io::Result<Option<u64>> {
            // One that was opened again is at its start.
            if from > 0 && rustix::fs::tell(source) != Ok(from) {
                rustix::fs::seek(source, SeekFrom::Start(from))?;
            }
            loop {
                match listing.add_some(source, |_| true)? {
                    Some(_) if listing.entries().len() < LISTED => {}
                    rest => return Ok(rest),
                }
            }
        };
        let rest = match list() {
            // It was removed, and so was all in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.fail(worker, source_path(directory), "list the directory", &error);
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
        jobs.extend(
            directories.map(|entry| CopyJob::Enter(directory.child(listing.c_str(entry), directory.own.below()))),
        );
        let children = jobs.len() - usize::from(rest.is_some());
        let (count, has_files) = (entries.len(), entries.len() > children);
        let listed = Arc::new(ListedEntries {
            directory: Arc::clone(directory),
            listing,
        });
        self.look_at_device(&listed);
        let starts = (0..if has_files { count } else { 0 }).step_by(BATCH);
        let batches = starts.map(|start| CopyBatch {
            listed: Arc::clone(&listed),
            range: start..count.min(start + BATCH),
            fetched: HashSet::new(),
        });
        self.push_listed(jobs, batches);
        if rest.is_none() {
            self.finish(directory, 1, worker);
        }
    }

    /// Enters a directory that a link leads to.
    pub fn enter_linked(&self, at: &At<'_>) {
        self.push([CopyJob::Enter(
            at.directory.linked_child(at.from, at.directory.own.below()),
        )]);
    }

    /// Counts finished entries of a directory. After the last one, its copy becomes like it.
    pub fn finish(&self, directory: &Arc<Pair>, entries: usize, worker: &mut Worker) {
        if entries > 0 && directory.own.unfinished.fetch_sub(entries, Ordering::AcqRel) == entries {
            self.complete(directory, worker);
            self.leave(directory, worker);
        }
    }

    /// Gives up a directory, which is an entry of the one above.
    fn leave(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let mut left = directory;
        loop {
            left.release(1);
            let Some(parent) = left.parent() else { return };
            if parent.own.unfinished.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            self.complete(parent, worker);
            left = parent;
        }
    }

    /// Gives the copy of a directory its owner, mode, attributes and times.
    fn complete(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let Some(origin) = directory.own.origin.get().filter(|_| !self.options.dry_run) else {
            return;
        };
        let Some(handles) = self.handles(directory, worker) else {
            return;
        };
        if !self.name_staged(directory, worker) {
            return;
        }
        let is_new = directory.own.is_new.load(Ordering::Relaxed);
        if let Some(journal) = self.journal.as_ref().filter(|_| !is_new && !self.stop.is_stopped()) {
            journal.remove_pieces(handles.borrowed()[1]);
        }
        let path = || copy_path(directory);
        let copy = match handles.borrowed()[1].try_clone_to_owned() {
            Ok(copy) => File::from(copy),
            Err(error) => return self.fail(worker, path(), "reopen the directory", &error),
        };
        let own = match StatFacts::of(&copy) {
            Ok(own) => Own::of(&own),
            Err(error) => return self.fail(worker, path(), "stat", &error.into()),
        };
        if let Err(error) = self.give(origin, FileRef::Open(copy.as_fd()), (&own, is_new), path, worker) {
            self.fail(worker, path(), "stat", &error);
        }
        if self.options.durability == CpDurability::Each
            && let Err(error) = sys::sync(&copy)
        {
            self.fail(worker, path(), "sync the directory", &error);
        }
    }

    /// The open directories, or a failure.
    pub fn handles(&self, directory: &Arc<Pair>, worker: &mut Worker) -> Option<Arc<Handles<2>>> {
        let opened = directory.handles();
        let failed = |(tree, error): (usize, io::Error)| {
            self.fail(
                worker,
                [source_path, copy_path][tree](directory),
                "reopen the directory",
                &error,
            );
        };
        opened.map_err(failed).ok()
    }
}
