//! Finding files that are equal, byte for byte.
//!
//! Files are grouped by what is cheapest to know first: their sizes, their inodes, a digest of their beginnings. What is left
//! is proven: the files of a group are read side by side, block by block, and each leaves its group where it differs.
//!
//! Not here: printing groups (the command), and acting on them (`act`).

pub mod act;
mod alike;
mod cache;
#[cfg(feature = "catalogue")]
pub mod catalogue;
mod contained;
mod contents;
mod digest;
mod directories;
mod disk_order;
mod found;
mod heads;
mod heads_part;
mod layers;
mod opened;
mod order;
mod prove;
mod resident;
mod split;
#[cfg(test)]
mod tests;
mod trees;
mod twins;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Instant, SystemTime};

use seekless_engine::batch::Threads;
use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{self, DuplicatesPlan};

use crate::Stop;
use crate::tree::large::Large;
use crate::walk::{self, Files, Filter, Selection};
use crate::watch::JobWatch;
pub use alike::NamePart;
use alike::{apart_by_name, drop_single_names};
use cache::DigestCache;
pub use contents::Contents;
use directories::{FoundDirectories, find_directories};
use disk_order::look_at_devices;
use found::{Class, Member};
pub use found::{
    ContainedDirectory, DuplicatesSum, Equal, EqualFiles, FoundDuplicates, FoundName, Proof, ReportedGroup,
    TreeOverlap, links_elsewhere,
};
use heads::{Beginnings, by_heads};
use opened::{Layouts, forget, sort_out};
use order::PathOrder;
use prove::{prove_all, with_twins};
use twins::Twins;

/// How files are compared.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Which files may be duplicates of each other.
    pub across: Across,
    /// What their names must have in common.
    pub matching: Option<NamePart>,
    /// Whether bytes are compared even if that reads files twice.
    pub is_paranoid: bool,
    /// Whether files that were not in the page cache stay there.
    pub keeps_cached: bool,
    /// Whether equal directories are listed instead of their files.
    pub with_directories: bool,
    /// Where digests are kept. The next search trusts those of files that have not changed.
    pub cache: Option<PathBuf>,
}

/// Which files may be duplicates of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Across {
    /// Any two.
    #[default]
    Files,
    /// Groups must hold files from several of the given paths.
    Roots,
    /// Groups must hold a file from a reference ([`Selection::against`]) and one from another path. Paths with this number or a
    /// higher one are references.
    References(u32),
}

impl Across {
    fn is_reference(self, root: u32) -> bool {
        matches!(self, Self::References(first) if root >= first)
    }
}

/// A file that could not be read, and why.
type Failed = (u32, io::Error);

/// What the steps share.
struct Search<'a> {
    files: &'a Files,
    plan: DuplicatesPlan,
    process: ProcessFacts,
    options: &'a SearchOptions,
    stop: &'a Stop,
    watch: &'a dyn JobWatch,
    /// What the progress counts in the current step.
    done: AtomicU64,
    read_bytes: AtomicU64,
    threads: Threads,
    large: Large,
    /// For files with several names: the first name and another, in order.
    names: Vec<(u32, u32)>,
    /// Files that were not in memory, and are dropped from it at the end.
    cold: RwLock<HashSet<u32>>,
    cache: Option<DigestCache>,
    layouts: Layouts,
    /// Whether small files are compared as soon as they begin alike.
    finds_twins: bool,
    /// Whether the content of files that are all beginning is digested with it.
    digests_small: bool,
    twins: Twins,
}

/// Finds files that are equal, below the paths of a selection. The progress counts files while they are listed and while
/// their beginnings are read, then bytes that are compared, or skipped because files differ.
#[must_use]
pub fn find(selection: &Selection, filter: &Filter, options: &SearchOptions, watch: &dyn JobWatch) -> FoundDuplicates {
    find_at(selection, filter, options, watch, SystemTime::now())
}

