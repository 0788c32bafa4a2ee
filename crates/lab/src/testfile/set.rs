//! Sets of test files: what they are made for, how they are laid out, and making them.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use seekless_engine::method::{Durability, Operation};
use seekless_engine::{Destination, IoOptions, Producer, plan};
use seekless_record::{Command, Contest, Differ, Entry, Target};

use super::{Streams, TestFile};
use crate::generator::Generator;
use crate::layout::{self, Layout};
use crate::scratch::TREE_PREFIX;

/// Files in each directory of a tree.
const FILES_OF_DIRECTORY: u32 = 100;

/// Test files of one description, which are made once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestFileSet {
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub count: u32,
    /// The layout of each.
    pub layout: Layout,
    /// What they are made for.
    pub role: TestFileRole,
    /// Whether they are in a directory tree of their own, for scans and for commands that take a tree.
    pub is_tree: bool,
}

/// What test files are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestFileRole {
    /// They are read.
    Source,
    /// They are compared with the sources, and differ at this place.
    Second(Differ),
    /// They are overwritten at random places, in blocks of this many bytes.
    Overwritten(u64),
}

impl TestFileSet {
    /// One file to read.
    pub fn single(bytes: u64) -> Self {
        Self {
            bytes,
            count: 1,
            layout: Layout::Dense,
            role: TestFileRole::Source,
            is_tree: false,
        }
    }

    /// The sets that a contest needs before its trials, each with its storage. Files to update or overwrite sequentially
    /// are made for each trial.
    pub fn of(contest: &Contest) -> impl Iterator<Item = (usize, Self)> {
        let source = (contest.storage, TestFileRole::Source);
        let roles = match (contest.operation, contest.random) {
            // The user's.
            _ if contest.tree.is_some() => Vec::new(),
            (Operation::Read | Operation::Copy | Operation::Scan, _) => vec![source],
            (Operation::Compare, _) if contest.differ == Differ::Itself => vec![source],
            (Operation::Compare, _) => {
                let storage = contest.other_storage.unwrap_or(contest.storage);
                vec![source, (storage, TestFileRole::Second(contest.differ))]
            }
            (Operation::Write, Some(random)) if contest.target == Target::Overwrite => {
                vec![(contest.storage, TestFileRole::Overwritten(random.block_bytes))]
            }
            (Operation::Write | Operation::Update, _) => Vec::new(),
        };
        let mut commands = contest.entries.iter().filter_map(Entry::command);
        let set = Self {
            count: contest.files,
            layout: Layout::of(contest),
            is_tree: contest.operation == Operation::Scan || commands.any(Command::takes_tree),
            ..Self::single(contest.size_bytes)
        };
        let of_role = move |(storage, role)| (storage, Self { role, ..set.clone() });
        roles.into_iter().map(of_role)
    }

    /// Bytes that are written to make all of them.
    pub fn written_bytes(&self) -> u64 {
        let times = if self.layout == Layout::Fragmented { 2 } else { 1 };
        let of_one = self.layout.own_bytes().unwrap_or(self.bytes) - self.layout.hole_bytes();
        of_one.saturating_mul(times * u64::from(self.count))
    }

    /// The name of one of them, with the prefix of its set. In a tree, all sets have the same names in their own
    /// directories.
    pub fn name(&self, prefix: &str, index: u32) -> String {
        if self.is_tree {
            let (directory, file) = (index / FILES_OF_DIRECTORY, index % FILES_OF_DIRECTORY);
            format!("{TREE_PREFIX}{prefix}/{directory:04}/{file:02}")
        } else {
            format!("{prefix}-{index}")
        }
    }

    /// Makes one of them, of the stream of a seed. If the file system creates another layout, returns a sentence.
    ///
    /// # Errors
    /// The engine's, or the system's.
    pub fn create(
        &self,
        path: &Path,
        seed: u64,
        is_stopped: IsStopped<'_>,
    ) -> seekless_engine::Result<Result<TestFile, String>> {
        let directory = path.parent().filter(|_| self.is_tree);
        if let Some(directory) = directory {
            fs::create_dir_all(directory).map_err(failed(path, "create its directory"))?;
        }
        let is_dense = self.layout == Layout::Dense;
        let (block_bytes, difference) = match self.role {
            TestFileRole::Overwritten(block_bytes) => (block_bytes, None),
            TestFileRole::Second(differ) if is_dense => (self.bytes, offset_of(differ, self.bytes)),
            TestFileRole::Source | TestFileRole::Second(_) => (self.bytes, None),
        };
        if !is_dense {
            let made = layout::make(path, &self.layout, self.bytes, seed).map_err(failed(path, "lay it out"))?;
            if let Err(why) = made {
                return Ok(Err(why));
            }
        } else if self.is_tree && matches!(self.role, TestFileRole::Source | TestFileRole::Second(Differ::None)) {
            // One of very many: they are synced together before each trial.
            write_stream(Durability::None, path, self.bytes, seed, is_stopped)?;
        } else {
            // All bytes are written, so that the second file of a comparison shares no blocks with the first.
            write_stream(Durability::Fsync, path, self.bytes, seed, is_stopped)?;
        }
        if let Some(offset) = difference {
            change_byte(path, offset).map_err(failed(path, "change a byte"))?;
        }
        if self.is_tree {
            // Some programs compare the times of files, too.
            let set = File::open(path).and_then(|file| file.set_modified(UNIX_EPOCH));
            set.map_err(failed(path, "set its time"))?;
        }
        let block_bytes = block_bytes.max(1);
        Ok(Ok(TestFile {
            difference,
            made_of: Some(Streams {
                block_bytes,
                seeds: vec![seed; self.bytes.div_ceil(block_bytes) as usize],
                zeros: self.layout.zeros(),
            }),
            ..TestFile::existing(path, self.bytes)
        }))
    }
}

/// Tells whether a file that is being made is no longer wanted.
pub type IsStopped<'a> = &'a (dyn Fn() -> bool + Sync);

/// Breaks if that is no longer wanted, as callbacks of the engine do.
pub fn go_on(is_stopped: &dyn Fn() -> bool) -> ControlFlow<()> {
    if is_stopped() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Makes a file of the stream of a seed.
///
/// # Errors
/// The engine's; [`seekless_engine::Error::Stopped`] if it is stopped.
pub fn write_stream(
    durability: Durability,
    path: &Path,
    bytes: u64,
    seed: u64,
    is_stopped: IsStopped<'_>,
) -> seekless_engine::Result<()> {
    let plain = plan::usual(Operation::Write);
    let job = IoOptions::method(plain.with(durability).unwrap_or(plain)).destination(Destination::New);
    let goes_on = |_, _| go_on(is_stopped);
    let generator = Generator::new(seed);
    let written = job
        .progress(&goes_on)
        .produce(path, bytes, |offset, piece| generator.produce(offset, piece));
    written.map(drop)
}

/// The offset of the byte that differs in files of a size; `None` if none does.
pub(super) fn offset_of(differ: Differ, bytes: u64) -> Option<u64> {
    match differ {
        Differ::None | Differ::Itself => None,
        Differ::First => Some(0),
        Differ::Early => Some(bytes / 100),
        Differ::Middle => Some(bytes / 2),
        Differ::Last => Some(bytes.saturating_sub(1)),
    }
}

/// Changes one byte of a file, through to the device.
pub(super) fn change_byte(path: &Path, offset: u64) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    file.write_all_at(&[!byte[0]], offset)?;
    file.sync_all()
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> seekless_engine::Error {
    move |source| seekless_engine::Error::System {
        path: path.to_owned(),
        action: action.into(),
        method: None,
        source,
    }
}
