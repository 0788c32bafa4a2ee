//! Checking the result of a trial, outside the clock.

use std::collections::BTreeMap;
use std::io;

use seekless_engine::method::{CachePolicy, Choice, Operation};
use seekless_engine::{Method, Visits};
use seekless_record::{Cache, Contest, Mode, Phase, Target, Trial};
use seekless_results::{has_target, may_read_less};

use super::apart::ContestWork;
use super::setup::{TrialSetup, target_seed};
use super::size::all_bytes;
use super::storage::{MeasuredStorage, read_by};
use crate::cache_state::{self, CacheState};
use crate::kernel::{Kernel, KernelAnswer};
use crate::testfile::{TestFile, TestFileSet, TestPart, check_copy, check_updated};
use crate::trial::account;
use crate::trial::{Compared, ComparedVerdict, LaunchStop, TrialReport, updates_seed};
use crate::updates;

/// Why a trial is left out of the ranking.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    /// Its result, which ends its entry.
    #[error("wrong result: {0}")]
    Result(String),
    /// The state of its files, or how they were read.
    #[error("{0}")]
    State(String),
}

/// What a trial left to be checked.
pub(super) struct TrialCheck<'a> {
    pub storages: &'a [MeasuredStorage],
    pub stop: &'a LaunchStop,
    /// The seed of the run.
    pub seed: u64,
    /// The number of trials before it.
    pub trials: usize,
    pub setup: &'a TrialSetup,
    pub report: &'a TrialReport,
}

impl TrialCheck<'_> {
    /// Checks the result of a trial, whose files were in this state before. Returns why it is invalid, and the kind of
    /// work that it did.
    pub fn run(&self, before: CacheState, trial: &mut Trial) -> (Option<Invalid>, ContestWork) {
        let (setup, report) = (self.setup, self.report);
        let contest = &setup.contest;
        let choice = setup.entry.choice();
        let method = choice.as_ref().and_then(Choice::method);
        let target = setup.targets.first().filter(|_| has_target(contest));
        let looked_at = target.or(setup.sources.first().map(|file| &file.path));
        let summary = looked_at.and_then(|path| seekless_engine::extents(path).ok().flatten());
        let shared = contest.operation == Operation::Copy && summary.is_some_and(|extents| extents.shared_bytes > 0);
        trial.extents = summary.map(|extents| extents.count);
        let is_write = contest.operation == Operation::Write;
        let held = if is_write { Target::Overwrite } else { contest.target };
        trial.resident_before = before.resident;
        trial.resident_after = match setup.sources.as_slice() {
            [part] if part.part_start().is_some() => cache_state::resident_part(part).unwrap_or(None),
            _ => cache_state::resident(setup.held(held)).unwrap_or(None),
        };
        // A part of the last block may be read.
        let to_read = |file: &TestFile| file.stored_bytes.map_or(file.bytes, |bytes| bytes.min(file.bytes));
        let read_bytes = match contest.random {
            // A file that is updated warm must not be read from the device.
            None if contest.updates.is_some() => Some(all_bytes(contest)),
            None => Some(setup.read().map(to_read).sum()),
            // If some of the blocks are holes, this is unknown.
            Some(_) if contest.layout.is_some() => None,
            Some(_) => Some(setup.visits.iter().map(Visits::bytes).sum()),
        };
        let tells_source = read_by(self.storages, contest).all(MeasuredStorage::tells_source);
        let device_bytes = read_bytes.filter(|_| tells_source && !is_write);
        let reads_all = !shared && contest.updates.is_none() && !may_read_less(contest);
        let checked = self.check_result(self.part_to_check(trial));
        trial.checked_bytes = checked.as_ref().ok().copied().flatten();
        let wrong_state = || {
            let source = || account::wrong_source(&report.trial, method, contest, device_bytes, reads_all);
            let wrong = before.wrong.or_else(source);
            wrong.or_else(|| used_cache(method, contest, trial.resident_after))
        };
        let invalid = checked.err().map(Invalid::Result);
        let invalid = invalid.or_else(|| wrong_state().map(Invalid::State));
        (invalid, ContestWork::of_trial(contest, trial, shared))
    }

    /// How much of what a trial wrote is checked: everything in the first rounds and for the winners, otherwise a
    /// sample. Reading all of a sustained write would take as long as writing it.
    fn part_to_check(&self, trial: &Trial) -> TestPart {
        if !self.setup.contest.sustained && (trial.round < ROUNDS_CHECKED_WHOLLY || trial.phase == Phase::Confirming) {
            TestPart::Whole
        } else {
            TestPart::Sample(self.seed.wrapping_add(self.trials as u64))
        }
    }

    /// The written bytes that were compared with the expected ones; `None` if nothing was written and the answer was
    /// checked instead. Or what is wrong.
    fn check_result(&self, part: TestPart) -> Result<Option<u64>, String> {
        let (setup, report, seed) = (self.setup, self.report, self.seed);
        let contest = &setup.contest;
        let bytes = contest.size_bytes;
        let mut checked_bytes = 0;
        let mut add = |checked: io::Result<Result<u64, String>>| {
            checked_bytes += checked.unwrap_or_else(|error| Err(format!("cannot check it: {error}")))?;
            Ok::<(), String>(())
        };
        let mut targets = (0..).zip(&setup.targets);
        match contest.operation {
            Operation::Read | Operation::Scan => {
                let wrong = wrong_reading(setup, report, &|| self.stop.is_requested());
                return wrong.map_or(Ok(None), Err);
            }
            Operation::Compare => {
                let wrong = wrong_comparison(setup, report);
                return wrong.map_or(Ok(None), Err);
            }
            Operation::Update if contest.updates.is_none() => return Ok(None),
            Operation::Write if contest.random.is_some() && contest.target == Target::Overwrite => {
                let mut sets = TestFileSet::of(contest);
                sets.try_for_each(|(storage, set)| {
                    let mut held = self.storages[storage].made(&set).iter();
                    held.try_for_each(|file| add(file.check(part)))
                })?;
            }
            Operation::Write => targets.try_for_each(|(index, path)| {
                let seed = seed.wrapping_add(if contest.sustained { index } else { 0 });
                // Other blocks for each file.
                let part = match part {
                    TestPart::Sample(seed) => TestPart::Sample(seed.wrapping_add(index)),
                    TestPart::Whole => TestPart::Whole,
                };
                add(check_updated(path, bytes, seed, &BTreeMap::new(), part))
            })?,
            Operation::Update => targets.try_for_each(|(index, path)| {
                let drawn = |pattern| updates::expected(pattern, bytes, updates_seed(seed, index));
                let expected = contest.updates.as_ref().map(drawn).unwrap_or_default();
                add(check_updated(path, bytes, target_seed(seed), &expected, part))
            })?,
            Operation::Copy => {
                let mut pairs = setup.targets.iter().zip(&setup.sources);
                pairs.try_for_each(|(path, source)| add(check_copy(path, &source.path, part)))?;
            }
        }
        Ok(Some(checked_bytes))
    }
}

