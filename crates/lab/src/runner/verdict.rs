//! What the trials so far say: who is dropped, whether a group is settled, and what is concluded at the end.

use std::collections::HashSet;

use seekless_record::{Status, Verdict};
use seekless_results::ranking::{self, Samples};

use super::group::Group;
use super::{DECIDING_ROUNDS, Runner};

impl Runner<'_> {
    fn samples(&self, contest: usize) -> Vec<Samples> {
        let of_entry = |entry: usize| {
            let trials = self
                .run
                .trials
                .iter()
                .filter(move |trial| (trial.contest, trial.entry) == (contest, entry));
            Samples::of(trials)
        };
        (0..self.run.contests[contest].entries.len()).map(of_entry).collect()
    }

    /// Takes what is clearly beaten out of the running.
    pub(super) fn drop_beaten(&mut self, group: &mut Group) {
        for contest in group.contests.clone() {
            let samples = self.samples(contest);
            let active: Vec<bool> = (0..samples.len())
                .map(|entry| group.active.contains(&(contest, entry)))
                .collect();
            for (entry, why) in ranking::clearly_beaten(&samples, &active, self.reference(contest)) {
                self.run.contests[contest].entries[entry].status = Status::Dropped(why);
                group.active.retain(|&other| other != (contest, entry));
            }
        }
    }

    /// The entry that runs in every round, so that drift shows: the first that is measured.
    fn reference(&self, contest: usize) -> Option<usize> {
        let entries = &self.run.contests[contest].entries;
        entries
            .iter()
            .position(|entry| entry.status == Status::Measured && entry.command.is_none())
    }

    /// Whether more rounds of a group would tell nothing new: every contest has a recommendation, and each entry still
    /// in it is known to tie. The reference runs in any case.
    pub(super) fn is_settled(&self, group: &Group) -> bool {
        group.rounds >= DECIDING_ROUNDS
            && group
                .contests
                .iter()
                .all(|&contest| self.is_contest_settled(group, contest))
    }

    fn is_contest_settled(&self, group: &Group, contest: usize) -> bool {
        let active: Vec<usize> = group
            .active
            .iter()
            .filter(|&&(of, _)| of == contest)
            .map(|&(_, entry)| entry)
            .collect();
        if active.is_empty() {
            return true;
        }
        let (judgements, conclusion) = ranking::conclude(contest, &self.run.contests[contest], &self.run.trials);
        let reference = self.reference(contest);
        let is_known = |entry: usize| {
            let standing = judgements[entry].1.as_ref();
            standing.is_none_or(|standing| {
                standing.verdict == Verdict::Slower || standing.ratio.high <= ranking::RECOMMENDED_RATIO
            })
        };
        conclusion.recommended.is_some()
            && active
                .into_iter()
                .all(|entry| Some(entry) == reference || is_known(entry))
    }

    /// The entries to measure again: the best, the recommended and the reference of each contest.
    pub(super) fn winners(&self, group: &Group) -> Vec<(usize, usize)> {
        let mut winners = Vec::new();
        for &contest in &group.contests {
            let description = &self.run.contests[contest];
            let (_, conclusion) = ranking::conclude(contest, description, &self.run.trials);
            let Some(best) = conclusion.best else { continue };
            let names = [Some(best), conclusion.recommended];
            let entries = description.entries.iter().enumerate().filter(|(entry, description)| {
                names.iter().flatten().any(|name| *name == description.method)
                    || self.reference(contest) == Some(*entry)
            });
            winners.extend(entries.map(|(entry, _)| (contest, entry)));
        }
        winners
    }

    /// Writes down the figures, the standings and what follows.
    pub(super) fn conclude(&mut self) {
        let measured: HashSet<(usize, usize)> = self
            .run
            .trials
            .iter()
            .map(|trial| (trial.contest, trial.entry))
            .collect();
        for (index, contest) in self.run.contests.iter_mut().enumerate() {
            for (number, entry) in contest.entries.iter_mut().enumerate() {
                if entry.status == Status::Measured && !measured.contains(&(index, number)) {
                    entry.status = Status::Unmeasured("the run ended before its turn came".to_owned());
                }
            }
        }
        ranking::conclude_all(&mut self.run);
    }
}
