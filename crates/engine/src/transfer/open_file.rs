//! One side of an operation: opening it as a method says, its ranges, and what is counted.
//!
//! Not here: moving its bytes.

mod errors;

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seekless_method::{AccessPattern, CachePolicy, Durability, Method, Operation, Preallocate};
use seekless_sys::{self as sys, Access, Opening, Support};

use super::{Destination, Progress, TOLD_BYTES, Visits};
use crate::Producer;
use crate::error::{Error, Result};
use crate::file_range::{FileOf, FileRange};
use crate::files::{FileId, Stretch, require_regular, require_told_size, stat_regular, stretches};
use crate::log;
use crate::setup::MEMORY_ALIGNMENT;

/// One side of an operation: a file, and the method.
pub(crate) struct OpenFile<'a> {
    pub file: Arc<File>,
    pub path: &'a Path,
    pub method: &'a Method,
    /// The size: that of the source at opening, or that of the target at the end.
    pub bytes: u64,
    /// The range to move, if it is not the whole file.
    pub part: Option<Range<u64>>,
    /// The difference from an offset of the source to that of the target, wrapping around.
    pub shift: u64,
    /// Whether this operation made the file.
    pub is_made: bool,
    /// The alignment of offsets and lengths for direct I/O; 1 without direct I/O.
    pub alignment: u64,
    /// The blocks to move, for random access.
    pub visits: Option<&'a Visits>,
    /// Receives the progress.
    pub progress: Option<&'a dyn Progress>,
    /// Bytes per call that reads, and per call that writes, if these are different.
    pub call_bytes: Option<[u64; 2]>,
    calls: AtomicU64,
    /// Whether the caller opened the file: then other descriptors may share its position.
    is_of_caller: bool,
    /// The position of such a file, if the method moves it.
    restored: Option<Position>,
}

/// A file's position, restored at the end, because `SEEK_DATA` moves it.
struct Position(Arc<File>, u64);

impl Drop for Position {
    fn drop(&mut self) {
        if let Err(error) = (&*self.0).seek(SeekFrom::Start(self.1)) {
            log::warn!(%error, "the position of an open file could not be restored");
        }
    }
}

impl<'a> OpenFile<'a> {
    pub(super) fn new(file: Arc<File>, path: &'a Path, method: &'a Method, calls: u64) -> Self {
        let options = method.options();
        Self {
            file,
            path,
            method,
            bytes: 0,
            part: None,
            shift: 0,
            is_made: false,
            alignment: 1,
            visits: None,
            progress: None,
            call_bytes: (options.block_bytes().zip(options.write_block_bytes())).map(<[u64; 2]>::from),
            calls: AtomicU64::new(calls),
            is_of_caller: false,
            restored: None,
        }
    }

    /// Opens the file of a source as the method says, or takes an open file; the whole file, whatever the part.
    pub fn open_source(part: &'a FileRange<'_>, method: &'a Method) -> Result<Self> {
        let mut side = match &part.file {
            FileOf::Path(path) => Self::open(path, method, Access::Read)?,
            FileOf::Borrowed { file, .. } => Self::of_descriptor(part, *file, method, Access::Read)?,
        };
        let metadata = side.metadata()?;
        require_told_size(side.path, &side.file, &metadata)?;
        side.bytes = metadata.len();
        Ok(side)
    }

    /// Restricts a source to a part.
    pub fn keep_to(&mut self, part: &FileRange<'_>) -> Result<()> {
        let range = part.within(self.bytes);
        if range == (0..self.bytes) {
            return Ok(());
        }
        if !range.is_empty() {
            self.require_aligned(range.start, "start")?;
        }
        self.bytes = range.end;
        self.part = Some(range);
        Ok(())
    }

    /// Fails if direct I/O cannot start or end at an offset.
    pub fn require_aligned(&self, offset: u64, does: &str) -> Result<()> {
        if offset.is_multiple_of(self.alignment) {
            return Ok(());
        }
        Err(self.unavailable(&format!(
            "direct I/O must {does} at a multiple of {} bytes",
            self.alignment
        )))
    }

