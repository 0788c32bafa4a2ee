//! The files of a trial: making them, and reading what is there before and afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};

use super::disturber::MARK_BYTES;
use super::job::MOVED;
use super::plan::{FileTree, Given, Made};
use super::world::{DECOYS, YARD};

/// The files in the directory of a trial, by their paths in it.
pub type FilesByPath = BTreeMap<PathBuf, FoundEntry>;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundEntry {
    File(FoundFile),
    Symlink {
        target: PathBuf,
        /// The path that it leads to, if that is in the directory of the trial.
        leads_to: Option<PathBuf>,
    },
    Directory,
}

impl FoundEntry {
    /// What belongs to it: whether a link leads anywhere does not.
    pub fn own(&self) -> Self {
        match self {
            Self::Symlink { target, .. } => Self::Symlink {
                target: target.clone(),
                leads_to: None,
            },
            own => own.clone(),
        }
    }
}

#[derive(Clone, PartialEq)]
pub struct FoundFile {
    pub inode: u64,
    pub bytes: Vec<u8>,
    pub properties: Properties,
    /// Seconds and ns since 1970.
    pub modified: (i64, i64),
}

/// Owner, mode and extended attributes of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    pub owner: u32,
    pub mode: u32,
    pub attributes: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for FoundFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.bytes[..self.bytes.len().min(6 * MARK_BYTES)].escape_ascii();
        write!(out, "inode {}, {} B {start}, ", self.inode, self.bytes.len())?;
        write!(out, "{:?}, {:?}", self.properties, self.modified)
    }
}

/// Makes the tree of a trial, and the directories that all trials have.
pub fn make_tree(tree: &FileTree, directory: &Path) -> Result<()> {
    let names = tree.directories.iter().map(String::as_str);
    for name in [YARD, DECOYS, MOVED].into_iter().chain(names) {
        fs::create_dir(directory.join(name))?;
    }
    for entry in &tree.entries {
        let path = directory.join(&entry.path);
        match &entry.made {
            Made::File { content, given } => {
                write_file(&path, &tree.contents[*content].bytes, tree.is_sparse)?;
                give(given, &path)?;
            }
            Made::Name(first) => fs::hard_link(directory.join(&tree.entries[*first].path), path)?,
            Made::Symlink(target) => symlink(target, path)?,
        }
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8], is_sparse: bool) -> Result<()> {
    let file = File::create_new(path)?;
    file.set_len(bytes.len() as u64)?;
    for (number, block) in bytes.chunks(4096).enumerate() {
        if !is_sparse || block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, number as u64 * 4096)?;
        }
    }
    Ok(())
}

fn give(given: &Given, path: &Path) -> Result<()> {
    if let Some(value) = given.extended {
        setxattr(path, "user.ours", &[value], XattrFlags::empty())?;
    }
    if given.owner != 0 {
        chown(path, Some(given.owner), None)?;
    }
    fs::set_permissions(path, Permissions::from_mode(given.mode))?;
    if let Some((seconds, more)) = given.modified {
        let since = Duration::from_secs(seconds.unsigned_abs());
        let whole = if seconds < 0 {
            UNIX_EPOCH - since
        } else {
            UNIX_EPOCH + since
        };
        let times = FileTimes::new().set_modified(whole + Duration::from_nanos(more.into()));
        File::open(path)?.set_times(times)?;
    }
    Ok(())
}

/// All that is in the directory of a trial, its journals apart.
pub fn files_in(directory: &Path) -> Result<FilesByPath> {
    let mut found = FilesByPath::new();
    for name in ["tree", MOVED, YARD, DECOYS] {
        read_into(&mut found, directory, &directory.join(name))?;
    }
    Ok(found)
}

fn read_into(found: &mut FilesByPath, base: &Path, directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        let one = if metadata.is_dir() {
            read_into(found, base, &path)?;
            FoundEntry::Directory
        } else if metadata.is_symlink() {
            let leads_to = match fs::canonicalize(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                leads_to => leads_to.ok(),
            };
            FoundEntry::Symlink {
                target: fs::read_link(&path)?,
                leads_to: leads_to.and_then(|path| Some(path.strip_prefix(base).ok()?.to_owned())),
            }
        } else {
            FoundEntry::File(FoundFile {
                inode: metadata.ino(),
                bytes: fs::read(&path)?,
                properties: properties(&path, &metadata)?,
                modified: (metadata.mtime(), metadata.mtime_nsec()),
            })
        };
        found.insert(path.strip_prefix(base)?.to_owned(), one);
    }
    Ok(())
}

fn properties(path: &Path, metadata: &fs::Metadata) -> Result<Properties> {
    let mut names = vec![0_u8; 4096];
    let length = listxattr(path, &mut names[..])?;
    let mut attributes = BTreeMap::new();
    for name in names[..length].split(|&byte| byte == 0) {
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with("user.") {
            let mut value = vec![0_u8; 256];
            let length = getxattr(path, &name, &mut value[..])?;
            value.truncate(length);
            attributes.insert(name, value);
        }
    }
    Ok(Properties {
        owner: metadata.uid(),
        mode: metadata.mode() & 0o7777,
        attributes,
    })
}

/// The files among all that was found.
pub fn files(among: &FilesByPath) -> impl Iterator<Item = (&Path, &FoundFile)> {
    among.iter().filter_map(|(path, found)| match found {
        FoundEntry::File(file) => Some((path.as_path(), file)),
        _ => None,
    })
}

/// The file with a path.
pub fn file<'f>(among: &'f FilesByPath, path: &Path) -> Option<&'f FoundFile> {
    match among.get(path) {
        Some(FoundEntry::File(file)) => Some(file),
        _ => None,
    }
}
