//! The lab's own directories on storages: made, owned by a lock, removed on any exit, and found again after a kill.
//!
//! Only the owner may enter a directory. Its creation and removal are relative to open directories, so that if others
//! rename it, nothing is written to or removed from their directories.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use seekless_engine::files::{StatFacts, WritableByOthers, with_new_name};
use seekless_sys::{self as sys, Access, Directory};

/// The prefix of the directories' names.
const PREFIX: &str = "seekless-scratch-";
/// The prefix of directories in it that are removed, too.
pub const TREE_PREFIX: &str = "tree-";
/// The file whose lock shows that a process owns the directory. The system releases it when the process ends.
const LOCK: &str = "owner.lock";
/// What that file contains. A directory of this name that somebody else made and filled has no such file.
const MARK: &str = "seekless made this directory for files that it removes\n";

/// How often removing a directory that seems not to be empty is tried again, and how long apart.
const REMOVALS: u32 = 50;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// The directories of this process and their paths, to be removed when a signal ends it.
static OWNED: Mutex<Vec<(PathBuf, Owned)>> = Mutex::new(Vec::new());

fn all_owned() -> MutexGuard<'static, Vec<(PathBuf, Owned)>> {
    sys::lock_mutex(&OWNED)
}

/// Removes all directories of this process. None is made while the result is held.
#[must_use]
pub fn remove_scratch() -> impl Sized {
    let mut all = all_owned();
    for (path, mut directory) in all.drain(..) {
        directory.remove_from(&path);
    }
    all
}

/// A directory of ours, removed with the files in it when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

/// A directory whose lock is held.
#[derive(Debug)]
struct Owned {
    parent: Directory,
    name: OsString,
    directory: Directory,
    /// Present until the directory goes.
    lock: Option<File>,
}

impl Scratch {
    /// Makes a directory in `parent`, after removing those that no live process owns any more.
    ///
    /// # Errors
    /// The system's, where nothing can be made in `parent`.
    pub fn new(parent: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(parent)?;
        remove_stale(&path)?;
        let mut all = all_owned();
        loop {
            let parent = Directory::open(&path)?;
            let (name, directory) = with_new_name(PREFIX, |name| parent.create_directory(name, 0o700))?;
            // Another start may remove the directory as stale before it is locked; then try again.
            let owned = own(&directory).inspect_err(|_| drop(remove_empty(&parent, &name, &directory)));
            if let Some(lock) = owned? {
                let owned = Owned {
                    parent,
                    name,
                    directory,
                    lock: Some(lock),
                };
                let path = owned.path(&path);
                all.push((path.clone(), owned));
                return Ok(Self { path });
            }
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut all = all_owned();
        if let Some(at) = all.iter().position(|(path, _)| *path == self.path) {
            let (path, mut directory) = all.swap_remove(at);
            directory.remove_from(&path);
        }
    }
}

impl Owned {
    /// A path to the directory. If others may rename a part of the path, it leads through the open directory (proc(5)).
    fn path(&self, parent: &Path) -> PathBuf {
        let through = PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.directory.as_fd().as_raw_fd()
        ));
        if parent.ancestors().any(others_may_rename_in) && through.exists() {
            through
        } else {
            parent.join(&self.name)
        }
    }

    fn remove_from(&mut self, path: &Path) {
        if let Err(error) = self.remove() {
            tracing::warn!(directory = %path.display(), %error, "cannot remove the test directory");
        }
    }

    /// Removes the files and trees in the directory, and the directory if it still has its name. If it contains another
    /// directory, both stay.
    fn remove(&mut self) -> io::Result<()> {
        for _ in 0..REMOVALS {
            match self.try_remove() {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => return removed,
            }
            // FUSE keeps removed files under another name while they are open, such as the lock, and closes files a
            // moment late.
            drop(self.lock.take());
            std::thread::sleep(PAUSE);
        }
        self.try_remove()
    }

    fn try_remove(&self) -> io::Result<()> {
        let mut names = self.directory.names()?;
        // The lock comes last, because a directory without it does not count as ours.
        names.sort_by_key(|name| name == LOCK);
        for name in names {
            // Fails for directories, which are ours only if they have the prefix.
            let removed = self.directory.remove_file(&name);
            if removed.is_err() && name.to_string_lossy().starts_with(TREE_PREFIX) {
                remove_tree(&self.directory, &name, TREE_DEPTH)?;
            }
        }
        remove_empty(&self.parent, &self.name, &self.directory)
    }
}

