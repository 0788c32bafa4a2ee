//! A path walked name by name, so that each symbolic link is seen before it is followed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::machine::effective_user;

/// A part of a path.
#[derive(Debug)]
pub enum PathStep<'a> {
    /// A directory.
    Directory(&'a Directory),
    /// A symbolic link.
    Link {
        /// The directory that contains it.
        within: &'a Directory,
        /// Its owner.
        owner: u32,
        /// Whether no name follows it.
        is_last: bool,
    },
}

impl PathStep<'_> {
    /// Refuses a link that [`refuse_planted`] refuses.
    ///
    /// # Errors
    /// As there.
    pub fn refuse_planted(&self) -> io::Result<()> {
        match self {
            Self::Link { within, owner, .. } => refuse_planted(within, *owner),
            Self::Directory(_) => Ok(()),
        }
    }
}

/// Refuses an entry that another user may have put into a sticky directory open to all: it belongs neither to this user nor to the
/// owner of the directory. That is the rule of `fs.protected_symlinks` and `fs.protected_regular` (proc(5)), whatever these are.
///
/// # Errors
/// `EACCES`; the system's.
pub fn refuse_planted(within: &Directory, owner: u32) -> io::Result<()> {
    const STICKY_AND_OPEN: u32 = 0o1002;
    let found = within.metadata()?;
    let is_open = found.mode() & STICKY_AND_OPEN == STICKY_AND_OPEN;
    if is_open && owner != found.uid() && owner != effective_user() {
        return Err(Errno::ACCESS.into());
    }
    Ok(())
}

/// Where a path leads.
#[derive(Debug)]
pub struct PathWalk {
    /// The last directory.
    pub directory: Directory,
    /// The name in the directory, if the path does not lead to a directory. Nothing may have the name.
    pub name: Option<OsString>,
    /// The absolute path without links, with the name.
    pub path: PathBuf,
}

/// More links than any system follows.
const LINKS_MAX: u32 = 40;

