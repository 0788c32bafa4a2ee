//! Checking the result of a trial, outside the clock.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seekless::cache::CachedFile;
use seekless::method::{CachePolicy, Choice, Operation};
use seekless::{Method, Visits, full_text};
use seekless_record::{Cache, Contest, Entry, Mode, Phase, Target, Trial};
use seekless_results::{has_target, may_read_less};

use super::Runner;
use super::apart::Apart;
use super::place::TestFiles;
use super::size::all_bytes;
use super::trial::{TrialFiles, target_seed};
use crate::cache_state;
use crate::kernel::{Kernel, KernelAnswer};
use crate::testfile::{TestFile, TestPart, check_copy, check_updated};
use crate::trial::account::{self, Expected};
use crate::trial::{Compared, Found, Report, updates_seed};
use crate::updates;

impl Runner<'_> {
    /// Checks the result of a trial. Returns the kind of work that it did, if it differs from the contest's.
    pub(super) fn check(
        &self,
        contest: &Contest,
        entry: &Entry,
        files: &TrialFiles,
        report: &Report,
        trial: &mut Trial,
    ) -> Apart {
        let place = &self.places[contest.storage];
        let choice = entry.choice();
        let method = choice.as_ref().and_then(Choice::method);
        let target = files.targets.first().filter(|_| has_target(contest));
        let looked_at = target.or(files.sources.first().map(|file| &file.path));
        let summary = looked_at.and_then(|path| seekless::extents(path).ok().flatten());
        let shared = contest.operation == Operation::Copy && summary.is_some_and(|extents| extents.shared_bytes > 0);
        trial.extents = summary.map(|extents| extents.count);
        let is_write = contest.operation == Operation::Write;
        let held = if is_write { Target::Overwrite } else { contest.target };
        trial.resident_after = cache_state::resident(files.held(held)).unwrap_or(None);
        // A file that is updated warm must not be read from the device.
        let updated = contest.updates.map(|_| all_bytes(contest));
        // A part of the last block may be read.
        let to_read = |file: &TestFile| file.allocated_bytes.map_or(file.bytes, |bytes| bytes.min(file.bytes));
        let allocated: u64 = files.read().map(to_read).sum();
        let read_bytes = match contest.random {
            None => Some(updated.unwrap_or(allocated)),
            // If some of the blocks are holes, this is unknown.
            Some(_) => contest
                .layout
                .is_none()
                .then(|| files.visits.iter().map(Visits::bytes).sum()),
        };
        let others = contest.other_storage.map(|other| &self.places[other]);
        let tells_source = std::iter::once(place).chain(others).all(super::Place::tells_source);
        let expected = Expected {
            device_bytes: read_bytes.filter(|_| tells_source && !is_write),
            cache: contest.cache,
            memory_bytes: contest.memory_bytes,
            reads_all: !shared && updated.is_none() && !may_read_less(contest),
        };
        let result = self.check_result(contest, files, report, self.part_to_check(contest, trial));
        trial.checked_bytes = result.as_ref().ok().copied().flatten();
        let wrong = result
            .err()
            .map(|why| format!("{WRONG}: {why}"))
            .or_else(|| trial.invalid.take())
            .or_else(|| account::wrong_source(&report.trial, method, expected))
            .or_else(|| used_cache(method, contest, trial.resident_after));
        trial.valid = wrong.is_none();
        trial.invalid = wrong;
        Apart {
            shared_blocks: shared,
            holes_skipped: trial.hole_bytes.is_some_and(|bytes| bytes > 0),
        }
    }

    /// Compares the output of a command with the first output in its contest, if they must be equal.
    pub(super) fn check_printed(&mut self, contest: usize, report: &Report, trial: &mut Trial) {
        let Some(printed) = report.printed else { return };
        if *self.printed.entry(contest).or_insert(printed) != printed {
            let why = format!("{WRONG}: its output differs from the first output in this contest");
            (trial.valid, trial.invalid) = (false, Some(why));
        }
    }

    /// How much of what a trial wrote is checked: everything in the first rounds and for the winners, otherwise a
    /// sample. Reading all of a sustained write would take as long as writing it.
    fn part_to_check(&self, contest: &Contest, trial: &Trial) -> TestPart {
        if !contest.sustained && (trial.round < ROUNDS_CHECKED_WHOLLY || trial.phase == Phase::Confirming) {
            TestPart::Whole
        } else {
            TestPart::Sample(self.bench.seed.wrapping_add(self.run.trials.len() as u64))
        }
    }

    /// The written bytes that were compared with the expected ones; `None` if nothing was written and the answer was
    /// checked instead. Or what is wrong.
    fn check_result(
        &self,
        contest: &Contest,
        files: &TrialFiles,
        report: &Report,
        part: TestPart,
    ) -> Result<Option<u64>, String> {
        let told = |checked: std::io::Result<Result<u64, String>>| {
            checked.unwrap_or_else(|error| Err(format!("cannot check it: {error}")))
        };
        let seed = self.bench.seed;
        let targets = (0..).zip(&files.targets);
        let checked: Result<u64, String> = match contest.operation {
            Operation::Read => {
                let known = files.chosen.as_ref().map(|_| read_again(&files.sources)).transpose()?;
                let sources = known.as_ref().unwrap_or(&files.sources);
                return wrong_reading(contest, sources, &files.visits, report).map_or(Ok(None), Err);
            }
            Operation::Compare => {
                let wrong = wrong_comparison(files, &report.compared, report.trial.calls.is_none());
                return wrong.map_or(Ok(None), Err);
            }
            Operation::Write if contest.random.is_some() => {
                let held = TestFiles::of(contest).flat_map(|(storage, files)| self.places[storage].made(&files));
                held.map(|file| told(file.check(part))).sum()
            }
            Operation::Write => {
                let check = |(index, path): (u64, &PathBuf)| {
                    let seed = seed.wrapping_add(if contest.sustained { index } else { 0 });
                    // Other blocks for each file.
                    let part = match part {
                        TestPart::Sample(seed) => TestPart::Sample(seed.wrapping_add(index)),
                        TestPart::Whole => TestPart::Whole,
                    };
                    told(check_updated(path, contest.size_bytes, seed, &BTreeMap::new(), part))
                };
                targets.map(check).sum()
            }
            Operation::Update => {
                let Some(pattern) = &contest.updates else {
                    return Ok(None);
                };
                let bytes = contest.size_bytes;
                let check = |(index, path): (u64, &PathBuf)| {
                    let expected = updates::expected(pattern, bytes, updates_seed(seed, index));
                    told(check_updated(path, bytes, target_seed(seed), &expected, part))
                };
                targets.map(check).sum()
            }
            Operation::Copy => files
                .targets
                .iter()
                .zip(&files.sources)
                .map(|(path, source)| told(check_copy(path, &source.path, part)))
                .sum(),
        };
        checked.map(Some)
    }
}

