//! Updating a new file that takes the name of the old one: whoever opens the name finds one or the other, whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Support};

use super::attributes;
use super::commit::{Commit, Updated, fill, harden, lock, with_protection, written};
use super::facts::data_bytes;
use super::journal::{beside, folder_of, refuse_left, sync_folder};
use super::resolved::Updates;
use super::target::{Going, Others};
use super::updater::Updater;
use super::watch::{Step, StepKind, Watch};
use super::writes::reach;
use crate::copy::Copier;
use crate::error::{Error, Result};
use crate::method::Method;
use crate::transfer::{Destination, Side, require_regular};

pub(super) fn replace(path: &Path, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    let found = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    require_regular(path, &found)?;
    // Whoever may not write to it may not replace it either; with it open for writing there would be no lease.
    let opened = OpenOptions::new().write(true).open(path);
    drop(opened.map_err(|error| with_protection(path, Error::system(path, "opening it for writing", error)))?);
    let old = File::open(path).map_err(|error| Error::system(path, "opening it", error))?;
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
    let is_held = keep_writers_out(&old, path, commit)?;
    let copied_bytes = copy((&old, path), (&new.file, &new_path))?;
    let done = update(&new_path, before.len(), updates, commit, watch)?;
    attributes::keep(&old, &new.file, path)?;
    sync(&new.file, &new_path, watch)?;
    let now = old
        .metadata()
        .map_err(|error| Error::system(path, "looking at it", error))?;
    let is_changed = (now.len(), now.mtime(), now.mtime_nsec()) != (before.len(), before.mtime(), before.mtime_nsec());
    if is_held && !sys::holds_read_lease(&old) {
        return Err(Error::refused(
            path,
            "others want to write to it; it is as it was, try again",
        ));
    }
    if is_changed {
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
    Ok(Updated { copied_bytes, ..done })
}

/// Keeps out those who would write to the old file while the new one is made of it: what they write would be lost. Who has
/// it open for reading goes on with the old one. Whether there is a lease that tells of them; where the system has none,
/// only times and size tell that the file was written to.
fn keep_writers_out(old: &File, path: &Path, commit: &Commit) -> Result<bool> {
    let reason = match sys::take_read_lease(old) {
        Ok(Support::Available(())) => return Ok(true),
        Ok(Support::Unavailable(_)) => return Ok(false),
        Err(_) if commit.is_unsafe => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => "others have it open for writing".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Error::refused(
        path,
        &format!(
            "{reason}, and what they write to the old file would be lost; let them close it, update it in place, or \
             accept that (--unsafe)"
        ),
    ))
}

fn update(path: &Path, bytes_before: u64, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    let mut prepared = Updater::prepare_for(&commit.method, reach(&commit.method, updates.end(), bytes_before))?;
    let side = Side::open_target(
        path,
        &commit.method,
        Destination::Overwrite,
        updates.end().max(bytes_before),
    )?;
    let going = Going::new(watch, Others::Nobody);
    fill(&mut *prepared.mechanism, &side, updates, &going, bytes_before)?;
    let fsync = harden(&side, updates, watch, false)?;
    Ok(Updated {
        fsync,
        ..written(&side, updates, &going)
    })
}

/// How the file is copied where it cannot be shared: as sparse as it is.
const COPYING: &str = "copy/sync,block=1M,holes=skip";

/// Shares the blocks where the file system can, and copies them elsewhere; the bytes copied.
fn copy((from, old_path): (&File, &Path), (to, path): (&File, &Path)) -> Result<u64> {
    let failed = |error: io::Error| Error::system(path, "copying the file to it", error);
    match sys::clone_file(from, to).map_err(failed)? {
        Support::Available(()) => Ok(0),
        Support::Unavailable(_) => {
            let bytes = data_bytes(from).map_err(failed)?;
            let (source, target) = (from.try_clone().map_err(failed)?, to.try_clone().map_err(failed)?);
            Copier::prepare(&Method::known(COPYING))?.copy_open((source, old_path), (target, path))?;
            Ok(bytes)
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
