//! An open directory and its files: openat(2) and related calls. Renaming a directory or planting a link on the path
//! does not redirect these calls.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RawMode};
use rustix::io::Errno;

use crate::platform;
use crate::support::{Support, attempt};
use crate::types::{Access, FileSystemTrait, Opening};

/// An open directory, which need not be readable: only [`Directory::names`] and [`Directory::sync`] read it. Names are
/// single components: a `/` in one leads out of the directory.
#[derive(Debug)]
pub struct Directory {
    file: File,
}

/// The flags of a handle for lookups: `O_PATH`, if the system has it.
#[cfg(target_os = "linux")]
const SEARCHING: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const SEARCHING: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Opens a file (open(2)). Child processes do not inherit it, opening a FIFO does not block, and a terminal does not become that of
/// this process. A new file gets mode 0666, less the umask.
///
/// A file system that refuses `O_DIRECT` (EINVAL) gives `Unavailable`; with [`crate::Access::CreateNew`] the empty file may
/// exist by then. One that accepts it may still use the page cache (tmpfs, btrfs); only a measurement shows that.
///
/// # Errors
/// The system's.
pub fn open(path: &Path, how: Opening) -> io::Result<Support<File>> {
    open_at(rustix::fs::CWD, path, how, OFlags::empty(), 0o666)
}

