//! One contest on a terminal: its ranking, the entries left out, and the conclusion.

use std::io;

use anstyle::Style;
use seekless::Operation;
use seekless_record::{Contest, Entry, Interval, Latency, Status};
use seekless_results::{ContestView, Position, Row, bytes, is_told_in_times, rate, rate_in, short_name, size};

use super::page::Page;
use super::table::{TableRow, TextTable};
use super::units::seconds;
use super::{DIM, GOOD, PLAIN, WARNING};

/// The number of rows to show, even if most methods were dropped.
const FEWEST_ROWS: usize = 6;

/// The rows that are shown.
pub fn cut<'v, 'a>(rows: &'v [Row<'a>], all: bool) -> &'v [Row<'a>] {
    let standing = rows.iter().filter(|row| !row.is_dropped()).count();
    let shown = if all { rows.len() } else { standing.max(FEWEST_ROWS) };
    &rows[..shown.min(rows.len())]
}

/// Shows a contest, under its title.
pub fn show_contest(page: &mut Page<'_>, view: &ContestView<'_>, all: bool) -> io::Result<()> {
    let shown = cut(&view.rows, all);
    let rates = shown.iter().map(|row| row.summary.bytes_per_second);
    let best = rates.fold(f64::MIN_POSITIVE, f64::max);
    let first_dropped = view.rows.iter().position(Row::is_dropped);
    let columns = columns(view, all);
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let rows = shown.iter().enumerate().map(|(index, row)| TableRow {
        name: row.name(),
        cells: columns.iter().map(|(_, cell)| cell(row)).collect(),
        part: row.summary.bytes_per_second / best,
        style: style_of(row),
        before: (first_dropped == Some(index)).then_some("no longer measured:"),
    });
    TextTable::new(Some(&view.title), &heads, rows).print_ranking(page)?;
    show_names(page, shown)?;
    show_rest(page, view.contest, view.rows.len() - shown.len(), all)?;
    if let Some(conclusion) = &view.contest.conclusion {
        page.say(PLAIN, &conclusion.sentence)?;
    }
    show_stretches(page, view)?;
    for line in findings(view, all) {
        page.aside(DIM, &line)?;
    }
    Ok(())
}

/// The number of lines for the rate of a sustained write.
const STRETCHES: usize = 10;

/// Shows the rate of a sustained write over the bytes written.
fn show_stretches(page: &mut Page<'_>, view: &ContestView<'_>) -> io::Result<()> {
    let Some(sustained) = &view.sustained else {
        return Ok(());
    };
    let stretches = sustained.stretches(STRETCHES);
    let rates = stretches.iter().map(|stretch| stretch.bytes_per_second);
    let best = rates.fold(f64::MIN_POSITIVE, f64::max);
    let rows = stretches.iter().map(|stretch| TableRow {
        name: format!("up to {}", size(stretch.to_bytes)),
        cells: vec![
            rate(stretch.bytes_per_second),
            rate(stretch.slowest_bytes_per_second),
            String::new(),
        ],
        part: stretch.bytes_per_second / best,
        ..TableRow::default()
    });
    TextTable::new(Some("written"), &["rate", "slowest file", ""], rows).print_ranking(page)
}

/// A heading, and its cell in a row.
type Column = (&'static str, fn(&Row<'_>) -> String);

