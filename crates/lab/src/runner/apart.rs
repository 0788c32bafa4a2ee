//! Entries that turn out, when they are measured, to do other work than the rest of their contest, and are ranked
//! apart.

use seekless_record::{Contest, Status, Trial};
use seekless_results::{Decider, Turn};

use super::Runner;

/// Why an entry is ranked apart from the rest of its contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apart {
    /// Its copies share blocks with their source: no data was moved.
    pub shared_blocks: bool,
    /// It skipped holes: not every byte was read.
    pub holes_skipped: bool,
}

impl Apart {
    /// The work of a contest.
    fn of(contest: &Contest) -> Self {
        Self {
            shared_blocks: contest.shared_blocks,
            holes_skipped: contest.holes_skipped,
        }
    }

    /// Whether it differs from the work of a contest.
    pub fn is_apart_from(self, contest: &Contest) -> bool {
        (self.shared_blocks && !contest.shared_blocks) || (self.holes_skipped && !contest.holes_skipped)
    }

    /// The reason, for the contest that the entry leaves.
    fn why(self) -> &'static str {
        if self.holes_skipped {
            "it skips holes, so it is ranked apart from methods that read them"
        } else {
            "its copies share blocks with their source, so it is ranked apart"
        }
    }
}

impl Runner<'_> {
    /// Moves an entry that does other work than the rest into a contest of those that do the same.
    pub(super) fn move_apart(&mut self, decider: &mut Decider, turn: Turn, mut trial: Trial, work: Apart) {
        let Turn {
            group, contest, entry, ..
        } = turn;
        let known = Apart::of(&self.run.contests[contest]);
        let work = Apart {
            shared_blocks: work.shared_blocks || known.shared_blocks,
            holes_skipped: work.holes_skipped || known.holes_skipped,
        };
        let mut alike = decider.groups[group].contests.iter().copied();
        let apart = alike.find(|&other| {
            Apart::of(&self.run.contests[other]) == work
                && self.run.contests[other].storage == self.run.contests[contest].storage
        });
        let apart = apart.unwrap_or_else(|| {
            let description = &self.run.contests[contest];
            let apart = Contest {
                shared_blocks: work.shared_blocks,
                holes_skipped: work.holes_skipped,
                mode: None,
                entries: Vec::new(),
                conclusion: None,
                ..description.clone()
            };
            self.run.contests.push(apart);
            decider.groups[group].contests.push(self.run.contests.len() - 1);
            self.run.contests.len() - 1
        });
        let moved = self.run.contests[contest].entries[entry].clone();
        self.retire(turn, Status::Unavailable(work.why().to_owned()));
        self.run.contests[apart].entries.push(moved);
        (trial.contest, trial.entry) = (apart, self.run.contests[apart].entries.len() - 1);
        self.run.trials.push(trial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_apart_once_stays_apart() {
        let mut contest = seekless_results::simulation::contest(4096, Vec::new());
        let nothing = Apart::of(&contest);
        let skipped = Apart {
            holes_skipped: true,
            ..nothing
        };
        assert!(skipped.is_apart_from(&contest) && !nothing.is_apart_from(&contest));
        contest.holes_skipped = true;
        assert!(!skipped.is_apart_from(&contest) && !nothing.is_apart_from(&contest));
        let shared = Apart {
            shared_blocks: true,
            ..nothing
        };
        assert!(shared.is_apart_from(&contest));
        assert!(skipped.why().contains("holes") && shared.why().contains("share"));
    }
}
