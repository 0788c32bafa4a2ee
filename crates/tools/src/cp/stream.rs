//! Streams that were named: FIFOs, devices, and open files of processes, such as `/dev/stdin`. Their bytes are read or written, as
//! cp(1) does without `-R`; they are never replaced.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use seekless_engine::files::{OutputPlace, leads_to_open_file};
use seekless_engine::walk::{FOUND_FILE, NAMED_FILE, StatFacts};

use super::copying::{Copying, Worker};
use super::data::{BLOCK_BYTES, stopped};
use super::entry::{copy_entry, stays};
use super::names::Failed;
use super::pair::At;
use super::{FollowedLinks, When};

/// The most that is written to a stream at once: what a FIFO that is ready takes without waiting for its reader.
const STREAM_BYTES: usize = 4 << 10;
/// How long a stream is awaited before the stop token is looked at.
const AWAITED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A named copy from or to a stream.
struct StreamCopy {
    source: StatFacts,
    /// Whether the source is opened through its links.
    is_followed: bool,
    /// Whether the bytes of the source are read, whatever it is.
    is_read: bool,
    /// Whether the target is written to, and not replaced.
    is_written: bool,
}

impl StreamCopy {
    fn of(at: &At<'_>, copying: &Copying<'_>) -> io::Result<Self> {
        let [from, to] = at.handles;
        let options = copying.options;
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
}

/// Copies a named entry: its bytes if it or its target is a stream.
pub(super) fn copy_named(shared: &Copying<'_>, at: &At<'_>, worker: &mut Worker) {
    let copy = match StreamCopy::of(at, shared) {
        Ok(copy) if copy.is_read || copy.is_written => copy,
        // Errors are met there again, and reported.
        _ => {
            copy_entry(shared, at, None, worker);
            return;
        }
    };
    match copy_stream(shared, at, &copy, worker) {
        Ok(true) => shared.tell_copied(at, 0),
        Ok(false) => worker.done.kept += 1,
        Err((action, error)) => {
            let path = if copy.is_written {
                at.copy_path()
            } else {
                at.source_path()
            };
            shared.fail(worker, path, action, &error);
        }
    }
}

/// Copies the bytes. Returns false if what the target has stays.
fn copy_stream(shared: &Copying<'_>, at: &At<'_>, copy: &StreamCopy, worker: &mut Worker) -> Result<bool, Failed> {
    let (options, source) = (shared.options, &copy.source);
    if !copy.is_read && !source.is_file() {
        let reason = "it is a device, a FIFO, or an open file of a process";
        return Err(("replace it", io::Error::other(reason)));
    }
    if options.verify || options.checksum.is_some() || options.reflink == When::Always {
        let reason = "a stream has no copy to verify, no checksum, and no blocks to share";
        return Err(("copy from or to it", io::Error::other(reason)));
    }
    if let Ok(found) = StatFacts::behind(at.handles[1], at.to)
        && stays(shared, at, &found, source.id(), source.modified)?
    {
        return Ok(false);
    }
    if !options.dry_run {
        let flags = OFlags::RDONLY | if copy.is_followed { NAMED_FILE } else { FOUND_FILE };
        let opened = retry_on_intr(|| openat(at.handles[0], at.from, flags, Mode::empty()));
        let opened = File::from(opened.map_err(|error| ("open", error.into()))?);
        if StatFacts::of(&opened).map_err(|error| ("stat", error.into()))?.id() != source.id() {
            return Err(("copy", io::Error::other("another file has its name now")));
        }
        let place = OutputPlace::find(&at.copy_path()).map_err(|error| ("write the copy", error))?;
        let copied = place.write_by(|target| pump(shared, &opened, target, worker));
        copied.map_err(|error| ("copy", error))?;
    }
    worker.done.files += 1;
    Ok(true)
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
