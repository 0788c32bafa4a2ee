//! Files that updates make longer. Others may append meanwhile, so a size is never set to what it should be by now: a file is
//! only made longer, and cut only where nobody else can have written behind the cut.

use std::os::unix::fs::FileExt;

use seekless_sys::{self as sys, Buffer, LeaseKind, Support};

use super::target::{UpdateState, exclude_others};
use crate::error::Result;
use crate::files::Stretch;
use crate::setup::MEMORY_ALIGNMENT;
use crate::transfer::OpenFile;
use seekless_method::Preallocate;

/// Makes the file as long as it will be, or gives it its blocks, as the method says.
pub(super) fn extend(side: &OpenFile<'_>, state: &UpdateState<'_>) -> Result<()> {
    let way = side.method.options().preallocate();
    if matches!(way, Preallocate::Allocate | Preallocate::Both) {
        state.note_growth(side, side.bytes)?;
        side.count_call();
        let allocated = sys::allocate(&side.file, state.bytes_before, side.bytes - state.bytes_before);
        side.support("allocate blocks", allocated)?;
    }
    match way {
        Preallocate::Truncate | Preallocate::Both => reach_size(side, state),
        _ => Ok(()),
    }
}

/// Makes the file at least as long as it will be. Where no call does only that, nobody else may have it open meanwhile.
pub(super) fn reach_size(side: &OpenFile<'_>, state: &UpdateState<'_>) -> Result<()> {
    state.note_growth(side, side.bytes)?;
    let is_short = || -> Result<bool> {
        side.count_call();
        Ok(side.metadata()?.len() < side.bytes)
    };
    if !is_short()? {
        return Ok(());
    }
    side.count_call();
    let extended = sys::extend(&side.file, side.bytes).map_err(|error| side.failed("extend", error))?;
    let Support::Unavailable(reason) = extended else {
        return Ok(());
    };
    let was_held = sys::holds_lease(&side.file, LeaseKind::Exclusive);
    let lease = exclude_others(side).map_err(|why| {
        side.unavailable(&format!(
            "{reason}, and other processes may append while the size is set: {why}"
        ))
    })?;
    if is_short()? {
        side.resize(side.bytes)?;
    }
    if !was_held {
        lease.end();
    }
    Ok(())
}

/// Cuts off what aligned writes put behind the end. Tells whether there was anything.
pub(super) fn cut_padding(side: &OpenFile<'_>, state: &UpdateState<'_>) -> Result<bool> {
    let is_padded = side.alignment > 1 && side.metadata()?.len() > side.bytes;
    if is_padded && !cut_zeros(side, side.bytes, state)? {
        let reason = "another process opened the file";
        return Err(side.failed("cut off the padding of the last block", std::io::Error::other(reason)));
    }
    Ok(is_padded)
}

/// Cuts off what an update put behind `end`, which are zeros, and only while nobody else has the file open. Returns
/// whether nothing is behind the end now.
pub(super) fn cut_zeros(side: &OpenFile<'_>, end: u64, state: &UpdateState<'_>) -> Result<bool> {
    cut(side, end, state, |_, bytes| Ok(bytes.iter().all(|&byte| byte == 0)))
}

/// How much is looked at in one piece, at most.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// Cuts the file to `end` if nobody else has it open or has made it longer, and `is_ours` says of all data behind the end that
/// the update made it: given its offset and the bytes, by offset. Returns whether nothing is behind the end now.
///
/// A stop of this process for longer than `/proc/sys/fs/lease-break-time` between the last question and the cut is not
/// noticed.
pub(super) fn cut(
    side: &OpenFile<'_>,
    end: u64,
    state: &UpdateState<'_>,
    mut is_ours: impl FnMut(u64, &[u8]) -> Result<bool>,
) -> Result<bool> {
    let length = side.metadata()?.len();
    if length <= end {
        return Ok(true);
    }
    let whole = side.bytes.next_multiple_of(side.alignment);
    if length > whole || !state.may_cut() {
        return Ok(false);
    }
    if state.is_alone() {
        // The user may answer for others (--unsafe): where it ends elsewhere, they wrote to it.
        let is_ours = [side.bytes, whole].contains(&length);
        return if is_ours {
            side.resize(end).map(|()| true)
        } else {
            Ok(false)
        };
    }
    let Ok(lease) = exclude_others(side) else {
        let is_cut = state.is_shut(side) && side.metadata()?.len() == length;
        if is_cut {
            side.resize(end)?;
        }
        return Ok(is_cut);
    };
    let length = side.metadata()?.len();
    // Padding is short: as much memory as can be had at the end of an update, where nothing should fail any more.
    let looked_at = length.saturating_sub(end - end % side.alignment);
    let looked_at = looked_at.next_multiple_of(MEMORY_ALIGNMENT as u64).min(LOOKED_AT_BYTES);
    let buffer = Buffer::new(looked_at as usize, MEMORY_ALIGNMENT);
    let mut buffer = buffer.map_err(|error| side.failed("allocate a buffer", error))?;
    let mut at = end;
    for stretch in side.stretches(end..length, 1) {
        let Stretch::Data(range) = stretch? else { continue };
        at = at.max(range.start);
        while at < range.end {
            let from = at - at % side.alignment;
            side.count_call();
            let read = side.file.read_at(&mut buffer, from);
            let read = read.map_err(|error| side.failed(("read what follows the old end", at), error))?;
            let found = buffer[..read].get((at - from) as usize..).unwrap_or_default();
            if found.is_empty() || !is_ours(at, found)? {
                lease.end();
                return Ok(false);
            }
            at += found.len() as u64;
        }
    }
    let is_cut = lease.stands() && side.metadata()?.len() == length;
    if is_cut {
        side.resize(end)?;
    }
    lease.end();
    Ok(is_cut)
}
