//! How often large files of the same size are equal in a tree, which shows whether looking for duplicates is
//! worthwhile.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use seekless_engine::Scanner;
use seekless_engine::batch::{HeadConsumer, HeadFailure, HeadReader};
use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::Scan;
use serde::Serialize;

use super::large::Large;
use super::pair::{BLOCK_BYTES, CompareContext, ComparedPair, OpenedPair};
use super::shared::for_pairs;
use super::{TreeError, TreeFinding, TreeOptions};
use crate::walk::{FileAt, Selection, StatFacts};
use crate::watch::{JobWatch, PathFailure, report};

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

/// Groups the large files of a tree by size, and compares the files of a group with its first. The events are paths
/// that cannot be read. Symbolic links are not followed, except for the root. The paths of all large
/// files are kept in memory.
///
/// # Errors
/// If the root is not accessible.
pub fn same_size(root: &Path, watch: &dyn for<'e> JobWatch<PathFailure<'e>>) -> Result<SameSize, TreeError> {
    std::fs::metadata(root).map_err(|source| TreeError::Root {
        path: root.to_owned(),
        action: "stat",
        source,
    })?;
    let mut result = SameSize::default();
    let stop = watch.stop();
    let groups = groups(root, &mut result, watch);
    let groups = groups.values().filter(|files| files.len() > 1);
    result.sizes = groups.clone().count() as u64;
    // Their beginnings, as far as the kernel reads ahead.
    let files = groups.clone().map(Vec::len).sum::<usize>() as u64;
    let asked = Scan {
        files,
        bytes: files * 2 * BLOCK_BYTES as u64,
        resident: None,
    };
    let mut pairs = Pairs {
        means: CompareContext {
            options: TreeOptions::default(),
            large: &Large::default(),
            stop,
            rest: [Vec::new(), Vec::new()],
        },
        result,
        watch,
    };
    let of_first = groups.flat_map(|files| files[1..].iter().map(|other| [&files[0], other]));
    let batch = Scanner::batch_plan(root, &asked, &ProcessFacts::here());
    HeadReader::new(&for_pairs(batch)).read(of_first, &mut pairs);
    let mut result = pairs.result;
    result.is_stopped = stop.is_stopped();
    Ok(result)
}

/// The comparison of pairs.
struct Pairs<'a> {
    means: CompareContext<'a>,
    result: SameSize,
    watch: &'a dyn for<'e> JobWatch<PathFailure<'e>>,
}

impl<'a> HeadConsumer<2> for Pairs<'a> {
    type Item = [&'a FileAt; 2];
    type Opened = ([&'a Path; 2], OpenedPair);

    fn open(&mut self, files: [&'a FileAt; 2]) -> Option<Self::Opened> {
        if self.means.stop.is_stopped() {
            return None;
        }
        let mut compared = ComparedPair::default();
        let open = |side: usize| files[side].open(OFlags::RDONLY).map_err(|(_, error)| error);
        let opened = OpenedPair::new(open, self.means.options, &mut compared);
        let paths = files.map(FileAt::path);
        if opened.is_none() {
            self.count(paths, &compared);
        }
        Some((paths, opened?))
    }

    fn files((_, opened): &Self::Opened) -> &[Arc<File>; 2] {
        &opened.files
    }

    fn take(&mut self, (paths, opened): Self::Opened, heads: Result<[&[u8]; 2], HeadFailure>) {
        let mut compared = ComparedPair::default();
        match heads {
            Ok(heads) => opened.compare(heads, &mut self.means, &mut compared),
            Err((side, error)) => compared.found.push(super::look::failed(side, "read", error)),
        }
        self.count(paths, &compared);
    }
}

impl Pairs<'_> {
    fn count(&mut self, paths: [&Path; 2], compared: &ComparedPair) {
        for what in &compared.found {
            if let TreeFinding::Failed { side, action, reason } = what {
                self.result.failures += 1;
                let (path, reason) = (paths[*side as usize], &format!("cannot {action}: {reason}"));
                return report(self.watch, PathFailure { path, reason });
            }
        }
        self.result.pairs += 1;
        self.result.equal_pairs += u64::from(compared.found.is_empty());
        self.result.bytes = self.result.bytes.saturating_add(compared.bytes);
    }
}

/// The large files by size, in the order of their names, depth first.
fn groups(
    root: &Path,
    result: &mut SameSize,
    watch: &dyn for<'e> JobWatch<PathFailure<'e>>,
) -> BTreeMap<u64, Vec<FileAt>> {
    let mut groups: BTreeMap<u64, Vec<(FileAt, StatFacts)>> = BTreeMap::new();
    let selection = Selection::new([root], true);
    for found in selection
        .roots()
        .iter()
        .flat_map(|root| selection.walk(root, watch.stop()))
    {
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
                let (path, reason) = (&path, &reason);
                report(watch, PathFailure { path, reason });
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
