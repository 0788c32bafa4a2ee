//! The needs of groups: space for their files, and bytes that their trials write. They are announced before anything is
//! written. No I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seekless_engine::method::{Durability, Operation};
use seekless_record::{Contest, Entry, Run, Target, UpdateAccount};
use seekless_results::{CONFIRMING_ROUNDS, Decider, Group, has_target, planned_trials};

use super::size::{Speeds, expected, is_small_and_warm};
use super::storage::MeasuredStorage;
use super::{Bench, BenchError, Event};
use crate::testfile::TestFileSet;
use crate::updates;

/// What is to be measured, and where.
pub(super) struct Needs<'a> {
    pub bench: &'a Bench,
    pub run: &'a Run,
    pub storages: &'a [MeasuredStorage],
    pub speeds: &'a Speeds,
    /// What was written to learn that.
    pub calibrated_bytes: u64,
}

/// The needs on a storage, in bytes.
struct StorageNeeds {
    /// Space needed at one time.
    space_bytes: u64,
    /// Expected writes in total, including test files.
    expected_written: u64,
    /// The most bytes that may be written.
    most_written: u64,
}

impl Needs<'_> {
    /// How much will be written, and how long it takes.
    ///
    /// # Errors
    /// [`BenchError::NoSpace`].
    pub fn planned(&self, decider: &Decider) -> Result<Event<'static>, BenchError> {
        let groups = &decider.groups;
        let trials: Duration = groups.iter().map(|group| group.expected).sum();
        let budget = self.bench.rounds.is_none().then_some(self.bench.budget);
        let limit = budget.filter(|_| decider.one_by_one);
        let likely = within_reach(groups, limit);
        // As if everything were twice as fast as expected.
        let reached = within_reach(groups, limit.map(|budget| budget * 2));
        let mut needs = self.on_all(likely, reached)?;
        if let Some(budget) = budget {
            self.limit_to(budget, reached, &mut needs);
        }
        // The test files and each trial are written, however large they are, unless a limit was given: then what does
        // not fit is refused.
        let largest = self.contests_of(reached).map(turn_bytes).max().unwrap_or_default();
        let made = (0..self.storages.len()).map(|index| self.made_bytes(reached, index));
        let made_bytes = made.fold(0, u64::saturating_add);
        needs.most_written = needs.most_written.max(made_bytes.saturating_add(largest));
        // The answers of a file that was made are found once.
        let answering = Duration::from_secs_f64(made_bytes as f64 / self.speeds.check);
        let preparing = Duration::from_millis(made_bytes / self.speeds.write_bytes_per_ms.max(1)) + answering;
        let needed = trials.saturating_add(preparing);
        let first = groups
            .first()
            .map(|group| expected(self.bench, &self.run.contests, group, self.speeds, 1));
        let least = budget.map(|budget| preparing + first.unwrap_or_default().min(budget));
        let least = least.filter(|least| budget.is_some_and(|budget| *least > budget));
        let most = self.bench.most_written.unwrap_or(u64::MAX);
        let write_bytes = needs.most_written.min(most.saturating_sub(self.calibrated_bytes));
        Ok(Event::Planned {
            write_bytes,
            expected_write_bytes: needs.expected_written.min(write_bytes),
            space_bytes: needs.space_bytes,
            expected: least.or(budget).unwrap_or(needed),
            needed,
            least,
            contests: groups.iter().map(|group| group.contests.len()).sum(),
            entries: groups.iter().map(|group| group.active(self.run).len()).sum(),
            one_by_one: decider.one_by_one,
        })
    }

    /// The needs on all storages: the largest space, and the writes of the groups that are likely
    /// measured, and at most.
    fn on_all(&self, likely: &[Group], reached: &[Group]) -> Result<StorageNeeds, BenchError> {
        let mut all = StorageNeeds {
            space_bytes: 0,
            expected_written: 0,
            most_written: 0,
        };
        let mut on_file_system = BTreeMap::<String, u64>::new();
        for (index, storage) in self.storages.iter().enumerate() {
            let needs = self.on_storage(reached, index);
            let expected = self.on_storage(likely, index).expected_written;
            all.most_written = all.most_written.saturating_add(needs.most_written);
            all.expected_written = all.expected_written.saturating_add(expected);
            all.space_bytes = all.space_bytes.max(needs.space_bytes);
            // Two directories of one file system share its space. Subvolumes of btrfs have numbers of their own, and
            // one device.
            let facts = &storage.facts;
            let device = facts.device.as_ref().map(|device| device.name.clone());
            let shared = device.unwrap_or_else(|| facts.device_number_text());
            let needed = on_file_system.entry(shared).or_default();
            *needed = needed.saturating_add(needs.space_bytes);
            if *needed > facts.free_bytes - facts.free_bytes / 10 {
                return Err(BenchError::NoSpace {
                    path: storage.directory.clone(),
                    needed_bytes: *needed,
                    free_bytes: facts.free_bytes,
                });
            }
        }
        Ok(all)
    }

    /// Trials only write within the budget, however fast they are. A sustained write checks the
    /// time itself, and may be faster than measured before.
    fn limit_to(&self, budget: Duration, reached: &[Group], needs: &mut StorageNeeds) {
        let most = (budget.as_millis() as u64).saturating_mul(self.speeds.write_bytes_per_ms);
        let most = most.saturating_mul(self.storages.len() as u64);
        let sustained = self.contests_of(reached).filter(|contest| contest.sustained);
        let sustained = sustained.map(|contest| written_bytes(contest).saturating_mul(writers(contest) as u64));
        let sustained_bytes = sustained.fold(0, u64::saturating_add);
        needs.expected_written = needs.expected_written.min(most);
        let others_bytes = needs.most_written.saturating_sub(sustained_bytes);
        needs.most_written = others_bytes.min(most.saturating_mul(2)).saturating_add(sustained_bytes);
        // Sizes that are asked for are written.
        let storages = self.storages.iter();
        let suits = storages.map(|storage| storage.suitable_writes(budget)).min();
        let suitable = suits.filter(|_| self.bench.sizes.is_empty() && sustained_bytes == 0);
        needs.most_written = needs.most_written.min(suitable.unwrap_or(u64::MAX));
    }

    fn contests_of<'g>(&'g self, groups: &'g [Group]) -> impl Iterator<Item = &'g Contest> {
        groups.iter().flat_map(|group| self.contests(group))
    }

    fn on_storage(&self, groups: &[Group], storage: usize) -> StorageNeeds {
        let made_bytes = self.made_bytes(groups, storage);
        let mut needs = StorageNeeds {
            space_bytes: made_bytes,
            expected_written: made_bytes,
            most_written: made_bytes,
        };
        for group in groups {
            let writing = |contest: &&Contest| written_to(contest) == storage && writers(contest) > 0;
            for contest in self.contests(group).filter(writing) {
                let bytes = written_bytes(contest);
                let (expected, most) = self.writing_trials(contest, group);
                // Files with random overwrites exist from the first trial on.
                if contest.random.is_none() || contest.target == Target::Append {
                    needs.space_bytes = needs.space_bytes.max(made_bytes.saturating_add(bytes));
                }
                let with = |written: u64, bytes: u64, trials: usize| {
                    written.saturating_add(bytes.saturating_mul(trials as u64))
                };
                needs.expected_written = with(needs.expected_written, trial_bytes(contest), expected);
                needs.most_written = with(needs.most_written, turn_bytes(contest), most);
            }
        }
        needs
    }

    /// How many trials of a contest are expected to write, and how many may.
    fn writing_trials(&self, contest: &Contest, group: &Group) -> (usize, usize) {
        let writers = writers(contest).min(group.active(self.run).len());
        match self.bench.rounds {
            _ if contest.sustained => (writers, writers),
            Some(rounds) => {
                let with = |confirming: u32| writers * (rounds + confirming) as usize;
                (with(rounds.min(CONFIRMING_ROUNDS)), with(CONFIRMING_ROUNDS))
            }
            // As many as fit into its part of the budget if everything were twice as fast as expected.
            None => (planned_trials(writers), planned_trials(writers) * 2),
        }
    }

    /// The bytes of the test files of groups, each made once; holes are not written.
    fn made_bytes(&self, groups: &[Group], storage: usize) -> u64 {
        if self.storages[storage].scratch.is_none() {
            return 0;
        }
        let contests = groups.iter().flat_map(|group| self.contests(group));
        let made = contests.flat_map(TestFileSet::of);
        let here: BTreeSet<_> = made.filter(|(made_on, _)| *made_on == storage).collect();
        let bytes = here.iter().map(|(_, files)| files.written_bytes());
        bytes.fold(0, u64::saturating_add)
    }

    fn contests<'g>(&'g self, group: &'g Group) -> impl Iterator<Item = &'g Contest> {
        group.contests.iter().map(|&contest| &self.run.contests[contest])
    }
}

