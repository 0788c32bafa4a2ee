//! Files of the user that are read for the first time, each once, as cold as they are found.
//!
//! The host of a virtual disk may serve newly written data from its cache, so new test files tell little about existing files.
//! Nothing is dropped from memory and nothing is written. Files of similar size form a block, one for each round. The files of
//! a block are assigned to the trials at random, and the decider's Latin square orders the methods.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless::cache::CachedFile;
use seekless::files::allocated_bytes;
use seekless::method::Operation;
use seekless_results::CONFIRMING_ROUNDS;

use super::existing::{Unfit, UserFile, find};
use super::size::by_size;
use super::{Bench, BenchError};
use crate::trial::LaunchStop;

/// There must be files for at least this many rounds: with fewer, nothing has an interval.
const FEWEST_ROUNDS: u32 = 6;
/// This many times as many rounds usually decide.
const USUAL_TIMES: u32 = 2;
/// The largest file of a contest has at most this many times the bytes of the smallest.
const SIMILAR: u64 = 2;
/// The part of the budget that the search for files may take.
const LOOKING_PART: f64 = 0.25;
/// A trial of cold files takes longer than one of files in memory, so the usual number of files is divided by this.
const FEWER: u32 = 8;
/// Expected bytes read in a millisecond: the chosen files fit the budget.
const BYTES_PER_MS: u64 = 200_000;

/// The files of a contest, by round and trial.
pub(super) struct FirstTouch {
    blocks: Vec<Vec<Vec<UserFile>>>,
    /// The approximate size of each, in bytes.
    pub bytes: u64,
    pub files_per_trial: u32,
    /// The sentence about them.
    pub about: String,
    /// Trials that were left out because a file had changed.
    pub missed: u32,
}

impl FirstTouch {
    /// Chooses files below a directory, for the only contest of reads that is asked for.
    pub fn new(directory: &Path, bench: &Bench, stop: &LaunchStop) -> Result<Self, BenchError> {
        let entries = entries(bench)?;
        let started = Instant::now();
        let budget = bench.rounds.is_none().then_some(bench.budget);
        let is_late = || budget.is_some_and(|budget| started.elapsed() >= budget.mul_f64(LOOKING_PART));
        let (mut files, left_out) = find(directory, |_| stop.is_requested() || is_late(), may_be_read_first);
        let ended_early = if is_late() {
            " The search ended early, after a quarter of the time."
        } else {
            ""
        };
        files.sort_by_key(|file| file.bytes);
        let fewest = bench.rounds.unwrap_or(FEWEST_ROUNDS);
        let sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
        let class = SizeClass::choose(&sizes, entries, fewest, budget);
        let per_trial = class.as_ref().map_or(1, |class| class.files_per_trial as usize);
        let needed = entries * fewest as usize * per_trial;
        let similar = class.as_ref().map_or(0, |class| class.files.len());
        let Some(class) = class.filter(|_| similar >= needed) else {
            return Err(BenchError::TooFewFiles {
                path: directory.to_owned(),
                needed,
                similar,
                left_out,
            });
        };
        let chosen = &sizes[class.files.clone()];
        let blocks = class.blocks(&files, entries, &mut fastrand::Rng::with_seed(bench.seed));
        let about = format!(
            "{} files of {} to {} bytes below {}, each read once; times are compared per byte. Left out: {left_out}.\
             {ended_early} Choosing the files read their metadata, so only their data is cold.",
            blocks.len() * entries * per_trial,
            chosen[0],
            chosen[similar - 1],
            directory.display(),
        );
        Ok(Self {
            blocks,
            bytes: rounded(chosen.iter().sum::<u64>() / similar as u64),
            files_per_trial: class.files_per_trial,
            about,
            missed: 0,
        })
    }

