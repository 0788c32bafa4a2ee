//! Flash: chips that read and program pages at the same time, a write buffer, blocks that are erased as a whole.
//!
//! A drive with a map of pages writes onward in free blocks; what it overwrites leaves dead pages behind, and when free blocks run
//! out, it moves the live pages of the block with the fewest. A simple one without a map (`open_block_count`) writes a few blocks
//! in order, and copies a whole block for each write that is out of order. A part of the cells may be programmed fast until it is
//! full; while idle, the drive moves their content to the others.
//!
//! Simplifications: which chip holds a page follows from its address; a read that meets a program waits for half of it; nothing
//! wears out. A device of another size than the model's has as much more or less of fast cells.

use serde::Deserialize;

use super::{bytes_within, transfer_ns};
use crate::request::{BlockRequest, RequestKind};

/// Parameters of flash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// The size for which the other figures hold.
    pub capacity_bytes: u64,
    /// Chips that work at the same time.
    pub chip_count: u64,
    /// What is read or programmed at once.
    pub page_bytes: u64,
    /// Reading a page.
    pub page_read_ns: u64,
    /// Programming a page.
    pub page_program_ns: u64,
    /// Programming a page of the fast cells.
    #[serde(default)]
    pub fast_page_program_ns: u64,
    /// The fast cells.
    #[serde(default)]
    pub fast_bytes: u64,
    /// What is erased at once, on all chips.
    pub block_bytes: u64,
    /// Erasing it.
    pub block_erase_ns: u64,
    /// Space that the host does not see.
    pub spare_percent: u64,
    /// How many blocks a drive without a map of pages can write in order; 0: it has a map.
    #[serde(default)]
    pub open_block_count: u64,
    /// The time of a read by itself.
    pub read_command_ns: u64,
    /// The time of a write by itself.
    pub write_command_ns: u64,
    /// How many streams the drive reads ahead of, so that their pages are in its memory.
    pub stream_count: u64,
    /// What the interface reads.
    pub read_bytes_per_second: u64,
    /// What the interface writes.
    pub write_bytes_per_second: u64,
}

/// The unit of the map.
const UNIT_BYTES: u64 = 4096;
/// How long nothing is written before the drive empties its fast cells.
const IDLE_AFTER_NS: u64 = 20_000_000;
/// Free blocks that are kept for moving.
const RESERVED_BLOCKS: usize = 2;

#[derive(Debug, Default)]
struct Block {
    /// The units that were written to it, dead ones too.
    units: Vec<u32>,
    live: u32,
}

/// What flash remembers.
#[derive(Debug)]
pub struct FlashState {
    flash: &'static Flash,
    write_cache_bytes: u64,
    chips_free_ns: Vec<u64>,
    interface_free_ns: u64,
    /// Where streams go on; the one used last is last.
    streams: Vec<u64>,
    /// When everything that was written is programmed.
    programmed_ns: u64,
    fast_bytes: u64,
    fast_used_bytes: u64,
    /// For each unit, where it is: the number of a place from 1, or 0.
    places: Vec<u32>,
    blocks: Vec<Block>,
    free: Vec<usize>,
    writing: usize,
    /// Blocks that are written in order, and where each goes on; the one opened last is last.
    open: Vec<(u64, u64)>,
}

impl FlashState {
    /// Flash of `size_bytes` (0: its own capacity) that was never written.
    #[must_use]
    pub fn new(flash: &'static Flash, write_cache_bytes: u64, size_bytes: u64) -> Self {
        let size_bytes = if size_bytes == 0 {
            flash.capacity_bytes
        } else {
            size_bytes
        };
        let block_count = (size_bytes * (100 + flash.spare_percent) / 100).div_ceil(flash.block_bytes) as usize;
        let block_count = block_count + RESERVED_BLOCKS + 2;
        let with_map = flash.open_block_count == 0;
        Self {
            flash,
            write_cache_bytes,
            chips_free_ns: vec![0; flash.chip_count as usize],
            interface_free_ns: 0,
            streams: Vec::new(),
            programmed_ns: 0,
            fast_bytes: (u128::from(flash.fast_bytes) * u128::from(size_bytes) / u128::from(flash.capacity_bytes))
                as u64,
            fast_used_bytes: 0,
            places: if with_map {
                vec![0; size_bytes.div_ceil(UNIT_BYTES) as usize]
            } else {
                Vec::new()
            },
            blocks: (0..if with_map { block_count } else { 0 })
                .map(|_| Block::default())
                .collect(),
            free: (1..block_count).rev().collect(),
            writing: 0,
            open: Vec::new(),
        }
    }

