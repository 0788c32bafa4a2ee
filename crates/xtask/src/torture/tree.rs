//! The files of a trial: what a path leads to, making that, and reading what is there before and afterwards.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};

use super::disturb::MARK_BYTES;

/// The directory that commands are run on. A trial has others beside it.
pub const TREE: &str = "tree";
/// The directory that files are moved to.
pub const MOVED: &str = "to";
/// Where what others move away goes.
pub const YARD: &str = "yard";
/// Directories that stand in for others.
pub const DECOYS: &str = "decoys";
/// The name of a directory that counts as trash.
pub const TRASH: &str = ".Trash-0";
/// Journals of actions.
pub const STATE: &str = "state";

/// The files in the directory of a trial, by their paths in it.
pub type FileTree = BTreeMap<PathBuf, TreeEntry>;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeEntry {
    File(TreeFile),
    Symlink {
        target: PathBuf,
        /// Those of the file that it leads to.
        bytes: Option<Arc<[u8]>>,
    },
    Directory,
}

#[derive(Clone, PartialEq)]
pub struct TreeFile {
    /// All names of a file have the same.
    pub inode: u64,
    pub bytes: Arc<[u8]>,
    pub properties: Properties,
    /// In a plan, none is the time of making it.
    pub modified: Option<SystemTime>,
}

/// Owner, mode and extended attributes of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    pub owner: u32,
    pub mode: u32,
    pub attributes: BTreeMap<String, Vec<u8>>,
}

impl TreeEntry {
    /// What belongs to it: whether a link leads anywhere does not.
    pub fn own(&self) -> Self {
        let mut own = self.clone();
        if let Self::Symlink { bytes, .. } = &mut own {
            *bytes = None;
        }
        own
    }
}

impl fmt::Debug for TreeFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.bytes[..self.bytes.len().min(6 * MARK_BYTES)].escape_ascii();
        write!(out, "inode {}, {} B {start}, ", self.inode, self.bytes.len())?;
        write!(out, "{:?}, {:?}", self.properties, self.modified)
    }
}

/// Makes the files of a tree. Blocks of zeros are holes if it is sparse.
pub fn make_tree(tree: &FileTree, is_sparse: bool, directory: &Path) -> Result<()> {
    let mut made = HashMap::new();
    for (path, entry) in tree {
        let path = directory.join(path);
        match entry {
            TreeEntry::Directory => fs::create_dir(path)?,
            TreeEntry::Symlink { target, .. } => symlink(target, path)?,
            TreeEntry::File(file) => {
                if let Some(first) = made.get(&file.inode) {
                    fs::hard_link(first, path)?;
                } else {
                    make_file(file, is_sparse, &path)?;
                    made.insert(file.inode, path);
                }
            }
        }
    }
    Ok(())
}

fn make_file(wanted: &TreeFile, is_sparse: bool, path: &Path) -> Result<()> {
    let file = File::create_new(path)?;
    file.set_len(wanted.bytes.len() as u64)?;
    for (number, block) in wanted.bytes.chunks(4096).enumerate() {
        if !is_sparse || block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, number as u64 * 4096)?;
        }
    }
    let Properties {
        owner,
        mode,
        attributes,
    } = &wanted.properties;
    for (name, value) in attributes {
        setxattr(path, name, value, XattrFlags::empty())?;
    }
    chown(path, Some(*owner), None)?;
    fs::set_permissions(path, Permissions::from_mode(*mode))?;
    if let Some(modified) = wanted.modified {
        file.set_times(FileTimes::new().set_modified(modified))?;
    }
    Ok(())
}

/// All that is in the directory of a trial, its journals apart.
pub fn read_tree(directory: &Path) -> Result<FileTree> {
    let mut tree = FileTree::new();
    read_into(&mut tree, directory, directory)?;
    Ok(tree)
}

fn read_into(tree: &mut FileTree, base: &Path, directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        let name = path.strip_prefix(base)?;
        if name == Path::new(STATE) {
            continue;
        }
        let entry = if metadata.is_dir() {
            read_into(tree, base, &path)?;
            TreeEntry::Directory
        } else if metadata.is_symlink() {
            TreeEntry::Symlink {
                target: fs::read_link(&path)?,
                bytes: fs::read(&path).ok().map(Arc::from),
            }
        } else {
            TreeEntry::File(TreeFile {
                inode: metadata.ino(),
                bytes: fs::read(&path)?.into(),
                properties: properties(&path, &metadata)?,
                modified: metadata.modified().ok(),
            })
        };
        tree.insert(name.to_owned(), entry);
    }
    Ok(())
}

fn properties(path: &Path, metadata: &fs::Metadata) -> Result<Properties> {
    let mut names = vec![0_u8; 4096];
    let length = listxattr(path, &mut names[..])?;
    let mut attributes = BTreeMap::new();
    let names = String::from_utf8_lossy(&names[..length]);
    for name in names.split('\0').filter(|name| name.starts_with("user.")) {
        let mut value = vec![0_u8; 256];
        let length = getxattr(path, name, &mut value[..])?;
        attributes.insert(name.to_owned(), value[..length].to_vec());
    }
    Ok(Properties {
        owner: metadata.uid(),
        mode: metadata.mode() & 0o7777,
        attributes,
    })
}

/// The files in a directory of a tree.
pub fn files<'t>(tree: &'t FileTree, directory: &str) -> impl Iterator<Item = (&'t Path, &'t TreeFile)> {
    tree.iter().filter_map(move |(path, entry)| match entry {
        TreeEntry::File(file) if path.starts_with(directory) => Some((path.as_path(), file)),
        _ => None,
    })
}

/// The file with a path.
pub fn file<'t>(tree: &'t FileTree, path: &Path) -> Option<&'t TreeFile> {
    match tree.get(path) {
        Some(TreeEntry::File(file)) => Some(file),
        _ => None,
    }
}

pub fn is_in_trash(path: &Path) -> bool {
    path.iter().any(|name| name == TRASH)
}
