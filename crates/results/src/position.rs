//! The verdict on an entry of a contest.

use seekless_record::{Contest, Entry, Interval, RankVerdict, Status};

use crate::units::times;

/// The verdict on an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position {
    /// The best.
    Best,
    /// It seems to be the best, but nothing is decided.
    Leading,
    /// Not shown to be slower than the best.
    Tie,
    /// The same if nothing is decided: it may be faster or slower than the leader.
    Open,
    /// Slower, by this ratio of times; dropped entries, too.
    Slower(Interval),
    /// It failed.
    Failed,
    /// Nothing was concluded.
    Unranked,
}

impl Position {
    /// That of an entry of a contest.
    #[must_use]
    pub fn of(entry: &Entry, contest: &Contest) -> Self {
        let is_undecided = contest
            .conclusion
            .as_ref()
            .is_some_and(|conclusion| conclusion.recommended.is_none() && conclusion.until_decided.is_some());
        match (&entry.status, &entry.standing) {
            (Status::Failed { .. }, _) => Self::Failed,
            (_, None) => Self::Unranked,
            (status, Some(standing)) => match standing.verdict {
                RankVerdict::Best => Self::leading(is_undecided || is_range(&standing.ratio)),
                RankVerdict::Tie if *status == Status::Measured => {
                    Self::level(is_undecided || is_range(&standing.ratio))
                }
                RankVerdict::Tie | RankVerdict::Slower => Self::Slower(standing.ratio),
            },
        }
    }

    pub(crate) fn leading(is_open: bool) -> Self {
        if is_open { Self::Leading } else { Self::Best }
    }

    pub(crate) fn level(is_open: bool) -> Self {
        if is_open { Self::Open } else { Self::Tie }
    }

    /// In a word; empty if nothing was concluded.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Best => "best".to_owned(),
            Self::Leading => "leads".to_owned(),
            Self::Tie => "tie".to_owned(),
            Self::Open => "undecided".to_owned(),
            Self::Slower(ratio) => times(ratio.median),
            Self::Failed => "failed".to_owned(),
            Self::Unranked => String::new(),
        }
    }

    /// Whether it is the one that leads.
    #[must_use]
    pub fn leads(self) -> bool {
        matches!(self, Self::Best | Self::Leading)
    }
}

/// Whether a ratio is only the range of too few rounds.
pub(crate) fn is_range(ratio: &Interval) -> bool {
    ratio.coverage.is_none()
}