fn columns(view: &ContestView<'_>, all: bool) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![("", speed), ("± (95 %)", |row| spread(&row.summary.seconds))];
    let syncs = view.rows.iter().any(|row| row.summary.fsync_seconds > 0.0);
    let is_updated = view.contest.updates.is_some();
    if view.contest.operation == Operation::Compare {
        columns.extend::<[Column; 3]>([
            ("user", |row| time(row.summary.user_seconds)),
            ("system", |row| time(row.summary.system_seconds)),
            ("requests", requests),
        ]);
    } else if is_updated {
        columns.extend::<[Column; 3]>([
            ("predicted", |row| known(row.summary.predicted_seconds, seconds)),
            ("calls", |row| known(row.summary.calls, |calls| format!("{calls:.0}"))),
            ("written", |row| {
                known(row.summary.amplification, |times| format!("{times:.1}x"))
            }),
        ]);
    } else if view.contest.random.is_some() {
        columns.extend::<[Column; 5]>([
            ("p50", |row| latency(row, |latency| latency.p50_ns)),
            ("p90", |row| latency(row, |latency| latency.p90_ns)),
            ("p99", |row| latency(row, |latency| latency.p99_ns)),
            ("p99.9", |row| latency(row, |latency| latency.p99_9_ns)),
            ("longest", |row| latency(row, |latency| latency.max_ns)),
        ]);
    } else {
        columns.push(("cpu", |row| part(row, row.summary.cpu_seconds)));
    }
    if syncs && !is_updated {
        columns.push(("fsync", |row| part(row, row.summary.fsync_seconds)));
    }
    if view.contest.entries.iter().all(|entry| entry.command().is_some()) {
        columns.push(("memory", |row| bytes(row.peak_memory_bytes)));
    }
    if all {
        columns.push(("mean", |row| time(Some(row.summary.mean_seconds))));
    }
    if all && view.rows.iter().any(|row| row.summary.p90_seconds.is_some()) {
        columns.push(("p90 time", |row| known(row.summary.p90_seconds, seconds)));
    }
    columns.push(("rounds", |row| row.summary.rounds.to_string()));
    columns.push(("", |row| verdict(row.position)));
    columns
}

/// The rate, or the time if a rate would be meaningless.
pub fn speed(row: &Row<'_>) -> String {
    if is_told_in_times(row.contest) {
        seconds(row.summary.seconds.median)
    } else {
        rate_in(row.contest, row.summary.bytes_per_second)
    }
}

fn known(figure: Option<f64>, text: fn(f64) -> String) -> String {
    figure.map_or_else(String::new, text)
}

fn time(time: Option<f64>) -> String {
    time.filter(|time| *time > 0.0).map_or_else(|| "0".to_owned(), seconds)
}

/// How long requests took.
fn latency(row: &Row<'_>, figure: fn(&Latency) -> u64) -> String {
    let latency = row.summary.latency.as_ref();
    known(latency.map(|latency| figure(latency) as f64 / 1e9), seconds)
}

/// A share of the time.
fn part(row: &Row<'_>, of: f64) -> String {
    format!("{:.0} %", 100.0 * of / row.summary.seconds.median)
}

/// The requests that the device completed, with their mean size.
fn requests(row: &Row<'_>) -> String {
    let size = known(row.summary.device_request_bytes, |bytes| {
        format!(" x {:.0}K", bytes / 1024.0)
    });
    let reads = row.summary.device_reads;
    reads.map_or_else(String::new, |reads| format!("{reads:.0}{size}"))
}

/// Shows the methods behind published names and plans, and the notes of commands.
fn show_names(page: &mut Page<'_>, shown: &[Row<'_>]) -> io::Result<()> {
    for row in shown {
        let (planned, label) = (&row.summary.planned, &row.entry.label);
        let notes = [
            row.note().map(|note| format!("{}: {note}", row.name())),
            planned.as_ref().map(|planned| format!("planned: {planned}")),
            label.as_ref().map(|label| format!("{label}: {}", row.entry.name())),
        ];
        for note in notes.iter().flatten() {
            page.aside(DIM, note)?;
        }
    }
    Ok(())
}

/// Half the width of the interval, in per cent of the median; half the range if there are too few rounds for an
/// interval; `-` for one round.
fn spread(interval: &Interval) -> String {
    if interval.coverage.is_none() && interval.high <= interval.low {
        return "-".to_owned();
    }
    let half = 50.0 * (interval.high - interval.low) / interval.median;
    let sign = if interval.coverage.is_some() { '±' } else { '~' };
    format!("{sign}{half:.0} %")
}

/// The verdict, in a word.
pub fn verdict(position: Position) -> String {
    match position {
        Position::Best => "best".to_owned(),
        Position::Leading => "leads".to_owned(),
        Position::Tie => "tie".to_owned(),
        Position::Open => "undecided".to_owned(),
        Position::Slower(ratio) => format!("{:.2}x", ratio.median),
        Position::Failed => "failed".to_owned(),
        Position::Unranked => String::new(),
    }
}

