//! The table of a contest: the figures of its entries.

use std::collections::BTreeMap;

use seekless_method::{Durability, Operation};
use seekless_record::{Entry, EntryVerdict, Interval, Latency, OptionEffect};

use super::{ContestView, Row};
use crate::compare::Change;
use crate::labels::short_name;
use crate::sheet::{Sheet, SheetCell};
use crate::units::{part, rate, seconds, signed, size, spread, times, times_with_bounds};
use crate::verdict::{ShownVerdict, why_missing};

/// How much of a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The columns that answer the question of the contest.
    Brief,
    /// More about the times.
    More,
    /// All that is known.
    Full,
}

use Detail::{Brief, Full, More};

/// The least detail with which a figure is shown, its heading, and its cell.
type Figure = (Detail, &'static str, SheetCell);

/// The most methods to name for one reason; more are counted.
const MOST_NAMED: usize = 12;
/// Why an entry that was measured has no figures.
pub(super) const NOT_VALID: &str = "no valid trial";

impl ContestView<'_> {
    /// The figures of its entries, the best first: the method, its figures, and the verdict. In full detail, columns in which
    /// nothing is known are omitted. Empty if nothing was measured.
    #[must_use]
    pub fn figures(&self, detail: Detail) -> Sheet {
        let mut sheet = Sheet::new(&self.title);
        let has = |figure: fn(&Row<'_>) -> bool| self.rows.iter().any(figure);
        let syncs = has(|row| row.summary.fsync_seconds > 0.0) && self.contest.updates.is_none();
        let has_p90 = has(|row| row.summary.p90_seconds.is_some());
        for row in &self.rows {
            let figures = self.figures_of(row, syncs, has_p90).into_iter();
            let figures = figures.filter(|(least, ..)| *least <= detail);
            let figures = figures.map(|(_, head, cell)| (head, cell));
            let is_told = detail == Full && row.is_dropped();
            let verdict = row.verdict.word() + if is_told { ", dropped" } else { "" };
            let name = [("method", SheetCell::method(row.name()))].into_iter();
            let cells = name.chain(figures).chain([("verdict", SheetCell::verdict(verdict))]);
            sheet.push(Some(row.verdict.clone()), cells).remarks = row.remarks();
        }
        if detail == Full {
            sheet.omit_empty_columns();
        }
        sheet
    }

    /// What each option gained or cost alone.
    #[must_use]
    pub fn effects(&self) -> Sheet {
        let mut sheet = Sheet::new("Effect of each option alone");
        for effect in self.effects_recorded() {
            let (ratio, cpu) = (effect.ratio, effect.cpu_seconds_difference);
            let told = SheetCell::figure(Some(ratio.median), |_| effect_words(&ratio));
            let cells = [
                ("option", SheetCell::method(&effect.option)),
                ("added to", SheetCell::method(short_name(&effect.without, self.contest))),
                ("effect", told),
                ("cpu time", SheetCell::figure(Some(cpu), signed)),
            ];
            sheet.push(None, cells);
        }
        sheet
    }

    /// The same as recorded, in the order of that table.
    #[must_use]
    pub fn effects_recorded(&self) -> &'_ [OptionEffect] {
        let conclusion = self.contest.conclusion.as_ref();
        conclusion.map_or(&[], |conclusion| &conclusion.effects)
    }

    /// The entries without figures or that failed, by the reason. An entry that failed may have figures, too.
    #[must_use]
    pub fn left_out(&self) -> Sheet {
        let mut reasons: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
        let is_left_out =
            |entry: &&Entry| entry.summary.is_none() || matches!(entry.verdict, EntryVerdict::Failed { .. });
        for entry in self.contest.entries.iter().filter(is_left_out) {
            reasons.entry(why_missing(entry, NOT_VALID)).or_default().push(entry);
        }
        let mut sheet = Sheet::new("Not in the ranking, and why");
        for (reason, entries) in reasons {
            let first = entries.iter().take(MOST_NAMED);
            let mut names: Vec<String> = first.map(|entry| short_name(&entry.name(), self.contest)).collect();
            let more = entries.len() - names.len();
            names.extend((more > 0).then(|| format!("{more} more")));
            let verdict = ShownVerdict::of(entries[0], self.contest);
            let methods = ("methods", SheetCell::method(names.join("; ")));
            sheet.push(Some(verdict), [methods, ("why", SheetCell::words(reason))]);
        }
        sheet
    }

    /// The rate of a sustained write over what was written, in at most this many parts; empty if it is not one.
    #[must_use]
    pub fn stretches(&self, most: usize) -> Sheet {
        let mut sheet = Sheet::new("written up to");
        for stretch in self.sustained.iter().flat_map(|sustained| sustained.stretches(most)) {
            let [mean, slowest] = [stretch.bytes_per_second, stretch.slowest_bytes_per_second]
                .map(|speed| SheetCell::figure(Some(speed), rate));
            let written = SheetCell::figure(Some(stretch.to_bytes), size);
            let cells = [("written up to", written), ("rate", mean), ("slowest file", slowest)];
            sheet.push(None, cells);
        }
        sheet
    }

    fn figures_of(&self, row: &Row<'_>, syncs: bool, has_p90: bool) -> Vec<Figure> {
        let (contest, summary) = (self.contest, row.summary);
        let median = summary.seconds.median;
        let rate = Some(summary.bytes_per_second);
        let width = (summary.seconds.high - summary.seconds.low) / median;
        let latency = |figure: fn(Latency) -> u64| summary.latency.map(|latency| figure(latency) as f64);
        let read = |figure: fn(Latency) -> u64| summary.read_latency.map(|latency| figure(latency) as f64);
        let is_mixed = contest.random.is_some_and(|random| random.reads_percent > 0);
        let [p50, p99, p99_9] = if is_mixed {
            ["write p50", "write p99", "write p99.9"]
        } else {
            ["p50", "p99", "p99.9"]
        };
        let only = |is_asked: bool| if is_asked { Brief } else { Full };
        let compares = contest.operation == Operation::Compare;
        let (updates, requests) = (contest.updates.is_some(), contest.random.is_some());
        let is_plain = only(!(compares || updates || requests));
        let [compares, updates, requests] = [compares, updates, requests].map(only);
        let mixed = only(is_mixed);
        let commands = contest.entries.iter().all(|entry| entry.command().is_some());
        let p90 = if has_p90 { More } else { Full };
        let in_fsync = Some(summary.fsync_seconds).filter(|_| contest.durability != Durability::None);
        let invalid = Some(f64::from(summary.invalid)).filter(|invalid| *invalid > 0.0);
        let behind = row.ratio();
        let speed = if self.in_times { "time" } else { "rate" };
        let mut figures = vec![
            figure(Brief, speed, rate, |_| row.speed()),
            figure(Brief, "± (95 %)", Some(width), |_| spread(&summary.seconds)),
            figure(Full, "95 % interval", rate, |_| row.interval().unwrap_or_default()),
            figure(Full, "time", Some(median).filter(|_| !self.in_times), seconds),
            figure(compares, "user", summary.user_seconds, seconds),
            figure(compares, "system", summary.system_seconds, seconds),
            figure(compares, "requests", summary.device_reads, |_| row.requests()),
            figure(updates, "predicted", summary.predicted_seconds, seconds),
            figure(updates, "calls", summary.calls, count),
            figure(updates, "written", summary.amplification, amplified),
            figure(Full, "timed requests", latency(|latency| latency.requests), count),
            figure(Full, "mean latency", latency(|latency| latency.mean_ns), nanoseconds),
            figure(mixed, "read p50", read(|latency| latency.p50_ns), nanoseconds),
            figure(mixed, "read p99", read(|latency| latency.p99_ns), nanoseconds),
            figure(mixed, "read p99.9", read(|latency| latency.p99_9_ns), nanoseconds),
            figure(requests, p50, latency(|latency| latency.p50_ns), nanoseconds),
            figure(Full, "p90", latency(|latency| latency.p90_ns), nanoseconds),
            figure(requests, p99, latency(|latency| latency.p99_ns), nanoseconds),
            figure(requests, p99_9, latency(|latency| latency.p99_9_ns), nanoseconds),
            figure(Full, "longest", latency(|latency| latency.max_ns), nanoseconds),
            figure(is_plain, "cpu", Some(summary.cpu_seconds / median), part),
            figure(only(syncs), "fsync", in_fsync.map(|time| time / median), part),
            figure(only(commands), "memory", Some(row.peak_memory_bytes as f64), size),
            figure(More, "mean", Some(summary.mean_seconds), seconds),
            figure(Full, "deviation", summary.deviation_seconds, seconds),
            figure(p90, "p90 time", summary.p90_seconds, seconds),
            figure(Full, "set-up", Some(summary.setup_seconds), seconds),
            figure(Brief, "rounds", Some(summary.rounds.into()), count),
            figure(Full, "invalid", invalid, count),
            figure(Full, "vs best", behind.map(|ratio| ratio.median), |_| told(behind)),
        ];
        if contest.random.is_some() {
            // Latencies are what is asked for, so they stand first, where a narrow terminal shows them.
            let spread = figures.remove(1);
            let after = figures.iter().position(|(_, head, _)| *head == p99_9);
            figures.insert(after.map_or(1, |at| at + 1), spread);
        }
        figures
    }
}

