//! The section of an operation: an overview by size, cold beside warm, and each contest with its plots and figures.

use maud::{Markup, html};
use seekless_method::Operation;
use seekless_results::{ContestView, Detail, View, mode_words, series, series_title};

use super::labels::{breaking, heading};
use super::{drift, heatmap, latency, pairs, ranked, sustained, tables};

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
            @match contest.answer.as_ref().filter(|answer| answer.is_decided) {
                Some(answer) => { span.m { (breaking(&answer.method)) } },
                None if contest.contest.sustained => {},
                None => { "undecided" },
            }
        }
    }
}

fn body(view: &View<'_>, contest: &ContestView<'_>) -> Markup {
    let findings = contest.contest.mode.map(mode_words).into_iter().chain(contest.kinds());
    html! {
        @if let Some(conclusion) = &contest.contest.conclusion {
            p.said { (conclusion.sentence) }
            p.aside { @for finding in findings { (heading(&finding)) ". " } }
        }
        @if contest.sustained.is_none() { (ranked::ranked(contest)) }
        (latency::latency(contest))
        (sustained::sustained(contest))
        (heatmap::by_block(contest))
        (drift::drift(view, contest))
        @if !contest.rows.is_empty() {
            details open[contest.contest.entries.len() <= 24] {
                summary { "All figures" }
                (tables::table(&contest.figures(Detail::Full), true))
            }
        }
        @for (sheet, is_open) in contest.details() { (tables::folded(&sheet, is_open)) }
    }
}
