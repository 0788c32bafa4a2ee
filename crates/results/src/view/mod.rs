//! A run to show: its contests, their rows in the order shown, and what is in no table and why. It is built once, from harmless
//! texts, and all renderers read it.
//!
//! Not here: how a figure is printed, and which columns a renderer shows.

mod crossovers;
mod escape;
mod facts;
mod figures;
mod options;
mod published;
mod sittings;
mod storages;
mod system;

use crossovers::crossovers;
pub use crossovers::series;
pub use escape::{Visible, visible};
use facts::facts;
pub use facts::{rotation_claim, storage_words};
pub use figures::Detail;
use published::{findings, published};
use seekless_method::Operation;
use seekless_record::{Contest, Entry, Interval, Run, Summary, Trial};
pub use sittings::sittings;
use storages::storages;
pub use system::mode_words;
use system::{asks_for_system, system};

use crate::answer::ContestAnswer;
use crate::columns::{Table, tables};
use crate::labels::{is_told_in_times, place, rate_in, short_name, speed_in, title, title_in};
use crate::ranking::{PairedRatio, Samples};
use crate::samples::sorted;
use crate::sheet::Sheet;
use crate::sustained::Sustained;
use crate::units::{bounds, seconds, sound, times_with_bounds};
use crate::verdict::ShownVerdict;

/// A run to show.
#[derive(Debug)]
pub struct View<'a> {
    /// The run; its texts are harmless.
    pub run: &'a Run,
    /// Its circumstances: what each line is about, and the line.
    pub facts: Vec<(&'static str, String)>,
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
    /// What is compared, as in `read 64 MiB, cold`.
    pub name: String,
    /// The same, with the storage if the run has several.
    pub title: String,
    /// The method to use, if anything was concluded.
    pub answer: Option<ContestAnswer>,
    /// Whether its figures are times, because a rate over the size of its files would be meaningless.
    pub in_times: bool,
    /// The entries with figures: the best, then the others by their ratio to it, then unranked ones, and last the dropped ones.
    pub rows: Vec<Row<'a>>,
    /// What others published of these files, each finding beside the same method here.
    pub published: Sheet,
    /// What the whole system did while each entry ran; without rows if nothing was measured.
    pub system: Sheet,
    /// Whether the experiment is about what the whole system did.
    pub asks_for_system: bool,
    /// The rate over time, if it is a sustained write.
    pub sustained: Option<Sustained<'a>>,
    /// By entry.
    trials: Vec<Vec<&'a Trial>>,
}

/// An entry with its figures.
#[derive(Clone, Debug)]
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
    pub verdict: ShownVerdict,
}

impl<'a> View<'a> {
    /// The view of a run.
    #[must_use]
    pub fn of(run: &'a Visible) -> Self {
        let run = run.run();
        let trials = sorted(run);
        let columns = tables(run, &trials);
        let contest = |(index, trials)| ContestView::of(run, index, trials);
        let contests: Vec<_> = trials.into_iter().enumerate().map(contest).collect();
        Self {
            run,
            facts: facts(run),
            columns,
            crossovers: crossovers(&contests, &run.storages),
            sittings: sittings::in_words(run),
            storages: storages(&contests, &run.storages),
            contests,
        }
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
            answer: ContestAnswer::of(run, contest),
            in_times: is_told_in_times(contest),
            rows: rows(contest, &trials),
            published: Sheet::default(),
            system: Sheet::default(),
            asks_for_system: asks_for_system(run, contest),
            sustained: trials.iter().flatten().copied().find_map(Sustained::of),
            trials,
        };
        let findings = findings(run, contest);
        view.published = published(&view, &findings);
        view.system = system(&view, &findings);
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

    /// The word for the verdict on the entry with this method; empty without one.
    #[must_use]
    pub fn verdict_word(&self, method: &str) -> String {
        let entry = self.entry(method);
        entry.map_or_else(String::new, |entry| ShownVerdict::of(entry, self.contest).word())
    }

