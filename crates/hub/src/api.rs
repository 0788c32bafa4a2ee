//! The API: `/api/v1`.

#![allow(unused_qualifications, reason = "the description of a parameter repeats its path")]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seekless_record::{Run, from_json};
use seekless_results::{DeviceKind, Known, compare, digest_of_kind, objections};
use serde::{Deserialize, Serialize};
use tokio::sync::{RwLock, Semaphore};
use tokio::task::spawn_blocking;
use utoipa::{IntoParams, OpenApi, ToSchema};

use crate::accept::{Mark, accept, decompressed};
use crate::index::{Filter, Index};
use crate::problem::Problem;
use crate::receipt::Receipt;
use crate::store::{Added, Store, StoreError};

/// What all requests share.
pub struct App {
    /// The database.
    pub store: Store,
    /// What is known of it.
    pub index: RwLock<Index>,
    /// The words that may stand in a run.
    pub known: Known,
    /// Where this hub is, without a slash at its end.
    pub public_url: String,
    /// So many documents are parsed at a time.
    pub parsing: Semaphore,
}

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

impl Default for Part {
    fn default() -> Self {
        Self {
            before: None,
            limit: 50,
        }
    }
}

/// Two runs.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
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
#[utoipa::path(post, path = "/api/v1/runs", request_body(content = String, content_type = "application/json"), responses(
    (status = 201, description = "It is stored", body = Receipt),
    (status = 200, description = "It was there already", body = Receipt),
    (status = 403, description = "Runs of this machine are refused", body = Problem),
    (status = 413, description = "It is too large", body = Problem),
    (status = 422, description = "It is not a run, or not anonymous; the detail says why", body = Problem),
))]
pub async fn post_run(State(app): State<Arc<App>>, body: Result<Bytes, BytesRejection>) -> Answer<Response> {
    let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    let Ok(_permit) = app.parsing.acquire().await else {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the hub is shutting down",
        ));
    };
    let known = app.known;
    let accepted = spawn_blocking(move || accept(&body, &known)).await??;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no random numbers"))?;
    let secret = blake3::Hash::from_bytes(random).to_hex().to_string();
    let (status, secret, marks) = match app.store.add(&accepted, &hidden(&secret), now(), true).await? {
        Added::New(marks) => (StatusCode::CREATED, Some(secret), marks),
        Added::Known(marks) => (StatusCode::OK, None, marks),
        Added::Banned => return Err(Problem::new(StatusCode::FORBIDDEN, "runs of this machine are refused")),
    };
    Index::follow(&app.index, &app.store).await?;
    let receipt = Receipt {
        url: format!("{}/runs/{}", app.public_url, accepted.id),
        id: accepted.id,
        secret,
        counted: marks.is_empty(),
        marks: told(&marks),
    };
    Ok((status, Json(receipt)).into_response())
}

