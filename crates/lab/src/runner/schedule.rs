//! In which order the time is spent: on all contests in turn, or, where it is not enough for all, on one after the other.

use std::time::{Duration, Instant};

use seekless_record::Phase;

use super::group::Group;
use super::{BenchError, CONFIRMING_PART, CONFIRMING_ROUNDS, DECIDING_ROUNDS, MOST_ROUNDS, Runner, SCREENING_ROUNDS};

/// Where all would take so many times the budget, a round of each would leave nothing decided.
const TOO_MUCH: u32 = 2;
/// A contest that is not settled after so many times its expected time gives way to the next.
const PATIENCE: f64 = 1.5;
/// The same for one that has too few rounds to be decided, and so would be worth little. Some methods take ten times what is
/// expected of all: direct I/O in small blocks.
const PATIENCE_UNDECIDED: f64 = 4.0;

/// Whether the groups are measured one after the other, because the budget is not enough for all.
pub(super) fn is_one_by_one(groups: &[Group], budget: Duration) -> bool {
    let needed: Duration = groups.iter().map(|group| group.expected).sum();
    needed > budget * TOO_MUCH
}

/// What groups that are measured one after the other are sorted by: first those that were begun, then the smallest files.
pub(super) fn order_one_by_one(group: &Group) -> (bool, u64) {
    (group.rounds == 0, group.bytes)
}

impl Runner<'_> {
    /// Measures all groups, within the budget if there is one.
    pub(super) fn run_groups(&mut self, groups: Vec<Group>) -> Result<(), BenchError> {
        if self.bench.rounds.is_some() || !is_one_by_one(&groups, self.bench.budget) {
            self.run_in_turn(groups)
        } else {
            self.run_one_by_one(groups)
        }
    }

    /// Runs a round of each group in turn: so drift meets all alike, and a budget that ends early leaves something of
    /// everything.
    fn run_in_turn(&mut self, mut groups: Vec<Group>) -> Result<(), BenchError> {
        self.make_files(&groups)?;
        let end = self.bench.rounds.is_none().then(|| self.started + self.bench.budget);
        for _ in 0..self.bench.rounds.unwrap_or(SCREENING_ROUNDS) {
            for group in &mut groups {
                if self.bench.rounds.is_some() || group.rounds < SCREENING_ROUNDS {
                    self.round(group, Phase::Screening, end)?;
                }
            }
        }
        let Some(end) = end else {
            return groups.iter_mut().try_for_each(|group| self.confirm(group, None));
        };
        let contending_end = self.started + self.bench.budget.mul_f64(1.0 - CONFIRMING_PART);
        self.spend(&mut groups, contending_end)?;
        for index in 0..groups.len() {
            let left = end.saturating_duration_since(Instant::now());
            let share = left / (groups.len() - index) as u32;
            self.confirm(&mut groups[index], Some(Instant::now() + share))?;
        }
        Ok(())
    }

    /// Runs one group after the other, each to its end, while there is time for the whole of the next; then rounds of those
    /// that are not settled.
    fn run_one_by_one(&mut self, mut groups: Vec<Group>) -> Result<(), BenchError> {
        groups.sort_by_key(order_one_by_one);
        let end = self.started + self.bench.budget;
        let mut done = 0;
        for group in &mut groups {
            let left = end.saturating_duration_since(Instant::now());
            // What was begun is gone on with, however little time there is.
            if self.is_over(Some(end)) || (done > 0 && group.expected > left && group.rounds == 0) {
                break;
            }
            done += 1;
            self.make_files(std::slice::from_ref(group))?;
            let start = Instant::now();
            let usable = left.mul_f64(1.0 - CONFIRMING_PART);
            let after = |times| start + usable.min(group.expected.mul_f64(times));
            let (patient_end, undecided_end) = (after(PATIENCE), after(PATIENCE_UNDECIDED));
            while group.rounds < SCREENING_ROUNDS && !group.active.is_empty() && !self.is_over(Some(end)) {
                self.round(group, Phase::Screening, Some(end))?;
            }
            self.spend(std::slice::from_mut(group), patient_end)?;
            while group.rounds < DECIDING_ROUNDS && !group.active.is_empty() && !self.is_over(Some(undecided_end)) {
                self.round(group, Phase::Contending, Some(undecided_end))?;
                self.drop_beaten(group);
            }
            self.confirm(group, Some(end))?;
        }
        self.spend(&mut groups[..done], end)
    }

    /// Drops what is beaten, and spends what is left of the budget on the groups that are not settled.
    fn spend(&mut self, groups: &mut [Group], end: Instant) -> Result<(), BenchError> {
        while !self.is_over(Some(end)) {
            let mut measured = false;
            for group in groups.iter_mut() {
                self.drop_beaten(group);
                if group.rounds < MOST_ROUNDS && !self.is_over(Some(end)) && !self.is_settled(group) {
                    let before = group.rounds;
                    self.round(group, Phase::Contending, Some(end))?;
                    measured |= group.rounds > before;
                }
            }
            if !measured {
                break;
            }
        }
        for group in groups {
            self.drop_beaten(group);
        }
        Ok(())
    }

    /// Fresh rounds of the winners, beside the reference.
    fn confirm(&mut self, group: &mut Group, end: Option<Instant>) -> Result<(), BenchError> {
        if group.is_confirmed() {
            return Ok(());
        }
        let winners = self.winners(group);
        let active = std::mem::replace(&mut group.active, winners);
        let mut result = Ok(());
        for _ in 0..self.bench.rounds.unwrap_or(CONFIRMING_ROUNDS).min(CONFIRMING_ROUNDS) {
            result = result.and_then(|()| self.round(group, Phase::Confirming, end));
        }
        group.active = active;
        group.rounds_confirmed = Some(group.rounds);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(seconds: u64, bytes: u64, rounds: u32) -> Group {
        Group {
            active: Vec::new(),
            rounds,
            rounds_confirmed: None,
            expected: Duration::from_secs(seconds),
            bytes,
            contests: Vec::new(),
        }
    }

    #[test]
    fn contests_are_measured_in_turn_unless_the_budget_is_far_from_enough() {
        let groups = [group(60, 1, 0), group(60, 1, 0)];
        assert!(!is_one_by_one(&groups, Duration::from_mins(1)));
        assert!(is_one_by_one(&groups, Duration::from_secs(59)));
    }

    #[test]
    fn what_was_begun_comes_first_and_then_the_smallest_files() {
        let mut groups = [group(1, 8, 0), group(2, 4, 0), group(3, 4, 0), group(4, 16, 2)];
        groups.sort_by_key(order_one_by_one);
        assert_eq!(groups.map(|group| group.expected.as_secs()), [4, 2, 3, 1]);
    }
}
