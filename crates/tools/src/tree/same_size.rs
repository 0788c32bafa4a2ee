//! How often large files of one size are equal, in one tree: the question that decides whether comparing files pays that
//! are to be found equal or different.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seekless::batch::{Each, Failed, Heads};
use seekless::facts::ProcessFacts;
use seekless::files::Identity;
use seekless::plan;
use serde::Serialize;
use walkdir::WalkDir;

use super::look::Facts;
use super::pair::{Compared, Means, Opened};
use super::{Control, Kind, Options, TreeError, What};
use crate::cache::selection::is_sure;
use crate::tree::large::Large;

/// Smaller files are not asked about.
pub const SMALLEST_BYTES: u64 = 1 << 20;

/// How often files of one size are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SameSize {
    /// Files of [`SMALLEST_BYTES`] and more, each with several names once.
    pub files: u64,
    /// Sizes that several of them have.
    pub sizes: u64,
    /// Pairs that were compared: of each size the first with every other.
    pub pairs: u64,
    /// How many of these are equal.
    pub equal_pairs: u64,
    /// Bytes that were compared, of each file of a pair.
    pub bytes: u64,
    /// Files and folders that could not be read.
    #[serde(rename = "failed")]
    pub failures: u64,
    /// Whether it was ended before its end.
    #[serde(rename = "stopped")]
    pub is_stopped: bool,
}

/// Groups the large files of a tree by their sizes, and compares those of a group with its first. `failed` is told what
/// could not be read, and why. Symbolic links are not followed, but for the root. The paths of all large files are kept
/// in memory.
///
/// # Errors
/// Where the root is not to be had.
pub fn same_size(root: &Path, control: &Control, failed: &mut dyn FnMut(&Path, &str)) -> Result<SameSize, TreeError> {
    std::fs::metadata(root).map_err(|source| TreeError::Root {
        path: root.to_owned(),
        action: "looking at it",
        source,
    })?;
    let mut result = SameSize::default();
    let groups = groups(root, control, &mut result, failed);
    let groups = groups.values().filter(|paths| paths.len() > 1);
    result.sizes = groups.clone().count() as u64;
    let mut pairs = Pairs {
        means: Means {
            options: Options::default(),
            large: &Large::default(),
            stop: &control.stop,
        },
        rest: [Vec::new(), Vec::new()],
        result,
        failed,
    };
    let of_first = groups.flat_map(|paths| paths[1..].iter().map(|other| [&*paths[0], other]));
    Heads::new(&plan::batch(&ProcessFacts::here())).read(of_first, &mut pairs);
    let mut result = pairs.result;
    result.is_stopped = control.stop.load(Ordering::Relaxed);
    Ok(result)
}

/// The pairs that are compared.
struct Pairs<'a> {
    means: Means<'a>,
    rest: [Vec<u8>; 2],
    result: SameSize,
    failed: &'a mut dyn FnMut(&Path, &str),
}

impl<'a> Each<2> for Pairs<'a> {
    type Item = [&'a Path; 2];
    type Opened = ([&'a Path; 2], Opened);

    fn open(&mut self, paths: [&'a Path; 2]) -> Option<Self::Opened> {
        if self.means.stop.load(Ordering::Relaxed) {
            return None;
        }
        let opened = open(paths).map_err(|(path, error)| self.fail(path, "opening", &error.to_string()));
        Some((paths, opened.ok()?))
    }

    fn files((_, opened): &Self::Opened) -> &[Arc<File>; 2] {
        &opened.files
    }

    fn take(&mut self, (paths, opened): Self::Opened, heads: Result<[&[u8]; 2], Failed>) {
        let heads = match heads {
            Ok(heads) => heads,
            Err((side, error)) => return self.fail(paths[side], "reading", &error.to_string()),
        };
        let mut compared = Compared::default();
        let owned = || paths.map(Path::to_owned);
        opened.compare(heads, &owned, &mut self.rest, &self.means, &mut compared);
        for what in &compared.found {
            if let What::Failed { side, action, reason } = what {
                return self.fail(paths[*side as usize], action, reason);
            }
        }
        self.result.pairs += 1;
        self.result.equal_pairs += u64::from(compared.found.is_empty());
        self.result.bytes += compared.bytes;
    }
}

impl Pairs<'_> {
    fn fail(&mut self, path: &Path, action: &str, reason: &str) {
        self.result.failures += 1;
        (self.failed)(path, &format!("{action} failed: {reason}"));
    }
}

/// The large files by their sizes, in the order of the walk.
fn groups(
    root: &Path,
    control: &Control,
    result: &mut SameSize,
    failed: &mut dyn FnMut(&Path, &str),
) -> BTreeMap<u64, Vec<PathBuf>> {
    let mut groups: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let mut met = std::collections::HashSet::new();
    for entry in WalkDir::new(root).follow_root_links(true).sort_by_file_name() {
        if control.stop.load(Ordering::Relaxed) {
            break;
        }
        let looked = entry.and_then(|entry| {
            entry
                .file_type()
                .is_file()
                .then(|| entry.metadata())
                .transpose()
                .map(|found| (entry, found))
        });
        match looked {
            Ok((entry, Some(metadata))) if metadata.len() >= SMALLEST_BYTES => {
                let is_new = metadata.nlink() == 1 || met.insert(Identity::of(&metadata));
                if is_new || !is_sure(entry.path()) {
                    result.files += 1;
                    groups.entry(metadata.len()).or_default().push(entry.into_path());
                }
            }
            Ok(_) => {}
            Err(error) => {
                result.failures += 1;
                failed(error.path().unwrap_or(root), &format!("listing failed: {error}"));
            }
        }
    }
    groups
}

fn open<'a>(paths: [&'a Path; 2]) -> Result<Opened, (&'a Path, std::io::Error)> {
    let one = |path: &'a Path| {
        let with_path = |error| (path, error);
        let file = File::open(path).map_err(with_path)?;
        let facts = Facts::of(&file).map_err(|error| with_path(error.into()))?;
        if facts.kind != Kind::File {
            return Err(with_path(std::io::Error::other("it is no regular file any more")));
        }
        Ok((Arc::new(file), facts))
    };
    let ((first, first_facts), (second, second_facts)) = (one(paths[0])?, one(paths[1])?);
    Ok(Opened {
        files: [first, second],
        facts: [first_facts, second_facts],
    })
}
