//! What people see. Pages are made of the index by pure functions ([`start`], [`storages`], [`texts`]); here is what answers the
//! requests. They have no script, and all texts come from strangers: maud escapes them, and addresses are percent-encoded.

mod start;
mod storages;
mod texts;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seekless_record::{Cache, Target};
use seekless_report::parts::{Frame, STYLE, framed};
use seekless_report::{comparison_page, run_page};
use seekless_results::{DeviceKind, chosen_size, compare, objections, plural, state_words};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;
use utoipa::OpenApi;

use crate::accept::words;
use crate::api::{self as wire, App};
use crate::index::{Basis, Filter, Index, Known};
use crate::problem::Problem;
use crate::trends::Task;

/// The navigation of all pages.
const SITE: Frame<'_> = Frame::Site(&[
    ("seekless hub", "/"),
    ("Runs", "/runs"),
    ("API", "/api"),
    ("About", "/about"),
]);
/// With fewer machines, a page says so.
const FEW: usize = 3;
/// Runs in a list.
const RUNS: usize = 50;

type Shared = State<Arc<App>>;
type Page = Result<Html<String>, Response>;

/// `/`: which methods win.
pub async fn start(State(app): Shared, Query(filter): Query<Filter>) -> Html<String> {
    shown(
        "which methods win",
        &start::page(&*app.index.read().await, &asked(&filter)),
    )
}

/// `/kinds/KIND`: the storages of a kind.
pub async fn kind(State(app): Shared, Path(kind): Path<String>, Query(filter): Query<Filter>) -> Page {
    let kind: DeviceKind = kind
        .parse()
        .map_err(|_| problem(&Problem::missing("such kind of storage")))?;
    let filter = Filter {
        kind: Some(kind.slug().to_owned()),
        ..asked(&filter)
    };
    Ok(shown(
        &kind_words(kind.slug()),
        &storages::kind(&*app.index.read().await, kind, &filter),
    ))
}

/// `/devices/MODEL`: a model of a device.
pub async fn device(State(app): Shared, Path(model): Path<String>, Query(filter): Query<Filter>) -> Page {
    let index = app.index.read().await;
    if model.is_empty() || !index.values()[1].contains(&model) {
        return Err(problem(&Problem::missing("such model of a device")));
    }
    let filter = Filter {
        model: Some(model.clone()),
        ..asked(&filter)
    };
    Ok(shown(&model, &storages::device(&index, &model, &filter)))
}

/// `/runs`: the runs, the newest first.
pub async fn runs(State(app): Shared, Query(filter): Query<Filter>, Query(part): Query<wire::Part>) -> Html<String> {
    shown(
        "runs",
        &storages::runs(&*app.index.read().await, &asked(&filter), part.before),
    )
}

/// `/runs/ID`: the report of a run.
pub async fn run(State(app): Shared, Path(id): Path<String>) -> Page {
    let run = wire::run(&app, &id).await.map_err(|error| problem(&error))?;
    let document = format!("/api/v1/runs/{}", encoded(&id));
    let page = spawn_blocking(move || run_page(&run, &document, SITE).into_string()).await;
    page.map(Html).map_err(|error| problem(&error.into()))
}

/// `/compare?a=&b=`: what changed from one run to another; a form without them.
pub async fn comparison(State(app): Shared, Query(pair): Query<Asked>) -> Page {
    let Some((a, b)) = pair
        .a
        .as_deref()
        .zip(pair.b.as_deref())
        .filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        return Ok(shown("compare two runs", &texts::compare_form(&pair)));
    };
    let run = async |id| wire::run(&app, id).await.map_err(|error| problem(&error));
    let (a, b) = (run(a).await?, run(b).await?);
    let page = spawn_blocking(move || {
        let comparison = compare(&a, &b)?;
        Ok(comparison_page(&comparison, &objections(&a, &b), SITE).into_string())
    });
    let refused =
        |error: seekless_results::NotComparable| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    let page = page.await.map_err(|error| problem(&error.into()))?;
    page.map(Html).map_err(|error| problem(&refused(error)))
}

/// Two runs to compare, perhaps not named yet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    a: Option<String>,
    b: Option<String>,
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

