//! The directory of runs: saving, listing, finding, importing and removing documents.
//!
//! Own runs are in `runs/`, those of others in `imported/`, and the receipts of shared runs in `shared/`. No document is overwritten. Documents that cannot be read are reported and left alone.

mod error;
mod profiles;
mod receipts;
mod run_document;
mod sittings;
mod turn;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use seekless_engine::files::{AtomicFile, WritableByOthers, open_own, read_within};
use seekless_record::{DocumentError, MAX_DOCUMENT_BYTES, Run};
use seekless_results::Origin;
use seekless_sys::Access;
use serde::de::IgnoredAny;
use tempfile::NamedTempFile;

use self::error::NAMES_TOLD;
pub use self::error::StoreError;
pub use self::profiles::{import_profile, keep_fetched_profile};
pub use self::receipts::SharedRun;
pub use self::run_document::RunDocument;
pub use self::turn::{Measuring, MeasuringLock};

/// The limit of the store. Beyond it, own runs are still saved, with a message; imports are refused; nothing is removed
/// unasked.
pub const LIMIT_BYTES: u64 = 1 << 30;

/// The largest file to import: reading a document takes several times its size in memory.
pub const MAX_IMPORT_BYTES: usize = 64 << 20;

/// A document of the store, which may not be read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name in the store, or the path of a file.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Whose it is.
    pub origin: Origin,
    /// Its size.
    pub bytes: u64,
}

impl Document {
    /// Reads the run.
    pub fn read(&self) -> Result<Run, StoreError> {
        let text = read(&self.path, MAX_DOCUMENT_BYTES)?;
        seekless_record::from_json(&text).map_err(malformed(&self.path))
    }

    /// Reads the run, which will be acted on, if no other user can have written it.
    pub fn read_own(&self) -> Result<Run, StoreError> {
        let own = open_own(&self.path, Access::Read);
        let text = own.and_then(|file| read_within(file, MAX_DOCUMENT_BYTES as u64));
        let text = text.map_err(system(&self.path, "use the run"))?;
        seekless_record::from_json(&text).map_err(malformed(&self.path))
    }
}

