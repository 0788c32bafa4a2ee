//! The times of an entry by round, and ratios of two entries.

use std::collections::BTreeMap;

use seekless_record::{Entry, Interval, Run, Trial};

use crate::statistics::{paired_ratios, ratio_interval};

/// Differences of up to 3 % are ignored: two runs of one tool on a shared disk differ by more.
pub const TIE_RATIO: f64 = 1.03;

/// The trials of a run by contest and entry, in the order of execution. An imported run may have ten thousand of each.
pub(crate) fn sorted(run: &Run) -> Vec<Vec<Vec<&Trial>>> {
    let contests = run.contests.iter();
    let mut sorted: Vec<_> = contests
        .map(|contest| vec![Vec::new(); contest.entries.len()])
        .collect();
    for trial in &run.trials {
        let of_contest = sorted.get_mut(trial.contest);
        if let Some(of_entry) = of_contest.and_then(|entries| entries.get_mut(trial.entry)) {
            of_entry.push(trial);
        }
    }
    sorted
}

/// The times of an entry: the seconds of its valid trials, by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Seconds, fsync included, by round.
    pub by_round: BTreeMap<u32, f64>,
}

impl Samples {
    /// The seconds of an entry's valid trials. Those of a sustained write never count.
    #[must_use]
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let ranked = trials
            .into_iter()
            .filter(|trial| is_sound(trial) && trial.segment_seconds.is_none());
        Self {
            by_round: ranked.map(|trial| (trial.round, trial.compared_seconds())).collect(),
        }
    }

    /// The samples of an entry. An entry that failed or is unavailable has none, and neither has the null method of
    /// earlier runs.
    pub(crate) fn of_entry(entry: &Entry, trials: &[&Trial]) -> Self {
        if entry.verdict.why_excluded().is_some() || entry.name().ends_with("/null") {
            return Self::default();
        }
        Self::of(trials.iter().copied())
    }

    /// Its rounds.
    pub(crate) fn rounds(&self) -> usize {
        self.by_round.len()
    }

    /// The ratio of its seconds to the other's, paired by round.
    #[must_use]
    pub fn over(&self, other: &Self) -> Option<PairedRatio> {
        let ratios = paired_ratios(&self.by_round, &other.by_round);
        Some(PairedRatio {
            ratio: ratio_interval(&ratios)?,
            pairs: ratios.len(),
        })
    }
}

/// The ratio of one entry's seconds to another's.
#[derive(Clone, Copy, Debug)]
pub struct PairedRatio {
    /// The median ratio and its interval.
    pub ratio: Interval,
    /// Rounds that both have.
    pub pairs: usize,
}

/// Whether a ratio of times is certainly slower by more than a tie; false with fewer than 6 rounds.
pub(crate) fn is_slower(ratio: &Interval) -> bool {
    ratio.coverage.is_some() && ratio.low > TIE_RATIO
}

/// Whether it is certainly faster by more than a tie.
pub(crate) fn is_faster(ratio: &Interval) -> bool {
    ratio.coverage.is_some() && ratio.high < 1.0 && ratio.median < 2.0 - TIE_RATIO
}

/// Whether a trial counts. The check of the seconds keeps damaged documents from dividing by zero.
pub(crate) fn is_sound(trial: &Trial) -> bool {
    trial.valid && trial.seconds.is_finite() && trial.seconds > 0.0
}
