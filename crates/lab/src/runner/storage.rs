//! A measured storage: its directory, its facts, and the test files there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use seekless_engine::cache::{self, CachedFile, Resident};
use seekless_engine::files::{kind_of, with_article};
use seekless_engine::method::Operation;
use seekless_engine::{Method, Probe, StorageFacts};
use seekless_record::{self as record, Contest};
use seekless_results::DeviceKind;
use seekless_sys::FileSystemTrait;

use super::existing::{FileChange, Tree, find_tree};
use super::setup::UnrecordedTrial;
use super::{Bench, BenchError};
use crate::layout::{self, Layout};
use crate::scratch::Scratch;
use crate::testfile::{TestFile, TestFileSet};
use crate::trial::LaunchStop;

/// A measured storage.
pub(super) struct MeasuredStorage {
    pub directory: PathBuf,
    pub facts: StorageFacts,
    /// Our scratch directory; `None` if only existing files are read.
    pub scratch: Option<Scratch>,
    /// Whether files can be dropped from the page cache here (not on tmpfs).
    pub has_cold: bool,
    probe: Option<Probe>,
    /// The part of the given file that was read last, with its answer.
    part: Option<TestFile>,
    /// Tries copies to another storage.
    across: Option<Probe>,
    files: BTreeMap<TestFileSet, Vec<TestFile>>,
    /// How often files were made, used for unique names.
    times_made: u32,
    /// The bytes written for all of them.
    pub made_bytes: u64,
    /// For each tested layout, why it is unavailable here; `None` if it is available.
    layouts: BTreeMap<Layout, Option<String>>,
    /// Directories of the user that commands read, by their names in the experiment; or why one cannot be measured.
    trees: BTreeMap<String, Rc<Result<Tree, String>>>,
}

