//! Decides what to measure next, and when to stop. The lab and the simulations call it before each trial.
//!
//! A [`Group`] is everything of one description (experiment, operation, size, cache state, durability) on all storages. A
//! group's rounds are shuffled. First come three rounds of everything, a round of each group in turn: drift then meets all
//! groups alike, and a budget that ends early leaves results for each. Then come rounds of what is not clearly beaten, first
//! as many as a recommendation needs, then in the groups that are undecided. Each of these gets the same time, so short
//! trials get many rounds. Last, the winners are measured again on fresh rounds. If the budget is not enough for all
//! groups, they are measured like this one after the other, each to its end.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use seekless_record::{Contest, Entry, EntryVerdict, Phase, Run, Trial};

use crate::labels::description;
use crate::ranking::{JudgedContest, clearly_beaten, conclude_all};

/// Rounds before anything is dropped.
const SCREENING_ROUNDS: u32 = 3;
/// Rounds that a recommendation needs.
const DECIDING_ROUNDS: u32 = 6;
/// From twice as many rounds on, a group is judged less often than after each: the more often one looks, the more often chance
/// makes a difference, and judging takes time.
const LOOKS_PER_DOUBLING: u32 = 12;
/// Fresh rounds of the winner: enough for an interval.
pub const CONFIRMING_ROUNDS: u32 = 6;
/// How many of the fastest are measured again.
const CONFIRMED: usize = 3;
/// The part of the budget that is kept for measuring the winners again.
const CONFIRMING_PART: f64 = 0.12;
/// If all groups need more than this many budgets, a round of each would leave nothing decided.
const TOO_MUCH: u32 = 2;
/// A group that is not settled after this many times its expected time gives way to the next.
const PATIENCE: f64 = 1.5;
/// The same for a group with too few rounds to be decided, whose figures would be of little use. Some methods, such as
/// direct I/O in small blocks, take ten times the time expected for all.
const PATIENCE_UNDECIDED: f64 = 4.0;

/// Trials that are expected in a group: everything three times, then a third of them three times more, and the winners.
#[must_use]
pub fn planned_trials(entries: usize) -> usize {
    entries * SCREENING_ROUNDS as usize + entries.div_ceil(3) * 3 + 9
}

/// Trials after which a group has a verdict even if nothing is dropped, because the machine is busy.
#[must_use]
pub fn deciding_trials(entries: usize) -> usize {
    planned_trials(entries).max(entries * DECIDING_ROUNDS as usize)
}

/// Contests of one description on all storages: they share rounds.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The contests, by their indices in the run.
    pub contests: Vec<usize>,
    /// How long it is expected to take.
    pub expected: Duration,
    /// Whether it has one round only, as a sustained write has.
    pub is_once: bool,
    rounds: u32,
    /// How long its rounds took, after those that a recommendation needs.
    spent: Duration,
    /// How many rounds there were when it was last judged, and whether it was settled then.
    judged: Option<(u32, bool)>,
    /// Whether no trial of it may run any more.
    is_stopped: bool,
    /// How many rounds there were when the winners had last been measured again.
    rounds_confirmed: Option<u32>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make the files of these contests.
    Files(Vec<usize>),
    /// Run this trial.
    Trial(Turn),
}

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The group.
    pub group: usize,
    /// The contest.
    pub contest: usize,
    /// The entry.
    pub entry: usize,
    /// The round of the group, from 0.
    pub round: u32,
    /// The part of the run.
    pub phase: Phase,
}

/// Decides what to measure next.
#[derive(Debug)]
pub struct Decider {
    /// The groups, in the order in which they are measured. If entries of a contest turn out to do other work than the rest,
    /// they become a contest of their own, which joins the same group.
    pub groups: Vec<Group>,
    /// Whether the groups are measured one after the other, because the budget is not enough for all.
    pub one_by_one: bool,
    rounds: Option<u32>,
    budget: Duration,
    rng: fastrand::Rng,
    steps: VecDeque<Step>,
    round: Option<Round>,
    /// Whether a trial was run in this pass over the groups of a step.
    measured: bool,
}

