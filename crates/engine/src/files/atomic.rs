//! Files that are written as a whole or not at all: written beside the old one, synced, and renamed over it.
//!
//! All calls are relative to the open directory, so that renaming it or planting a link does not redirect them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::io::Errno;
use seekless_sys::{Access, PathStep, PathWalk, refuse_planted};

use super::{Attributes, FileRef, NameInDirectory, Own, StatFacts, UnfinishedFile, Unwatched, XattrRole};

/// A name in a directory, for a new file or one that will be replaced.
#[derive(Debug)]
pub struct AtomicFile {
    place: NameInDirectory,
    /// The existing file, open, so that its owner and mode can be kept.
    old: Option<File>,
    /// The mode of a new one, less the umask of this process.
    mode: u32,
}

impl AtomicFile {
    /// Finds the place of a path, and checks that a file can be written there. Links are followed, also to a file that does not
    /// exist yet. `None` if the path stands for an open file, as `/dev/stdout` does.
    ///
    /// # Errors
    /// The system's. `EACCES` for a link or a file that somebody else put into a sticky directory open to all.
    pub fn find(path: &Path) -> io::Result<Option<Self>> {
        let Some(PathWalk { directory, name, path }) = end_of_links(path)? else {
            return Ok(None);
        };
        let name = name.ok_or(Errno::ISDIR)?;
        let old = match directory.open_plain(&name, Access::Append) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        if let Some(old) = &old
            && !old.metadata()?.is_file()
        {
            return Err(io::Error::other("it is not a regular file"));
        }
        let (beside, made) = with_new_name(BESIDE, |name| directory.create_file(name, 0o666))?;
        directory.remove_file(&beside)?;
        let directory = directory.into();
        Ok(Some(Self {
            place: NameInDirectory { path, directory, name },
            old,
            mode: made.metadata()?.mode() & 0o666,
        }))
    }

    /// The same; a new file gets this mode, less the umask.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        Self {
            mode: self.mode & mode,
            ..self
        }
    }

    /// The path of the file, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Writes the file. One that is replaced keeps its owner and mode; a new one has mode 0666, unless another was set, less the umask.
    ///
    /// # Errors
    /// The system's; the file is then unchanged.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        self.write_by(|file| file.write_all(bytes))
    }

    /// Like [`write`](Self::write), for a file that `write` writes bit by bit.
    ///
    /// # Errors
    /// The system's, and those of `write`; the file is then unchanged.
    pub fn write_by(self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut new = UnfinishedFile::make(&self.place, |_| new_name(BESIDE))?;
        write(&mut new.file)?;
        match self.replaced()? {
            Some(old) => keep_owner_and_mode(&old, &new.file)?,
            // Some file systems have one mode for all files.
            None => drop(new.file.set_permissions(Permissions::from_mode(self.mode))),
        }
        new.sync(&Unwatched)?;
        new.name(&Unwatched)?;
        self.place.directory.rename(&new.name, &self.place.name)?;
        new.has_name.set(false);
        self.place.directory.sync()
    }

    /// The file that has the name now, which may be new since the name was found.
    fn replaced(&self) -> io::Result<Option<File>> {
        let Some(entry) = self.place.facts()? else {
            return Ok(None);
        };
        refuse_planted(&self.place.directory, entry.owner)?;
        if let Some(old) = &self.old
            && entry.is(&old.metadata()?)
        {
            return old.try_clone().map(Some);
        }
        let file = self.place.directory.open_plain(&self.place.name, Access::Overwrite)?;
        if file.metadata()?.is_file() {
            Ok(Some(file))
        } else {
            Err(io::Error::other("it is no longer a regular file"))
        }
    }
}

/// The prefix of temporary names.
const BESIDE: &str = ".seekless-";

/// Makes something under an unused name: the prefix and 16 digits.
///
/// # Errors
/// The system's, of making it.
pub fn with_new_name<T>(prefix: &str, mut make: impl FnMut(&OsStr) -> io::Result<T>) -> io::Result<(OsString, T)> {
    loop {
        let name = new_name(prefix);
        match make(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return Ok((name, other?)),
        }
    }
}

fn new_name(prefix: &str) -> OsString {
    format!("{prefix}{:016x}", fastrand::u64(..)).into()
}

/// The directory and the name that a path leads to, whether there is a file or not. `None` for paths below `/proc` or in `/dev/fd`.
///
/// # Errors
/// The system's. `EACCES` for a link or an entry that somebody else put into a sticky directory open to all.
pub(super) fn end_of_links(path: &Path) -> io::Result<Option<PathWalk>> {
    let is_of_process = |path: &Path| path.starts_with("/proc") || path.parent() == Some(Path::new("/dev/fd"));
    let walk = PathWalk::to(path, &mut |at, step| {
        step.refuse_planted()?;
        // The link to an open file may lead to no path.
        Ok(!matches!(step, PathStep::Link { is_last: true, .. } if is_of_process(at)))
    })?;
    if is_of_process(&walk.path) {
        return Ok(None);
    }
    if let Some(name) = &walk.name
        && let Ok(found) = StatFacts::at(&walk.directory, name)
    {
        refuse_planted(&walk.directory, found.owner)?;
    }
    Ok(Some(walk))
}

/// Whether the last links of a path lead to an open file of a process, as those of `/dev/stdin` do.
///
/// # Errors
/// As [`AtomicFile::find`].
pub fn leads_to_open_file(path: &Path) -> io::Result<bool> {
    Ok(end_of_links(path)?.is_none())
}