impl MeasuredStorage {
    /// All requested storages, without reading or creating files. That of the second files of comparisons, or of copies,
    /// comes last, if it is another.
    pub fn find_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        if let Some(file) = &bench.file {
            // Refused unless it is a regular file.
            CachedFile::open(file)?;
            return Ok(vec![Self::new(file, StorageFacts::of(file)?)]);
        }
        let directories = bench.directories.iter().chain(bench.second());
        directories.map(|directory| Self::found(directory)).collect()
    }

    /// The same, ready for trials.
    pub fn open_all(bench: &Bench) -> Result<Vec<Self>, BenchError> {
        let open = match bench.file {
            Some(_) => Self::with_file,
            None => Self::with_scratch,
        };
        let opened = Self::find_all(bench)?.into_iter().map(open);
        let mut storages = opened.collect::<Result<Vec<_>, _>>()?;
        if bench.to.is_some()
            && let Some((target, sources)) = storages.split_last_mut()
        {
            for source in sources {
                let scratches = source.scratch.as_ref().zip(target.scratch.as_ref());
                let across = scratches.map(|(from, to)| Probe::between(from.path(), to.path()));
                source.across = across.transpose()?;
            }
        }
        Ok(storages)
    }

    /// A directory, without files created in it.
    fn found(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.to_owned();
        match fs::metadata(directory) {
            Err(source) => Err(BenchError::Look { path, source }),
            Ok(metadata) if !metadata.is_dir() => Err(BenchError::NotADirectory(path)),
            Ok(_) => Ok(Self::new(directory, StorageFacts::of(directory)?)),
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

    fn new(directory: &Path, facts: StorageFacts) -> Self {
        Self {
            directory: directory.to_owned(),
            facts,
            scratch: None,
            has_cold: true,
            probe: None,
            part: None,
            across: None,
            files: BTreeMap::new(),
            times_made: 0,
            made_bytes: 0,
            layouts: BTreeMap::new(),
            trees: BTreeMap::new(),
        }
    }

    fn with_file(self) -> Result<Self, BenchError> {
        let bytes = CachedFile::open(&self.directory)?.metadata().len();
        if bytes == 0 {
            return Err(BenchError::Empty(self.directory));
        }
        let file = TestFile::existing(&self.directory, bytes);
        Ok(Self {
            has_cold: is_cold(&cache::drop_file(&self.directory)?),
            files: BTreeMap::from([(TestFileSet::single(bytes), vec![file])]),
            ..self
        })
    }

    /// The files of a set; makes those that do not exist yet.
    pub fn files(
        &mut self,
        wanted: &TestFileSet,
        seed: u64,
        stop: &LaunchStop,
    ) -> Result<&mut Vec<TestFile>, UnrecordedTrial> {
        self.forget_changed(wanted);
        if !self.files.contains_key(wanted) {
            if self.scratch.is_none() {
                let why = "it needs test files, and here only existing files are read";
                return Err(UnrecordedTrial::unavailable(why));
            }
            if let Some(Some(why)) = self.layouts.get(&wanted.layout) {
                return Err(UnrecordedTrial::unavailable(why));
            }
            self.times_made += 1;
            let prefix = format!("test-{}-{}", wanted.bytes, self.times_made);
            let mut made = Vec::new();
            for index in 0..wanted.count {
                if stop.is_requested() {
                    return Err(BenchError::Stopped.into());
                }
                let path = self.path(&wanted.name(&prefix, index));
                // Each file has its own bytes, because some storages de-duplicate blocks.
                self.made_bytes += wanted.written_bytes() / u64::from(wanted.count);
                let seed = seed.wrapping_add(wanted.bytes).wrapping_add(u64::from(index));
                match wanted.create(&path, seed, &|| stop.is_requested())? {
                    Ok(file) => made.push(file),
                    Err(why) => {
                        // Earlier files of this set do no harm.
                        self.layouts.insert(wanted.layout.clone(), Some(why.clone()));
                        return Err(UnrecordedTrial::unavailable(why));
                    }
                }
            }
            self.files.insert(wanted.clone(), made);
        }
        Ok(self.files.entry(wanted.clone()).or_default())
    }

    /// The files of a set that exist.
    pub fn made(&self, wanted: &TestFileSet) -> &[TestFile] {
        self.files.get(wanted).map_or(&[], Vec::as_slice)
    }

    /// Removes the files of a set, so that they are made again.
    pub fn remove(&mut self, files: &TestFileSet) {
        for file in self.files.remove(files).into_iter().flatten() {
            let _ = fs::remove_file(file.path);
        }
    }

    /// Removes files that lost their layout, because reading a map fills holes on tmpfs.
    fn forget_changed(&mut self, wanted: &TestFileSet) {
        let is_as_made = |file: &TestFile| layout::verify(&file.path, &wanted.layout).is_ok_and(|found| found.is_ok());
        if wanted.layout != Layout::Dense && !self.made(wanted).iter().all(is_as_made) {
            self.remove(wanted);
        }
    }

    /// A directory that an experiment names, relative to the one that is measured, and its files; or why it cannot be
    /// measured. It is walked once.
    pub fn tree(&mut self, named: &str, stop: &LaunchStop) -> Result<&Tree, &str> {
        if !self.trees.contains_key(named) {
            let found = Rc::new(find_tree(named, &self.directory, &self.facts, stop));
            if let Ok(tree) = &*found {
                // Contests name it by its path.
                self.trees.insert(tree.path.clone(), Rc::clone(&found));
            }
            self.trees.insert(named.to_owned(), found);
        }
        Result::as_ref(&self.trees[named]).map_err(String::as_str)
    }

    /// The same, if it was looked for.
    pub fn known_tree(&self, named: &str) -> Option<Result<&Tree, &String>> {
        self.trees.get(named).map(|tree| Result::as_ref(tree))
    }

    /// Why files of a layout, or a method, are unavailable here, by trying them. Without a directory for that, the trial
    /// shows it.
    pub fn refuses(&mut self, layout: &Layout, method: Option<&Method>) -> Option<String> {
        let refused = self.refuses_layout(layout);
        refused.or_else(|| {
            let method = method?;
            let across = self.across.as_mut().filter(|_| method.operation() == Operation::Copy);
            let found = across.or(self.probe.as_mut())?.availability(method);
            found.reason().map(str::to_owned)
        })
    }

    fn refuses_layout(&mut self, layout: &Layout) -> Option<String> {
        let (sample, bytes) = layout.sample()?;
        let path = self.scratch.as_ref()?.path().join("layout");
        let tried = self.layouts.entry(layout.clone()).or_insert_with(|| {
            let made = layout::make(&path, &sample, bytes, 1);
            let _ = fs::remove_file(&path);
            match made {
                Ok(made) => made.err(),
                Err(error) => Some(format!(
                    "cannot try the layout: {}: cannot lay it out: {error}",
                    path.display()
                )),
            }
        });
        tried.clone()
    }

    /// The existing file to read instead of test files.
    pub fn given_file(&self) -> Option<&TestFile> {
        let first = self.files.values().flatten().next();
        first.filter(|_| self.scratch.is_none())
    }

    /// Fails if the given file was removed, replaced by what is not a regular file, or has another size.
    pub fn require_given(&self) -> Result<(), BenchError> {
        let Some(TestFile { path, bytes, .. }) = self.given_file() else {
            return Ok(());
        };
        let change = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileChange::Removed,
            Ok(now) if !now.is_file() => FileChange::Replaced(with_article(kind_of(&now))),
            Ok(now) if now.len() != *bytes => FileChange::Size {
                from: *bytes,
                to: now.len(),
            },
            // What cannot be examined, the next trial tells.
            _ => return Ok(()),
        };
        Err(BenchError::FileChanged {
            path: path.clone(),
            change,
        })
    }

    /// A part of the given file, drawn by a seed; the same for all trials of a round.
    pub fn part_of_given(&mut self, bytes: u64, seed: u64) -> Option<TestFile> {
        let file = self.given_file()?;
        let start = fastrand::Rng::with_seed(seed).u64(..file.bytes / bytes) * bytes;
        if self.part.as_ref().and_then(TestFile::part_start) != Some(start) {
            self.part = Some(file.part(start, bytes));
        }
        self.part.clone()
    }

    /// The path of a file in our scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.as_ref().map_or(&*self.directory, Scratch::path).join(name)
    }

    /// Whether reads of a process are counted by a device of this machine.
    pub fn tells_source(&self) -> bool {
        let facts = &self.facts;
        facts.has_block_device && !facts.is_network && !FileSystemTrait::ServedByProgram.is_of(&facts.file_system)
    }

    /// How much a run with this budget may write here if nothing is asked for: 8 GiB a minute, 1 GiB on flash memory that
    /// wears out early, as SD cards do, and at most a tenth of the file system, but 256 MiB on
    /// small ones.
    pub fn suitable_writes(&self, budget: Duration) -> u64 {
        let is_card = DeviceKind::of(&self.record()) == DeviceKind::Card;
        let each_minute: u64 = if is_card { 1 << 30 } else { 8 << 30 };
        let most = each_minute.saturating_mul(budget.as_secs().div_ceil(60).max(1));
        most.min(self.facts.total_bytes / 10).max(256 << 20)
    }

    /// The backing file of a loop device: a file that is cold on the loop may be warm there.
    pub fn backing_file(&self) -> Option<&Path> {
        self.facts.device.as_ref()?.backing_file.as_deref()
    }

    /// Whether the page cache is the only cache here, so that residency distinguishes cold and warm.
    pub fn tells_residency(&self) -> bool {
        !self.facts.is_network && !FileSystemTrait::OtherCaches.is_of(&self.facts.file_system)
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
                .given_file()
                .and_then(|_| seekless_engine::direct_alignment(&self.directory)),
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
            id: Some(seekless_engine::identity(&self.directory, facts)),
            ..record::Storage::default()
        }
    }
}

