//! Digging: blocks of zeros become holes, in place. The file reads the same.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc;

use seekless_engine::files::{allocated_bytes, data_ranges, read_full};
use seekless_sys::{self as sys, MappedBytes, Support};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Result;
use super::error::{HoleErrorKind, Worked, cannot};
use super::held::{HeldFile, block_bytes, open_regular};
use super::map::{end_of, past_end};
use super::zeros::{PIECE_BYTES, ZeroRuns, Zeros};
use crate::Stop;
use crate::walk::FileAt;
use crate::watch::{JobCounters, JobWatch};

/// How to dig.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dig {
    /// Shorter runs of zeros are left as they are.
    pub min_bytes: u64,
    /// Only read the file, without a lease, and change nothing.
    pub dry_run: bool,
    /// Read everything before and after, and compare digests (SHA-256).
    pub verify: bool,
    /// Also free blocks past the end of the file.
    pub past_end: bool,
    /// Dig even if other processes cannot be kept out.
    pub is_unsafe: bool,
}

/// What was dug.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dug {
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Runs of zeros that became holes, or would in a dry run.
    pub holes: u64,
    /// Their bytes.
    pub zero_bytes: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now (`st_blocks`); the same in a dry run.
    pub allocated_bytes: u64,
}

impl Dug {
    /// Adds another file's figures.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.holes += other.holes;
        self.zero_bytes = self.zero_bytes.saturating_add(other.zero_bytes);
        self.allocated_before_bytes = self.allocated_before_bytes.saturating_add(other.allocated_before_bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
    }
}

/// Turns the blocks of zeros in a file's data into holes. Blocks that are allocated but unwritten stay allocated, unless the
/// file system reports them as data (XFS does while they are cached). The progress counts the bytes of the file
/// that were read: of all of it once, and twice more to verify.
///
/// # Errors
/// If no lease is granted, if the file system cannot punch holes, or if the file reads differently afterwards.
/// [`HoleErrorKind::Wanted`] if another process opens the file meanwhile; the holes made until then stay.
pub fn dig(file: &FileAt, how: Dig, watch: &dyn JobWatch) -> Result<Dug> {
    let (stop, counters) = (watch.stop(), JobCounters::default());
    let moved = &|bytes| watch.progress(&counters.add(0, bytes));
    let dug = if how.dry_run {
        look(file, how, stop, moved)
    } else {
        dig_file(file, how, stop, moved)
    };
    let path = file.path().to_owned();
    dug.map(|dug| Dug { path, ..dug }).map_err(|kind| kind.at(file.path()))
}

fn dig_file(file: &FileAt, how: Dig, stop: &Stop, moved: &(dyn Fn(u64) + Sync)) -> Worked<Dug> {
    let held = HeldFile::open(file, how.is_unsafe)?;
    let dug = dig_held(&held, how, stop, moved);
    let restored = held.restore_times();
    dug.and_then(|dug| restored.map(|()| dug))
}

/// A dry run.
fn look(file: &FileAt, how: Dig, stop: &Stop, moved: &(dyn Fn(u64) + Sync)) -> Worked<Dug> {
    let (file, metadata) = open_regular(file)?;
    let allocated = allocated_bytes(&metadata);
    let zeros = Zeros {
        block_bytes: block_bytes(&file)?,
        min_bytes: how.min_bytes,
        evict: false,
        moved,
    };
    let counted = zeros.count(&file, metadata.len(), stop)?;
    Ok(Dug {
        bytes: metadata.len(),
        holes: counted.holes,
        zero_bytes: counted.bytes,
        allocated_before_bytes: allocated,
        allocated_bytes: allocated,
        ..Dug::default()
    })
}

/// Frees blocks past the end of a file.
fn free_past_end(held: &HeldFile<'_>) -> Worked<()> {
    let failed = cannot("free the blocks past its end");
    let blocks = || -> Worked<Range<u64>> {
        let extents = sys::extents(held.file(), sys::WHOLE_FILE).map_err(&failed)?;
        let blocks_end = match extents {
            Support::Available(extents) => end_of(&extents),
            // What has more blocks than its size needs has some past its end.
            Support::Unavailable(_) => held.allocated_bytes()?,
        };
        Ok(past_end(blocks_end, held.metadata.len(), held.block_bytes()?))
    };
    let found = blocks()?;
    if !found.is_empty() {
        held.punch(found.start, found.end - found.start)?;
    }
    // ext4 punches no holes past the end. Nobody can have appended: the lease stands, and the size was just asked.
    if !blocks()?.is_empty() {
        held.allocated_bytes()?;
        held.change(|file| file.set_len(held.metadata.len()))?
            .map_err(&failed)?;
    }
    Ok(())
}