    /// The number of rounds for which there are files.
    pub fn rounds(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Takes the files of the next trial of a round, which were not read yet; `None` if one of them has changed since
    /// it was found.
    pub fn take(&mut self, round: u32) -> Option<Vec<UserFile>> {
        let files = self.blocks.get_mut(round as usize).and_then(Vec::pop);
        let files = files.filter(|files| files.iter().all(UserFile::is_unchanged));
        self.missed += u32::from(files.is_none());
        files
    }
}

/// The entries of the only contest of reads.
fn entries(bench: &Bench) -> Result<usize, BenchError> {
    let contests = bench.experiments.iter().flat_map(|experiment| &experiment.contests);
    let mut reads = contests.filter(|plan| plan.common.operation == Operation::Read);
    match (reads.next(), reads.next()) {
        (Some(plan), None) if plan.read_ahead_kib.len() == 1 => Ok(plan.common.entries.len()),
        (None, _) => Err(BenchError::NothingToRead),
        _ => Err(BenchError::SeveralContests),
    }
}

/// Whether all of a file's data would come from the device.
fn may_be_read_first(path: &Path, file: &CachedFile) -> Result<(), Unfit> {
    let metadata = file.metadata();
    let has_shared_blocks = || {
        let extents = seekless::extents(path).ok().flatten();
        extents.is_some_and(|extents| extents.shared_bytes > 0)
    };
    match file.resident().ok().and_then(|resident| resident.part()) {
        None => Err(Unfit::Unknown),
        Some(part) if part > 0.0 => Err(Unfit::InMemory),
        Some(_) if allocated_bytes(metadata) < metadata.len() => Err(Unfit::WithHoles),
        Some(_) if has_shared_blocks() => Err(Unfit::Shared),
        Some(_) => Ok(()),
    }
}

/// Files of similar size, as a range of all files sorted by size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SizeClass {
    files: Range<usize>,
    files_per_trial: u32,
}

impl SizeClass {
    /// Chooses the class with the largest files among those with files for the most rounds within the budget. Rounds
    /// beyond those that usually decide, and measure the winners again, do not count.
    fn choose(sizes: &[u64], entries: usize, fewest_rounds: u32, budget: Option<Duration>) -> Option<Self> {
        let wanted = u64::from(fewest_rounds * USUAL_TIMES + CONFIRMING_ROUNDS);
        let mut end = 0;
        let is_first_of_size = |&start: &usize| start == 0 || sizes[start] > sizes[start - 1];
        let classes = (0..sizes.len()).filter(is_first_of_size).map(|start| {
            while sizes
                .get(end)
                .is_some_and(|bytes| *bytes <= sizes[start].saturating_mul(SIMILAR))
            {
                end += 1;
            }
            let most = by_size(sizes[start]);
            let fair = (end - start) as u64 / (entries as u64 * wanted).max(1);
            Self {
                files: start..end,
                files_per_trial: (fair.min(u64::from(most)) as u32).max(most.div_ceil(FEWER)),
            }
        });
        classes.max_by_key(|class| {
            let of_round = (entries as u64 * u64::from(class.files_per_trial)).max(1);
            let files = class.files.len() as u64;
            let bytes = sizes[class.files.start];
            let in_time = budget.map_or(u64::MAX, |budget| {
                budget.as_millis() as u64 * BYTES_PER_MS / of_round.saturating_mul(bytes)
            });
            // In thousandths, so that the closest class is found even if there are too few files.
            let enough = (files * 1000 / of_round).min(u64::from(fewest_rounds) * 1000);
            (enough, (files / of_round).min(wanted).min(in_time), bytes)
        })
    }

    /// The files by round and trial. Those of a round are neighbours in size, and assigned to trials at random.
    fn blocks(&self, files: &[UserFile], entries: usize, rng: &mut fastrand::Rng) -> Vec<Vec<Vec<UserFile>>> {
        let per_trial = self.files_per_trial as usize;
        let rounds = files[self.files.clone()].chunks_exact(entries * per_trial);
        let mut blocks: Vec<Vec<Vec<UserFile>>> = rounds
            .map(|files| {
                let mut files = files.to_vec();
                rng.shuffle(&mut files);
                files.chunks(per_trial).map(<[UserFile]>::to_vec).collect()
            })
            .collect();
        rng.shuffle(&mut blocks);
        blocks
    }
}