/// Copies the owner, the access control list and the mode of an old file to a new one. If the group cannot be set, no
/// other group gets its permissions.
fn keep_owner_and_mode(old: &File, new: &File) -> io::Result<()> {
    let (mut wanted, new) = (Attributes::of(old)?, FileRef::Open(new.as_fd()));
    wanted.mode &= 0o777;
    wanted.retain(|role| role == XattrRole::Permissions);
    wanted.keep_own(new, |role| role != XattrRole::Permissions);
    let not_given = wanted.give_possible(new, &Own::of(&new.facts()?));
    let failed = not_given.into_iter().find(|(what, _)| *what != "owner");
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::super::attributes::ACCESS_LIST;
    use super::*;
    use seekless_sys::{self as sys, Directory};

    fn access_list(file: &File) -> io::Result<Option<Vec<u8>>> {
        Ok(sys::access_list(file)?.available().flatten())
    }

    fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        AtomicFile::find(path)?
            .expect("it is a name in a directory")
            .write(bytes)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// A user and a group who are nobody here.
    const OTHER: u32 = 4711;

    fn is_root() -> bool {
        let is_root = sys::effective_user() == 0;
        if !is_root {
            println!("skipped: only root makes files of other users");
        }
        is_root
    }

    #[test]
    fn a_new_file_has_the_mode_of_any_new_file_and_a_replaced_one_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (file, plain) = (directory.path().join("file"), directory.path().join("plain"));
        fs::write(&plain, "").unwrap();
        write(&file, b"one").unwrap();
        assert_eq!(mode(&file), mode(&plain));
        for kept in [0o600, 0o640, 0o604] {
            fs::set_permissions(&file, Permissions::from_mode(kept)).unwrap();
            write(&file, b"two").unwrap();
            assert_eq!(mode(&file), kept);
        }
    }

    #[test]
    fn root_keeps_the_owner_of_a_file_but_takes_no_link_or_file_planted_in_a_sticky_directory_open_to_all() {
        if !is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "one").unwrap();
        chown(&file, Some(OTHER), Some(OTHER)).unwrap();
        write(&file, b"two").unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.gid()), (OTHER, OTHER));
        assert_eq!(fs::read(&file).unwrap(), b"two");
        let (precious, missing) = (directory.path().join("precious"), directory.path().join("missing"));
        fs::write(&precious, "precious").unwrap();
        let common = directory.path().join("common");
        fs::create_dir(&common).unwrap();
        fs::set_permissions(&common, Permissions::from_mode(0o1777)).unwrap();
        for (link, target) in [("there", &precious), ("dangling", &missing)] {
            let link = common.join(link);
            symlink(target, &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(OTHER), Some(OTHER)).unwrap();
            let error = write(&link, b"planted").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        }
        // Neither before it is found nor later.
        let planted = common.join("planted");
        let found = AtomicFile::find(&planted).unwrap().unwrap();
        fs::write(&planted, "").unwrap();
        chown(&planted, Some(OTHER), None).unwrap();
        for error in [found.write(b"ours").unwrap_err(), write(&planted, b"ours").unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        }
        assert_eq!(fs::read(&planted).unwrap(), b"");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(!missing.exists());
        let own = common.join("own");
        symlink(&missing, &own).unwrap();
        write(&own, b"followed").unwrap();
        assert_eq!(fs::read(&missing).unwrap(), b"followed");
    }

    #[test]
    fn a_file_goes_into_the_directory_that_was_found_and_through_no_link_that_was_planted_there_since() {
        let all = tempfile::tempdir().unwrap();
        let (ours, theirs) = (all.path().join("ours"), all.path().join("theirs"));
        fs::create_dir(&ours).unwrap();
        fs::create_dir(&theirs).unwrap();
        let found = AtomicFile::find(&ours.join("file")).unwrap().unwrap();
        fs::rename(&ours, all.path().join("moved")).unwrap();
        symlink(&theirs, &ours).unwrap();
        found.write(b"bytes").unwrap();
        assert_eq!(fs::read(all.path().join("moved/file")).unwrap(), b"bytes");
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        let directory = tempfile::tempdir().unwrap();
        let (file, precious) = (directory.path().join("file"), directory.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        let found = AtomicFile::find(&file).unwrap().unwrap();
        symlink(&precious, &file).unwrap();
        found.write(b"bytes").unwrap_err();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_a_directory_gives_its_new_files_lets_nobody_into_one_that_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        // user::rw-, user:4711:rw-, group::r--, mask::rw-, other::--- (linux/posix_acl_xattr.h)
        let entries: [(u16, u16, u32); 5] = [
            (1, 6, u32::MAX),
            (2, 6, OTHER),
            (4, 4, u32::MAX),
            (16, 6, u32::MAX),
            (32, 0, u32::MAX),
        ];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let opened = Directory::open(directory.path()).unwrap();
        if let Err(why) = sys::set_extended_attribute(opened.as_fd(), c"system.posix_acl_default", &list) {
            println!("skipped: {why}");
            return;
        }
        write(&file, b"two").unwrap();
        assert_eq!(mode(&file), 0o640);
        assert_eq!(access_list(&File::open(&file).unwrap()).unwrap(), None);
        // One that it has itself, it keeps.
        sys::set_extended_attribute(File::open(&file).unwrap().as_fd(), ACCESS_LIST, &list).unwrap();
        write(&file, b"three").unwrap();
        assert_eq!(access_list(&File::open(&file).unwrap()).unwrap(), Some(list));
    }
}
