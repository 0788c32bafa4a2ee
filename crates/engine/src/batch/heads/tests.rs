//! Beginnings of files, in memory or not, with and without a ring, compared with plain reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::facts::ProcessFacts;
use crate::plan;

/// The block of the usual method.
const HEAD_BYTES: usize = 16 << 10;
/// What is read of a file that is in memory.
const READ_BYTES: usize = 128 << 10;

/// The bytes that were returned of each file, by its number.
#[derive(Default)]
struct Given<const N: usize> {
    heads: BTreeMap<usize, Result<[Vec<u8>; N], usize>>,
    opened: usize,
}

impl<const N: usize> HeadConsumer<N> for Given<N> {
    type Item = (usize, [PathBuf; N]);
    type Opened = (usize, [Arc<File>; N]);

    fn open(&mut self, (number, paths): Self::Item) -> Option<Self::Opened> {
        self.opened += 1;
        let files = paths.map(|path| File::open(path).ok().map(Arc::new));
        let files = files.iter().all(Option::is_some).then(|| files.map(Option::unwrap))?;
        Some((number, files))
    }

    fn files((_, files): &Self::Opened) -> &[Arc<File>; N] {
        files
    }

    fn take(&mut self, (number, _): Self::Opened, heads: Result<[&[u8]; N], HeadFailure>) {
        let heads = heads.map(|heads| heads.map(<[u8]>::to_vec)).map_err(|(file, _)| file);
        assert!(self.heads.insert(number, heads).is_none(), "each is taken once");
    }
}

/// Around the lengths of a page, a slot and a block.
const LENGTHS: [usize; 10] = [
    0,
    1,
    4096,
    5000,
    HEAD_BYTES - 1,
    HEAD_BYTES,
    HEAD_BYTES + 1,
    READ_BYTES,
    READ_BYTES + 1,
    300_000,
];

fn files(directory: &Path, count: usize) -> Vec<PathBuf> {
    let content = |file: usize| (0..LENGTHS[file % LENGTHS.len()]).map(move |at| (at * 7 + file) as u8);
    let paths: Vec<_> = (0..count).map(|file| directory.join(file.to_string())).collect();
    for (file, path) in paths.iter().enumerate() {
        fs::write(path, content(file).collect::<Vec<u8>>()).unwrap();
    }
    paths
}

fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    sys::sync(&file).unwrap();
    sys::drop_from_cache(&file).unwrap();
}

/// By `RWF_NOWAIT` and by the clock, with and without rings, in batches of several sizes.
fn plans() -> Vec<BatchPlan> {
    let mut here = plan::batch(&ProcessFacts::here());
    here.head_bytes = [READ_BYTES, HEAD_BYTES];
    let mut plans = Vec::new();
    for asks_not_to_wait in [true, false] {
        for has_rings in [here.has_rings, false] {
            for (batch, patience) in [(1, Duration::ZERO), (4, Duration::ZERO), (32, Duration::MAX)] {
                plans.push(BatchPlan {
                    has_rings,
                    batch,
                    asks_not_to_wait,
                    patience,
                    ..here.clone()
                });
            }
        }
    }
    plans
}

fn check<const N: usize>(paths: &[PathBuf], missing: &[usize]) {
    for cold_every in [1, 3, usize::MAX] {
        for plan in plans() {
            for path in paths.iter().step_by(cold_every).filter(|path| path.exists()) {
                evict(path);
            }
            let groups: Vec<[PathBuf; N]> = paths
                .chunks_exact(N)
                .map(|all| all.to_vec().try_into().unwrap())
                .collect();
            let mut given = Given::default();
            HeadReader::new(&plan).read(groups.iter().cloned().enumerate(), &mut given);
            assert_eq!(given.opened, groups.len());
            for (number, group) in groups.iter().enumerate() {
                let Some(heads) = given.heads.remove(&number) else {
                    assert!(missing.contains(&number), "{number}");
                    continue;
                };
                for (head, path) in heads.unwrap().iter().zip(group) {
                    let content = fs::read(path).unwrap();
                    assert!(content.starts_with(head), "{path:?} by {plan:?}");
                    // A beginning that is partly in memory may be returned in part.
                    let least = content.len().min(if cold_every == 3 { 1 } else { HEAD_BYTES });
                    assert!(head.len() >= least, "{path:?}: {} bytes by {plan:?}", head.len());
                }
            }
        }
    }
}

#[test]
fn heads_are_those_of_plain_reads() {
    let directory = tempfile::tempdir().unwrap();
    // More than a batch, by one and by two.
    let paths = files(directory.path(), if crate::is_long() { 74 } else { 34 });
    check::<1>(&paths, &[]);
    check::<2>(&paths, &[]);
}

#[test]
fn heads_name_unreadable_files_and_leave_out_unopened_ones() {
    let directory = tempfile::tempdir().unwrap();
    let paths = files(directory.path(), 20);
    fs::remove_file(&paths[7]).unwrap();
    check::<1>(&paths, &[7]);
    check::<2>(&paths, &[3]);
    let mut paths = files(directory.path(), 20);
    // A directory can be opened, but not read.
    paths[11] = directory.path().to_owned();
    for plan in plans() {
        let groups = paths.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]);
        let mut given = Given::default();
        HeadReader::new(&plan).read(groups.enumerate(), &mut given);
        let heads = given.heads.iter();
        let failed = heads.filter_map(|(number, heads)| Some((*number, heads.as_ref().err()?)));
        assert_eq!(failed.collect::<Vec<_>>(), [(5, &1)], "{plan:?}");
        assert_eq!(given.heads.len(), 10);
    }
}

#[test]
fn heads_have_a_ring_for_cold_files_only() {
    let directory = tempfile::tempdir().unwrap();
    let paths = files(directory.path(), 20);
    let file = File::open(&paths[1]).unwrap();
    let told = sys::read_at_nowait(&file, &mut [0], 0).unwrap().available();
    let plan = plan::batch(&ProcessFacts::here());
    if told.is_none() || !plan.has_rings {
        println!("skipped: the file system has no reads that do not wait, or there are no rings");
        return;
    }
    let mut heads = HeadReader::new(&plan);
    let items = || paths.iter().map(|path| [path.clone()]).enumerate();
    heads.read(items(), &mut Given::default());
    assert!(!heads.has_ring());
    for path in &paths {
        evict(path);
    }
    heads.read(items(), &mut Given::default());
    assert!(heads.has_ring());
}
