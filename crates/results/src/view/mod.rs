//! A run to show: its contests, their rows in the order shown, and what is in no table and why. It is built once, from harmless
//! texts, and all renderers read it.
//!
//! Not here: how a figure is printed, and which columns a renderer shows.

mod crossovers;
mod published;
mod sittings;
mod storages;
mod system;
mod visible;

use crossovers::crossovers;
pub use crossovers::series;
pub use published::PublishedRow;
use seekless_method::Operation;
use seekless_record::{Contest, Entry, Interval, Run, Status, Summary, Trial, Verdict};
pub use sittings::sittings;
use storages::storages;
pub use system::{SYSTEM_HEADS, SystemRow, mode_words};
use system::{asks_for_system, system_rows};
pub use visible::{Visible, visible};

use crate::columns::{Table, tables};
use crate::ranking::{PairedRatio, Samples};
use crate::samples::sorted;
use crate::sustained::Sustained;
use crate::units::sound;
use crate::words::{is_told_in_times, place, short_name, title, title_in, why_missing};

/// A run to show.
#[derive(Debug)]
pub struct View<'a> {
    /// The run; its texts are harmless.
    pub run: &'a Run,
    /// The contests, in the run's order.
    pub contests: Vec<ContestView<'a>>,
    /// Times by file size, in the columns of a document.
    pub columns: Vec<Table<'a>>,
    /// Where the winner changes with the size of the files, one sentence each.
    pub crossovers: Vec<String>,
    /// How many sittings the verdicts rest on and how many more are needed, if sittings were combined.
    pub sittings: Option<String>,
    /// Which of several storages is faster, a sentence for each contest.
    pub storages: Vec<String>,
}

/// A contest to show.
#[derive(Debug)]
pub struct ContestView<'a> {
    /// Its index in the run.
    pub index: usize,
    /// The contest.
    pub contest: &'a Contest,
    /// What is compared, as in `read 64M, cold`.
    pub name: String,
    /// The same, with the storage if the run has several.
    pub title: String,
    /// Whether its figures are times, because a rate over the size of its files would be meaningless.
    pub in_times: bool,
    /// The entries with figures: the best, then the others by their ratio to it, then unranked ones, and last the dropped ones.
    pub rows: Vec<Row<'a>>,
    /// The entries without figures or that failed, and why. An entry that failed may have a row, too.
    pub left_out: Vec<(&'a Entry, String)>,
    /// What others published of these files.
    pub published: Vec<PublishedRow<'a>>,
    /// What the whole system did while each entry ran.
    pub system: Vec<SystemRow>,
    /// Whether the experiment is about what the whole system did.
    pub asks_for_system: bool,
    /// The rate over time, if it is a sustained write.
    pub sustained: Option<Sustained<'a>>,
    /// By entry.
    trials: Vec<Vec<&'a Trial>>,
}

/// An entry with its figures.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its contest.
    pub contest: &'a Contest,
    /// The entry.
    pub entry: &'a Entry,
    /// Its figures.
    pub summary: &'a Summary,
    /// The most memory that it took in a trial.
    pub peak_memory_bytes: u64,
    /// Its verdict.
    pub position: Position,
}

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
            (Status::Failed(_), _) => Self::Failed,
            (_, None) => Self::Unranked,
            (status, Some(standing)) => match standing.verdict {
                Verdict::Best => Self::leading(is_undecided || is_range(&standing.ratio)),
                Verdict::Tie if *status == Status::Measured => Self::level(is_undecided || is_range(&standing.ratio)),
                Verdict::Tie | Verdict::Slower => Self::Slower(standing.ratio),
            },
        }
    }

    fn leading(is_open: bool) -> Self {
        if is_open { Self::Leading } else { Self::Best }
    }

    fn level(is_open: bool) -> Self {
        if is_open { Self::Open } else { Self::Tie }
    }

    /// Whether it is the one that leads.
    #[must_use]
    pub fn leads(self) -> bool {
        matches!(self, Self::Best | Self::Leading)
    }
}

impl<'a> View<'a> {
    /// The view of a run.
    #[must_use]
    pub fn of(run: &'a Visible) -> Self {
        let run = run.run();
        let trials = sorted(run);
        let columns = tables(run, &trials);
        let contests = trials.into_iter().enumerate();
        let contests: Vec<_> = contests
            .map(|(index, trials)| ContestView::of(run, index, trials))
            .collect();
        Self {
            run,
            columns,
            crossovers: crossovers(&contests, &run.storages),
            sittings: sittings::in_words(run),
            storages: storages(&contests, &run.storages),
            contests,
        }
    }

