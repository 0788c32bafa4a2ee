//! The rows of a catalogue, in a file of Parquet.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row as Record};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use crate::Stop;
use crate::dupes::cache::without_panic;

/// The columns. What is not known is null.
const SCHEMA: &str = "message files {
    required binary host (STRING); required binary storage (STRING); required int64 device; required int64 inode;
    required binary path; required int64 size; required int64 mtime_ns; required int64 changed_ns; required boolean settled;
    required int32 links; optional binary first; optional binary blake3;
}";

/// Marks a file as a catalogue, with the version of its columns.
const MARK: (&str, &str) = ("seekless.catalogue", "1");

/// Of each row group: what is kept in memory while it is written.
const ROWS_OF_GROUP: usize = 1 << 16;

/// A name of a regular file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CatalogueRow {
    pub host: String,
    /// The file system: 16 hexadecimal digits of its identity, or the number of its device.
    pub storage: String,
    pub device: u64,
    pub inode: u64,
    pub path: Vec<u8>,
    pub bytes: u64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    /// Whether digests of the file may be used until its times change.
    pub is_settled: bool,
    pub links: u32,
    /// The xxh3-64 of the first 4096 bytes, with the size as its seed; eight bytes, the highest first.
    pub first: Option<u64>,
    /// The BLAKE3 of the content.
    pub blake3: Option<[u8; 32]>,
}

/// Writes rows as they come.
pub(super) struct RowWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<CatalogueRow>,
}

impl<W: Write + Send> RowWriter<W> {
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let (name, version) = MARK;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("seekless {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![KeyValue::new(name.to_owned(), version.to_owned())]));
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        Ok(Self {
            file: SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?,
            rows: Vec::new(),
        })
    }

    pub fn push(&mut self, row: CatalogueRow) -> Result<(), ParquetError> {
        self.rows.push(row);
        if self.rows.len() < ROWS_OF_GROUP {
            return Ok(());
        }
        self.write_group()
    }

    /// Writes what is left, and the end of the file, which says these things of it.
    pub fn finish(mut self, said: impl IntoIterator<Item = (&'static str, String)>) -> Result<(), ParquetError> {
        self.write_group()?;
        for (name, value) in said {
            self.file
                .append_key_value_metadata(KeyValue::new(name.to_owned(), value));
        }
        self.file.finish().map(drop)
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.file.next_row_group()?;
        let bytes = |bytes: &[u8]| Some(ByteArray::from(bytes.to_vec()));
        column::<ByteArrayType, W>(&mut group, &rows, |row| bytes(row.host.as_bytes()))?;
        column::<ByteArrayType, W>(&mut group, &rows, |row| bytes(row.storage.as_bytes()))?;
        column::<Int64Type, W>(&mut group, &rows, |row| Some(row.device.cast_signed()))?;
        column::<Int64Type, W>(&mut group, &rows, |row| Some(row.inode.cast_signed()))?;
        column::<ByteArrayType, W>(&mut group, &rows, |row| bytes(&row.path))?;
        column::<Int64Type, W>(&mut group, &rows, |row| Some(row.bytes.cast_signed()))?;
        column::<Int64Type, W>(&mut group, &rows, |row| Some(row.modified_ns))?;
        column::<Int64Type, W>(&mut group, &rows, |row| Some(row.changed_ns))?;
        column::<BoolType, W>(&mut group, &rows, |row| Some(row.is_settled))?;
        column::<Int32Type, W>(&mut group, &rows, |row| Some(row.links.cast_signed()))?;
        column::<ByteArrayType, W>(&mut group, &rows, |row| bytes(&row.first?.to_be_bytes()))?;
        column::<ByteArrayType, W>(&mut group, &rows, |row| bytes(row.blake3.as_ref()?))?;
        group.close().map(drop)
    }
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[CatalogueRow],
    value: impl Fn(&CatalogueRow) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Ok(());
    };
    let values: Vec<Option<T::T>> = rows.iter().map(value).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let known: Vec<T::T> = values.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&known, Some(&levels), None)?;
    column.close()
}

/// Why a catalogue cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot {doing} the catalogue: {reason}", path = path.display())]
pub struct CatalogueError {
    /// Its path.
    pub path: PathBuf,
    /// What was tried.
    pub doing: &'static str,
    /// Why it failed.
    pub reason: String,
}