#[derive(Debug)]
enum Step {
    Files(Range<usize>),
    Rounds(Rounds),
    /// Rounds of the groups that are undecided, in equal times, until none needs more or the time is over.
    Contend(Range<usize>, Duration),
    /// Fresh rounds of a group's winners.
    Confirm(usize),
    /// Where groups are measured one after the other: begin this one, if there is time for all of it.
    Begin(usize),
    /// All rounds of a group that has begun, with the time that was left before its files were made.
    Patiently(usize, Duration),
}

/// Passes over some groups, a round of each, until none needs more or the time is over.
#[derive(Debug)]
struct Rounds {
    groups: Range<usize>,
    next: usize,
    phase: Phase,
    most: u32,
    end: Duration,
}

/// A round under way.
#[derive(Debug)]
struct Round {
    group: usize,
    phase: Phase,
    end: Duration,
    order: std::vec::IntoIter<(usize, usize)>,
    began: Option<Duration>,
    /// Whether its time is counted.
    is_counted: bool,
}

impl Decider {
    /// A decider for these groups of a run; groups without anything to measure are left out. If a number of rounds is given,
    /// the budget is ignored.
    #[must_use]
    pub fn new(run: &Run, mut groups: Vec<Group>, rounds: Option<u32>, budget: Duration, seed: u64) -> Self {
        let budget = if rounds.is_some() { Duration::MAX } else { budget };
        groups.retain(|group| !group.active(run).is_empty());
        let needed: Duration = groups.iter().map(|group| group.expected).sum();
        let one_by_one = needed > budget.saturating_mul(TOO_MUCH);
        let all = 0..groups.len();
        let mut steps = VecDeque::new();
        if one_by_one {
            // First those that were begun, then the smallest files.
            groups.sort_by_key(|group| (group.rounds == 0, run.contests[group.contests[0]].size_bytes));
            steps.push_back(Step::Begin(0));
        } else {
            let most = rounds.unwrap_or(SCREENING_ROUNDS);
            steps.push_back(Step::Files(all.clone()));
            steps.push_back(Step::rounds(all.clone(), Phase::Screening, most, budget));
            if rounds.is_none() {
                let end = contending_time(budget);
                steps.push_back(Step::rounds(all.clone(), Phase::Contending, DECIDING_ROUNDS, end));
                steps.push_back(Step::Contend(all.clone(), end));
                // Rounds that a recommendation needs are more important than fresh rounds.
                steps.push_back(Step::rounds(all.clone(), Phase::Contending, DECIDING_ROUNDS, budget));
            }
            steps.extend(all.clone().map(Step::Confirm));
            if rounds.is_none() {
                // Fresh rounds may show that it is not decided.
                steps.push_back(Step::Contend(all, budget));
            }
        }
        Self {
            groups,
            one_by_one,
            rounds,
            budget,
            rng: fastrand::Rng::with_seed(seed),
            steps,
            round: None,
            measured: false,
        }
    }