    /// The operations, each once, in the order of their contests.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for contest in &self.run.contests {
            if !operations.contains(&contest.operation) {
                operations.push(contest.operation);
            }
        }
        operations
    }

    /// The contests of an operation.
    pub fn contests_of(&self, operation: Operation) -> impl Iterator<Item = &ContestView<'a>> {
        let contests = self.contests.iter();
        contests.filter(move |contest| contest.contest.operation == operation)
    }

    /// The path of a storage by its index, where the run has several.
    #[must_use]
    pub fn place(&self, storage: usize) -> Option<&'a str> {
        place(self.run, storage)
    }
}

impl<'a> ContestView<'a> {
    fn of(run: &'a Run, index: usize, trials: Vec<Vec<&'a Trial>>) -> Self {
        let contest = &run.contests[index];
        let mut view = Self {
            index,
            contest,
            name: title(contest),
            title: title_in(run, contest),
            in_times: is_told_in_times(contest),
            rows: rows(contest, &trials),
            left_out: left_out(contest),
            published: Vec::new(),
            system: Vec::new(),
            asks_for_system: asks_for_system(run, contest),
            sustained: trials.iter().flatten().copied().find_map(Sustained::of),
            trials,
        };
        view.published = published::published(run, &view);
        view.system = system_rows(&view);
        view
    }

    /// The trials of an entry, in the order they happened.
    #[must_use]
    pub fn trials(&self, entry: usize) -> &[&'a Trial] {
        self.trials.get(entry).map_or(&[], Vec::as_slice)
    }

    /// One method's seconds over another's, paired by round.
    #[must_use]
    pub fn compare(&self, one: &str, other: &str) -> Option<PairedRatio> {
        let comparison = self.samples(one)?.over(&self.samples(other)?)?;
        sound(comparison.ratio.median).map(|_| comparison)
    }

    /// The seconds of its fastest over those of another contest's, in the rounds that both have.
    fn over(&self, other: &Self) -> Option<Interval> {
        let best = |view: &Self| view.samples(view.contest.conclusion.as_ref()?.best.as_deref()?);
        let ratio = best(self)?.over(&best(other)?)?.ratio;
        sound(ratio.median).map(|_| ratio)
    }

    fn samples(&self, method: &str) -> Option<Samples> {
        let place = self.contest.entries.iter().position(|entry| entry.name() == method)?;
        Some(Samples::of_entry(&self.contest.entries[place], self.trials(place)))
    }

    /// The entry with this method.
    #[must_use]
    pub fn entry(&self, method: &str) -> Option<&'a Entry> {
        self.contest.entries.iter().find(|entry| entry.name() == method)
    }

    /// Where the entry with this method stands.
    #[must_use]
    pub fn position(&self, method: &str) -> Position {
        let entry = self.entry(method);
        entry.map_or(Position::Unranked, |entry| Position::of(entry, self.contest))
    }

    /// The method to use, where it is decided.
    #[must_use]
    pub fn recommended(&self) -> Option<&'a str> {
        self.contest.conclusion.as_ref()?.recommended.as_deref()
    }

    /// The rate of the winner in fresh rounds, if there were any.
    #[must_use]
    pub fn confirmed(&self) -> Option<Interval> {
        let rates = self.contest.conclusion.as_ref()?.confirmed_bytes_per_second?;
        sound(rates.median).map(|_| rates)
    }

    /// The names of the best synchronous and the best overlapping method, if there are both.
    #[must_use]
    pub fn best_of_kinds(&self) -> Option<(String, String)> {
        let conclusion = self.contest.conclusion.as_ref()?;
        let name = |method: &Option<String>| Some(short_name(method.as_ref()?, self.contest));
        Some((name(&conclusion.best_synchronous)?, name(&conclusion.best_overlapping)?))
    }
}

/// Whether a ratio is only the range of too few rounds.
fn is_range(ratio: &Interval) -> bool {
    ratio.coverage.is_none()
}

/// The rate of an entry, where it has one that can be drawn.
#[must_use]
pub fn rate_of(entry: &Entry) -> Option<f64> {
    sound(entry.summary.as_ref()?.bytes_per_second)
}

fn rows<'a>(contest: &'a Contest, trials: &[Vec<&Trial>]) -> Vec<Row<'a>> {
    let with_figures = contest.entries.iter().zip(trials).filter_map(|(entry, trials)| {
        Some(Row {
            peak_memory_bytes: trials.iter().map(|trial| trial.peak_memory_bytes).max().unwrap_or(0),
            contest,
            entry,
            summary: entry.summary.as_ref()?,
            position: Position::of(entry, contest),
        })
    });
    let mut rows: Vec<Row<'_>> = with_figures.collect();
    let is_best = |row: &Row<'_>| row.position.leads();
    // What has no ratio was not ranked, and comes after what was.
    let ratio = |row: &Row<'_>| row.ratio().map_or(f64::INFINITY, |ratio| ratio.median);
    let seconds = |row: &Row<'_>| row.summary.seconds.median;
    rows.sort_by(|one, other| {
        let dropped = one.is_dropped().cmp(&other.is_dropped());
        let best = is_best(other).cmp(&is_best(one));
        let by_ratio = ratio(one).total_cmp(&ratio(other));
        let by_seconds = seconds(one).total_cmp(&seconds(other));
        dropped.then(best).then(by_ratio).then(by_seconds)
    });
    rows
}

