//! The needs of groups: space for their files, and bytes that their trials write. They are announced before anything is
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seekless_record::{Contest, Entry};
use seekless_results::{CONFIRMING_ROUNDS, Decider, Group, has_target, planned_trials};

use super::place::TestFiles;
use super::{BenchError, Event, Runner};

impl Runner<'_> {
    /// Checks that there is enough space, and announces how much will be written.
    pub(super) fn announce(&mut self, decider: &Decider) -> Result<(), BenchError> {
        let groups = &decider.groups;
        let needed: Duration = groups.iter().map(|group| group.expected).sum();
        let budget = self.bench.rounds.is_none().then_some(self.bench.budget);
        let one_by_one = decider.one_by_one;
        let limit = budget.filter(|_| one_by_one);
        let likely = within_reach(groups, limit);
        // As if everything were twice as fast as expected.
        let reached = within_reach(groups, limit.map(|budget| budget * 2));
        let (mut write_bytes, mut expected_write_bytes, mut most_space) = (0_u64, 0_u64, 0);
        let mut on_file_system = BTreeMap::<String, u64>::new();
        for storage in 0..self.places.len() {
            let needs = self.needs(reached, storage);
            write_bytes = write_bytes.saturating_add(needs.most_written);
            let expected = self.needs(likely, storage).expected_written;
            expected_write_bytes = expected_write_bytes.saturating_add(expected);
            most_space = most_space.max(needs.space_bytes);
            let facts = &self.places[storage].facts;
            // Two directories of one file system share its space. Subvolumes of btrfs have numbers of their own, and
            // one device.
            let shared = match &facts.device {
                Some(device) => device.name.clone(),
                None => facts.device_number_text(),
            };
            let needed = on_file_system.entry(shared).or_default();
            *needed = needed.saturating_add(needs.space_bytes);
            if *needed > facts.free_bytes - facts.free_bytes / 10 {
                let path = self.places[storage].directory.clone();
                return Err(BenchError::NoSpace {
                    path,
                    needed_bytes: *needed,
                    free_bytes: facts.free_bytes,
                });
            }
        }
        // Trials only write within the budget, however fast they are. A sustained write checks the time itself, and may
        // be faster than measured before.
        if let Some((budget, bytes_per_ms)) = budget.zip(self.write_bytes_per_ms) {
            let most = budget.as_millis() as u64 * bytes_per_ms * self.places.len() as u64;
            let contests = reached.iter().flat_map(|group| &group.contests);
            let sustained = contests
                .map(|&contest| &self.run.contests[contest])
                .filter(|contest| contest.sustained);
            let sustained = sustained.map(|contest| written_bytes(contest).saturating_mul(writers(contest) as u64));
            let sustained_bytes = sustained.fold(0, u64::saturating_add);
            expected_write_bytes = expected_write_bytes.min(most);
            write_bytes = write_bytes.saturating_sub(sustained_bytes).min(2 * most) + sustained_bytes;
        }
        self.write_limit_bytes = Some(write_bytes);
        let expected = budget.unwrap_or(needed);
        if one_by_one {
            self.run.warnings.push(format!(
                "All of this takes about {} min, and the budget was {} s: contests were measured one after the other, \
                 the smallest files first. `seekless bench --resume {}` measures the rest; --methods and --size \
                 choose less.",
                needed.as_secs().div_ceil(60),
                expected.as_secs(),
                self.run.id,
            ));
        }
        self.watch.event(&Event::Planned {
            write_bytes,
            expected_write_bytes,
            space_bytes: most_space,
            expected,
            needed,
            contests: groups.iter().map(|group| group.contests.len()).sum(),
            entries: groups.iter().map(|group| group.active(&self.run).len()).sum(),
            one_by_one,
        });
        Ok(())
    }

    /// The needs of groups on a storage.
    fn needs(&self, groups: &[Group], storage: usize) -> Needs {
        let made_bytes = self.made_bytes(groups, storage);
        let mut needs = Needs {
            space_bytes: made_bytes,
            expected_written: made_bytes,
            most_written: made_bytes,
        };
        for (group, contest) in self.writing(groups, storage) {
            let bytes = written_bytes(contest);
            let writers = writers(contest).min(group.active(&self.run).len());
            let (expected, most) = match self.bench.rounds {
                _ if contest.sustained => (writers, writers),
                Some(rounds) => {
                    let with = |confirming: u32| writers * (rounds + confirming) as usize;
                    (with(rounds.min(CONFIRMING_ROUNDS)), with(CONFIRMING_ROUNDS))
                }
                // As many as fit into its part of the budget if everything were twice as fast as expected.
                None => (planned_trials(writers), planned_trials(writers) * 2),
            };
            // Files with random overwrites exist from the first trial on.
            if contest.random.is_none() {
                needs.space_bytes = needs.space_bytes.max(made_bytes.saturating_add(bytes));
            }
            let with = |written: u64, trials: usize| written.saturating_add(bytes.saturating_mul(trials as u64));
            needs.expected_written = with(needs.expected_written, expected);
            needs.most_written = with(needs.most_written, most);
        }
        needs
    }

    /// The bytes of the test files of groups, each made once; holes are not written.
    fn made_bytes(&self, groups: &[Group], storage: usize) -> u64 {
        if self.places[storage].scratch.is_none() {
            return 0;
        }
        let contests = groups.iter().flat_map(|group| &group.contests);
        let made = contests.flat_map(|&contest| TestFiles::of(&self.run.contests[contest]));
        let here: BTreeSet<_> = made.filter(|(made_on, _)| *made_on == storage).collect();
        here.iter()
            .map(|(_, files)| files.written_bytes())
            .fold(0, u64::saturating_add)
    }

    /// The contests of groups whose trials write to a storage.
    fn writing<'a>(&'a self, groups: &'a [Group], storage: usize) -> impl Iterator<Item = (&'a Group, &'a Contest)> {
        let all = groups
            .iter()
            .flat_map(|group| group.contests.iter().map(move |&contest| (group, contest)));
        let all = all.map(|(group, contest)| (group, &self.run.contests[contest]));
        all.filter(move |(_, contest)| contest.storage == storage && writers(contest) > 0)
    }
}

/// The needs on a storage, in bytes.
struct Needs {
    /// Space needed at one time.
    space_bytes: u64,
    /// Expected writes in total, including test files.
    expected_written: u64,
    /// The most bytes that may be written.
    most_written: u64,
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

/// The bytes that a writing entry writes in a trial.
pub(super) fn written_bytes(contest: &Contest) -> u64 {
    let of_one = contest.random.map_or(contest.size_bytes, |random| {
        (u64::from(random.requests) * random.block_bytes).min(contest.size_bytes)
    });
    of_one.saturating_mul(u64::from(contest.files))
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
