//! `update/mmap`: the file mapped in windows of a block, and the updates stored at their places.
//!
//! We do not write bytes between updates, so other processes need not be kept out. The kernel writes whole pages, which
//! wears flash. Durable by msync(2) and fsync(2).
//!
//! On a full disk, storing to a page without a block raises SIGBUS, which has no reason. So holes with updates get
//! their blocks before anything is stored, and the map is checked after each write, before the write counts as done.

use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use seekless_sys::{self as sys, Support, page_bytes};

use super::PreparedUpdate;
use super::grown::reach_size;
use super::target::Target;
use super::writes::Write;
use crate::error::{Error, Result};
use crate::files::Stretch;
use crate::setup::Setup;
use crate::transfer::{MappedWindow, OpenFile, require_guard};
use seekless_method::Durability;

pub(super) fn prepare(setup: Setup) -> PreparedUpdate {
    require_guard(&setup)?;
    Ok(Box::new(move |target| update(target, setup.block_bytes)))
}

fn update(target: &Target<'_>, block_bytes: usize) -> Result<()> {
    reach_size(target.side, target.state)?;
    let window = (block_bytes as u64).next_multiple_of(page_bytes() as u64);
    fill_holes(target, window as usize)?;
    let mut writes = target.writes(window as usize).peekable();
    while let Some(first) = writes.peek() {
        let start = first.offset / window * window;
        // A write that begins in this window may end in the next.
        let end = (start + 2 * window).min(target.side.bytes);
        let map = MappedWindow::of_target(target.side, &(start..end))?.map;
        while let Some(write) = writes.next_if(|write| write.offset + write.length <= end) {
            target.announce(write.offset, write.length)?;
            for (at, bytes) in write.parts(target.updates) {
                let at = (write.offset - start) as usize + at;
                map.bytes_mut(at..at + bytes.len()).copy_from(bytes);
            }
            if map.faulted() {
                return Err(why_not(target, &write));
            }
            target.finish(&write);
        }
        if target.side.method.options().durability() == Durability::Fsync {
            target.announce_sync()?;
            target.side.count_call();
            map.flush().map_err(|error| target.side.not_synced(error))?;
        }
    }
    check_not_cut(target)
}

/// Allocates the blocks of holes with updates, if the system can. If it fails, blocks that it has allocated stay: other
/// processes may have written there meanwhile.
fn fill_holes(target: &Target<'_>, block_bytes: usize) -> Result<()> {
    let side = target.side;
    let unit = side.metadata()?.blksize().max(1);
    let (mut hole, mut filled) = (0..0, 0);
    for write in target.writes(block_bytes) {
        let (mut at, end) = (write.offset.max(filled), write.offset + write.length);
        while at < end {
            if at >= hole.end {
                let Some(next) = hole_from(side, at)? else {
                    return Ok(());
                };
                hole = next;
            }
            at = at.max(hole.start);
            if at < end {
                let bytes = end.min(hole.end) - at;
                side.count_call();
                let allocated = sys::allocate(&side.file, at, bytes);
                match allocated.map_err(|error| side.failed(("allocate blocks of the hole", at), error))? {
                    Support::Available(()) => {}
                    Support::Unavailable(_) => return Ok(()),
                }
                at += bytes;
                // Small updates share a block.
                filled = at.next_multiple_of(unit);
            }
        }
    }
    Ok(())
}

/// The first hole at or behind an offset; `None` if there is none or the system reports none.
fn hole_from(side: &OpenFile<'_>, offset: u64) -> Result<Option<Range<u64>>> {
    for stretch in side.stretches(offset..side.bytes, 1) {
        if let Stretch::Hole(hole) = stretch? {
            return Ok(Some(hole));
        }
    }
    Ok(None)
}

/// Fails if other processes shortened the file meanwhile: bytes stored behind its end are not in it.
fn check_not_cut(target: &Target<'_>) -> Result<()> {
    target.side.check_not_shrunk().inspect_err(|error| {
        if let Error::Resized { found_bytes, .. } = error {
            target.note_cut_off(1, *found_bytes);
        }
    })
}

/// Why a write through the map failed: because the file is shorter now, or for the reason that pwrite(2) of the same
/// bytes gives.
fn why_not(target: &Target<'_>, write: &Write) -> Error {
    let (side, offset) = (target.side, write.offset);
    let mut parts = write.parts(target.updates);
    let by_itself = check_not_cut(target)
        .and_then(|()| parts.try_for_each(|(at, bytes)| side.write_block(bytes, offset + at as u64, bytes.len())));
    by_itself.err().unwrap_or_else(|| {
        let reason = "the page is unavailable: the disk is nearly full, or failed for a moment";
        side.failed(("write through the map", offset), io::Error::other(reason))
    })
}
