//! Comparing two files, up to the first difference. One source file per mechanism; `body` connects them to their rows.
//!
//! Common code is here and in three files: `pair` opens the two files, `map` finds the ranges that need not be read,
//! and `pass` reads the rest in the method's order. A mechanism compares one range that is data in both.

mod double_buffer;
mod io_uring;
mod map;
mod mmap;
mod pair;
mod pass;
mod stdio;
mod sync;
mod windows;

use std::ops::Range;

use crate::error::Result;
use crate::facts::{Facts, FileFacts, Planner, ProcessFacts};
use crate::file_range::{AsFileRange, FileRange};
use crate::log;
use crate::plan::{self, Plan, Task};
use crate::setup::{Prepare, Prepared};
use crate::transfer::Progress;
use map::HoleMap;
use pair::Pair;
use pass::Pass;
use seekless_method::{CompareMechanism, Durability, MechanismId, Method, Operation};
use serde::Serialize;

pub(crate) type PrepareCompare = Prepare<dyn CompareBytes>;

/// The bodies of the mechanisms.
fn body(mechanism: CompareMechanism) -> PrepareCompare {
    match mechanism {
        CompareMechanism::Sync => sync::PREPARE,
        CompareMechanism::DoubleBuffer => double_buffer::PREPARE,
        CompareMechanism::IoUring => io_uring::PREPARE,
        CompareMechanism::Mmap => mmap::PREPARE,
        CompareMechanism::Stdio => stdio::LOCKED_PREPARE,
        CompareMechanism::StdioUnlocked => stdio::UNLOCKED_PREPARE,
    }
}

/// A prepared mechanism of comparing.
pub(crate) trait CompareBytes: Send {
    /// Brings a stretch of one file (0 or 1) into the page cache, as the mechanism reads.
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()>;

    /// Compares a range of both, and returns where they first differ. `differ=linewise` adds the newlines of the equal
    /// part to `newlines`.
    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>>;
}

/// The first or the second of two files or trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Side {
    /// The first.
    #[serde(rename = "one")]
    Left,
    /// The second.
    #[serde(rename = "other")]
    Right,
}

impl Side {
    /// Both, in this order.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];
}

/// What a comparison found. Offsets count from the starts of the two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All bytes are equal.
    Equal,
    /// The first bytes that differ.
    Differ {
        /// How many bytes before them are equal.
        offset: u64,
    },
    /// One is shorter, and they are equal up to its end.
    Ended {
        /// Which is shorter.
        side: Side,
        /// Its length.
        offset: u64,
    },
}

/// What was done to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// What was found.
    pub verdict: Verdict,
    /// Bytes known to be equal, in each file.
    pub bytes: u64,
    /// How many of these were not read: holes in both, shared extents, a file compared with itself. If only one side
    /// has a hole, the other side was read, and the range does not count.
    pub unread_bytes: u64,
    /// Calls made, those that open and close included.
    pub calls: u64,
    /// Newlines in the equal part, with `differ=linewise`.
    pub newlines: Option<u64>,
}

/// Compares files by one method. Buffers, rings and threads are made once, before the first comparison.
///
/// ```
/// use seekless_engine::{Comparer, Method, Verdict};
/// # let directory = tempfile::tempdir()?;
/// # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
/// # std::fs::write(&one, b"the same, and then not")?;
/// # std::fs::write(&other, b"the same, but then so")?;
/// let method: Method = "compare/sync,order=parallel".parse()?;
/// let comparison = Comparer::prepare(&method)?.compare(&one, &other)?;
/// assert_eq!(comparison.verdict, Verdict::Differ { offset: 10 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Comparer(Prepared<dyn CompareBytes>);

impl Comparer {
    /// Plans comparing two files, after examining them. If the plan depends on it, or with `is_predicted`, it measures
    /// for at most 50 ms.
    ///
    /// # Errors
    /// The system's, if a file cannot be opened or examined.
    pub fn plan(one: impl AsFileRange, other: impl AsFileRange, is_predicted: bool) -> Result<Plan> {
        let parts = [&one.as_file_range(), &other.as_file_range()];
        Self::plan_with(parts, is_predicted, Planner::default())
    }

