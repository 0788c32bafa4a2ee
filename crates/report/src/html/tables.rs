//! Tables: one form for all, whose headings the page's script makes buttons that sort; and the figures of a contest.

use std::collections::BTreeMap;

use maud::{Markup, html};
use seekless_record::{Contest, Entry, OptionEffect, Status, Summary};
use seekless_results::is_told_in_times;

use super::view::{ranking, verdict_of};
use super::words::{
    breaking, class, percent, rate, seconds, short_name, shown, spread, standing, three_digits, times,
    times_with_bounds,
};

/// Methods named for one reason; more are counted.
const MOST_NAMED: usize = 12;

/// A table that can be sorted, as it is by the column `sorted`. A heading that begins with `#` is one of figures.
pub(super) fn table(caption: &str, heads: &[&str], sorted: Option<usize>, rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table.sort {
                caption { (caption) }
                thead { tr {
                    @for (column, head) in heads.iter().enumerate() {
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

/// A cell with a figure: how it is written, and what it is sorted by.
pub(super) fn figure(text: &str, value: f64) -> Markup {
    let value = if value.is_finite() {
        format!("{value:.5e}")
    } else {
        String::new()
    };
    html! { td.n data-v=(value) { (text) } }
}

/// All that was measured in a contest, the best first.
pub(super) fn figures(title: &str, contest: &Contest) -> Markup {
    let ranked = ranking(contest);
    if ranked.is_empty() {
        return html! {};
    }
    let syncs = ranked.iter().any(|(_, _, summary)| summary.fsync_seconds > 0.0);
    let mut heads = vec!["#Rank", "Method"];
    if !is_told_in_times(contest) {
        heads.push("#Rate");
    }
    heads.extend(["#95 %", "#Time", "#Mean"]);
    if contest.updates.is_some() {
        heads.extend(["#Predicted", "#Written for each byte"]);
    }
    heads.extend(["#CPU", "#User", "#System"]);
    heads.extend(["#Calls", "#Device's requests", "#Bytes of one"]);
    if syncs {
        heads.push("#fsync");
    }
    heads.extend(["#Set-up", "#Rounds", "#Time over the best's", "Verdict"]);
    let rows = html! {
        @for (rank, (_, entry, summary)) in (1..).zip(&ranked) {
            (row(contest, (rank, entry, summary), syncs))
        }
    };
    table(&format!("All that was measured: {title}"), &heads, Some(0), &rows)
}

fn row(contest: &Contest, (rank, entry, summary): (u32, &Entry, &Summary), syncs: bool) -> Markup {
    let median = summary.seconds.median;
    let part = |of: f64| figure(&percent(of / median), of / median);
    let deviation = summary
        .deviation_seconds
        .map(|deviation| format!(" ± {}", seconds(deviation)));
    let rounds = match summary.invalid {
        0 => summary.rounds.to_string(),
        invalid => format!("{} ({invalid} invalid)", summary.rounds),
    };
    let ratio = entry.standing.as_ref().map(|standing| standing.ratio);
    let (sign, word) = standing(entry);
    let dropped = matches!(entry.status, Status::Dropped(_));
    html! {
        tr {
            (figure(&rank.to_string(), f64::from(rank)))
            td.m { (name(contest, entry)) }
            @if !is_told_in_times(contest) {
                (figure(&rate(summary.bytes_per_second), summary.bytes_per_second))
            }
            (figure(&spread(&summary.seconds), (summary.seconds.high - summary.seconds.low) / median))
            (figure(&seconds(median), median))
            (figure(&format!("{}{}", seconds(summary.mean_seconds), deviation.unwrap_or_default()), summary.mean_seconds))
            @if contest.updates.is_some() {
                (figure(&summary.predicted_seconds.map_or_else(|| "–".to_owned(), seconds), summary.predicted_seconds.unwrap_or(f64::NAN)))
                (figure(&summary.amplification.map_or_else(|| "–".to_owned(), times), summary.amplification.unwrap_or(f64::NAN)))
            }
            (part(summary.cpu_seconds))
            @for time in [summary.user_seconds, summary.system_seconds] {
                (figure(&time.map_or_else(|| "–".to_owned(), seconds), time.unwrap_or(f64::NAN)))
            }
            @for count in [summary.calls, summary.device_reads] {
                (figure(&count.map_or_else(|| "–".to_owned(), |count| format!("{count:.0}")), count.unwrap_or(f64::NAN)))
            }
            (figure(&request_bytes(summary), summary.device_request_bytes.unwrap_or(f64::NAN)))
            @if syncs { (part(summary.fsync_seconds)) }
            (figure(&seconds(summary.setup_seconds), summary.setup_seconds))
            (figure(&rounds, f64::from(summary.rounds)))
            (figure(&ratio.as_ref().map(times_with_bounds).unwrap_or_default(), ratio.map_or(f64::NAN, |ratio| ratio.median)))
            td class=(class(verdict_of(entry))) { (sign) " " (word) @if dropped { ", dropped" } }
        }
    }
}

/// The name of an entry, with what it stands for and what is to be known of it.
fn name(contest: &Contest, entry: &Entry) -> Markup {
    let note = entry.command.as_ref().and_then(|command| command.note.as_deref());
    html! {
        (breaking(&short_name(&entry.method, contest)))
        @if let Some(planned) = entry.summary.as_ref().and_then(|summary| summary.planned.as_ref()) {
            br; small { (breaking(&shown(planned))) }
        }
        @if entry.label.is_some() { br; small { (breaking(&shown(&entry.method))) } }
        @if let Some(note) = note { br; small { (shown(note)) } }
    }
}

/// The mean size of the device's requests, in KiB.
pub(super) fn request_bytes(summary: &Summary) -> String {
    summary
        .device_request_bytes
        .map_or_else(|| "–".to_owned(), |bytes| format!("{}K", three_digits(bytes / 1024.0)))
}

/// What each option of a contest did alone.
pub(super) fn effects(title: &str, contest: &Contest, effects: &[OptionEffect]) -> Markup {
    let rows = html! {
        @for effect in effects {
            tr {
                td.m { (shown(&effect.option)) }
                td.m { (breaking(&short_name(&effect.without, contest))) }
                (figure(&times_with_bounds(&effect.ratio), effect.ratio.median))
                td { (effect_word(effect)) }
                (figure(&signed_seconds(effect.cpu_seconds_difference), effect.cpu_seconds_difference))
            }
        }
    };
    let heads = ["Option", "Added to", "#Its time becomes", "So it", "#CPU time"];
    html! {
        @if !effects.is_empty() {
            details { summary { "What each option did alone (" (effects.len()) ")" }
                (table(&format!("What each option did alone: {title}"), &heads, None, &rows)) }
        }
    }
}

/// Whether an option is known to gain or to cost, by its interval.
pub(super) fn effect_word(effect: &OptionEffect) -> &'static str {
    match effect.ratio {
        ratio if ratio.coverage.is_none() => "too few rounds",
        ratio if ratio.high < 1.0 => "gains",
        ratio if ratio.low > 1.0 => "costs",
        _ => "no difference seen",
    }
}

fn signed_seconds(difference: f64) -> String {
    if difference > 0.0 {
        format!("+{}", seconds(difference))
    } else {
        seconds(difference)
    }
}

/// What is in no table, by reason.
pub(super) fn left_out(contest: &Contest) -> Markup {
    let mut reasons: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in contest.entries.iter().filter(|entry| entry.summary.is_none()) {
        let reason = match &entry.status {
            Status::Unavailable(why) => format!("not available: {why}"),
            Status::Failed(why) => format!("failed: {why}"),
            Status::Unmeasured(why) => format!("not measured: {why}"),
            Status::Measured | Status::Dropped(_) => "no valid trial".to_owned(),
        };
        reasons.entry(shown(&reason)).or_default().push(entry);
    }
    let failed = contest.entries.iter().filter(|entry| entry.summary.is_some());
    for entry in failed {
        if let Status::Failed(why) = &entry.status {
            reasons.entry(shown(&format!("failed: {why}"))).or_default().push(entry);
        }
    }
    let count: usize = reasons.values().map(Vec::len).sum();
    html! {
        @if count > 0 {
            details { summary { "Not in the ranking, and why (" (count) ")" }
                ul {
                    @for (reason, entries) in &reasons {
                        li {
                            span.m { @for (index, entry) in entries.iter().take(MOST_NAMED).enumerate() {
                                @if index > 0 { "; " } (short_name(&entry.method, contest))
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

/// A number that is written and sorted alike.
pub(super) fn plain(number: f64) -> Markup {
    figure(&three_digits(number), number)
}
