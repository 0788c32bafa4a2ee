//! The profiles of storages, made again from the runs whenever one is saved or removed.
//!
//! An index says which runs are of which storage, so that a bench reads the documents of its own storage only. It is made again if it
//! cannot be read.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::OFlags;
use seekless_engine::files::WritableByOthers;
use seekless_engine::profile::{MOST_BORROWED, ProfileMismatch, StorageProfile, directory_of_borrowed, file_name};
use seekless_record::{DocumentError, MAX_PROFILE_BYTES, Profile, Run, Storage};
use seekless_results::{Origin, digest};
use serde::{Deserialize, Serialize};

use super::{
    BESIDE, Store, StoreError, list, make_directory, malformed, read, remove_if_there, system, write_as_new,
    written_beside,
};

/// A profile uses at most this many runs of its storage, the newest ones.
const MOST_RUNS: usize = 64;
/// The largest index that is read.
const MAX_INDEX_BYTES: usize = 64 << 20;

/// What is known of the saved runs without reading them, by ID.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct RunIndex(BTreeMap<String, IndexedRun>);

/// The names of the profiles of a document that has this size and was modified at this time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexedRun {
    bytes: u64,
    modified_ns: u64,
    profiles: Vec<String>,
}

impl Store {
    /// Makes the profiles of these storages in a directory again, after a run was saved or removed. Returns their files. A profile that
    /// is damaged, or was written by a newer version, is an error and stays.
    pub fn renew_profiles(&self, storages: &[Storage], directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
        make_directory(directory)?;
        self.renew(storages, directory, PRIVATE)
    }

    /// The same in the system's directory, for all users to read.
    pub fn renew_shared_profiles(&self, storages: &[Storage], directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
        make_shared_directory(directory)?;
        self.renew(storages, directory, SHARED)
    }

    fn renew(&self, storages: &[Storage], directory: &Path, mode: u32) -> Result<Vec<PathBuf>, StoreError> {
        let lock = directory.join(".lock");
        let _lock = locked(&lock, PATIENCE).map_err(system(&lock, "lock"))?;
        let mut written = Vec::new();
        for storage in storages {
            let Some(name) = name_of(storage) else { continue };
            let path = directory.join(&name);
            match StorageProfile::read(&path) {
                // It is made again, and so is one of an older version.
                Err(ProfileMismatch::Document(_, DocumentError::Older { .. })) => {}
                Err(ProfileMismatch::Document(_, source)) => return Err(malformed(&path)(source)),
                Err(ProfileMismatch::Unreadable(_, source)) => return Err(system(&path, "use")(source)),
                _ if written.contains(&path) => continue,
                _ => {}
            }
            let profiles = digest(&self.runs_of(&name)?);
            // The newest comes first; older ones are of other kernels, for example.
            let is_its = |profile: &&Profile| {
                let head = &profile.head;
                let options = head.mount_options.as_deref();
                file_name(&head.storage, head.mount_point.as_deref(), options) == name
            };
            match profiles.iter().find(is_its) {
                Some(profile) => {
                    write_over(&path, profile.to_text().map_err(malformed(&path))?.as_bytes(), mode)?;
                    written.push(path);
                }
                None => remove_if_there(&path)?,
            }
        }
        tidy(directory);
        Ok(written)
    }

