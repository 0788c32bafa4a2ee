//! Directories of paths, opened name by name without following links: who else may change names there, which volume they are on, and
//! changing names so that the times of directories stay.
//!
//! Not here: what is done with the files in them.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{FileType, renameat};
use seekless_engine::files::{Exchange, FileRef, Lease, NameInDirectory, NotExchanged, Time, WritableByOthers};
use seekless_engine::update::{StepKind, Watch};
use seekless_sys::{self as sys, Access, Directory, FileSystemTrait, LeaseScope, Support, file_system_of};

use crate::dupes::cache::identity_of;
use crate::volume::{is_volume, volume_of};
use crate::walk::{StatFacts, System};

/// A name in a directory of which is known who else may change it, and what it gives to new files.
#[derive(Clone)]
pub(super) struct DirEntryHandle {
    of: NameInDirectory,
    pub limits: DirectoryLimits,
}

impl Deref for DirEntryHandle {
    type Target = NameInDirectory;

    fn deref(&self) -> &NameInDirectory {
        &self.of
    }
}

/// Changes of names, after which the times of directories are what they were.
impl DirEntryHandle {
    /// As [`NameInDirectory::rename`]. Where the file system cannot refuse to replace a file, it is looked for right before, and one
    /// that another program makes at that moment is replaced.
    pub fn rename(&self, from: &OsStr, there: &Self, to: &OsStr, watch: &dyn Watch) -> io::Result<()> {
        watch.announce(StepKind::Rename, &self.beside(from))?;
        keeping_times(&[&self.directory, &there.directory], || {
            match self.directory.rename_new(from, &there.directory, to)? {
                Support::Available(()) => Ok(()),
                Support::Unavailable(_) if there.facts_of(to)?.is_some() => Err(io::ErrorKind::AlreadyExists.into()),
                Support::Unavailable(_) => Ok(renameat(&*self.directory, from, &*there.directory, to)?),
            }
        })
    }

    /// As [`NameInDirectory::link`].
    pub fn link(&self, file: &File, called: &OsStr) -> io::Result<()> {
        self.change(|_| self.of.link(file, called))
    }

    /// As [`NameInDirectory::remove`].
    pub fn remove(&self, called: &OsStr, watch: &dyn Watch) -> io::Result<()> {
        watch.announce(StepKind::Remove, &self.beside(called))?;
        self.change(|directory| directory.remove_file(called))
    }

    /// Opens a regular file or a directory, which may be refused. Opening anything else may have effects.
    pub fn opened(&self, called: &OsStr) -> Option<(StatFacts, Option<Arc<File>>)> {
        let found = self.facts_of(called).ok()??;
        if !matches!(found.kind, FileType::RegularFile | FileType::Directory) {
            return None;
        }
        let Ok(file) = self.open_of(called) else {
            return Some((found, None));
        };
        let now = StatFacts::of(&file).ok()?;
        (now.id() == found.id()).then(|| (now, Some(Arc::new(file))))
    }

    /// Opens the file, if it is a regular one. Opening anything else may have effects.
    pub fn regular_file(&self) -> Option<(StatFacts, File)> {
        self.facts().ok()?.filter(|found| found.kind == FileType::RegularFile)?;
        let file = self.open().ok()?;
        let found = StatFacts::of(&file).ok()?;
        (found.kind == FileType::RegularFile).then_some((found, file))
    }

    /// Makes another call that changes names in the directory.
    pub fn change<T>(&self, call: impl FnOnce(&Directory) -> T) -> T {
        keeping_times(&[&self.directory], || call(&self.directory))
    }
}

/// What bounds the changes of names in a directory.
#[derive(Clone)]
pub(super) struct DirectoryLimits {
    /// The first directory of its path in which users other than root and this one decide what names lead to.
    pub exposed: Option<Arc<WritableByOthers>>,
    /// The number of its device.
    pub device: u64,
    /// The mount that shows the directory.
    pub mount: Option<u64>,
    /// The project that the directory gives to its files.
    pub project: Option<u32>,
    /// The owner of the directory, if it has the sticky bit.
    pub sticky_of: Option<u32>,
    /// The volume that the directory is on, as journals say it.
    pub volume: Arc<str>,
}

