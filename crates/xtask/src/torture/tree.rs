//! The files of a trial: what a path leads to, making that, and reading what is there.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};

/// The directory that commands work on. A trial has others beside it.
pub const TREE: &str = "tree";
/// The copy of that directory.
pub const COPY: &str = "copy";
/// Where duplicates are moved to.
pub const MOVED: &str = "to";
/// The directory for `XDG_DATA_HOME`, with the trash.
pub const DATA: &str = "data";
/// The directory for `XDG_STATE_HOME`, with the journals of actions.
pub const STATE: &str = "state";
/// Where other processes keep what lost its name.
pub const YARD: &str = "yard";

/// The extended attribute with the access control list.
pub const ACL: &str = "system.posix_acl_access";

/// The files in the directory of a trial, by their paths in it.
pub type FileTree = BTreeMap<PathBuf, TreeEntry>;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeEntry {
    pub attributes: FileAttributes,
    pub modified: SystemTime,
    /// One path for all names of a file.
    pub first: PathBuf,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Directory,
    Symlink(PathBuf),
    File(Arc<[u8]>),
}

/// Owner, mode, extended attributes of users and access control list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileAttributes {
    pub owner: u32,
    pub mode: u32,
    pub extended: BTreeMap<String, Vec<u8>>,
}

impl TreeEntry {
    /// The bytes of a file.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Bytes for a place of a file.
#[derive(Clone, Debug)]
pub struct Patch {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

impl Patch {
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

/// The bytes with all patches.
pub fn patched(bytes: &[u8], patches: &[Patch]) -> Vec<u8> {
    let mut after = bytes.to_vec();
    for patch in patches {
        after.resize(after.len().max(patch.end()), 0);
        after[patch.offset..patch.end()].copy_from_slice(&patch.bytes);
    }
    after
}

/// The files in a directory of a tree, and their bytes.
pub fn files<'t>(tree: &'t FileTree, directory: &str) -> impl Iterator<Item = (&'t Path, &'t [u8])> {
    let inside = tree.iter().filter(move |(path, _)| path.starts_with(directory));
    inside.filter_map(|(path, entry)| Some((path.as_path(), entry.bytes()?)))
}

/// Makes the files of a tree. Blocks of zeros are holes if it is sparse.
pub fn make_tree(tree: &FileTree, is_sparse: bool, directory: &Path) -> Result<()> {
    let mut made: HashMap<&Path, PathBuf> = HashMap::new();
    for (path, entry) in tree {
        let path = directory.join(path);
        match (&entry.content, made.get(&*entry.first)) {
            (Content::Directory, _) => fs::create_dir(path)?,
            (Content::Symlink(target), _) => symlink(target, path)?,
            (Content::File(_), Some(first)) => fs::hard_link(first, path)?,
            (Content::File(bytes), None) => {
                make_file(bytes, entry, is_sparse, &path)?;
                made.insert(&entry.first, path);
            }
        }
    }
    Ok(())
}

fn make_file(bytes: &[u8], entry: &TreeEntry, is_sparse: bool, path: &Path) -> Result<()> {
    let file = File::create_new(path)?;
    file.set_len(bytes.len() as u64)?;
    for (block, offset) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        if !is_sparse || block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, offset)?;
        }
    }
    for (name, value) in &entry.attributes.extended {
        setxattr(path, name, value, XattrFlags::empty()).with_context(|| format!("cannot set {name}"))?;
    }
    chown(path, Some(entry.attributes.owner), None)?;
    fs::set_permissions(path, Permissions::from_mode(entry.attributes.mode))?;
    Ok(file.set_times(FileTimes::new().set_modified(entry.modified))?)
}

/// Reads all that is in the directory of a trial, except journals and what is written of files in the trash.
pub fn read_tree(directory: &Path) -> Result<FileTree> {
    let (mut tree, mut firsts) = (FileTree::new(), HashMap::new());
    read_into(&mut tree, &mut firsts, directory, directory)?;
    Ok(tree)
}

fn read_into(tree: &mut FileTree, firsts: &mut HashMap<u64, PathBuf>, base: &Path, directory: &Path) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(base)?.to_owned();
        if name == Path::new(STATE) || name == Path::new("data/Trash/info") {
            continue;
        }
        let metadata = fs::symlink_metadata(&path)?;
        let content = if metadata.is_dir() {
            Content::Directory
        } else if metadata.is_symlink() {
            Content::Symlink(fs::read_link(&path)?)
        } else {
            Content::File(fs::read(&path)?.into())
        };
        let attributes = FileAttributes {
            owner: metadata.uid(),
            mode: metadata.mode() & 0o7777,
            extended: extended_attributes(&path)?,
        };
        let first = firsts.entry(metadata.ino()).or_insert_with(|| name.clone()).clone();
        let modified = metadata.modified()?;
        let entry = TreeEntry {
            attributes,
            modified,
            first,
            content,
        };
        tree.insert(name, entry);
        if metadata.is_dir() {
            read_into(tree, firsts, base, &path)?;
        }
    }
    Ok(())
}

fn extended_attributes(path: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut names = [0_u8; 4096];
    let length = llistxattr(path, &mut names)?;
    let names = String::from_utf8_lossy(&names[..length]);
    let ours = names
        .split('\0')
        .filter(|name| name.starts_with("user.") || *name == ACL);
    let value = |name: &str| {
        let mut value = [0_u8; 256];
        let length = lgetxattr(path, name, &mut value)?;
        Ok((name.to_owned(), value[..length].to_vec()))
    };
    ours.map(value).collect()
}
