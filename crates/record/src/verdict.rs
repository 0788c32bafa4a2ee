//! The verdict on an entry of a contest. Documents keep it as a status, and a standing relative to the best.

use serde::{Deserialize, Serialize};

use crate::Bounds;
use crate::interval::Interval;

documents! {
    /// The figures of an entry relative to the best of its contest.
    #[derive(Copy)]
    pub struct RelativeResult {
        /// Its seconds over the best's, paired by round.
        pub ratio: Interval => Bounds::RATIO,
        /// Rounds paired.
        pub pairs: u32,
    }
}

/// The verdict on an entry of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(Status, Option<Standing>)", into = "(Status, Option<Standing>)")]
pub enum EntryVerdict {
    /// Measured, but not compared: nothing was concluded, or no trial was valid.
    Measured,
    /// The smallest median.
    Best(RelativeResult),
    /// Not shown to be slower than the best.
    Tie(RelativeResult),
    /// Slower.
    Slower(RelativeResult),
    /// Clearly beaten, so no longer measured.
    Dropped(Option<RelativeResult>),
    /// The run ended before its turn. Other sittings may show that it is slower.
    Unmeasured(Option<RelativeResult>),
    /// Not available on the storage or system.
    Unavailable {
        /// The reason.
        why: String,
    },
    /// It failed, or gave a wrong answer.
    Failed {
        /// The reason.
        why: String,
    },
}

impl EntryVerdict {
    /// Not available, for this reason.
    #[must_use]
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    /// Failed, for this reason.
    #[must_use]
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed { why: why.into() }
    }

    /// Whether the entry is measured to the end.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self, Self::Measured | Self::Best(_) | Self::Tie(_) | Self::Slower(_))
    }

    /// Why the entry's trials do not count; `None` if they do.
    #[must_use]
    pub fn why_excluded(&self) -> Option<&str> {
        match self {
            Self::Unavailable { why } | Self::Failed { why } => Some(why),
            _ => None,
        }
    }

    /// The figures relative to the best; `None` if it was not compared.
    #[must_use]
    pub fn relative(&self) -> Option<RelativeResult> {
        match self {
            Self::Best(result) | Self::Tie(result) | Self::Slower(result) => Some(*result),
            Self::Dropped(result) | Self::Unmeasured(result) => *result,
            Self::Measured | Self::Unavailable { .. } | Self::Failed { .. } => None,
        }
    }

    /// Replaces what was concluded; `None` if the entry was not compared. An entry that was not measured to the end
    /// stays so.
    pub fn conclude(&mut self, compared: Option<Self>) {
        match self {
            Self::Dropped(result) | Self::Unmeasured(result) => {
                *result = compared.and_then(|verdict| verdict.relative());
            }
            Self::Unavailable { .. } | Self::Failed { .. } => {}
            _ => *self = compared.unwrap_or(Self::Measured),
        }
    }
}

/// A stored status. A `why` of a dropped or unmeasured entry, which earlier builds wrote, is ignored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", deny_unknown_fields)]
pub(crate) enum Status {
    Measured,
    Unavailable { why: String },
    Dropped,
    Failed { why: String },
    Unmeasured,
}

/// A stored result relative to the best.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Standing {
    ratio: Interval,
    pairs: u32,
    verdict: Rank,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rank {
    Best,
    Tie,
    Slower,
}

impl From<(Status, Option<Standing>)> for EntryVerdict {
    fn from((status, standing): (Status, Option<Standing>)) -> Self {
        let rank = standing.as_ref().map(|standing| standing.verdict);
        let result = standing.map(|Standing { ratio, pairs, .. }| RelativeResult { ratio, pairs });
        match (status, rank.zip(result)) {
            (Status::Unavailable { why }, _) => Self::Unavailable { why },
            (Status::Failed { why }, _) => Self::Failed { why },
            (Status::Dropped, _) => Self::Dropped(result),
            (Status::Unmeasured, _) => Self::Unmeasured(result),
            (Status::Measured, None) => Self::Measured,
            (Status::Measured, Some((Rank::Best, result))) => Self::Best(result),
            (Status::Measured, Some((Rank::Tie, result))) => Self::Tie(result),
            (Status::Measured, Some((Rank::Slower, result))) => Self::Slower(result),
        }
    }
}

impl From<EntryVerdict> for (Status, Option<Standing>) {
    fn from(verdict: EntryVerdict) -> Self {
        let rank = match verdict {
            EntryVerdict::Best(_) => Rank::Best,
            EntryVerdict::Tie(_) => Rank::Tie,
            _ => Rank::Slower,
        };
        let standing = verdict.relative().map(|RelativeResult { ratio, pairs }| Standing {
            ratio,
            pairs,
            verdict: rank,
        });
        let status = match verdict {
            EntryVerdict::Unavailable { why } => Status::Unavailable { why },
            EntryVerdict::Failed { why } => Status::Failed { why },
            EntryVerdict::Dropped(_) => Status::Dropped,
            EntryVerdict::Unmeasured(_) => Status::Unmeasured,
            EntryVerdict::Measured | EntryVerdict::Best(_) | EntryVerdict::Tie(_) | EntryVerdict::Slower(_) => {
                Status::Measured
            }
        };
        (status, standing)
    }
}