/// The number of rounds in which everything that a trial wrote is checked.
const ROUNDS_CHECKED_WHOLLY: u32 = 3;

/// Reads the user's files again to learn their answers, and drops them from memory.
fn read_again(sources: &[TestFile]) -> Result<Vec<TestFile>, String> {
    let read = |file: &TestFile| {
        let known = TestFile::describe(&file.path)?;
        CachedFile::open(&file.path)?.drop_pages()?;
        Ok(known)
    };
    let all: seekless::Result<_> = sources.iter().map(read).collect();
    all.map_err(|error| full_text(&error))
}

/// What is wrong with the answers of a kernel, if anything.
fn wrong_reading(contest: &Contest, sources: &[TestFile], visits: &[Visits], report: &Report) -> Option<String> {
    let kernel = Kernel::named(&contest.kernel)?;
    let is_command = report.trial.calls.is_none();
    if !is_command && report.answers.len() != sources.len() {
        return Some("some files gave no answer".to_owned());
    }
    let answers = report.answers.iter().zip(sources).enumerate();
    let expected = |index: usize, file: &TestFile| match visits.get(index) {
        None => file.answer(kernel),
        Some(visits) => file.answer_of(kernel, visits).ok(),
    };
    let mut wrong = answers.filter(|(index, (found, file))| expected(*index, file).as_ref() != Some(*found));
    let bytes: u64 = if visits.is_empty() {
        sources.iter().map(|file| file.bytes).sum()
    } else {
        visits.iter().map(Visits::bytes).sum()
    };
    if report.trial.bytes != bytes {
        return Some(format!("{} B were read instead of {bytes} B", report.trial.bytes));
    }
    wrong
        .next()
        .map(|(_, (found, file))| format!("{kernel} found {found:?} in {}, which is wrong", file.path.display()))
}

