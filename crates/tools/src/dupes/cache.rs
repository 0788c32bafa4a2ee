//! Digests that are kept from one search to the next: a row for each file, with its size, mtime and ctime, which tell
//! whether it has changed. Listing duplicates trusts the digests; acting on a file reads it again.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use seekless_engine::files::{WritableByOthers, open_own};
use seekless_sys::{Access, FileSystemTrait, Support, file_system_of, file_system_uuid, lock_mutex, write_back};

use super::Search;
use crate::walk::{Files, Listed};

/// The identity of the file system, and the inode.
type Key = (u64, u64);
/// Size, mtime and ctime.
type Version = (u64, i64, i64);
/// The digest of the beginning, and that of the whole file.
type Digests<D> = (Option<u64>, Option<D>);
/// The number is the day of a search that found the file.
type RowOf<'r> = (Version, u32, Digests<&'r [u8; 32]>);
type Row = RowOf<'static>;

const FILES: TableDefinition<'_, Key, Row> = TableDefinition::new("xxh3-64 of 4096, blake3-256");
/// The day on which old rows were last dropped.
const CLEANED: TableDefinition<'_, (), u32> = TableDefinition::new("cleaned");

/// A file that changed this shortly before the search may change again without a new time, because timestamps are coarse.
const SETTLED_NS: i64 = 2_000_000_000;

const DAY_NS: u128 = 86_400_000_000_000;
/// Rows of files that no search has found for this long are dropped.
const KEPT_DAYS: u32 = 180;
/// How often a row is updated to note that a search found its file.
const NOTED_DAYS: u32 = 30;

/// The digests of earlier searches, and what is added to them.
pub(super) struct DigestCache {
    path: PathBuf,
    database: Database,
    rows: Option<ReadOnlyTable<Key, Row>>,
    /// Identities of file systems, by device.
    systems: Mutex<HashMap<u64, Option<u64>>>,
    new: Mutex<Vec<NewDigests>>,
    hits: AtomicU64,
    /// Only files that last changed before this are added.
    settled_before_ns: i64,
    /// Days since 1970.
    today: u32,
}

/// Takes a row.
pub(super) type Import<'a> = dyn FnMut(Key, Version, Digests<[u8; 32]>) + 'a;
type Failure = Box<dyn std::error::Error>;

/// What a search found out about a file: new digests or, if there are none, that its row needs a new day.
type NewDigests = (u32, Option<u64>, Option<Box<[u8; 32]>>);

/// The cache, if its rows can tell whether a file has changed, and which file system it is on.
pub(super) fn cache_of<'s>(search: &'s Search<'_>, number: u32) -> Option<&'s DigestCache> {
    let cache = search
        .cache
        .as_ref()
        .filter(|_| search.files.system(number).tells_changes)?;
    let device = search.files.get(number).device;
    let mut systems = lock_mutex(&cache.systems);
    let identity = *systems.entry(device).or_insert_with(|| {
        let (file, _) = search.files.open(number).ok()?;
        identity_of(&file)
    });
    identity.map(|_| cache)
}

/// Looks at the file systems of files that are sorted by device. What two devices show has one identity, and may differ all the
/// same: no digests are kept of it.
pub(super) fn meet_systems(search: &Search<'_>, numbers: &[u32]) {
    let Some(cache) = &search.cache else { return };
    for of_device in numbers.chunk_by(|one, other| search.files.get(*one).device == search.files.get(*other).device) {
        cache_of(search, of_device[0]);
    }
    let mut systems = lock_mutex(&cache.systems);
    let mut times: HashMap<u64, usize> = HashMap::new();
    for identity in systems.values().flatten() {
        *times.entry(*identity).or_default() += 1;
    }
    for known in systems.values_mut() {
        *known = known.filter(|identity| times[identity] == 1);
    }
}

/// Whether a file is not read, because its digest was kept and is trusted.
pub(super) fn is_digest_kept(search: &Search<'_>, number: u32) -> bool {
    let is_kept = || {
        let cache = cache_of(search, number);
        cache.is_some_and(|cache| cache.has_content(number, search.files.get(number)))
    };
    !search.options.is_paranoid && is_kept()
}

/// Whether digests of a file that is about to be read may be kept: any later change must show in its times.
pub(super) fn may_keep(search: &Search<'_>, number: u32, file: &File) -> bool {
    cache_of(search, number).is_some_and(|cache| cache.is_settled(search.files.get(number)))
        && matches!(write_back(file, 0, 0), Ok(Support::Available(())))
}