/// The number of rounds in which everything that a trial wrote is checked.
const ROUNDS_CHECKED_WHOLLY: u32 = 3;

/// What is wrong with the answers of a kernel, if anything.
fn wrong_reading(files: &TrialSetup, report: &TrialReport, is_stopped: &dyn Fn() -> bool) -> Option<String> {
    let kernel = Kernel::named(&files.contest.kernel)?;
    let is_command = report.trial.calls.is_none();
    if !is_command && report.answers.len() != files.sources.len() {
        return Some("some files gave no answer".to_owned());
    }
    let bytes: u64 = if files.visits.is_empty() {
        files.sources.iter().map(|file| file.bytes).sum()
    } else {
        files.visits.iter().map(Visits::bytes).sum()
    };
    if report.trial.bytes != bytes {
        return Some(format!("{} B were read instead of {bytes} B", report.trial.bytes));
    }
    let expected = |index: usize, file: &TestFile| match files.visits.get(index) {
        None => file.answer(kernel, is_stopped),
        Some(visits) => file.answer_of(kernel, visits),
    };
    let mut answers = report.answers.iter().zip(&files.sources).enumerate();
    answers.find_map(|(index, (found, file))| {
        let is_right = expected(index, file).is_ok_and(|expected| expected == *found);
        (!is_right).then(|| format!("{kernel} found {found:?} in {}, which is wrong", file.path.display()))
    })
}

/// What is wrong with the results of a comparison, if anything. Commands without a verdict are not checked.
fn wrong_comparison(files: &TrialSetup, report: &TrialReport) -> Option<String> {
    let is_command = report.trial.calls.is_none();
    // A command gives one of each pair, or of a tree, or none.
    if !is_command && report.compared.len() != files.others.len() {
        return Some("some files gave no verdict".to_owned());
    }
    let mut pairs = report.compared.iter().zip(&files.others);
    pairs.find_map(|(found, other)| wrong_verdict(found, other))
}

