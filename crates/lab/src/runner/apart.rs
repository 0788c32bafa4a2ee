//! Entries that turn out, when they are measured, to do other work than the rest of their contest, and are ranked
//! apart.

use seekless_record::{Contest, EntryVerdict, Run, Trial};
use seekless_results::Turn;

use super::skip::Skip;

/// Why an entry is ranked apart from the rest of its contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContestWork {
    /// Its copies share blocks with their source: no data was moved.
    pub shared_blocks: bool,
    /// It skipped holes: not every byte was read.
    pub holes_skipped: bool,
}

impl ContestWork {
    /// The work of a contest.
    pub fn of(contest: &Contest) -> Self {
        Self {
            shared_blocks: contest.shared_blocks,
            holes_skipped: contest.holes_skipped,
        }
    }

    /// The work of a trial, in which some did more than the rest of their contest.
    pub fn of_trial(contest: &Contest, trial: &Trial, shares_blocks: bool) -> Self {
        Self {
            shared_blocks: contest.shared_blocks || shares_blocks,
            holes_skipped: contest.holes_skipped || trial.hole_bytes.is_some_and(|bytes| bytes > 0),
        }
    }
}

/// Moves an entry that does other work than the rest into a contest of those that do the same; `group` has the contests of
/// its group.
pub(super) fn move_apart(run: &mut Run, group: &mut Vec<usize>, turn: Turn, mut trial: Trial, work: ContestWork) {
    let from = run.contests[turn.contest].clone();
    let is_alike = |other: &usize| {
        let other = &run.contests[*other];
        ContestWork::of(other) == work && other.storage == from.storage
    };
    let apart = group.iter().copied().find(is_alike).unwrap_or_else(|| {
        run.contests.push(Contest {
            shared_blocks: work.shared_blocks,
            holes_skipped: work.holes_skipped,
            mode: None,
            entries: Vec::new(),
            conclusion: None,
            ..from.clone()
        });
        group.push(run.contests.len() - 1);
        run.contests.len() - 1
    });
    let why = if work.holes_skipped {
        Skip::SkipsHoles
    } else {
        Skip::SharesBlocks
    };
    run.contests[turn.contest].entries[turn.entry].verdict = EntryVerdict::unavailable(why.to_string());
    let entries = &mut run.contests[apart].entries;
    entries.push(from.entries[turn.entry].clone());
    (trial.contest, trial.entry) = (apart, entries.len() - 1);
    run.trials.push(trial);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_apart_once_stays_apart() {
        let mut contest = seekless_results::simulation::contest(4096, Vec::new());
        let whole = Trial::default();
        let skipping = Trial {
            hole_bytes: Some(1),
            ..Trial::default()
        };
        let is_apart = |contest: &Contest, trial, shares| {
            ContestWork::of_trial(contest, trial, shares) != ContestWork::of(contest)
        };
        assert!(is_apart(&contest, &skipping, false) && !is_apart(&contest, &whole, false));
        contest.holes_skipped = true;
        assert!(!is_apart(&contest, &skipping, false) && !is_apart(&contest, &whole, false));
        assert!(is_apart(&contest, &whole, true));
    }
}
