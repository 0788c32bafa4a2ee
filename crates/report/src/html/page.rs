//! The page around the plots: the policy that nothing is loaded, the head with the machine, the recommendations, the
//! notes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use seekless_method::format_size;
use seekless_record::{Run, Storage};
use seekless_results::{ContestView, View, operations, rate_of, short_name, storage_setup, storage_words};
use sha2::{Digest, Sha256};

use super::words::{breaking, heading};
use super::{answers, columns, contest, published};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// With more contests, the recommendations are only methods, and the sentences are with the contests.
const MOST_SENTENCES: usize = 12;

/// The page, with the link to the document of its run.
pub(super) fn page(view: &View<'_>, link: &Markup, left_out: usize) -> Markup {
    let run = view.run;
    let body = html! {
        a.skip href="#recommendations" { "To the recommendations" }
        (head(view))
        main {
            (recommendations(view))
            (notes(run, left_out))
            @if has_answers(view) { (answers::answers(view)) }
            (columns::columns(view))
            (published::sources(view))
            @for operation in operations(view.run) { (contest::operation(view, operation)) }
            (about(view))
            section id="run" { h2 { "The run itself" } (link) }
        }
    };
    framed(&run.id, &body)
}

/// A page around a body: what it may load, its style and its script.
pub(super) fn framed(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="seekless";
                title { "seekless " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The content security policy: the page loads nothing. Only this style and this script are allowed, by their hashes,
/// so that injected text cannot run.
fn policy() -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

fn head(view: &View<'_>) -> Markup {
    let run = view.run;
    let first = run.storages.first();
    let title = first.map_or_else(|| "No storage".to_owned(), storage_words);
    let more = run.storages.len().saturating_sub(1);
    html! {
        header {
            p.brand { "seekless" span { "storage report" } }
            h1 { (title) @if more > 0 { " and " (more) " more" } }
            @for (about, line) in view.facts.iter().filter(|(about, _)| matches!(*about, "Machine" | "Processor" | "Run")) {
                p.facts { (about) ": " (line) }
            }
            @if let Some(sittings) = &view.sittings { p.facts { (sittings) } }
            nav aria-label="Parts of this page" {
                a href="#recommendations" { "Use" }
                @if has_answers(view) { a href="#answers" { "Answers" } }
                @if !view.columns.is_empty() { a href="#columns" { "By size" } }
                @if !run.published.is_empty() { a href="#published" { "Published" } }
                @for operation in operations(view.run) {
                    a href={"#op-" (operation.name())} { (heading(operation.name())) }
                }
                a href="#about" { "Machine" }
                a href="#run" { "Save the run" }
            }
        }
    }
}

fn recommendations(view: &View<'_>) -> Markup {
    let with_sentence = view.contests.len() <= MOST_SENTENCES;
    let is_told = |contest: &&ContestView<'_>| contest.contest.conclusion.is_some();
    html! {
        @if !view.storages.is_empty() {
            section id="storages" {
                h2 { "Which storage is faster" }
                ul { @for answer in &view.storages { li { (answer) } } }
            }
        }
        section.recommendations id="recommendations" {
            h2 { "Use" }
            @if !view.contests.iter().any(|contest| is_told(&contest)) { p { "Nothing was decided: the run ended before there was a valid trial." } }
            @for operation in operations(view.run) {
                @let of_operation: Vec<&ContestView<'_>> = view.contests_of(operation).filter(is_told).collect();
                @if !of_operation.is_empty() {
                    h3 { (heading(operation.name())) }
                    ul.cards.brief[!with_sentence] {
                        @for contest in of_operation { (card(contest, with_sentence)) }
                    }
                }
            }
        }
    }
}

fn card(contest: &ContestView<'_>, with_sentence: bool) -> Markup {
    let conclusion = contest.contest.conclusion.as_ref();
    let recommended = contest.recommended();
    let leader = conclusion.and_then(|conclusion| conclusion.best.as_deref());
    let at = recommended.and_then(|method| rate_of(contest.entry(method)?));
    let is_open = recommended.is_none() && contest.sustained.is_none();
    html! {
        li.card.open[is_open] {
            a.task href={"#contest-" (contest.index)} { (contest.title) }
            p.use {
                @match recommended {
                    Some(method) => { span.m { (breaking(method)) } },
                    None if contest.sustained.is_some() => { "How long the rate lasts" },
                    None => {
                        @if leader.is_none() { "Nothing measured yet" } @else { "Undecided" }
                        @if let Some(leader) = leader { span.leader { span.m { (breaking(&short_name(leader, contest.contest))) } " leads" } }
                    },
                }
                @if let Some(at) = at { span.at { (contest.speed(at)) } }
            }
            @if with_sentence { @if let Some(conclusion) = conclusion { p.sentence { (conclusion.sentence) } } }
        }
    }
}

/// Whether there are other contests than sustained writes, which have no best method.
fn has_answers(view: &View<'_>) -> bool {
    view.contests.is_empty() || view.contests.iter().any(|contest| contest.sustained.is_none())
}

fn notes(run: &Run, left_out: usize) -> Markup {
    html! {
        section id="notes" {
            @if !run.warnings.is_empty() {
                h2 { "Caveats" }
                ul.warnings { @for warning in &run.warnings { li { (warning) } } }
            }
            @if left_out > 0 {
                p.warnings { (left_out) " more contests are not shown; the run saved in this page has them." }
            }
            @if !run.choices.is_empty() {
                h3 { "Chosen for you" }
                ul { @for choice in &run.choices { li { (choice) } } }
            }
        }
    }
}

fn about(view: &View<'_>) -> Markup {
    html! {
        section id="about" {
            h2 { "Machine and storage" }
            dl {
                @for (about, line) in &view.facts { (fact(about, Some(line))) }
                (fact("ID", Some(&view.run.id)))
            }
            @for storage in &view.run.storages { (storage_facts(storage)) }
            h3 { "How to read this" }
            p {
                "Rates are medians in units of 1000 bytes. Seconds run from open to close, fsync included. Verdicts \
                 compare methods within rounds, so a slowdown of a whole round cancels. A tie is not shown to be more \
                 than 3 % slower than the best. The method to use is the simplest of those known to be within 5 % of \
                 the best; if there is none, the one with the smallest bound, if that is at most 10 %. An interval \
                 contains the median with a probability of 95 %; with fewer than 6 rounds, only the range is shown."
            }
        }
    }
}

/// What the line about a storage leaves out.
fn storage_facts(storage: &Storage) -> Markup {
    html! {
        h3 { "Storage " span.m { (storage.path) } }
        dl {
            (fact("Block size", storage.block_bytes.map(format_size)))
            @for (name, value) in storage_setup(storage) { (fact(&heading(name), value)) }
            @for (name, value) in &storage.facts { (fact(name, Some(value))) }
        }
    }
}

/// A fact, if it is known.
fn fact(name: &str, value: Option<impl Render>) -> Markup {
    html! { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
}
