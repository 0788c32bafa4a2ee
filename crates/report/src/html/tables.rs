//! Tables and the figures of a contest. The page's script turns headings of tables into buttons that sort.

use std::collections::BTreeMap;

use maud::{Markup, html};
use seekless_record::{Entry, Interval, Latency, OptionEffect, Status};
use seekless_results::{ContestView, Row, rate_in, short_name, three_digits};

use super::words::{breaking, class, percent, seconds, spread, standing, times, times_with_bounds};

/// The most methods to name for one reason; more are counted.
const MOST_NAMED: usize = 12;

/// A sortable table, which is sorted by the column `sorted`. A heading that starts with `#` is for figures.
pub(super) fn table(caption: &str, heads: &[impl AsRef<str>], sorted: Option<usize>, rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table.sort {
                caption { (caption) }
                thead { tr {
                    @for (column, head) in heads.iter().map(AsRef::as_ref).enumerate() {
                        @let is_figure = head.starts_with('#');
                        th scope="col" class=[is_figure.then_some("n")]
                            aria-sort=[(sorted == Some(column)).then_some("ascending")] {
                            (head.trim_start_matches('#'))
                        }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}

/// A cell with a figure: its text, and its value for sorting.
pub(super) fn figure(text: &str, value: f64) -> Markup {
    let value = if value.is_finite() {
        format!("{value:.5e}")
    } else {
        String::new()
    };
    html! { td.n data-v=(value) { (text) } }
}

/// A cell with a figure that may not be known.
pub(super) fn known(value: Option<f64>, text: impl Fn(f64) -> String) -> Markup {
    value.map_or_else(|| figure("–", f64::NAN), |value| figure(&text(value), value))
}

/// A cell with a ratio and its interval, where there is one.
pub(super) fn ratio(ratio: Option<&Interval>) -> Markup {
    ratio.map_or_else(
        || figure("–", f64::NAN),
        |ratio| figure(&times_with_bounds(ratio), ratio.median),
    )
}

/// Whether a table has it, its heading, and its cell in a row.
type Column = (bool, &'static str, fn(&Row<'_>) -> Markup);

/// All entries of a contest, the best first.
pub(super) fn figures(contest: &ContestView<'_>) -> Markup {
    if contest.rows.is_empty() {
        return html! {};
    }
    let syncs = contest.rows.iter().any(|row| row.summary.fsync_seconds > 0.0);
    let updates = contest.contest.updates.is_some();
    let random = contest.contest.random.is_some();
    let columns: [Column; 26] = [
        (true, "Method", |row| html! { td.m { (name(row)) } }),
        (!contest.in_times, "#Rate", |row| {
            figure(
                &rate_in(row.contest, row.summary.bytes_per_second),
                row.summary.bytes_per_second,
            )
        }),
        (true, "#95 %", |Row { summary, .. }| {
            let width = (summary.seconds.high - summary.seconds.low) / summary.seconds.median;
            figure(&spread(&summary.seconds), width)
        }),
        (true, "#Time", |row| known(Some(row.summary.seconds.median), seconds)),
        (true, "#Mean", |Row { summary, .. }| {
            let deviation = summary
                .deviation_seconds
                .map(|deviation| format!(" ± {}", seconds(deviation)));
            let mean = seconds(summary.mean_seconds) + &deviation.unwrap_or_default();
            figure(&mean, summary.mean_seconds)
        }),
        (true, "#p90 time", |row| known(row.summary.p90_seconds, seconds)),
        (random, "#Requests", |row| {
            known(row.summary.latency.map(|latency| latency.requests as f64), count)
        }),
        (random, "#Latency, mean", |row| latency(row, |latency| latency.mean_ns)),
        (random, "#p50", |row| latency(row, |latency| latency.p50_ns)),
        (random, "#p90", |row| latency(row, |latency| latency.p90_ns)),
        (random, "#p99", |row| latency(row, |latency| latency.p99_ns)),
        (random, "#p99.9", |row| latency(row, |latency| latency.p99_9_ns)),
        (random, "#Longest", |row| latency(row, |latency| latency.max_ns)),
        (updates, "#Predicted", |row| {
            known(row.summary.predicted_seconds, seconds)
        }),
        (updates, "#Write amplification", |row| {
            known(row.summary.amplification, times)
        }),
        (true, "#CPU", |row| part(row, row.summary.cpu_seconds)),
        (true, "#User", |row| known(row.summary.user_seconds, seconds)),
        (true, "#System", |row| known(row.summary.system_seconds, seconds)),
        (true, "#Calls", |row| known(row.summary.calls, count)),
        (true, "#Device's requests", |row| known(row.summary.device_reads, count)),
        (true, "#Request size", |row| {
            known(row.summary.device_request_bytes, kib)
        }),
        (syncs, "#fsync", |row| part(row, row.summary.fsync_seconds)),
        (true, "#Set-up", |row| known(Some(row.summary.setup_seconds), seconds)),
        (true, "#Rounds", |Row { summary, .. }| {
            let rounds = match summary.invalid {
                0 => summary.rounds.to_string(),
                invalid => format!("{} ({invalid} invalid)", summary.rounds),
            };
            figure(&rounds, f64::from(summary.rounds))
        }),
        (true, "#Time vs best", |row| match row.ratio() {
            Some(ratio) => figure(&times_with_bounds(&ratio), ratio.median),
            None => figure("", f64::NAN),
        }),
        (true, "Verdict", verdict),
    ];
    let columns: Vec<&Column> = columns.iter().filter(|(is_shown, ..)| *is_shown).collect();
    let mut heads = vec!["#Rank"];
    heads.extend(columns.iter().map(|(_, head, _)| head));
    let rows = html! {
        @for (rank, row) in (1_u32..).zip(&contest.rows) {
            tr {
                (figure(&rank.to_string(), f64::from(rank)))
                @for (_, _, cell) in &columns { (cell(row)) }
            }
        }
    };
    table(&format!("All figures: {}", contest.title), &heads, Some(0), &rows)
}

/// A latency.
fn latency(row: &Row<'_>, nanoseconds: fn(Latency) -> u64) -> Markup {
    known(row.summary.latency.map(nanoseconds).map(|ns| ns as f64), |ns| {
        seconds(ns / 1e9)
    })
}

/// A share of the time.
fn part(row: &Row<'_>, of: f64) -> Markup {
    known(Some(of / row.summary.seconds.median), percent)
}

fn count(count: f64) -> String {
    format!("{count:.0}")
}

/// A cell with the verdict.
pub(super) fn verdict(row: &Row<'_>) -> Markup {
    let (sign, word) = standing(row.position);
    let dropped = matches!(row.entry.status, Status::Dropped(_));
    html! { td class=(class(row.position)) { (sign) " " (word) @if dropped { ", dropped" } } }
}

/// The name of an entry, with its method and remark.
fn name(row: &Row<'_>) -> Markup {
    html! {
        (breaking(&row.name()))
        @if let Some(planned) = &row.summary.planned { br; small { (breaking(planned)) } }
        @if row.entry.label.is_some() { br; small { (breaking(&row.entry.name())) } }
        @if let Some(note) = row.note() { br; small { (note) } }
    }
}

/// Bytes in KiB.
pub(super) fn kib(bytes: f64) -> String {
    format!("{}K", three_digits(bytes / 1024.0))
}

/// The effect of each option of a contest alone.
pub(super) fn effects(contest: &ContestView<'_>, effects: &[OptionEffect]) -> Markup {
    let rows = html! {
        @for effect in effects {
            tr {
                td.m { (effect.option) }
                td.m { (breaking(&short_name(&effect.without, contest.contest))) }
                (ratio(Some(&effect.ratio)))
                td { (effect_word(effect)) }
                (figure(&signed_seconds(effect.cpu_seconds_difference), effect.cpu_seconds_difference))
            }
        }
    };
    let heads = ["Option", "Added to", "#Its time becomes", "Effect", "#CPU time"];
    html! {
        @if !effects.is_empty() {
            details { summary { "Effect of each option alone (" (effects.len()) ")" }
                (table(&format!("Effect of each option alone: {}", contest.title), &heads, None, &rows)) }
        }
    }
}

/// Whether an option gains or costs, by its interval.
pub(super) fn effect_word(effect: &OptionEffect) -> &'static str {
    match effect.ratio {
        ratio if ratio.coverage.is_none() => "too few rounds",
        ratio if ratio.high < 1.0 => "gains",
        ratio if ratio.low > 1.0 => "costs",
        _ => "inconclusive",
    }
}

fn signed_seconds(difference: f64) -> String {
    let sign = if difference > 0.0 { "+" } else { "" };
    format!("{sign}{}", seconds(difference))
}

/// The entries that are in no table, by reason.
pub(super) fn left_out(contest: &ContestView<'_>) -> Markup {
    let mut reasons: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for (entry, why) in &contest.left_out {
        reasons.entry(why).or_default().push(entry);
    }
    let count = contest.left_out.len();
    html! {
        @if count > 0 {
            details { summary { "Not in the ranking, and why (" (count) ")" }
                ul {
                    @for (reason, entries) in &reasons {
                        li {
                            span.m { @for (index, entry) in entries.iter().take(MOST_NAMED).enumerate() {
                                @if index > 0 { "; " } (short_name(&entry.name(), contest.contest))
                            } }
                            @if entries.len() > MOST_NAMED { " and " (entries.len() - MOST_NAMED) " more" }
                            ": " (reason)
                        }
                    }
                }
            }
        }
    }
}

/// A plain number.
pub(super) fn plain(number: f64) -> Markup {
    figure(&three_digits(number), number)
}