impl CatalogueError {
    pub(super) fn of(path: &Path, doing: &'static str, reason: &dyn std::fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            doing,
            reason: reason.to_string(),
        }
    }
}

/// An open catalogue.
pub(super) struct RowReader {
    file: SerializedFileReader<File>,
}

impl RowReader {
    /// Opens a catalogue; `None` if this is something else.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        Self::of(File::open(path)?)
    }

    /// The same of an open file.
    pub fn of(file: File) -> io::Result<Option<Self>> {
        if !begins_as_parquet(&file) {
            return Ok(None);
        }
        let opened = || SerializedFileReader::new(file).map_err(|error| error.to_string());
        // What is damaged may make its reader panic.
        let file = without_panic(opened).map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let marks = file.metadata().file_metadata().key_value_metadata();
        let mark = marks.into_iter().flatten().find(|mark| mark.key == MARK.0);
        match mark.map(|mark| mark.value.as_deref().unwrap_or("?")) {
            None => Ok(None),
            Some(version) if version == MARK.1 => Ok(Some(Self { file })),
            Some(version) => {
                let reason = format!("version {version} of catalogues is not known here");
                Err(io::Error::new(io::ErrorKind::InvalidData, reason))
            }
        }
    }

    /// Whether a run that was killed may have left a file: it is empty, has a beginning and no end, or lacks only its name.
    pub fn is_begun(file: &File) -> bool {
        let is_empty = file.metadata().is_ok_and(|found| found.len() == 0);
        let is_foreign = || {
            file.try_clone()
                .and_then(Self::of)
                .is_ok_and(|catalogue| catalogue.is_none())
        };
        is_empty || begins_as_parquet(file) && !is_foreign()
    }

    /// Gives each row, with these columns only, until it is stopped.
    pub fn rows(&self, columns: &[&str], stop: &Stop, each: impl FnMut(CatalogueRow)) -> Result<(), String> {
        without_panic(|| self.read(columns, stop, each).map_err(|error| error.to_string()))
    }

    fn read(&self, columns: &[&str], stop: &Stop, mut each: impl FnMut(CatalogueRow)) -> Result<(), ParquetError> {
        let schema = self.file.metadata().file_metadata().schema();
        let ours = parse_message_type(SCHEMA)?;
        let of = |schema: &Type, name: &str| schema.get_fields().iter().find(|field| field.name() == name).cloned();
        let mut fields = Vec::new();
        for name in columns {
            let kind = |field: &Arc<Type>| field.is_primitive().then(|| field.get_physical_type());
            let field = of(schema, name).filter(|field| Some(kind(field)) == of(&ours, name).as_ref().map(kind));
            let why = || ParquetError::General(format!("its column `{name}` is not that of a catalogue"));
            fields.push(field.ok_or_else(why)?);
        }
        let wanted = Type::group_type_builder(schema.name()).with_fields(fields);
        for record in self.file.get_row_iter(Some(wanted.build()?))? {
            if stop.is_stopped() {
                break;
            }
            each(CatalogueRow::of(&record?));
        }
        Ok(())
    }
}

fn begins_as_parquet(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && &magic == b"PAR1"
}

impl CatalogueRow {
    fn of(record: &Record) -> Self {
        let mut row = Self::default();
        for (name, field) in record.get_column_iter() {
            match (name.as_str(), field) {
                ("host", Field::Str(text)) => row.host.clone_from(text),
                ("storage", Field::Str(text)) => row.storage.clone_from(text),
                ("device", Field::Long(number)) => row.device = number.cast_unsigned(),
                ("inode", Field::Long(number)) => row.inode = number.cast_unsigned(),
                ("path", Field::Bytes(path)) => row.path = path.data().to_vec(),
                ("size", Field::Long(bytes)) => row.bytes = bytes.cast_unsigned(),
                ("mtime_ns", Field::Long(time)) => row.modified_ns = *time,
                ("changed_ns", Field::Long(time)) => row.changed_ns = *time,
                ("settled", Field::Bool(is_settled)) => row.is_settled = *is_settled,
                ("links", Field::Int(links)) => row.links = links.cast_unsigned(),
                ("first", Field::Bytes(digest)) => row.first = digest.data().try_into().ok().map(u64::from_be_bytes),
                ("blake3", Field::Bytes(digest)) => row.blake3 = digest.data().try_into().ok(),
                _ => {}
            }
        }
        row
    }
}