/// Waits until a pipe, which [`open`] opened for reading, has bytes, or its writers are gone. Reading it waits from then on: poll(2).
///
/// # Errors
/// The system's.
pub fn await_writer(pipe: File) -> io::Result<File> {
    let mut polled = [PollFd::new(&pipe, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    rustix::fs::fcntl_setfl(&pipe, flags - OFlags::NONBLOCK)?;
    Ok(pipe)
}

/// What to open a file with again for an access, and whether every write goes to its end (`O_APPEND`), by its flags: `F_GETFL`
/// (fcntl(2)). That it bypasses the page cache is unknown on macOS, which has no such flag.
///
/// # Errors
/// The system's.
pub fn opened_as(file: &File, access: Access) -> io::Result<(Opening, bool)> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    // An empty flag, on platforms without it, is contained in all flags.
    let has = |flag: OFlags| !flag.is_empty() && flags.contains(flag);
    let opening = Opening {
        access,
        direct: has(platform::DIRECT),
        write_through: has(platform::WRITE_THROUGH),
        keeps_atime: has(platform::NO_ATIME),
    };
    Ok((opening, has(OFlags::APPEND)))
}

/// Opens something by `open` with `O_NOATIME` (open(2)), so that reading it does not change its time of access. Only the owner
/// and root may ask for that; for others, `open` is called again without flags.
///
/// # Errors
/// Those of `open`.
pub fn without_atime<T>(open: impl Fn(OFlags) -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match open(platform::NO_ATIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        opened => opened,
    }
}

/// Opens a file in a directory (openat(2)). A new one gets `mode`, less the umask.
fn open_at(
    directory: BorrowedFd<'_>,
    path: &Path,
    how: Opening,
    mut flags: OFlags,
    mode: RawMode,
) -> io::Result<Support<File>> {
    flags |= OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags |= match how.access {
        Access::Read => OFlags::RDONLY,
        Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        Access::Overwrite => OFlags::RDWR,
        Access::Append => OFlags::WRONLY | OFlags::APPEND,
    };
    flags.set(platform::DIRECT, how.direct);
    flags.set(platform::WRITE_THROUGH, how.write_through);
    let absent: &[Errno] = if how.direct { &[Errno::INVAL] } else { &[] };
    let opened = attempt(absent, "the file system has no direct I/O", || {
        let open = |more| rustix::fs::openat(directory, path, flags | more, Mode::from_raw_mode(mode));
        if how.keeps_atime {
            without_atime(open)
        } else {
            open(OFlags::empty())
        }
    })?;
    match opened.map(File::from) {
        // On platforms without the flag, this cannot be detected.
        Support::Available(file) if how.direct && platform::DIRECT.is_empty() => {
            Ok(platform::bypass_cache(&file)?.map(|()| file))
        }
        opened => Ok(opened),
    }
}

fn open_directory(within: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<File> {
    let opened = rustix::io::retry_on_intr(|| rustix::fs::openat(within, path, flags, Mode::empty()))?;
    Ok(opened.into())
}

impl Directory {
    /// Opens a directory. Links in the path are followed.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` where it is no directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_directory(rustix::fs::CWD, path, SEARCHING)?;
        Ok(Self { file })
    }

    /// Opens a directory in this one. A link is an error.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` or `ELOOP` where it is no directory.
    pub fn open_directory(&self, name: &OsStr) -> io::Result<Self> {
        let file = open_directory(self.as_fd(), name.as_ref(), SEARCHING | OFlags::NOFOLLOW)?;
        Ok(Self { file })
    }

    /// Opens a file in this directory. A link is an error; a FIFO is opened without waiting. A new one gets mode 0600.
    ///
    /// # Errors
    /// The system's; `ELOOP` for a link.
    pub fn open_file(&self, name: &OsStr, how: Opening) -> io::Result<Support<File>> {
        open_at(self.as_fd(), name.as_ref(), how, OFlags::NOFOLLOW, 0o600)
    }

    /// The same without flags that a file system may not support.
    ///
    /// # Errors
    /// The system's; `ELOOP` for a link.
    pub fn open_plain(&self, name: &OsStr, access: Access) -> io::Result<File> {
        self.open_file(name, Opening::plain(access))?.required()
    }

    /// Creates a file for reading and writing with a mode, less the umask.
    ///
    /// # Errors
    /// The system's; `EEXIST` where the name is taken, by a link too.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as RawMode);
        let file = rustix::io::retry_on_intr(|| rustix::fs::openat(&self.file, name, flags, mode))?;
        Ok(file.into())
    }

    /// Creates a directory with a mode, whatever the umask, and opens it.
    ///
    /// # Errors
    /// The system's; `EEXIST` where the name is taken.
    pub fn create_directory(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.file, name, Mode::from_raw_mode(mode as RawMode))?;
        let directory = self.open_directory(name)?;
        if !is_just_made(directory.as_fd(), self.as_fd(), mode)? {
            return Err(io::Error::other("another process replaced the new directory"));
        }
        let given = directory.file.metadata()?.mode() & 0o7777;
        if given & mode != mode
            && let Some(path) = platform::descriptor_path(&directory.file)
        {
            // Without the right to search it, no path below it works, not even `.`. Some file systems have no modes.
            let mode = Mode::from_raw_mode((given | mode) as RawMode);
            let _ = rustix::fs::chmodat(rustix::fs::CWD, &path, mode, AtFlags::empty());
        }
        Ok(directory)
    }

    /// All names but `.` and `..`.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.to_read()?)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Removes a name that is not a directory.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.file, name, AtFlags::REMOVEDIR)?)
    }

    /// Renames a file, replacing an existing one: renameat(2).
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.file, from, &self.file, to)?)
    }

    /// Exchanges two names in one step: renameat2(2) `RENAME_EXCHANGE`.
    ///
    /// # Errors
    /// The system's; `ENOENT` where one of them is not there.
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<Support<()>> {
        platform::exchange(self.as_fd(), one, other)
    }

    /// Renames a file, into another directory too, unless the new name is taken: renameat2(2) `RENAME_NOREPLACE`.
    ///
    /// # Errors
    /// The system's; `EEXIST` where the new name is taken.
    pub fn rename_new(&self, from: &OsStr, directory: &Self, to: &OsStr) -> io::Result<Support<()>> {
        platform::rename_new(self.as_fd(), from, directory.as_fd(), to)
    }

    /// Makes a symbolic link with a target, which need not exist: symlinkat(2).
    ///
    /// # Errors
    /// The system's; `EEXIST` where the name is taken.
    pub fn make_link(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.file, name)?)
    }

    /// The target of a symbolic link: readlinkat(2).
    ///
    /// # Errors
    /// The system's; `EINVAL` where the name is no link.
    pub fn link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.file, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Stats the directory: fstat(2).
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Syncs the directory: fsync(2).
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        platform::sync(&self.to_read()?)
    }

    fn to_read(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |more| rustix::fs::openat(self.as_fd(), ".", flags | more, Mode::empty());
        Ok(without_atime(open)?.into())
    }
}

