//! What all requests share, and what keeps their memory within bounds.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use futures_util::TryStreamExt;
use seekless_record::{Run, from_json};
use seekless_results::{Known, RunComparison, compare, objections};
use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore};
use tokio::task::{block_in_place, spawn_blocking};

use crate::index::Index;
use crate::problem::Problem;
use crate::store::{Store, StoreError};

/// What is received of one request, and of all at a time, in bytes.
const MAX_SENT: usize = 4 << 20;
const MAX_SENT_AT_A_TIME: usize = 32 << 20;
/// So many dumps are written at a time.
const MAX_DUMPS: usize = 2;
/// So many requests work on documents at a time.
const MAX_WORKING: usize = 2;

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
    receiving: Semaphore,
    working: Arc<Semaphore>,
    dumping: Arc<Semaphore>,
}

type Answer<T> = Result<T, Problem>;

impl App {
    /// Of a database and what is known of it.
    pub fn new(store: Store, index: Index, known: Known, public_url: &str) -> Self {
        Self {
            store,
            index: RwLock::new(index),
            known,
            public_url: public_url.trim_end_matches('/').to_owned(),
            receiving: Semaphore::new(MAX_SENT_AT_A_TIME),
            working: Arc::new(Semaphore::new(MAX_WORKING)),
            dumping: Arc::new(Semaphore::new(MAX_DUMPS)),
        }
    }

    /// Makes something of the index.
    pub async fn read<T>(&self, make: impl FnOnce(&Index) -> T) -> T {
        let index = self.index.read().await;
        block_in_place(|| make(&index))
    }

    /// Brings the index up to date.
    pub async fn follow(&self) -> Result<(), StoreError> {
        Index::follow(&self.index, &self.store).await
    }

    /// A turn at writing a dump: it holds memory for as long as its client reads.
    pub fn dumping(&self) -> Answer<OwnedSemaphorePermit> {
        let turn = self.dumping.clone().try_acquire_owned();
        turn.map_err(|_| {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "other dumps are being written; try again later",
            )
        })
    }

    /// The document of a run.
    pub async fn document(&self, id: &str) -> Answer<Vec<u8>> {
        let document = self.store.document(id).await?;
        document.ok_or_else(|| Problem::missing("such run"))
    }

    /// Works on runs, when it is its turn.
    pub async fn with_runs<T: Send + 'static>(
        &self,
        ids: &[impl AsRef<str>],
        work: impl FnOnce(&[Run]) -> T + Send + 'static,
    ) -> Answer<T> {
        let turn = self.working.clone().acquire_owned().await?;
        let mut documents = Vec::new();
        for id in ids {
            documents.push((id.as_ref().to_owned(), self.document(id.as_ref()).await?));
        }
        let runs = move || {
            // Kept until the work ends, even if nobody waits for it any more.
            let _turn = turn;
            let run = |(id, text): (String, Vec<u8>)| from_json(&text).map_err(|_| StoreError::Damaged(id));
            let runs: Vec<Run> = documents.into_iter().map(run).collect::<Result<_, _>>()?;
            Ok(work(&runs))
        };
        spawn_blocking(runs).await?
    }

    /// What changed from one run to another, and what speaks against comparing them.
    pub async fn comparison(&self, a: &str, b: &str) -> Answer<(RunComparison, Vec<String>)> {
        let both = |runs: &[Run]| compare(&runs[0], &runs[1]).map(|found| (found, objections(&runs[0], &runs[1])));
        let compared = self.with_runs(&[a, b], both).await?;
        compared.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))
    }

    /// Works on what a request sends, when it is its turn.
    pub async fn with_sent<T: Send + 'static>(
        &self,
        body: Body,
        work: impl FnOnce(Vec<u8>) -> T + Send + 'static,
    ) -> Answer<T> {
        let cut = |_| Problem::new(StatusCode::BAD_REQUEST, "the request ended too early");
        let (mut sent, mut stream): (Vec<u8>, BodyDataStream) = (Vec::new(), body.into_data_stream());
        // Those who send slowly hold little.
        let full = |_| {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many runs are being sent; try again",
            )
        };
        let mut held = self.receiving.try_acquire_many(0).map_err(full)?;
        while let Some(chunk) = stream.try_next().await.map_err(cut)? {
            if sent.len() + chunk.len() > MAX_SENT {
                return Err(Problem::too_large(MAX_SENT));
            }
            held.merge(self.receiving.try_acquire_many(chunk.len() as u32).map_err(full)?);
            sent.extend_from_slice(&chunk);
        }
        let turn = self.working.clone().acquire_owned().await?;
        let worked = spawn_blocking(move || {
            let _turn = turn;
            work(sent)
        });
        Ok(worked.await?)
    }
}
