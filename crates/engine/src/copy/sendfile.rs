//! `copy/sendfile`: sendfile(2) moves as much as one call can.

use std::io::{Seek, SeekFrom};
use std::ops::Range;

use seekless_sys::{self as sys};

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |_| Ok(Box::new(Sendfile));

struct Sendfile;

impl CopyBytes for Sendfile {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        // It writes at the target's position, unlike the others.
        target.count_call();
        let sought = (&*target.file).seek(SeekFrom::Start(range.start));
        sought.map_err(|error| target.failed_at("going on", range.start, error))?;
        copy_by_call(source, target, range, "sendfile", |offset, length| {
            sys::sendfile(&source.file, offset, &target.file, length)
        })
    }
}

/// The most bytes that Linux moves in one call.
const MAX_CALL_BYTES: u64 = 0x7fff_f000;

/// Copies by a call that moves some bytes from an offset to the same offset, and tells how many.
pub(super) fn copy_by_call(
    source: &Side<'_>,
    target: &Side<'_>,
    range: Range<u64>,
    name: &'static str,
    call: impl Fn(u64, usize) -> std::io::Result<sys::Support<usize>>,
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
