//! The page of a comparison: the answer, what is different about the machine, and a table for each contest.

use maud::{Markup, html};
use seekless_results::{Availability, Change, Comparison, ContestChange, MethodChange, rate, visible};

use super::page::framed;
use super::tables::{figure, ratio, table};
use super::words::breaking;

/// The page. Texts are escaped here, because a comparison has no view.
pub(super) fn page(comparison: &Comparison, objections: &[String]) -> Markup {
    let [first, second] = comparison.runs.each_ref().map(|id| visible(id));
    let answer = comparison.answer_in_words();
    let (answer, rests_on) = answer.split_once(". ").unwrap_or((&answer, ""));
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
            section id="notes" {
                (list("What differs", "warnings", objections))
                (list("Notes", "warnings", &comparison.cautions))
                (list("What changed", "changed", &comparison.changed))
            }
            section id="contests" {
                h2 { "Contests" }
                @for contest in &comparison.contests { (changed(contest)) }
                (list("Measured only in the first run", "only", &comparison.only_first))
                (list("Measured only in the second run", "only", &comparison.only_second))
            }
            section id="about" {
                h2 { "How to read this" }
                p {
                    "A ratio is the median time of the second run divided by that of the first; below 1, the second \
                     run is faster. The two runs have no rounds in common, so the interval combines the intervals of \
                     both runs. It covers the variation within each run, not the variation of the machine from day to \
                     day. The first line is a geometric mean over the contests, each represented by its reference \
                     method. For \"vs reference\", the method's time is first divided by that of the reference in the \
                     same rounds, so a slowdown of the whole machine cancels. Rates are in units of 1000 bytes."
                }
            }
        }
    };
    framed(&format!("{first} and {second}"), &body)
}

fn list(title: &str, class: &str, texts: &[String]) -> Markup {
    html! {
        @if !texts.is_empty() {
            h3 { (title) }
            ul class=(class) { @for text in texts { li { (visible(text)) } } }
        }
    }
}

fn changed(contest: &ContestChange) -> Markup {
    let storage = contest
        .storage
        .as_ref()
        .map(|storage| format!(": {}", visible(storage)));
    let title = format!("{}{}", visible(&contest.title), storage.unwrap_or_default());
    let heads = ["Method", "#Before", "#Now", "#Time", "#vs reference", "Change"];
    let rows = html! { @for method in &contest.methods { (row(method)) } };
    html! {
        h3 { (title) }
        (table(&title, &heads, None, &rows))
        @if let Some(reference) = &contest.reference { p.aside { "The reference is " (name(reference)) "." } }
        @if let Some([before, now]) = &contest.sustained {
            p { "Before: " (visible(before)) }
            p { "Now: " (visible(now)) }
        } @else {
            @for (word, [before, now]) in [("Recommended", &contest.recommended), ("Fastest", &contest.best)] {
                @let [before, now] = [before.as_ref(), now.as_ref()];
                p {
                    (word) ": "
                    @if before == now { "as before, " (decided(now)) } @else { "now " (decided(now)) ", before " (decided(before)) }
                }
            }
        }
        (only("Measured in the second run only", &contest.new))
        (only("Measured in the first run only", &contest.gone))
    }
}

fn row(method: &MethodChange) -> Markup {
    let [before, now] = method.bytes_per_second;
    let word = match method.change {
        Change::Faster => "faster",
        Change::Slower => "slower",
        Change::NoneShown => "inconclusive",
        Change::TooFewRounds => "too few rounds",
    };
    html! {
        tr {
            td { (name(&method.method)) }
            (figure(&rate(before), before))
            (figure(&rate(now), now))
            (ratio(Some(&method.time)))
            (ratio(method.beside_reference.as_ref()))
            td { (word) }
        }
    }
}

fn decided(method: Option<&String>) -> Markup {
    html! { @match method { Some(method) => (name(method)), None => "undecided" } }
}

fn name(method: &str) -> Markup {
    html! { span.m { (breaking(&visible(method))) } }
}

fn only(title: &str, methods: &[Availability]) -> Markup {
    html! {
        @if !methods.is_empty() {
            h4 { (title) }
            ul { @for one in methods { li { (name(&one.method)) ": " (visible(&one.why)) } } }
        }
    }
}
