//! Which files a job is about: the paths that were named, and the walk through those that are directories.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::Identity;
use seekless_sys::{FileSystem, file_system, inodes_identify};

use super::{Walk, kind_of, with_article};
use crate::Stop;

/// Files and directories that were named.
#[derive(Debug)]
pub struct Selection {
    roots: Vec<Root>,
    ids: HashSet<Identity>,
    pub(super) other_file_systems: bool,
}

/// A path that was named.
#[derive(Debug)]
pub(crate) struct Root {
    pub path: PathBuf,
    pub is_directory: bool,
    pub(super) device: u64,
    /// Why nothing can be done with it.
    pub(super) refused: Option<String>,
}

/// Whether the file system of an open file gives no two files one [`Identity`]. FUSE may, where it shows files of several
/// others.
pub(crate) fn is_sure(file: impl AsFd) -> bool {
    inodes_identify(file).unwrap_or(false)
}

impl Selection {
    /// Looks at all paths, links followed. What is named twice counts once. Directories of other file systems below a
    /// directory are entered only where `other_file_systems` says so. Nothing is opened. A path that is missing, neither a
    /// regular file nor a directory, or on no storage file system (`/proc`) fails in its turn, and the rest goes on.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, other_file_systems: bool) -> Self {
        let mut selection = Self {
            roots: Vec::new(),
            ids: HashSet::new(),
            other_file_systems,
        };
        for path in paths {
            let path = path.as_ref().to_owned();
            let mut root = Root {
                path,
                is_directory: false,
                device: 0,
                refused: None,
            };
            match look(&root.path) {
                Ok((metadata, system)) => {
                    if !selection.ids.insert(Identity::of(&metadata)) && system.inodes_identify {
                        continue;
                    }
                    root.is_directory = metadata.is_dir();
                    root.device = metadata.dev();
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

    /// Whether a file of this identity was named itself: then it is not counted with a directory that it is in.
    pub(crate) fn contains(&self, id: Identity) -> bool {
        self.ids.contains(&id)
    }

    /// All that is to be done below a path that was named, in the order in which the system lists it, until all is to stop.
    pub(crate) fn walk<'a>(&'a self, root: &'a Root, stop: &'a Stop) -> Walk<'a> {
        Walk::new(self, root, stop)
    }
}

/// What a path that was named leads to, or why nothing can be done with it.
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
