//! Which files a walk is to find, and which directories it is to enter.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::bytes::Regex;

use super::Facts;

/// Which files are wanted: all conditions must hold.
#[derive(Debug)]
pub struct Filter {
    /// Their sizes.
    pub bytes: RangeInclusive<u64>,
    /// When they were last written to, in seconds since 1970.
    pub modified: RangeInclusive<i64>,
    /// Their owner; `None` for any owner.
    pub owner: Option<u32>,
    /// Maximum number of directories between the root and a file.
    pub depth: usize,
    /// At least one of these matches, if there are any.
    pub include: Globs,
    /// None of these matches, nor the name or path of a directory above.
    pub exclude: Globs,
    /// This matches the path.
    pub regex: Option<Regex>,
    /// Trash directories and snapshots are entered, too.
    pub everything: bool,
    /// Symbolic links in directories are followed, too.
    pub follows_links: bool,
    /// What `.gitignore` and `.ignore` name is left out.
    pub heeds_ignore_files: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            bytes: 0..=u64::MAX,
            modified: i64::MIN..=i64::MAX,
            owner: None,
            depth: usize::MAX,
            include: Globs::default(),
            exclude: Globs::default(),
            regex: None,
            everything: false,
            follows_links: false,
            heeds_ignore_files: false,
        }
    }
}

/// Globs: those with a slash match paths below the root, the others match names.
#[derive(Debug, Default)]
pub struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Globs {
    /// Parses globs: `*` and `?` match no slash, `**` matches any directories.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn new(globs: &[impl AsRef<str>]) -> Result<Self, globset::Error> {
        let [mut names, mut paths] = [GlobSetBuilder::new(), GlobSetBuilder::new()];
        for glob in globs {
            let glob = glob.as_ref();
            let which = if glob.contains('/') { &mut paths } else { &mut names };
            which.add(
                GlobBuilder::new(glob.trim_start_matches('/'))
                    .literal_separator(true)
                    .build()?,
            );
        }
        Ok(Self {
            names: names.build()?,
            paths: paths.build()?,
        })
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty()
    }

    fn match_any(&self, entry: &Named<'_>) -> bool {
        (!self.names.is_empty() && self.names.is_match(entry.name))
            || (!self.paths.is_empty() && self.paths.is_match((entry.path)()))
    }
}

/// An entry, by its name and its path from the root on.
pub(super) struct Named<'a> {
    pub name: &'a Path,
    pub path: &'a dyn Fn() -> PathBuf,
}

/// Names of trash directories and of directories of snapshots.
const TRASH_AND_SNAPSHOTS: [&str; 6] = ["$RECYCLE.BIN", ".Trash", ".Trashes", ".snapshot", ".snapshots", ".zfs"];

impl Filter {
    pub(super) fn wants(&self, entry: &Named<'_>, facts: &Facts) -> bool {
        self.bytes.contains(&facts.bytes)
            && self.modified.contains(&facts.modified.0)
            && self.owner.is_none_or(|owner| owner == facts.owner)
            && (self.include.is_empty() || self.include.match_any(entry))
            && !self.exclude.match_any(entry)
            && self
                .regex
                .as_ref()
                .is_none_or(|regex| regex.is_match((entry.path)().as_os_str().as_encoded_bytes()))
    }

    /// Whether a directory with `above` directories above it is entered, judging by its name and path.
    pub(super) fn enters(&self, entry: &Named<'_>, above: usize) -> bool {
        above < self.depth && !self.exclude.match_any(entry)
    }

    /// Whether a directory is left out by default: trash or snapshots.
    pub(super) fn leaves_out(&self, entry: &Named<'_>) -> bool {
        !self.everything && is_trash(entry.name, || (entry.path)())
    }
}

/// Whether a directory of this name holds trash or snapshots.
fn is_trash(name: &Path, path: impl FnOnce() -> PathBuf) -> bool {
    name.to_str().is_some_and(|name| {
        TRASH_AND_SNAPSHOTS.contains(&name)
            || name
                .strip_prefix(".Trash-")
                .is_some_and(|user| user.parse::<u32>().is_ok())
            || (name == "Trash" && path().ends_with(".local/share/Trash"))
    })
}

/// Whether a directory, or one above it, holds trash or snapshots.
pub(crate) fn is_in_trash(directory: &Path) -> bool {
    let mut all = directory.ancestors();
    all.any(|directory| {
        let name = directory.file_name().map(Path::new);
        name.is_some_and(|name| is_trash(name, || directory.to_owned()))
    })
}