    /// What to do next, `elapsed` after the start; at `Duration::MAX`, no trial begins. What is clearly beaten becomes
    /// [`EntryVerdict::Dropped`] in the run. A contest that may not run now misses its turn.
    pub fn next(&mut self, run: &mut Run, elapsed: Duration, may_run: impl Fn(&Contest) -> bool) -> Option<Next> {
        loop {
            if let Some(round) = &mut self.round {
                let left = round.order.by_ref().take_while(|_| elapsed < round.end);
                let turn = left.into_iter().find(|&(contest, _)| may_run(&run.contests[contest]));
                if let Some((contest, entry)) = turn {
                    round.began.get_or_insert(elapsed);
                    return Some(Next::Trial(Turn {
                        group: round.group,
                        contest,
                        entry,
                        round: self.groups[round.group].rounds,
                        phase: round.phase,
                    }));
                }
                // A round that was cut short keeps its number, because no two trials of an entry may share one.
                let group = &mut self.groups[round.group];
                group.rounds += u32::from(round.began.is_some());
                group.is_stopped = round.began.is_none();
                if let Some(began) = round.began.filter(|_| round.is_counted) {
                    group.spent += elapsed.saturating_sub(began);
                }
                self.measured |= round.began.is_some();
                self.round = None;
            }
            match self.steps.pop_front()? {
                Step::Files(groups) => {
                    let contests = self.groups[groups].iter().flat_map(|group| &group.contests);
                    return Some(Next::Files(contests.copied().collect()));
                }
                Step::Rounds(rounds) => self.next_round(rounds, run, elapsed),
                Step::Contend(groups, end) => self.contend(groups, end, run, elapsed),
                Step::Confirm(group) => self.confirm(group, elapsed),
                Step::Begin(group) => self.begin(group, elapsed),
                Step::Patiently(group, left) => self.patiently(group, left, elapsed),
            }
        }
    }

    /// Begins the round of the next group that needs one. The step continues after that round.
    fn next_round(&mut self, mut step: Rounds, run: &mut Run, elapsed: Duration) {
        if step.next == step.groups.end && self.measured {
            step.next = step.groups.start;
        }
        if step.next == step.groups.start {
            self.measured = false;
        }
        if step.next == step.groups.end || elapsed >= step.end {
            for group in &mut self.groups[step.groups] {
                match step.phase {
                    Phase::Screening => {}
                    Phase::Contending => group.drop_beaten(run),
                    Phase::Confirming => group.rounds_confirmed = Some(group.rounds),
                }
            }
            return;
        }
        let group = &self.groups[step.next];
        if step.phase == Phase::Contending {
            group.drop_beaten(run);
        }
        if group.rounds < step.most && group.may_go_on() {
            self.begin_round(step.next, step.phase, step.end, run);
        }
        step.next += 1;
        self.steps.push_front(Step::Rounds(step));
    }

    /// Begins a round of the undecided group that had the least time.
    fn contend(&mut self, groups: Range<usize>, end: Duration, run: &mut Run, elapsed: Duration) {
        for group in &mut self.groups[groups.clone()] {
            group.judge(run, elapsed >= end);
        }
        let next = groups
            .clone()
            .filter(|&index| self.groups[index].needs_more())
            .min_by_key(|&index| self.groups[index].spent);
        if let Some(index) = next.filter(|_| elapsed < end) {
            self.begin_round(index, Phase::Contending, end, run);
            self.round.iter_mut().for_each(|round| round.is_counted = true);
            self.steps.push_front(Step::Contend(groups, end));
        }
    }

    fn begin_round(&mut self, index: usize, phase: Phase, end: Duration, run: &Run) {
        let group = &self.groups[index];
        let mut order = match phase {
            Phase::Confirming => group.winners(run),
            _ => group.active(run),
        };
        self.rng.shuffle(&mut order);
        self.round = Some(Round {
            group: index,
            phase,
            end,
            order: order.into_iter(),
            began: None,
            is_counted: false,
        });
    }

    /// Fresh rounds of the winners, beside the reference, in a fair share of the time.
    fn confirm(&mut self, index: usize, elapsed: Duration) {
        let group = &self.groups[index];
        if group.is_confirmed() {
            return;
        }
        let sharing = if self.one_by_one { 1 } else { self.groups.len() - index };
        let end = elapsed + self.budget.saturating_sub(elapsed) / sharing as u32;
        let most = group.rounds + self.rounds.unwrap_or(CONFIRMING_ROUNDS).min(CONFIRMING_ROUNDS);
        self.steps
            .push_front(Step::rounds(index..index + 1, Phase::Confirming, most, end));
    }

