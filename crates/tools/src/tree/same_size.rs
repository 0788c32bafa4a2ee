//! How often large files of one size are equal, in one tree: the question that decides whether comparing files pays that
//! are to be found equal or different.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seekless::files::Identity;
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
    let large = Large::default();
    let means = Means {
        options: Options::default(),
        large: &large,
        stop: &control.stop,
    };
    let mut buffers = [Vec::new(), Vec::new()];
    for (_, paths) in groups.into_iter().filter(|(_, paths)| paths.len() > 1) {
        result.sizes += 1;
        for other in &paths[1..] {
            if control.stop.load(Ordering::Relaxed) {
                result.is_stopped = true;
                return Ok(result);
            }
            let mut compared = Compared::default();
            match open([&paths[0], other]) {
                Ok(pair) => pair.compare(
                    [&[], &[]],
                    &|| [paths[0].clone(), other.clone()],
                    &mut buffers,
                    &means,
                    &mut compared,
                ),
                Err((path, error)) => {
                    result.failures += 1;
                    failed(&path, &format!("opening failed: {error}"));
                    continue;
                }
            }
            let mut failure = None;
            for what in &compared.found {
                if let What::Failed { side, action, reason } = what {
                    let path = if *side as usize == 0 { &paths[0] } else { other };
                    failure = Some((path, format!("{action} failed: {reason}")));
                }
            }
            if let Some((path, reason)) = failure {
                result.failures += 1;
                failed(path, &reason);
                continue;
            }
            result.pairs += 1;
            result.equal_pairs += u64::from(compared.found.is_empty());
            result.bytes += compared.bytes;
        }
    }
    result.is_stopped = control.stop.load(Ordering::Relaxed);
    Ok(result)
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

fn open(paths: [&Path; 2]) -> Result<Opened, (PathBuf, std::io::Error)> {
    let one = |path: &Path| {
        let with_path = |error| (path.to_owned(), error);
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
