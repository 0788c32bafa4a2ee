//! Moving the bytes of a file to its copy: blocks are shared where the file system can do that, or the kernel copies them, or they are
//! read and written. What two file systems can do is found out once, by the first files.
//!
//! At the end, streams that were named: FIFOs, devices, and open files of processes, such as `/dev/stdin`. Their bytes are read or
//! written, as cp(1) does without `-R`; they are never replaced.

use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::{Errno, retry_on_intr};
use seekless_engine::files::{
    Attributes, IoFailure, OutputPlace, data_ranges, first_data, hexadecimal, leads_to_open_file, read_full,
};
use seekless_engine::method::{Durability, Method};
use seekless_engine::plan::{Plan, PlanClock};
use seekless_engine::walk::{FOUND_FILE, NAMED_FILE, StatFacts};
use seekless_engine::{Copier, Destination, FileRange, IoOptions, Planner};
use seekless_sys::{self as sys, Advice, Support};
use sha2::{Digest, Sha256};

use super::copying::{Attempts, Copying, DevicePair, LARGE_BYTES, Worker};
use super::pair::At;
use super::{Checksum, CpDurability, CpOptions, CpSummary, FollowedLinks, When};
use crate::disk_order::resident_bytes;
use crate::handle::path_of;
use crate::open_pair::{PairRead, read_side_by_side};

/// How the bytes of a file moved.
#[derive(Default)]
pub(super) struct Moved {
    shares: bool,
    is_in_kernel: bool,
    hole_bytes: u64,
}

impl Moved {
    pub fn count(&self, done: &mut CpSummary) {
        done.reflinked += u64::from(self.shares);
        done.copied_in_kernel += u64::from(self.is_in_kernel);
        done.hole_bytes += self.hole_bytes;
    }
}

/// The blocks in which bytes are read, and written.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// The most that one call copies, so that a signal does not wait long.
const CALL_BYTES: u64 = LARGE_BYTES;
/// The pieces in which a method copies a large file: a copy that is interrupted resumes after one of them.
const PIECE_BYTES: u64 = 128 << 20;
/// After so many bytes of a large file, the system is asked to write what is there, and to drop what was read.
pub(super) const DROPPED_BYTES: u64 = 16 << 20;
/// Runs of zeros from this length on become holes.
const ZEROS_BYTES: usize = 4 << 10;

/// Copies the bytes of a file to a new one: from an offset on, and saves from time to time how far it is. `device` is that of the new
/// file.
pub(super) fn copy_bytes(
    files: [&File; 2],
    metadata: &Metadata,
    device: u64,
    (right_bytes, save): SyncedSoFar<'_>,
    at: &At<'_>,
    shared: &Copying<'_>,
    worker: &mut Worker,
) -> io::Result<Moved> {
    let options = shared.options;
    let devices = shared.data.of(metadata.dev(), device);
    let mut run = CopyRun {
        files,
        in_kernel: None,
        is_dropped: false,
        save,
        shared,
    };
    let mut moved = Moved::default();
    if metadata.len() == 0 {
        // Files of /proc have bytes that stat(2) does not tell.
        if metadata.blocks() == 0 {
            run.range(0..u64::MAX, &mut worker.buffer)?;
        }
        return Ok(moved);
    }
    if share_blocks(files, &devices, shared)? {
        shared.advance(0, metadata.len());
        moved.shares = true;
        return Ok(moved);
    }
    let is_cold = at.was_fetched || is_cold(files[0], shared.meets_cold())?;
    shared.meet(is_cold);
    let is_dropped = !options.keep_cached && is_cold;
    let all = right_bytes..metadata.len();
    shared.advance(0, right_bytes);
    let is_large = metadata.len() >= LARGE_BYTES;
    run.is_dropped = is_dropped && is_large;
    // The kernel shares blocks and keeps holes, too, where the file system can do that.
    let is_plain = options.reflink == When::Never || options.sparse == When::Never;
    run.in_kernel = Some(&devices.in_kernel).filter(|_| !is_plain);
    match options.sparse {
        When::Auto if has_holes(metadata) => run.around_holes(all, &mut moved, worker)?,
        When::Auto if is_large => moved.is_in_kernel = run.large(all, &devices, is_cold, worker)?,
        When::Auto | When::Never => moved.is_in_kernel = run.range(all, &mut worker.buffer)?.0,
        When::Always => {
            files[1].set_len(metadata.len())?;
            for range in data_ranges(files[0], all) {
                moved.hole_bytes += run.without_zeros(range?, &mut worker.buffer)?;
            }
        }
    }
    if is_dropped {
        sys::drop_from_cache(files[0])?;
    }
    Ok(moved)
}