/// The storages of a contest's files.
pub(super) fn of_contest<'a>(
    storages: &'a [MeasuredStorage],
    contest: &Contest,
) -> impl Iterator<Item = &'a MeasuredStorage> + use<'a> {
    let of = [Some(contest.storage), contest.other_storage];
    of.into_iter().flatten().map(|storage| &storages[storage])
}

/// The storages of the files that are read; what is copied to another storage is not read there.
pub(super) fn read_by<'a>(
    storages: &'a [MeasuredStorage],
    contest: &Contest,
) -> impl Iterator<Item = &'a MeasuredStorage> + use<'a> {
    let read = if contest.operation == Operation::Copy { 1 } else { 2 };
    of_contest(storages, contest).take(read)
}

/// The least free space for measuring the speed.
const LEAST_FREE_BYTES: u64 = 64 << 20;

/// Whether a file can be dropped from the page cache here.
fn can_be_cold(directory: &Path) -> bool {
    let path = directory.join("cold");
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(&[1; 4096]));
    let dropped = written.is_ok().then(|| cache::drop_file(&path).ok()).flatten();
    let _ = fs::remove_file(&path);
    dropped.as_ref().is_none_or(is_cold)
}

/// Whether nothing of a file is known to be resident.
fn is_cold(resident: &Resident) -> bool {
    resident.part().is_none_or(|part| part == 0.0)
}
