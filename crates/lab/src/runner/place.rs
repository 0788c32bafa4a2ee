//! A storage under measurement: its directory, its facts, and the test files made there.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use seekless::cache::{self, CachedFile};
use seekless::method::{CachePolicy, Choice, Operation};
use seekless::{Availability, Method, Probe, StorageFacts};
use seekless_record as record;

use super::first_touch::FirstTouch;
use super::{Bench, BenchError, identity};
use crate::layout::{self, Layout};
use crate::scratch::Scratch;
use crate::testfile::{OtherFile, Overwritten, TestFile};

/// What files are read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceFiles {
    /// Bytes of each.
    pub bytes: u64,
    pub count: u32,
    pub layout: Layout,
}

impl SourceFiles {
    /// Those of a contest, whose layout is one: a run that was changed by hand is not gone on with.
    pub fn of(contest: &record::Contest) -> Self {
        let layout = contest.layout.as_deref().and_then(|text| text.parse().ok());
        Self {
            bytes: contest.size_bytes,
            count: contest.files,
            layout: layout.unwrap_or_default(),
        }
    }

    /// Bytes that are written to make all of them.
    pub fn written_bytes(&self) -> u64 {
        let times = if self.layout == Layout::Fragmented { 2 } else { 1 };
        let of_one = times * self.layout.own_bytes().unwrap_or(self.bytes) - self.layout.hole_bytes();
        of_one.saturating_mul(u64::from(self.count))
    }
}

/// A storage under measurement.
pub(super) struct Place {
    pub directory: PathBuf,
    pub facts: StorageFacts,
    /// Ours to write in; `None` where only a given file is read.
    pub scratch: Option<Scratch>,
    /// Whether dropping empties the page cache here (tmpfs keeps everything).
    pub has_cold: bool,
    probe: Option<Probe>,
    files: BTreeMap<SourceFiles, Vec<TestFile>>,
    /// How often files were made, those included that were made anew: no two are to have one name.
    times_made: u32,
    /// Why files of a layout are not to be had here; `None` where they are.
    layouts: BTreeMap<Layout, Option<String>>,
    /// Files of the user that are read once.
    pub first_touch: Option<FirstTouch>,
    /// Files that trials write over at random places: of a size, so many, by a block.
    overwritten: BTreeMap<(u64, u32, u64), Vec<Overwritten>>,
    /// The second files of comparisons.
    others: BTreeMap<(u64, u32, record::Differ), Vec<OtherFile>>,
}

