//! `compare/io_uring,depth=N`: N reads of both files in flight through one ring; blocks are compared in order, as soon
//! as both are read.

use std::ops::Range;

use seekless_sys::{Buffer, Ring};

use super::pair::Pair;
use super::sync::preload_blocks;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::setup::Setup;
use crate::transfer::{Ahead, Flight};

pub(super) const PREPARE: PrepareCompare = |setup| {
    let preloads = setup.method.options().order().preloads();
    Ok(Box::new(IoUring {
        ring: setup.ring()?,
        preloading: preloads.then(|| setup.buffer()).transpose()?,
        setup,
    }))
};

struct IoUring {
    setup: Setup,
    ring: Ring,
    preloading: Option<Buffer>,
}

impl CompareBytes for IoUring {
    fn preload(&mut self, pair: &Pair<'_>, file: usize, range: Range<u64>) -> Result<()> {
        match &mut self.preloading {
            Some(buffer) => preload_blocks(pair, file, range, buffer),
            None => Ok(()),
        }
    }

    fn compare(&mut self, pair: &Pair<'_>, range: Range<u64>, newlines: &mut u64) -> Result<Option<u64>> {
        if self.ring.depth() < 2 {
            return Err(self.setup.unavailable("two files need a depth of at least 2"));
        }
        let ahead = |file: usize| Ahead::within(&pair.sides[file], pair.place(file, &range));
        let mut aheads = [ahead(0)?, ahead(1)?];
        // Block n of file f is in slot `2 * (n % pairs) + f`.
        let pairs = u64::from(self.ring.depth() / 2);
        let slots_of = |block: u64| [0, 1].map(|file| 2 * (block % pairs) as u32 + file);
        let mut left = self.setup.blocks(range.clone());
        let (mut asked, mut compared) = (0, 0);
        let mut flight = Flight::new(&mut self.ring, &pair.sides[0]);
        loop {
            while asked < compared + pairs
                && let Some((at, length)) = left.next()
            {
                for (file, slot) in slots_of(asked).into_iter().enumerate() {
                    let at = pair.starts[file] + at;
                    aheads[file].reading_at(at)?;
                    flight.read(slot, &pair.sides[file], at, length)?;
                }
                flight.submit()?;
                asked += 1;
            }
            if compared == asked {
                return Ok(None);
            }
            let slots = slots_of(compared);
            while !slots.iter().all(|&slot| flight.request(slot).is_whole()) {
                flight.wait_whole()?;
            }
            let [one, other] = slots.map(|slot| flight.bytes(slot));
            if let Some(found) = pair.difference(one, other, newlines) {
                return Ok(Some(flight.request(slots[0]).offset - pair.starts[0] + found));
            }
            compared += 1;
        }
    }
}
