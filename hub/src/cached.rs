//! Answers that are kept until a run comes or goes, and conditional requests. Of requests for the same, one is worked on.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quick_cache::Weighter;

use crate::app::App;
use crate::receipt::digest;
use crate::store::Counters;

/// The most bytes of answers that are kept.
const MOST_KEPT: u64 = 24 << 20;
/// About how many these are.
const ANSWERS: usize = 1000;

/// Answers by their address, what the client accepts, and what they rest on.
pub struct Cache(quick_cache::sync::Cache<Key, Answer, Weight>);

type Key = (String, Vec<HeaderValue>, Counters);

#[derive(Clone)]
struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Answer> for Weight {
    fn weight(&self, key: &Key, answer: &Answer) -> u64 {
        // About as much as the headers and the entry take.
        (key.0.len() + answer.body.len() + 1000) as u64
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self(quick_cache::sync::Cache::with_weighter(ANSWERS, MOST_KEPT, Weight))
    }
}

/// Answers from what is kept, and with 304 where the client has it.
pub async fn cached(State((app, cache)): State<(Arc<App>, Arc<Cache>)>, request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let accepts = request
        .headers()
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .cloned()
        .collect();
    let key = (request.uri().to_string(), accepts, app.index.read().await.counters());
    let mut answer = match cache.0.get_or_insert_async(&key, answer(request, next)).await {
        Ok(answer) => answer,
        Err(response) => return response,
    };
    let tag = answer.headers[header::ETAG].as_bytes();
    // A proxy that compresses makes a tag weak.
    let is_tag = |one: &[u8]| one.trim_ascii().ends_with(tag);
    if known.is_some_and(|known| known.as_bytes().split(|byte| *byte == b',').any(is_tag)) {
        answer.headers.remove(header::CONTENT_ENCODING);
        return (StatusCode::NOT_MODIFIED, answer.headers).into_response();
    }
    (answer.headers, Body::from(answer.body)).into_response()
}

/// The answer to a request; a response that is none is not kept.
async fn answer(request: Request, next: Next) -> Result<Answer, Response> {
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return Err(response);
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Err(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    };
    let mut headers = parts.headers;
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let tag = HeaderValue::try_from(format!("\"{}\"", digest(&body)));
    headers.insert(header::ETAG, tag.unwrap_or(HeaderValue::from_static("\"\"")));
    Ok(Answer { headers, body })
}