/// Directories below each other in a tree.
const TREE_DEPTH: u32 = 2;

/// Removes a directory of ours with the files and directories in it, no deeper than they were made.
fn remove_tree(parent: &Directory, name: &OsStr, depth: u32) -> io::Result<()> {
    let directory = parent.open_directory(name)?;
    for name in directory.names()? {
        if directory.remove_file(&name).is_err() && depth > 1 {
            remove_tree(&directory, &name, depth - 1)?;
        }
    }
    parent.remove_directory(name)
}

/// Removes a directory that is empty, if it still has its name.
fn remove_empty(parent: &Directory, name: &OsStr, directory: &Directory) -> io::Result<()> {
    if StatFacts::at(parent, name)?.is(&directory.metadata()?) {
        parent.remove_directory(name)
    } else {
        Err(io::Error::other("another directory has its name"))
    }
}

/// Whether another user than root and this one may rename entries of a directory.
fn others_may_rename_in(directory: &Path) -> bool {
    let exposed = Directory::open(directory).and_then(|open| {
        let found = open.metadata()?;
        WritableByOthers::of(directory, &open, &found)
    });
    !matches!(exposed, Ok(None))
}

/// Creates and takes the lock of a new directory; `None` if the directory was removed or replaced meanwhile.
fn own(directory: &Directory) -> io::Result<Option<File>> {
    let swapped = || io::Error::other("another process replaced the new directory");
    if !directory.names()?.is_empty() {
        return Err(swapped());
    }
    let mut lock = match directory.create_file(LOCK.as_ref(), 0o600) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if let Err(error) = lock.write_all(MARK.as_bytes()) {
        let _ = directory.remove_file(LOCK.as_ref());
        return Err(error);
    }
    let made = lock.metadata()?;
    // The owner is not compared with this user, because some file systems have one owner for all files.
    if made.uid() != directory.metadata()?.uid() {
        let _ = directory.remove_file(LOCK.as_ref());
        return Err(swapped());
    }
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let is_still_there = StatFacts::at(directory, LOCK).is_ok_and(|found| found.is(&made));
    Ok(is_still_there.then_some(lock))
}

/// Removes directories of ours in a directory that no live process owns.
fn remove_stale(path: &Path) -> io::Result<()> {
    let mut names = Directory::open(path)?.names()?;
    names.retain(|name| name.to_string_lossy().starts_with(PREFIX));
    for name in names {
        let directory = path.join(&name);
        let parent = Directory::open(path).ok();
        let Some(mut stale) = parent.and_then(|parent| stale(parent, name)) else {
            continue;
        };
        match stale.remove() {
            Ok(()) => tracing::info!(directory = %directory.display(), "removed what a killed run left behind"),
            Err(error) => {
                tracing::warn!(directory = %directory.display(), %error, "cannot remove a stale directory");
            }
        }
    }
    Ok(())
}

/// Takes the lock of a stale directory of ours; `None` if it is not ours or its lock is held.
fn stale(parent: Directory, name: OsString) -> Option<Owned> {
    let directory = parent.open_directory(&name).ok()?;
    let found = directory.metadata().ok()?;
    if found.uid() != sys::effective_user() {
        return None;
    }
    let Ok(mut lock) = directory.open_plain(LOCK.as_ref(), Access::Overwrite) else {
        // It was just made, or emptied by an interrupted removal: remove it only if it is empty.
        let _ = parent.remove_directory(&name);
        return None;
    };
    if !is_lock_of(&lock.metadata().ok()?, &found) {
        return None;
    }
    lock.try_lock().ok()?;
    let mut mark = String::new();
    let is_marked = lock.read_to_string(&mut mark).is_ok() && mark == MARK;
    // A run that was killed before it wrote the mark had created no other file.
    if !is_marked && directory.names().ok()?.len() > 1 {
        tracing::warn!(directory = %name.display(), "not removed: it holds files, and seekless did not write its owner.lock");
        return None;
    }
    Some(Owned {
        parent,
        name,
        directory,
        lock: Some(lock),
    })
}

