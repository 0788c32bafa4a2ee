//! Equal files whose names must have something in common, too.
//!
//! A file with several hard links is like another if one of its names is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::Search;

/// The part of their names that equal files must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// All of it.
    Name,
    /// What is before the last dot, unless the name begins with it.
    Stem,
    /// What is behind that dot; names without one are alike.
    Extension,
}

impl NamePart {
    fn of(self, path: &[u8]) -> &[u8] {
        let path = Path::new(OsStr::from_bytes(path));
        let part = match self {
            Self::Name => path.file_name(),
            Self::Stem => path.file_stem(),
            Self::Extension => path.extension(),
        };
        part.map_or(b"", OsStr::as_bytes)
    }
}

/// Removes files of which no other of their size has a name that is like theirs.
pub(super) fn drop_single_names(search: &Search<'_>, numbers: &mut Vec<u32>) {
    let Some(part) = search.options.matching else { return };
    let mut keys: Vec<(u64, u64, u32)> = Vec::with_capacity(numbers.len());
    for number in &*numbers {
        let digests = search
            .names_of(*number)
            .map(|name| xxh3_64(part.of(search.files.name(name))));
        keys.extend(digests.map(|digest| (search.files.get(*number).bytes, digest, *number)));
    }
    keys.sort_unstable();
    keys.dedup();
    let several = keys.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
    let several = several.filter(|alike| alike.len() > 1).flatten();
    let several: HashSet<u32> = several.map(|(.., number)| *number).collect();
    numbers.retain(|number| several.contains(number));
}

/// Keeps equal files together only if their names are alike, or if others of them are like both.
pub(super) fn apart_by_name<T>(search: &Search<'_>, files: Vec<T>, number: impl Fn(&T) -> u32) -> Vec<Vec<T>> {
    let Some(part) = search.options.matching else {
        return vec![files];
    };
    let mut firsts: HashMap<&[u8], usize> = HashMap::new();
    // Each leads to a file before it that is like it, the first one to itself.
    let mut before: Vec<usize> = (0..files.len()).collect();
    for (at, file) in files.iter().enumerate() {
        for name in search.names_of(number(file)) {
            let first = *firsts.entry(part.of(search.files.name(name))).or_insert(at);
            let [one, other] = [first, at].map(|at| first_of(&mut before, at));
            before[one.max(other)] = one.min(other);
        }
    }
    let mut apart: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for (at, file) in files.into_iter().enumerate() {
        apart.entry(first_of(&mut before, at)).or_default().push(file);
    }
    apart.into_values().collect()
}

fn first_of(before: &mut [usize], mut at: usize) -> usize {
    while before[at] != at {
        before[at] = before[before[at]];
        at = before[at];
    }
    at
}