/// The number of entries of a contest that write in each of their trials.
pub(super) fn writers(contest: &Contest) -> usize {
    contest.entries.iter().filter(|entry| writes(contest, entry)).count()
}

/// Whether an entry writes in each of its trials.
pub(super) fn writes(contest: &Contest, entry: &Entry) -> bool {
    let makes = entry.command().is_some_and(|command| !command.before.is_empty());
    has_target(contest) || makes
}

/// The storage that its trials write to.
fn written_to(contest: &Contest) -> usize {
    let is_copy = contest.operation == Operation::Copy;
    contest.other_storage.filter(|_| is_copy).unwrap_or(contest.storage)
}

/// The bytes that a writing entry writes in a trial.
pub(super) fn written_bytes(contest: &Contest) -> u64 {
    let of_one = contest.random.map_or(contest.size_bytes, |random| {
        (u64::from(random.requests) * random.block_bytes).min(contest.size_bytes)
    });
    of_one.saturating_mul(u64::from(contest.files))
}

/// The most that a trial writes, with the file that is made for it if it is overwritten; one with random overwrites is made only
/// once. A method of updating may write all of the file, or each update by itself.
pub(super) fn trial_bytes(contest: &Contest) -> u64 {
    let all = written_bytes(contest);
    let is_made = contest.target == Target::Overwrite && contest.random.is_none();
    let written = contest.updates.map_or(all, |pattern| {
        let count = updates::count(&pattern, contest.size_bytes).saturating_mul(u64::from(contest.files));
        changed_bytes(contest, count, count.saturating_mul(pattern.bytes)).max(all)
    });
    written.saturating_add(if is_made { all } else { 0 })
}

