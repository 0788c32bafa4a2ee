//! `write/threads=N`: each thread writes the next block that none has taken.
//!
//! Bytes are made one block at a time, in order; threads overlap in writing, and in waiting for the device.

use std::sync::{Mutex, MutexGuard};

use seekless_sys::{Buffer, into_unlocked, lock_mutex};

use super::PreparedWrite;
use crate::Producer;
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Blocks, OpenFile};

pub(super) fn prepare(setup: Setup) -> PreparedWrite {
    let threads = setup.method.options().threads() as usize;
    let mut buffers = (0..threads).map(|_| setup.buffer()).collect::<Result<Vec<_>>>()?;
    let pool = setup.pool(threads)?;
    Ok(Box::new(move |target, producer| {
        let left = Mutex::new(Ok(target.blocks(setup.block_bytes, target.range())));
        pool.in_place_scope(|scope| {
            for buffer in &mut buffers {
                let left = &left;
                scope.spawn(move |_| {
                    if let Err(error) = write_blocks(target, producer, buffer, left) {
                        *lock(left) = Err(error);
                    }
                });
            }
        });
        into_unlocked(left).map(drop)
    }))
}

/// The blocks that none has taken; after an error of one thread the error, with which all others end.
type BlocksLeft<'a> = Mutex<Result<Blocks<'a>>>;

fn lock<'l, 'a>(left: &'l BlocksLeft<'a>) -> MutexGuard<'l, Result<Blocks<'a>>> {
    lock_mutex(left)
}

/// Writes blocks until there are no more.
fn write_blocks(
    target: &OpenFile<'_>,
    producer: &dyn Producer,
    buffer: &mut Buffer,
    left: &BlocksLeft<'_>,
) -> Result<()> {
    loop {
        let mut blocks = lock(left);
        let Some((offset, length)) = blocks.as_mut().ok().and_then(Iterator::next) else {
            return Ok(());
        };
        if !target.is_read(offset) {
            target.produce(producer, offset, &mut buffer[..length])?;
        }
        drop(blocks);
        target.visit_block(buffer, offset, length)?;
    }
}
