//! The page of a comparison: the answer, what is different about the machine, and a table for each contest.

use maud::{Markup, html};
use seekless_results::{ContestChange, RunComparison, visible};

use super::page::{Frame, framed};
use super::tables::table;

/// The page. Texts are escaped here, because a comparison has no view.
pub(super) fn page(comparison: &RunComparison, objections: &[String], frame: Frame<'_>) -> Markup {
    let [first, second] = comparison.runs.each_ref().map(|id| visible(id));
    let answer = comparison.answer_in_words();
    let (answer, rests_on) = answer.split_once(". ").unwrap_or((&answer, ""));
    let notes = comparison.notes(objections);
    let body = html! {
        a.skip href="#contests" { "To the contests" }
        header {
            p.brand { "seekless" span { "comparison of two runs" } }
            h1 { (answer.trim_end_matches('.')) "." }
            p { (rests_on) }
            p.facts { "First run: " (first) }
            p.facts { "Second run: " (second) }
        }
        main {
            @if !notes.is_empty() {
                section id="notes" { ul.warnings { @for (label, note) in notes { li { b { (label) } " " (note) } } } }
            }
            section id="contests" {
                h2 { "Contests" }
                @for contest in &comparison.contests { (changed(contest)) }
                @for sentence in comparison.only() { p { (sentence) } }
            }
            section id="about" {
                h2 { "How to read this" }
                p {
                    "A change is the ratio of the median times of the two runs. The two runs have no rounds in common, so the interval combines the intervals of \
                     both runs. It covers the variation within each run, not the variation of the machine from day to \
                     day. The first line is a geometric mean over the contests, each represented by its reference \
                     method. For \"vs reference\", the method's time is first divided by that of the reference in the \
                     same rounds, so a slowdown of the whole machine cancels. Rates are in units of 1000 bytes."
                }
            }
        }
    };
    framed(&format!("{first} and {second}"), &body, frame)
}

fn changed(contest: &ContestChange) -> Markup {
    let sheet = contest.sheet(true);
    html! {
        h3 { (sheet.title) }
        (table(&sheet, false))
        @for aside in contest.asides(true, "") { p.aside { (aside) } }
        @for sentence in contest.sentences() { p { (sentence) } }
    }
}
