//! Creating files in a directory beside others.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_sys::{self as sys, Access, Directory, Opening, Support};

use super::{FileId, NameInDirectory, StepKind, Watch};
use crate::log;

/// A new file that is to replace another, locked. If the file system supports that, it has no name
/// until it is complete, so that a kill leaves nothing behind. The temporary name that it then has
/// is removed when it is dropped, unless it has taken another.
#[derive(Debug)]
pub(crate) struct UnfinishedFile<'a> {
    place: &'a NameInDirectory,
    pub file: File,
    /// Its temporary name, and the path of that.
    pub name: OsString,
    pub path: PathBuf,
    /// The path for opening it again while it has no name.
    unnamed: Option<PathBuf>,
    pub has_name: Cell<bool>,
}

impl<'a> UnfinishedFile<'a> {
    /// Creates an empty file with mode 0600. `name_of` makes its temporary name.
    pub fn make(place: &'a NameInDirectory, name_of: impl FnOnce(&Metadata) -> OsString) -> io::Result<Self> {
        match sys::unnamed_file(&place.directory)? {
            Support::Available((file, unnamed)) => {
                lock_new(&file)?;
                let name = name_of(&file.metadata()?);
                Ok(Self::of(place, file, name, Some(unnamed)))
            }
            Support::Unavailable(_) => Self::make_named(place, name_of),
        }
    }

    /// Creates it with a name, on file systems without unnamed files.
    pub fn make_named(place: &'a NameInDirectory, name_of: impl FnOnce(&Metadata) -> OsString) -> io::Result<Self> {
        let (file, first_name) = make_beside(&place.directory)?;
        let mut new = Self::of(place, file, first_name, None);
        let name = name_of(&new.file.metadata()?);
        if let Ok(Some(_)) = place.facts_of(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // By renaming, not by linking: FUSE treats file and link as two files, each with a page
        // cache.
        place.directory.rename(&new.name, &name)?;
        new.path = place.beside(&name);
        new.name = name;
        Ok(new)
    }

    fn of(place: &'a NameInDirectory, file: File, name: OsString, unnamed: Option<PathBuf>) -> Self {
        Self {
            place,
            file,
            path: place.beside(&name),
            name,
            has_name: unnamed.is_none().into(),
            unnamed,
        }
    }

    /// Opens it again.
    pub fn open(&self, how: Opening) -> io::Result<Support<File>> {
        match &self.unnamed {
            Some(path) => sys::open(path, how),
            None => self.place.directory.open_file(&self.name, how),
        }
    }

    /// Brings the file to the device.
    pub fn sync(&self, watch: &dyn Watch) -> io::Result<()> {
        watch.announce(StepKind::Sync, &self.path)?;
        sys::sync(&self.file)
    }

    /// Gives the synced file its temporary name, if it has none.
    pub fn name(&self, watch: &dyn Watch) -> io::Result<()> {
        let (Some(unnamed), false) = (&self.unnamed, self.has_name.get()) else {
            return Ok(());
        };
        watch.announce(StepKind::Make, &self.path)?;
        sys::name_file(unnamed, &self.place.directory, &self.name)?;
        self.has_name.set(true);
        // Sync again, because btrfs does not log a file without a name.
        self.sync(watch)
    }

    /// Removes the temporary name, if it leads to this file or the one that this file replaced.
    pub fn remove(&self, file: &Metadata) -> io::Result<()> {
        if !self.place.facts_of(&self.name)?.is_some_and(|entry| entry.is(file)) {
            return Err(io::Error::other("another file has that name"));
        }
        self.place.directory.remove_file(&self.name)
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if self.has_name.get()
            && let Err(error) = self.file.metadata().and_then(|ours| self.remove(&ours))
        {
            log::warn!(path = %self.path.display(), %error, "cannot remove the unfinished file");
        }
    }
}

/// Locks a new file until it is renamed, because recovery leaves locked files alone. Where a file
/// system has no locks, nothing is recovered.
fn lock_new(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(error @ TryLockError::WouldBlock) => Err(error.into()),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Creates an empty file in a directory, under an unused name.
fn make_beside(directory: &Directory) -> io::Result<(File, OsString)> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".seekless-{}-{number}", std::process::id()));
        let file = match directory.create_file(&name, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        };
        return match lock_new(&file) {
            Ok(()) => Ok((file, name)),
            Err(error) => {
                let _ = directory.remove_file(&name);
                Err(error)
            }
        };
    }
}

/// Whether a name is one by [`make_beside`].
pub(crate) fn is_name_of_empty(name: &OsStr) -> bool {
    let numbers = name
        .to_str()
        .and_then(|name| name.strip_prefix(".seekless-")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Creates an empty file in a directory that is removed when it is closed, and opens it a second time.
pub(crate) fn make_for_a_moment(directory: &Directory, how: Opening) -> io::Result<(File, File)> {
    if let Support::Available((file, path)) = sys::unnamed_file(directory)? {
        return Ok((file, sys::open(&path, how)?.required()?));
    }
    make_with_name_for_a_moment(directory, how)
}

/// The same with a name at first, as other new files have: what is synced includes the change of the directory.
pub(crate) fn make_with_name_for_a_moment(directory: &Directory, how: Opening) -> io::Result<(File, File)> {
    let (file, name) = make_beside(directory)?;
    let again = directory.open_file(&name, how);
    directory.remove_file(&name)?;
    let again = again?.required()?;
    if FileId::of(&file.metadata()?) != FileId::of(&again.metadata()?) {
        return Err(io::Error::other("another process replaced the temporary file"));
    }
    Ok((file, again))
}

/// Fails where this process may not make a file of so many bytes: it would die of SIGXFSZ, though nobody asked for that file.
pub(crate) fn require_file_bytes(bytes: u64) -> io::Result<()> {
    if bytes > sys::file_bytes_max() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(())
}

/// Creates an empty file in a directory that is removed when it is closed.
pub(crate) fn make_unnamed(directory: &Path) -> io::Result<File> {
    let made = make_for_a_moment(&Directory::open(directory)?, Opening::plain(Access::Read));
    made.map(|(file, _)| file)
}

/// Creates an empty file in a directory, with mode 0600. It has no name, and a path by which it can be opened again; or where the file
/// system has no such files, this name.
///
/// # Errors
/// The system's; `EEXIST` where the name is needed and taken.
pub fn make_new(directory: &Directory, name: &OsStr) -> io::Result<(File, Option<PathBuf>)> {
    Ok(match sys::unnamed_file(directory)? {
        Support::Available((file, path)) => (file, Some(path)),
        Support::Unavailable(_) => (directory.create_file(name, 0o600)?, None),
    })
}
