//! Code that the mechanisms share: the updated file, its gaps, and the progress.

use std::cell::Cell;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Advice, LeaseKind, page_bytes};

use super::batch::Updates;
use super::writes::{Write, WriteLayout, Writes};
use crate::error::{Error, HowFar, NotAlone, Result, UpdateErrorKind};
use crate::files::{Lease, StepKind, Watch, WatchedStep};
use crate::transfer::{OpenFile, PIECE_BYTES};
use seekless_method::Hint;

/// Who else may write to the file between reading a gap and writing it back.
#[derive(Debug)]
pub(crate) enum Exclusion {
    /// Nobody: the file is new, or the user takes the risk.
    Nobody,
    /// Nobody while the lease holds.
    UntilLeaseEnds(Lease),
    /// Anybody, so only the bytes of updates are written.
    Anybody,
}

/// An update in progress: its watch, who else may write, and how far it is.
pub(crate) struct UpdateState<'a> {
    pub watch: &'a dyn Watch,
    exclusion: Exclusion,
    pub bytes_before: u64,
    has_begun: Cell<bool>,
    has_grown: Cell<bool>,
    /// Whether other processes made the file longer before the update did.
    others_grew: Cell<bool>,
    /// How many writes are done, and their bytes.
    done: Cell<(u64, u64)>,
    /// If it ended with several writes in flight: how many, and the start of the first. Or where another process cut
    /// the file.
    cut_off: Cell<Option<(u64, u64)>>,
}

impl<'a> UpdateState<'a> {
    pub fn new(watch: &'a dyn Watch, exclusion: Exclusion, bytes_before: u64) -> Self {
        Self {
            watch,
            exclusion,
            bytes_before,
            has_begun: Cell::default(),
            has_grown: Cell::default(),
            others_grew: Cell::default(),
            done: Cell::default(),
            cut_off: Cell::default(),
        }
    }

    /// Whether the first write was started.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Checks whether the file still has its old size, before the update first makes it longer.
    pub fn note_growth(&self, side: &OpenFile<'_>, end: u64) -> Result<()> {
        if end > self.bytes_before && !self.has_grown.replace(true) {
            self.others_grew.set(side.metadata()?.len() != self.bytes_before);
        }
        Ok(())
    }

    /// Whether everything past the old end of the file must be from the update, if the file is not longer than that.
    pub fn may_cut(&self) -> bool {
        !self.others_grew.get()
    }

    /// Whether no other process has the file open, or the user takes the risk.
    pub fn is_alone(&self) -> bool {
        matches!(self.exclusion, Exclusion::Nobody)
    }

    /// Whether no other process can have opened the file since the update began: one may wait for the end of the lease.
    pub fn is_shut(&self, side: &OpenFile<'_>) -> bool {
        matches!(self.exclusion, Exclusion::UntilLeaseEnds(_)) && sys::keeps_lease(&side.file)
    }

    /// How many writes are done, and their bytes.
    pub fn progress(&self) -> (u64, u64) {
        self.done.get()
    }

    /// Counts a finished write.
    fn count(&self, bytes: u64) {
        let (writes, written_bytes) = self.done.get();
        self.done.set((writes + 1, written_bytes + bytes));
    }

    /// How far an update in place got that ended early, and the end of the writes that it started.
    pub fn how_far(&self, side: &OpenFile<'_>, updates: &Updates, block_bytes: usize) -> (HowFar, u64) {
        let (done, _) = self.progress();
        let cut_off = self.cut_off.get();
        let in_flight = cut_off.map_or(1, |(writes, _)| writes);
        let begun = if self.has_begun() { done + in_flight } else { 0 };
        let (mut planned, mut whole, mut next_offset, mut reached) = (0, 0, None, 0);
        for write in Writes::new(updates, layout(side, block_bytes)) {
            let is_whole = match cut_off {
                Some((_, offset)) => write.offset + write.length <= offset,
                None => planned < done,
            };
            whole += u64::from(is_whole);
            if !is_whole && next_offset.is_none() {
                next_offset = Some(write.offset);
            }
            if planned < begun {
                reached = reached.max(write.offset + write.length);
            }
            planned += 1;
        }
        let far = HowFar {
            done: whole,
            unsure: begun.saturating_sub(whole).min(planned - whole),
            planned,
            next_offset: next_offset.unwrap_or(side.bytes),
        };
        (far, reached.min(side.bytes))
    }
}

fn layout(side: &OpenFile<'_>, block_bytes: usize) -> WriteLayout {
    let order = side.method.options().update_order();
    WriteLayout {
        order,
        block_bytes: block_bytes as u64,
        alignment: side.alignment,
        end: side.bytes,
    }
}