/// Whether an open directory can be the one that was just made in `above` with a mode: it is empty, this user's, and open to nobody else;
/// on a file system without owners, it is the user's to whom the directory above belongs. Another process may have put another one in its
/// place before it was opened.
///
/// # Errors
/// The system's.
pub fn is_just_made(directory: BorrowedFd<'_>, above: BorrowedFd<'_>, mode: u32) -> io::Result<bool> {
    let found = rustix::fs::fstat(directory)?;
    let is_ours = found.st_uid == crate::effective_user();
    if !is_ours || found.st_mode & 0o777 & !(mode as RawMode) != 0 {
        let may_be = is_ours || found.st_uid == rustix::fs::fstat(above)?.st_uid;
        if !may_be || crate::file_system_of(directory)?.has(FileSystemTrait::Owners) {
            return Ok(false);
        }
    }
    // The handle may stand for its place only.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(rustix::fs::openat(directory, ".", flags, Mode::empty())?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<Directory> for OwnedFd {
    fn from(directory: Directory) -> Self {
        directory.file.into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directory_stays_the_opened_one_when_it_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (ours, theirs) = (place.path().join("ours"), place.path().join("theirs"));
        fs::create_dir(&ours).unwrap();
        fs::create_dir(&theirs).unwrap();
        let directory = Directory::open(&ours).unwrap();
        fs::rename(&ours, place.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&theirs, &ours).unwrap();
        directory.create_file("file".as_ref(), 0o600).unwrap();
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        assert_eq!(directory.names().unwrap(), ["file"]);
        directory.remove_file("file".as_ref()).unwrap();
        assert!(directory.names().unwrap().is_empty());
    }

    #[test]
    fn a_directory_with_something_in_it_was_not_just_made() {
        let place = tempfile::tempdir().unwrap();
        let above = Directory::open(place.path()).unwrap();
        let made = above.create_directory("made".as_ref(), 0o700).unwrap();
        assert!(is_just_made(made.as_fd(), above.as_fd(), 0o700).unwrap());
        // Somebody else's may be open to others.
        fs::set_permissions(place.path().join("made"), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(!is_just_made(made.as_fd(), above.as_fd(), 0o700).unwrap());
        assert!(is_just_made(made.as_fd(), above.as_fd(), 0o755).unwrap());
        made.create_file("file".as_ref(), 0o600).unwrap();
        assert!(!is_just_made(made.as_fd(), above.as_fd(), 0o700).unwrap());
    }

    #[test]
    fn nothing_is_made_or_opened_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let precious = place.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, place.path().join("link")).unwrap();
        let directory = Directory::open(place.path()).unwrap();
        assert!(directory.create_file("link".as_ref(), 0o600).is_err());
        let reading = Opening::plain(Access::Read);
        assert!(directory.open_file("link".as_ref(), reading).is_err());
        assert!(directory.open_directory("link".as_ref()).is_err());
        assert!(directory.link_target("link".as_ref()).is_ok());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn directory_takes_no_taken_name_and_exchanges_two() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        fs::write(place.path().join("one"), "1").unwrap();
        directory.make_link(Path::new("nowhere"), "link".as_ref()).unwrap();
        assert_eq!(directory.link_target("link".as_ref()).unwrap(), Path::new("nowhere"));
        match directory.rename_new("one".as_ref(), &directory, "link".as_ref()) {
            Ok(Support::Unavailable(why)) => return println!("skipped: {why}"),
            refused => assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists),
        }
        directory
            .rename_new("one".as_ref(), &directory, "two".as_ref())
            .unwrap();
        assert_eq!(fs::read(place.path().join("two")).unwrap(), b"1");
        fs::write(place.path().join("one"), "1").unwrap();
        fs::write(place.path().join("other"), "2").unwrap();
        match directory.exchange("one".as_ref(), "other".as_ref()).unwrap() {
            Support::Available(()) => {
                assert_eq!(fs::read(place.path().join("one")).unwrap(), b"2");
                assert_eq!(fs::read(place.path().join("other")).unwrap(), b"1");
                assert!(directory.exchange("one".as_ref(), "missing".as_ref()).is_err());
            }
            Support::Unavailable(why) => println!("skipped: {why}"),
        }
    }
}
