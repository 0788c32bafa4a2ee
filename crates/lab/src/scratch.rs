//! The lab's own folder on a storage: made, owned by a lock, removed on any exit, and found again after a kill.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How the folders are named: whoever finds one knows what it is.
const PREFIX: &str = "seekless-scratch-";
/// The file whose lock says that somebody owns the folder. The system lets go of it when its owner dies.
const LOCK: &str = "owner.lock";

/// A folder of ours, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `parent`, after removing those that no live process owns any more.
    ///
    /// # Errors
    /// The system's, where nothing can be made in `parent`.
    pub fn new(parent: &Path) -> io::Result<Self> {
        remove_stale(parent)?;
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
            // Another start may take a folder for stale between these two steps; then there is nothing to own here.
            if let Some(lock) = own(&folder)? {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "the scratch folder could not be removed");
        }
    }
}

/// Makes and takes the lock of a folder; `None` where the folder has gone or is somebody else's meanwhile.
fn own(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = match File::create(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let still_there = fs::metadata(&path).is_ok_and(|found| lock.metadata().is_ok_and(|own| found.ino() == own.ino()));
    Ok(still_there.then_some(lock))
}

/// Removes folders of ours in `parent` that no live process owns.
fn remove_stale(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)?.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_if_stale(&entry.path());
        }
    }
    Ok(())
}

fn remove_if_stale(folder: &Path) {
    let mine = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| Some(found.uid()) == own_uid(folder));
    let lock = folder.join(LOCK);
    let Ok(file) = File::options().write(true).open(&lock) else {
        // Just made, or emptied by a removal that was interrupted: only an empty folder goes.
        let _ = fs::remove_dir(folder);
        return;
    };
    if !mine(&lock) || file.try_lock().is_err() {
        return;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name() != LOCK) {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_file(&lock);
    match fs::remove_dir(folder) {
        Ok(()) => tracing::info!(folder = %folder.display(), "removed what a killed run left behind"),
        Err(error) => tracing::warn!(folder = %folder.display(), %error, "a stale folder could not be removed"),
    }
}

/// The owner of the folder that `folder` lies in, as far as removing is concerned: the folder's own.
fn own_uid(folder: &Path) -> Option<u32> {
    fs::symlink_metadata(folder).ok().map(|found| found.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn a_folder_lives_as_long_as_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        fs::write(scratch.path().join("file"), b"bytes").unwrap();
        let second = Scratch::new(parent.path()).unwrap();
        assert!(
            scratch.path().join("file").exists(),
            "a live owner's folder was removed"
        );
        drop((scratch, second));
        assert_eq!(folders(parent.path()), 0);
    }

    #[test]
    fn what_a_killed_run_left_behind_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(format!("{PREFIX}stale"));
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join(LOCK), b"").unwrap();
        fs::write(stale.join("source"), b"bytes").unwrap();
        let unowned = parent.path().join(format!("{PREFIX}unowned"));
        fs::create_dir(&unowned).unwrap();
        fs::write(unowned.join("precious"), b"no lock beside it: not a folder of ours").unwrap();
        fs::write(parent.path().join(format!("{PREFIX}file")), b"no folder").unwrap();
        drop(Scratch::new(parent.path()).unwrap());
        assert!(!stale.exists());
        assert!(unowned.join("precious").exists());
        assert_eq!(folders(parent.path()), 2);
    }
}
