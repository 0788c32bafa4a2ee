//! Filling: allocates blocks for holes, so that writing to them cannot fail for lack of space. Bytes stay the same.

use std::ops::Range;
use std::path::PathBuf;

use seekless_sys::{self as sys, Extent, Support};
use serde::Serialize;

use super::Result;
use super::error::{HoleErrorKind, Worked, cannot};
use super::held::{HeldFile, file_system};
use crate::walk::FileAt;

/// What was filled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now.
    pub allocated_bytes: u64,
}

impl Filled {
    /// Adds another file's figures.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated_before_bytes = self.allocated_before_bytes.saturating_add(other.allocated_before_bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
    }
}

/// Allocates the blocks of all holes: fallocate(2). They read as zeros, and are reserved rather than data.
///
/// # Errors
/// Where no lease is granted (unless `is_unsafe`), the file system cannot allocate or has no room; then the holes are as they were.
pub fn fill(file: &FileAt, is_unsafe: bool) -> Result<Filled> {
    let filled = HeldFile::open(file, is_unsafe).and_then(|held| fill_held(&held));
    let path = file.path().to_owned();
    filled
        .map(|filled| Filled { path, ..filled })
        .map_err(|kind| kind.at(file.path()))
}

pub(super) fn fill_held(held: &HeldFile<'_>) -> Worked<Filled> {
    let bytes = held.metadata.len();
    let holes = holes(held)?;
    let needed_bytes = match &holes {
        Some(holes) => holes.iter().map(|hole| hole.end - hole.start).sum(),
        None => bytes.saturating_sub(held.allocated_before_bytes()),
    };
    let free_bytes = file_system(held.file())?.free_bytes;
    if needed_bytes > free_bytes {
        return Err(HoleErrorKind::NoRoom {
            needed_bytes,
            free_bytes,
        });
    }
    let done = match held.change(|file| sys::allocate(file, 0, bytes))? {
        Ok(Support::Available(())) => held.sync().and_then(|()| held.allocated_bytes()),
        Ok(Support::Unavailable(reason)) => Err(HoleErrorKind::Unavailable(reason)),
        Err(source) => {
            let is_undone = holes.is_some_and(|holes| undo(held, &holes));
            Err(HoleErrorKind::NotFilled { source, is_undone })
        }
    };
    let restored = held.restore_times();
    let allocated_bytes = done?;
    restored?;
    Ok(Filled {
        bytes,
        allocated_before_bytes: held.allocated_before_bytes(),
        allocated_bytes,
        ..Filled::default()
    })
}

/// The ranges without blocks, in whole blocks; `None` if the file system does not report extents. lseek(2) would also
/// count allocated but unwritten blocks as holes.
fn holes(held: &HeldFile<'_>) -> Worked<Option<Vec<Range<u64>>>> {
    match sys::extents(held.file(), sys::WHOLE_FILE) {
        Ok(Support::Available(extents)) => {
            let end = held.metadata.len().next_multiple_of(held.block_bytes()?);
            Ok(Some(between(&extents, end)))
        }
        Ok(Support::Unavailable(_)) => Ok(None),
        Err(error) => Err(cannot("list its extents")(error)),
    }
}

/// The ranges before `end` that no extent covers. Pure.
fn between(extents: &[Extent], end: u64) -> Vec<Range<u64>> {
    let mut holes = Vec::new();
    let mut reached = 0;
    for extent in extents {
        let start = extent.logical.min(end);
        if start > reached {
            holes.push(reached..start);
        }
        reached = reached.max(extent.logical.saturating_add(extent.length));
    }
    if reached < end {
        holes.push(reached..end);
    }
    holes
}

/// Frees what was allocated before the file system was full, and returns whether all of it is free. If another process
/// opened the file meanwhile, or could without a lease, it may have written there, so nothing is freed.
fn undo(held: &HeldFile<'_>, holes: &[Range<u64>]) -> bool {
    if held.held.lease().is_none() {
        return false;
    }
    let punch = |hole: &Range<u64>| held.punch(hole.start, hole.end - hole.start);
    holes.iter().all(|hole| punch(hole).is_ok())
}

#[cfg(test)]
mod tests {
    use seekless_sys::ExtentFlags;

    use super::*;

    #[test]
    fn what_no_extent_covers_is_a_hole() {
        let found = |extents: &[(u64, u64)], end| {
            let extents = extents.iter().map(|&(logical, length)| Extent {
                logical,
                physical: 0,
                length,
                flags: ExtentFlags::default(),
            });
            let holes = between(&extents.collect::<Vec<_>>(), end);
            holes.into_iter().map(|hole| (hole.start, hole.end)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[], 100), [(0, 100)]);
        assert_eq!(found(&[(0, 100)], 100), []);
        assert_eq!(found(&[(10, 10), (20, 5), (50, 100)], 100), [(0, 10), (25, 50)]);
        assert_eq!(
            found(&[(10, 10), (200, 5)], 100),
            [(0, 10), (20, 100)],
            "behind the end"
        );
        assert_eq!(found(&[], 0), []);
    }
}
