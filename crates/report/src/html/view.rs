//! A run with its trials sorted by contest and entry, and what several parts of the page ask of it.

use seekless_record::{Contest, Entry, Interval, Run, Summary, Trial, Verdict};
use seekless_results::ranking::{PairedRatio, Samples};
use seekless_results::{Trials, title};

use super::words::{shown, sound};

/// A run to be shown.
pub(super) struct View<'a> {
    pub run: &'a Run,
    trials: Trials<'a>,
}

impl<'a> View<'a> {
    pub fn new(run: &'a Run) -> Self {
        let trials = Trials::new(run);
        Self { run, trials }
    }

    /// What is compared, with the storage where there are several.
    pub fn title(&self, contest: &Contest) -> String {
        let place = match self.run.storages.get(contest.storage) {
            Some(storage) if self.run.storages.len() > 1 => format!(", {}", storage.path),
            _ => String::new(),
        };
        shown(&format!("{}{place}", title(contest)))
    }

    /// The operations, each once, in the order of their contests.
    pub fn operations(&self) -> Vec<&'a str> {
        let mut operations: Vec<&str> = Vec::new();
        for contest in &self.run.contests {
            if !operations.contains(&contest.operation.as_str()) {
                operations.push(&contest.operation);
            }
        }
        operations
    }

    pub fn contests_of(&self, operation: &str) -> impl Iterator<Item = (usize, &'a Contest)> {
        let contests = self.run.contests.iter().enumerate();
        contests.filter(move |(_, contest)| contest.operation == operation)
    }

    /// The trials of an entry, in the order they happened.
    pub fn trials(&self, contest: usize, entry: usize) -> &[&'a Trial] {
        self.trials.of(contest, entry)
    }

    /// One entry's seconds over another's, paired by round.
    pub fn compare(&self, contest: usize, one: usize, other: usize) -> Option<PairedRatio> {
        let samples = |entry| Samples::of(self.trials(contest, entry).iter().copied());
        let comparison = samples(one).over(&samples(other))?;
        sound(comparison.ratio.median).map(|_| comparison)
    }
}

/// The place of a method among a contest's entries.
pub(super) fn place_of(contest: &Contest, method: &str) -> Option<usize> {
    contest.entries.iter().position(|entry| entry.method == method)
}

/// The rate of an entry, where it has one that can be drawn.
pub(super) fn rate_of(entry: &Entry) -> Option<f64> {
    sound(entry.summary.as_ref()?.bytes_per_second)
}

/// The interval of an entry's rate: that of its seconds, turned round.
pub(super) fn rates_of(summary: &Summary) -> Option<Interval> {
    let (rate, seconds) = (sound(summary.bytes_per_second)?, summary.seconds);
    let at = |bound: f64| sound(rate * seconds.median / bound);
    Some(Interval {
        low: at(seconds.high).unwrap_or(rate).min(rate),
        median: rate,
        high: at(seconds.low).unwrap_or(rate).max(rate),
        coverage: seconds.coverage,
    })
}

/// What has figures: the best, then by the ratio to it, the dropped last.
pub(super) fn ranking(contest: &Contest) -> Vec<(usize, &Entry, &Summary)> {
    let entries = contest.entries.iter().enumerate();
    let mut rows: Vec<_> = entries
        .filter_map(|(index, entry)| Some((index, entry, entry.summary.as_ref()?)))
        .collect();
    let ratio = |entry: &Entry, summary: &Summary| {
        let standing = entry.standing.as_ref();
        standing.map_or(summary.seconds.median, |standing| standing.ratio.median)
    };
    rows.sort_by(|(_, one, one_summary), (_, other, other_summary)| {
        let dropped = is_dropped(one).cmp(&is_dropped(other));
        let best = (verdict_of(other) == Some(Verdict::Best)).cmp(&(verdict_of(one) == Some(Verdict::Best)));
        let by_ratio = ratio(one, one_summary).total_cmp(&ratio(other, other_summary));
        dropped.then(best).then(by_ratio)
    });
    rows
}

/// Where an entry stands; one that was dropped or failed is never a tie.
pub(super) fn verdict_of(entry: &Entry) -> Option<Verdict> {
    match entry.standing.as_ref()?.verdict {
        Verdict::Tie if is_dropped(entry) => Some(Verdict::Slower),
        verdict => Some(verdict),
    }
}

fn is_dropped(entry: &Entry) -> bool {
    entry.status != seekless_record::Status::Measured
}