/// What is wrong with the results of a comparison, if anything. Commands without a verdict are not checked.
fn wrong_comparison(files: &TrialFiles, compared: &[Compared], is_command: bool) -> Option<String> {
    if is_command && compared.is_empty() {
        return None;
    }
    // A command gives one of each pair, or of a tree.
    if !is_command && compared.len() != files.others.len() {
        return Some("some files gave no verdict".to_owned());
    }
    let pairs = compared.iter().zip(&files.others);
    pairs.into_iter().find_map(|(found, other)| wrong_verdict(found, other))
}

fn wrong_verdict(compared: &Compared, other: &TestFile) -> Option<String> {
    let path = other.path.display();
    let is_right = match (compared.found, other.difference) {
        (Found::Equal, None) | (Found::Differ(None), Some(_)) => true,
        (Found::Differ(Some(found)), Some(offset)) => found == offset,
        _ => false,
    };
    if !is_right {
        let truth = other
            .difference
            .map_or_else(|| "is equal".to_owned(), |offset| format!("differs at byte {offset}"));
        let found = match compared.found {
            Found::Equal => "no difference".to_owned(),
            Found::Differ(None) => "a difference".to_owned(),
            Found::Differ(Some(offset)) => format!("a difference at byte {offset}"),
            Found::Ended(offset) => format!("the end after byte {offset}"),
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

/// The text that marks a wrong result, which ends the entry, unlike a wrong state.
pub(super) const WRONG: &str = "wrong result";

/// The largest resident part of a file after a direct read.
pub(super) const STRAY_PART: f64 = 0.01;

/// Whether a direct method left the file in the page cache.
fn used_cache(method: Option<&Method>, contest: &Contest, resident_after: Option<f64>) -> Option<String> {
    let direct = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
    let stayed = resident_after.is_some_and(|part| part > STRAY_PART);
    let is_looked_at =
        matches!(contest.cache, Cache::Cold | Cache::FirstTouch) || contest.operation == Operation::Write;
    (direct && stayed && is_looked_at).then(|| "direct I/O left the file in the page cache".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(difference: Option<u64>) -> (tempfile::TempDir, TestFile) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "a\nb\nc\ndef").expect("a file");
        let mut file = TestFile::describe(&path).expect("a file");
        file.difference = difference;
        (directory, file)
    }

    fn compared(found: Found) -> Compared {
        Compared {
            found,
            newlines: None,
            unread_bytes: 0,
        }
    }

    #[test]
    fn the_mode_is_the_first_of_the_most_frequent_bytes() {
        let mut counts = vec![3; 256];
        (counts[7], counts[200]) = (5, 5);
        assert_eq!(
            mode_of(&KernelAnswer::Histogram(counts)),
            Some(Mode { byte: 7, count: 5 })
        );
        assert_eq!(
            mode_of(&KernelAnswer::Histogram(vec![0; 256])),
            Some(Mode { byte: 0, count: 0 })
        );
        assert_eq!(mode_of(&KernelAnswer::Count(5)), None);
    }

    #[test]
    fn only_the_true_verdict_is_right() {
        let (_directory, equal) = other(None);
        let (_other, differing) = other(Some(7));
        for (found, of_equal, of_differing) in [
            (Found::Equal, true, false),
            (Found::Differ(None), false, true),
            (Found::Differ(Some(7)), false, true),
            (Found::Differ(Some(6)), false, false),
            (Found::Ended(7), false, false),
        ] {
            assert_eq!(wrong_verdict(&compared(found), &equal).is_none(), of_equal, "{found:?}");
            assert_eq!(
                wrong_verdict(&compared(found), &differing).is_none(),
                of_differing,
                "{found:?}"
            );
        }
    }

    #[test]
    fn wrong_lines_and_unread_bytes_are_found_out() {
        let (_directory, equal) = other(None);
        let lines = |newlines| {
            let compared = Compared {
                newlines: Some(newlines),
                ..compared(Found::Equal)
            };
            wrong_verdict(&compared, &equal)
        };
        assert_eq!(lines(3), None);
        assert!(lines(4).unwrap().contains("4 lines"));
        let unread = Compared {
            unread_bytes: 5,
            ..compared(Found::Equal)
        };
        assert!(wrong_verdict(&unread, &equal).unwrap().contains("5 bytes"));
    }
}
