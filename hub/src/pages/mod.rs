//! What people see. Pages are made of the index by pure functions ([`start`], [`storages`], [`texts`]); here is what answers the
//! requests. They have no script, and all texts come from strangers: maud escapes them, and addresses are percent-encoded.

mod start;
mod storages;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seekless_record::{Cache, Run, Target};
use seekless_report::parts::{Frame, STYLE, framed};
use seekless_report::{comparison_page, run_page};
use seekless_results::{DeviceKind, chosen_size, plural, state_words};
use serde::de::DeserializeOwned;
use utoipa::OpenApi;

use crate::api as wire;
use crate::app::App;
use crate::figure::{WORDS, Word};
use crate::index::{Basis, Filter, Index, Known};
use crate::problem::{self, Problem};
use crate::trends::{Class, Task};

/// The navigation of all pages.
const LINKS: [(&str, &str); 4] = [
    ("seekless hub", "/"),
    ("Runs", "/runs"),
    ("API", "/api"),
    ("About", "/about"),
];
const SITE: Frame<'_> = Frame::Site(&LINKS, "");
/// With fewer machines, a page says so.
const FEW: usize = 3;

type Shared = State<Arc<App>>;
type Page = Result<Html<String>, Failed>;

/// A page of an error.
pub struct Failed(Problem);

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, shown(self.0.title, &texts::problem(&self.0))).into_response()
    }
}

/// The query of a page's address, or the page of the problem with it.
pub struct Query<T>(T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let query = problem::Query::from_request_parts(parts, state).await?;
        Ok(Self(query.0))
    }
}

/// `/`: which methods win.
pub async fn start(State(app): Shared, Query(filter): Query<Filter>) -> Html<String> {
    let page = |index: &Index| shown("which methods win", &start::page(index, &filter));
    app.read(page).await
}

/// `/kinds/KIND`: the storages of a kind.
pub async fn kind(State(app): Shared, Path(kind): Path<String>, Query(filter): Query<Filter>) -> Page {
    let kind: DeviceKind = kind.parse().map_err(|_| Problem::missing("such kind of storage"))?;
    let page = |index: &Index| shown(&kind_words(kind.slug()), &storages::kind(index, kind, &filter));
    Ok(app.read(page).await)
}

/// `/devices/MODEL`: a model of a device.
pub async fn device(State(app): Shared, Path(model): Path<String>, Query(filter): Query<Filter>) -> Page {
    let page = |index: &Index| {
        let is_known = !model.is_empty() && index.values(Word::Model as usize).contains(model.as_str());
        is_known.then(|| shown(&model, &storages::device(index, &model, &filter)))
    };
    let page = app.read(page).await;
    Ok(page.ok_or_else(|| Problem::missing("such model of a device"))?)
}

/// `/runs`: the runs, the newest first.
pub async fn runs(State(app): Shared, Query(filter): Query<Filter>, Query(part): Query<wire::Part>) -> Html<String> {
    let page = |index: &Index| shown("runs", &storages::runs(index, &filter, part));
    app.read(page).await
}

/// `/runs/ID`: the report of a run.
pub async fn run(State(app): Shared, Path(id): Path<String>) -> Page {
    let document = format!("/api/v1/runs/{}", encoded(&id));
    let stored = app.store.run(&id).await.map_err(Problem::from)?;
    let marks = stored.map(|stored| stored.marks).filter(|marks| !marks.is_empty());
    let note = marks.map(|marks| format!("This run is kept apart from the figures of this hub: {marks}."));
    let page = move |runs: &[Run]| {
        let frame = Frame::Site(&LINKS, note.as_deref().unwrap_or_default());
        run_page(&runs[0], &document, frame).into_string()
    };
    Ok(Html(app.with_runs(&[id], page).await?))
}

/// `/compare?a=&b=`: what changed from one run to another; a form without them.
pub async fn comparison(State(app): Shared, Query(pair): Query<wire::Pair>) -> Page {
    if pair.a.is_empty() || pair.b.is_empty() {
        return Ok(shown("compare two runs", &texts::compare_form(&pair)));
    }
    let (comparison, objections) = app.comparison(&pair.a, &pair.b).await?;
    Ok(Html(comparison_page(&comparison, &objections, SITE).into_string()))
}