    /// Takes a file that the caller opened and will close, if its flags are those that the method needs.
    fn of_descriptor(
        part: &'a FileRange<'_>,
        file: BorrowedFd<'_>,
        method: &'a Method,
        access: Access,
    ) -> Result<Self> {
        let file = Arc::new(part.duplicate(file)?);
        // dup, fstat, reading the flags, close.
        let mut side = Self::new(Arc::clone(&file), part.path(), method, 4);
        side.is_of_caller = true;
        require_regular(side.path, &side.metadata()?)?;
        let (opened, appends) = side.opened_as(access)?;
        let options = method.options();
        let is_direct = options.cache() == CachePolicy::Direct;
        let is_through = access != Access::Read && options.durability() == Durability::WriteThrough;
        let reason = if is_direct && !opened.direct {
            "the file is open without O_DIRECT"
        } else if opened.direct && !is_direct {
            "the file is open with O_DIRECT, which only methods with `direct` use"
        } else if access != Access::Read && appends {
            "the file is open with O_APPEND: all writes go to its end"
        } else if is_through && !opened.write_through {
            "the file is open without O_DSYNC"
        } else {
            ""
        };
        if !reason.is_empty() {
            return Err(side.unavailable(reason));
        }
        if is_direct {
            side.count_call();
            side.alignment = side.find_alignment()?;
        }
        // Restoring it needlessly would disturb another thread that uses it.
        if options.holes_skipped() || method.operation() == Operation::Compare {
            side.count_calls(2);
            let position = (&*file).stream_position();
            let position = position.map_err(|error| side.failed("read its position", error))?;
            side.restored = Some(Position(file, position));
        }
        Ok(side)
    }

    /// The file with a position that nobody else moves.
    pub fn with_own_position(&self, access: Access) -> Result<Arc<File>> {
        if !self.is_of_caller {
            return Ok(Arc::clone(&self.file));
        }
        let Some(path) = sys::descriptor_path(&self.file) else {
            return Err(self.unavailable("other descriptors may share the position of an open file"));
        };
        // Reading the flags, open, close.
        self.count_calls(3);
        let (how, _) = self.opened_as(access)?;
        self.support("open again", sys::open(&path, how)).map(Arc::new)
    }

    /// How the file was opened, and whether every write goes to its end.
    fn opened_as(&self, access: Access) -> Result<(Opening, bool)> {
        sys::opened_as(&self.file, access).map_err(|error| self.failed("read its open flags", error))
    }

    /// Creates or opens a target of this many bytes as the method says, or takes an open file.
    pub fn open_target(
        part: &'a FileRange<'_>,
        method: &'a Method,
        destination: Destination,
        bytes: u64,
    ) -> Result<Self> {
        if let Some(path) = part.only_path() {
            let access = match destination {
                Destination::New => Access::CreateNew,
                Destination::Overwrite => Access::Overwrite,
            };
            let mut side = Self::open(path, method, access)?;
            side.is_made = access == Access::CreateNew;
            side.bytes = bytes;
            return Ok(side);
        }
        let mut side = match &part.file {
            FileOf::Path(path) => Self::open(path, method, Access::Overwrite)?,
            FileOf::Borrowed { file, .. } => Self::of_descriptor(part, *file, method, Access::Overwrite)?,
        };
        let start = part.start();
        let end = start
            .checked_add(bytes)
            .filter(|&end| i64::try_from(end).is_ok() && bytes <= part.bytes_max());
        let Some(end) = end else {
            let why = format!("{bytes} B do not fit into a range of {} B", part.bytes_max());
            return Err(side.failed(("write", start), io::Error::new(io::ErrorKind::InvalidInput, why)));
        };
        let file_bytes = side.metadata()?.len();
        if bytes > 0 {
            side.require_aligned(start, "start")?;
            // The padding of the last block can be cut off only at the end of the file.
            if end < file_bytes {
                side.require_aligned(end, "end within a file")?;
            }
        }
        // Nothing is written, so the file does not grow.
        side.bytes = if bytes == 0 { file_bytes } else { file_bytes.max(end) };
        side.part = Some(start..end);
        Ok(side)
    }

    /// The range to move.
    pub fn range(&self) -> Range<u64> {
        self.part.clone().unwrap_or(0..self.bytes)
    }

