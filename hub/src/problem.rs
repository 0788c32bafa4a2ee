//! Errors as RFC 9457 has them.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::accept::Refusal;
use crate::store::StoreError;

/// Why a request was not answered (`application/problem+json`).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says it.
    pub r#type: &'static str,
    /// The status in words.
    pub title: &'static str,
    /// The status of HTTP.
    pub status: u16,
    /// What is wrong, and what to do.
    pub detail: String,
}

impl Problem {
    /// Of this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("error"),
            status: status.as_u16(),
            detail: detail.into(),
        }
    }

    /// More than so many bytes were sent.
    pub fn too_large(most: usize) -> Self {
        let detail = format!("at most {most} bytes are accepted");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// There is no such thing.
    pub fn missing(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }
}

/// The query of an address, or the problem with it.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        let query = query.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
        Ok(Self(query.0))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!("{error}: {:?}", std::error::Error::source(&error));
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the hub cannot use its database now; try again later",
        )
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, refusal.to_string())
    }
}

impl From<tokio::sync::AcquireError> for Problem {
    fn from(_: tokio::sync::AcquireError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the hub is shutting down")
    }
}

impl From<tokio::task::JoinError> for Problem {
    fn from(error: tokio::task::JoinError) -> Self {
        tracing::error!("{error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the hub failed at this request")
    }
}
