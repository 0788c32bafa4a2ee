//! How often large files of the same size are equal in a tree, which shows whether looking for duplicates is
//! worthwhile.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rustix::fs::OFlags;
use seekless::files::read_full;
use seekless::plan::FIRST_BYTES;
use seekless::walk::in_each;
use serde::Serialize;

use super::large::Large;
use super::look::failures;
use super::pair::{ComparedPair, Means, OpenedPair};
use super::{TreeError, TreeFinding, TreeOptions};
use crate::Stop;
use crate::walk::{FileAt, Selection, StatFacts};

/// Smaller files are ignored.
pub const SMALLEST_BYTES: u64 = 1 << 20;

/// How often files of one size are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SameSize {
    /// Files of [`SMALLEST_BYTES`] and more; hard links count once.
    pub files: u64,
    /// Sizes that several of them share.
    pub sizes: u64,
    /// Pairs that were compared: for each size, the first file with every other.
    pub pairs: u64,
    /// How many of these are equal.
    pub equal_pairs: u64,
    /// Bytes that were compared, of each file of a pair.
    pub bytes: u64,
    /// Files and directories that could not be read.
    #[serde(rename = "failed")]
    pub failures: u64,
    /// Whether it was stopped early.
    #[serde(rename = "stopped")]
    pub is_stopped: bool,
}

/// Groups the large files of a tree by size, and compares the files of a group with its first. `failed` gets the paths
/// that cannot be read, with the reason. Symbolic links are not followed, except for the root. The paths of all large
/// files are kept in memory.
///
/// # Errors
/// If the root is not accessible.
pub fn same_size(root: &Path, stop: &Stop, failed: &mut dyn FnMut(&Path, &str)) -> Result<SameSize, TreeError> {
    std::fs::metadata(root).map_err(|source| TreeError::Root {
        path: root.to_owned(),
        action: "stat",
        source,
    })?;
    let mut result = SameSize::default();
    let groups = groups(root, stop, &mut result, failed);
    let groups = groups.values().filter(|files| files.len() > 1);
    result.sizes = groups.clone().count() as u64;
    let of_first = groups.flat_map(|files| files[1..].iter().map(|other| [&files[0], other]));
    let large = Large::default();
    // One pair at a time: a thread that waits for others within a pair could start another one, and wait for itself.
    for pair in of_first.take_while(|_| !stop.is_stopped()) {
        result.count(pair, &compare(pair, &large, stop), failed);
    }
    result.is_stopped = stop.is_stopped();
    Ok(result)
}

/// Compares two files.
fn compare(pair: [&FileAt; 2], large: &Large, stop: &Stop) -> ComparedPair {
    let mut means = Means {
        options: TreeOptions::default(),
        large,
        stop,
        rest: [Vec::new(), Vec::new()],
    };
    let mut compared = ComparedPair::default();
    let open = |side: usize| pair[side].open(OFlags::RDONLY).map_err(|(_, error)| error);
    if let Some(opened) = OpenedPair::new(open, means.options, &mut compared) {
        // Most that differ do so here.
        let mut heads = [[0; FIRST_BYTES]; 2];
        let read = in_each("read", &mut failures(&mut compared.found), |side| {
            read_full(&opened.files[side], &mut heads[side], 0)
        });
        if let Some([one, other]) = read {
            opened.compare([&heads[0][..one], &heads[1][..other]], &mut means, &mut compared);
        }
    }
    compared
}

impl SameSize {
    fn count(&mut self, pair: [&FileAt; 2], compared: &ComparedPair, failed: &mut dyn FnMut(&Path, &str)) {
        for what in &compared.found {
            if let TreeFinding::Failed { side, action, reason } = what {
                self.failures += 1;
                return failed(pair[*side as usize].path(), &format!("cannot {action}: {reason}"));
            }
        }
        self.pairs += 1;
        self.equal_pairs += u64::from(compared.found.is_empty());
        self.bytes = self.bytes.saturating_add(compared.bytes);
    }
}

/// The large files by size, in the order of their names, depth first.
fn groups(
    root: &Path,
    stop: &Stop,
    result: &mut SameSize,
    failed: &mut dyn FnMut(&Path, &str),
) -> BTreeMap<u64, Vec<FileAt>> {
    let mut groups: BTreeMap<u64, Vec<(FileAt, StatFacts)>> = BTreeMap::new();
    let selection = Selection::new([root], true);
    for found in selection.roots().iter().flat_map(|root| selection.walk(root, stop)) {
        let looked = found.and_then(|file| match file.facts() {
            Ok(facts) => Ok((file, facts)),
            Err((action, error)) => Err((file.path().to_owned(), format!("cannot {action}: {error}"))),
        });
        match looked {
            Ok((file, facts)) if facts.bytes >= SMALLEST_BYTES => {
                groups.entry(facts.bytes).or_default().push((file, facts));
            }
            Ok(_) => {}
            Err((path, reason)) => {
                result.failures += 1;
                failed(&path, &reason);
            }
        }
    }
    let once = |(bytes, mut files): (u64, Vec<(FileAt, StatFacts)>)| {
        files.sort_by(|one, other| one.0.path().cmp(other.0.path()));
        let mut met = HashSet::new();
        files.retain(|(file, facts)| facts.names == 1 || met.insert(facts.id()) || !file.is_sure(facts));
        result.files += files.len() as u64;
        (bytes, files.into_iter().map(|(file, _)| file).collect())
    };
    groups.into_iter().map(once).collect()
}