/// What a file system is like.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub system: System,
    /// What identifies it, whichever device shows it; `None` if it has no identity, or no directory of it can be read.
    pub identity: Option<u64>,
    /// A number that all have in common whose files may share blocks: that of the device or, as each subvolume of a btrfs has another
    /// one, the beginning of the UUID.
    pub sharing: u64,
    pub is_read_only: bool,
    /// What a lease proves, or why nothing.
    pub leases: Result<LeaseScope, String>,
}

/// The numbers of a mount and of a device: each subvolume of a btrfs has a device number of its own.
type VolumeKey = (Option<u64>, u64);

/// Open directories, each opened once.
pub(super) struct Directories {
    open: Mutex<HashMap<PathBuf, (Arc<Directory>, DirectoryLimits)>>,
    /// Volumes by mount and device.
    volumes: Mutex<HashMap<VolumeKey, Arc<str>>>,
    /// How many files this process may open.
    open_files_max: usize,
}

impl Default for Directories {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            volumes: Mutex::default(),
            open_files_max: sys::open_files_max(),
        }
    }
}

/// What file systems are like, by their `st_dev`.
#[derive(Debug, Default)]
pub(super) struct Systems(Mutex<HashMap<u64, Behind>>);

impl Directories {
    /// The place that an absolute path names.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` or `ELOOP` for a path that leads through a link.
    pub fn place(&self, path: &Path) -> io::Result<DirEntryHandle> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(not_plain());
        };
        let (directory, limits) = self.opened(above)?;
        let of = NameInDirectory {
            path: path.to_owned(),
            directory,
            name: name.to_owned(),
        };
        Ok(DirEntryHandle { of, limits })
    }

    /// The place that a path of a journal names.
    ///
    /// # Errors
    /// As [`Self::place`]; also if the volume that it was on is not mounted there: its nearest directory that exists is on another one.
    pub fn place_on(&self, path: &Path, volume: &str) -> io::Result<DirEntryHandle> {
        let nearest = path.ancestors().skip(1).find_map(|above| match self.opened(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened),
        });
        let (_, limits) = nearest.ok_or_else(not_plain)??;
        if !is_volume(&limits.volume, volume) {
            let why = format!("it was on {volume}, which is not mounted there now");
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, why));
        }
        self.place(path)
    }

    fn opened(&self, path: &Path) -> io::Result<(Arc<Directory>, DirectoryLimits)> {
        let mut open = sys::lock_mutex(&self.open);
        if let Some(opened) = open.get(path) {
            return Ok(opened.clone());
        }
        let (mut directory, mut exposed) = (None, None);
        let mut above = PathBuf::new();
        for component in path.components() {
            above.push(component);
            let next = match (component, directory) {
                (Component::RootDir, None) => Directory::open(Path::new("/"))?,
                (Component::Normal(name), Some(above)) => Directory::open_directory(&above, name)?,
                _ => return Err(not_plain()),
            };
            if exposed.is_none() {
                exposed = WritableByOthers::of(&above, &next, &next.metadata()?)?.map(Arc::new);
            }
            directory = Some(next);
        }
        let directory = Arc::new(directory.ok_or_else(not_plain)?);
        let readable = directory.open_plain(OsStr::new("."), Access::Read);
        let (facts, mount) = (StatFacts::of(&*directory)?, sys::mount_id(&*directory));
        let mut volumes = sys::lock_mutex(&self.volumes);
        let volume = volumes.entry((mount, facts.device));
        let limits = DirectoryLimits {
            device: facts.device,
            mount,
            volume: Arc::clone(volume.or_insert_with(|| volume_of(&directory, mount).into())),
            sticky_of: Some(facts.owner).filter(|_| facts.mode & 0o1000 != 0),
            project: readable.ok().and_then(|readable| sys::inherited_project(&readable)),
            exposed,
        };
        open.insert(path.to_owned(), (Arc::clone(&directory), limits.clone()));
        Ok((directory, limits))
    }

    /// The number of open directories.
    pub fn len(&self) -> usize {
        sys::lock_mutex(&self.open).len()
    }

    /// Closes all directories if they are an eighth of what this process may open.
    pub fn close_many(&self) {
        if self.len() >= self.open_files_max / 8 {
            self.close();
        }
    }

    /// Closes all directories.
    pub fn close(&self) {
        sys::lock_mutex(&self.open).clear();
    }
}