impl Place {
    /// Opens all storages that are asked for; that of the second files of comparisons is the last, where it is another.
    pub fn open_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        Self::all(bench, Self::of_file, Self::of_directory)
    }

    /// The same, of which nothing is read and in which nothing is made.
    pub fn find_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        Self::all(bench, Self::found_file, Self::found)
    }

    fn all(
        bench: &Bench,
        of_file: fn(&Path) -> Result<Self, BenchError>,
        of_directory: fn(&Path) -> Result<Self, BenchError>,
    ) -> Result<Vec<Self>, BenchError> {
        match (&bench.file, &bench.first_touch) {
            (Some(file), _) => Ok(vec![of_file(file)?]),
            (None, Some(directory)) => Ok(vec![Self::found(directory)?]),
            (None, None) => {
                let directories = bench.directories.iter().chain(&bench.other);
                directories.map(|directory| of_directory(directory)).collect()
            }
        }
    }

    /// A file that is not read yet.
    fn found_file(file: &Path) -> Result<Self, BenchError> {
        // It is a regular file, or refused.
        CachedFile::open(file)?;
        Ok(Self::new(file, StorageFacts::of(file)?, true))
    }

    /// A directory in which nothing is made yet.
    fn found(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.to_owned();
        match fs::metadata(directory) {
            Err(source) => Err(BenchError::Look { path, source }),
            Ok(metadata) if !metadata.is_dir() => Err(BenchError::NotADirectory(path)),
            Ok(_) => Ok(Self::new(directory, StorageFacts::of(directory)?, true)),
        }
    }

    fn of_directory(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.to_owned();
        let Self { facts, .. } = Self::found(directory)?;
        if facts.read_only {
            return Err(BenchError::ReadOnly(path));
        }
        if facts.free_bytes < LEAST_FREE_BYTES {
            let (needed_bytes, free_bytes) = (LEAST_FREE_BYTES, facts.free_bytes);
            return Err(BenchError::NoSpace {
                path,
                needed_bytes,
                free_bytes,
            });
        }
        let scratch = Scratch::new(directory).map_err(|source| BenchError::NoTestFiles { path, source })?;
        let probe = Probe::new(scratch.path())?;
        let has_cold = can_be_cold(scratch.path());
        Ok(Self {
            scratch: Some(scratch),
            probe: Some(probe),
            ..Self::new(directory, facts, has_cold)
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
            overwritten: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }

    fn of_file(file: &Path) -> Result<Self, BenchError> {
        let test_file = TestFile::describe(file)?;
        if test_file.bytes == 0 {
            return Err(BenchError::Empty(file.to_owned()));
        }
        let facts = StorageFacts::of(file)?;
        let has_cold = cache::drop_file(file)?.part().is_none_or(|part| part == 0.0);
        let given = SourceFiles {
            bytes: test_file.bytes,
            count: 1,
            layout: Layout::Dense,
        };
        Ok(Self {
            files: BTreeMap::from([(given, vec![test_file])]),
            ..Self::new(file, facts, has_cold)
        })
    }

    /// Whether a method is to be had here. Without a directory to try it in, the trial tells.
    pub fn availability(&mut self, method: &Method) -> Availability {
        self.probe
            .as_mut()
            .map_or(Availability::Available, |probe| probe.availability(method))
    }

    /// The second files of a comparison, made where they do not exist yet: the bytes of the first ones, but for one.
    pub fn other_files(
        &mut self,
        bytes: u64,
        count: u32,
        seed: u64,
        differ: record::Differ,
    ) -> seekless::Result<Vec<OtherFile>> {
        let key = (bytes, count, differ);
        if let Some(files) = self.others.get(&key) {
            return Ok(files.clone());
        }
        let create = |index| {
            let path = self.path(&format!("other-{bytes}-{}-{index}", differ.name()));
            OtherFile::create(&path, bytes, stream_seed(seed, bytes, index), differ)
        };
        let made = (0..count).map(create).collect::<seekless::Result<Vec<_>>>()?;
        self.others.insert(key, made.clone());
        Ok(made)
    }

    /// The files that a contest writes over at random places, as they were left by the trial before; made where they do not
    /// exist yet. Empty where it writes in another way.
    pub fn overwritten_files(&mut self, contest: &record::Contest, seed: u64) -> seekless::Result<&mut [Overwritten]> {
        let Some(key) = overwritten(contest) else {
            return Ok(&mut []);
        };
        let (bytes, count, block_bytes) = key;
        if !self.overwritten.contains_key(&key) {
            self.times_made += 1;
            let create = |index| {
                let path = self.path(&format!("overwritten-{bytes}-{}-{index}", self.times_made));
                Overwritten::create(path, bytes, block_bytes, stream_seed(seed, bytes, index))
            };
            let made = (0..count).map(create).collect::<seekless::Result<Vec<_>>>()?;
            self.overwritten.insert(key, made);
        }
        Ok(self.overwritten.get_mut(&key).map_or(&mut [], Vec::as_mut_slice))
    }

    /// The same, where they are there.
    pub fn overwritten(&self, contest: &record::Contest) -> &[Overwritten] {
        overwritten(contest)
            .and_then(|key| self.overwritten.get(&key))
            .map_or(&[], Vec::as_slice)
    }

    /// Removes these files: nobody knows what they hold.
    pub fn remove_overwritten(&mut self, contest: &record::Contest) {
        let files = overwritten(contest).and_then(|key| self.overwritten.remove(&key));
        for file in files.into_iter().flatten() {
            let _ = fs::remove_file(file.path);
        }
    }

    /// The files of a description, made where they do not exist yet.
    pub fn source_files(&mut self, wanted: &SourceFiles, seed: u64) -> Result<Vec<TestFile>, BenchError> {
        self.forget_changed(wanted);
        if let Some(files) = self.files.get(wanted) {
            return Ok(files.clone());
        }
        if let Some(Some(why)) = self.layouts.get(&wanted.layout) {
            return Err(self.refused(&wanted.layout, why.clone()));
        }
        let mut made = Vec::new();
        self.times_made += 1;
        for index in 0..wanted.count {
            let path = self.path(&format!("source-{}-{}-{index}", wanted.bytes, self.times_made));
            let seed = stream_seed(seed, wanted.bytes, index);
            let file = if wanted.layout == Layout::Dense {
                Ok(TestFile::create(&path, wanted.bytes, seed)?)
            } else {
                TestFile::create_as(&path, &wanted.layout, wanted.bytes, seed)?
            };
            made.push(file.map_err(|why| {
                // Files of this kind that were made before it are in the way of nothing.
                self.layouts.insert(wanted.layout.clone(), Some(why.clone()));
                self.refused(&wanted.layout, why)
            })?);
        }
        self.files.insert(wanted.clone(), made.clone());
        Ok(made)
    }

    /// Removes files that lost their layout, to make them anew: a map that is read fills the holes of tmpfs.
    fn forget_changed(&mut self, wanted: &SourceFiles) {
        let is_as_made = |file: &TestFile| layout::verify(&file.path, &wanted.layout).is_ok_and(|found| found.is_ok());
        let is_lost = |files: &Vec<TestFile>| wanted.layout != Layout::Dense && !files.iter().all(is_as_made);
        if self.files.get(wanted).is_some_and(is_lost) {
            for file in self.files.remove(wanted).into_iter().flatten() {
                let _ = fs::remove_file(file.path);
            }
        }
    }

    fn refused(&self, layout: &Layout, why: String) -> BenchError {
        BenchError::Layout {
            path: self.directory.clone(),
            layout: layout.to_string(),
            why,
        }
    }

    /// Why files of a layout are not to be had here, found by trying a small file: of fragments, or with its shortest hole.
    pub fn refuses_layout(&mut self, layout: &Layout) -> Option<String> {
        let hole_bytes = layout.shortest_hole();
        if *layout != Layout::Fragmented && hole_bytes.is_none() {
            return None;
        }
        let directory = self.scratch.as_ref()?.path();
        if !self.layouts.contains_key(layout) {
            let tried = match hole_bytes {
                None => layout::try_fragments(directory),
                Some(hole_bytes) => layout::try_holes(directory, hole_bytes),
            };
            let why = tried.unwrap_or_else(|error| Err(format!("the layout could not be tried: {error}")));
            self.layouts.insert(layout.clone(), why.err());
        }
        self.layouts.get(layout).cloned().flatten()
    }

    /// The size of the files that are read instead of made ones.
    pub fn given_bytes(&self) -> Option<u64> {
        Some(self.given()?.0)
    }

    /// The size of these files, and how many a trial reads.
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

    /// The path of a file of ours.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.as_ref().map_or(&*self.directory, Scratch::path).join(name)
    }

    /// Whether what a process reads here is accounted to a device of this machine.
    pub fn tells_source(&self) -> bool {
        let file_system = self.facts.file_system.as_str();
        self.facts.has_block_device && !self.facts.is_network && !file_system.starts_with("fuse")
    }

    /// The file behind a loop device: what is cold on the loop may be warm in there.
    pub fn backing_file(&self) -> Option<&Path> {
        self.facts.device.as_ref()?.backing_file.as_deref()
    }

    /// Whether the page cache is all that caches here, so that its residency tells cold from warm.
    pub fn tells_residency(&self) -> bool {
        let file_system = self.facts.file_system.as_str();
        !self.facts.is_network && file_system != "zfs" && !file_system.starts_with("fuse")
    }

    /// Why a method has no meaning in a cache state.
    pub fn refuses(&self, choice: Option<&Choice>, cache: record::Cache) -> Option<String> {
        let method = choice.and_then(Choice::method);
        let is_direct = method.is_some_and(|method| method.options().cache() == CachePolicy::Direct);
        let reads = choice.is_none_or(|choice| choice.operation() != Operation::Write);
        let updates = choice.is_some_and(|choice| choice.operation() == Operation::Update);
        match cache {
            record::Cache::FirstTouch if self.first_touch.is_none() => {
                Some("files that are read for the first time have to be named".to_owned())
            }
            record::Cache::Over if updates => Some("a file that is updated begins cold or warm".to_owned()),
            record::Cache::Cold if !self.has_cold => Some(format!(
                "{} keeps files in memory: nothing is cold here",
                self.facts.file_system
            )),
            record::Cache::Over if !self.has_cold => Some(format!(
                "{} keeps files in memory: none exceeds what it has here",
                self.facts.file_system
            )),
            record::Cache::Warm if is_direct && reads => {
                Some("direct I/O reads the device, whatever is in memory: see cold".to_owned())
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
            // Directories have none: asked of the file that is given, or of the first that is made.
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

/// What tells the files that a contest writes over at random places from those of others.
pub(super) fn overwritten(contest: &record::Contest) -> Option<(u64, u32, u64)> {
    let random = contest.random.filter(|_| contest.operation == Operation::Write)?;
    Some((contest.size_bytes, contest.files, random.block_bytes))
}

/// The seed of a file's stream. Each file has bytes of its own: some storages keep equal blocks once.
fn stream_seed(seed: u64, bytes: u64, index: u32) -> u64 {
    seed.wrapping_add(bytes).wrapping_add(u64::from(index))
}

/// With less than this free, not even the speed can be found out.
const LEAST_FREE_BYTES: u64 = 64 << 20;

/// Whether a file can be made to leave the page cache here.
fn can_be_cold(directory: &Path) -> bool {
    let path = directory.join("cold");
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(&[1; 4096]));
    let dropped = written.is_ok().then(|| cache::drop_file(&path).ok()).flatten();
    let _ = fs::remove_file(&path);
    dropped.is_none_or(|resident| resident.part().is_none_or(|part| part == 0.0))
}
