//! The section of an operation: an overview by size, cold beside warm, and each contest with its plots and figures.

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_record::{Conclusion, Contest, Interval};
use seekless_results::{ContestView, SYSTEM_HEADS, View, mode_words, pair_words, series, short_name, state_words};

use super::words::{breaking, heading, speed};
use super::{drift, heatmap, latency, pairs, published, ranked, sustained, tables};

/// An operation with at most this many contests has them all unfolded.
const MOST_UNFOLDED: usize = 4;

/// All of an operation.
pub(super) fn operation(view: &View<'_>, operation: Operation) -> Markup {
    let contests: Vec<&ContestView<'_>> = view.contests_of(operation).collect();
    let unfolded = contests.len() <= MOST_UNFOLDED;
    html! {
        section id={"op-" (operation.name())} {
            h2 { (heading(operation.name())) }
            div.beside {
                @for series in series(&contests) {
                    @if let [first, _, ..] = series.as_slice() {
                        div { (heatmap::by_size(&format!("sizes-{}", first.index), &series_title(view, first.contest), &series)) }
                    }
                }
            }
            (pairs::cold_and_warm(view, operation))
            @if contests.len() > 1 { h3 { "Contest by contest" } }
            @for (position, contest) in contests.iter().enumerate() {
                details.contest open[unfolded || position == 0] id={"contest-" (contest.index)} {
                    summary { (summary(contest)) }
                    (body(view, contest))
                }
            }
        }
    }
}

/// The title of a series: that of its first contest, without the size.
fn series_title(view: &View<'_>, contest: &Contest) -> String {
    let pair = pair_words(contest);
    let words = [contest.operation.name(), state_words(contest.cache, contest.target)].into_iter();
    let words = words.chain(pair.strip_prefix(", ")).chain(view.place(contest.storage));
    words.collect::<Vec<&str>>().join(", ")
}

fn summary(contest: &ContestView<'_>) -> Markup {
    html! {
        span.title { (contest.title) }
        span.winner {
            @match contest.recommended() {
                Some(method) => { span.m { (breaking(&short_name(method, contest.contest))) } },
                None if contest.contest.sustained => {},
                None => { "undecided" },
            }
        }
    }
}

fn body(view: &View<'_>, contest: &ContestView<'_>) -> Markup {
    let conclusion = contest.contest.conclusion.as_ref();
    html! {
        @if let Some(conclusion) = conclusion { (said(contest, conclusion)) }
        @if contest.sustained.is_none() { (ranked::ranked(contest)) }
        (latency::latency(contest))
        (sustained::sustained(contest))
        (heatmap::by_block(contest))
        (drift::drift(view, contest))
        details open[contest.contest.entries.len() <= 24] {
            summary { "All figures" }
            (tables::figures(contest))
        }
        (published::published(contest))
        (system(contest))
        @if let Some(conclusion) = conclusion { (tables::effects(contest, &conclusion.effects)) }
        (tables::left_out(contest))
    }
}

/// The figures of the whole system for each entry; unfolded if the experiment is about them.
fn system(contest: &ContestView<'_>) -> Markup {
    let mut heads = vec!["Method".to_owned()];
    heads.extend(SYSTEM_HEADS.iter().map(|head| format!("#{head}")));
    let body = html! {
        @for row in &contest.system {
            tr {
                td.m {
                    @if let Some(source) = &row.published { (source) ", " (breaking(&row.method)) }
                    @else { (breaking(&short_name(&row.method, contest.contest))) }
                }
                @for cell in &row.cells { td.n { (cell) } }
            }
        }
    };
    html! {
        @if !contest.system.is_empty() {
            details open[contest.asks_for_system] {
                summary { "The whole system meanwhile, as vmstat shows it" }
                (tables::table(&format!("The whole system meanwhile: {}", contest.title), &heads, None, &body))
            }
        }
    }
}

fn said(contest: &ContestView<'_>, conclusion: &Conclusion) -> Markup {
    html! {
        p.said { (conclusion.sentence) }
        p.aside {
            @if let Some(mode) = contest.contest.mode { (heading(&mode_words(mode))) ". " }
            @if let Some((synchronous, overlapping)) = contest.best_of_kinds() {
                "Best synchronous " span.m { (breaking(&synchronous)) } ", best overlapping "
                span.m { (breaking(&overlapping)) } ". "
            }
            @if let Some(rates) = contest.confirmed() {
                "Measured again: " (speed(contest, rates.median))
                @if rates.low < rates.high { " (" (range(contest, &rates)) ")" } "."
            }
        }
    }
}

/// The ends of an interval of rates, the smaller figure first.
fn range(contest: &ContestView<'_>, rates: &Interval) -> String {
    let mut ends = [rates.low, rates.high].map(|rate| speed(contest, rate));
    if contest.in_times {
        ends.reverse();
    }
    ends.join(" to ")
}
