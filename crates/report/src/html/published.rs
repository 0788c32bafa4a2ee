//! Published results beside the same methods on this machine: a table for each contest that they are about, and the
//! list of sources.

use maud::{Markup, html};
use seekless_record::{Finding, FindingKind};
use seekless_results::{ContestView, Row, View, rate};

use super::tables::{table, verdict};
use super::words::{breaking, seconds, speed};

/// More than any experiment gives.
const MOST_SOURCES: usize = 20;

/// The section with the sources; empty if nothing was published.
pub(super) fn sources(view: &View<'_>) -> Markup {
    html! {
        @if !view.run.published.is_empty() {
            section id="published" {
                h2 { "Published" }
                p.aside {
                    "Contests with the same kind of files show the published figures beside the same method on this \
                     machine. If a method was measured with several blocks, the best of them is shown, compared with \
                     the best method of its kind."
                }
                ul { @for source in view.run.published.iter().take(MOST_SOURCES) { li { (source.machine) ". " (source.source) } } }
            }
        }
    }
}

/// The table of a contest; empty if nothing was published about these files.
pub(super) fn published(contest: &ContestView<'_>) -> Markup {
    let heads = [
        "Source",
        "Published as",
        "Published",
        "Here",
        "Figures here",
        "vs the best",
    ];
    let rows = html! {
        @for row in &contest.published {
            tr {
                td.w { (row.machine()) }
                td.m { (breaking(&row.finding.method)) }
                td.w { (as_published(row.finding)) }
                @match &row.here {
                    Ok(here) => {
                        td.m { (breaking(&here.entry.name())) }
                        td { (as_measured(contest, row.finding, here)) }
                        (verdict(here))
                    },
                    Err(why) => { td { "–" } td { "–" } td { (why) } },
                }
            }
        }
    };
    html! {
        @if !contest.published.is_empty() {
            details open {
                summary { "Published, and here (" (contest.published.len()) ")" }
                (table(&format!("{}: published figures, and here", contest.title), &heads, None, &rows))
            }
        }
    }
}

fn has_time(finding: &Finding) -> bool {
    finding.seconds.is_some() || finding.cpu_seconds.is_some()
}

/// The published figure of a method, or the group in which it was the best, with its block.
fn as_published(finding: &Finding) -> String {
    let figures = [
        finding.seconds.map(hundredths),
        finding.cpu_seconds.map(|cpu| format!("{} of CPU", hundredths(cpu))),
        finding.bytes_per_second.map(rate),
    ];
    let best = match finding.kind {
        _ if figures.iter().any(Option::is_some) => None,
        FindingKind::Any => Some("the best"),
        FindingKind::Synchronous => Some("the best synchronous"),
        FindingKind::Overlapping => Some("the best overlapping"),
    };
    let block = finding.block.as_ref().map(|block| format!("block {block}"));
    let words = figures.into_iter().chain([best.map(str::to_owned), block]);
    words.flatten().collect::<Vec<_>>().join(", ")
}

/// Seconds as the documents write them.
fn hundredths(time: f64) -> String {
    if (0.0..1e6).contains(&time) {
        format!("{time:.2} s")
    } else {
        seconds(time)
    }
}

/// The figures here that correspond to the published ones.
fn as_measured(contest: &ContestView<'_>, finding: &Finding, here: &Row<'_>) -> String {
    let (time, cpu) = (here.summary.seconds.median, here.summary.cpu_seconds);
    if has_time(finding) {
        format!("{}, {} of CPU", seconds(time), seconds(cpu))
    } else {
        speed(contest, here.summary.bytes_per_second)
    }
}
