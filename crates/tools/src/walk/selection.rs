//! The files of a job: the paths that the user named, and walks of directories among them.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, Metadata};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::Identity;
use seekless_sys::{FileSystem, file_system, inodes_identify};

use super::{Walk, kind_of, with_article};
use crate::Stop;

/// Files and directories that the user named.
#[derive(Debug)]
pub struct Selection {
    roots: Vec<Root>,
    ids: HashSet<Identity>,
    pub(super) other_file_systems: bool,
}

/// A path that the user named.
#[derive(Debug)]
pub(crate) struct Root {
    pub path: PathBuf,
    /// Its place among those that were named.
    pub number: u32,
    pub is_directory: bool,
    pub(super) device: u64,
    pub(super) system: System,
    /// Why nothing can be done with it.
    pub(super) refused: Option<String>,
}

/// What a file system is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Whether no two files have one inode number.
    pub inodes_identify: bool,
    /// Whether files may share blocks.
    pub may_share: bool,
    pub is_overlay: bool,
    pub(super) is_pseudo: bool,
    pub(super) is_btrfs: bool,
}

impl System {
    pub(super) fn of(found: &FileSystem) -> Self {
        Self {
            inodes_identify: found.inodes_identify,
            may_share: SHARING.contains(&found.type_name.as_str()),
            is_overlay: found.type_name == "overlay",
            is_pseudo: found.is_pseudo,
            is_btrfs: found.type_name == "btrfs",
        }
    }
}

/// File systems that have reflinks or snapshots, or show files of those that have.
const SHARING: [&str; 5] = ["btrfs", "xfs", "bcachefs", "ocfs2", "overlay"];

impl Root {
    /// Its path, as the name of a directory.
    pub(super) fn name(&self) -> CString {
        CString::new(self.path.as_os_str().as_bytes()).unwrap_or_default()
    }
}

/// Whether the file system of an open file gives no two files one [`Identity`]. FUSE may, where it shows files of several
/// others.
pub(crate) fn is_sure(file: impl AsFd) -> bool {
    inodes_identify(file).unwrap_or(false)
}

impl Selection {
    /// Stats all paths, following links, but opens nothing. A path that is named twice counts once.
    /// `other_file_systems` sets whether directories of other file systems are entered. A path that is missing, neither
    /// a regular file nor a directory, or not on a storage file system (`/proc`) fails when its turn comes; the others
    /// are processed.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, other_file_systems: bool) -> Self {
        let mut selection = Self {
            roots: Vec::new(),
            ids: HashSet::new(),
            other_file_systems,
        };
        for (number, path) in (0..).zip(paths) {
            let mut root = Root {
                path: path.as_ref().to_owned(),
                number,
                is_directory: false,
                device: 0,
                system: System::default(),
                refused: None,
            };
            match look(&root.path) {
                Ok((metadata, system)) => {
                    if !selection.ids.insert(Identity::of(&metadata)) && system.inodes_identify {
                        continue;
                    }
                    root.is_directory = metadata.is_dir();
                    root.device = metadata.dev();
                    root.system = System::of(&system);
                }
                Err(reason) => root.refused = Some(reason),
            }
            selection.roots.push(root);
        }
        selection
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Whether a file with this identity was named itself; then it does not count again in its directory.
    pub(crate) fn contains(&self, id: Identity) -> bool {
        self.ids.contains(&id)
    }

    /// Walks the files at or below a path that was named, in the order in which the system lists them, until the job
    /// stops.
    pub(crate) fn walk<'a>(&'a self, root: &'a Root, stop: &'a Stop) -> Walk<'a> {
        Walk::new(self, root, stop)
    }
}

/// The metadata and file system of a path, or why it is refused.
fn look(path: &Path) -> Result<(Metadata, FileSystem), String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot stat: {error}"))?;
    if !metadata.is_file() && !metadata.is_dir() {
        let kind = with_article(kind_of(&metadata));
        return Err(format!("is {kind}; name a regular file or a directory"));
    }
    let system = file_system(path).map_err(|error| format!("cannot stat its file system: {error}"))?;
    if system.is_pseudo {
        return Err(format!("not a storage file system ({})", system.type_name));
    }
    Ok((metadata, system))
}