    /// Begins a group if there is time for the whole of it; what was begun is resumed, however little time there is. Then
    /// what is left goes to the groups that are not settled.
    fn begin(&mut self, index: usize, elapsed: Duration) {
        let left = self.budget.saturating_sub(elapsed);
        let is_next = |group: &Group| !left.is_zero() && (index == 0 || group.rounds > 0 || group.expected <= left);
        if self.groups.get(index).is_some_and(is_next) {
            self.steps.extend([
                Step::Files(index..index + 1),
                Step::Patiently(index, left),
                Step::Begin(index + 1),
            ]);
        } else {
            self.steps.push_back(Step::Contend(0..index, self.budget));
        }
    }

    fn patiently(&mut self, index: usize, left: Duration, elapsed: Duration) {
        let expected = self.groups[index].expected;
        let after = |times| elapsed.saturating_add(contending_time(left).min(expected.mul_f64(times)));
        let rounds = |phase, most, end| Step::rounds(index..index + 1, phase, most, end);
        for step in [
            Step::Confirm(index),
            rounds(Phase::Contending, DECIDING_ROUNDS, after(PATIENCE_UNDECIDED)),
            Step::Contend(index..index + 1, after(PATIENCE)),
            rounds(Phase::Screening, SCREENING_ROUNDS, self.budget),
        ] {
            self.steps.push_front(step);
        }
    }
}

impl Step {
    fn rounds(groups: Range<usize>, phase: Phase, most: u32, end: Duration) -> Self {
        let next = groups.start;
        Self::Rounds(Rounds {
            groups,
            next,
            phase,
            most,
            end,
        })
    }
}

/// The part of a budget in which methods contend; the rest is for measuring the winners again.
#[must_use]
pub fn contending_time(budget: Duration) -> Duration {
    budget.mul_f64(1.0 - CONFIRMING_PART)
}

impl Group {
    /// The groups of a run in which something is left to measure. Methods that had no turn get it now.
    #[must_use]
    pub fn remaining(run: &mut Run) -> Vec<Self> {
        for entry in run.contests.iter_mut().flat_map(|contest| &mut contest.entries) {
            if entry.verdict == EntryVerdict::Unmeasured(None) {
                entry.verdict = EntryVerdict::Measured;
            }
        }
        let mut groups: Vec<Self> = Vec::new();
        for (index, contest) in run.contests.iter().enumerate() {
            let same = |group: &&mut Self| description(&run.contests[group.contests[0]]) == description(contest);
            match groups.iter_mut().find(same) {
                Some(group) => group.contests.push(index),
                None => groups.push(Self {
                    contests: vec![index],
                    is_once: contest.sustained,
                    ..Self::default()
                }),
            }
        }
        let measured = measured(run);
        for group in &mut groups {
            let of_group = |trial: &&Trial| group.contests.contains(&trial.contest);
            let after = |trial: &Trial| trial.round + 1;
            let trials = || run.trials.iter().filter(of_group);
            group.rounds = trials().map(after).max().unwrap_or(0);
            group.rounds_confirmed = trials()
                .filter(|trial| trial.phase == Phase::Confirming)
                .map(after)
                .max();
        }
        groups.retain(|group| {
            let had_turn = group.active(run).iter().all(|entry| measured.contains(entry));
            let is_confirmed = group.is_confirmed() || group.winners(run).is_empty();
            !(had_turn && (!group.may_go_on() || (is_confirmed && group.is_settled(run))))
        });
        groups
    }

    /// The entries that are still measured: contest and entry.
    #[must_use]
    pub fn active(&self, run: &Run) -> Vec<(usize, usize)> {
        let contests = self.contests.iter();
        contests
            .flat_map(|&contest| active(&run.contests[contest]).map(move |entry| (contest, entry)))
            .collect()
    }

    /// Whether there may be another round.
    fn may_go_on(&self) -> bool {
        !self.is_once || self.rounds == 0
    }

    /// Whether the winners were measured again, and nothing was measured since.
    fn is_confirmed(&self) -> bool {
        self.rounds_confirmed == Some(self.rounds)
    }