    /// The same by a planner.
    ///
    /// # Errors
    /// As [`Comparer::plan`].
    pub fn plan_with(parts: [&FileRange<'_>; 2], is_predicted: bool, planner: Planner<'_>) -> Result<Plan> {
        let files = [parts[0].open()?, parts[1].open()?];
        let bytes = |n: usize| parts[n].within(files[n].1.len());
        let bytes = [bytes(0), bytes(1)].map(|range| range.end - range.start);
        let request = Task {
            files: 1,
            bytes: bytes[0].min(bytes[1]),
            durability: Durability::None,
        };
        let found = files
            .each_ref()
            .map(|(file, metadata)| FileFacts::of(metadata, Some(file)));
        let mut facts = Facts::assumed(found, ProcessFacts::without_rings()).with(planner);
        let paths = parts.map(FileRange::path_to_measure);
        let may_bypass_cache = plan::may_bypass_cache(&request, &facts);
        let has_claims = is_predicted || may_bypass_cache;
        if has_claims {
            facts.claims(&paths[0]);
        }
        let is_known = facts.ask(&paths[0], request.bytes, request.durability);
        if is_known && !has_claims {
            facts.claims(&paths[0]);
        }
        if is_known || may_bypass_cache {
            for n in (0..2).filter(|n| !parts[*n].is_open()) {
                facts.files[n] = facts.files[n].with_alignment(&files[n].0);
            }
        }
        if is_predicted || (!is_known && facts.pays_measuring() && !plan::compare(&request, &facts).is_certain) {
            facts.measure_reading(&paths[0], &files[0].0);
        }
        Ok(plan::compare(&request, &facts))
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not compare,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the system lacks it, and the system's error if there is no
    /// memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to this many bytes, with buffers no larger than these need. Longer files can
    /// be compared, too; they need a second preparation.
    ///
    /// # Errors
    /// As [`Comparer::prepare`].
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Compare(mechanism) => Some(body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Compare, make, longest_file_bytes).map(Self)
    }

    /// Compares two regular files, or parts of them. The sizes are those at opening; if the verdict depends on a size,
    /// the size must be the same at the end.
    ///
    /// A file compared with itself is recognized by device and inode, unless the method has `identity=ignore`. Holes in
    /// both files, and extents that they share, are not read if the file system reports the same before and after,
    /// unless the method has `holes=ignore`.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) if a file changes its size meanwhile,
    /// so that there is no verdict.
    pub fn compare(&mut self, one: impl AsFileRange, other: impl AsFileRange) -> Result<Comparison> {
        self.compare_told(&one.as_file_range(), &other.as_file_range(), None)
    }

    /// As [`Comparer::compare`], but reports progress about every 16 MiB, and can be ended by that.
    ///
    /// # Errors
    /// As [`Comparer::compare`], and [`Error::Stopped`](crate::Error::Stopped).
    pub fn compare_told(
        &mut self,
        one: &FileRange<'_>,
        other: &FileRange<'_>,
        progress: Option<&dyn Progress>,
    ) -> Result<Comparison> {
        let method = self.0.setup.method;
        let mut pair = Pair::open([one, other], &method)?;
        pair.sides[0].progress = progress;
        let mechanism = self.0.for_bytes(pair.longest_bytes())?;
        if !method.options().identity_ignored() && pair.is_one_file()? {
            return Ok(Comparison {
                verdict: Verdict::Equal,
                bytes: pair.bytes,
                unread_bytes: pair.bytes,
                calls: pair.calls(),
                newlines: None,
            });
        }
        let mut pass = Pass::new(&pair, mechanism);
        let mut found = pass.run(&HoleMap::of(&pair)?)?;
        if found.is_none() && pass.must_look_again()? {
            log::debug!(one = %one.path().display(), other = %other.path().display(), "the map of holes changed or was wrong");
            pass = Pass::new(&pair, mechanism);
            found = pass.run(&HoleMap::default())?;
        }
        let (unread_bytes, newlines) = (pass.unread_bytes, pass.newlines());
        Ok(Comparison {
            verdict: pair.verdict(found)?,
            bytes: found.unwrap_or(pair.bytes),
            unread_bytes,
            calls: pair.calls(),
            newlines,
        })
    }
}
