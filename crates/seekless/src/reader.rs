//! Reading as std's readers do, by the plan.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{fmt, mem};

use seekless_engine::method::{AccessPattern, CachePolicy, Choice, MechanismId, ReadMechanism};
use seekless_engine::{self as engine, Block, BlockStream, FileRange};

use crate::{Error, Method, Operation, Options, Reason, Result, Stop};

/// Reads a file by the plan, as a `Read`, `BufRead` and `Seek`. By a method with requests in flight, or past the page cache, a thread
/// reads ahead; by one that reads block after block through the page cache, the kernel does.
///
/// It reads the file that was opened, also if another one has its name since. Bytes that are appended after it was opened may
/// be read or not; if the file shrinks below that size, a read is an error.
///
/// ```
/// use std::io::BufRead;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// # std::fs::write(&path, "one\ntwo\n")?;
/// let lines: Vec<String> = seekless::Options::new().reader(&path)?.lines().collect::<Result<_, _>>()?;
/// assert_eq!(lines, ["one", "two"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    method: engine::Method,
    otherwise: engine::Method,
    reason: Reason,
    stop: Option<Stop>,
    /// Bytes of the file from `block_start` on, of which `used` are consumed.
    block: Block,
    block_start: u64,
    used: usize,
    ahead: Option<BlockStream>,
}

/// From this length on, a read goes straight to the caller's memory.
const STRAIGHT_BYTES: usize = 64 << 10;
/// The block of a method that has none.
const BLOCK_BYTES: u64 = 1 << 20;

impl Options<'_> {
    /// Opens a file for reading by the plan, or by the method. See [`Reader`]. Progress is not told.
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn reader(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let (path, choice) = (path.as_ref(), self.choice(Operation::Read)?);
        let range = FileRange::whole(path);
        let (file, metadata) = range.open().map_err(Error::of)?;
        let (method, otherwise, reason) = match choice {
            Choice::Method(method) => (method, method, engine::plan::Reason::Asked),
            Choice::Plan(_) => {
                let plan = engine::Reader::plan_open(&range, &file, &metadata, self.planner());
                (plan.method, plan.otherwise, plan.reason)
            }
        };
        Ok(Reader {
            path: path.to_owned(),
            file,
            file_bytes: metadata.len(),
            method,
            otherwise,
            reason: Reason(reason),
            stop: self.stop.cloned(),
            block: Block::default(),
            block_start: 0,
            used: 0,
            ahead: None,
        })
    }
}

/// Whether a method reads one block after the other through the page cache, which needs no thread.
fn is_plain(method: &engine::Method) -> bool {
    let options = method.options();
    method.mechanism().id == MechanismId::Read(ReadMechanism::Sync)
        && options.cache() == CachePolicy::Cached
        && options.access() == AccessPattern::Sequential
        && !options.holes_skipped()
}

impl Reader {
    /// The method by which it reads.
    #[must_use]
    pub fn method(&self) -> Method {
        Method(self.method)
    }

    /// Why by this method.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    fn position(&self) -> u64 {
        self.block_start + self.used as u64
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.as_ref().is_some_and(Stop::is_stopped) {
            let (path, done_bytes) = (self.path.clone(), self.position());
            let method = self.method;
            return Err(Error::of(engine::Error::Stopped {
                path,
                method,
                done_bytes,
            }));
        }
        Ok(())
    }

    /// Reads once at the position, which is at the end of the block.
    fn read_at(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.position();
        // A read that would end past the largest size of a file is refused.
        let room = (i64::MAX as u64).saturating_sub(at).min(buffer.len() as u64) as usize;
        match self.file.read_at(&mut buffer[..room], at) {
            Ok(0) if at < self.file_bytes && !buffer.is_empty() => Err(Error::of(engine::Error::Resized {
                path: self.path.clone(),
                method: self.method,
                expected_bytes: self.file_bytes,
                found_bytes: at,
            })
            .into()),
            read => read,
        }
    }

    /// The next block.
    fn fill(&mut self) -> io::Result<()> {
        self.go_on()?;
        let at = self.position();
        if is_plain(&self.method) {
            let mut block = match mem::take(&mut self.block) {
                Block::Gathered(block) => block,
                Block::Whole(..) => Vec::new(),
            };
            let block_bytes = self.method.options().block_bytes().unwrap_or(BLOCK_BYTES);
            let block_bytes = block_bytes.min(self.file_bytes.max(1)) as usize;
            // After an error, nothing of the block is left.
            (self.block_start, self.used) = (at, 0);
            block.try_reserve_exact(block_bytes.saturating_sub(block.len()))?;
            block.resize(block_bytes, 0);
            let read = self.read_at(&mut block);
            block.truncate(*read.as_ref().unwrap_or(&0));
            self.block = Block::Gathered(block);
            return read.map(drop);
        }
        let mut ahead = if let Some(ahead) = self.ahead.take() {
            ahead
        } else {
            let (file, methods) = (self.file.try_clone()?, [self.method, self.otherwise]);
            let range = at.min(self.file_bytes)..self.file_bytes;
            BlockStream::start(file, self.path.clone(), methods, range)?
        };
        // After an error, nothing of the block is left.
        let used = mem::take(&mut self.block);
        (self.block_start, self.used) = (at, 0);
        let block = ahead.next(used).map_err(Error::of)?;
        (self.block, self.ahead) = (block, Some(ahead));
        Ok(())
    }
}

impl BufRead for Reader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.block.len() {
            self.fill()?;
        }
        Ok(&self.block[self.used..])
    }

    fn consume(&mut self, bytes: usize) {
        self.used = self.block.len().min(self.used + bytes);
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.block.len() && buffer.len() >= STRAIGHT_BYTES && is_plain(&self.method) {
            self.go_on()?;
            let read = self.read_at(buffer)?;
            (self.block_start, self.used) = (self.position() + read as u64, 0);
            self.block = Block::default();
            return Ok(read);
        }
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(offset) => (self.position(), offset),
            SeekFrom::End(offset) => (self.file.metadata()?.len(), offset),
        };
        let to = base.checked_add_signed(offset).filter(|&to| i64::try_from(to).is_ok());
        let to = to.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the position would be negative or too large",
            )
        })?;
        match to.checked_sub(self.block_start) {
            Some(used) if used <= self.block.len() as u64 => self.used = used as usize,
            _ => {
                (self.block_start, self.used, self.ahead) = (to, 0, None);
                self.block = Block::default();
            }
        }
        Ok(to)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Reader");
        shown.field("path", &self.path).field("position", &self.position());
        shown.field("method", &self.method.to_string()).finish_non_exhaustive()
    }
}