    /// The newest runs on a storage, the newest first, by the name of its profile and the index, which is brought up to date.
    pub fn runs_of(&self, name: &String) -> Result<Vec<Run>, StoreError> {
        let index_path = self.directory.join("index.json");
        let before = read(&index_path, MAX_INDEX_BYTES).unwrap_or_default();
        let mut known: RunIndex = serde_json::from_slice(&before).unwrap_or_default();
        let mut index = RunIndex::default();
        let mut runs = Vec::new();
        let mut documents = list(&self.directory_of(Origin::Own), Origin::Own)?;
        documents.sort_by(|one, other| other.id.cmp(&one.id));
        for document in documents {
            let Some(now) = state(&document.path) else { continue };
            let indexed = known.0.remove(&document.id);
            let indexed = indexed.filter(|indexed| (indexed.bytes, indexed.modified_ns) == now);
            let is_of_it = |indexed: &IndexedRun| indexed.profiles.contains(name);
            let is_wanted = indexed.as_ref().is_none_or(is_of_it) && runs.len() < MOST_RUNS;
            // Documents that cannot be read, or that others could have written, are skipped.
            let run = is_wanted.then(|| document.read_own().ok()).flatten();
            let indexed = indexed.or_else(|| Some(IndexedRun::of(run.as_ref()?, now)));
            let is_here = indexed.as_ref().is_some_and(is_of_it);
            runs.extend(run.filter(|run| is_here && !run.alone));
            index.0.extend(indexed.map(|indexed| (document.id, indexed)));
        }
        let text = serde_json::to_vec(&index).map_err(|error| malformed(&index_path)(error.into()))?;
        if text != before {
            write_over(&index_path, &text, PRIVATE)?;
        }
        Ok(runs)
    }
}

impl IndexedRun {
    fn of(run: &Run, (bytes, modified_ns): (u64, u64)) -> Self {
        Self {
            bytes,
            modified_ns,
            profiles: run.storages.iter().filter_map(name_of).collect(),
        }
    }
}

/// Of profiles of storages without a UUID, at most this many are kept, the newest ones: a mount point may never be used again.
const MOST_WITHOUT_UUID: usize = 64;

/// Removes the files that killed processes left, which holders of the lock do not write any more, and profiles beyond that number.
fn tidy(directory: &Path) {
    let mut without_uuid = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with(BESIDE) {
            let _ = fs::remove_file(path);
        } else if name.contains("-none-") {
            without_uuid.push((entry.metadata().and_then(|found| found.modified()).ok(), path));
        }
    }
    without_uuid.sort_by(|one, other| other.cmp(one));
    let beyond = without_uuid.iter().skip(MOST_WITHOUT_UUID);
    for (_, path) in beyond.filter(|(_, path)| StorageProfile::read(path).is_ok()) {
        let _ = fs::remove_file(path);
    }
}

/// The name of the profile of a storage that can be identified.
fn name_of(storage: &Storage) -> Option<String> {
    let options = storage.mount_options.as_deref();
    Some(file_name(storage.id.as_ref()?, storage.mount_point.as_deref(), options))
}

/// How long another process may take to renew its profiles.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes the lock, so that the process that lists the runs last also writes last. Fails on a FIFO or a symbolic link
/// instead of waiting for or following it.
fn locked(path: &Path, patience: Duration) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut open = File::options();
    open.write(true).create(true).truncate(false).mode(0o600);
    let file = open.custom_flags(flags.bits().cast_signed()).open(path)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => std::thread::sleep(patience / 100),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(ErrorKind::TimedOut, "another process holds the lock"));
            }
        }
    }
}

/// The size of a file, and when it was modified.
fn state(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    let modified = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((found.len(), modified.as_nanos().try_into().ok()?))
}

/// The modes of files for this user only, and for all to read.
const PRIVATE: u32 = 0o600;
const SHARED: u32 = 0o644;

/// Creates a directory that all users may read, whatever the umask; one that exists stays as it is. Where others could write, nobody
/// would read the profiles.
fn make_shared_directory(directory: &Path) -> Result<(), StoreError> {
    let missing = directory.ancestors().take_while(|directory| !directory.exists());
    let missing: Vec<&Path> = missing.collect();
    for directory in missing.into_iter().rev() {
        let made = fs::create_dir(directory);
        made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o755)))
            .map_err(system(directory, "create"))?;
    }
    match WritableByOthers::on_the_way(directory).map_err(system(directory, "examine"))? {
        Some(exposed) => {
            let source = io::Error::new(ErrorKind::PermissionDenied, exposed.to_string());
            Err(system(directory, "keep profiles in")(source))
        }
        None => Ok(()),
    }
}

