//! The estimate from all sittings on a storage: the only estimator over sittings.
//!
//! The fit is that of `between`; samples stay in their runs. A sitting's weight halves with every [`HALF_LIFE_DAYS`]. Runs that
//! began within an hour of each other are one sitting.
//!
//! Never combined: runs of different revisions of protocol or mechanisms, kernels, machines, devices or read-ahead
//! windows, and ways of emptying the cache.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use seekless_record::{Contest, Entry, EntryVerdict, Run, Storage, StorageId, Trial};

use crate::between::Sitting;
use crate::labels::title;
use crate::ranking::{JudgedContest, conclude_judged, tell_other_sizes, write_down};
use crate::same::{is_same_machine, subject};
use crate::statistics::median;

/// A sitting's weight halves after this many days.
pub const HALF_LIFE_DAYS: f64 = 30.0;
/// Runs that began within this time are one sitting.
pub const ONE_SITTING: SignedDuration = SignedDuration::from_hours(1);

/// A run as concluded from all sittings on its storages: itself, and the other runs that measured the same contests in
/// the same way on the same storage. The samples are the run's own; figures, verdicts and conclusions rest on all
/// sittings. Contests that no other sitting has are unchanged, and so are runs that are not to be combined.
#[must_use]
pub fn pool(run: &Run, others: &[Run]) -> Run {
    let mut pooled = run.clone();
    if run.alone {
        return pooled;
    }
    let sittings = sittings(run, others);
    // Each sustained write changes the state of the device, so these are not combined.
    let contests = (0..run.contests.len()).filter(|&index| !run.contests[index].sustained);
    let merged = |index: usize| {
        let contest = &run.contests[index];
        let same = |other: &Run| same_contest(run, contest, other);
        Merged::of(run, index, contest.clone(), &sittings, same)
    };
    let all: Vec<Merged> = contests.filter_map(merged).collect();
    let mut judged: Vec<_> = all.iter().map(Merged::judged).collect();
    tell_other_sizes(&mut judged);
    for (merged, judged) in all.iter().zip(&judged) {
        let contest = &mut pooled.contests[merged.index];
        if merged.has_others {
            let (judgements, conclusion) = conclude_judged(judged);
            for (entry, (summary, verdict)) in contest.entries.iter_mut().zip(&judgements) {
                let is_counted = summary.is_some() && entry.verdict.why_excluded().is_none();
                if is_counted && !matches!(verdict, Some(EntryVerdict::Slower(_))) {
                    entry.verdict = EntryVerdict::Measured;
                }
            }
            write_down(contest, judgements, conclusion);
        }
        // The conclusion already rests on several sittings.
        if let Some(conclusion) = contest.conclusion.as_mut().filter(|_| merged.sittings.len() == 1) {
            conclusion.sittings = merged.over_sittings().sittings();
        }
    }
    pooled
}

/// Runs, the newest first: each that asks a question that no newer one asks, as concluded from all sittings up to it. The others
/// would take the time of all sittings again for each, and are `None`.
#[must_use]
pub fn pool_newest(runs: &[Run]) -> Vec<Option<Run>> {
    let mut asked: HashSet<(Option<&StorageId>, String)> = HashSet::new();
    let pooled = runs.iter().enumerate().map(|(at, run)| {
        let mut is_newest = false;
        for contest in &run.contests {
            let storage = run.storages.get(contest.storage);
            is_newest |= asked.insert((storage.and_then(|storage| storage.id.as_ref()), title(contest)));
        }
        is_newest.then(|| pool(run, &runs[at + 1..]))
    });
    pooled.collect()
}

/// Whether a run may be combined with another, which is not one of its own: measured in the same way on the same machine, with a common
/// storage.
#[must_use]
pub fn is_alike(one: &Run, other: &Run) -> bool {
    let is_known = |storage: &Storage| other.storages.iter().any(|other| is_same_storage(storage, other));
    one.revision.is_some()
        && !other.alone
        && one.revision == other.revision
        && one.drop == other.drop
        && is_same_machine(&one.machine, &other.machine)
        && one.storages.iter().any(is_known)
}

/// Whether two runs began so near each other that they are one sitting.
#[must_use]
pub fn is_one_sitting(one: &Run, other: &Run) -> bool {
    let started = |run: &Run| run.started.parse::<Timestamp>().ok();
    let both = started(one).zip(started(other));
    both.is_some_and(|(one, other)| one.duration_since(other).abs() < ONE_SITTING)
}

pub(crate) fn is_same_storage(one: &Storage, other: &Storage) -> bool {
    let Some(id) = &one.id else { return false };
    // Without a UUID, as on tmpfs, the mount point identifies the storage; and mount options such as `sync` change its
    // behaviour.
    other.id.as_ref().is_some_and(|other| id.is_same(other))
        && one.mount_options == other.mount_options
        && (id.uuid.is_some() || one.mount_point == other.mount_point)
}

/// Runs that started within an hour of each other, and the days between them and the run in question.
pub(crate) struct Together<'a> {
    pub runs: Vec<&'a Run>,
    days: f64,
}

