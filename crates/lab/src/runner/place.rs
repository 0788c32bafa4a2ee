//! A measured storage: its directory, its facts, and the test files there.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use seekless::cache::{self, CachedFile};
use seekless::method::{CachePolicy, Choice, Operation};
use seekless::{Availability, Method, Probe, StorageFacts, full_text};
use seekless_record as record;

use super::first_touch::FirstTouch;
use super::tree::Tree;
use super::{Bench, BenchError, identity};
use crate::layout::{self, Layout};
use crate::scratch::{Scratch, TREE_PREFIX};
use crate::testfile::{TestFile, failed};
use crate::trial::LaunchStop;

/// Files in each directory of a tree.
const FILES_OF_DIRECTORY: u32 = 100;

/// A kind of test files, which are made once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TestFiles {
    /// Bytes of each.
    pub bytes: u64,
    pub count: u32,
    pub layout: Layout,
    pub role: Role,
    /// Whether they are in a directory tree of their own, for commands that take a tree.
    pub is_tree: bool,
}

/// The role of test files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// They are read.
    Source,
    /// They are compared with the sources, and differ at this place.
    Second(record::Differ),
    /// They are overwritten at random places, in blocks of this many bytes.
    Overwritten(u64),
}

impl TestFiles {
    /// The kinds of files that a contest needs before its trials, each with its storage. Files to update or overwrite
    /// sequentially are made for each trial.
    pub fn of(contest: &record::Contest) -> impl Iterator<Item = (usize, Self)> {
        let source = (contest.storage, Role::Source);
        let roles = match (contest.operation, contest.random) {
            // The user's.
            _ if contest.tree.is_some() => Vec::new(),
            (Operation::Read | Operation::Copy, _) => vec![source],
            (Operation::Compare, _) if contest.differ == record::Differ::Itself => vec![source],
            (Operation::Compare, _) => {
                let storage = contest.other_storage.unwrap_or(contest.storage);
                vec![source, (storage, Role::Second(contest.differ))]
            }
            (Operation::Write, Some(random)) => vec![(contest.storage, Role::Overwritten(random.block_bytes))],
            (Operation::Write, None) | (Operation::Update, _) => Vec::new(),
        };
        let made = Self {
            bytes: contest.size_bytes,
            count: contest.files,
            layout: layout_of(contest),
            role: Role::Source,
            is_tree: contest
                .entries
                .iter()
                .any(|entry| entry.command().is_some_and(record::Command::takes_tree)),
        };
        let of_role = move |(storage, role)| (storage, Self { role, ..made.clone() });
        roles.into_iter().map(of_role)
    }

    /// Bytes that are written to make all of them.
    pub fn written_bytes(&self) -> u64 {
        let times = if self.layout == Layout::Fragmented { 2 } else { 1 };
        let of_one = self.layout.own_bytes().unwrap_or(self.bytes) - self.layout.hole_bytes();
        of_one.saturating_mul(times * u64::from(self.count))
    }

    /// The name of one of them, with the prefix of its kind. In a tree, all kinds have the same names in their own
    /// directories.
    fn name(&self, kind: &str, index: u32) -> String {
        if self.is_tree {
            let (directory, file) = (index / FILES_OF_DIRECTORY, index % FILES_OF_DIRECTORY);
            format!("{TREE_PREFIX}{kind}/{directory:04}/{file:02}")
        } else {
            format!("{kind}-{index}")
        }
    }

    /// Makes one of them. If the file system creates another layout, returns a sentence.
    fn create(&self, path: &Path, seed: u64) -> seekless::Result<Result<TestFile, String>> {
        if !self.is_tree {
            return self.create_file(path, seed);
        }
        let directory = path.parent().unwrap_or(path);
        fs::create_dir_all(directory).map_err(|source| failed(path, "create its directory", source))?;
        let made = self.create_file(path, seed)?;
        // Some programs compare the times of files, too.
        let set = fs::File::open(path).and_then(|file| file.set_modified(std::time::UNIX_EPOCH));
        set.map(|()| made)
            .map_err(|source| failed(path, "set its time", source))
    }

