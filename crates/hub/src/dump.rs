//! All runs for others: whole, as lines of JSON, and what is searched of them, as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{StreamExt, unfold};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use crate::accept::{decompressed, words};
use crate::api::App;
use crate::index::Filter;
use crate::problem::Problem;
use crate::store::{Store, StoreError};

/// A run in a dump.
#[derive(Debug, Serialize, Deserialize)]
pub struct Dumped {
    /// The digest of the document.
    pub id: String,
    /// When it came, in seconds since 1970.
    pub received_unix_seconds: i64,
    /// Why it does not count; empty if it does.
    pub marks: String,
    /// The digest of its secret, in dumps for the administrator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The run.
    pub document: Box<RawValue>,
}

/// A run as a line of JSON; `None` if it was removed meanwhile.
pub async fn line(store: &Store, id: &str, with_secret: bool) -> Result<Option<Vec<u8>>, StoreError> {
    let Some((stored, compressed)) = store.run(id).await? else {
        return Ok(None);
    };
    let damaged = || StoreError::Damaged(id.to_owned());
    let text = decompressed(&compressed).map_err(|_| damaged())?;
    // On one line.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
    let dumped = Dumped {
        id: stored.id,
        received_unix_seconds: stored.received_unix_seconds,
        marks: words(&stored.marks),
        secret: with_secret.then_some(stored.secret),
        document: serde_json::value::to_raw_value(&value).map_err(|_| damaged())?,
    };
    let mut line = serde_json::to_vec(&dumped).map_err(|_| damaged())?;
    line.push(b'\n');
    Ok(Some(line))
}

/// All runs, one on each line, with their documents.
#[utoipa::path(get, path = "/api/v1/dump.jsonl", responses((status = 200, description = "Lines of JSON", content_type = "application/x-ndjson", body = String)))]
pub async fn json_lines(State(app): State<Arc<App>>) -> Response {
    let (send, receive) = channel::<io::Result<Bytes>>(4);
    tokio::spawn(async move {
        let ids: Vec<String> = app
            .index
            .read()
            .await
            .runs()
            .iter()
            .map(|run| run.stored.id.clone())
            .collect();
        for id in ids {
            let line = line(&app.store, &id, false).await.map_err(io::Error::other);
            let Some(line) = line.transpose() else { continue };
            let is_last = line.is_err();
            if send.send(line.map(Bytes::from)).await.is_err() || is_last {
                return;
            }
        }
    });
    streamed(receive, "application/x-ndjson")
}

fn streamed(receive: tokio::sync::mpsc::Receiver<io::Result<Bytes>>, kind: &'static str) -> Response {
    // Compression asks once more after the end.
    let stream = unfold(receive, async |mut receive| Some((receive.recv().await?, receive))).fuse();
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response()
}

/// Of each row group: a place with all methods may take it beyond.
const ROWS_OF_GROUP: usize = 1 << 16;

const SCHEMA: &str = "message figures {
    required binary run (STRING); required binary day (STRING); required binary machine (STRING);
    required binary kind (STRING); required binary model (STRING); required binary file_system (STRING);
    required binary kernel (STRING); required binary operation (STRING); required binary cache (STRING);
    required binary target (STRING); required binary durability (STRING); required binary work (STRING);
    required binary revision (STRING); required int64 size_bytes; required binary method (STRING);
    required int64 is_best; required double ratio; required double seconds;
}";

/// The figures of all runs that count, and of simulated disks: a row for each method of each contest.
#[utoipa::path(get, path = "/api/v1/dump.parquet", responses((status = 200, description = "A file of Parquet, compressed by Snappy", content_type = "application/vnd.apache.parquet", body = String)))]
pub async fn parquet(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let (send, receive) = channel::<io::Result<Bytes>>(4);
    spawn_blocking(move || {
        if let Err(error) = write(&app, Sending(send.clone())) {
            let _ = send.blocking_send(Err(io::Error::other(error)));
        }
    });
    Ok(streamed(receive, "application/vnd.apache.parquet"))
}

/// Bytes for a client.
struct Sending(Sender<io::Result<Bytes>>);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The columns of a row group.
#[derive(Default)]
struct Rows {
    texts: [Vec<ByteArray>; 14],
    integers: [Vec<i64>; 2],
    figures: [Vec<f64>; 2],
}

fn write(app: &App, out: Sending) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(io::BufWriter::with_capacity(1 << 18, out), schema, properties)?;
    let all = Filter {
        revision: Some(String::new()),
        ..Filter::default()
    };
    let (places, removed) = {
        let index = app.index.blocking_read();
        (index.places_of(&all), index.counters().removed)
    };
    let mut places = places.into_iter().peekable();
    while places.peek().is_some() {
        let mut rows = Rows::default();
        {
            // Not held while a client reads.
            let index = app.index.blocking_read();
            if index.counters().removed != removed {
                return Err(ParquetError::General(
                    "a run was withdrawn meanwhile; fetch the dump again".to_owned(),
                ));
            }
            while rows.figures[0].len() < ROWS_OF_GROUP
                && let Some(place) = places.next()
            {
                index.rows_of(place, |run, place, method, seen| rows.push(run, place, method, seen));
            }
        }
        let mut group = file.next_row_group()?;
        let [size, best] = &rows.integers;
        for texts in &rows.texts[..13] {
            column::<ByteArrayType>(&mut group, texts)?;
        }
        column::<Int64Type>(&mut group, size)?;
        column::<ByteArrayType>(&mut group, &rows.texts[13])?;
        column::<Int64Type>(&mut group, best)?;
        for figures in &rows.figures {
            column::<DoubleType>(&mut group, figures)?;
        }
        group.close()?;
    }
    file.close().map(drop)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, io::BufWriter<Sending>>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Ok(());
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

impl Rows {
    fn push(
        &mut self,
        run: &crate::index::Known,
        place: &crate::figure::Place,
        method: &str,
        seen: crate::index::Seen,
    ) {
        let stored = &run.stored;
        let of_run = [&stored.id, &stored.day, &stored.machine].map(String::as_str);
        let texts = of_run.into_iter().chain(place.words()).chain([method]);
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(ByteArray::from(text));
        }
        self.integers[0].push(place.size_bytes);
        self.integers[1].push(i64::from(seen.is_best));
        self.figures[0].push(seen.ratio.into());
        self.figures[1].push(seen.seconds.into());
    }
}
