//! Digests that are kept from one search to the next, each under all by which a changed file is known: device, inode, size,
//! mtime and ctime. They are believed when duplicates are listed; whoever acts on one reads it again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{Database, DatabaseError, ReadOnlyTable, ReadableDatabase, TableDefinition, TableError};

use crate::walk::Listed;

/// Device, inode, size, mtime, ctime: numbers of 8 bytes.
type Key = [u8; 40];

/// By the digest and the number of bytes that it is of.
const HEADS: TableDefinition<'_, &Key, u64> = TableDefinition::new("xxh3-64 of 4096");
const CONTENTS: TableDefinition<'_, &Key, &[u8; 32]> = TableDefinition::new("blake3-256");

/// A file that changed so little before the search may change again without a new time: clocks of file systems are coarse.
const SETTLED_NS: i64 = 2_000_000_000;

/// The digests of earlier searches, and what is added to them.
pub(super) struct Cache {
    path: PathBuf,
    database: Database,
    heads: Option<ReadOnlyTable<&'static Key, u64>>,
    contents: Option<ReadOnlyTable<&'static Key, &'static [u8; 32]>>,
    new: Mutex<New>,
    hits: AtomicU64,
    /// Only files that last changed before this are added.
    settled_before_ns: i64,
}

#[derive(Default)]
struct New {
    heads: Vec<(Key, u64)>,
    contents: Vec<(Key, [u8; 32])>,
}

impl Cache {
    /// Opens a cache, or makes it, with the directories above.
    ///
    /// # Errors
    /// Why not: another search has it open, it is of another program, or the system's reason.
    pub fn open(path: &Path) -> Result<Self, String> {
        let reason =
            |error: &dyn std::fmt::Display| format!("{}: cannot open the cache of digests: {error}", path.display());
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).map_err(|error| reason(&error))?;
        }
        let database = checked(path).map_err(|error| reason(&error))?;
        let read = database.begin_read().map_err(|error| reason(&error))?;
        let heads = match read.open_table(HEADS) {
            Err(TableError::TableDoesNotExist(_)) => None,
            opened => Some(opened.map_err(|error| reason(&error))?),
        };
        let contents = match read.open_table(CONTENTS) {
            Err(TableError::TableDoesNotExist(_)) => None,
            opened => Some(opened.map_err(|error| reason(&error))?),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            database,
            heads,
            contents,
            new: Mutex::default(),
            hits: AtomicU64::new(0),
            settled_before_ns: (now.as_nanos() as i64).saturating_sub(SETTLED_NS),
        })
    }

    pub fn head(&self, file: &Listed) -> Option<u64> {
        let found = self.heads.as_ref()?.get(&key(file)).ok()??;
        Some(found.value())
    }

    pub fn content(&self, file: &Listed) -> Option<blake3::Hash> {
        let found = self.contents.as_ref()?.get(&key(file)).ok()??;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(blake3::Hash::from_bytes(*found.value()))
    }

    pub fn add_heads<'l>(&self, heads: impl Iterator<Item = (&'l Listed, u64)>) {
        let settled = heads.filter(|(file, _)| file.changed_ns < self.settled_before_ns);
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.heads.extend(settled.map(|(file, digest)| (key(file), digest)));
    }

    pub fn add_content(&self, file: &Listed, digest: blake3::Hash) {
        if file.changed_ns < self.settled_before_ns {
            let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
            new.contents.push((key(file), *digest.as_bytes()));
        }
    }

    /// Digests of whole files that an earlier search had made.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Writes what was added, in one transaction; or why that failed.
    pub fn save(&self) -> Option<String> {
        let mut new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        if new.heads.is_empty() && new.contents.is_empty() {
            return None;
        }
        new.heads.sort_unstable();
        new.contents.sort_unstable();
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut heads = transaction.open_table(HEADS)?;
                for (key, digest) in &new.heads {
                    heads.insert(key, digest)?;
                }
                let mut contents = transaction.open_table(CONTENTS)?;
                for (key, digest) in &new.contents {
                    contents.insert(key, digest)?;
                }
            }
            Ok(transaction.commit()?)
        };
        let path = self.path.display();
        write()
            .err()
            .map(|error| format!("{path}: cannot write to the cache of digests: {error}"))
    }
}

/// Opens a database whose checksums are right; made where there was none.
fn checked(path: &Path) -> Result<Database, String> {
    let open = || -> Result<Database, DatabaseError> {
        let mut database = Database::create(path)?;
        database.check_integrity()?;
        Ok(database)
    };
    // Where a file is damaged, the library may panic.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let opened = std::panic::catch_unwind(open);
    std::panic::set_hook(hook);
    match opened {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => Err("it is damaged; remove it".to_owned()),
    }
}

fn key(file: &Listed) -> Key {
    let numbers = [
        file.device,
        file.inode,
        file.bytes,
        file.modified_ns.cast_unsigned(),
        file.changed_ns.cast_unsigned(),
    ];
    let mut key = [0; 40];
    for (part, number) in key.chunks_exact_mut(8).zip(numbers) {
        part.copy_from_slice(&number.to_be_bytes());
    }
    key
}
