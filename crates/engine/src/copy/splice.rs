//! `copy/splice`: pages move from file to pipe to file by splice(2), without passing through this process.

use std::ops::Range;

use seekless_sys::{Pipe, Support};

use super::{CopyBytes, PrepareCopy};
use crate::ahead::Ahead;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::Side;

pub(super) const PREPARE: PrepareCopy = |setup| match Pipe::new(setup.block_bytes) {
    Ok(Support::Available(pipe)) => Ok(Box::new(Splice { pipe, setup })),
    Ok(Support::Unavailable(reason)) => Err(setup.unavailable(reason)),
    Err(error) => Err(setup.failed("making a pipe", error)),
};

struct Splice {
    pipe: Pipe,
    setup: Setup,
}

impl CopyBytes for Splice {
    fn copy(&mut self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let result = self.splice_all(source, target, range);
        if result.is_err() {
            // What is left in the pipe must not reach the next file.
            self.pipe = match Pipe::new(self.setup.block_bytes) {
                Ok(Support::Available(pipe)) => pipe,
                _ => return result,
            };
        }
        result
    }
}

impl Splice {
    fn splice_all(&self, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
        let mut ahead = Ahead::within(source, range.clone())?;
        let mut offset = range.start;
        while offset < range.end {
            let length = (self.setup.block_bytes as u64).min(range.end - offset) as usize;
            ahead.reading_at(offset)?;
            source.count_call();
            let filled = self.pipe.fill(&source.file, offset, length);
            let filled = source.support(("splicing into the pipe", offset), filled)?;
            if filled == 0 {
                return Err(source.resized(offset));
            }
            let mut drained = 0;
            while drained < filled {
                let at = offset + drained as u64;
                target.count_call();
                let moved = self.pipe.drain(&target.file, at, filled - drained);
                drained += match target.support(("splicing out of the pipe", at), moved)? {
                    0 => return Err(target.failed_at("splicing", at, std::io::ErrorKind::WriteZero.into())),
                    moved => moved,
                };
            }
            offset += filled as u64;
        }
        Ok(())
    }
}
