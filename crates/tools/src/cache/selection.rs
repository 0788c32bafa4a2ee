//! Which files a job is about: the paths that were named, and the walk through those that are folders.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::{Identity, kind_of};
use walkdir::{DirEntry, WalkDir};

/// Files and folders that were named, found good before anything is touched.
#[derive(Debug)]
pub struct Selection {
    roots: Vec<Root>,
    ids: HashSet<Identity>,
    other_file_systems: bool,
}

/// A path that was named.
#[derive(Debug)]
pub(crate) struct Root {
    pub path: PathBuf,
    pub is_folder: bool,
    device: u64,
}

/// Whether the file system of a path gives no two files one [`Identity`]. FUSE may, where it shows files of several others.
pub(crate) fn is_sure(path: &Path) -> bool {
    seekless_sys::file_system(path).is_ok_and(|found| found.inodes_identify)
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
    #[error("{}: is {kind}; name a regular file or a folder", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is, as in `a FIFO`.
        kind: &'static str,
    },
}

impl Selection {
    /// Looks at all paths, links followed. What is named twice counts once. Folders of other file systems below a folder
    /// are entered only where `other_file_systems` says so. Nothing is opened.
    ///
    /// # Errors
    /// The first path that is neither a regular file nor a folder, or cannot be looked at.
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
                let kind = kind_of(metadata.file_type());
                return Err(SelectionError::Kind { path, kind });
            }
            if selection.ids.insert(Identity::of(&metadata)) || !is_sure(&path) {
                selection.roots.push(Root {
                    path,
                    is_folder: metadata.is_dir(),
                    device: metadata.dev(),
                });
            }
        }
        Ok(selection)
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Whether a file was named itself: then it is not counted with a folder that it is in.
    pub(crate) fn is_named(&self, id: Identity, path: &Path) -> bool {
        self.ids.contains(&id) && is_sure(path)
    }

    /// All that is to be done below a path that was named, in the order in which the system lists it.
    pub(crate) fn walk<'a>(&'a self, root: &'a Root) -> impl Iterator<Item = Found> + 'a {
        let mut walk = WalkDir::new(&root.path).into_iter();
        std::iter::from_fn(move || {
            loop {
                let entry = match walk.next()? {
                    Ok(entry) => entry,
                    Err(error) => return Some(failure(&error)),
                };
                // What was named is what was looked at before, a link's target included.
                if entry.depth() == 0 {
                    if root.is_folder {
                        continue;
                    }
                    return Some(Found::File(entry.into_path()));
                }
                let kind = entry.file_type();
                if kind.is_dir() {
                    match self.skips(root, &entry) {
                        None => continue,
                        Some(found) => {
                            walk.skip_current_dir();
                            return Some(found);
                        }
                    }
                }
                return Some(match () {
                    () if kind.is_symlink() => Found::Link,
                    () if kind.is_file() => Found::File(entry.into_path()),
                    () => Found::Special,
                });
            }
        })
    }

    /// Why a folder below a root is not entered, if so.
    fn skips(&self, root: &Root, entry: &DirEntry) -> Option<Found> {
        // One that cannot be looked at will say so when it is listed.
        let metadata = entry.metadata().ok()?;
        if self.is_named(Identity::of(&metadata), entry.path()) {
            return Some(Found::Repeated);
        }
        (metadata.dev() != root.device && !self.other_file_systems).then_some(Found::OtherFileSystem)
    }
}

/// What a walk comes upon.
#[derive(Debug)]
pub(crate) enum Found {
    /// A regular file.
    File(PathBuf),
    /// A symbolic link.
    Link,
    /// A FIFO, a socket, a device.
    Special,
    /// The mount point of another file system.
    OtherFileSystem,
    /// A folder that was named itself.
    Repeated,
    /// What could not be listed, and why.
    Failed(PathBuf, String),
}

fn failure(error: &walkdir::Error) -> Found {
    let path = error.path().unwrap_or(Path::new("")).to_owned();
    let reason = match error.io_error() {
        Some(reason) => format!("listing it failed: {reason}"),
        None => error.to_string(),
    };
    Found::Failed(path, reason)
}