impl DigestCache {
    /// Opens a cache for a search at this time, or makes it and the directories above it.
    ///
    /// # Errors
    /// Why not: another search has it open, it is of another program, or the system's reason.
    pub fn open(path: &Path, now: SystemTime) -> Result<Self, String> {
        let reason =
            |error: &dyn std::fmt::Display| format!("{}: cannot open the cache of digests: {error}", path.display());
        let file = opened(path).map_err(|error| reason(&error))?;
        let again = file.try_clone().map_err(|error| reason(&error))?;
        let database = checked(file).map_err(|error| reason(&error))?;
        // One that an earlier version made may be open to others.
        let private = again.set_permissions(Permissions::from_mode(0o600));
        private.map_err(|error| reason(&error))?;
        let read = database.begin_read().map_err(|error| reason(&error))?;
        let rows = match read.open_table(FILES) {
            Err(TableError::TableDoesNotExist(_)) => None,
            opened => Some(opened.map_err(|error| reason(&error))?),
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            database,
            rows,
            systems: Mutex::default(),
            new: Mutex::default(),
            hits: AtomicU64::new(0),
            settled_before_ns: (now.as_nanos() as i64).saturating_sub(SETTLED_NS),
            today: (now.as_nanos() / DAY_NS) as u32,
        })
    }

    /// The digest of the beginning of a file.
    pub fn head(&self, number: u32, file: &Listed) -> Option<u64> {
        self.digests(number, file)?.0
    }

    /// The digest of all of a file.
    pub fn content(&self, number: u32, file: &Listed) -> Option<blake3::Hash> {
        let content = self.digests(number, file)?.1?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(blake3::Hash::from_bytes(content))
    }

    /// Whether the digest of all of a file is known.
    pub fn has_content(&self, number: u32, file: &Listed) -> bool {
        self.digests(number, file).is_some_and(|(_, content)| content.is_some())
    }

    fn digests(&self, number: u32, file: &Listed) -> Option<Digests<[u8; 32]>> {
        let row = self.rows.as_ref()?.get(self.key(file)?).ok()??;
        let (_, day, _) = row.value();
        let digests = still_true(row.value(), file)?;
        if day.abs_diff(self.today) >= NOTED_DAYS {
            self.added().push((number, None, None));
        }
        Some(digests)
    }

    pub fn add_heads(&self, heads: impl Iterator<Item = (u32, u64)>) {
        self.added()
            .extend(heads.map(|(number, digest)| (number, Some(digest), None)));
    }

    pub fn add_content(&self, number: u32, digest: blake3::Hash) {
        self.added().push((number, None, Some(Box::new(*digest.as_bytes()))));
    }

    /// Whether a file last changed long enough ago that any later change shows in its times.
    pub fn is_settled(&self, file: &Listed) -> bool {
        file.changed_ns < self.settled_before_ns
    }

    /// The identity of the file system of a device that was asked for before.
    pub fn system(&self, device: u64) -> Option<u64> {
        let systems = lock_mutex(&self.systems);
        systems.get(&device).copied()?
    }

    fn key(&self, file: &Listed) -> Option<Key> {
        Some((self.system(file.device)?, file.inode))
    }

    /// Adds what another store has, of files that are not here yet.
    pub fn import(&mut self, fill: impl FnOnce(&mut Import<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let transaction = self.database.begin_write()?;
        {
            let mut rows = transaction.open_table(FILES)?;
            let mut result = Ok(());
            let mut add = |key: Key, version: Version, (head, content): Digests<[u8; 32]>| -> Result<(), redb::Error> {
                if rows.get(key)?.is_none() {
                    rows.insert(key, (version, self.today, (head, content.as_ref())))?;
                }
                Ok(())
            };
            fill(&mut |key, version, digests| {
                if result.is_ok() {
                    result = add(key, version, digests);
                }
            })?;
            result?;
        }
        transaction.commit()?;
        self.rows = Some(self.database.begin_read()?.open_table(FILES)?);
        Ok(())
    }

    fn added(&self) -> MutexGuard<'_, Vec<NewDigests>> {
        lock_mutex(&self.new)
    }

    /// Number of digests of whole files that are from an earlier search.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Writes what was added, in one transaction; returns why that failed.
    pub fn save(&self, files: &Files) -> Option<String> {
        let mut new = std::mem::take(&mut *self.added());
        if new.is_empty() {
            return None;
        }
        new.sort_by_key(|(number, ..)| (files.get(*number).id(), *number));
        let saved = without_panic(|| self.write(files, &new).map_err(|error| error.to_string()));
        let path = self.path.display();
        saved
            .err()
            .map(|error| format!("{path}: cannot write to the cache of digests: {error}"))
    }

    fn write(&self, files: &Files, new: &[NewDigests]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut rows = transaction.open_table(FILES)?;
            for of_file in new.chunk_by(|one, other| one.0 == other.0) {
                let file = files.get(of_file[0].0);
                let Some(key) = self.key(file) else { continue };
                let old = rows.get(key)?;
                let old = old.and_then(|row| still_true(row.value(), file));
                let (mut head, mut content) = old.unwrap_or_default();
                for (_, new_head, new_content) in of_file {
                    head = new_head.or(head);
                    content = new_content.as_deref().copied().or(content);
                }
                rows.insert(key, (file.version(), self.today, (head, content.as_ref())))?;
            }
            let mut cleaned = transaction.open_table(CLEANED)?;
            let last = cleaned.get(())?.map_or(0, |day| day.value());
            if last.abs_diff(self.today) >= NOTED_DAYS {
                rows.retain(|_, (_, day, _)| day.saturating_add(KEPT_DAYS) >= self.today)?;
                cleaned.insert((), self.today)?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// What identifies the file system of a file or directory, whatever number its device has: its UUID; on btrfs the ID that
/// statfs(2) reports, which is made of the UUID and the number of the subvolume, as inode numbers are those of a subvolume. Images may have
/// a UUID of zeros: then the number of the device identifies it. `None` if it has no UUID.
pub(super) fn identity_of(file: &File) -> Option<u64> {
    let mut identity = if file_system_of(file).is_ok_and(|found| found.has(FileSystemTrait::Subvolumes)) {
        rustix::fs::fstatvfs(file).ok()?.f_fsid.to_le_bytes().to_vec()
    } else {
        let uuid = file_system_uuid(file).ok().and_then(Support::available);
        uuid.unwrap_or_default()
    };
    if identity.iter().all(|byte| *byte == 0) && !identity.is_empty() {
        identity.extend(file.metadata().ok()?.dev().to_le_bytes());
    }
    let digest = blake3::hash(&identity);
    let number = digest.as_bytes().first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    number.filter(|_| !identity.is_empty())
}

/// Opens a file of digests that only this user can read and write, or makes it. No link is followed.
fn opened(path: &Path) -> io::Result<File> {
    let above = path.parent().unwrap_or(path);
    let nearest = above.ancestors().find(|above| above.exists());
    if let Some(exposed) = WritableByOthers::on_the_way(nearest.unwrap_or(Path::new(".")))? {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("not trusted: {exposed}"),
        ));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    let mut options = OpenOptions::new();
    let made = options.read(true).write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_own(path, Access::Overwrite),
        made => made,
    }
}

