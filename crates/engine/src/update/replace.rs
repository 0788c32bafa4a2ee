//! Updating a new file that takes the name of the old one: whoever opens the name finds one or the other, whole.

use std::cell::Cell;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Folder, Support};

use super::attributes;
use super::commit::{Commit, Updated, fill, harden, lock, refuse_second, with_protection, written};
use super::journal::{folder_of, refuse_left, sync_folder};
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
    refuse_second(path)?;
    let old = File::open(path).map_err(|error| Error::system(path, "opening it", error))?;
    lock(&old, path)?;
    // Whoever may not write to it may not replace it either. Behind the lock: it would end the lease of another
    // replacement; and closed again, or there would be none for this one.
    let opened = OpenOptions::new().write(true).open(path);
    drop(opened.map_err(|error| with_protection(path, Error::system(path, "opening it for writing", error)))?);
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
    let is_held = keep_writers_out(&old, path, commit)?;
    let new = NewFile::make(path, &before, watch)?;
    let prepared = attributes::keep_flags(&old, &new.file, path);
    let made = prepared
        .and_then(|()| copy((&old, path), &new))
        .and_then(|copied_bytes| {
            let done = update(&new, before.len(), updates, commit, watch)?;
            attributes::keep(&old, &new.file, path)?;
            sync(&new, watch)?;
            new.name(watch)?;
            Ok(Updated { copied_bytes, ..done })
        });
    let done = made.map_err(|cause| unmade(path, cause))?;
    let now = old
        .metadata()
        .map_err(|error| Error::system(path, "looking at it", error))?;
    // The time of the last change tells of owner, mode, attributes and names too.
    let state = |found: &Metadata| {
        (
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        )
    };
    let is_changed = state(&now) != state(&before);
    if is_held && !sys::holds_read_lease(&old) {
        return Err(Error::refused(
            path,
            "others want to write to it; it is as it was, try again",
        ));
    }
    if is_changed {
        return Err(Error::refused(
            path,
            "others changed it meanwhile; it is as they left it",
        ));
    }
    watch
        .before(&Step::of(StepKind::Rename, path))
        .and_then(|()| fs::rename(&new.path, path))
        .map_err(|error| Error::system(path, "giving its name to the new file", error))?;
    new.keep();
    sync_folder(path, watch).map_err(|cause| Error::Unlasting {
        what: "the updates are made: the new file has taken the name, but after a power cut or a crash of the system it may \
               be the old one again. Read it before you rely on it, and look for the reason (dmesg tells of broken devices)"
            .to_owned(),
        cause: Box::new(cause),
    })?;
    Ok(done)
}

