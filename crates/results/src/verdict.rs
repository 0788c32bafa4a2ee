//! Words for the verdict on an entry of a contest.

use seekless_record::{Contest, Entry, EntryVerdict};

use crate::units::times;

/// A verdict as it is shown. As long as nothing is decided, the best only leads, and a tie is open.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownVerdict {
    /// The verdict.
    pub verdict: EntryVerdict,
    /// Whether the contest is decided, and the ratio is more than the range of too few rounds.
    pub is_decided: bool,
}

impl ShownVerdict {
    /// The verdict on an entry of a contest.
    #[must_use]
    pub fn of(entry: &Entry, contest: &Contest) -> Self {
        let is_undecided = contest
            .conclusion
            .as_ref()
            .is_some_and(|conclusion| conclusion.recommended.is_none() && conclusion.until_decided.is_some());
        Self::new(entry.verdict.clone(), !is_undecided)
    }

    pub(crate) fn new(verdict: EntryVerdict, is_decided: bool) -> Self {
        let has_bounds = verdict.relative().is_some_and(|result| result.ratio.coverage.is_some());
        Self {
            verdict,
            is_decided: is_decided && has_bounds,
        }
    }

    /// The verdict in a word; empty if nothing was concluded.
    #[must_use]
    pub fn word(&self) -> String {
        let word = match (&self.verdict, self.is_decided) {
            (EntryVerdict::Best(_), true) => "best",
            (EntryVerdict::Best(_), false) => "leads",
            (EntryVerdict::Tie(_), true) => "tie",
            (EntryVerdict::Tie(_), false) => "undecided",
            (EntryVerdict::Failed { .. }, _) => "failed",
            (other, _) => {
                return other
                    .relative()
                    .map_or_else(String::new, |result| times(result.ratio.median));
            }
        };
        word.to_owned()
    }

    /// Whether the entry leads its contest.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self.verdict, EntryVerdict::Best(_))
    }
}

/// Why an entry has no figures; `otherwise` if it was measured.
#[must_use]
pub fn why_missing(entry: &Entry, otherwise: &str) -> String {
    match &entry.verdict {
        EntryVerdict::Failed { why } => format!("failed: {why}"),
        EntryVerdict::Unavailable { why } => format!("not available: {why}"),
        EntryVerdict::Unmeasured(_) => "not measured: the run ended before its turn".to_owned(),
        _ => otherwise.to_owned(),
    }
}

/// Whether an entry was asked for in vain: it failed, or is a command that is not there.
#[must_use]
pub fn is_failed(entry: &Entry) -> bool {
    match entry.verdict {
        EntryVerdict::Failed { .. } => true,
        EntryVerdict::Unavailable { .. } => entry.command().is_some(),
        _ => false,
    }
}
