//! All runs for others: whole, as lines of JSON, and what is searched of them, as Parquet.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

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
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use crate::app::App;
use crate::figure::{Place, WORDS};
use crate::index::{Filter, Known, Seen};
use crate::problem::Problem;
use crate::store::{Store, StoreError, Stored};

/// A client that reads nothing for so long is left.
const STALLED: Duration = Duration::from_secs(30);

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
pub async fn line(store: &Store, stored: Stored, with_secret: bool) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(text) = store.document(&stored.id).await? else {
        return Ok(None);
    };
    let damaged = StoreError::Damaged(stored.id.clone());
    let document = String::from_utf8(text)
        .ok()
        .and_then(|text| RawValue::from_string(text).ok());
    let Some(document) = document else { return Err(damaged) };
    let dumped = Dumped {
        id: stored.id,
        received_unix_seconds: stored.received_unix_seconds,
        marks: stored.marks,
        secret: with_secret.then_some(stored.secret),
        document,
    };
    let mut line = serde_json::to_vec(&dumped).map_err(|_| damaged)?;
    line.push(b'\n');
    Ok(Some(line))
}

/// All runs, one on each line, with their documents.
#[utoipa::path(get, path = "/api/v1/dump.jsonl", responses((status = 200, description = "Lines of JSON", content_type = "application/x-ndjson", body = String)))]
pub async fn json_lines(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let turn = app.dumping()?;
    let (send, receive) = channel::<io::Result<Bytes>>(4);
    tokio::spawn(async move {
        let _turn = turn;
        let runs: Vec<Stored> = app.index.read().await.runs().map(|run| run.stored.clone()).collect();
        for stored in runs {
            let line = line(&app.store, stored, false).await.map_err(io::Error::other);
            let Some(line) = line.transpose() else { continue };
            let is_last = line.is_err();
            if send.send_timeout(line.map(Bytes::from), STALLED).await.is_err() || is_last {
                return;
            }
        }
    });
    Ok(streamed(receive, "application/x-ndjson"))
}

fn streamed(receive: tokio::sync::mpsc::Receiver<io::Result<Bytes>>, kind: &'static str) -> Response {
    // Compression asks once more after the end.
    let stream = unfold(receive, async |mut receive| Some((receive.recv().await?, receive))).fuse();
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response()
}

/// Of each row group: a place with all methods may take it beyond.
const ROWS_OF_GROUP: usize = 1 << 13;

/// The columns: texts, integers, and figures.
fn schema() -> String {
    let of = |kind: &str, names: &[&str]| -> String {
        let column = |name: &&str| {
            format!(
                "required {kind} {name}{}; ",
                if kind == "binary" { " (STRING)" } else { "" }
            )
        };
        names.iter().map(column).collect()
    };
    let words = WORDS.map(|(name, _)| name);
    let texts = of("binary", &["run", "day", "machine"]) + &of("binary", &words) + &of("binary", &["method"]);
    let numbers = of("int64", &["size_bytes", "is_best"]) + &of("double", &["ratio", "seconds"]);
    format!("message figures {{ {texts}{numbers} }}")
}

/// The figures of all runs that count, and of simulated disks: a row for each method of each contest.
#[utoipa::path(get, path = "/api/v1/dump.parquet", responses((status = 200, description = "A file of Parquet, compressed by Snappy", content_type = "application/vnd.apache.parquet", body = String)))]
pub async fn parquet(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let turn = app.dumping()?;
    let (send, receive) = channel::<io::Result<Bytes>>(4);
    spawn_blocking(move || {
        let _turn = turn;
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
        let sending = self.0.send_timeout(Ok(Bytes::copy_from_slice(bytes)), STALLED);
        let sent = Handle::current().block_on(sending);
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The columns of a row group.
#[derive(Default)]
struct Rows {
    texts: [Vec<ByteArray>; 4 + WORDS.len()],
    integers: [Vec<i64>; 2],
    figures: [Vec<f64>; 2],
}

fn write(app: &App, out: Sending) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(io::BufWriter::with_capacity(1 << 18, out), schema, properties)?;
    let (places, removed) = {
        let index = app.index.blocking_read();
        let places: Vec<Place> = index.all_places_of(&Filter::default()).into_iter().cloned().collect();
        (places, index.counters().removed)
    };
    let mut places = places.iter().peekable();
    while places.peek().is_some() {
        let mut rows = Rows::default();
        {
            // Not held while a client reads.
            let index = app.index.blocking_read();
            if index.counters().removed != removed {
                let detail = "a run was withdrawn meanwhile; fetch the dump again";
                return Err(ParquetError::General(detail.to_owned()));
            }
            while rows.figures[0].len() < ROWS_OF_GROUP
                && let Some(place) = places.next()
            {
                for (method, seen) in index
                    .seen_at(place)
                    .flat_map(|(method, seen)| seen.iter().map(move |one| (method, one)))
                {
                    index
                        .run_of(seen)
                        .into_iter()
                        .for_each(|run| rows.push(run, place, method, *seen));
                }
            }
        }
        let mut group = file.next_row_group()?;
        for texts in &rows.texts {
            column::<ByteArrayType>(&mut group, texts)?;
        }
        for integers in &rows.integers {
            column::<Int64Type>(&mut group, integers)?;
        }
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
    fn push(&mut self, run: &Known, place: &Place, method: &str, seen: Seen) {
        let of_run = [&run.stored.id, &run.stored.day, &run.stored.machine].map(String::as_str);
        let texts = of_run
            .into_iter()
            .chain(place.words.iter().map(String::as_str))
            .chain([method]);
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(ByteArray::from(text));
        }
        for (column, number) in self.integers.iter_mut().zip([place.size_bytes, seen.is_best.into()]) {
            column.push(number);
        }
        for (column, figure) in self.figures.iter_mut().zip([seen.ratio, seen.seconds]) {
            column.push(figure.into());
        }
    }
}