    /// When a request that arrives at `now_ns` completes.
    pub fn serve(&mut self, request: &BlockRequest, now_ns: u64) -> u64 {
        let flash = self.flash;
        match request.kind {
            RequestKind::Read => self.read(request, now_ns + flash.read_command_ns),
            RequestKind::Write => self.write(request, now_ns + flash.write_command_ns),
            RequestKind::Flush => self.programmed_ns.max(now_ns) + flash.write_command_ns,
            RequestKind::Discard => {
                let end = (request.end_bytes() / UNIT_BYTES).min(self.places.len() as u64);
                for unit in request.offset_bytes.div_ceil(UNIT_BYTES)..end {
                    self.forget(unit as usize);
                }
                now_ns + flash.write_command_ns
            }
        }
    }

    fn read(&mut self, request: &BlockRequest, now_ns: u64) -> u64 {
        let flash = self.flash;
        let behind_program_ns = if self.programmed_ns > now_ns {
            flash.page_program_ns / 2
        } else {
            0
        };
        let known = self
            .streams
            .iter()
            .position(|goes_on_at| *goes_on_at == request.offset_bytes);
        let page_ns = if known.is_some() {
            0
        } else {
            behind_program_ns + flash.page_read_ns
        };
        if known.is_some() || self.streams.len() as u64 == flash.stream_count {
            self.streams.remove(known.unwrap_or(0));
        }
        self.streams.push(request.end_bytes());
        let mut done_ns = now_ns;
        for page in request.offset_bytes / flash.page_bytes..request.end_bytes().div_ceil(flash.page_bytes) {
            let chip = &mut self.chips_free_ns[(page % flash.chip_count) as usize];
            *chip = now_ns.max(*chip) + page_ns;
            let start = request.offset_bytes.max(page * flash.page_bytes);
            let bytes = request.end_bytes().min((page + 1) * flash.page_bytes) - start;
            done_ns = self.interface_free_ns.max(*chip) + transfer_ns(bytes, flash.read_bytes_per_second);
            self.interface_free_ns = done_ns;
        }
        done_ns
    }

    fn write(&mut self, request: &BlockRequest, now_ns: u64) -> u64 {
        let start_ns = self.interface_free_ns.max(now_ns);
        let received_ns = start_ns + transfer_ns(request.length_bytes, self.flash.write_bytes_per_second);
        self.interface_free_ns = received_ns;
        let idle_ns = start_ns.saturating_sub(self.programmed_ns + IDLE_AFTER_NS);
        self.fast_used_bytes = self
            .fast_used_bytes
            .saturating_sub(bytes_within(idle_ns, self.program_rate(false)));
        let extra_ns = if self.flash.open_block_count > 0 {
            self.write_in_order(request)
        } else {
            self.write_by_map(request)
        };
        let fast = self.fast_bytes > 0 && self.fast_used_bytes + request.length_bytes <= self.fast_bytes;
        self.fast_used_bytes += if fast { request.length_bytes } else { 0 };
        let program_ns = transfer_ns(request.length_bytes, self.program_rate(fast));
        // Pages are programmed while the next are received.
        self.programmed_ns = self.programmed_ns.max(start_ns) + program_ns + extra_ns;
        // It is complete when it is in the write buffer: when all but one buffer is programmed.
        let buffered_ns = transfer_ns(self.write_cache_bytes, self.program_rate(fast));
        received_ns.max(self.programmed_ns.saturating_sub(buffered_ns))
    }

