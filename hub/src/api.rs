//! The API: `/api/v1`.

#![allow(unused_qualifications, reason = "the description of a parameter repeats its path")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seekless_record::Run;
use seekless_results::DeviceKind;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::{IntoParams, OpenApi, ToSchema};

use crate::accept::{MAX_BYTES, accept};
use crate::app::App;
use crate::figure::Word;
use crate::gzip::decompressed;
use crate::index::{Filter, Index, Known};
use crate::machines::{digest_of_kind, digest_of_machine};
use crate::problem::{Problem, Query};
use crate::receipt::{Receipt, WITHDRAWAL, hidden, is_hex};
use crate::store::Added;
use crate::trends::{Cell, cells};

type Answer<T> = Result<T, Problem>;

/// A run in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunEntry {
    /// The digest of the run.
    pub id: String,
    /// The day on which it was measured.
    pub day: String,
    /// Whether it counts.
    pub counted: bool,
    /// Why not.
    pub marks: Vec<String>,
    /// The storages it was measured on, by kind.
    pub kinds: Vec<String>,
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunPage {
    /// The newest first.
    pub runs: Vec<RunEntry>,
    /// To be given as `before` for the next page; missing on the last one.
    pub next: Option<i64>,
}

/// Which part of a list.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct Part {
    /// What `next` said of the page before.
    pub before: Option<i64>,
    /// How many; at most 200.
    pub limit: usize,
}

impl Part {
    /// This part of runs, and where the next one begins.
    pub fn of<'a>(self, runs: impl Iterator<Item = &'a Known>) -> (Vec<&'a Known>, Option<i64>) {
        let before = self.before.unwrap_or(i64::MAX);
        let mut found = runs.filter(|run| run.stored.sequence < before);
        let runs: Vec<_> = found.by_ref().take(self.limit.clamp(1, 200)).collect();
        let last = runs.last().map(|run| run.stored.sequence);
        let next = last.filter(|_| found.next().is_some());
        (runs, next)
    }
}

impl Default for Part {
    fn default() -> Self {
        Self {
            before: None,
            limit: 50,
        }
    }
}

/// Two runs; a form names none yet.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct Pair {
    /// The earlier one.
    pub a: String,
    /// The later one.
    pub b: String,
}

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "seekless hub",
        description = "Results of file I/O measured by seekless, of many machines."
    ),
    paths(
        post_run,
        withdraw_run,
        get_run,
        list_runs,
        get_comparison,
        get_table,
        get_profile,
        crate::dump::json_lines,
        crate::dump::parquet
    ),
    components(schemas(Problem))
)]
pub struct Api;

/// Send a run: the document that `seekless runs export --anonymous` writes, plain or compressed by gzip. Sending it twice is once.
#[utoipa::path(post, path = "/api/v1/runs", request_body(content = String, content_type = "application/json"), params(
    ("Seekless-Withdrawal" = Option<String>, Header, description = "BLAKE3 of a secret by which you may withdraw the run, in hexadecimal digits")
), responses(
    (status = 201, description = "It is stored", body = Receipt),
    (status = 200, description = "It was there already", body = Receipt),
    (status = 403, description = "Runs of this machine are refused", body = Problem),
    (status = 413, description = "It is too large", body = Problem),
    (status = 422, description = "It is not a run, or not anonymous; the detail says why", body = Problem),
))]
pub async fn post_run(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Answer<Response> {
    let secret = headers
        .get(WITHDRAWAL)
        .map_or("", |value| value.to_str().unwrap_or("?"));
    if !secret.is_empty() && !is_hex(secret, 64) {
        let detail = "Seekless-Withdrawal is not the BLAKE3 of a secret in 64 hexadecimal digits";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let is_plain = match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => true,
        Some(b"gzip") => false,
        Some(_) => {
            let detail = "a run is sent plain or compressed by gzip";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
    };
    let known = app.known;
    let checked = move |sent: Vec<u8>| {
        let damaged = |_| Problem::new(StatusCode::BAD_REQUEST, "the compressed run is damaged");
        let document = if is_plain {
            sent
        } else {
            decompressed(&sent, MAX_BYTES).map_err(damaged)?
        };
        if document.len() > MAX_BYTES {
            return Err(Problem::too_large(MAX_BYTES));
        }
        Ok(accept(&document, &known)?)
    };
    let accepted = app.with_sent(body, checked).await??;
    let (status, kept, marks) = match app.store.add(&accepted, secret, now(), true).await? {
        Added::New(marks) => (StatusCode::CREATED, secret.to_owned(), marks),
        Added::Known(marks, kept) => (StatusCode::OK, kept, marks),
        Added::Banned => return Err(Problem::new(StatusCode::FORBIDDEN, "runs of this machine are refused")),
    };
    app.follow().await?;
    let receipt = Receipt {
        url: format!("{}/runs/{}", app.public_url, accepted.id),
        id: accepted.id,
        withdrawable: !kept.is_empty() && kept == secret,
        counted: marks.is_empty(),
        marks: listed(&marks),
    };
    Ok((status, Json(receipt)).into_response())
}

/// Withdraw a run by the secret whose digest was sent with it.
#[utoipa::path(delete, path = "/api/v1/runs/{id}", params(("id" = String, Path, description = "The run"),
    ("Authorization" = String, Header, description = "`Bearer SECRET`")), responses(
    (status = 204, description = "It is removed"),
    (status = 403, description = "The secret is another", body = Problem),
    (status = 404, description = "There is no such run", body = Problem),
))]
pub async fn withdraw_run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    let stored = app.store.run(&id).await?.ok_or_else(|| Problem::missing("such run"))?;
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    // Digests are compared, so the time tells nothing of the secret.
    if given.is_none_or(|given| hidden(given.trim()) != stored.secret) {
        let detail =
            "withdrawing a run needs the secret whose digest was sent with it, as `Authorization: Bearer SECRET`";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    app.store.remove(&id).await?;
    app.follow().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The document of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "The run, as the command imports it", content_type = "application/json", body = String),
    (status = 404, description = "There is no such run", body = Problem),
))]
pub async fn get_run(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<Response> {
    let document = app.document(&id).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}

/// Search runs, the newest first.
#[utoipa::path(get, path = "/api/v1/runs", params(Filter, Part), responses((status = 200, body = RunPage)))]
pub async fn list_runs(
    State(app): State<Arc<App>>,
    Query(filter): Query<Filter>,
    Query(part): Query<Part>,
) -> Json<RunPage> {
    let entry = |index: &Index, run: &Known| RunEntry {
        id: run.stored.id.clone(),
        day: run.stored.day.clone(),
        counted: run.counts(),
        marks: listed(&run.stored.marks),
        kinds: index.kinds_of(run).into_iter().map(str::to_owned).collect(),
    };
    let page = app.read(|index| {
        let (runs, next) = part.of(index.runs_of(&filter));
        let runs = runs.into_iter().map(|run| entry(index, run)).collect();
        RunPage { runs, next }
    });
    Json(page.await)
}

/// What changed from one run to another.
#[utoipa::path(get, path = "/api/v1/compare", params(Pair), responses(
    (status = 200, description = "The comparison, as the command writes it", content_type = "application/json", body = String),
    (status = 404, description = "There is no such run", body = Problem),
    (status = 422, description = "They have no contest in common", body = Problem),
))]
pub async fn get_comparison(State(app): State<Arc<App>>, Query(pair): Query<Pair>) -> Answer<Response> {
    let (comparison, objections) = app.comparison(&pair.a, &pair.b).await?;
    let value =
        serde_json::json!({ "first": pair.a, "second": pair.b, "objections": objections, "comparison": comparison });
    Ok(Json(value).into_response())
}

