//! How often large files of one size are equal, in one tree: the question that decides whether comparing files pays that
//! are to be found equal or different.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;
use seekless::batch::{Each, Failed, Heads};
use seekless::facts::ProcessFacts;
use seekless::plan;
use serde::Serialize;

use super::pair::{Compared, Means, Opened};
use super::{Control, Options, TreeError, What};
use crate::tree::large::Large;
use crate::walk::{Facts, FileAt, Found, Kind, Selection};

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
    /// Files and directories that could not be read.
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
    let groups = groups.values().filter(|files| files.len() > 1);
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
    let of_first = groups.flat_map(|files| files[1..].iter().map(|other| [&files[0], other]));
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
    type Item = [&'a FileAt; 2];
    type Opened = ([&'a Path; 2], Opened);

    fn open(&mut self, files: [&'a FileAt; 2]) -> Option<Self::Opened> {
        if self.means.stop.load(Ordering::Relaxed) {
            return None;
        }
        let opened = open(files).map_err(|(path, error)| self.fail(path, "opening", &error.to_string()));
        Some((files.map(FileAt::path), opened.ok()?))
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

/// The large files by their sizes, in the order of their names, depth first.
fn groups(
    root: &Path,
    control: &Control,
    result: &mut SameSize,
    failed: &mut dyn FnMut(&Path, &str),
) -> BTreeMap<u64, Vec<FileAt>> {
    let mut groups: BTreeMap<u64, Vec<(FileAt, Facts)>> = BTreeMap::new();
    // What is neither a file nor a directory has no files.
    let selection = Selection::new([root], true).ok();
    let walks = selection
        .iter()
        .flat_map(|selection| selection.roots().iter().map(|root| selection.walk(root)));
    for found in walks.flatten() {
        if control.stop.load(Ordering::Relaxed) {
            break;
        }
        let mut fail = |path: &Path, reason: &str| {
            result.failures += 1;
            failed(path, reason);
        };
        match found {
            Found::File(file) => match file.facts() {
                Ok(facts) if facts.bytes >= SMALLEST_BYTES => {
                    groups.entry(facts.bytes).or_default().push((file, facts));
                }
                Ok(_) => {}
                Err((action, error)) => fail(file.path(), &format!("{action} failed: {error}")),
            },
            Found::Failed(path, reason) => fail(&path, &reason),
            _ => {}
        }
    }
    let once = |(bytes, mut files): (u64, Vec<(FileAt, Facts)>)| {
        files.sort_by(|one, other| one.0.path().cmp(other.0.path()));
        let mut met = HashSet::new();
        files.retain(|(file, facts)| facts.names == 1 || met.insert(facts.id()) || !file.is_sure(facts));
        result.files += files.len() as u64;
        (bytes, files.into_iter().map(|(file, _)| file).collect())
    };
    groups.into_iter().map(once).collect()
}

fn open<'a>(files: [&'a FileAt; 2]) -> Result<Opened, (&'a Path, std::io::Error)> {
    let one = |file: &'a FileAt| {
        let with_path = |error| (file.path(), error);
        let opened = file.open(OFlags::RDONLY).map_err(|(_, error)| with_path(error))?;
        let facts = Facts::of(&opened).map_err(|error| with_path(error.into()))?;
        if facts.kind != Kind::File {
            return Err(with_path(std::io::Error::other("it is no regular file any more")));
        }
        Ok((Arc::new(opened), facts))
    };
    let ((first, first_facts), (second, second_facts)) = (one(files[0])?, one(files[1])?);
    Ok(Opened {
        files: [first, second],
        facts: [first_facts, second_facts],
    })
}