/// The sittings, the oldest first, including the run's own.
pub(crate) fn sittings<'a>(run: &'a Run, others: impl IntoIterator<Item = &'a Run>) -> Vec<Together<'a>> {
    let started = |run: &Run| run.started.parse::<Timestamp>().ok();
    let Some(own) = started(run) else { return Vec::new() };
    let others = others
        .into_iter()
        .filter(|other| other.id != run.id && is_alike(run, other));
    let mut runs: Vec<(Timestamp, &Run)> = others.filter_map(|other| Some((started(other)?, other))).collect();
    runs.push((own, run));
    // A run that two processes resumed has two documents; the one with more trials counts.
    runs.sort_by_key(|(started, run)| (*started, run.id.clone(), Reverse(run.trials.len())));
    runs.dedup_by(|one, other| one.1.id == other.1.id);
    let mut sittings: Vec<(Timestamp, Together<'a>)> = Vec::new();
    for (started, run) in runs {
        match sittings.last_mut() {
            Some((first, together)) if started.duration_since(*first) < ONE_SITTING => together.runs.push(run),
            _ => {
                let days = started.duration_since(own).abs().as_secs_f64() / 86400.0;
                sittings.push((started, Together { runs: vec![run], days }));
            }
        }
    }
    sittings.into_iter().map(|(_, together)| together).collect()
}

/// The contest of another run that measured the same on the same storage.
fn same_contest(run: &Run, contest: &Contest, other: &Run) -> Option<usize> {
    let is_same = |one: usize, other_storage: usize| {
        let (one, other) = (run.storages.get(one), other.storages.get(other_storage));
        one.zip(other).is_some_and(|(one, other)| is_same_storage(one, other))
    };
    other.contests.iter().position(|found| {
        subject(0, contest) == subject(0, found)
            && is_same(contest.storage, found.storage)
            && match (contest.other_storage, found.other_storage) {
                (Some(one), Some(other)) => is_same(one, other),
                (one, other) => one == other,
            }
    })
}

/// A contest with its trials of all sittings, with consecutive rounds.
pub(crate) struct Merged {
    /// Its index in the run.
    index: usize,
    pub contest: Contest,
    trials: Vec<Vec<Trial>>,
    pub sittings: Vec<Sitting>,
    /// Whether another run has trials of it.
    has_others: bool,
}

impl Merged {
    /// A contest of a run, which may have more entries here, with its trials of other sittings; `None` if nothing was measured.
    /// `same` finds the contest of another run.
    pub fn of(
        run: &Run,
        index: usize,
        contest: Contest,
        sittings: &[Together<'_>],
        same: impl Fn(&Run) -> Option<usize>,
    ) -> Option<Self> {
        let mut merged = Self {
            index,
            trials: vec![Vec::new(); contest.entries.len()],
            contest,
            sittings: Vec::new(),
            has_others: false,
        };
        let mut rounds = 0;
        for together in sittings {
            let (first_round, mut runs) = (rounds, 0);
            for &other in &together.runs {
                let is_own = std::ptr::eq(run, other);
                let Some(found) = is_own.then_some(index).or_else(|| same(other)) else {
                    continue;
                };
                let begin = rounds;
                for (entry, mut trial) in trials_of(&merged.contest.entries, other, found) {
                    trial.round = trial.round.saturating_add(begin);
                    rounds = rounds.max(trial.round.saturating_add(1));
                    merged.trials[entry].push(trial);
                }
                runs += u32::from(rounds > begin);
                merged.has_others |= rounds > begin && !is_own;
            }
            if rounds > first_round {
                merged.add_sitting(first_round, runs, together.days);
            }
        }
        // Entries that this run dropped or did not measure are ranked by the other sittings.
        if merged.has_others {
            for entry in &mut merged.contest.entries {
                if matches!(entry.verdict, EntryVerdict::Dropped(_) | EntryVerdict::Unmeasured(_)) {
                    entry.verdict = EntryVerdict::Measured;
                }
            }
        }
        (rounds > 0).then_some(merged)
    }

    /// The rounds from this one on are those of one sitting, of this many runs.
    fn add_sitting(&mut self, first_round: u32, runs: u32, days: f64) {
        let judged = JudgedContest::of(&self.contest, self.trials_since(first_round));
        let (effects, contenders) = match judged.all() {
            Some(field) => (field.model.effects.clone(), judged.contenders().to_vec()),
            None => (vec![None; self.trials.len()], Vec::new()),
        };
        self.sittings.push(Sitting {
            runs,
            effects,
            contenders,
            weight: 0.5_f64.powf(days / HALF_LIFE_DAYS),
        });
    }

    /// The trials from a round on, by entry.
    fn trials_since(&self, round: u32) -> Vec<Vec<&Trial>> {
        let entries = self.trials.iter();
        entries
            .map(|trials| trials.iter().filter(|trial| trial.round >= round).collect())
            .collect()
    }

    /// The median of a figure of an entry's trials, over all sittings.
    pub fn median_of(&self, entry: usize, figure: fn(&Trial) -> f64) -> Option<f64> {
        let valid = self.trials[entry].iter().filter(|trial| trial.valid);
        median(&valid.map(figure).collect::<Vec<f64>>())
    }

    /// The judgement over all sittings.
    fn over_sittings(&self) -> JudgedContest<'_> {
        JudgedContest::over_sittings(&self.contest, self.trials_since(0), &self.sittings)
    }

    /// As above, but a single sitting is judged like a single run: for its hour only.
    pub fn judged(&self) -> JudgedContest<'_> {
        match self.sittings.len() {
            1 => JudgedContest::of(&self.contest, self.trials_since(0)),
            _ => self.over_sittings(),
        }
    }
}

/// The trials of a contest of another run, by the entries of ours.
fn trials_of<'a>(entries: &[Entry], other: &'a Run, contest: usize) -> impl Iterator<Item = (usize, Trial)> + 'a {
    let ours: HashMap<String, usize> = (entries.iter().enumerate())
        .map(|(at, entry)| (entry.name().into_owned(), at))
        .collect();
    let theirs = other.contests[contest].entries.iter();
    let places: Vec<Option<usize>> = theirs.map(|entry| ours.get(&*entry.name()).copied()).collect();
    let trials = other.trials.iter().filter(move |trial| trial.contest == contest);
    trials.filter_map(move |trial| Some(((*places.get(trial.entry)?)?, trial.clone())))
}

#[cfg(test)]
mod tests;
