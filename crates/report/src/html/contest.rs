//! The section of an operation: an overview by size, cold beside warm, and each contest with its plots and figures.

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_record::Conclusion;
use seekless_results::{ContestView, Detail, View, mode_words, series, series_title, short_name};

use super::words::{breaking, heading};
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
                        div { (heatmap::by_size(&format!("sizes-{}", first.index), &series_title(first.contest, view.place(first.contest.storage)), &series)) }
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
            @if !contest.rows.is_empty() { (tables::table(&contest.figures(Detail::Full), true)) }
        }
        (published::published(contest))
        (system(contest))
        (tables::effects(contest))
        (tables::left_out(contest))
    }
}

/// The figures of the whole system for each entry; unfolded if the experiment is about them.
fn system(contest: &ContestView<'_>) -> Markup {
    html! {
        @if !contest.system.rows.is_empty() {
            details open[contest.asks_for_system] {
                summary { "The whole system meanwhile, as vmstat shows it" }
                (tables::table(&contest.system, false))
            }
        }
    }
}

fn said(contest: &ContestView<'_>, conclusion: &Conclusion) -> Markup {
    let mode = contest.contest.mode.map(mode_words);
    html! {
        p.said { (conclusion.sentence) }
        p.aside { @for finding in mode.into_iter().chain(contest.kinds()) { (heading(&finding)) ". " } }
    }
}