impl PathWalk {
    /// Walks a path, and calls `visit` with each directory and link and its path. A link for which it returns false is not followed
    /// and ends the walk.
    ///
    /// # Errors
    /// The system's, and those of `visit`.
    pub fn to(path: &Path, visit: &mut dyn FnMut(&Path, &PathStep<'_>) -> io::Result<bool>) -> io::Result<Self> {
        let root = Path::new("/");
        let mut walk = if path.is_absolute() {
            Self::begin(root, root.to_owned())
        } else {
            Self::begin(Path::new("."), env::current_dir().unwrap_or_default())
        }?;
        visit(&walk.path, &PathStep::Directory(&walk.directory))?;
        let (mut names, mut links) = (names_of(path), 0);
        while let Some(name) = names.pop() {
            let target = match walk.directory.open_directory(&name) {
                Ok(directory) => {
                    walk.directory = directory;
                    if name == ".." {
                        walk.path.pop();
                    } else {
                        walk.path.push(&name);
                    }
                    visit(&walk.path, &PathStep::Directory(&walk.directory))?;
                    continue;
                }
                Err(error) => match walk.directory.link_target(&name) {
                    Ok(target) => target,
                    Err(_) if names.is_empty() && may_be_name(&error) => {
                        walk.end_at(name);
                        break;
                    }
                    Err(_) => return Err(error),
                },
            };
            let step = PathStep::Link {
                within: &walk.directory,
                owner: statat(&walk.directory, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid,
                is_last: names.is_empty(),
            };
            let at = walk.path.join(&name);
            if !visit(&at, &step)? {
                walk.end_at(name);
                break;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            // A directory that a process has open may have no path here, such as the root of a container.
            if at.starts_with("/proc")
                && let Ok(opened) = Self::begin(&at, fs::canonicalize(&at).unwrap_or_else(|_| at.clone()))
            {
                walk = opened;
                visit(&walk.path, &PathStep::Directory(&walk.directory))?;
                continue;
            }
            if target.is_absolute() {
                walk = Self::begin(root, root.to_owned())?;
            }
            names.extend(names_of(&target));
        }
        Ok(walk)
    }

    /// Walks a path that will be written to: links that [`refuse_planted`] refuses are not followed.
    ///
    /// # Errors
    /// The system's; `EACCES` for such a link.
    pub fn protected(path: &Path) -> io::Result<Self> {
        Self::to(path, &mut |_, step| step.refuse_planted().map(|()| true))
    }

    /// The directory that the path leads to.
    ///
    /// # Errors
    /// The system's; `ENOENT` or `ENOTDIR` if the path leads to no directory.
    pub fn into_directory(self) -> io::Result<Directory> {
        match self.name {
            Some(name) => self.directory.open_directory(&name),
            None => Ok(self.directory),
        }
    }

    fn begin(at: &Path, path: PathBuf) -> io::Result<Self> {
        let directory = Directory::open(at)?;
        Ok(Self {
            directory,
            name: None,
            path,
        })
    }

    fn end_at(&mut self, name: OsString) {
        self.path.push(&name);
        self.name = Some(name);
    }
}

/// Whether a last name with this error of opening it as a directory is that of a file, or free.
fn may_be_name(error: &io::Error) -> bool {
    [ErrorKind::NotADirectory, ErrorKind::NotFound].contains(&error.kind())
}

/// The names of a path, the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    let names = names.filter(|name| matches!(name, Component::Normal(_) | Component::ParentDir));
    names.map(|name| name.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    /// A user who is nobody here.
    const OTHER: u32 = 4711;

    #[test]
    fn a_path_leads_where_the_kernel_finds_it() {
        let place = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::write(at.join("a/file"), "").unwrap();
        for (target, link) in [("a/b", "down"), ("../file", "a/b/up"), ("a/none", "dangling")] {
            symlink(target, at.join(link)).unwrap();
        }
        symlink(at.join("a"), at.join("absolute")).unwrap();
        symlink("ring", at.join("ring")).unwrap();
        for (path, leads_to, is_directory) in [
            ("a/b", "a/b", true),
            ("down/..", "a", true),
            ("down/../../down/./up", "a/file", false),
            ("absolute/b/up", "a/file", false),
            ("dangling", "a/none", false),
            ("a/none", "a/none", false),
        ] {
            let walk = PathWalk::protected(&at.join(path)).unwrap();
            assert_eq!(walk.path, at.join(leads_to), "{path}");
            assert_eq!(walk.name.is_none(), is_directory, "{path}");
            assert_eq!(walk.into_directory().is_ok(), is_directory, "{path}");
        }
        for path in ["a/none/none", "a/file/none", "ring", "ring/a"] {
            assert!(PathWalk::protected(&at.join(path)).is_err(), "{path}");
        }
        for here in ["src/../src/lib.rs", "/proc/self/cwd/src/lib.rs"].map(Path::new) {
            let walk = PathWalk::protected(here);
            let expected = fs::canonicalize(here);
            assert_eq!(walk.ok().map(|walk| walk.path), expected.ok(), "{here:?}");
        }
    }

    #[test]
    fn path_walk_follows_no_links_of_others_in_sticky_directories() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().join("open");
        fs::create_dir(&open).unwrap();
        symlink(place.path(), open.join("link")).unwrap();
        if lchown(open.join("link"), Some(OTHER), None).is_err() {
            return println!("skipped: only root makes links of other users");
        }
        for (mode, is_refused) in [(0o1777, true), (0o1775, false), (0o777, false)] {
            fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
            for path in ["open/link", "open/link/none"] {
                let walked = PathWalk::protected(&place.path().join(path));
                assert_eq!(walked.is_err(), is_refused, "{mode:o} {path}");
            }
        }
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        // The owner of the directory may link from it, as from a home that is open to all.
        lchown(&open, Some(OTHER), None).unwrap();
        PathWalk::protected(&open.join("link")).unwrap();
    }
}