/// A file with its updates.
pub(crate) struct Target<'a> {
    pub side: &'a OpenFile<'a>,
    pub updates: &'a Updates,
    pub state: &'a UpdateState<'a>,
}

impl<'a> Target<'a> {
    pub fn writes(&self, block_bytes: usize) -> Writes<'a> {
        Writes::new(self.updates, layout(self.side, block_bytes))
    }

    /// Announces a write to the watch.
    pub fn announce(&self, offset: u64, bytes: u64) -> Result<()> {
        self.state.note_growth(self.side, offset + bytes)?;
        self.state.has_begun.set(true);
        let step = WatchedStep {
            offset,
            bytes,
            ..WatchedStep::of(StepKind::Write, self.side.path)
        };
        let watched = self.state.watch.before(&step);
        watched.map_err(|error| self.side.failed(("write", offset), error))
    }

    /// Announces the sync to the watch.
    pub fn announce_sync(&self) -> Result<()> {
        announce_sync(self.side, self.state.watch)
    }

    /// Counts a finished write.
    pub fn finish(&self, write: &Write) {
        self.state.count(write.length);
    }

    /// Records the writes that were in flight when an error ended the update: how many, and the start of the first.
    pub fn note_cut_off(&self, writes: u64, offset: u64) {
        self.state.cut_off.set(Some((writes, offset)));
    }

    /// Whether gaps may be read and written back. No longer once another process waits for the file: after the gaps
    /// that were already read are written, the lease is given up ([`Target::let_others_in`]), and only the bytes of
    /// updates are written.
    pub fn may_fill_gaps(&self) -> bool {
        match &self.state.exclusion {
            Exclusion::Nobody => true,
            Exclusion::Anybody => false,
            Exclusion::UntilLeaseEnds(lease) => lease.stands(),
        }
    }

    /// Gives up the lease for waiting processes. Call it only when no gap that was read is still to be written. With direct I/O they
    /// wait until its padding is cut off.
    pub fn let_others_in(&self) {
        if let Exclusion::UntilLeaseEnds(lease) = &self.state.exclusion
            && self.side.alignment == 1
        {
            lease.end();
        }
    }

    /// Fails if the method cannot make this write without its gaps.
    pub fn require_exact(&self, write: &Write) -> Result<()> {
        if self.side.alignment == 1 {
            return Ok(());
        }
        Err(not_exclusive(self.side, NotAlone::OpenedBefore(write.offset)))
    }

    /// Makes one write: reads its gaps first, or writes only its updates.
    pub fn write(&self, write: &Write, buffer: &mut [u8]) -> Result<()> {
        if write.has_gaps() {
            if !self.may_fill_gaps() {
                return self.write_exactly(write, buffer);
            }
            self.read_gaps(write, buffer)?;
        }
        self.announce(write.offset, write.length)?;
        // A process that was stopped for longer than /proc/sys/fs/lease-break-time has lost its lease, and others may
        // have written. A stop between this check and the write is not noticed.
        if write.has_gaps() && !self.may_fill_gaps() {
            return self.write_exactly(write, buffer);
        }
        let bytes = match write.only_part(self.updates) {
            // Direct I/O needs aligned memory.
            Some(bytes) if self.side.alignment == 1 => bytes,
            _ => {
                write.overlay(self.updates, buffer);
                buffer
            }
        };
        self.side.write_block(bytes, write.offset, write.length as usize)?;
        self.finish(write);
        Ok(())
    }

    /// Gives up the lease and writes only the bytes of updates, if the method can.
    fn write_exactly(&self, write: &Write, buffer: &mut [u8]) -> Result<()> {
        self.let_others_in();
        self.require_exact(write)?;
        self.write_parts(write, buffer)
    }

    /// Writes only the bytes of updates, each range by itself.
    pub fn write_parts(&self, write: &Write, buffer: &mut [u8]) -> Result<()> {
        let mut stretch = 0..0;
        let flush = |stretch: &std::ops::Range<usize>, buffer: &[u8]| {
            if stretch.is_empty() {
                return Ok(());
            }
            let (offset, bytes) = (write.offset + stretch.start as u64, stretch.len());
            self.announce(offset, bytes as u64)?;
            self.side.write_block(&buffer[stretch.clone()], offset, bytes)
        };
        for (at, bytes) in write.parts(self.updates) {
            if at != stretch.end {
                flush(&stretch, buffer)?;
                stretch = at..at;
            }
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            stretch.end = at + bytes.len();
        }
        flush(&stretch, buffer)?;
        self.state.count(write.covered);
        Ok(())
    }

    /// Reads the range of a write; bytes past the end of the file are zeros.
    fn read_gaps(&self, write: &Write, buffer: &mut [u8]) -> Result<()> {
        let buffer = &mut buffer[..write.length as usize];
        let mut done = 0;
        while done < buffer.len() {
            let at = write.offset + done as u64;
            // A read that is not aligned ends at the end of the file.
            if !at.is_multiple_of(self.side.alignment) {
                break;
            }
            self.side.count_call();
            match self.side.file.read_at(&mut buffer[done..], at) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.side.failed(("read the gap", at), error)),
            }
        }
        buffer[done..].fill(0);
        Ok(())
    }
}

