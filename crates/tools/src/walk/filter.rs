//! Which files a walk is to find, and which directories it is to enter.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::RegexSet;
use regex::bytes::Regex;
use seekless_engine::walk::StatFacts;

use super::pattern::regex_of;

/// Which files are wanted: all conditions must hold.
#[derive(Debug)]
pub struct Filter {
    /// Their sizes.
    pub bytes: RangeInclusive<u64>,
    /// When they were last written to, in seconds since 1970.
    pub modified: RangeInclusive<i64>,
    /// Their owner; `None` for any owner.
    pub owner: Option<u32>,
    /// Their numbers of hard links.
    pub links: RangeInclusive<u64>,
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
            links: 0..=u64::MAX,
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
    /// Patterns of names as those of diff.
    diff_names: RegexSet,
    /// As they were written: those of names, then those of paths; and whether each has matched.
    written: Vec<(String, AtomicBool)>,
    /// Whether all have.
    have_matched: AtomicBool,
}

impl Globs {
    /// Parses globs: `*` and `?` match no slash, `**` matches any directories. A first `./` and a last slash mean nothing. What
    /// begins with the path of a root, as it was given or absolute, is below that root.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn new(globs: &[impl AsRef<str>], roots: &[PathBuf]) -> Result<Self, globset::Error> {
        let roots: Vec<PathBuf> = (roots.iter())
            .flat_map(|root| [Some(plain_path(root)), std::fs::canonicalize(root).ok()])
            .flatten()
            .filter(|root| !root.as_os_str().is_empty())
            .collect();
        let [mut names, mut paths] = [GlobSetBuilder::new(), GlobSetBuilder::new()];
        let [mut of_names, mut of_paths] = [Vec::new(), Vec::new()];
        for written in globs.iter().map(AsRef::as_ref) {
            let whole = expanded(Path::new(written.trim_start_matches("./").trim_end_matches('/')));
            let below = roots.iter().filter_map(|root| whole.strip_prefix(root).ok()?.to_str());
            let all = below.map(|rest| (rest.to_owned(), true));
            let is_path = written.starts_with("./") || whole.components().count() > 1;
            let own = (whole.to_string_lossy().into_owned(), is_path);
            for (glob, is_path) in all.chain([own]).filter(|(glob, _)| !glob.is_empty()) {
                let (which, texts) = if is_path {
                    (&mut paths, &mut of_paths)
                } else {
                    (&mut names, &mut of_names)
                };
                let glob = glob.trim_start_matches('/');
                which.add(GlobBuilder::new(glob).literal_separator(true).build()?);
                texts.push((written.to_owned(), AtomicBool::new(false)));
            }
        }
        of_names.extend(of_paths);
        Ok(Self {
            names: names.build()?,
            paths: paths.build()?,
            diff_names: RegexSet::empty(),
            written: of_names,
            have_matched: AtomicBool::new(false),
        })
    }

    /// The same, but patterns without a slash match the names that those of `diff -x` do. As there, one with a slash at its
    /// end alone matches nothing: `*/` does not skip all files.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn as_diff(patterns: &[impl AsRef<str>], roots: &[PathBuf]) -> io::Result<Self> {
        let is_path = |pattern: &&str| pattern.trim_end_matches('/').contains('/');
        let (of_paths, of_names): (Vec<&str>, Vec<&str>) = patterns.iter().map(AsRef::as_ref).partition(is_path);
        let of_names = of_names.into_iter().filter(|pattern| !pattern.ends_with('/'));
        Ok(Self {
            diff_names: RegexSet::new(of_names.map(regex_of)).map_err(io::Error::other)?,
            ..Self::new(&of_paths, roots).map_err(io::Error::other)?
        })
    }

    /// Those that have matched nothing yet, as they were written.
    #[must_use]
    pub fn unmatched(&self) -> Vec<&str> {
        let has_matched = |text: &str| {
            let mut forms = self.written.iter().filter(|(written, _)| written == text);
            forms.any(|(_, has_matched)| has_matched.load(Ordering::Relaxed))
        };
        let mut unmatched: Vec<&str> = self.written.iter().map(|(text, _)| text.as_str()).collect();
        unmatched.dedup();
        unmatched.retain(|text| !has_matched(text));
        unmatched
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty() && self.diff_names.is_empty()
    }

    /// Whether one of them matches.
    pub(crate) fn match_any(&self, entry: &Named<'_>) -> bool {
        if !self.diff_names.is_empty() && self.diff_names.is_match(&entry.name.to_string_lossy()) {
            return true;
        }
        let path = || (!self.paths.is_empty()).then(|| (entry.path)());
        if self.have_matched.load(Ordering::Relaxed) {
            return self.names.is_match(entry.name) || path().is_some_and(|path| self.paths.is_match(path));
        }
        let names = self.names.matches(entry.name);
        let paths = path().map_or_else(Vec::new, |path| self.paths.matches(path));
        for at in names
            .iter()
            .copied()
            .chain(paths.iter().map(|at| self.names.len() + at))
        {
            self.written[at].1.store(true, Ordering::Relaxed);
        }
        let are_all = self
            .written
            .iter()
            .all(|(_, has_matched)| has_matched.load(Ordering::Relaxed));
        self.have_matched.store(are_all, Ordering::Relaxed);
        !names.is_empty() || !paths.is_empty()
    }
}

/// An entry, by its name and its path from the root on.
pub(crate) struct Named<'a> {
    pub name: &'a Path,
    pub path: &'a dyn Fn() -> PathBuf,
}

/// A path with the home directory in the place of a first `~`, which a shell leaves behind a colon.
#[must_use]
pub fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// A path without `.`, empty names and a last slash.
#[must_use]
pub fn plain_path(path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.collect()
}

/// Names of trash directories and of directories of snapshots.
/// What the names of directories begin with to which files are moved that could not be removed safely.
pub(crate) const ASIDE: &str = ".seekless-trash-";

const TRASH_AND_SNAPSHOTS: [&str; 6] = ["$RECYCLE.BIN", ".Trash", ".Trashes", ".snapshot", ".snapshots", ".zfs"];

impl Filter {
    pub(super) fn wants(&self, entry: &Named<'_>, facts: &StatFacts) -> bool {
        self.bytes.contains(&facts.bytes)
            && self.modified.contains(&facts.modified.0)
            && self.owner.is_none_or(|owner| owner == facts.owner)
            && self.links.contains(&facts.names)
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
            || name.starts_with(ASIDE)
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