/// The same once it is known what a trial of an update wrote.
pub(super) fn trial_wrote(contest: &Contest, updated: &UpdateAccount) -> u64 {
    changed_bytes(contest, updated.writes, updated.written_bytes).saturating_add(written_bytes(contest))
}

/// The bytes of the blocks that reach the device by a number of writes, of so many bytes together. Unless each write waits for the
/// device, a block of the file is written once.
fn changed_bytes(contest: &Contest, writes: u64, bytes: u64) -> u64 {
    let of_each = bytes.saturating_add(writes.saturating_mul(BLOCK_BYTES));
    let is_written_through = contest.durability == Durability::WriteThrough;
    of_each.min(if is_written_through {
        u64::MAX
    } else {
        written_bytes(contest)
    })
}

/// The block of most file systems, and the page of the page cache.
const BLOCK_BYTES: u64 = 4096;

/// The most that a turn of a contest writes, with a trial before it that is discarded.
pub(super) fn turn_bytes(contest: &Contest) -> u64 {
    let has_discarded = is_small_and_warm(contest) || contest.entries.iter().any(|entry| entry.command().is_some());
    let trials = if has_discarded { 2 } else { 1 };
    if writers(contest) == 0 {
        0
    } else {
        trial_bytes(contest).saturating_mul(trials)
    }
}

/// Refuses contests of which one, with its test files, writes more than was allowed.
///
/// # Errors
/// [`BenchError::MostWritten`].
pub(super) fn check_most_written<'a>(
    most_bytes: u64,
    calibrated_bytes: u64,
    contests: impl IntoIterator<Item = &'a Contest>,
) -> Result<(), BenchError> {
    let needed = |contest: &Contest| {
        let made = TestFileSet::of(contest).map(|(_, files)| files.written_bytes());
        made.fold(turn_bytes(contest), u64::saturating_add)
    };
    let largest = contests.into_iter().map(needed).max().unwrap_or_default();
    let needed_bytes = largest.saturating_add(calibrated_bytes);
    if needed_bytes > most_bytes {
        return Err(BenchError::MostWritten {
            needed_bytes,
            most_bytes,
        });
    }
    Ok(())
}

/// The groups that begin within a budget, one after the other; all of them without one.
fn within_reach(groups: &[Group], budget: Option<Duration>) -> &[Group] {
    let Some(budget) = budget else { return groups };
    let mut before = Duration::ZERO;
    let begin = groups.iter().take_while(|group| {
        let begins = before < budget;
        before += group.expected;
        begins
    });
    &groups[..begin.count()]
}

#[cfg(test)]
mod tests {
    use seekless_record::{Draw, UpdatePattern};

    use super::*;

    #[test]
    fn needs_of_synced_updates_count_a_block_each_time() {
        let contest = |durability| Contest {
            operation: Operation::Update,
            target: Target::Overwrite,
            size_bytes: 4 << 20,
            files: 1,
            durability,
            updates: Some(UpdatePattern {
                bytes: 4,
                every_bytes: 512,
                draw: Draw::Ascending,
            }),
            ..Contest::default()
        };
        let (through, at_end) = (contest(Durability::WriteThrough), contest(Durability::Fsync));
        let each = 8192 * (4 + 4096);
        assert_eq!([&through, &at_end].map(trial_bytes), [(4 << 20) + each, 8 << 20]);
        let updated = |writes, written_bytes| UpdateAccount {
            writes,
            written_bytes,
            ..UpdateAccount::default()
        };
        for (writes, bytes, of_through, of_end) in [
            (8192, 8192 * 4, each, 4 << 20),
            (1, 4 << 20, (4 << 20) + 4096, 4 << 20),
            (10, 40, 41_000, 41_000),
        ] {
            let wrote = [&through, &at_end].map(|contest| trial_wrote(contest, &updated(writes, bytes)) - (4 << 20));
            assert_eq!(wrote, [of_through, of_end], "{writes}");
        }
    }
}