/// The error of a call at the new file, which says what has become of the old one.
fn unmade(path: &Path, cause: Error) -> Error {
    match cause {
        Error::System { .. } => Error::Undone {
            what: format!("; {} is as before", path.display()),
            cause: Box::new(cause),
        },
        other => other,
    }
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

fn update(new: &NewFile, bytes_before: u64, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    let mut prepared = Updater::prepare_for(&commit.method, reach(&commit.method, updates.end(), bytes_before))?;
    let bytes = updates.end().max(bytes_before);
    let opened = Side::open_target(&new.opened_by, &commit.method, Destination::Overwrite, bytes);
    let mut side = opened.map_err(|error| error.at(&new.path))?;
    side.path = &new.path;
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
fn copy((from, old_path): (&File, &Path), new: &NewFile) -> Result<u64> {
    let failed = |error: io::Error| Error::system(&new.path, "copying the file to it", error);
    match sys::clone_file(from, &new.file).map_err(failed)? {
        Support::Available(()) => Ok(0),
        Support::Unavailable(_) => {
            let (source, target) = (from.try_clone().map_err(failed)?, new.file.try_clone().map_err(failed)?);
            let copied =
                Copier::prepare(&Method::known(COPYING))?.copy_open((source, old_path), (target, &new.path))?;
            Ok(copied.bytes - copied.hole_bytes)
        }
    }
}

fn sync(new: &NewFile, watch: &dyn Watch) -> Result<()> {
    watch
        .before(&Step::of(StepKind::Sync, &new.path))
        .and_then(|()| sys::sync(&new.file))
        .map_err(|error| Error::system(&new.path, "fsync", error))
}

/// A new file that is removed unless it is kept. Where the file system can, it has no name until it is whole, so that
/// nothing is left of it after a kill.
struct NewFile {
    file: File,
    /// The name that it has or gets for a moment.
    path: PathBuf,
    /// By what it is opened once more.
    opened_by: PathBuf,
    has_name: Cell<bool>,
}

impl NewFile {
    /// Makes the file that will replace another.
    fn make(of: &Path, old: &Metadata, watch: &dyn Watch) -> Result<Self> {
        let folder = of.parent().unwrap_or(Path::new("/"));
        let failed = |error| Error::system(of, "making a new file in its folder", error);
        watch.before(&Step::of(StepKind::Make, of)).map_err(failed)?;
        // A folder that cannot be brought to the device is found before anything is done.
        folder_of(of).map_err(failed)?;
        match sys::unnamed_file(&Folder::open(folder).map_err(failed)?).map_err(failed)? {
            Support::Available((file, opened_by)) => {
                let path = name_of(folder, old, &file.metadata().map_err(failed)?);
                Ok(Self {
                    file,
                    path,
                    opened_by,
                    has_name: false.into(),
                })
            }
            Support::Unavailable(_) => Self::make_named(folder, old).map_err(failed),
        }
    }

    /// Makes it where each file has a name.
    fn make_named(folder: &Path, old: &Metadata) -> io::Result<Self> {
        let made = tempfile::Builder::new().prefix(".seekless-").tempfile_in(folder)?;
        let path = name_of(folder, old, &made.as_file().metadata()?);
        // Not by a link, which would never take the place of another: to FUSE, file and link are two, with a page cache each.
        // Nobody has this name in the moment between, in which our inode is.
        if fs::symlink_metadata(&path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(Self {
            file: made.persist(&path)?,
            opened_by: path.clone(),
            path,
            has_name: true.into(),
        })
    }

    /// Gives the file its name, if it has none.
    fn name(&self, watch: &dyn Watch) -> Result<()> {
        if self.has_name.get() {
            return Ok(());
        }
        watch
            .before(&Step::of(StepKind::Make, &self.path))
            .and_then(|()| {
                let folder = Folder::open(self.path.parent().unwrap_or(Path::new("/")))?;
                sys::name_file(&self.opened_by, &folder, self.path.file_name().unwrap_or_default())
            })
            .map_err(|error| Error::system(&self.path, "giving the new file a name", error))?;
        self.has_name.set(true);
        // Once more: btrfs takes no note of a file that has no name.
        sync(self, watch)
    }

    /// It has the name of the old file by now.
    fn keep(&self) {
        self.has_name.set(false);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.has_name.get()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "what was not finished could not be removed");
        }
    }
}

/// How the names of new files begin, before the inodes of the old and the new one. By its own inode in its name such a
/// file is known for one of ours.
const PREFIX: &str = ".seekless-new-";

fn name_of(folder: &Path, old: &Metadata, new: &Metadata) -> PathBuf {
    folder.join(format!("{PREFIX}{}-{}", old.ino(), new.ino()))
}

/// Removes new files of a file whose replacement was killed, and nothing else.
pub(super) fn remove_left(path: &Path, old: &Metadata) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_like_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !is_like_ours {
            continue;
        }
        let found = fs::symlink_metadata(entry.path())?;
        if found.is_file() && entry.path() == name_of(folder, old, &found) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::watch::Unwatched;

    #[test]
    fn what_is_left_of_a_new_file_is_known_by_the_inodes_in_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let old = fs::metadata(&path).unwrap();
        let named = NewFile::make_named(folder.path(), &old).unwrap();
        let left = named.path.clone();
        named.name(&Unwatched).unwrap();
        named.keep();
        drop(named);
        let mut theirs = vec![
            left.with_file_name(format!("{PREFIX}{}-1", old.ino())),
            left.with_file_name(PREFIX),
            folder.path().join(".file.seekless-new"),
        ];
        for path in &theirs {
            fs::write(path, "precious").unwrap();
        }
        // A copy has another inode.
        let copied = left.with_extension("copy");
        fs::copy(&left, &copied).unwrap();
        let other = name_of(
            folder.path(),
            &fs::metadata(&theirs[0]).unwrap(),
            &fs::metadata(&copied).unwrap(),
        );
        fs::rename(&copied, &other).unwrap();
        theirs.push(other);
        remove_left(&path, &old).unwrap();
        assert!(!left.exists());
        for path in &theirs {
            assert!(path.exists(), "{}", path.display());
        }
    }

    #[test]
    fn a_new_file_that_has_a_name_from_the_start_is_removed_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let new = NewFile::make_named(folder.path(), &fs::metadata(&path).unwrap()).unwrap();
        assert!(new.path.exists());
        drop(new);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