    fn create_file(&self, path: &Path, seed: u64) -> seekless::Result<Result<TestFile, String>> {
        match self.role {
            Role::Source | Role::Second(record::Differ::None) if self.is_tree && self.layout == Layout::Dense => {
                TestFile::create_unsynced(path, self.bytes, seed).map(Ok)
            }
            Role::Source => TestFile::create_as(path, &self.layout, self.bytes, seed),
            Role::Second(_) if self.layout != Layout::Dense => {
                TestFile::create_as(path, &self.layout, self.bytes, seed)
            }
            Role::Second(differ) => TestFile::create_second(path, self.bytes, seed, differ).map(Ok),
            Role::Overwritten(block_bytes) => TestFile::create_blocks(path, self.bytes, block_bytes, seed).map(Ok),
        }
    }
}

/// The layout of a contest's files. Its text is valid, because a run with an invalid one is not resumed.
pub(super) fn layout_of(contest: &record::Contest) -> Layout {
    let layout = contest.layout.as_deref().and_then(|text| text.parse().ok());
    layout.unwrap_or_default()
}

/// A measured storage.
pub(super) struct Place {
    pub directory: PathBuf,
    pub facts: StorageFacts,
    /// Our scratch directory; `None` if only existing files are read.
    pub scratch: Option<Scratch>,
    /// Whether files can be dropped from the page cache here (not on tmpfs).
    pub has_cold: bool,
    probe: Option<Probe>,
    files: BTreeMap<TestFiles, Vec<TestFile>>,
    /// How often files were made, used for unique names.
    times_made: u32,
    /// For each tested layout, why it is unavailable here; `None` if it is available.
    layouts: BTreeMap<Layout, Option<String>>,
    /// Files of the user that are read once.
    pub first_touch: Option<FirstTouch>,
    /// Directories of the user that commands read, by their paths.
    pub trees: BTreeMap<String, Tree>,
}