impl Systems {
    /// What the file system of a directory is like.
    pub fn of(&self, device: u64, directory: &Directory) -> io::Result<Behind> {
        let mut systems = sys::lock_mutex(&self.0);
        if let Some(behind) = systems.get(&device) {
            return Ok(behind.clone());
        }
        let found = file_system_of(directory)?;
        let readable = directory.open_plain(OsStr::new("."), Access::Read).ok();
        let btrfs = readable.as_ref().filter(|_| found.has(FileSystemTrait::Subvolumes));
        let uuid = btrfs.and_then(|btrfs| sys::file_system_uuid(btrfs).ok()?.available());
        let mut system = System::of(&found);
        system.may_share &= !readable.as_ref().is_some_and(sys::is_xfs_without_reflinks);
        let sharing = uuid.and_then(|uuid| uuid.first_chunk().copied().map(u64::from_le_bytes));
        let behind = Behind {
            leases: Lease::scope_with_mappings(directory).map_err(|why| why.to_string()),
            identity: readable.as_ref().and_then(identity_of),
            sharing: sharing.unwrap_or(device),
            system,
            is_read_only: found.read_only,
        };
        systems.insert(device, behind.clone());
        Ok(behind)
    }

    /// The same, if it was asked for before.
    pub fn known(&self, device: u64) -> Option<Behind> {
        let systems = sys::lock_mutex(&self.0);
        systems.get(&device).cloned()
    }
}

fn not_plain() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "not an absolute path without `..` that names a file",
    )
}

/// The target of a symbolic link in a directory that leads to a path. Both paths are absolute and lead through no link.
pub(super) fn relative(directory: &Path, to: &Path) -> PathBuf {
    let shared = directory.components().zip(to.components());
    let shared = shared.take_while(|(one, other)| one == other).count();
    let up = directory.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

// Times of directories in which names change are put back after each call, so a time that another process gave a directory between
// two calls stays. One that changes a name during a call goes unnoticed.

/// The mtime of a directory.
fn time_of(directory: &Directory) -> Option<Time> {
    StatFacts::of(directory).ok().map(|facts| facts.modified)
}

/// Puts the mtime of a directory back. Only its owner and root may; a time that cannot be set is no reason to undo what was done.
fn put_back(directory: &Directory, was: Option<Time>) {
    if let Some(was) = was.filter(|was| time_of(directory) != Some(*was)) {
        let _ = FileRef::Handle(directory.as_fd(), FileType::Directory).set_times(None, was);
    }
}

/// Makes a call that changes names in directories, and puts their times back.
fn keeping_times<T>(directories: &[&Directory], call: impl FnOnce() -> T) -> T {
    let before: Vec<_> = directories.iter().map(|directory| time_of(directory)).collect();
    let done = call();
    for (directory, was) in directories.iter().zip(before) {
        put_back(directory, was);
    }
    done
}

/// Exchanges two names, and puts the time of their directory back.
pub(super) fn exchange<E>(exchange: &Exchange<'_, E>) -> Result<(), NotExchanged<E>> {
    let directory = exchange.directory;
    let before = Cell::new(None);
    let note = || before.set(time_of(directory));
    let put_back = || put_back(directory, before.take());
    let done = Exchange {
        is_ready: &|| (exchange.is_ready)().inspect(|()| note()),
        may_go: &|| {
            put_back();
            // The names may be exchanged back.
            (exchange.may_go)().inspect_err(|_| note())
        },
        ..*exchange
    }
    .run();
    put_back();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_targets_lead_from_the_directory_to_the_file() {
        for (directory, to, target) in [
            ("/a/b", "/a/b/f", "f"),
            ("/a/b", "/a/c/f", "../c/f"),
            ("/", "/f", "f"),
            ("/a/bc", "/a/b/f", "../b/f"),
            ("/a/b/c", "/f", "../../../f"),
        ] {
            assert_eq!(relative(Path::new(directory), Path::new(to)), Path::new(target));
        }
    }
}