/// Writes a file as a whole, over the one of this name.
fn write_over(path: &Path, text: &[u8], mode: u32) -> Result<(), StoreError> {
    let beside = written_beside(path.parent().unwrap_or(path), text)?;
    let set = beside.as_file().set_permissions(Permissions::from_mode(mode));
    let persisted = set.and_then(|()| beside.persist(path).map_err(|error| error.error));
    persisted.map(drop).map_err(system(path, "write"))
}

/// Imports a profile of another storage into a directory of profiles, under the name of its file. Returns its new file, and whether it
/// is new. It is checked, and what identifies the storage is left out.
///
/// # Errors
/// If the file cannot be read or is not a profile, or the new file cannot be written; [`StoreError::FullOfProfiles`].
pub fn import_profile(file: &Path, directory: &Path) -> Result<(PathBuf, bool), StoreError> {
    let profile = Profile::from_text(&read(file, MAX_PROFILE_BYTES)?).map_err(malformed(file))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let text = profile.anonymous().to_text().map_err(malformed(file))?;
    borrow(&text, &name, directory, false)
}

/// Keeps a profile that was fetched under a name, as [`import_profile`] does, in place of the one that was fetched before.
///
/// # Errors
/// If it cannot be written; [`StoreError::FullOfProfiles`].
pub fn keep_fetched_profile(profile: Profile, name: &str, directory: &Path) -> Result<(PathBuf, bool), StoreError> {
    let text = profile.anonymous().to_text().map_err(malformed(Path::new(name)))?;
    borrow(&text, name, directory, true)
}

fn borrow(text: &str, name: &str, directory: &Path, replaces: bool) -> Result<(PathBuf, bool), StoreError> {
    make_directory(directory)?;
    let lock = directory.join(".lock");
    let _lock = locked(&lock, PATIENCE).map_err(system(&lock, "lock"))?;
    let directory = directory_of_borrowed(directory);
    make_directory(&directory)?;
    tidy(&directory);
    let present = fs::read_dir(&directory).map_err(system(&directory, "list"))?.flatten();
    let present: Vec<PathBuf> = present.map(|entry| entry.path()).collect();
    let is_same = |path: &&PathBuf| read(path, MAX_PROFILE_BYTES).is_ok_and(|found| found == text.as_bytes());
    if let Some(same) = present.iter().find(is_same) {
        return Ok((same.clone(), false));
    }
    let name = super::file_name(name);
    let path = directory.join(format!("{name}.json"));
    if replaces && present.contains(&path) {
        write_over(&path, text.as_bytes(), PRIVATE)?;
        return Ok((path, true));
    }
    if present.len() >= MOST_BORROWED {
        return Err(StoreError::FullOfProfiles(directory));
    }
    Ok((write_as_new(&directory, &name, text.as_bytes())?, true))
}

#[cfg(test)]
mod tests {
    use seekless_record::PROFILE_VERSION;
    use seekless_results::simulation;

    use super::*;

    fn run(number: u32) -> Run {
        let mut run = simulation::run(&[("read/sync,block=1M", 2.0), ("read/mmap", 1.0)], 8);
        let full = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        for entry in &mut run.contests[0].entries {
            entry.summary.clone_from(&full.contests[0].entries[0].summary);
        }
        let started = format!("2026-11-20T{:02}:00:00Z", number % 24);
        simulation::sitting(run, format!("2026-{number:03}"), started)
    }

    /// A store and the profiles of its runs, of which the first is saved.
    struct Stored {
        place: tempfile::TempDir,
        store: Store,
        directory: PathBuf,
    }

    impl Stored {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let store = Store::new(place.path().join("data"));
            store.save(&run(1)).unwrap();
            let directory = place.path().join("profiles");
            Self {
                place,
                store,
                directory,
            }
        }

        fn renewed(&self) -> Result<Vec<PathBuf>, StoreError> {
            self.store.renew_profiles(&run(1).storages, &self.directory)
        }