impl Place {
    /// All requested storages, without reading or creating files. That of the second files of comparisons comes last,
    /// if it is another.
    pub fn find_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        match (&bench.file, &bench.first_touch) {
            (Some(file), _) => {
                // Refused unless it is a regular file.
                CachedFile::open(file)?;
                Ok(vec![Self::new(file, StorageFacts::of(file)?, true)])
            }
            (None, Some(directory)) => Ok(vec![Self::found(directory)?]),
            (None, None) => {
                let directories = bench.directories.iter().chain(&bench.other);
                directories.map(|directory| Self::found(directory)).collect()
            }
        }
    }

    /// The same, ready for trials.
    pub fn open_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        let open = match (&bench.file, &bench.first_touch) {
            (Some(_), _) => Self::with_file,
            (None, Some(_)) => Ok,
            (None, None) => Self::with_scratch,
        };
        Self::find_all(bench)?.into_iter().map(open).collect()
    }

    /// A directory, without files created in it.
    fn found(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.to_owned();
        match fs::metadata(directory) {
            Err(source) => Err(BenchError::Look { path, source }),
            Ok(metadata) if !metadata.is_dir() => Err(BenchError::NotADirectory(path)),
            Ok(_) => Ok(Self::new(directory, StorageFacts::of(directory)?, true)),
        }
    }

    fn with_scratch(self) -> Result<Self, BenchError> {
        let path = self.directory.clone();
        if self.facts.read_only {
            return Err(BenchError::ReadOnly(path));
        }
        if self.facts.free_bytes < LEAST_FREE_BYTES {
            return Err(BenchError::NoSpace {
                path,
                needed_bytes: LEAST_FREE_BYTES,
                free_bytes: self.facts.free_bytes,
            });
        }
        let scratch = Scratch::new(&path).map_err(|source| BenchError::NoTestFiles { path, source })?;
        Ok(Self {
            probe: Some(Probe::new(scratch.path())?),
            has_cold: can_be_cold(scratch.path()),
            scratch: Some(scratch),
            ..self
        })
    }

    fn new(directory: &Path, facts: StorageFacts, has_cold: bool) -> Self {
        Self {
            directory: directory.to_owned(),
            facts,
            scratch: None,
            has_cold,
            probe: None,
            files: BTreeMap::new(),
            times_made: 0,
            layouts: BTreeMap::new(),
            first_touch: None,
            trees: BTreeMap::new(),
        }
    }

    fn with_file(self) -> Result<Self, BenchError> {
        let test_file = TestFile::describe(&self.directory)?;
        if test_file.bytes == 0 {
            return Err(BenchError::Empty(self.directory));
        }
        let given = TestFiles {
            bytes: test_file.bytes,
            count: 1,
            layout: Layout::Dense,
            role: Role::Source,
            is_tree: false,
        };
        Ok(Self {
            has_cold: cache::drop_file(&self.directory)?.part().is_none_or(|part| part == 0.0),
            files: BTreeMap::from([(given, vec![test_file])]),
            ..self
        })
    }

    /// Whether a method is available here. Without a directory for testing, the trial shows it.
    pub fn availability(&mut self, method: &Method) -> Availability {
        self.probe
            .as_mut()
            .map_or(Availability::Available, |probe| probe.availability(method))
    }

    /// The files of a kind; makes those that do not exist yet.
    pub fn files(
        &mut self,
        wanted: &TestFiles,
        seed: u64,
        stop: &LaunchStop,
    ) -> Result<&mut Vec<TestFile>, BenchError> {
        self.forget_changed(wanted);
        if !self.files.contains_key(wanted) {
            if let Some(Some(why)) = self.layouts.get(&wanted.layout) {
                return Err(self.refused(&wanted.layout, why.clone()));
            }
            self.times_made += 1;
            let kind = format!("test-{}-{}", wanted.bytes, self.times_made);
            let mut made = Vec::new();
            for index in 0..wanted.count {
                if stop.is_requested() {
                    return Err(BenchError::Stopped);
                }
                let path = self.path(&wanted.name(&kind, index));
                let file = wanted.create(&path, stream_seed(seed, wanted.bytes, index))?;
                made.push(file.map_err(|why| {
                    // Earlier files of this kind do no harm.
                    self.layouts.insert(wanted.layout.clone(), Some(why.clone()));
                    self.refused(&wanted.layout, why)
                })?);
            }
            self.files.insert(wanted.clone(), made);
        }
        Ok(self.files.entry(wanted.clone()).or_default())
    }

    /// The files of a kind that exist.
    pub fn made(&self, wanted: &TestFiles) -> &[TestFile] {
        self.files.get(wanted).map_or(&[], Vec::as_slice)
    }

    /// Removes the files of a kind, so that they are made again.
    pub fn remove(&mut self, files: &TestFiles) {
        for file in self.files.remove(files).into_iter().flatten() {
            let _ = fs::remove_file(file.path);
        }
    }

    /// Removes files that lost their layout, because reading a map fills holes on tmpfs.
    fn forget_changed(&mut self, wanted: &TestFiles) {
        let is_as_made = |file: &TestFile| layout::verify(&file.path, &wanted.layout).is_ok_and(|found| found.is_ok());
        if wanted.layout != Layout::Dense && !self.made(wanted).iter().all(is_as_made) {
            self.remove(wanted);
        }
    }

    fn refused(&self, layout: &Layout, why: String) -> BenchError {
        BenchError::Layout {
            path: self.directory.clone(),
            layout: layout.to_string(),
            why,
        }
    }

    /// Why files of a layout cannot be created here, tested with a small file.
    pub fn refuses_layout(&mut self, layout: &Layout) -> Option<String> {
        let (sample, bytes) = layout.sample()?;
        let path = self.scratch.as_ref()?.path().join("layout");
        let tried = self.layouts.entry(layout.clone()).or_insert_with(|| {
            let made = TestFile::create_as(&path, &sample, bytes, 1);
            let _ = fs::remove_file(&path);
            match made {
                Ok(made) => made.err(),
                Err(error) => Some(format!("cannot try the layout: {}", full_text(&error))),
            }
        });
        tried.clone()
    }

    /// The size of the existing files to read.
    pub fn given_bytes(&self) -> Option<u64> {
        Some(self.given()?.0)
    }

    /// The size of the existing files, and how many a trial reads.
    pub fn given(&self) -> Option<(u64, u32)> {
        let first_touch = self
            .first_touch
            .as_ref()
            .map(|files| (files.bytes, files.files_per_trial));
        first_touch.or_else(|| {
            let file = self.files.keys().next().filter(|_| self.scratch.is_none())?;
            Some((file.bytes, file.count))
        })
    }

    /// The path of a file in our scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.as_ref().map_or(&*self.directory, Scratch::path).join(name)
    }

    /// Whether reads of a process are counted by a device of this machine.
    pub fn tells_source(&self) -> bool {
        let file_system = self.facts.file_system.as_str();
        self.facts.has_block_device && !self.facts.is_network && !file_system.starts_with("fuse")
    }

    /// The backing file of a loop device: a file that is cold on the loop may be warm there.
    pub fn backing_file(&self) -> Option<&Path> {
        self.facts.device.as_ref()?.backing_file.as_deref()
    }

    /// Whether the page cache is the only cache here, so that residency distinguishes cold and warm.
    pub fn tells_residency(&self) -> bool {
        let file_system = self.facts.file_system.as_str();
        !self.facts.is_network && file_system != "zfs" && !file_system.starts_with("fuse")
    }

    /// Why a method makes no sense in a cache state.
    pub fn refuses(&self, choice: Option<&Choice>, cache: record::Cache) -> Option<String> {
        let method = choice.and_then(Choice::method);
        let is_direct = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
        let reads = choice.is_none_or(|choice| choice.operation() != Operation::Write);
        let updates = choice.is_some_and(|choice| choice.operation() == Operation::Update);
        match cache {
            record::Cache::FirstTouch if self.first_touch.is_none() => {
                Some("a first touch needs existing files".to_owned())
            }
            record::Cache::Over if updates => Some("files to update can only be cold or warm".to_owned()),
            record::Cache::Cold if !self.has_cold => Some(format!(
                "{} keeps its files in memory, so nothing is cold",
                self.facts.file_system
            )),
            record::Cache::Over if !self.has_cold => Some(format!(
                "{} keeps its files in memory, so no file exceeds it",
                self.facts.file_system
            )),
            record::Cache::Warm if is_direct && reads => {
                Some("direct I/O reads the device whatever is in memory: see the cold contest".to_owned())
            }
            _ => None,
        }
    }

    pub fn record(&self) -> record::Storage {
        let facts = &self.facts;
        record::Storage {
            path: self.directory.to_string_lossy().into_owned(),
            file_system: facts.file_system.clone(),
            mount_options: facts.mount_options.clone(),
            mount_point: facts
                .mount_point
                .as_ref()
                .map(|point| point.to_string_lossy().into_owned()),
            block_bytes: Some(facts.block_bytes),
            free_bytes: Some(facts.free_bytes),
            // Directories have no alignment, so it is read from the given file, or the first one made.
            direct_alignment_bytes: self
                .given_bytes()
                .and_then(|_| seekless::direct_alignment(&self.directory)),
            device: facts.device.as_ref().map(|device| record::Device {
                name: device.name.clone(),
                below: device.disk_names(),
                model: device.model.clone(),
                claims_rotational: device.claims_rotational,
                is_virtual: device.is_virtual,
                scheduler: device.scheduler.clone(),
                read_ahead_kib: device.read_ahead_kib,
                logical_block_bytes: device.logical_block_bytes,
                max_request_kib: device.max_request_kib,
                write_cache: device.write_cache.clone(),
            }),
            id: Some(identity::of(&self.directory, facts)),
            ..record::Storage::default()
        }
    }
}

/// The seed of a file's stream. Each file has its own bytes, because some storages de-duplicate blocks.
fn stream_seed(seed: u64, bytes: u64, index: u32) -> u64 {
    seed.wrapping_add(bytes).wrapping_add(u64::from(index))
}

/// The least free space for measuring the speed.
const LEAST_FREE_BYTES: u64 = 64 << 20;

/// Whether a file can be dropped from the page cache here.
fn can_be_cold(directory: &Path) -> bool {
    let path = directory.join("cold");
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(&[1; 4096]));
    let dropped = written.is_ok().then(|| cache::drop_file(&path).ok()).flatten();
    let _ = fs::remove_file(&path);
    dropped.is_none_or(|resident| resident.part().is_none_or(|part| part == 0.0))
}