/// The directory of runs.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// The store in a directory, which need not exist yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The file for what is said by a process that measures in the background. Its directory is made.
    pub fn log_path(&self) -> Result<PathBuf, StoreError> {
        make_directory(&self.directory)?;
        Ok(self.directory.join("sittings.log"))
    }

    /// Who else may replace what is saved, if anyone.
    #[must_use]
    pub fn exposed(&self) -> Option<WritableByOthers> {
        WritableByOthers::on_the_way(&self.directory_of(Origin::Own))
            .ok()
            .flatten()
    }

    /// Saves an own run, and returns its path.
    pub fn save(&self, run: &Run) -> Result<PathBuf, StoreError> {
        write_new(&self.directory_of(Origin::Own), &file_name(&run.id), run)
    }

    /// Saves an imported run; returns its document, and whether it is new.
    pub fn import(&self, run: &Run) -> Result<(Document, bool), StoreError> {
        let name = file_name(&format!("{IMPORTED}{}", run.id));
        let documents = self.documents()?;
        let is_alike = |document: &&Document| document.origin == Origin::Imported && document.id.starts_with(&name);
        let mut alike = documents.iter().filter(is_alike);
        if let Some(same) = alike.find(|document| document.read().is_ok_and(|found| found == *run)) {
            return Ok((same.clone(), false));
        }
        let held: u64 = documents.iter().map(|document| document.bytes).sum();
        if held >= LIMIT_BYTES {
            return Err(StoreError::Full(held));
        }
        let path = write_new(&self.directory_of(Origin::Imported), &name, run)?;
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Ok((kept(path, Origin::Imported, bytes), true))
    }

    /// Takes the lock for measuring, or returns who has it.
    pub fn try_measuring(&self) -> Result<Result<MeasuringLock, Measuring>, StoreError> {
        turn::try_measuring(&self.directory)
    }

    /// The own runs before this one that may be combined with it, the newest first, and the errors of documents that
    /// cannot be read.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn sittings(&self, run: &Run) -> Result<(Vec<Run>, Vec<StoreError>), StoreError> {
        Ok(sittings::sittings(self.documents()?, run))
    }

    /// All documents: own runs, the newest first, then imported ones.
    pub fn documents(&self) -> Result<Vec<Document>, StoreError> {
        let mut documents = Vec::new();
        for origin in [Origin::Own, Origin::Imported] {
            documents.extend(list(&self.directory_of(origin), origin)?);
        }
        documents.sort_by(|one, other| one.origin.cmp(&other.origin).then(other.id.cmp(&one.id)));
        Ok(documents)
    }

    /// Finds a document by an ID or a unique prefix of one, by the name given to a run, by `latest` (or `last`), or by
    /// the path of a file.
    pub fn find(&self, name: &OsStr) -> Result<Document, StoreError> {
        let path = Path::new(name);
        if name.as_encoded_bytes().contains(&b'/') || path.extension().is_some_and(|extension| extension == "json") {
            return of_file(path);
        }
        let name = name.to_string_lossy().into_owned();
        let documents = self.documents()?;
        if name == "latest" || name == "last" {
            let own = documents.first().filter(|document| document.origin == Origin::Own);
            return own.cloned().ok_or(StoreError::NoSuch {
                name,
                nearest: Vec::new(),
            });
        }
        if let Some(exact) = documents.iter().find(|document| document.id == name) {
            return Ok(exact.clone());
        }
        let begins = |document: &&Document| !name.is_empty() && document.id.starts_with(&name);
        let mut matches: Vec<&Document> = documents.iter().filter(begins).collect();
        if matches.is_empty() {
            let end = format!("-{name}");
            matches.extend(documents.iter().filter(|document| document.id.ends_with(&end)));
        }
        match matches.as_slice() {
            [only] => Ok((*only).clone()),
            [] => Err(StoreError::NoSuch {
                nearest: nearest(&name, &documents),
                name,
            }),
            several => Err(StoreError::Ambiguous {
                name,
                matches: several.iter().map(|document| document.id.clone()).collect(),
            }),
        }
    }

    /// The oldest documents, without which the store holds at most this many bytes.
    pub fn beyond(&self, most_bytes: u64) -> Result<Vec<Document>, StoreError> {
        let mut documents = self.documents()?;
        documents.sort_by_key(|document| {
            let modified = fs::metadata(&document.path).and_then(|metadata| metadata.modified());
            (modified.ok(), document.id.clone())
        });
        let mut held: u64 = documents.iter().map(|document| document.bytes).sum();
        documents.retain(|document| {
            let goes = held > most_bytes;
            held -= if goes { document.bytes } else { 0 };
            goes
        });
        Ok(documents)
    }

    /// Removes a document and the report beside it.
    pub fn remove(&self, document: &Document) -> Result<(), StoreError> {
        fs::remove_file(&document.path).map_err(system(&document.path, "remove"))?;
        remove_if_there(&document.path.with_extension("html"))
    }

    /// The directory of own or imported documents, which need not exist yet.
    #[must_use]
    pub fn directory_of(&self, origin: Origin) -> PathBuf {
        self.directory.join(match origin {
            Origin::Imported => "imported",
            Origin::Own | Origin::File => "runs",
        })
    }
}

/// Splits a file into the texts of its documents, which follow one another, with or without line ends.
///
/// # Errors
/// If the file is too large or cannot be read, or something else follows a document.
pub fn split(path: &Path) -> Result<Vec<Vec<u8>>, StoreError> {
    let text = read(path, MAX_IMPORT_BYTES)?;
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<IgnoredAny>();
    let mut start = 0;
    while let Some(value) = values.next() {
        value.map_err(|error| malformed(path)(error.into()))?;
        documents.push(text[start..values.byte_offset()].to_vec());
        start = values.byte_offset();
    }
    if documents.is_empty() {
        return Err(malformed(path)(DocumentError::NoVersion));
    }
    Ok(documents)
}

/// The prefix of the IDs of imported runs.
pub const IMPORTED: &str = "imported-";

fn system(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::System { path, doing, source }
}

fn malformed(path: &Path) -> impl Fn(DocumentError) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Document {
        path: path.clone(),
        source,
    }
}

/// Stats a file, which must be regular, before it is opened, because opening a FIFO would block.
fn regular(path: &Path) -> Result<Metadata, StoreError> {
    let metadata = fs::metadata(path).map_err(system(path, "stat"))?;
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(StoreError::NotRegular(path.to_owned()))
    }
}

/// Reads a regular file of at most this many bytes.
fn read(path: &Path, most: usize) -> Result<Vec<u8>, StoreError> {
    let too_large = |bytes: usize| malformed(path)(DocumentError::TooLarge { bytes, most });
    let bytes = regular(path)?.len();
    if bytes > most as u64 {
        return Err(too_large(bytes as usize));
    }
    let opened = File::open(path).map_err(system(path, "open"))?;
    read_within(opened, most as u64).map_err(|error| match error.kind() {
        // It grew meanwhile.
        ErrorKind::FileTooLarge => too_large(most + 1),
        _ => system(path, "read")(error),
    })
}

