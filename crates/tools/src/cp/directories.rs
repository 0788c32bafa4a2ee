//! Copying directories: making each, listing its source, and giving it what its source has when all in it is done.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, SeekFrom, mkdirat, unlinkat};
use rustix::io::Errno;
use seekless::files::{FileId, FileRef, FileState, Own};
use seekless::walk::{Handles, Listing, StatFacts, is_sure};
use seekless_sys as sys;

use super::copying::{Copying, Worker};
use super::file::Failed;
use super::given::SourceFacts;
use super::names::collision;
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
            Some(handles) => match make_directory(&At::of(&parent, handles.borrowed(), directory.name())) {
                Ok(is_new) => Some(is_new),
                Err((action, error)) => {
                    self.fail(worker, copy_path(directory), action, &error);
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
        self.unmake(directory);
        self.finish(&parent, 1, worker);
    }

    /// Removes the empty copy of a directory that cannot be copied.
    fn unmake(&self, directory: &Pair) {
        let is_made = directory.own.is_new.load(Ordering::Relaxed) && !self.options.dry_run;
        if let Some(Ok(above)) = directory.parent().filter(|_| is_made).map(|above| above.handles()) {
            let _ = unlinkat(above.borrowed()[1], directory.name(), AtFlags::REMOVEDIR);
        }
    }

    /// Lists a directory that was opened with its copy, unless that would not end.
    pub fn entered(&self, directory: &Arc<Pair>, handles: &Handles<2>, facts: &[StatFacts; 2], worker: &mut Worker) {
        let [source, copy] = handles.borrowed();
        // A link that leads back is told even where inode numbers are not sure: it would have no end.
        let is =
            |other: FileId| other == facts[0].id() && (is_sure(source) || self.options.followed == FollowedLinks::All);
        let above = std::iter::successors(directory.parent(), |above| above.parent());
        let mut above = above.filter_map(|above| above.own.origin.get());
        let own = &directory.own;
        let is_new = own.is_new.load(Ordering::Relaxed);
        // Nobody else can enter a staged tree.
        let made_in = directory
            .parent()
            .filter(|_| is_new && !own.is_staged && !self.options.dry_run);
        let is_replaced = made_in.is_some_and(|above| {
            let above = above.handles();
            !above.is_ok_and(|above| sys::is_just_made(copy, above.borrowed()[1]).unwrap_or(false))
        });
        let is_boundary = self.options.one_file_system
            && directory.parent().is_some()
            && above
                .clone()
                .next()
                .is_some_and(|above| above.state.device != facts[0].device);
        let refused = if facts[0].id() == facts[1].id() && !self.options.dry_run {
            Some("source and target are the same directory")
        } else if lock(&self.entered).contains(&facts[0].id()) && above.any(|above| is(above.state.id())) {
            Some("it leads back to one of its parent directories")
        } else if lock(&self.targets).iter().any(|target| is(*target)) {
            Some("it is the target of this copy")
        } else if is_replaced {
            Some("another process replaced its new copy")
        } else {
            None
        };
        if let Some(reason) = refused {
            let path = source_path(directory);
            self.fail(worker, path, "copy the directory", &io::Error::other(reason));
            if !is_replaced {
                self.unmake(directory);
            }
            self.leave(directory, worker);
            return;
        }
        match SourceFacts::of_directory(source, self.options) {
            Ok(origin) => {
                // What is put into it must not be open to more users than in the source, not even before it is complete.
                if self.options.preserved.mode
                    && !is_new
                    && !self.options.dry_run
                    && let Err(error) = origin.restrict(copy, &facts[1], self.options)
                {
                    let path = copy_path(directory);
                    self.fail(worker, path, "restrict the directory's permissions", &error);
                }
                lock(&self.entered).insert(origin.state.id());
                self.note_directory(directory, source, &origin.state);
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
        if !is_new && let Err(error) = own.names.list([source, copy], self.journal.as_ref()) {
            self.fail(worker, copy_path(directory), "list the directory", &error);
        }
        if is_boundary {
            self.finish(directory, 1, worker);
        } else {
            self.push([CopyJob::List(Arc::clone(directory), 0)]);
        }
    }

    /// Finds out what the journal says of a directory, or notes that it was made.
    fn note_directory(&self, directory: &Pair, source: BorrowedFd<'_>, state: &FileState) {
        let Some(journal) = &self.journal else { return };
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

    /// Enters a directory that a link leads to if `is_followed`.
    pub fn enter_at(&self, at: &At<'_>, is_followed: bool) {
        let below = at.directory.own.below(at.from);
        self.push([CopyJob::Enter(if is_followed {
            at.directory.linked_child(at.from, below)
        } else {
            at.directory.child(at.from, below)
        })]);
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
    pub fn complete(&self, directory: &Arc<Pair>, worker: &mut Worker) {
        let Some(origin) = directory.own.origin.get() else {
            return;
        };
        lock(&self.entered).remove(&origin.state.id());
        if self.options.dry_run {
            return;
        }
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

/// Makes the copy of a directory. Returns false if the target had it before.
fn make_directory(at: &At<'_>) -> Result<bool, Failed> {
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