/// As [`find`], at this time: digests are kept only of files that changed some time before it.
fn find_at(
    selection: &Selection,
    filter: &Filter,
    options: &SearchOptions,
    watch: &dyn JobWatch,
    now: SystemTime,
) -> FoundDuplicates {
    let mut ends = vec![Instant::now()];
    let (process, plan) = planned();
    let found = Files::list(selection, filter, options.with_directories, &plan.batch, watch);
    let walk::WalkFound {
        files,
        left,
        mut left_out,
        failures,
        gone,
        directories,
    } = found;
    ends.push(Instant::now());
    let (mut numbers, names) = distinct(&files);
    let cache = options.cache.as_deref().map(|path| DigestCache::open(path, now));
    let (cache, cache_failure) = match cache {
        Some(Err(reason)) => (None, Some(reason)),
        opened => (opened.and_then(Result::ok), None),
    };
    let mut search = Search::new(&files, (process, plan), options, watch, names, cache);
    search.finds_twins = search.cache.is_none();
    search.drop_single_sizes(&mut numbers);
    drop_single_names(&search, &mut numbers);
    look_at_devices(&mut search, &mut numbers);
    ends.push(Instant::now());
    let Beginnings {
        groups,
        mut failed,
        cold,
    } = by_heads(&mut search, &numbers);
    if !options.keeps_cached {
        forget(&search, &cold, &groups);
        search.cold = RwLock::new(cold);
    }
    ends.push(Instant::now());
    let (mut classes, more_failed) = prove_all(&search, &groups);
    drop(groups);
    search.twins = Twins::default();
    failed.extend(more_failed);
    let cache_failure = cache_failure.or(search.cache.as_ref().and_then(|cache| cache.save(&files)));
    ends.push(Instant::now());
    let unreadable = failed.iter().map(|(number, _)| *number).collect();
    let sum = DuplicatesSum::of(&classes);
    let FoundDirectories {
        equal: directories,
        contained,
        overlap,
    } = find_directories(&search, &directories, &mut classes);
    // From here on, only names are needed; process exit would close the directories one after the other.
    let closing = files.close_directories();
    search.sort(&mut classes);
    let (changed, failures) = sort_out(&search, failed, gone, failures);
    left_out.sort();
    FoundDuplicates {
        names: search.names,
        classes,
        directories,
        contained,
        overlap,
        sum,
        left,
        left_out,
        failures,
        changed,
        cache_failure,
        is_stopped: watch.stop().is_stopped(),
        failed: unreadable,
        large: search.large.used(),
        read_files: numbers.len() as u64,
        read_bytes: search.read_bytes.load(Ordering::Relaxed),
        cached: search.cache.as_ref().map_or(0, DigestCache::hits),
        plan: search.plan,
        steps: std::array::from_fn(|step| ends[step + 1] - ends[step]),
        across: options.across,
        _closing: closing,
        files,
    }
}

/// What is known before any file is, and the plan that follows from it.
fn planned() -> (ProcessFacts, DuplicatesPlan) {
    let process = ProcessFacts::here();
    let plan = plan::duplicates(plan::batch(&process), &process, &[], 0);
    (process, plan)
}

/// One name of each file, in the order of device and inode; and the other names, each with the first.
fn distinct(files: &Files) -> (Vec<u32>, Vec<(u32, u32)>) {
    let below = layers::below_overlays(files);
    let id = |number: u32| below.get(&number).copied().unwrap_or_else(|| files.get(number).id());
    let version = |number: u32| files.get(number).version();
    // Names outside overlays come first, because their file systems tell more.
    let key = |number| (id(number).inode, below.contains_key(&number), number);
    // Sorting keys is faster than sorting numbers, because comparing numbers looks up two files.
    let mut keys: Vec<(u64, bool, u32)> = (0..files.len()).map(key).collect();
    keys.sort_unstable();
    let mut numbers: Vec<u32> = keys.into_iter().map(|(_, _, number)| number).collect();
    numbers.sort_by_key(|number| id(*number).device);
    if !files.are_numbers_sure() {
        for alike in numbers.chunk_by_mut(|one, other| id(*one) == id(*other)) {
            alike.sort_by_key(|number| version(*number));
        }
    }
    let mut names = Vec::new();
    numbers.dedup_by(|next, first| {
        let are_sure = || {
            [*next, *first]
                .iter()
                .all(|number| files.system(*number).inodes_identify)
        };
        // In doubt, they are one file: missing a duplicate is better than calling a file its own duplicate.
        let is_same = id(*next) == id(*first) && (version(*next) == version(*first) || are_sure());
        if is_same {
            names.push((*first, *next));
        }
        is_same
    });
    names.sort_unstable();
    (numbers, names)
}

/// The names of a file.
fn all_names(names: &[(u32, u32)], number: u32) -> impl Iterator<Item = u32> {
    let start = names.partition_point(|(first, _)| *first < number);
    let others = names[start..].iter().take_while(move |(first, _)| *first == number);
    std::iter::once(number).chain(others.map(|(_, other)| *other))
}

