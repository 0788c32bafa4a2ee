//! Showing the data and holes of a file. Nothing is changed.

use std::fs::File;
use std::path::PathBuf;

use seekless_engine::files::{allocated_bytes, data_ranges};
use seekless_sys as sys;
use serde::Serialize;

use super::error::{Worked, cannot};
use super::held::{block_bytes, file_system, open_regular};
use super::map::{end_of, past_end, tell_hole};
use super::zeros::Zeros;
use super::{HoleStretch, Result, RunKind};
use crate::walk::FileAt;
use crate::watch::{JobCounters, JobWatch, report};

/// The data and holes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What it takes on its file system, in bytes (`st_blocks`).
    pub allocated_bytes: u64,
    /// Bytes in stretches of data.
    pub data_bytes: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Bytes of blocks that are allocated but unwritten.
    pub reserved_bytes: u64,
    /// Bytes of blocks that are allocated past the end of the file.
    pub past_end_bytes: u64,
    /// The number of holes.
    pub holes: u64,
    /// Runs of blocks on the device; `None` if the file system does not report them.
    pub extents: Option<u64>,
    /// Bytes in whole blocks of zeros in the data, which digging would free; `None` if they were not searched for.
    pub zero_bytes: Option<u64>,
    /// Whether the file system reports holes.
    pub is_known: bool,
}

/// Shows a file; `with_zeros` also reads its data and searches for zeros, and the progress counts the bytes of the file that are
/// done. The events are the stretches, in order.
///
/// # Errors
/// If it is not a regular file, or cannot be opened or read.
pub fn show(file: &FileAt, with_zeros: bool, watch: &dyn for<'e> JobWatch<&'e HoleStretch>) -> Result<Shown> {
    let path = file.path().to_owned();
    let shown = show_file(file, with_zeros, watch);
    shown
        .map(|shown| Shown { path, ..shown })
        .map_err(|kind| kind.at(file.path()))
}

fn show_file(file: &FileAt, with_zeros: bool, watch: &dyn for<'e> JobWatch<&'e HoleStretch>) -> Worked<Shown> {
    let (file, metadata) = open_regular(file)?;
    let bytes = metadata.len();
    let found = sys::extents(&file, sys::WHOLE_FILE).map_err(cannot("list its extents"))?;
    let found = found.available();
    let mut shown = Shown {
        bytes,
        allocated_bytes: allocated_bytes(&metadata),
        extents: found.as_ref().map(|found| found.len() as u64),
        is_known: sys::next_hole(&file, 0).map_or(bytes == 0, |hole| hole.available().is_some()),
        ..Shown::default()
    };
    let mut count = |stretch: HoleStretch| {
        shown.count(&stretch);
        report(watch, &stretch);
    };
    let mut extents = found.as_deref().unwrap_or_default();
    let mut at = 0;
    for data in data_ranges(&file, 0..bytes) {
        let range = data.map_err(cannot("find holes"))?;
        tell_hole(at..range.start, &mut extents, &mut count);
        at = range.end;
        count(HoleStretch {
            kind: RunKind::Data,
            range,
        });
    }
    tell_hole(at..bytes, &mut extents, &mut count);
    let block_bytes = block_bytes(&file)?;
    let past_end = past_end(found.as_deref().map_or(0, end_of), bytes, block_bytes);
    if !past_end.is_empty() {
        count(HoleStretch {
            kind: RunKind::PastEnd,
            range: past_end,
        });
    }
    shown.is_known &= !may_be_untold(&file, &shown)?;
    if with_zeros {
        let counters = JobCounters::default();
        let zeros = Zeros {
            block_bytes,
            min_bytes: 0,
            evict: false,
            moved: &|bytes| watch.progress(&counters.add(0, bytes)),
        };
        shown.zero_bytes = Some(zeros.count(&file, bytes, watch.stop())?.bytes);
    }
    Ok(shown)
}

/// Whether there may be holes although none was reported.
fn may_be_untold(file: &File, shown: &Shown) -> Worked<bool> {
    if shown.holes > 0 || shown.extents.is_some() || shown.allocated_bytes >= shown.bytes {
        return Ok(false);
    }
    Ok(file_system(file)?.may_hide_holes())
}

impl Shown {
    /// The sum of no files.
    #[must_use]
    pub fn none(with_zeros: bool) -> Self {
        Self {
            extents: Some(0),
            zero_bytes: with_zeros.then_some(0),
            is_known: true,
            ..Self::default()
        }
    }

    fn count(&mut self, stretch: &HoleStretch) {
        let length = stretch.range.end - stretch.range.start;
        match stretch.kind {
            RunKind::Data => self.data_bytes += length,
            RunKind::Reserved => self.reserved_bytes += length,
            RunKind::PastEnd => self.past_end_bytes = length,
            RunKind::Hole => {
                self.hole_bytes = self.hole_bytes.saturating_add(length);
                self.holes += 1;
            }
        }
    }

    /// Adds another file's figures.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.data_bytes = self.data_bytes.saturating_add(other.data_bytes);
        self.hole_bytes = self.hole_bytes.saturating_add(other.hole_bytes);
        self.reserved_bytes = self.reserved_bytes.saturating_add(other.reserved_bytes);
        self.past_end_bytes = self.past_end_bytes.saturating_add(other.past_end_bytes);
        self.holes += other.holes;
        let both = |one: Option<u64>, two: Option<u64>| Some(one? + two?);
        self.extents = both(self.extents, other.extents);
        self.zero_bytes = both(self.zero_bytes, other.zero_bytes);
        self.is_known &= other.is_known;
    }
}