fn announce_sync(side: &OpenFile<'_>, watch: &dyn Watch) -> Result<()> {
    let watched = watch.announce(StepKind::Sync, side.path);
    watched.map_err(|error| side.not_synced(error))
}

/// Syncs what was written; returns the time it took.
pub(super) fn sync(side: &OpenFile<'_>, watch: &dyn Watch) -> Result<Duration> {
    announce_sync(side, watch)?;
    side.count_call();
    let start = Instant::now();
    sys::sync(&side.file).map_err(|error| side.not_synced(error))?;
    Ok(start.elapsed())
}

/// The error that other processes cannot be kept out, although gaps are to be written.
pub(super) fn not_exclusive(side: &OpenFile<'_>, source: NotAlone) -> Error {
    let method = *side.method;
    UpdateErrorKind::NotExclusive { method, source }.at(side.path)
}

/// Takes a lease that keeps all other processes from opening the file, or returns why there is none.
pub(super) fn exclude_others(side: &OpenFile<'_>) -> std::result::Result<Lease, NotAlone> {
    side.count_calls(2);
    Lease::take(&side.file, LeaseKind::Exclusive, None)
}

/// How many writes the hint is ahead.
const AHEAD_WRITES: u64 = 64;
const AHEAD_BYTES: u64 = 8 << 20;

/// The read-ahead hint of an update: the kernel reads data for later writes while the current write waits for the device.
/// It covers gaps, and pages that are written in part, whose rest the kernel reads.
pub(super) struct WriteAhead<'a> {
    target: &'a Target<'a>,
    /// The writes without a hint yet; `None` if the hint is given once.
    coming: Option<Writes<'a>>,
    /// Writes and bytes with a hint that are not written yet.
    pending: u64,
    pending_bytes: u64,
}

impl<'a> WriteAhead<'a> {
    /// Gives a hint that is given only once.
    pub fn new(target: &'a Target<'a>, block_bytes: usize) -> Result<Self> {
        let hint = target.side.method.options().hint();
        if hint == Hint::Random {
            target.side.count_call();
            let given = sys::advise(&target.side.file, Advice::Random, 0, 0);
            target.side.support(GIVING, given)?;
        }
        Ok(Self {
            target,
            coming: (hint == Hint::WillNeed).then(|| target.writes(block_bytes)),
            pending: 0,
            pending_bytes: 0,
        })
    }

    /// Gives the hints for writes after the one that is about to be made.
    pub fn writing(&mut self, write: &Write) -> Result<()> {
        let Some(coming) = &mut self.coming else {
            return Ok(());
        };
        while self.pending <= AHEAD_WRITES && self.pending_bytes <= AHEAD_BYTES {
            let Some(next) = coming.next() else { break };
            self.pending += 1;
            self.pending_bytes += next.length;
            // The current write reads at once.
            if next.offset != write.offset {
                tell(self.target, &next)?;
            }
        }
        self.pending = self.pending.saturating_sub(1);
        self.pending_bytes = self.pending_bytes.saturating_sub(write.length);
        Ok(())
    }
}

/// Gives the hint for a write: for all of it, or for pages that it writes in part.
fn tell(target: &Target<'_>, write: &Write) -> Result<()> {
    let (page, end) = (page_bytes() as u64, write.offset + write.length);
    if write.has_gaps() || write.length <= 2 * page {
        return advise(target, write.offset, end);
    }
    for edge in [write.offset, end] {
        if !edge.is_multiple_of(page) {
            advise(target, edge, edge + 1)?;
        }
    }
    Ok(())
}

fn advise(target: &Target<'_>, offset: u64, end: u64) -> Result<()> {
    let mut at = offset;
    while at < end.min(target.side.bytes) {
        let bytes = PIECE_BYTES.min(end - at);
        target.side.count_call();
        let given = sys::advise(&target.side.file, Advice::WillNeed, at, bytes);
        target.side.support(GIVING, given)?;
        at += bytes;
    }
    Ok(())
}

const GIVING: &str = "give the read-ahead hint";