/// `/about`: what counts, what is kept apart, privacy, withdrawal.
pub async fn about() -> Html<String> {
    shown("about", &texts::about())
}

/// `/api`: the description of the API for people.
pub async fn api(State(app): Shared) -> Html<String> {
    let document = serde_json::to_value(wire::Api::openapi()).unwrap_or_default();
    shown("API", &texts::api(&document, &app.public_url))
}

/// The description of the API for programs.
pub async fn openapi() -> impl IntoResponse {
    axum::Json(wire::Api::openapi())
}

/// `/style.css`.
pub async fn style() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/css; charset=utf-8")],
        format!("{STYLE}{}", include_str!("style.css")),
    )
}

/// `/icon.svg`: what browsers show beside the title.
pub async fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml")], include_str!("icon.svg"))
}

/// Any other address.
pub async fn missing() -> Failed {
    Failed(Problem::missing("such page"))
}

fn shown(title: &str, body: &Markup) -> Html<String> {
    Html(framed(title, body, SITE).into_string())
}

/// A text as a part of an address.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of a page with the filter.
fn address(path: &str, filter: &Filter) -> String {
    let words = WORDS.iter().zip(&filter.words);
    let words = words.filter_map(|((name, _), value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
    let words: Vec<String> = words.collect();
    let mark = if words.is_empty() { "" } else { "?" };
    format!("{path}{mark}{}", words.join("&"))
}

/// What a figure rests on, in words; of few machines, it says so.
fn rests_on(basis: &Basis) -> String {
    let only = if basis.machines < FEW { "only " } else { "" };
    format!(
        "{only}{}, {}",
        plural(basis.machines as u64, "machine", "machines"),
        plural(basis.sittings as u64, "sitting", "sittings")
    )
}

/// The revisions of a figure, in words.
fn revisions(basis: &Basis) -> String {
    let revisions: Vec<&str> = basis.revisions.iter().map(String::as_str).collect();
    format!("revision {}", revisions.join(" and "))
}

/// A word of a document as the value that it is.
fn parsed<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// A task in words; its target, durability and work only if another of the same operation and cache state differs there, and its kind if
/// there are several.
fn title<'a>(task: Task<'_>, all: impl Iterator<Item = Task<'a>>) -> String {
    let rest = |task: Task<'_>| {
        let [target, durability, work] = [Word::Target, Word::Durability, Word::Work].map(|word| task[word].clone());
        [kind_words(&task[Word::Kind]), target, durability, work]
    };
    let mut differs = [false; 4];
    for other in all {
        let is_alike = other.0[..=Word::Cache as usize] == task.0[..=Word::Cache as usize];
        differs[0] |= other[Word::Kind] != task[Word::Kind];
        let words = rest(task)
            .into_iter()
            .zip(rest(other))
            .map(|(one, other)| is_alike && one != other);
        differs
            .iter_mut()
            .zip(words)
            .for_each(|(differs, of_other)| *differs |= of_other);
    }
    let cache = &task[Word::Cache];
    let state = parsed::<Cache>(cache).zip(parsed::<Target>(&task[Word::Target]));
    let state = state.map_or(cache.as_str(), |(cache, target)| state_words(cache, target));
    let told = rest(task).into_iter().zip(differs);
    let told = told
        .filter(|(word, differs)| *differs && !state.contains(word.as_str()))
        .map(|(word, _)| word);
    let words = [task[Word::Operation].clone(), state.to_owned()]
        .into_iter()
        .chain(told);
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// A method without its operation.
fn short(method: &str) -> &str {
    method.split_once('/').map_or(method, |(_, name)| name)
}

/// A class of sizes in words.
fn class(above_bytes: u64, up_to_bytes: u64) -> String {
    if up_to_bytes == u64::MAX {
        format!("over {}", chosen_size(above_bytes))
    } else {
        format!("to {}", chosen_size(up_to_bytes))
    }
}

/// The class of a colour for a part of 0 to 1.
fn colour(part: f64) -> String {
    format!("heat q{:.0}", (part * 8.0).floor().clamp(0.0, 7.0))
}

/// The kind of storage in words.
fn kind_words(slug: &str) -> String {
    match slug.parse() {
        Ok(DeviceKind::Nvme) => "NVMe".to_owned(),
        Ok(kind) => kind.to_string(),
        Err(_) => slug.to_owned(),
    }
}

/// A table of tasks by classes of sizes, which has at most so many rows.
fn heat<T>(
    caption: &str,
    cells: &[T],
    most: usize,
    class_of: impl Fn(&T) -> Class<'_>,
    cell: impl Fn(&T) -> Markup,
) -> Markup {
    let mut tasks: BTreeMap<Task<'_>, Vec<&T>> = BTreeMap::new();
    let mut columns = BTreeSet::new();
    for cell in cells {
        let of = class_of(cell);
        tasks.entry(of.task).or_default().push(cell);
        columns.insert((of.above_bytes, of.up_to_bytes));
    }
    html! {
        div.scroll { table.heat {
            caption { (caption) }
            thead { tr { th scope="col" { "files" } @for (above, up_to) in &columns { th scope="col" { (class(*above, *up_to)) } } } }
            tbody {
                @for (task, cells) in tasks.iter().take(most) {
                    tr {
                        th scope="row" { (title(*task, tasks.keys().copied())) }
                        @for (above, _) in &columns {
                            @match cells.iter().find(|cell| class_of(cell).above_bytes == *above) {
                                Some(of) => (cell(of)),
                                None => td.none { "·" },
                            }
                        }
                    }
                }
            }
        } }
    }
}

/// A form that asks for another filter; a fixed word is in the path.
fn form(action: &str, index: &Index, filter: &Filter, fixed: Option<Word>) -> Markup {
    let asked = |word: &usize| *word != Word::Work as usize && fixed.is_none_or(|fixed| fixed as usize != *word);
    html! {
        form.filter action=(action) method="get" {
            @for at in (0..WORDS.len()).filter(asked) {
                @let (name, chosen, values) = (WORDS[at].0, filter.words[at].as_deref(), index.values(at));
                @if values.len() > 1 || chosen.is_some() {
                    label {
                        (name.replace('_', " "))
                        select name=(name) {
                            option value="" { (if name == "revision" { "newest" } else { "any" }) }
                            @for value in values.into_iter().filter(|value| !value.is_empty()).take(200) {
                                option value=(value) selected[chosen == Some(value)] { (if name == "kind" { kind_words(value) } else { value.to_owned() }) }
                            }
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

/// What is said where no run counts: why, and what to do.
fn nothing(index: &Index, filter: &Filter) -> Markup {
    let apart: Vec<&Known> = index.runs_of(filter).filter(|run| !run.counts()).collect();
    let reasons: BTreeSet<&str> = apart.iter().flat_map(|run| run.stored.marks.split(", ")).collect();
    html! {
        p.warnings {
            @if index.runs().next().is_none() {
                "No run was shared yet. " code { "seekless-hub share" } " sends one."
            } @else {
                "No run that counts fits this."
                @if !apart.is_empty() {
                    " Kept apart: " a href=(address("/runs", filter)) { (plural(apart.len() as u64, "run", "runs")) }
                    " (" (reasons.into_iter().collect::<Vec<_>>().join(", ")) "). " a href="/about#apart" { "Why" } "."
                }
            }
        }
    }
}

/// A list of runs.
fn list(index: &Index, runs: &[&Known]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Runs" }
            thead { tr { th scope="col" { "measured" } th scope="col" { "storage" } th scope="col" { "kept apart, because" } th scope="col" { "ID" } } }
            tbody {
                @for run in runs {
                    @let kinds: Vec<String> = index.kinds_of(run).into_iter().map(kind_words).collect();
                    tr {
                        td { (run.stored.day) }
                        td { a href={"/runs/" (encoded(&run.stored.id))} { @if kinds.is_empty() { "unknown" } @else { (kinds.join("; ")) } } }
                        td { (run.stored.marks) }
                        td.m { (run.stored.id) }
                    }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests;
