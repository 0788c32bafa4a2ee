//! The mechanisms of copying that are a single system call and need no preparation.

use std::io::{self, Seek, SeekFrom};
use std::ops::Range;

use seekless_sys::{self as sys, Access, Support};

use crate::error::Result;
use crate::file_range::FileRange;
use crate::transfer::{Ahead, Destination, OpenFile, Transfer};

/// `copy/copy_file_range`: `copy_file_range(2)` lets the file system copy; XFS and btrfs then share the blocks.
pub(super) fn copy_file_range(source: &OpenFile<'_>, target: &OpenFile<'_>, range: Range<u64>) -> Result<()> {
    copy_by_call(source, target, range, "copy_file_range", |offset, length| {
        sys::copy_file_range(&source.file, offset, &target.file, target.place(offset), length)
    })
}

/// `copy/sendfile`: sendfile(2) moves as much as one call can.
pub(super) fn sendfile(source: &OpenFile<'_>, target: &OpenFile<'_>, range: Range<u64>) -> Result<()> {
    // It writes at the target's position, unlike the others.
    let file = target.with_own_position(Access::Overwrite)?;
    target.count_call();
    let sought = (&*file).seek(SeekFrom::Start(target.place(range.start)));
    sought.map_err(|error| target.failed(("seek", target.place(range.start)), error))?;
    copy_by_call(source, target, range, "sendfile", |offset, length| {
        sys::sendfile(&source.file, offset, &file, length)
    })
}

/// The most bytes that Linux moves in one call.
const MAX_CALL_BYTES: u64 = 0x7fff_f000;

/// Copies by a call that moves some bytes from an offset of the source, and returns how many.
fn copy_by_call(
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    range: Range<u64>,
    name: &'static str,
    call: impl Fn(u64, usize) -> io::Result<Support<usize>>,
) -> Result<()> {
    let mut ahead = Ahead::within(source, range.clone())?;
    let block = source.method.options().block_bytes().unwrap_or(MAX_CALL_BYTES);
    let mut offset = range.start;
    while offset < range.end {
        ahead.reading_at(offset)?;
        target.count_call();
        let length = block.min(range.end - offset) as usize;
        match target.support((name, offset), call(offset, length))? {
            0 => return Err(source.resized(offset)),
            moved => offset += moved as u64,
        }
    }
    Ok(())
}

/// `copy/reflink`: `ioctl_ficlone(2)` makes the target share all blocks with the source.
pub(super) fn reflink(source: &OpenFile<'_>, target: &OpenFile<'_>, _range: Range<u64>) -> Result<()> {
    require_whole(source, target)?;
    target.count_call();
    target.support("clone", sys::clone_file(&source.file, &target.file))?;
    source.check_not_shrunk()
}

/// Fails for a range: the call copies only whole files.
fn require_whole(source: &OpenFile<'_>, target: &OpenFile<'_>) -> Result<()> {
    if source.part.is_none() && target.part.is_none() {
        return Ok(());
    }
    Err(source.unavailable(WHOLE_FILES_ONLY))
}

const WHOLE_FILES_ONLY: &str = "it copies whole files by path only, not ranges and not to an open file";

/// `copy/fcopyfile`: fcopyfile(3) of macOS copies the data.
pub(super) fn fcopyfile(source: &OpenFile<'_>, target: &OpenFile<'_>, _range: Range<u64>) -> Result<()> {
    require_whole(source, target)?;
    target.count_call();
    target.support("copy", sys::copy_path_data(&source.file, &target.file))?;
    source.check_not_shrunk()
}

const MAKES_NEW_FILES_ONLY: &str = "clonefile(2) makes new files only";

/// `copy/clonefile`: clonefile(2) of macOS makes a new file that shares all blocks with the source. By path: the call
/// creates the target itself, so there is no target to open.
pub(super) fn clone_path(
    source: &FileRange<'_>,
    side: &OpenFile<'_>,
    target: &FileRange<'_>,
    destination: Destination,
) -> Result<Transfer> {
    let (source, Some(_), Some(target)) = (side, source.only_path(), target.only_path()) else {
        return Err(side.unavailable(WHOLE_FILES_ONLY));
    };
    if destination == Destination::Overwrite {
        return Err(source.unavailable(MAKES_NEW_FILES_ONLY));
    }
    source.count_call();
    source.support("clone", sys::clone_path(source.path, target))?;
    Ok(Transfer {
        bytes: source.bytes,
        calls: source.calls(),
        ..Transfer::default()
    })
}

/// `copy/clonefile` with a target that is open.
pub(super) fn clonefile(source: &OpenFile<'_>, _target: &OpenFile<'_>, _range: Range<u64>) -> Result<()> {
    Err(source.unavailable(MAKES_NEW_FILES_ONLY))
}
