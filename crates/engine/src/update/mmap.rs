//! `update/mmap`: the file mapped in windows of a block, and the updates stored where they belong.
//!
//! Nothing between updates is written back by us, so nobody has to be kept out; the kernel writes whole pages, which is
//! what wears flash. Durable by msync(2) and fsync(2).

use seekless_sys::page_bytes;

use super::sync::ACCEPTS;
use super::target::Target;
use super::{PrepareUpdate, UpdateTarget};
use crate::error::Result;
use crate::method::{Accepts, Durability, Mechanism, Operation, Platform, Preallocate, Prepare, UpdateOrder};
use crate::read::{map_fault, require_guard};
use crate::setup::Setup;
use crate::write::map_target;

const PREPARE: PrepareUpdate = |setup| {
    require_guard(&setup)?;
    Ok(Box::new(Mmap { setup }))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Update,
    name: "mmap",
    about: "the file mapped in windows of a block, and the updates stored in them",
    accepts: Accepts {
        block: Some(Some(8 << 20)),
        cache: &[],
        preallocate: &[Preallocate::Truncate, Preallocate::Both],
        durability: &[Durability::Fsync],
        update_orders: &[UpdateOrder::Ascending],
        ..ACCEPTS
    },
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 3,
    prepare: Prepare::Update(PREPARE),
};

struct Mmap {
    setup: Setup,
}

impl UpdateTarget for Mmap {
    fn update(&mut self, target: &Target<'_>) -> Result<()> {
        target.side.reach_size()?;
        let window = (self.setup.block_bytes as u64).next_multiple_of(page_bytes() as u64);
        let mut writes = target.writes(window as usize).peekable();
        while let Some(first) = writes.peek() {
            let start = first.offset / window * window;
            // A write that begins in this window may end in the next.
            let end = (start + 2 * window).min(target.side.bytes);
            let map = map_target(target.side, start, (end - start) as usize)?;
            while let Some(write) = writes.next_if(|write| write.offset + write.length <= end) {
                target.announce(write.offset, write.length)?;
                for (at, bytes) in target.window.parts(&write) {
                    let at = (write.offset - start) as usize + at;
                    map.bytes_mut(at..at + bytes.len()).copy_from(bytes);
                }
                target.finish(&write);
            }
            if map.faulted() {
                return Err(map_fault(target.side, start));
            }
            if target.side.method.options().durability == Durability::Fsync {
                target.announce_sync()?;
                target.side.count_call();
                map.flush().map_err(|error| target.side.not_synced(error))?;
            }
        }
        target.side.check_not_shrunk()
    }
}