/// Lets a new file share the blocks of its source, if that is wanted and may work. Returns whether it does.
fn share_blocks([source, new]: [&File; 2], devices: &DevicePair, shared: &Copying<'_>) -> io::Result<bool> {
    let options = shared.options;
    if options.reflink == When::Never || options.sparse != When::Auto {
        return Ok(false);
    }
    let is_asked = options.reflink == When::Always;
    let may_work = is_asked || devices.sharing.may_work();
    let is_done = may_work && devices.sharing.count(sys::clone_file(source, new)?).is_some();
    if is_asked && !is_done {
        return Err(io::Error::other("source and target cannot share blocks (reflink)"));
    }
    Ok(is_done)
}

/// Whether a file is not in memory, if the system tells that. Trying to read its first byte takes less time than asking, but lets the
/// system read, which may be over before the answer. So it is asked while such files are met.
pub(super) fn is_cold(file: &File, is_likely: bool) -> io::Result<bool> {
    if let Some(resident) = is_likely.then(|| resident_bytes(file)).flatten() {
        return Ok(resident == 0);
    }
    let first = sys::read_at_nowait(file, &mut [0], 0)?;
    Ok(matches!(first, Support::Available(None)))
}

/// Whether a file has fewer blocks than it needs without holes.
pub(super) fn has_holes(metadata: &Metadata) -> bool {
    metadata.blocks().saturating_mul(512) < metadata.len()
}

pub(super) fn stopped() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

/// The plan for large files that are copied to new ones.
fn plan([source, new]: [&File; 2], shared: &Copying<'_>) -> Option<Plan> {
    let durability = match shared.options.durability {
        CpDurability::None => Durability::None,
        _ => Durability::Fsync,
    };
    Copier::plan(path_of(source)?, path_of(new)?, durability, false).ok()
}

/// The system's reason of an error, without the path, which is that of an open file.
fn reason(error: seekless_engine::Error) -> io::Error {
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(code) = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        source = cause.source();
    }
    io::Error::other(error)
}

/// How many bytes of a copy are right, and what notes that.
pub(super) type SyncedSoFar<'a> = (u64, &'a dyn Fn(u64) -> io::Result<()>);

/// The way from a file to its copy.
struct CopyRun<'a> {
    /// The source and the new file.
    files: [&'a File; 2],
    /// Whether the kernel can copy, if it is to be asked.
    in_kernel: Option<&'a Attempts>,
    /// Whether both files are dropped from the page cache on the way.
    is_dropped: bool,
    save: &'a dyn Fn(u64) -> io::Result<()>,
    shared: &'a Copying<'a>,
}