    /// The method to use, where it is decided.
    #[must_use]
    pub fn recommended(&self) -> Option<&'a str> {
        self.contest.conclusion.as_ref()?.recommended.as_deref()
    }

    /// A rate, or the time of a trial at that rate, if it shows times.
    #[must_use]
    pub fn speed(&self, bytes_per_second: f64) -> String {
        speed_in(self.contest, bytes_per_second)
    }

    /// The best synchronous and the best overlapping method, if there are both, and their ratio.
    #[must_use]
    pub fn kinds(&self) -> Option<String> {
        let conclusion = self.contest.conclusion.as_ref()?;
        let one = conclusion.best_synchronous.as_ref()?;
        let other = conclusion.best_overlapping.as_ref()?;
        let ratio = self.compare(other, one).map(|PairedRatio { ratio, .. }| ratio);
        let ratio = ratio.map_or_else(String::new, |ratio| format!(": {} the time", times_with_bounds(&ratio)));
        let [one, other] = [one, other].map(|method| short_name(method, self.contest));
        Some(format!("best synchronous {one}; best overlapping {other}{ratio}"))
    }

    /// The tables that follow its figures, and whether each is shown unfolded.
    pub fn details(&self) -> impl Iterator<Item = (Sheet, bool)> {
        let tables = [
            (self.published.clone(), true),
            (self.system.clone(), self.asks_for_system),
            (self.effects(), false),
            (self.left_out(), false),
        ];
        tables.into_iter().filter(|(sheet, _)| !sheet.rows.is_empty())
    }
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
            verdict: ShownVerdict::of(entry, contest),
        })
    });
    let mut rows: Vec<Row<'_>> = with_figures.collect();
    let class = |row: &Row<'_>| (row.is_dropped(), !row.verdict.leads());
    // What has no ratio was not ranked, and comes after what was.
    let ratio = |row: &Row<'_>| row.ratio().map_or(f64::INFINITY, |ratio| ratio.median);
    let seconds = |row: &Row<'_>| row.summary.seconds.median;
    rows.sort_by(|one, other| {
        let by_ratio = ratio(one).total_cmp(&ratio(other));
        let by_seconds = seconds(one).total_cmp(&seconds(other));
        class(one).cmp(&class(other)).then(by_ratio).then(by_seconds)
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
        !self.entry.verdict.is_measured()
    }

    /// Its time over that of the best.
    #[must_use]
    pub fn ratio(&self) -> Option<Interval> {
        self.entry.verdict.relative().map(|result| result.ratio)
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

    /// Its rate, or its time, if the contest shows times.
    #[must_use]
    pub fn speed(&self) -> String {
        if is_told_in_times(self.contest) {
            seconds(self.summary.seconds.median)
        } else {
            speed_in(self.contest, self.summary.bytes_per_second)
        }
    }

    /// The interval of what [`Self::speed`] says.
    fn interval(&self) -> Option<String> {
        if is_told_in_times(self.contest) {
            return Some(bounds(&self.summary.seconds, seconds));
        }
        Some(bounds(&self.rates()?, |rate| rate_in(self.contest, rate)))
    }

    /// The read requests that the device completed, with their mean size.
    fn requests(&self) -> String {
        let size = self.summary.device_request_bytes;
        let size = size.map(|bytes| format!(" x {:.0}K", bytes / 1024.0));
        let reads = self.summary.device_reads.unwrap_or(0.0);
        format!("{reads:.0}{}", size.unwrap_or_default())
    }

    /// Its note, the method that was planned, and the method behind a published name.
    fn remarks(&self) -> Vec<(String, String)> {
        let note = self.entry.command().and_then(|command| command.note.clone());
        let label = self.entry.label.clone();
        let planned = self.summary.planned.clone();
        let remarks = [
            note.map(|note| (self.name(), note)),
            planned.map(|method| ("planned".to_owned(), method)),
            label.map(|label| (label, self.entry.name().into_owned())),
        ];
        remarks.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::EntryVerdict;

    use super::*;
    use crate::simulation::{concluded, run};

    #[test]
    fn view_orders_rows_by_ratio_and_dropped_ones_last() {
        let names = [
            "read/mmap",
            "read/sync,block=4K",
            "read/sync,block=1M",
            "read/posix-aio",
        ];
        let methods: Vec<_> = names.into_iter().zip([3.0, 1.2, 1.1, 1.0]).collect();
        let mut run = concluded(run(&methods, 8));
        run.contests[0].entries[1].verdict = EntryVerdict::Measured;
        let entry = &mut run.contests[0].entries[3];
        entry.verdict = EntryVerdict::Dropped(entry.verdict.relative());
        let shown = Visible::of(&run);
        let contest = &View::of(&shown).contests[0];
        let names: Vec<String> = contest.rows.iter().map(Row::name).collect();
        assert_eq!(names, ["sync block=1M", "mmap", "sync block=4K", "posix-aio"]);
        assert_eq!(contest.rows[2].verdict.word(), "");
    }

    fn words(run: &Run) -> Vec<String> {
        let contest = &run.contests[0];
        let entries = contest.entries.iter();
        entries.map(|entry| ShownVerdict::of(entry, contest).word()).collect()
    }

    #[test]
    fn view_of_dropped_or_undecided_methods_has_no_ties() {
        let mut run = concluded(run(&[("read/mmap", 1.0), ("read/sync,block=4K", 1.01)], 8));
        assert_eq!(words(&run), ["best", "tie"]);
        let entry = &mut run.contests[0].entries[1];
        entry.verdict = EntryVerdict::Dropped(entry.verdict.relative());
        assert_eq!(words(&run)[1], "1.01x");
        for names in [["read/mmap", "read/sync,block=4K"], ["command/one", "command/other"]] {
            let mut run = crate::simulation::run(&names.map(|name| (name, 1.0)), 3);
            run.trials[3].seconds = 1.4;
            assert_eq!(words(&concluded(run)), ["leads", "undecided"], "three rounds");
        }
        let mut noisy = crate::simulation::run(&[("read/mmap", 1.0), ("read/sync,block=4K", 1.0)], 8);
        let seconds = [1.0, 1.5, 2.0, 1.1, 0.9, 3.0].into_iter().cycle();
        for (trial, seconds) in noisy.trials.iter_mut().zip(seconds) {
            trial.seconds = seconds;
        }
        let noisy = concluded(noisy);
        let conclusion = noisy.contests[0].conclusion.clone().unwrap();
        assert!(conclusion.sentence.starts_with("Undecided"), "{}", conclusion.sentence);
        let found = words(&noisy);
        for word in ["leads", "undecided"] {
            assert!(found.iter().any(|found| found == word), "{found:?}");
        }
        let slower = concluded(crate::simulation::run(
            &[("read/mmap", 1.0), ("read/sync,block=4K", 2.0)],
            3,
        ));
        let found = words(&slower);
        assert_eq!(found[1], "2.00x", "three rounds may show that");
    }
}