fn of_file(path: &Path) -> Result<Document, StoreError> {
    Ok(Document {
        id: path.display().to_string(),
        bytes: regular(path)?.len(),
        path: path.to_owned(),
        origin: Origin::File,
    })
}

fn list(directory: &Path, origin: Origin) -> Result<Vec<Document>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(system(directory, "list"))?,
    };
    let mut documents = Vec::new();
    for entry in entries {
        let path = entry.map_err(system(directory, "list"))?.path();
        let document = kept(path, origin, 0);
        let is_document = !document.id.starts_with('.') && document.path.extension() == Some(OsStr::new("json"));
        // A document that was removed meanwhile is skipped.
        let metadata = fs::metadata(&document.path)
            .ok()
            .filter(|found| is_document && found.is_file());
        documents.extend(metadata.map(|metadata| Document {
            bytes: metadata.len(),
            ..document
        }));
    }
    Ok(documents)
}

/// A document of the store, with the name of its file.
fn kept(path: PathBuf, origin: Origin, bytes: u64) -> Document {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Document {
        id,
        path,
        origin,
        bytes,
    }
}

fn make_directory(directory: &Path) -> Result<(), StoreError> {
    // Only the user may access a data directory (XDG Base Directory Specification).
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(system(directory, "create"))
}

/// The file name of a run, without special characters and of limited length: a run may come from a stranger, and an ID
/// with many experiments may exceed the limit of file systems.
fn file_name(id: &str) -> String {
    const LONGEST: usize = 200;
    let is_plain = |(place, character): (usize, char)| {
        character.is_ascii_alphanumeric() || "-_+".contains(character) || place > 0 && character == '.'
    };
    let all = id.chars().take(LONGEST).enumerate();
    all.map(|found| if is_plain(found) { found.1 } else { '_' }).collect()
}

/// Writes a document to a new file with this name, or with a number appended if the name is taken. It is written under
/// a temporary name, synced and renamed.
fn write_new(directory: &Path, name: &str, run: &Run) -> Result<PathBuf, StoreError> {
    make_directory(directory)?;
    write_as_new(directory, name, document(directory, run)?.as_bytes())
}

/// The same for any text.
fn write_as_new(directory: &Path, name: &str, text: &[u8]) -> Result<PathBuf, StoreError> {
    let mut beside = written_beside(directory, text)?;
    let (mut path, mut number) = (directory.join(format!("{name}.json")), 0_u64);
    while let Err(error) = beside.persist_noclobber(&path) {
        if error.error.kind() != ErrorKind::AlreadyExists {
            return Err(system(&path, "write")(error.error));
        }
        (beside, number) = (error.file, number + 1);
        path = directory.join(format!("{name}-{number}.json"));
    }
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map(|()| path).map_err(system(directory, "sync"))
}

/// How the names of files begin that get their own when they are complete.
const BESIDE: &str = ".seekless-";

/// A private file with this text in a directory, synced, which has no name of its own yet.
fn written_beside(directory: &Path, text: &[u8]) -> Result<NamedTempFile, StoreError> {
    let mut beside = tempfile::Builder::new()
        .prefix(BESIDE)
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)
        .map_err(system(directory, "create a file"))?;
    let written = beside.write_all(text);
    let written = written.and_then(|()| beside.as_file().sync_all());
    written.map_err(system(directory, "write a file"))?;
    Ok(beside)
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(system(path, "remove")(error)),
        _ => Ok(()),
    }
}

/// Replaces a document; its owner and mode are kept.
fn replace(path: &Path, run: &Run) -> Result<(), StoreError> {
    let text = document(path, run)?;
    let replaced = AtomicFile::find(path).and_then(|file| match file {
        Some(file) => file.write(text.as_bytes()),
        None => Err(ErrorKind::Unsupported.into()),
    });
    replaced.map_err(system(path, "replace"))
}

fn document(path: &Path, run: &Run) -> Result<String, StoreError> {
    seekless_record::to_json(run).map_err(malformed(path))
}

/// The IDs most similar to a name.
fn nearest(name: &str, documents: &[Document]) -> Vec<String> {
    let mut nearest: Vec<&Document> = documents.iter().collect();
    nearest.sort_by_key(|document| strsim::osa_distance(&document.id, name));
    let nearest = nearest.into_iter().take(NAMES_TOLD);
    nearest.map(|document| format!("`{}`", document.id)).collect()
}

#[cfg(test)]
mod tests;
