//! The conclusion of a contest: the figures of each entry and the verdict on it, and the method to use.

use std::collections::HashMap;

use seekless_record::{Conclusion, Contest, EntryVerdict, Run, Summary};

use super::judged::{JudgedContest, PickReason};
use super::{effects, sentence, stand, summarize};
use crate::labels::task;
use crate::samples::sorted;
use crate::statistics::mean;

/// The figures of an entry, and the verdict on it if it was compared.
pub type Judgement = (Option<Summary>, Option<EntryVerdict>);

/// Judges a contest.
///
/// Commands are ranked with the methods, but only methods are recommended, because a program can use a method, and a
/// command may do less with the bytes. The winner with fresh rounds is the recommended method, or if undecided, the
/// best one.
pub(crate) fn conclude_judged(judged: &JudgedContest<'_>) -> (Vec<Judgement>, Conclusion) {
    let summaries = judged.trials.iter().enumerate().map(|(entry, trials)| {
        let mut summary = summarize(trials)?;
        if let Some(seconds) = judged.seconds(entry, &summary.seconds) {
            summary.bytes_per_second *= summary.seconds.median / seconds.median;
            summary.seconds = seconds;
        }
        Some(summary)
    });
    let judgements = summaries.zip(stand(&judged.samples, judged.all())).collect();
    let best = judged.all().map(|field| field.leader);
    let pick = judged.pick();
    let recommended = judged.recommended();
    let name = |entry: Option<usize>| entry.map(|entry| judged.name(entry));
    let effects = effects::effects(judged);
    let until_decided = pick.map(|pick| pick.entry).or(judged.leader());
    let conclusion = Conclusion {
        recommended: name(recommended),
        until_decided: name(until_decided.filter(|_| recommended.is_none())),
        costs_at_most: pick.map(|pick| pick.costs_at_most),
        equal_within: pick.and_then(|pick| match pick.why {
            PickReason::Equal { within } => Some(within),
            _ => None,
        }),
        decided_by_times: judged.decided_by_times().filter(|_| judged.over.is_none()),
        sittings: judged.sittings(),
        best: name(best),
        best_synchronous: name(judged.leader_where(false)),
        best_overlapping: name(judged.leader_where(true)),
        sentence: sentence::sentence(judged, best, &effects),
        effects: effects.into_iter().map(|effect| effect.record).collect(),
    };
    (judgements, conclusion)
}

/// Sets how the methods of each contest do at other sizes of the same task.
pub(crate) fn tell_other_sizes(contests: &mut [JudgedContest<'_>]) {
    let behind = |judged: &JudgedContest<'_>| -> HashMap<String, f64> {
        let Some(field) = judged.field() else {
            return HashMap::new();
        };
        let effects = field.model.effects.iter().enumerate();
        let known = effects.filter_map(|(entry, effect)| Some((entry, effect.as_ref()?.log_seconds)));
        let known: Vec<(usize, f64)> = known.collect();
        let least = known.iter().map(|(_, log)| *log).fold(f64::INFINITY, f64::min);
        known
            .into_iter()
            .map(|(entry, log)| (judged.name(entry), log - least))
            .collect()
    };
    if contests
        .iter()
        .all(|judged| judged.contest.size_bytes == contests[0].contest.size_bytes)
    {
        return;
    }
    let all: Vec<HashMap<String, f64>> = contests.iter().map(behind).collect();
    for at in 0..contests.len() {
        let contest = contests[at].contest;
        let is_other_size = |other: &usize| {
            let other = contests[*other].contest;
            other.size_bytes != contest.size_bytes && other.cache == contest.cache && task(other) == task(contest)
        };
        let others: Vec<usize> = (0..contests.len()).filter(is_other_size).collect();
        let behind_elsewhere = contest.entries.iter().map(|entry| {
            let known = others
                .iter()
                .filter_map(|&other| all[other].get(&*entry.name()).copied());
            mean(&known.collect::<Vec<f64>>()).unwrap_or(0.0)
        });
        contests[at].behind_elsewhere = behind_elsewhere.collect();
    }
}

/// Records the conclusion of every contest of a run.
pub fn conclude_all(run: &mut Run) {
    let contests = run.contests.iter().zip(sorted(run));
    let mut judged: Vec<_> = contests
        .map(|(contest, trials)| JudgedContest::of(contest, trials))
        .collect();
    tell_other_sizes(&mut judged);
    let concluded: Vec<_> = judged.iter().map(conclude_judged).collect();
    drop(judged);
    for (contest, (judgements, conclusion)) in run.contests.iter_mut().zip(concluded) {
        write_down(contest, judgements, conclusion);
    }
}

/// Records the conclusion of a contest.
pub(crate) fn write_down(contest: &mut Contest, judgements: Vec<Judgement>, conclusion: Conclusion) {
    for (entry, (summary, verdict)) in contest.entries.iter_mut().zip(judgements) {
        entry.summary = summary;
        entry.verdict.conclude(verdict);
    }
    contest.conclusion = Some(conclusion);
}
