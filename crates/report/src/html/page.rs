//! The page around the plots: the policy that nothing is loaded, the head with the machine, the recommendations, the
//! notes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use seekless_record::{Published, Run, Storage};
use seekless_results::{ContestRegret, ContestView, View, operations, storage_setup, storage_words};
use sha2::{Digest, Sha256};

use super::labels::{breaking, heading};
use super::tables::list;
use super::{across, columns, contest, heatmap};

/// The style of all pages, also of those of a site.
pub const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// With more contests, the recommendations are only methods, and the sentences are with the contests.
const MOST_SENTENCES: usize = 12;
/// More than any experiment gives.
const MOST_SOURCES: usize = 20;

/// The page, with the link to the document of its run.
pub(super) fn page(
    view: &View<'_>,
    link: &Markup,
    left_out: usize,
    regrets: &[ContestRegret],
    frame: Frame<'_>,
) -> Markup {
    let run = view.run;
    let body = html! {
        a.skip href="#recommendations" { "To the recommendations" }
        (head(view))
        main {
            (recommendations(view))
            (notes(run, left_out))
            (heatmap::by_regret(run, regrets))
            @if has_ranked(view) { (across::across(view)) }
            (columns::columns(view))
            @for operation in operations(view.run) { (contest::operation(view, operation)) }
            (about(view))
            section id="run" { h2 { "The run itself" } (link) }
        }
    };
    framed(&run.id, &body, frame)
}

/// What stands around the body of a page.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// The page stands alone: its style and script are inside, and its policy is that nothing else is loaded.
    Alone,
    /// The page is one of a site that has no scripts: [`STYLE`] is part of `/style.css`, and its server sends the policy. The
    /// navigation at the top is of these names and addresses. Below it stands a note, unless that is empty.
    Site(&'a [(&'a str, &'a str)], &'a str),
}

/// A page around a body.
#[must_use]
pub fn framed(title: &str, body: &Markup, frame: Frame<'_>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if let Frame::Alone = frame { meta http-equiv="Content-Security-Policy" content=(policy()); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="seekless";
                title { "seekless " (title) }
                @match frame {
                    Frame::Alone => style { (PreEscaped(STYLE)) },
                    Frame::Site(..) => {
                        link rel="stylesheet" href="/style.css";
                        link rel="icon" href="/icon.svg";
                    },
                }
            }
            body {
                @if let Frame::Site(links, note) = frame {
                    nav.site aria-label="Site" { @for (name, address) in links { a href=(address) { (name) } } }
                    @if !note.is_empty() { div.note { p.warnings { (note) } } }
                }
                (body)
                @if let Frame::Alone = frame { script { (PreEscaped(SCRIPT)) } }
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
                @if has_ranked(view) { a href="#across" { "Across" } }
                @if !view.columns.is_empty() { a href="#columns" { "By size" } }
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
    html! {
        @if !view.storages.is_empty() { section id="storages" { (list("Which storage is faster", &view.storages)) } }
        section.recommendations id="recommendations" {
            h2 { "Use" }
            @if !view.contests.iter().any(|contest| contest.answer.is_some()) {
                p { "Nothing was decided: the run ended before there was a valid trial." }
            }
            @for operation in operations(view.run) {
                @let mut cards = view.contests_of(operation).filter_map(|contest| card(contest, with_sentence)).peekable();
                @if cards.peek().is_some() {
                    h3 { (heading(operation.name())) }
                    ul.cards.brief[!with_sentence] { @for card in cards { (card) } }
                }
            }
        }
    }
}

/// The answer of a contest: the method, its rate, and how sure that is; its sentence where there is room.
fn card(contest: &ContestView<'_>, with_sentence: bool) -> Option<Markup> {
    let answer = contest.answer.as_ref()?;
    let sentence = contest.contest.conclusion.as_ref().filter(|_| with_sentence);
    Some(html! {
        li.card.open[!answer.is_decided && contest.sustained.is_none()] {
            a.task href={"#contest-" (contest.index)} { (contest.title) }
            @if let Some(certainty) = &answer.certainty {
                p.use {
                    span.m { (breaking(&answer.method)) }
                    @if let Some((_, rate)) = answer.figures.first() { span.at { (rate) } }
                }
                p.sentence {
                    (heading(&certainty.to_string())) ", " (answer.rests_on) ". "
                    @if let Some(conclusion) = sentence { (conclusion.sentence) }
                    @if let Some(single_use) = &answer.single_use { " " (heading(&single_use.to_string())) "." }
                }
            } @else {
                p.sentence { (answer.method) }
            }
        }
    })
}

/// Whether there are other contests than sustained writes, which have no best method.
fn has_ranked(view: &View<'_>) -> bool {
    view.contests.is_empty() || view.contests.iter().any(|contest| contest.sustained.is_none())
}

fn notes(run: &Run, left_out: usize) -> Markup {
    let source = |source: &Published| format!("{}. {}", source.machine, source.source);
    let sources: Vec<String> = run.published.iter().take(MOST_SOURCES).map(source).collect();
    html! {
        section id="notes" {
            @if !run.warnings.is_empty() {
                h2 { "Caveats" }
                ul.warnings { @for warning in &run.warnings { li { (warning) } } }
            }
            @if left_out > 0 {
                p.warnings { (left_out) " more contests are not shown; the saved run has them." }
            }
            (list("Chosen for you", &run.choices))
            (list("Sources of published figures", &sources))
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
                 contains the median with a probability of 95 %; with fewer than 6 rounds, only the range is shown. Beside a \
                 published figure stands the same method here, with its best block, compared with the best of its kind."
            }
        }
    }
}

/// What the line about a storage leaves out.
fn storage_facts(storage: &Storage) -> Markup {
    html! {
        h3 { "Storage " span.m { (storage.path) } }
        dl {
            (fact("Block size", storage.block_bytes.map(seekless_results::chosen_size)))
            @for (name, value) in storage_setup(storage) { (fact(&heading(name), value)) }
            @for (name, value) in &storage.facts { (fact(name, Some(value))) }
        }
    }
}

/// A fact, if it is known.
fn fact(name: &str, value: Option<impl Render>) -> Markup {
    html! { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
}