fn figure(least: Detail, head: &'static str, figure: Option<f64>, text: impl Fn(f64) -> String) -> Figure {
    (least, head, SheetCell::figure(figure, text))
}

/// What an option gained or cost.
fn effect_words(ratio: &Interval) -> String {
    let [low, median, high] = [ratio.low, ratio.median, ratio.high].map(times);
    let range = format!("({low} to {high} the time)");
    match Change::of(ratio) {
        Change::Faster => format!("{} less time {range}", part(1.0 - ratio.median)),
        Change::Slower if ratio.median < 2.0 => format!("{} slower {range}", part(ratio.median - 1.0)),
        Change::Slower => format!("{median} the time ({low} to {high})"),
        change => format!("{} {range}", change.word()),
    }
}

fn told(ratio: Option<Interval>) -> String {
    ratio.as_ref().map_or_else(String::new, times_with_bounds)
}

fn amplified(times: f64) -> String {
    format!("{times:.1}x")
}

fn count(count: f64) -> String {
    format!("{count:.0}")
}

fn nanoseconds(ns: f64) -> String {
    seconds(ns / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_said_to_gain_only_where_its_interval_does() {
        let words = |low, median, high, coverage| {
            effect_words(&Interval {
                low,
                median,
                high,
                coverage,
            })
        };
        assert!(words(0.8, 0.9, 0.95, Some(0.97)).starts_with("10 % less time"));
        assert!(words(1.05, 1.2, 1.3, Some(0.97)).starts_with("20 % slower"));
        assert_eq!(words(4.9, 5.47, 6.1, Some(0.97)), "5.47x the time (4.90x to 6.10x)");
        assert!(words(0.9, 1.0, 1.1, Some(0.97)).starts_with("inconclusive"));
        assert!(words(0.5, 0.5, 0.5, None).starts_with("too few rounds"));
    }
}