impl CopyRun<'_> {
    /// Copies the ranges that have data.
    fn around_holes(&self, all: Range<u64>, moved: &mut Moved, worker: &mut Worker) -> io::Result<()> {
        let [source, new] = self.files;
        let (mut data_bytes, mut end) = (all.start, all.end);
        // XFS preallocates blocks past the end of a file that grows, and these would fill the holes.
        new.set_len(end)?;
        for range in data_ranges(source, all) {
            let range = range?;
            data_bytes += range.end - range.start;
            let (is_in_kernel, copied_to) = self.range(range.clone(), &mut worker.buffer)?;
            moved.is_in_kernel |= is_in_kernel;
            if copied_to < range.end {
                // Files of /sys are shorter than stat(2) tells.
                end = copied_to;
                break;
            }
        }
        moved.hole_bytes = end.saturating_sub(data_bytes);
        new.set_len(end)
    }

    /// Copies a large file: by the kernel, else as planned. Returns whether the kernel copied some of it.
    fn large(&self, all: Range<u64>, devices: &DevicePair, is_cold: bool, worker: &mut Worker) -> io::Result<bool> {
        let at = self.by_kernel(all.clone())?;
        if at < all.end {
            // Reading two files at the same time would move a head to and fro.
            let _turn = is_cold.then(|| sys::lock_mutex(&devices.cold));
            let mut made = None;
            let planned = devices.planned[usize::from(is_cold)].get_or_init(|| {
                let plan = made.insert(plan(self.files, self.shared)?);
                let method = plan.method.with(Durability::None).unwrap_or(plan.method);
                Some((method, plan.reason.to_string()))
            });
            let clock = PlanClock::start();
            match planned {
                Some((method, why)) => self.by_method((*method, why), at..all.end, worker)?,
                None => _ = self.range(at..all.end, &mut worker.buffer)?,
            }
            // Later files may have other sizes, and an fsync is called later.
            if let (Some(plan), Some((method, _)), Some(path)) = (made, planned, path_of(self.files[0]))
                && (plan.method, at) == (*method, 0)
            {
                clock.note(&path, &plan, all.end, Planner::default());
            }
        }
        Ok(at > all.start)
    }

    /// Copies a range by a method of the engine.
    fn by_method(&self, (method, why): (Method, &str), range: Range<u64>, worker: &mut Worker) -> io::Result<()> {
        let [source, new] = self.files;
        let (shared, is_dropped) = (self.shared, self.is_dropped);
        let (Some(from), Some(to)) = (path_of(source), path_of(new)) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        for start in range.clone().step_by(PIECE_BYTES as usize) {
            let piece = start..range.end.min(start + PIECE_BYTES);
            let (told, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
            let progress = |done: u64, _of: u64| {
                let before = dropped.load(Ordering::Relaxed);
                if is_dropped && done >= before + DROPPED_BYTES {
                    dropped.store(done, Ordering::Relaxed);
                    // So that one device writes while the other one reads. Errors are those of later calls.
                    let _ = sys::advise(new, Advice::DontNeed, 0, piece.start + done);
                    let _ = sys::advise(source, Advice::DontNeed, piece.start + before, done - before);
                }
                let more = done - told.swap(done, Ordering::Relaxed).min(done);
                shared.advance(0, more);
                shared.stop.go_on()
            };
            let (from, to) = (FileRange::whole(&from), FileRange::whole(&to));
            let job = IoOptions::method(method).progress(&progress);
            let copied = if range.end <= PIECE_BYTES && range.start == 0 {
                job.destination(Destination::Overwrite).copy(from, to)
            } else {
                job.copy(from.range(piece.clone()), to.range(piece.clone()))
            };
            match copied {
                // Direct I/O may not end where the file does.
                Err(seekless_engine::Error::Unavailable { .. }) => {
                    _ = self.read_and_write(piece.clone(), &mut worker.buffer)?;
                }
                Err(_) if shared.stop.is_stopped() => return Err(stopped()),
                copied => drop(copied.map_err(reason)?),
            }
            (self.save)(piece.end)?;
        }
        let used = (method.to_string(), why.to_owned());
        if !worker.done.large.contains(&used) {
            worker.done.large.push(used);
        }
        Ok(())
    }

    /// Lets the kernel copy a range, and returns where it ended: where it cannot do that, it begins.
    fn by_kernel(&self, range: Range<u64>) -> io::Result<u64> {
        let [source, new] = self.files;
        let mut at = range.start;
        while at < range.end
            && let Some(in_kernel) = self.in_kernel.filter(|attempts| attempts.may_work())
        {
            if self.shared.stop.is_stopped() {
                return Err(stopped());
            }
            let length = (range.end - at).min(CALL_BYTES) as usize;
            match in_kernel.count(sys::copy_file_range(source, at, new, at, length)?) {
                // It became shorter, or the file system only says that it can.
                Some(0) | None => break,
                Some(copied) => {
                    self.shared.advance(0, copied as u64);
                    at += copied as u64;
                    (self.save)(at)?;
                    if self.is_dropped {
                        // What is not written back yet is only begun to be.
                        sys::drop_from_cache(new)?;
                        sys::drop_from_cache(source)?;
                    }
                }
            }
        }
        Ok(at)
    }

    /// Copies a range, and returns whether the kernel did some of it, and where the copied ends.
    fn range(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<(bool, u64)> {
        let at = self.by_kernel(range.clone())?;
        Ok((at > range.start, self.read_and_write(at..range.end, buffer)?))
    }

    /// Copies a range through memory, and returns where the copied ends.
    fn read_and_write(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<u64> {
        let [source, new] = self.files;
        let mut at = range.start;
        buffer.resize(BLOCK_BYTES, 0);
        while at < range.end {
            if self.shared.stop.is_stopped() {
                return Err(stopped());
            }
            let length = (range.end - at).min(BLOCK_BYTES as u64) as usize;
            match source.read_at(&mut buffer[..length], at)? {
                0 => break,
                read => {
                    new.write_all_at(&buffer[..read], at)?;
                    self.shared.advance(0, read as u64);
                    at += read as u64;
                    (self.save)(at)?;
                }
            }
        }
        Ok(at)
    }

    /// Copies a range without long runs of zeros, and returns how many bytes these have.
    fn without_zeros(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<u64> {
        let [source, new] = self.files;
        buffer.resize(BLOCK_BYTES, 0);
        let (mut at, mut zeros) = (range.start, 0);
        while at < range.end {
            if self.shared.stop.is_stopped() {
                return Err(stopped());
            }
            let length = (range.end - at).min(BLOCK_BYTES as u64) as usize;
            let read = read_full(source, &mut buffer[..length], at)?;
            if read == 0 {
                break;
            }
            let mut place = at;
            for piece in buffer[..read].chunks(ZEROS_BYTES) {
                if piece.iter().all(|byte| *byte == 0) {
                    zeros += piece.len() as u64;
                } else {
                    new.write_all_at(piece, place)?;
                }
                place += piece.len() as u64;
            }
            at += read as u64;
        }
        Ok(zeros)
    }
}

/// The offset from which on a file has no holes: its size if it has some, else 0.
fn end_of_holes(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    Ok(if has_holes(&metadata) { metadata.len() } else { 0 })
}

/// Compares a copy with its source, as it is read from the device.
pub(super) fn verify(shared: &Copying<'_>, source: &File, new: &File, worker: &mut Worker) -> Result<(), IoFailure> {
    let metadata = new.metadata().map_err(|error| ("stat the copy", error))?;
    // In pieces, so that a signal does not wait long.
    for at in (0..metadata.len()).step_by(DROPPED_BYTES as usize) {
        if shared.stop.is_stopped() {
            return Err(("verify the copy", stopped()));
        }
        sys::write_back(new, at, DROPPED_BYTES).map_err(|error| ("write the copy to the device", error))?;
        let _ = sys::advise(new, Advice::DontNeed, at, DROPPED_BYTES);
    }
    sys::drop_from_cache(new).map_err(|error| ("evict the copy from the page cache", error))?;
    if let Some(at) = first_difference(shared, source, new, worker)? {
        let reason = format!("the copy differs at byte {at}");
        return Err(("verify the copy", io::Error::other(reason)));
    }
    worker.done.verified += 1;
    Ok(())
}

/// The offset of the first difference of two files. What is a hole in both is not read.
pub(super) fn first_difference(
    shared: &Copying<'_>,
    source: &File,
    copy: &File,
    worker: &mut Worker,
) -> Result<Option<u64>, IoFailure> {
    let mut other = vec![0; BLOCK_BYTES];
    worker.buffer.resize(BLOCK_BYTES, 0);
    let holes_end = end_of_holes(source).map_err(|error| ("stat", error))?;
    let buffers = [&mut worker.buffer[..], &mut other[..]];
    let found = read_side_by_side([source, copy], 0, holes_end, buffers, || !shared.stop.is_stopped());
    match found.map_err(|(side, error)| (["read", "read the copy"][side], error))? {
        PairRead::Differ(at) => Ok(Some(at)),
        PairRead::Ends([one, other]) => Ok((one != other).then_some(one.min(other))),
        PairRead::Stopped => Err(("compare the copy", stopped())),
    }
}

/// Whether two entries of this kind have the same bytes, or lead to the same path. What was not in memory is not left there.
pub(super) fn have_equal_content(
    shared: &Copying<'_>,
    names: [(BorrowedFd<'_>, &CStr); 2],
    kind: FileType,
    worker: &mut Worker,
) -> bool {
    match kind {
        FileType::RegularFile => {
            let open = |(directory, name)| openat(directory, name, FOUND_FILE, Mode::empty()).map(File::from);
            let [Ok(one), Ok(other)] = names.map(open) else {
                return false;
            };
            let is_dropped = |file: &File| !shared.options.keep_cached && is_cold(file, true).unwrap_or(false);
            let dropped = [&one, &other].map(|file| is_dropped(file).then_some(file));
            let first = first_difference(shared, &one, &other, worker);
            for file in dropped.into_iter().flatten() {
                let _ = sys::drop_from_cache(file);
            }
            matches!(first, Ok(None))
        }
        FileType::Symlink => {
            let [one, other] = names.map(|(directory, name)| readlinkat(directory, name, Vec::new()));
            one.is_ok_and(|one| other.is_ok_and(|other| one == other))
        }
        _ => true,
    }
}

/// Whether two entries differ in nothing but their names and their times of access and change.
pub(super) fn are_equal(shared: &Copying<'_>, names: [(BorrowedFd<'_>, &CStr); 2], worker: &mut Worker) -> bool {
    let facts = |(directory, name)| -> io::Result<_> {
        let found = StatFacts::at(directory, name)?;
        let extended = sys::extended_attributes_at(directory, name)?.available();
        let attributes = Attributes::new(&found, extended);
        Ok((attributes, found.kind, found.number, found.bytes, found.modified))
    };
    let [Ok(one), Ok(other)] = names.map(facts) else {
        return false;
    };
    one == other && have_equal_content(shared, names, one.1, worker)
}

/// The checksum of a file, in hexadecimal. Holes count as zeros, without reading them.
pub(super) fn file_checksum(
    shared: &Copying<'_>,
    file: &File,
    kind: Checksum,
    worker: &mut Worker,
) -> io::Result<String> {
    let (mut blake3, mut sha256, mut at) = (blake3::Hasher::new(), Sha256::new(), 0);
    let zeros = vec![0; BLOCK_BYTES];
    worker.buffer.resize(BLOCK_BYTES, 0);
    let end_of_holes = end_of_holes(file)?;
    let mut data = 0;
    loop {
        if shared.stop.is_stopped() {
            return Err(stopped());
        }
        if (data..end_of_holes).contains(&at) {
            data = first_data(&[file], at..end_of_holes)?;
        }
        let bytes = match data.saturating_sub(at).min(BLOCK_BYTES as u64) as usize {
            0 => {
                let read = read_full(file, &mut worker.buffer, at)?;
                &worker.buffer[..read]
            }
            hole => &zeros[..hole],
        };
        match kind {
            Checksum::Blake3 => _ = blake3.update(bytes),
            Checksum::Sha256 => sha256.update(bytes),
        }
        if bytes.is_empty() {
            return Ok(match kind {
                Checksum::Blake3 => blake3.finalize().to_hex().to_string(),
                Checksum::Sha256 => hexadecimal(&sha256.finalize()),
            });
        }
        at += bytes.len() as u64;
    }
}

/// The most that is written to a stream at once: what a FIFO that is ready takes without waiting for its reader.
const STREAM_BYTES: usize = 4 << 10;
/// How long a stream is awaited before the stop token is looked at.
const AWAITED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A named copy from or to a stream.
pub(super) struct StreamCopy {
    pub source: StatFacts,
    /// Whether the source is opened through its links.
    is_followed: bool,
    /// Whether the bytes of the source are read, whatever it is.
    pub is_read: bool,
    /// Whether the target is written to, and not replaced.
    pub is_written: bool,
}

impl StreamCopy {
    pub fn of(at: &At<'_>, options: &CpOptions) -> io::Result<Self> {
        let [from, to] = at.handles;
        let link_or_file = StatFacts::at(from, at.from)?;
        let leads_to_open_file = |path: PathBuf| leads_to_open_file(&path).unwrap_or(false);
        let is_open_file =
            options.reads_streams && link_or_file.kind == FileType::Symlink && leads_to_open_file(at.source_path());
        let is_followed = is_open_file || options.followed != FollowedLinks::None;
        let source = if is_followed {
            StatFacts::behind(from, at.from)?
        } else {
            link_or_file
        };
        let target = StatFacts::behind(to, at.to);
        Ok(Self {
            source,
            is_followed,
            is_read: options.reads_streams && (is_stream(source.kind) || is_open_file && source.is_file()),
            is_written: target.is_ok_and(|found| is_stream(found.kind) || leads_to_open_file(at.copy_path())),
        })
    }

    /// Fails for what cannot be done with streams.
    pub fn require_possible(&self, options: &CpOptions) -> Result<(), IoFailure> {
        if !self.is_read && !self.source.is_file() {
            let reason = "it is a device, a FIFO, or an open file of a process";
            return Err(("replace it", io::Error::other(reason)));
        }
        if options.verify || options.checksum.is_some() || options.reflink == When::Always {
            let reason = "a stream has no copy to verify, no checksum, and no blocks to share";
            return Err(("copy from or to it", io::Error::other(reason)));
        }
        Ok(())
    }

    /// Reads the source to the end, and writes all of it.
    pub fn write(&self, shared: &Copying<'_>, at: &At<'_>, worker: &mut Worker) -> Result<(), IoFailure> {
        let flags = OFlags::RDONLY | if self.is_followed { NAMED_FILE } else { FOUND_FILE };
        let opened = retry_on_intr(|| openat(at.handles[0], at.from, flags, Mode::empty()));
        let opened = File::from(opened.map_err(|error| ("open", error.into()))?);
        if StatFacts::of(&opened).map_err(|error| ("stat", error.into()))?.id() != self.source.id() {
            return Err(("copy", io::Error::other("another file has its name now")));
        }
        let place = OutputPlace::find(&at.copy_path()).map_err(|error| ("write the copy", error))?;
        let copied = place.write_by(|target| pump(shared, &opened, target, worker));
        copied.map_err(|error| ("copy", error))
    }
}

/// Reads to the end, and writes all of it.
fn pump(shared: &Copying<'_>, mut source: &File, target: &mut File, worker: &mut Worker) -> io::Result<()> {
    let is_file = StatFacts::of(&*target)?.is_file();
    let written_bytes = if is_file { BLOCK_BYTES } else { STREAM_BYTES };
    worker.buffer.resize(BLOCK_BYTES, 0);
    loop {
        await_ready(shared, source, PollFlags::IN)?;
        let read = match source.read(&mut worker.buffer) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        for bytes in worker.buffer[..read].chunks(written_bytes) {
            await_ready(shared, &*target, PollFlags::OUT)?;
            target.write_all(bytes)?;
        }
        worker.done.bytes += read as u64;
        shared.advance(0, read as u64);
    }
}

/// Waits until reading or writing does not wait, or this copy is to stop.
fn await_ready(shared: &Copying<'_>, file: &impl AsFd, ready: PollFlags) -> io::Result<()> {
    loop {
        if shared.stop.is_stopped() {
            return Err(stopped());
        }
        match poll(&mut [PollFd::new(file, ready)], Some(&AWAITED)) {
            Ok(0) | Err(Errno::INTR) => {}
            polled => return polled.map(|_| ()).map_err(Into::into),
        }
    }
}

/// Whether a file is no place for bytes of its own.
fn is_stream(kind: FileType) -> bool {
    use FileType::{BlockDevice, CharacterDevice, Fifo, Socket};
    matches!(kind, BlockDevice | CharacterDevice | Fifo | Socket)
}
