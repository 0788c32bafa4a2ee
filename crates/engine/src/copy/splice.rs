//! `copy/splice`: pages move from file to pipe to file by splice(2), without passing through this process.

use std::ops::Range;

use seekless_sys::{Pipe, Support};

use super::PreparedCopy;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Ahead, OpenFile};

pub(super) fn prepare(setup: Setup) -> PreparedCopy {
    let new_pipe = move || match Pipe::new(setup.block_bytes) {
        Ok(Support::Available(pipe)) => Ok(pipe),
        Ok(Support::Unavailable(reason)) => Err(setup.unavailable(reason)),
        Err(error) => Err(setup.failed("create a pipe", error)),
    };
    let mut pipe = new_pipe()?;
    Ok(Box::new(move |source, target, range| {
        let result = splice_all(&pipe, setup.block_bytes as u64, source, target, range);
        // What is left in the pipe must not reach the next file.
        if result.is_err()
            && let Ok(empty) = new_pipe()
        {
            pipe = empty;
        }
        result
    }))
}

fn splice_all(
    pipe: &Pipe,
    block_bytes: u64,
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    range: Range<u64>,
) -> Result<()> {
    let mut ahead = Ahead::within(source, range.clone())?;
    let mut offset = range.start;
    while offset < range.end {
        let length = block_bytes.min(range.end - offset) as usize;
        ahead.reading_at(offset)?;
        source.count_call();
        let filled = pipe.fill(&source.file, offset, length);
        let filled = source.support(("splice into the pipe", offset), filled)?;
        if filled == 0 {
            return Err(source.resized(offset));
        }
        let end = offset + filled as u64;
        while offset < end {
            target.count_call();
            let moved = pipe.drain(&target.file, target.place(offset), (end - offset) as usize);
            offset += match target.support(("splice from the pipe", offset), moved)? {
                0 => return Err(target.failed(("splice", offset), std::io::ErrorKind::WriteZero.into())),
                moved => moved as u64,
            };
        }
    }
    Ok(())
}
