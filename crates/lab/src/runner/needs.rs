//! What groups need: room for their files, and bytes that their trials write; said before anything is written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seekless::Operation;
use seekless_record::{Contest, Differ, Entry};
use seekless_results::{CONFIRMING_ROUNDS, Decider, Group, has_target, planned_trials};

use super::place::{SourceFiles, overwritten};
use super::{BenchError, Event, Runner};

impl Runner<'_> {
    /// Checks that there is room, and says what will be written.
    pub(super) fn announce(&mut self, decider: &Decider) -> Result<(), BenchError> {
        let groups = &decider.groups;
        let needed: Duration = groups.iter().map(|group| group.expected).sum();
        let budget = self.bench.rounds.is_none().then_some(self.bench.budget);
        let one_by_one = decider.one_by_one;
        let limit = budget.filter(|_| one_by_one);
        let likely = within_reach(groups, limit);
        // Were all twice as fast as expected.
        let reached = within_reach(groups, limit.map(|budget| budget * 2));
        let mut write_bytes = 0;
        let mut expected_write_bytes = 0;
        let mut most_space = 0;
        let mut on_file_system = BTreeMap::<String, u64>::new();
        for storage in 0..self.places.len() {
            let (space, written) = self.needs(reached, storage);
            write_bytes += written;
            expected_write_bytes += self.source_bytes(likely, storage) + self.expected_writes(likely, storage);
            most_space = most_space.max(space);
            let facts = &self.places[storage].facts;
            // Two directories of one file system share its space. Subvolumes of btrfs have numbers of their own, and
            // one device.
            let shared = match &facts.device {
                Some(device) => device.name.clone(),
                None => facts.device_number_text(),
            };
            let needed = on_file_system.entry(shared).or_default();
            *needed += space;
            if *needed > facts.free_bytes - facts.free_bytes / 10 {
                let path = self.places[storage].directory.clone();
                return Err(BenchError::NoSpace {
                    path,
                    needed_bytes: *needed,
                    free_bytes: facts.free_bytes,
                });
            }
        }
        // However fast trials are, they only write as long as there is time. A sustained write looks at the time itself, and may
        // be faster than was found.
        if let Some((budget, bytes_per_ms)) = budget.zip(self.write_bytes_per_ms) {
            let most = budget.as_millis() as u64 * bytes_per_ms * self.places.len() as u64;
            let contests = reached.iter().flat_map(|group| &group.contests);
            let sustained = contests
                .map(|&contest| &self.run.contests[contest])
                .filter(|contest| contest.sustained);
            let sustained_bytes: u64 = sustained
                .map(|contest| writers(contest) as u64 * written_bytes(contest))
                .sum();
            expected_write_bytes = expected_write_bytes.min(most);
            write_bytes = (write_bytes - sustained_bytes).min(2 * most) + sustained_bytes;
        }
        self.write_limit_bytes = Some(write_bytes);
        let expected = budget.unwrap_or(needed);
        if one_by_one {
            self.run.warnings.push(format!(
                "All of this takes about {} min, and the budget had {:.1}: contests were measured one after the other, \
                 the smallest files first. `seekless bench --resume {}` goes on with what is left; --methods and --size \
                 choose less.",
                needed.as_secs().div_ceil(60),
                expected.as_secs_f64() / 60.0,
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

    /// The space that a storage needs at one time, and the bytes written to it at most.
    fn needs(&self, groups: &[Group], storage: usize) -> (u64, u64) {
        let sources = self.source_bytes(groups, storage);
        let (mut target, mut written) = (0, 0);
        for (group, contest) in self.writing(groups, storage) {
            let bytes = written_bytes(contest);
            let active = group.active(&self.run).len();
            let writers = writers(contest).min(active);
            let trials = match self.bench.rounds {
                _ if contest.sustained => writers as u64,
                Some(rounds) => writers as u64 * u64::from(rounds + CONFIRMING_ROUNDS),
                // As many as fit into its part of the budget, were all twice as fast as expected.
                None => planned_trials(writers) as u64 * 2,
            };
            // What is written over at random places is there from the first trial on.
            if overwritten(contest).is_none() {
                target = target.max(bytes);
            }
            written += trials * bytes;
        }
        (sources + target, sources + written)
    }

    /// The bytes of the files that groups read, or write over at random places, each made once; holes are not written.
    fn source_bytes(&self, groups: &[Group], storage: usize) -> u64 {
        if self.places[storage].scratch.is_none() {
            return 0;
        }
        let contests = groups.iter().flat_map(|group| &group.contests);
        let made = contests.flat_map(|&contest| made_files(&self.run.contests[contest]));
        let here: BTreeSet<MadeFiles> = made.filter(|made| made.storage == storage).collect();
        let sources: u64 = here.iter().map(|made| made.files.written_bytes()).sum();
        let writing = self.writing(groups, storage);
        let overwritten: BTreeSet<_> = writing.filter_map(|(_, contest)| overwritten(contest)).collect();
        let made = overwritten.iter().map(|(bytes, count, _)| bytes * u64::from(*count));
        sources + made.sum::<u64>()
    }

    /// The bytes that the planned trials of groups write to a storage.
    fn expected_writes(&self, groups: &[Group], storage: usize) -> u64 {
        let mut written = 0;
        for (group, contest) in self.writing(groups, storage) {
            let trials = match (writers(contest).min(group.active(&self.run).len()), self.bench.rounds) {
                (0, _) => 0,
                (writers, _) if contest.sustained => writers as u64,
                (writers, None) => planned_trials(writers) as u64,
                (writers, Some(rounds)) => writers as u64 * u64::from(rounds + rounds.min(CONFIRMING_ROUNDS)),
            };
            written += trials * written_bytes(contest);
        }
        written
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

/// Test files of a contest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MadeFiles {
    pub storage: usize,
    pub files: SourceFiles,
    /// Where they differ if they are the second files of a comparison.
    pub second: Option<Differ>,
}

/// The test files that a contest needs.
pub(super) fn made_files(contest: &Contest) -> Vec<MadeFiles> {
    let made = |storage: usize, second: Option<Differ>| MadeFiles {
        storage,
        files: SourceFiles::of(contest),
        second,
    };
    let mut files = Vec::new();
    if needs_source(contest.operation) {
        files.push(made(contest.storage, None));
    }
    if contest.operation == Operation::Compare && contest.differ != Differ::Itself {
        let storage = contest.other_storage.unwrap_or(contest.storage);
        files.push(made(storage, Some(contest.differ)));
    }
    files
}

/// Whether trials read files that are made once; what is updated is made for each trial.
pub(super) fn needs_source(operation: Operation) -> bool {
    !matches!(operation, Operation::Write | Operation::Update)
}

/// How many entries of a contest write a file in each of their trials.
pub(super) fn writers(contest: &Contest) -> usize {
    contest.entries.iter().filter(|entry| writes(contest, entry)).count()
}

/// Whether an entry writes a file in each of its trials.
pub(super) fn writes(contest: &Contest, entry: &Entry) -> bool {
    let makes = entry.command().is_some_and(|command| !command.before.is_empty());
    has_target(contest) || makes
}

/// The bytes that an entry which writes does write in a trial.
pub(super) fn written_bytes(contest: &Contest) -> u64 {
    let of_one = contest.random.map_or(contest.size_bytes, |random| {
        (u64::from(random.requests) * random.block_bytes).min(contest.size_bytes)
    });
    of_one * u64::from(contest.files)
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