    /// Drops entries that are clearly beaten.
    fn drop_beaten(&self, run: &mut Run) {
        for &index in &self.contests {
            let contest = &run.contests[index];
            let is_active: Vec<bool> = contest.entries.iter().map(is_measured).collect();
            let samples = JudgedContest::new(run, index).samples;
            for entry in clearly_beaten(&samples, &is_active, reference(contest)) {
                run.contests[index].entries[entry].verdict = EntryVerdict::Dropped(None);
            }
        }
    }

    /// Drops entries that are clearly beaten, and checks whether the group is settled, if there are enough new rounds
    /// since the last check, or if this is the last check.
    fn judge(&mut self, run: &mut Run, is_last: bool) {
        let is_due = |(rounds, _): (u32, bool)| self.rounds >= rounds + (rounds / LOOKS_PER_DOUBLING).max(1);
        if is_last || self.judged.is_none_or(is_due) {
            self.drop_beaten(run);
            self.judged = Some((self.rounds, self.is_settled(run)));
        }
    }

    /// Whether more rounds are useful and available.
    fn needs_more(&self) -> bool {
        let is_settled = self.judged.is_some_and(|(_, is_settled)| is_settled);
        !is_settled && !self.is_stopped && self.may_go_on()
    }

    /// Whether more rounds would not improve any contest.
    fn is_settled(&self, run: &Run) -> bool {
        let is_settled = |&index: &usize| {
            let contest = &run.contests[index];
            if active(contest).next().is_none() {
                return true;
            }
            let judged = JudgedContest::new(run, index);
            judged.is_settled()
        };
        self.rounds >= DECIDING_ROUNDS && self.contests.iter().all(is_settled)
    }

    /// The entries to measure again in each contest: the three fastest, the one to use and the reference. None if there
    /// is no recommendation, or nothing to compare with: only what won may have been lucky.
    fn winners(&self, run: &Run) -> Vec<(usize, usize)> {
        let mut winners = Vec::new();
        for &index in &self.contests {
            let contest = &run.contests[index];
            let judged = JudgedContest::new(run, index);
            let has_winner = !judged.has_commands_alone() && judged.by_speed().nth(1).is_some();
            let Some(all) = judged.all().filter(|_| has_winner) else {
                continue;
            };
            let measured = judged.by_speed().filter(|&entry| is_measured(&contest.entries[entry]));
            let mut chosen: BTreeSet<usize> = measured.take(CONFIRMED).chain([all.leader]).collect();
            chosen.extend(judged.pick().map(|pick| pick.entry));
            chosen.extend(reference(contest));
            winners.extend(chosen.into_iter().map(|entry| (index, entry)));
        }
        winners
    }
}

fn is_measured(entry: &Entry) -> bool {
    entry.verdict.is_measured()
}

fn active(contest: &Contest) -> impl Iterator<Item = usize> {
    let entries = contest.entries.iter().enumerate();
    entries.filter(|(_, entry)| is_measured(entry)).map(|(entry, _)| entry)
}

/// The entry that runs in every round, so that drift shows: the first that is measured.
fn reference(contest: &Contest) -> Option<usize> {
    active(contest).find(|&entry| contest.entries[entry].command().is_none())
}

/// The entries that have a trial: contest and entry.
fn measured(run: &Run) -> HashSet<(usize, usize)> {
    run.trials.iter().map(|trial| (trial.contest, trial.entry)).collect()
}

/// Records the conclusion of every contest if the run ends now; entries that had no turn become [`EntryVerdict::Unmeasured`].
pub fn conclude_now(run: &mut Run) {
    let measured = measured(run);
    for (index, contest) in run.contests.iter_mut().enumerate() {
        for (number, entry) in contest.entries.iter_mut().enumerate() {
            if is_measured(entry) && !measured.contains(&(index, number)) {
                entry.verdict = EntryVerdict::Unmeasured(None);
            }
        }
    }
    conclude_all(run);
}

#[cfg(test)]
mod tests;