/// Whether a file can be the lock of a directory, created by the directory's owner. On file systems without owners and
/// modes, both have the same.
fn is_lock_of(lock: &Metadata, directory: &Metadata) -> bool {
    let writers = |found: &Metadata| found.mode() & 0o022;
    lock.is_file()
        && lock.uid() == directory.uid()
        && lock.nlink() == 1
        && (writers(directory) == 0 || writers(lock) == writers(directory))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scratch() -> (tempfile::TempDir, Scratch) {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        (parent, scratch)
    }

    fn entries(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn scratch_is_for_its_owner_only_and_goes_with_the_value() {
        let (parent, scratch) = scratch();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(scratch.path()), 0o700);
        assert_eq!(mode(&scratch.path().join(LOCK)), 0o600);
        fs::write(scratch.path().join("file"), b"bytes").unwrap();
        let second = Scratch::new(parent.path()).unwrap();
        let is_there = scratch.path().join("file").exists();
        assert!(is_there, "a live owner's directory was removed");
        drop((scratch, second));
        assert_eq!(entries(parent.path()), 0);
    }

    #[test]
    fn scratch_that_was_swapped_for_another_is_not_emptied() {
        let [(parent, scratch), (_other, outer)] = [(); 2].map(|()| scratch());
        fs::write(scratch.path().join("file"), b"ours").unwrap();
        let moved = parent.path().join("moved");
        fs::rename(scratch.path(), &moved).unwrap();
        fs::create_dir(scratch.path()).unwrap();
        let precious = scratch.path().join("precious");
        fs::write(&precious, b"theirs").unwrap();
        drop(scratch);
        assert_eq!(fs::read(&precious).unwrap(), b"theirs");
        assert_eq!(entries(&moved), 0);
        let precious = outer.path().join("inner/precious");
        fs::create_dir(precious.parent().unwrap()).unwrap();
        fs::write(&precious, b"theirs").unwrap();
        drop(outer);
        assert_eq!(fs::read(&precious).unwrap(), b"theirs");
    }

    #[test]
    fn a_tree_goes_with_it_no_deeper_than_trees_are_made() {
        let parent = tempfile::tempdir().unwrap();
        let make = |below: &str| {
            let scratch = Scratch::new(parent.path()).unwrap();
            let directory = scratch.path().join("tree-one").join(below);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("00"), "x").unwrap();
            scratch.path().to_owned()
        };
        assert!(!make("0000").exists());
        assert!(make("0000/deeper").join("tree-one/0000/deeper/00").exists());
    }

    #[test]
    fn scratch_path_leads_through_its_open_directory_if_shared() {
        let parent = tempfile::tempdir().unwrap();
        fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        if !scratch.path().starts_with("/proc") {
            println!("skipped: there is no /proc here");
            return;
        }
        let shown = fs::read_dir(parent.path()).unwrap().next().unwrap().unwrap().path();
        let (moved, elsewhere) = (parent.path().join("moved"), tempfile::tempdir().unwrap());
        fs::rename(&shown, &moved).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &shown).unwrap();
        fs::write(scratch.path().join("file"), b"ours").unwrap();
        assert_eq!(fs::read(moved.join("file")).unwrap(), b"ours");
        drop(scratch);
        assert_eq!(entries(elsewhere.path()), 0);
        assert!(shown.is_symlink());
    }

    #[test]
    fn what_a_killed_run_left_behind_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let directory = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&directory).unwrap();
            for (file, bytes) in files {
                fs::write(directory.join(file), bytes).unwrap();
            }
            directory
        };
        let stale = make("stale", &[(LOCK, MARK), ("source", "bytes")]);
        let just_made = make("just-made", &[(LOCK, "")]);
        // The lock is not one of ours; or there is none.
        let alike = make("alike", &[(LOCK, ""), ("precious", "theirs")]);
        let unowned = make("unowned", &[("precious", "theirs")]);
        // Others may have filled it.
        let common = make("common", &[(LOCK, ""), ("precious", "theirs")]);
        for (path, mode) in [(&common, 0o777), (&common.join(LOCK), 0o600)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        fs::write(parent.path().join(format!("{PREFIX}file")), b"no directory").unwrap();
        drop(Scratch::new(parent.path()).unwrap());
        assert!(!stale.exists() && !just_made.exists());
        assert!(
            [unowned, alike, common]
                .iter()
                .all(|left| left.join("precious").exists())
        );
        assert_eq!(entries(parent.path()), 4);
    }
}