/// Any other address.
pub async fn missing() -> Response {
    problem(&Problem::missing("such page"))
}

fn shown(title: &str, body: &Markup) -> Html<String> {
    Html(framed(title, body, SITE).into_string())
}

/// The page of an error.
fn problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, shown(problem.title, &texts::problem(problem))).into_response()
}

/// A filter without what a form left empty.
fn asked(filter: &Filter) -> Filter {
    let mut value = serde_json::json!(filter);
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| value.as_str() != Some(""));
    }
    serde_json::from_value(value).unwrap_or_default()
}

/// A text as a part of an address.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of a page with the filter.
fn address(path: &str, filter: &Filter) -> String {
    let words = filter
        .words()
        .into_iter()
        .filter_map(|(name, value)| Some((name, encoded(value?))));
    let words: Vec<String> = words.map(|(name, value)| format!("{name}={value}")).collect();
    if words.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", words.join("&"))
    }
}

/// What a figure rests on, in words.
fn rests_on(basis: &Basis) -> String {
    let count = |number: usize, one: &str, several: &str| plural(number as u64, one, several);
    let few = if basis.machines < FEW {
        " (fewer than three: no trend)"
    } else {
        ""
    };
    let revisions: Vec<&str> = basis.revisions.iter().map(String::as_str).collect();
    format!(
        "{}{few}, {}, {}, revision {}",
        count(basis.machines, "machine", "machines"),
        count(basis.sittings, "sitting", "sittings"),
        count(basis.runs, "run", "runs"),
        revisions.join(" and ")
    )
}

/// A word of a document as the value that it is.
fn parsed<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// A task in words; its target, durability and work only if another of the same operation and cache state differs there, and its kind if
/// there are several.
fn title<'a>(task: &Task, all: impl Iterator<Item = &'a Task>) -> String {
    let rest = |task: &Task| {
        [
            kind_words(&task.kind),
            task.target.clone(),
            task.durability.clone(),
            task.work.clone(),
        ]
    };
    let mut differs = [false; 4];
    for other in all {
        let is_alike = (&other.kind, &other.operation, &other.cache) == (&task.kind, &task.operation, &task.cache);
        differs[0] |= other.kind != task.kind;
        for (differs, (one, other)) in differs
            .iter_mut()
            .zip(rest(task).iter().zip(rest(other)))
            .filter(|_| is_alike)
        {
            *differs |= *one != other;
        }
    }
    let state = parsed::<Cache>(&task.cache).zip(parsed::<Target>(&task.target));
    let state = state.map_or(task.cache.as_str(), |(cache, target)| state_words(cache, target));
    let told = rest(task)
        .into_iter()
        .zip(differs)
        .filter(|(word, differs)| *differs && !state.contains(word.as_str()));
    let words = [task.operation.clone(), state.to_owned()]
        .into_iter()
        .chain(told.map(|(word, _)| word));
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

/// A form that asks for another filter; `fixed` words are in the path.
fn form(action: &str, index: &Index, filter: &Filter, fixed: &str) -> Markup {
    let words = filter.words().into_iter().zip(index.values());
    html! {
        form.filter action=(action) method="get" {
            @for ((name, chosen), values) in words {
                @if name != fixed && name != "work" && (values.len() > 1 || chosen.is_some()) {
                    label {
                        (name.replace('_', " "))
                        select name=(name) {
                            option value="" { (if name == "revision" { "newest" } else { "any" }) }
                            @for value in values.iter().filter(|value| !value.is_empty()).take(200) {
                                option value=(value) selected[chosen == Some(value)] { (if name == "kind" { kind_words(value) } else { value.clone() }) }
                            }
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

/// A list of runs.
fn list(index: &Index, runs: &[&Known]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Runs" }
            thead { tr { th scope="col" { "measured" } th scope="col" { "run" } th scope="col" { "storage" } th scope="col" { "kept apart, because" } } }
            tbody {
                @for run in runs {
                    tr {
                        td { (run.stored.day) }
                        td.m { a href={"/runs/" (encoded(&run.stored.id))} { (run.stored.id) } }
                        td { (index.kinds_of(run).into_iter().map(kind_words).collect::<Vec<_>>().join("; ")) }
                        td { (words(&run.stored.marks)) }
                    }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests;