    /// Its start.
    pub fn start(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.start)
    }

    /// Where a byte of the source belongs in this target.
    #[inline]
    pub fn place(&self, offset: u64) -> u64 {
        offset.wrapping_add(self.shift)
    }

    /// Where a range of the source belongs in this target.
    pub fn place_of(&self, range: &Range<u64>) -> Range<u64> {
        self.place(range.start)..self.place(range.end)
    }

    fn open(path: &'a Path, method: &'a Method, access: Access) -> Result<Self> {
        if access != Access::CreateNew {
            stat_regular(path)?;
        }
        Self::open_by(path, method, access, |how| sys::open(path, how))
    }

    /// Opens the file by `open`, as the method says.
    pub fn open_by(
        path: &'a Path,
        method: &'a Method,
        access: Access,
        open: impl FnOnce(Opening) -> io::Result<Support<File>>,
    ) -> Result<Self> {
        let options = method.options();
        let opening = Opening {
            direct: options.cache() == CachePolicy::Direct,
            write_through: access != Access::Read && options.durability() == Durability::WriteThrough,
            ..Opening::plain(access)
        };
        let action = match access {
            Access::Read => "open",
            _ => "open for writing",
        };
        let file = match open(opening).map_err(|error| Error::by(method, path, action, error))? {
            Support::Available(file) => Arc::new(file),
            Support::Unavailable(reason) => return Err(Error::unavailable(method, path, reason)),
        };
        // stat, open, fstat, close.
        let mut side = Self::new(file, path, method, 4);
        // The path may name another file now.
        require_regular(path, &side.metadata()?)?;
        if opening.direct {
            side.count_call();
            side.alignment = side.find_alignment()?;
        }
        Ok(side)
    }

    fn find_alignment(&self) -> Result<u64> {
        let found =
            sys::direct_alignment(&self.file).map_err(|error| self.failed("read its direct I/O alignment", error))?;
        // If the file system does not report the alignment, a page is enough.
        let (memory_bytes, offset_bytes) = match found {
            Support::Available(alignment) => (alignment.memory_bytes as usize, u64::from(alignment.offset_bytes)),
            Support::Unavailable(_) => (MEMORY_ALIGNMENT, MEMORY_ALIGNMENT as u64),
        };
        if memory_bytes > MEMORY_ALIGNMENT {
            return Err(self.unavailable("direct I/O needs memory aligned to more than 4096 bytes here"));
        }
        if offset_bytes > MEMORY_ALIGNMENT as u64 {
            return Err(self.unavailable("direct I/O needs blocks of more than 4096 bytes here"));
        }
        let block = self.method.options().block_bytes();
        if block.is_some_and(|block| !block.is_multiple_of(offset_bytes)) {
            let reason = format!("direct I/O needs a block that is a multiple of {offset_bytes}");
            return Err(self.unavailable(&reason));
        }
        Ok(offset_bytes)
    }

    pub fn metadata(&self) -> Result<Metadata> {
        self.file.metadata().map_err(|error| self.failed("stat", error))
    }

    /// The data and holes within a range, in order, as in [`stretches`].
    pub fn stretches(&self, within: Range<u64>, alignment: u64) -> impl Iterator<Item = Result<Stretch>> {
        let asked = stretches(&self.file, within, alignment, || self.count_call());
        asked.map(|stretch| stretch.map_err(|(action, error)| self.failed(action, error)))
    }

    /// Sets the size of a target or allocates its blocks, from an offset on, as the method says.
    pub fn preallocate(&self, from: u64) -> Result<()> {
        let way = self.method.options().preallocate();
        let range = self.range();
        let from = from.max(range.start);
        if range.end > from && matches!(way, Preallocate::Allocate | Preallocate::Both) {
            self.count_call();
            self.support("allocate blocks", sys::allocate(&self.file, from, range.end - from))?;
        }
        if matches!(way, Preallocate::Truncate | Preallocate::Both) {
            if self.part.is_some() {
                self.reach_size()?;
            } else {
                self.resize(self.bytes)?;
            }
        }
        Ok(())
    }

    /// Sets the size of a target.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        self.count_call();
        self.file
            .set_len(bytes)
            .map_err(|error| self.failed("set its size", error))
    }

    /// Makes the target at least as long as it will be, because allocating blocks does not do that on every system.
    pub fn reach_size(&self) -> Result<()> {
        self.count_call();
        if self.metadata()?.len() < self.bytes {
            self.resize(self.bytes)
        } else {
            Ok(())
        }
    }

    /// Finishes a target: sets the exact size, and calls fsync if the method has it. Returns the time of the fsync.
    pub fn finish_target(&self) -> Result<Duration> {
        self.count_call();
        let now = self.metadata()?.len();
        let wanted = match &self.part {
            None => (now != self.bytes).then_some(self.bytes),
            // Other processes may have changed the size meanwhile. Only the part, and the padding of direct I/O, are
            // ours to cut.
            Some(part) => {
                let padded = part.end.next_multiple_of(self.alignment);
                let is_padded = part.end == self.bytes && now == padded && now > part.end;
                (is_padded || !part.is_empty() && now < part.end).then_some(part.end)
            }
        };
        if let Some(bytes) = wanted {
            self.resize(bytes)?;
        }
        match self.method.options().durability() {
            Durability::Fsync => self.sync(),
            // The padding was written through, so removing it must be durable, too.
            each if each.is_of_each_call() && wanted.is_some() => self.sync(),
            _ => Ok(Duration::ZERO),
        }
    }

    /// Syncs a target to its device: fsync(2). Returns the time it took.
    pub fn sync(&self) -> Result<Duration> {
        self.count_call();
        let start = Instant::now();
        sys::sync(&self.file).map_err(|error| self.failed("fsync", error))?;
        Ok(start.elapsed())
    }

    /// Removes a target that this operation created, after a failure, so that a new file is complete or absent. If the
    /// name belongs to another file by now, that stays.
    pub fn remove_failed(&self) {
        let is_ours = std::fs::symlink_metadata(self.path).is_ok_and(|found| {
            self.metadata()
                .is_ok_and(|ours| FileId::of(&found) == FileId::of(&ours))
        });
        if is_ours && let Err(error) = std::fs::remove_file(self.path) {
            log::warn!(path = %self.path.display(), %error, "cannot remove the incomplete file");
        }
    }

    /// Calls the producer for the bytes at `offset`.
    pub fn produce(&self, producer: &dyn Producer, offset: u64, bytes: &mut [u8]) -> Result<()> {
        producer
            .produce(offset - self.start(), bytes)
            .map_err(|source| Error::Producer {
                path: self.path.to_owned(),
                method: *self.method,
                offset,
                source,
            })?;
        self.tell(offset + bytes.len() as u64)
    }

    /// Fails if the file is now shorter than the range to move.
    pub fn check_not_shrunk(&self) -> Result<()> {
        self.check_reaches(self.range().end)
    }

    /// Fails if the source is now shorter than this many bytes.
    pub fn check_reaches(&self, end: u64) -> Result<()> {
        self.check_size(|now| now >= end)
    }

    /// Fails if the size of the source has changed since it was opened.
    pub fn check_same_size(&self) -> Result<()> {
        self.check_size(|now| now == self.bytes)
    }

    fn check_size(&self, is_right: impl Fn(u64) -> bool) -> Result<()> {
        self.count_call();
        let now = self.metadata()?.len();
        if is_right(now) { Ok(()) } else { Err(self.resized(now)) }
    }

    /// Calls `each` for a range: at once, or piece by piece if progress is reported. Returns whether `each` ended it.
    pub fn in_pieces(&self, range: Range<u64>, mut each: impl FnMut(Range<u64>) -> Result<bool>) -> Result<bool> {
        if self.progress.is_none() || self.method.options().access() == AccessPattern::Random {
            return each(range);
        }
        // Pieces are multiples of the method's block.
        let piece_bytes = TOLD_BYTES.next_multiple_of(self.method.options().block_bytes().unwrap_or(1));
        for piece in pieces(range, piece_bytes) {
            let end = piece.end;
            if each(piece)? {
                return Ok(true);
            }
            self.tell(end)?;
        }
        Ok(false)
    }

    /// Reports that everything before an offset is done.
    pub fn tell(&self, offset: u64) -> Result<()> {
        let Some(progress) = self.progress else {
            return Ok(());
        };
        let range = self.range();
        let done_bytes = offset - range.start;
        if progress.moved(done_bytes, range.end - range.start).is_continue() {
            return Ok(());
        }
        Err(Error::Stopped {
            path: self.path.to_owned(),
            method: *self.method,
            done_bytes,
        })
    }

    pub fn count_call(&self) {
        self.count_calls(1);
    }

    pub fn count_calls(&self, calls: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A range cut into pieces.
pub(crate) fn pieces(range: Range<u64>, piece_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = range.step_by(piece_bytes as usize);
    starts.map(move |start| start..start.saturating_add(piece_bytes).min(end))
}