fn style_of(row: &Row<'_>) -> Style {
    match row.position {
        Position::Failed => WARNING,
        Position::Best => GOOD.bold(),
        Position::Tie => GOOD,
        _ if row.is_dropped() => DIM,
        _ => PLAIN,
    }
}

/// Shows what is not in the table, and why.
fn show_rest(page: &mut Page<'_>, contest: &Contest, hidden: usize, all: bool) -> io::Result<()> {
    if hidden > 0 {
        page.aside(DIM, &format!("... {hidden} more, all slower (--all shows them)"))?;
    }
    let name = |entry: &Entry| short_name(&entry.name(), contest);
    let mut missing = Vec::new();
    for entry in &contest.entries {
        match &entry.status {
            Status::Failed(why) => page.aside(WARNING, &format!("{} failed: {why}", name(entry)))?,
            Status::Unavailable(why) | Status::Unmeasured(why) => missing.push(format!("{}: {why}", name(entry))),
            Status::Measured | Status::Dropped(_) => {}
        }
    }
    if !(all || missing.is_empty() || missing.len() == contest.entries.len()) {
        missing = vec![format!(
            "{} unavailable or not measured (--all says why)",
            missing.len()
        )];
    }
    missing.iter().try_for_each(|line| page.aside(DIM, line))
}

/// The other findings, one line each.
fn findings(view: &ContestView<'_>, all: bool) -> Vec<String> {
    let both = view
        .best_of_kinds()
        .map(|(synchronous, overlapping)| format!("best synchronous {synchronous}; best overlapping {overlapping}"));
    let confirmed = view.confirmed().map(|Interval { low, median, high, .. }| {
        let is_range = low < high;
        let bytes = view.contest.size_bytes as f64 * f64::from(view.contest.files);
        // The highest rate is the shortest time.
        let [low, median, high] = if view.in_times {
            [high, median, low].map(|speed| seconds(bytes / speed))
        } else {
            [low, median, high].map(|rate| rate_in(view.contest, rate))
        };
        let range = if is_range {
            format!(" ({low} to {high})")
        } else {
            String::new()
        };
        format!("measured again: {median}{range}")
    });
    let conclusion = view.contest.conclusion.iter();
    let effects = conclusion.flat_map(|conclusion| &conclusion.effects);
    let effects = effects.filter_map(|effect| {
        let words = effect_words(&effect.ratio, all)?;
        let without = short_name(&effect.without, view.contest);
        Some(format!("{} vs {without}: {words}", effect.option))
    });
    both.into_iter().chain(confirmed).chain(effects).collect()
}

/// The effect of an option alone; `None` if it is not worth a line.
fn effect_words(ratio: &Interval, all: bool) -> Option<String> {
    let range = format!("({:.2}x to {:.2}x the time)", ratio.low, ratio.high);
    if ratio.coverage.is_none() {
        return all.then(|| format!("too few rounds {range}"));
    }
    if ratio.high < 1.0 {
        return Some(format!("{:.0} % less time {range}", 100.0 * (1.0 - ratio.median)));
    }
    if ratio.low > 1.0 {
        return Some(format!("{:.0} % slower {range}", 100.0 * (ratio.median - 1.0)));
    }
    all.then(|| format!("inconclusive {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval {
            low,
            median,
            high,
            coverage: Some(0.97),
        }
    }

    #[test]
    fn an_interval_is_told_from_a_range() {
        let interval = interval(0.9, 1.0, 1.1);
        assert_eq!(spread(&interval), "±10 %");
        let range = Interval {
            coverage: None,
            ..interval
        };
        assert_eq!(spread(&range), "~10 %");
    }

    #[test]
    fn an_option_is_said_to_gain_only_where_its_interval_does() {
        let words = |low, median, high| effect_words(&interval(low, median, high), false);
        assert!(words(0.8, 0.9, 0.95).unwrap().starts_with("10 % less time"));
        assert!(words(1.05, 1.2, 1.3).unwrap().starts_with("20 % slower"));
        assert_eq!(words(0.9, 1.0, 1.1), None);
        let few = Interval {
            coverage: None,
            ..interval(0.5, 0.5, 0.5)
        };
        assert_eq!(effect_words(&few, false), None);
        assert!(effect_words(&few, true).unwrap().starts_with("too few rounds"));
    }
}
