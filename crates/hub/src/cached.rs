//! Answers that are kept until a run comes or goes, and conditional requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::accept::digest;
use crate::api::App;
use crate::store::Counters;

/// The most bytes of answers that are kept, and of one.
const MOST_KEPT: usize = 24 << 20;
const MOST_OF_ONE: usize = 1 << 20;

/// Answers by their address.
#[derive(Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// What they rest on.
    counters: Counters,
    bytes: usize,
    answers: HashMap<String, Answer>,
}

#[derive(Clone)]
struct Answer {
    tag: HeaderValue,
    kind: HeaderValue,
    body: Bytes,
}

impl Cache {
    fn find(&self, address: &str, counters: Counters) -> Option<Answer> {
        let kept = self.0.lock().ok()?;
        (kept.counters == counters).then(|| kept.answers.get(address).cloned())?
    }

    fn keep(&self, address: String, counters: Counters, answer: Answer) {
        let Ok(mut kept) = self.0.lock() else { return };
        if kept.counters != counters || kept.bytes + answer.body.len() > MOST_KEPT {
            *kept = Kept {
                counters,
                ..Kept::default()
            };
        }
        kept.bytes += answer.body.len();
        kept.answers.insert(address, answer);
    }
}

/// Answers from what is kept, and with 304 where the client has it.
pub async fn cached(State((app, cache)): State<(Arc<App>, Arc<Cache>)>, request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let address = request.uri().to_string();
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let counters = app.index.read().await.counters();
    let answer = if let Some(answer) = cache.find(&address, counters) {
        answer
    } else {
        let response = next.run(request).await;
        if response.status() != StatusCode::OK {
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = to_bytes(body, usize::MAX).await else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let plain = HeaderValue::from_static("application/octet-stream");
        let answer = Answer {
            tag: HeaderValue::from_str(&format!("\"{}\"", digest(&body))).unwrap_or_else(|_| plain.clone()),
            kind: parts.headers.get(header::CONTENT_TYPE).cloned().unwrap_or(plain),
            body,
        };
        if answer.body.len() <= MOST_OF_ONE {
            cache.keep(address, counters, answer.clone());
        }
        answer
    };
    let is_known = known.is_some_and(|known| {
        // A proxy that compresses makes a tag weak.
        let tag = answer.tag.as_bytes();
        known
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|one| one.trim_ascii().trim_ascii_start().ends_with(tag))
    });
    let headers = [
        (header::ETAG, answer.tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_TYPE, answer.kind),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, Body::from(answer.body)).into_response()
}