        fn profile(&self) -> PathBuf {
            self.renewed().unwrap().remove(0)
        }

        fn remove(&self, id: &str) {
            self.store.remove(&self.store.find(id.as_ref()).unwrap()).unwrap();
        }
    }

    fn make_fifo(path: &Path) {
        let status = std::process::Command::new("mkfifo").arg(path).status();
        assert!(status.unwrap().success());
    }

    fn sittings(path: &Path) -> u32 {
        StorageProfile::read(path).unwrap().head.sittings
    }

    #[test]
    fn a_profile_follows_the_runs_that_are_saved_and_removed() {
        let stored = Stored::new();
        let path = stored.profile();
        assert_eq!(sittings(&path), 1);
        stored.store.save(&run(3)).unwrap();
        stored.profile();
        assert_eq!(sittings(&path), 2);
        let index = || fs::read(stored.place.path().join("data/index.json")).unwrap();
        let before = index();
        stored.remove("2026-003");
        stored.profile();
        assert_eq!(sittings(&path), 1);
        assert_ne!(index(), before);
        stored.remove("2026-001");
        assert!(stored.renewed().unwrap().is_empty() && !path.exists());
    }

    #[test]
    fn profile_import_is_kept_apart_without_storage_identity() {
        let stored = Stored::new();
        let (path, directory) = (stored.profile(), stored.place.path().join("elsewhere"));
        let named = stored.place.path().join("a b.json");
        fs::copy(&path, &named).unwrap();
        let (imported, is_new) = import_profile(&named, &directory).unwrap();
        assert_eq!((&imported, is_new), (&directory.join("borrowed/a_b.json"), true));
        assert_eq!(import_profile(&named, &directory).unwrap(), (imported.clone(), false));
        let found = StorageProfile::read(&imported).unwrap();
        assert!(found.is_borrowed() && found.head.storage.uuid.is_none() && found.head.mount_point.is_none());
        assert!(!fs::read_to_string(&imported).unwrap().contains("0-1"));
        for text in [String::new(), "{".to_owned(), fs::read_to_string(&path).unwrap() + "x"] {
            fs::write(&named, text).unwrap();
            import_profile(&named, &directory).unwrap_err();
        }
        assert_eq!(fs::read_dir(directory.join("borrowed")).unwrap().count(), 1);
        for number in 1..=MOST_BORROWED {
            let mut profile = found.profile();
            profile.head.newest_unix_seconds = number as u64;
            fs::write(&named, profile.to_text().unwrap()).unwrap();
            let imported = import_profile(&named, &directory);
            assert_eq!(imported.is_ok(), number < MOST_BORROWED, "{number}");
        }
    }

    #[test]
    fn a_shared_profile_can_be_read_by_all_and_written_by_its_owner() {
        let Stored { place, store, .. } = Stored::new();
        let directory = place.path().join("lib/profiles");
        let renewed = || store.renew_shared_profiles(&run(1).storages, &directory);
        let path = renewed().unwrap().remove(0);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let modes = [&path, &directory, &place.path().join("lib")].map(|path| mode(path));
        assert_eq!(modes, [0o644, 0o755, 0o755]);
        assert_eq!(sittings(&path), 1);
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        let refused = renewed().unwrap_err();
        assert!(matches!(refused, StoreError::System { .. }), "{refused}");
    }

    #[test]
    fn a_profile_that_is_damaged_or_newer_is_named_and_stays() {
        let stored = Stored::new();
        let path = stored.profile();
        let text = fs::read_to_string(&path).unwrap();
        let version = format!("\"version\":{PROFILE_VERSION}");
        for changed in ["{".to_owned(), text.replacen(&version, "\"version\":99", 1)] {
            fs::write(&path, &changed).unwrap();
            let refused = stored.renewed().unwrap_err();
            assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), changed);
        }
        fs::write(&path, text.replacen(&version, "\"version\":1", 1)).unwrap();
        stored.profile();
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "an older one is made again");
        // An index that cannot be read is made again.
        fs::remove_file(&path).unwrap();
        fs::write(stored.place.path().join("data/index.json"), "{").unwrap();
        stored.profile();
        assert_eq!(sittings(&path), 1);
    }

    #[test]
    fn profile_of_the_newest_run_stays_when_older_ones_go() {
        let stored = Stored::new();
        let (store, directory) = (&stored.store, &stored.directory);
        stored.remove("2026-001");
        let of_kernel = |number: u32, kernel: &str| {
            let mut run = run(number);
            run.storages[0].id.as_mut().unwrap().kernel = kernel.to_owned();
            run
        };
        let older = [1, 3].map(|number| of_kernel(number, "6.1"));
        let newest = of_kernel(5, "6.18");
        for run in older.iter().chain([&newest]) {
            store.save(run).unwrap();
        }
        let path = store.renew_profiles(&newest.storages, directory).unwrap().remove(0);
        let before = fs::read(&path).unwrap();
        stored.remove("2026-001");
        store.renew_profiles(&older[0].storages, directory).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn profiles_prune_leftovers_and_the_oldest_without_a_uuid() {
        let stored = Stored::new();
        let (path, directory) = (stored.profile(), &stored.directory);
        let text = fs::read(&path).unwrap();
        let tmpfs = |number: usize| directory.join(format!("tmpfs-none-{number:08x}.json"));
        let now = std::time::SystemTime::now();
        for number in 0..=MOST_WITHOUT_UUID + 1 {
            fs::write(tmpfs(number), if number == 1 { b"{" } else { &*text }).unwrap();
            let made = now - Duration::from_secs(1000 - number as u64);
            File::open(tmpfs(number)).unwrap().set_modified(made).unwrap();
        }
        fs::write(directory.join(".seekless-a1b2c3"), "{").unwrap();
        stored.profile();
        assert!(!directory.join(".seekless-a1b2c3").exists() && path.exists());
        assert!(!tmpfs(0).exists() && tmpfs(2).exists());
        assert!(tmpfs(1).exists(), "what cannot be read is left alone");
    }

    #[test]
    fn what_a_killed_import_left_is_no_profile() {
        let stored = Stored::new();
        let (file, directory) = (stored.profile(), &stored.directory);
        let (imported, is_new) = import_profile(&file, directory).unwrap();
        assert!(is_new);
        let left = imported.with_file_name(".seekless-left");
        fs::rename(&imported, &left).unwrap();
        make_fifo(&imported.with_file_name("fifo.json"));
        assert!(import_profile(&file, directory).unwrap().1 && !left.exists());
    }

    #[test]
    fn nobody_waits_long_for_a_lock_or_for_what_is_none() {
        let place = tempfile::tempdir().unwrap();
        let lock = place.path().join(".lock");
        let locked = || locked(&lock, Duration::from_millis(50));
        let held = locked().unwrap();
        assert_eq!(locked().unwrap_err().kind(), ErrorKind::TimedOut);
        drop(held);
        locked().unwrap();
        fs::remove_file(&lock).unwrap();
        make_fifo(&lock);
        locked().unwrap_err();
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(place.path().join("elsewhere"), &lock).unwrap();
        locked().unwrap_err();
        assert!(!place.path().join("elsewhere").exists());
    }

    #[test]
    fn profile_misses_none_of_two_benches_that_end_together() {
        for _ in 0..if crate::is_long() { 10 } else { 2 } {
            let stored = Stored::new();
            let paths = std::thread::scope(|scope| {
                let bench = |number: u32| {
                    let Stored { store, directory, .. } = &stored;
                    scope.spawn(move || {
                        store.save(&run(number)).unwrap();
                        store.renew_profiles(&run(number).storages, directory).unwrap()
                    })
                };
                let benches = [3, 5, 7].map(bench);
                benches.map(|bench| bench.join().unwrap())
            });
            assert_eq!(sittings(&paths[0][0]), 4);
        }
    }
}