impl<'a> Search<'a> {
    fn new(
        files: &'a Files,
        (process, plan): (ProcessFacts, DuplicatesPlan),
        options: &'a SearchOptions,
        watch: &'a dyn JobWatch,
        names: Vec<(u32, u32)>,
        cache: Option<DigestCache>,
    ) -> Self {
        Self {
            files,
            threads: Threads::new(plan.batch.threads),
            plan,
            process,
            options,
            stop: watch.stop(),
            watch,
            done: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            large: Large::default(),
            names,
            cold: RwLock::default(),
            cache,
            layouts: Layouts::default(),
            finds_twins: false,
            digests_small: false,
            twins: Twins::default(),
        }
    }
}

impl Search<'_> {
    /// The results of `one` for all, in their order.
    fn map<F: Sync, T: Send>(&self, all: &[F], one: impl Fn(&F) -> T + Sync) -> Vec<T> {
        if self.plan.has_threads {
            self.threads.map(all, one)
        } else {
            all.iter().map(one).collect()
        }
    }

    /// Files that were not in memory, and are dropped from it at the end.
    fn cold(&self) -> RwLockReadGuard<'_, HashSet<u32>> {
        self.cold.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts files by their first paths, and classes by what they save, then by the first path in them.
    fn sort(&self, classes: &mut [Class]) {
        let order = PathOrder::new(self.files, &self.names);
        for class in &mut *classes {
            order.sort(&mut class.files, |member| member.number);
        }
        classes.sort_by_cached_key(|class| (Reverse(class.gain_bytes()), order.first_path(class.files[0].number)));
    }

    /// Removes files whose size makes no group; the others keep their order.
    fn drop_single_sizes(&self, numbers: &mut Vec<u32>) {
        let bytes = |number: &u32| self.files.get(*number).bytes;
        // A table of all sizes would take more memory than files and names together.
        let mut sizes: Vec<u64> = numbers.iter().map(bytes).collect();
        sizes.sort_unstable();
        let several = sizes.chunk_by(|one, other| one == other).filter(|same| same.len() > 1);
        let several: Vec<u64> = several.map(|same| same[0]).collect();
        drop(sizes);
        numbers.retain(|number| several.binary_search(&bytes(number)).is_ok());
        if self.options.across == Across::Files {
            return;
        }
        let mut met = vec![RootSpan::default(); several.len()];
        for number in &*numbers {
            if let Ok(size) = several.binary_search(&bytes(number)) {
                met[size].add(self.names_of(*number).map(|name| self.files.root(name)));
            }
        }
        let is_group = |size: usize| met[size].is_group(self.options.across);
        numbers.retain(|number| several.binary_search(&bytes(number)).is_ok_and(is_group));
    }

    /// The names of a file that were found.
    fn names_of(&self, number: u32) -> impl Iterator<Item = u32> {
        all_names(&self.names, number)
    }

    /// Whether a path that was given is a reference.
    fn is_reference(&self, root: u32) -> bool {
        self.options.across.is_reference(root)
    }

    /// Whether these files, with their twins, make a group that is wanted.
    fn is_group(&self, numbers: impl IntoIterator<Item = u32>) -> bool {
        let numbers = numbers.into_iter().flat_map(|number| with_twins(self, number));
        if self.options.matching.is_none() {
            return self.are_wanted(numbers);
        }
        let apart = apart_by_name(self, numbers.collect(), |number| *number);
        apart.into_iter().any(|alike| self.are_wanted(alike))
    }

    /// Whether equal files with names that are alike make a group that is wanted.
    fn are_wanted(&self, numbers: impl IntoIterator<Item = u32>) -> bool {
        let mut numbers = numbers.into_iter();
        if self.options.across == Across::Files {
            return numbers.nth(1).is_some();
        }
        let mut met = RootSpan::default();
        for number in numbers {
            let roots = self.names_of(number).map(|name| self.files.root(name));
            if let Across::References(_) = self.options.across {
                // A file in a reference is not a candidate, whatever its other names.
                met.add(roots.max());
            } else {
                met.add(roots);
            }
        }
        met.is_group(self.options.across)
    }
}

/// Files that may be equal, and the roots of their names.
#[derive(Clone, Copy, Default)]
struct RootSpan {
    files: u32,
    /// The least and the greatest.
    roots: Option<(u32, u32)>,
}

impl RootSpan {
    fn add(&mut self, roots: impl IntoIterator<Item = u32>) {
        self.files += 1;
        for root in roots {
            let (least, most) = self.roots.unwrap_or((root, root));
            self.roots = Some((least.min(root), most.max(root)));
        }
    }

    fn is_group(&self, across: Across) -> bool {
        let (least, most) = self.roots.unwrap_or_default();
        self.files > 1
            && match across {
                Across::Files => true,
                Across::Roots => least < most,
                Across::References(first) => least < first && first <= most,
            }
    }
}
