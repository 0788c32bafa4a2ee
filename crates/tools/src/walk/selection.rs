//! Which files a job is about: the paths that were named, and the walk through those that are directories.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::Identity;
use seekless_sys::{file_system, inodes_identify};

use super::{Walk, kind_of, with_article};
use crate::Stop;

/// Files and directories that were named, found good before anything is touched.
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
}

/// Whether the file system of an open file gives no two files one [`Identity`]. FUSE may, where it shows files of several
/// others.
pub(crate) fn is_sure(file: impl AsFd) -> bool {
    inodes_identify(file).unwrap_or(false)
}

/// Why a path cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The system does not show it.
    #[error("{}: cannot stat", path.display())]
    Look {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It has no pages of its own in the page cache that could be told or dropped by its name.
    #[error("{}: is {kind}; name a regular file or a directory", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a FIFO`.
        kind: &'static str,
    },
}

impl Selection {
    /// Looks at all paths, links followed. What is named twice counts once. Directories of other file systems below a
    /// directory are entered only where `other_file_systems` says so. Nothing is opened.
    ///
    /// # Errors
    /// The first path that is neither a regular file nor a directory, or cannot be looked at.
    pub fn new<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
        other_file_systems: bool,
    ) -> Result<Self, SelectionError> {
        let mut selection = Self {
            roots: Vec::new(),
            ids: HashSet::new(),
            other_file_systems,
        };
        for path in paths {
            let path = path.as_ref().to_owned();
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                Err(source) => return Err(SelectionError::Look { path, source }),
            };
            if !metadata.is_file() && !metadata.is_dir() {
                let kind = with_article(kind_of(&metadata));
                return Err(SelectionError::Kind { path, kind });
            }
            if selection.ids.insert(Identity::of(&metadata))
                || !file_system(&path).is_ok_and(|found| found.inodes_identify)
            {
                selection.roots.push(Root {
                    path,
                    is_directory: metadata.is_dir(),
                    device: metadata.dev(),
                });
            }
        }
        Ok(selection)
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
