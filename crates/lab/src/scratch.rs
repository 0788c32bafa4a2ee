//! The lab's own folder on a storage: made, owned by a lock, removed on any exit, and found again after a kill.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

/// How the folders are named: whoever finds one knows what it is.
const PREFIX: &str = "seekless-scratch-";
/// The file whose lock says that somebody owns the folder. The system lets go of it when its owner dies.
const LOCK: &str = "owner.lock";

/// How often removing a folder that seems not to be empty is tried again, and how long apart.
const REMOVALS: u32 = 50;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// A folder of ours, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    /// Present until the folder goes.
    lock: Option<File>,
}

impl Scratch {
    /// Makes a folder in `parent`, after removing those that no live process owns any more.
    ///
    /// # Errors
    /// The system's, where nothing can be made in `parent`.
    pub fn new(parent: &Path) -> io::Result<Self> {
        remove_stale(parent)?;
        loop {
            let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            // Another start may take a folder for stale between these two steps; then there is nothing to own here.
            if let Some(lock) = own(made.path())? {
                return Ok(Self {
                    folder: made.keep(),
                    lock: Some(lock),
                });
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
        let mut removed = fs::remove_dir_all(&self.folder);
        // FUSE keeps what was removed under another name for as long as somebody has it open, the lock above all, and
        // closes files a moment late.
        drop(self.lock.take());
        for _ in 0..REMOVALS {
            match &removed {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(PAUSE),
                _ => break,
            }
            removed = fs::remove_dir_all(&self.folder);
        }
        if let Err(error) = removed {
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

/// Removes a folder if it is ours and nobody owns it. All by one descriptor of the folder: who swaps the name for a link
/// meanwhile gets nothing removed elsewhere.
fn remove_if_stale(path: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(path, flags, Mode::empty()) else {
        return;
    };
    let is_mine = rustix::fs::fstat(&folder).is_ok_and(|found| found.st_uid == rustix::process::geteuid().as_raw());
    if !is_mine {
        return;
    }
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(lock) = rustix::fs::openat(&folder, LOCK, flags, Mode::empty()).map(File::from) else {
        // Just made, or emptied by a removal that was interrupted: only an empty folder goes.
        let _ = fs::remove_dir(path);
        return;
    };
    if lock.try_lock().is_err() {
        return;
    }
    let entries = rustix::fs::Dir::read_from(&folder).into_iter().flatten().flatten();
    for name in entries
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name.to_bytes() != LOCK.as_bytes())
    {
        // Fails for `.`, `..` and folders, which are not ours: then the folder stays.
        let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(&folder, LOCK, AtFlags::empty());
    match fs::remove_dir(path) {
        Ok(()) => tracing::info!(folder = %path.display(), "removed what a killed run left behind"),
        Err(error) => tracing::warn!(folder = %path.display(), %error, "a stale folder could not be removed"),
    }
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