    /// Bytes per second that all chips program together.
    fn program_rate(&self, fast: bool) -> u64 {
        let flash = self.flash;
        let page_ns = if fast {
            flash.fast_page_program_ns
        } else {
            flash.page_program_ns
        };
        flash.chip_count * flash.page_bytes * 1_000_000_000 / page_ns
    }

    /// How long moving `bytes` and erasing a block takes.
    fn move_ns(&self, bytes: u64) -> u64 {
        let flash = self.flash;
        let pages = bytes.div_ceil(flash.page_bytes).div_ceil(flash.chip_count);
        pages * (flash.page_read_ns + flash.page_program_ns) + flash.block_erase_ns
    }

    /// Without a map: nothing extra where a block is written onward, the copy of a block where not.
    fn write_in_order(&mut self, request: &BlockRequest) -> u64 {
        let (block_bytes, mut extra_ns, mut at) = (self.flash.block_bytes, 0, request.offset_bytes);
        while at < request.end_bytes() {
            let block = at / block_bytes;
            let end = request.end_bytes().min((block + 1) * block_bytes);
            let known = self.open.iter().position(|open| open.0 == block);
            let goes_on_at = known.map_or(block * block_bytes, |index| self.open.remove(index).1);
            // The page written last is still in the drive's memory, and may change.
            if at != goes_on_at && end != goes_on_at {
                extra_ns += self.move_ns(block_bytes);
            }
            if self.open.len() as u64 == self.flash.open_block_count {
                self.open.remove(0);
            }
            self.open.push((block, end));
            at = end;
        }
        extra_ns
    }

    /// With a map: where free blocks run out, the moving of live pages.
    fn write_by_map(&mut self, request: &BlockRequest) -> u64 {
        let mut extra_ns = 0;
        for unit in request.offset_bytes / UNIT_BYTES..request.end_bytes().div_ceil(UNIT_BYTES) {
            self.append(unit as usize);
            while self.free.len() <= RESERVED_BLOCKS {
                extra_ns += self.collect();
            }
        }
        extra_ns
    }

    fn units_of_block(&self) -> usize {
        (self.flash.block_bytes / UNIT_BYTES) as usize
    }

    /// Writes a unit to the next place. Addresses past the end, of a list for a larger disk, begin anew.
    fn append(&mut self, unit: usize) {
        let unit = unit % self.places.len();
        self.forget(unit);
        if self.blocks[self.writing].units.len() == self.units_of_block()
            && let Some(free) = self.free.pop()
        {
            self.writing = free;
        }
        let place = self.writing * self.units_of_block() + self.blocks[self.writing].units.len() + 1;
        let block = &mut self.blocks[self.writing];
        block.units.push(unit as u32);
        block.live += 1;
        self.places[unit] = place as u32;
    }

    fn forget(&mut self, unit: usize) {
        let units_of_block = self.units_of_block();
        if let Some(place) = self.places.get_mut(unit)
            && *place > 0
        {
            self.blocks[(*place as usize - 1) / units_of_block].live -= 1;
            *place = 0;
        }
    }

    /// Moves what lives in the full block with the fewest live units, and erases it.
    fn collect(&mut self) -> u64 {
        let full = self.units_of_block();
        let others =
            (0..self.blocks.len()).filter(|index| *index != self.writing && self.blocks[*index].units.len() == full);
        let Some(victim) = others.min_by_key(|index| self.blocks[*index].live) else {
            return 0;
        };
        let taken = std::mem::take(&mut self.blocks[victim]);
        for (index, unit) in taken.units.iter().enumerate() {
            if self.places[*unit as usize] as usize == victim * full + index + 1 {
                // Its block is empty by now, and counts nothing.
                self.places[*unit as usize] = 0;
                self.append(*unit as usize);
            }
        }
        self.free.insert(0, victim);
        self.move_ns(u64::from(taken.live) * UNIT_BYTES)
    }
}