/// Withdraw a run by the secret of its receipt.
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
    let (stored, _) = app.store.run(&id).await?.ok_or_else(|| Problem::missing("such run"))?;
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    // Digests are compared, so the time tells nothing of the secret.
    if given.is_none_or(|given| hidden(given.trim()) != stored.secret) {
        let detail = "withdrawing a run needs the secret of its receipt, as `Authorization: Bearer SECRET`";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    app.store.remove(&id).await?;
    Index::follow(&app.index, &app.store).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The document of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", params(("id" = String, Path, description = "The run")), responses(
    (status = 200, description = "The run, as the command imports it", content_type = "application/json", body = String),
    (status = 404, description = "There is no such run", body = Problem),
))]
pub async fn get_run(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<Response> {
    let document = document(&app, &id).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}

/// Search runs, the newest first.
#[utoipa::path(get, path = "/api/v1/runs", params(Filter, Part), responses((status = 200, body = RunPage)))]
pub async fn list_runs(
    State(app): State<Arc<App>>,
    Query(filter): Query<Filter>,
    Query(part): Query<Part>,
) -> Json<RunPage> {
    let limit = part.limit.clamp(1, 200);
    let index = app.index.read().await;
    let before = part.before.unwrap_or(i64::MAX);
    let mut found = index.runs_of(&filter).filter(|run| run.stored.sequence < before);
    let runs: Vec<_> = found.by_ref().take(limit).collect();
    let next = runs
        .last()
        .map(|run| run.stored.sequence)
        .filter(|_| found.next().is_some());
    let runs = runs.into_iter().map(|run| RunEntry {
        id: run.stored.id.clone(),
        day: run.stored.day.clone(),
        counted: run.stored.marks.is_empty(),
        marks: told(&run.stored.marks),
        kinds: index.kinds_of(run).into_iter().map(str::to_owned).collect(),
    });
    Json(RunPage {
        runs: runs.collect(),
        next,
    })
}

/// What changed from one run to another.
#[utoipa::path(get, path = "/api/v1/compare", params(Pair), responses(
    (status = 200, description = "The comparison, as the command writes it", content_type = "application/json", body = String),
    (status = 404, description = "There is no such run", body = Problem),
    (status = 422, description = "They have no contest in common", body = Problem),
))]
pub async fn get_comparison(State(app): State<Arc<App>>, Query(pair): Query<Pair>) -> Answer<Response> {
    let (a, b) = (run(&app, &pair.a).await?, run(&app, &pair.b).await?);
    let compared = spawn_blocking(move || compare(&a, &b).map(|comparison| (objections(&a, &b), comparison))).await?;
    let (objections, comparison) =
        compared.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    let value =
        serde_json::json!({ "first": pair.a, "second": pair.b, "objections": objections, "comparison": comparison });
    Ok(Json(value).into_response())
}

/// Which methods win: for each task and class of sizes, the methods over all machines, the best first.
#[utoipa::path(get, path = "/api/v1/table", params(Filter), responses((status = 200, description = "The rankings", body = Vec<crate::trends::Cell>)))]
pub async fn get_table(State(app): State<Arc<App>>, Query(filter): Query<Filter>) -> Json<Vec<crate::trends::Cell>> {
    Json(crate::trends::cells(&*app.index.read().await, &filter))
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
    let filter = Filter {
        kind: Some(kind),
        ..filter
    };
    let mut wanted: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for run in app.index.read().await.runs_of(&filter).filter(|run| run.counts()) {
        if wanted.len() < MOST_MACHINES || wanted.contains_key(&run.machine) {
            let of_machine = wanted.entry(run.machine).or_default();
            if of_machine.len() < MOST_RUNS_OF_MACHINE {
                of_machine.push(run.stored.id.clone());
            }
        }
    }
    let mut machines = Vec::new();
    for ids in wanted.into_values() {
        let mut runs = Vec::new();
        for id in ids {
            runs.push(run(&app, &id).await?);
        }
        machines.push(runs);
    }
    let file_system = filter.file_system;
    let text = spawn_blocking(move || {
        digest_of_kind(parsed, file_system.as_deref(), &machines)?
            .to_text()
            .ok()
    })
    .await?;
    let text = text.ok_or_else(|| Problem::missing("profile of this kind: no machine has measured one"))?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
}

/// The document of a run.
pub async fn document(app: &App, id: &str) -> Answer<Vec<u8>> {
    let (_, compressed) = app.store.run(id).await?.ok_or_else(|| Problem::missing("such run"))?;
    Ok(decompressed(&compressed).map_err(|_| StoreError::Damaged(id.to_owned()))?)
}

/// A run.
pub async fn run(app: &App, id: &str) -> Answer<Run> {
    let text = document(app, id).await?;
    let parsed = spawn_blocking(move || from_json(&text)).await?;
    Ok(parsed.map_err(|_| StoreError::Damaged(id.to_owned()))?)
}

fn told(marks: &[Mark]) -> Vec<String> {
    marks.iter().map(ToString::to_string).collect()
}

/// What is stored of a secret.
fn hidden(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