fn wrong_verdict(compared: &Compared, other: &TestFile) -> Option<String> {
    let path = other.path.display();
    let is_right = match (compared.verdict, other.difference) {
        (ComparedVerdict::Equal, None) | (ComparedVerdict::Differ(None), Some(_)) => true,
        (ComparedVerdict::Differ(Some(found)), Some(offset)) => found == offset,
        _ => false,
    };
    if !is_right {
        let truth = other
            .difference
            .map_or_else(|| "is equal".to_owned(), |offset| format!("differs at byte {offset}"));
        let found = match compared.verdict {
            ComparedVerdict::Equal => "no difference".to_owned(),
            ComparedVerdict::Differ(None) => "a difference".to_owned(),
            ComparedVerdict::Differ(Some(offset)) => format!("a difference at byte {offset}"),
            ComparedVerdict::Ended(offset) => format!("the end after byte {offset}"),
        };
        return Some(format!("it found {found} in {path}, which {truth}"));
    }
    if compared.unread_bytes > 0 {
        // Test files have no holes and share no blocks, so all of them must be read.
        return Some(format!(
            "it called {} bytes of {path} equal without reading them",
            compared.unread_bytes
        ));
    }
    let newlines = compared.newlines?;
    match other.equal_lines() {
        Ok(lines) if lines == newlines => None,
        Ok(lines) => Some(format!("it counted {newlines} lines in {path} instead of {lines}")),
        Err(error) => Some(format!("cannot count the lines in {path}: {error}")),
    }
}

/// What is wrong with the output of a command whose contest requires that of the first, if anything; both are hashes.
pub(super) fn wrong_output(first: u64, printed: u64) -> Option<Invalid> {
    let why = "its output differs from the first output in this contest";
    (first != printed).then(|| Invalid::Result(why.to_owned()))
}

/// The most frequent byte of a histogram, as the program of 2003 reports it: the first of equally frequent ones.
pub(super) fn mode_of(answer: &KernelAnswer) -> Option<Mode> {
    let KernelAnswer::Histogram(counts) = answer else {
        return None;
    };
    let (byte, &count) = counts.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
    Some(Mode {
        byte: u8::try_from(byte).ok()?,
        count,
    })
}

/// The largest resident part of a file after a direct read.
pub(super) const STRAY_PART: f64 = 0.01;

/// Whether a direct method left the file in the page cache.
fn used_cache(method: Option<&Method>, contest: &Contest, resident_after: Option<f64>) -> Option<String> {
    let direct = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
    let stayed = resident_after.is_some_and(|part| part > STRAY_PART);
    let is_looked_at = contest.cache == Cache::Cold || contest.operation == Operation::Write;
    (direct && stayed && is_looked_at).then(|| "direct I/O left the file in the page cache".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(difference: Option<u64>) -> (tempfile::TempDir, TestFile) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "a\nb\nc\ndef").expect("a file");
        let mut file = TestFile::existing(&path, 9);
        file.difference = difference;
        (directory, file)
    }

    fn compared(verdict: ComparedVerdict) -> Compared {
        Compared {
            verdict,
            newlines: None,
            unread_bytes: 0,
        }
    }

    #[test]
    fn the_mode_is_the_first_of_the_most_frequent_bytes() {
        let mut counts = vec![3; 256];
        (counts[7], counts[200]) = (5, 5);
        let expected = Some(Mode { byte: 7, count: 5 });
        assert_eq!(mode_of(&KernelAnswer::Histogram(counts)), expected);
        let expected = Some(Mode { byte: 0, count: 0 });
        assert_eq!(mode_of(&KernelAnswer::Histogram(vec![0; 256])), expected);
        assert_eq!(mode_of(&KernelAnswer::Count(5)), None);
    }

    #[test]
    fn only_the_true_verdict_is_right() {
        let (_directory, equal) = other(None);
        let (_other, differing) = other(Some(7));
        for (found, of_equal, of_differing) in [
            (ComparedVerdict::Equal, true, false),
            (ComparedVerdict::Differ(None), false, true),
            (ComparedVerdict::Differ(Some(7)), false, true),
            (ComparedVerdict::Differ(Some(6)), false, false),
            (ComparedVerdict::Ended(7), false, false),
        ] {
            assert_eq!(wrong_verdict(&compared(found), &equal).is_none(), of_equal, "{found:?}");
            let is_right = wrong_verdict(&compared(found), &differing).is_none();
            assert_eq!(is_right, of_differing, "{found:?}");
        }
    }

    #[test]
    fn wrong_lines_and_unread_bytes_are_found_out() {
        let (_directory, equal) = other(None);
        let lines = |newlines| {
            let mut compared = compared(ComparedVerdict::Equal);
            compared.newlines = Some(newlines);
            wrong_verdict(&compared, &equal)
        };
        assert_eq!(lines(3), None);
        assert!(lines(4).unwrap().contains("4 lines"));
        let mut unread = compared(ComparedVerdict::Equal);
        unread.unread_bytes = 5;
        assert!(wrong_verdict(&unread, &equal).unwrap().contains("5 bytes"));
    }
}