pub(super) fn dig_held(held: &HeldFile<'_>, how: Dig, stop: &Stop, moved: &(dyn Fn(u64) + Sync)) -> Worked<Dug> {
    let bytes = held.metadata.len();
    let before = held.allocated_before_bytes();
    let mut dug = Dug {
        bytes,
        allocated_before_bytes: before,
        allocated_bytes: before,
        ..Dug::default()
    };
    let digest_before = digest(held, how, stop, moved)?;
    let block_bytes = held.block_bytes()?;
    let zeros = Zeros {
        block_bytes,
        min_bytes: how.min_bytes,
        evict: held.is_written_back(),
        moved,
    };
    let go_on = || !stop.is_stopped() && held.held.is_alone();
    let scan = |run: &mut dyn FnMut(Range<u64>) -> io::Result<()>| zeros.find(held.file(), bytes, &go_on, run);
    let punch = |runs: &mut dyn Iterator<Item = Range<u64>>| punch_all(held, runs, block_bytes, stop);
    let punched = if bytes <= PIECE_BYTES {
        let mut runs = Vec::new();
        scan(&mut |run| {
            runs.push(run);
            Ok(())
        })?;
        punch(&mut runs.into_iter())?
    } else {
        side_by_side(scan, punch)?
    };
    (dug.holes, dug.zero_bytes) = (punched.counted.holes, punched.counted.bytes);
    held.require_alone()?;
    if how.past_end {
        free_past_end(held)?;
        dug.allocated_bytes = held.allocated_bytes()?;
    }
    if dug.holes > 0 {
        // No byte changed, so only data that was written late is synced.
        if !held.is_written_back() {
            held.sync()?;
        }
        dug.allocated_bytes = held.allocated_bytes()?;
        check_samples(held, &punched.samples)?;
    }
    let digest_after = digest(held, how, stop, moved)?;
    if digest_after.is_some_and(|after| digest_before != Some(after)) {
        return Err(HoleErrorKind::Differs("its bytes have changed (SHA-256)".to_owned()));
    }
    Ok(dug)
}

/// The number of runs of zeros that may wait to be punched.
const RUNS_WAITING: usize = 4096;

/// Scans while a punch waits for the device.
fn side_by_side(
    scan: impl FnOnce(&mut dyn FnMut(Range<u64>) -> io::Result<()>) -> Worked<()>,
    punch: impl FnOnce(&mut dyn Iterator<Item = Range<u64>>) -> Worked<Punched> + Send,
) -> Worked<Punched> {
    let (send, runs) = mpsc::sync_channel(RUNS_WAITING);
    let (scanned, punched) = std::thread::scope(|scope| {
        let puncher = scope.spawn(move || punch(&mut runs.into_iter()));
        let scanned = scan(&mut |run| send.send(run).map_err(|_| io::Error::other("no more holes are made")));
        drop(send);
        (scanned, puncher.join())
    });
    // If punching failed, that error explains why scanning ended.
    let punched = punched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    scanned?;
    Ok(punched)
}

/// What was punched, and samples of it to check.
#[derive(Default)]
struct Punched {
    counted: ZeroRuns,
    samples: Vec<Range<u64>>,
}

fn punch_all(
    held: &HeldFile<'_>,
    runs: &mut dyn Iterator<Item = Range<u64>>,
    block_bytes: u64,
    stop: &Stop,
) -> Worked<Punched> {
    let mut punched = Punched::default();
    for run in runs {
        // The rest is taken all the same: whoever scans would fail if nobody took it.
        if stop.is_stopped() {
            continue;
        }
        // A partial last block is freed only if the range covers the whole block.
        held.punch(run.start, (run.end - run.start).next_multiple_of(block_bytes))?;
        if punched.counted.add(&run) && punched.samples.len() < SAMPLES {
            punched.samples.push(run);
        }
    }
    Ok(punched)
}

/// The number of holes whose ends are read, to check that they are zeros.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: u64 = 4096;

fn check_samples(held: &HeldFile<'_>, runs: &[Range<u64>]) -> Worked<()> {
    let mut buffer = [0; SAMPLE_BYTES as usize];
    for run in runs {
        let length = SAMPLE_BYTES.min(run.end - run.start);
        for start in [run.start, run.end - length] {
            let bytes = &mut buffer[..length as usize];
            let read = held.file().read_exact_at(bytes, start);
            read.map_err(cannot("read a hole"))?;
            if let Some(found) = MappedBytes::from(&*bytes).first_nonzero() {
                let what = format!("byte {} in a new hole is not zero", start + found as u64);
                return Err(HoleErrorKind::Differs(what));
            }
        }
    }
    Ok(())
}

/// A digest of all bytes, with `verify`: of the blocks that are not zero, and their offsets, so that holes need not be read. `None` if
/// it was stopped.
fn digest(held: &HeldFile<'_>, how: Dig, stop: &Stop, moved: &(dyn Fn(u64) + Sync)) -> Worked<Option<[u8; 32]>> {
    const BLOCK_BYTES: u64 = 256 << 10;
    if !how.verify {
        return Ok(None);
    }
    let bytes = held.metadata.len();
    let mut buffer = vec![0; BLOCK_BYTES as usize];
    let (mut digest, mut next, mut read_bytes) = (Sha256::new(), 0, 0);
    for data in data_ranges(held.file(), 0..bytes) {
        let data = data.map_err(cannot("find its data"))?;
        let mut at = next.max(data.start - data.start % BLOCK_BYTES);
        while at < data.end {
            if stop.is_stopped() {
                return Ok(None);
            }
            let read = read_full(held.file(), &mut buffer, at).map_err(cannot("read"))?;
            if MappedBytes::from(&buffer[..read]).first_nonzero().is_some() {
                digest.update(at.to_le_bytes());
                digest.update(&buffer[..read]);
            }
            moved(read as u64);
            read_bytes += read as u64;
            at += BLOCK_BYTES;
            next = at;
        }
    }
    moved(bytes.saturating_sub(read_bytes));
    Ok(Some(digest.finalize().into()))
}