/// A rounded size, at most an eighth smaller.
fn rounded(bytes: u64) -> u64 {
    let step = 1 << bytes.max(1).ilog2().saturating_sub(3);
    bytes / step * step
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use seekless::method::format_size;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn class(sizes: &[u64], entries: usize, seconds: u64) -> Option<SizeClass> {
        SizeClass::choose(sizes, entries, FEWEST_ROUNDS, Some(Duration::from_secs(seconds)))
    }

    #[test]
    fn the_largest_files_are_chosen_of_which_there_are_enough() {
        let sizes: Vec<u64> = [
            vec![MIB; 1000],
            vec![16 * MIB; 80],
            vec![64 * MIB; 60],
            vec![512 * MIB; 5],
        ]
        .concat();
        let chosen = class(&sizes, 2, 3600).unwrap();
        assert_eq!((chosen.files, chosen.files_per_trial), (1080..1140, 1));
        let in_less_time = class(&sizes, 2, 10).unwrap();
        assert_eq!(in_less_time.files, 1000..1080, "2 GB are read in ten seconds");
        let of_many = class(&sizes, 10, 3600).unwrap();
        assert_eq!((of_many.files, of_many.files_per_trial), (0..1000, 5));
        assert_eq!(class(&[], 2, 60), None);
    }

    #[test]
    fn files_of_a_class_are_similar_and_each_is_dealt_once() {
        let sizes: Vec<u64> = (0..200).map(|index| 4 * MIB + index * MIB / 8).collect();
        let chosen = class(&sizes, 4, 3600).unwrap();
        assert!(sizes[chosen.files.end - 1] <= SIMILAR * sizes[chosen.files.start]);
        let directory = tempfile::tempdir().unwrap();
        let metadata = directory.path().metadata().unwrap();
        let files: Vec<UserFile> = (0..200)
            .map(|index| UserFile {
                bytes: sizes[index],
                ..UserFile::new(Path::new(&index.to_string()), &metadata)
            })
            .collect();
        let blocks = chosen.blocks(&files, 4, &mut fastrand::Rng::with_seed(1));
        assert_eq!(blocks.len(), chosen.files.len() / 4);
        let mut seen = HashSet::new();
        for block in &blocks {
            assert_eq!(block.len(), 4);
            let all = || block.iter().flatten();
            let (least, most) = (all().map(|file| file.bytes).min(), all().map(|file| file.bytes).max());
            let apart = most.unwrap() - least.unwrap();
            assert_eq!(apart, sizes[3] - sizes[0], "neighbours in size");
            assert!(all().all(|file| seen.insert(file.path.clone())));
        }
    }

    #[test]
    fn only_files_whose_every_byte_is_cold_are_found_and_each_by_one_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["cold", "resident", "gone"] {
            std::fs::write(path(name), vec![1; 100_000]).unwrap();
            seekless::cache::drop_file(path(name)).unwrap();
        }
        std::fs::hard_link(path("cold"), path("linked")).unwrap();
        std::os::unix::fs::symlink("cold", path("symbolic")).unwrap();
        std::fs::File::create(path("sparse")).unwrap().set_len(1 << 20).unwrap();
        std::fs::write(path("empty"), "").unwrap();
        seekless::cache::warm_file(path("resident")).unwrap();
        let (mut files, left_out) = find(directory.path(), |_| false, may_be_read_first);
        files.sort_by(|one, other| one.path.file_name().cmp(&other.path.file_name()));
        if seekless::cache::resident(path("gone")).unwrap().part() != Some(0.0) {
            eprintln!("skipped: this file system keeps files in memory");
            return;
        }
        let names: Vec<_> = files
            .iter()
            .filter_map(|file| file.path.file_name()?.to_str())
            .collect();
        let is_right = matches!(names[..], ["cold" | "linked", "gone"] | ["gone", "linked"]);
        assert!(is_right, "{names:?}");
        assert_eq!(left_out.to_string(), "1 in memory, 1 with holes");
        std::fs::remove_file(path("gone")).unwrap();
        let are_unchanged: Vec<bool> = files.iter().map(UserFile::is_unchanged).collect();
        assert_eq!(are_unchanged.iter().filter(|is| **is).count(), 1);
        std::fs::write(path("cold"), vec![2; 100_000]).unwrap();
        let are_changed = !files.iter().any(UserFile::is_unchanged);
        assert!(are_changed, "the same size, and other bytes");
        let mut first_touch = FirstTouch {
            blocks: vec![vec![files]],
            bytes: 1,
            files_per_trial: 2,
            about: String::new(),
            missed: 0,
        };
        assert!(first_touch.take(0).is_none() && first_touch.take(0).is_none() && first_touch.take(1).is_none());
        assert_eq!(first_touch.missed, 3);
    }

    #[test]
    fn a_size_that_reads_well_is_hardly_less() {
        for bytes in [1, 7, 1000, 5_555_555, u64::MAX] {
            let rounded = rounded(bytes);
            assert!(rounded <= bytes && rounded >= bytes - bytes / 8, "{bytes}: {rounded}");
        }
        assert_eq!(format_size(rounded(5_555_555)), "5M");
    }
}