/// Which methods win: for each task and class of sizes, the methods over all machines, the best first.
#[utoipa::path(get, path = "/api/v1/table", params(Filter), responses((status = 200, description = "The rankings", body = Vec<Cell<'static>>)))]
pub async fn get_table(State(app): State<Arc<App>>, Query(filter): Query<Filter>) -> Response {
    app.read(|index| Json(cells(index, &filter)).into_response()).await
}

/// A profile of a kind of storage runs over at most so many machines, the newest ones, and so many runs of each.
const MOST_MACHINES: usize = 48;
const MOST_RUNS_OF_MACHINE: usize = 3;

/// The profile of a kind of storage, over all machines that measured one: for `seekless profile import`.
#[utoipa::path(get, path = "/api/v1/profiles/{kind}", params(("kind" = String, Path, description = "The kind, as in `nvme`"), Filter), responses(
    (status = 200, description = "Lines of JSON", content_type = "application/x-ndjson", body = String),
    (status = 404, description = "No machine has measured one", body = Problem),
))]
pub async fn get_profile(
    State(app): State<Arc<App>>,
    Path(kind): Path<String>,
    Query(filter): Query<Filter>,
) -> Answer<Response> {
    let parsed: DeviceKind = kind.parse().map_err(|_| Problem::missing("such kind of storage"))?;
    let filter = filter.with(Word::Kind, Some(&kind));
    let (file_system, wanted) = app.read(|index| to_digest(index, &filter)).await;
    let mut machines = Vec::new();
    for ids in wanted {
        let file_system = file_system.clone();
        let digest = move |runs: &[Run]| digest_of_machine(parsed, &file_system, runs);
        machines.push(app.with_runs(&ids, digest).await?);
    }
    let text = spawn_blocking(move || digest_of_kind(parsed, machines)?.to_text().ok()).await?;
    let text = text.ok_or_else(|| Problem::missing("profile of this kind: no machine has measured one"))?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
}

/// The file system that is asked for, or that most machines have, and the runs of each machine that a profile is made of.
fn to_digest(index: &Index, filter: &Filter) -> (String, Vec<Vec<String>>) {
    let mut machines: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for place in index.places_of(filter) {
        let seen = index.seen_at(place).flat_map(|(_, seen)| seen);
        let machines = machines.entry(&place[Word::FileSystem]).or_default();
        machines.extend(seen.map(|seen| seen.machine));
    }
    let most = machines.into_iter().rev().max_by_key(|(_, machines)| machines.len());
    let file_system = most.map_or("", |(file_system, _)| file_system);
    let mut wanted: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let filter = filter.with(Word::FileSystem, Some(file_system));
    for run in index.runs_of(&filter).filter(|run| run.counts()) {
        if wanted.len() < MOST_MACHINES || wanted.contains_key(&run.machine) {
            let of_machine = wanted.entry(run.machine).or_default();
            if of_machine.len() < MOST_RUNS_OF_MACHINE {
                of_machine.push(run.stored.id.clone());
            }
        }
    }
    (file_system.to_owned(), wanted.into_values().collect())
}

/// Marks, one by one.
fn listed(marks: &str) -> Vec<String> {
    let marks = marks.split(", ").filter(|mark| !mark.is_empty());
    marks.map(str::to_owned).collect()
}

pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
