//! Updating a new file that takes the name of the old one: whoever opens the name finds one or the other, whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Support};

use super::attributes;
use super::batch::Updates;
use super::commit::{Commit, Updated, fill, lock, prepare, with_protection, written};
use super::journal::{beside, folder_of, refuse_left, sync_folder};
use super::target::{Others, Target};
use super::watch::{Step, StepKind, Watch};
use crate::error::{Error, Result};
use crate::transfer::{Destination, Side, require_regular};

pub(super) fn replace(path: &Path, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    let found = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    require_regular(path, &found)?;
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let old = opened.map_err(|error| with_protection(path, Error::system(path, "opening it for writing", error)))?;
    lock(&old, path)?;
    refuse_left(path)?;
    let before = old
        .metadata()
        .map_err(|error| Error::system(path, "looking at it", error))?;
    if before.nlink() > 1 {
        return Err(Error::refused(
            path,
            "it has several names, and replacing it would leave the old file under the others; update it in place or \
             through a journal",
        ));
    }
    let new_path = beside(path, "new");
    let new = Unfinished::make(&new_path, watch)?;
    // Who opens the file meanwhile waits until the new one has its name, or is seen below to have changed it.
    let _ = sys::take_write_lease(&old);
    copy(&old, &new.file, &new_path)?;
    let done = update(&new_path, before.len(), updates, commit, watch)?;
    attributes::keep(&old, &new.file, path)?;
    sync(&new.file, &new_path, watch)?;
    let now = old
        .metadata()
        .map_err(|error| Error::system(path, "looking at it", error))?;
    if (now.len(), now.mtime(), now.mtime_nsec()) != (before.len(), before.mtime(), before.mtime_nsec()) {
        return Err(Error::refused(
            path,
            "others wrote to it meanwhile; it is as they left it",
        ));
    }
    watch
        .before(&Step::of(StepKind::Rename, path))
        .and_then(|()| fs::rename(&new_path, path))
        .map_err(|error| Error::system(path, "giving its name to the new file", error))?;
    new.keep();
    sync_folder(path, watch)?;
    Ok(done)
}

fn update(path: &Path, bytes_before: u64, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    let mut mechanism = prepare(&commit.method, updates.end())?;
    let side = Side::open_target(
        path,
        &commit.method,
        Destination::Overwrite,
        updates.end().max(bytes_before),
    )?;
    let target = Target::new(side, updates, watch, Others::Nobody);
    fill(&mut *mechanism, &target, bytes_before, false)?;
    Ok(Updated {
        calls: target.side.calls(),
        requested_bytes: updates.requested_bytes(),
        ..written(&target)
    })
}

/// Shares the blocks where the file system can, and copies them elsewhere.
fn copy(from: &File, to: &File, path: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::system(path, "copying the file to it", error);
    match sys::clone_file(from, to).map_err(failed)? {
        Support::Available(()) => Ok(()),
        Support::Unavailable(_) => {
            let (mut source, mut target) = (from, to);
            io::copy(&mut source, &mut target).map(drop).map_err(failed)
        }
    }
}

fn sync(file: &File, path: &Path, watch: &dyn Watch) -> Result<()> {
    watch
        .before(&Step::of(StepKind::Sync, path))
        .and_then(|()| sys::sync(file))
        .map_err(|error| Error::system(path, "fsync", error))
}

/// A new file that is removed unless it is kept.
struct Unfinished {
    file: File,
    path: PathBuf,
    is_kept: std::cell::Cell<bool>,
}

impl Unfinished {
    /// Makes the file. One of that name is left from an update that was killed: nobody else is at it while the old file is
    /// locked.
    fn make(path: &Path, watch: &dyn Watch) -> Result<Self> {
        let failed = |error| Error::system(path, "making it", error);
        watch.before(&Step::of(StepKind::Make, path)).map_err(failed)?;
        if let Err(error) = fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(failed(error));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path);
        // A folder that cannot be brought to the device is found before anything is done.
        folder_of(path).map_err(failed)?;
        Ok(Self {
            file: file.map_err(failed)?,
            path: path.to_owned(),
            is_kept: false.into(),
        })
    }

    fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_kept.get()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "what was not finished could not be removed");
        }
    }
}