/// Takes an open file as a database, and verifies its checksums.
fn checked(file: File) -> Result<Database, String> {
    let open = || -> Result<Database, DatabaseError> {
        let mut database = Database::builder().create_with_backend(FileBackend::new(file)?)?;
        database.check_integrity()?;
        Ok(database)
    };
    without_panic(|| open().map_err(|error| error.to_string()))
}

/// Calls the library, which may panic if the file is damaged.
pub(super) fn without_panic<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    std::panic::set_hook(hook);
    done.unwrap_or_else(|_| Err("it is damaged; remove it".to_owned()))
}

/// The digests of a row, if the file has not changed since.
fn still_true((known, _, (head, content)): RowOf<'_>, file: &Listed) -> Option<Digests<[u8; 32]>> {
    (known == file.version()).then(|| (head, content.copied()))
}

#[cfg(test)]
mod tests {
    use redb::ReadableTableMetadata;

    use super::*;

    /// A file keeps a row through all its changes, as long as searches find it.
    #[test]
    fn dupes_cache_replaces_changed_and_drops_gone_files() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cache");
        // All files are on one file system.
        let open = |path: &Path| {
            let cache = DigestCache::open(path, SystemTime::now()).unwrap();
            cache
                .systems
                .lock()
                .unwrap()
                .insert(Files::made(1, 1, |_| 1).get(0).device, Some(1));
            cache
        };
        let rows = |cache: &DigestCache| cache.rows.as_ref().map_or(0, |rows| rows.len().unwrap());
        for size in 1..6 {
            let files = Files::made(1, 100, |_| size);
            let cache = open(&path);
            assert_eq!(rows(&cache), if size == 1 { 0 } else { 100 });
            assert_eq!(cache.head(7, files.get(7)), None);
            cache.add_heads((0..100).map(|number| (number, u64::from(number) + size)));
            cache.add_content(7, blake3::hash(&[size as u8]));
            assert_eq!(cache.save(&files), None);
        }
        let files = Files::made(1, 100, |_| 5);
        for (day, expected) in [(0, 100), (29, 100), (31, 100), (200, 100), (400, 10)] {
            let mut cache = open(&path);
            cache.today += day;
            assert_eq!(rows(&cache), 100);
            for number in 0..if day < 100 { 100 } else { 10 } {
                assert_eq!(cache.head(number, files.get(number)), Some(u64::from(number) + 5));
            }
            assert_eq!(cache.content(7, files.get(7)), Some(blake3::hash(&[5])));
            assert_eq!(cache.save(&files), None);
            drop(cache);
            assert_eq!(
                rows(&DigestCache::open(&path, SystemTime::now()).unwrap()),
                expected,
                "{day}"
            );
        }
    }
}