impl Row<'_> {
    /// The name under which it was published, or the method without what the contest's title says.
    #[must_use]
    pub fn name(&self) -> String {
        short_name(&self.entry.name(), self.contest)
    }

    /// Whether it was not measured to the end.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.entry.status != Status::Measured
    }

    /// Its time over that of the best.
    #[must_use]
    pub fn ratio(&self) -> Option<Interval> {
        self.entry.standing.as_ref().map(|standing| standing.ratio)
    }

    /// The interval of its rate, that of its seconds turned round, where it can be drawn.
    #[must_use]
    pub fn rates(&self) -> Option<Interval> {
        let (rate, seconds) = (sound(self.summary.bytes_per_second)?, self.summary.seconds);
        let at = |bound: f64| sound(rate * seconds.median / bound);
        Some(Interval {
            low: at(seconds.high).unwrap_or(rate).min(rate),
            median: rate,
            high: at(seconds.low).unwrap_or(rate).max(rate),
            coverage: seconds.coverage,
        })
    }

    /// A remark about it.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.entry.command()?.note.as_deref()
    }
}

fn left_out(contest: &Contest) -> Vec<(&Entry, String)> {
    let is_left_out = |entry: &&Entry| entry.summary.is_none() || matches!(entry.status, Status::Failed(_));
    let entries = contest.entries.iter().filter(is_left_out);
    entries
        .map(|entry| (entry, why_missing(entry, "no valid trial")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::conclude_all;
    use crate::simulation;

    #[test]
    fn rows_are_ordered_by_the_ratio_to_the_best_and_what_was_dropped_comes_last() {
        let methods = [
            "read/mmap",
            "read/sync,block=4K",
            "read/sync,block=1M",
            "read/posix-aio",
        ];
        let seconds = [3.0, 1.2, 1.1, 1.0];
        let methods: Vec<(&str, f64)> = methods.into_iter().zip(seconds).collect();
        let mut run = simulation::run(&methods, 8);
        conclude_all(&mut run);
        run.contests[0].entries[1].standing = None;
        run.contests[0].entries[3].status = Status::Dropped("it was beaten".to_owned());
        let shown = Visible::of(&run);
        let contest = &View::of(&shown).contests[0];
        let names: Vec<String> = contest.rows.iter().map(Row::name).collect();
        assert_eq!(names, ["sync block=1M", "mmap", "sync block=4K", "posix-aio"]);
        assert_eq!(contest.rows[2].position, Position::Unranked);
    }

    fn positions(run: &Run) -> Vec<Position> {
        let contest = &run.contests[0];
        let entries = contest.entries.iter();
        entries.map(|entry| Position::of(entry, contest)).collect()
    }

    #[test]
    fn what_was_dropped_is_never_a_tie() {
        let mut run = simulation::run(&[("read/mmap", 1.0), ("read/sync,block=4K", 1.01)], 8);
        conclude_all(&mut run);
        assert_eq!(positions(&run), [Position::Best, Position::Tie]);
        run.contests[0].entries[1].status = Status::Dropped("it was beaten".to_owned());
        assert!(matches!(positions(&run)[1], Position::Slower(_)));
    }

    #[test]
    fn nobody_is_best_and_nobody_ties_where_nothing_is_decided() {
        for names in [["read/mmap", "read/sync,block=4K"], ["command/one", "command/other"]] {
            let mut run = simulation::run(&names.map(|name| (name, 1.0)), 3);
            run.trials[3].seconds = 1.4;
            conclude_all(&mut run);
            assert_eq!(positions(&run), [Position::Leading, Position::Open], "three rounds");
        }
        let mut noisy = simulation::run(&[("read/mmap", 1.0), ("read/sync,block=4K", 1.0)], 8);
        for (trial, seconds) in noisy
            .trials
            .iter_mut()
            .zip([1.0, 1.5, 2.0, 1.1, 0.9, 3.0].into_iter().cycle())
        {
            trial.seconds = seconds;
        }
        conclude_all(&mut noisy);
        let conclusion = noisy.contests[0].conclusion.clone().unwrap();
        assert!(conclusion.sentence.starts_with("Undecided"), "{}", conclusion.sentence);
        let found = positions(&noisy);
        assert!(
            found.contains(&Position::Leading) && found.contains(&Position::Open),
            "{found:?}"
        );
        let mut slower = simulation::run(&[("read/mmap", 1.0), ("read/sync,block=4K", 2.0)], 3);
        conclude_all(&mut slower);
        assert!(
            matches!(positions(&slower)[1], Position::Slower(_)),
            "three rounds may show that"
        );
    }
}
