//! Writing as std's writers do, by the plan.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use std::{fmt, mem};

use seekless_engine::files::FileId;
use seekless_engine::method::{CachePolicy, Choice, MechanismId, WriteMechanism};
use seekless_engine::{self as engine, FileRange, IoOptions};

use crate::{Context, Durability, Error, Method, Operation, Options, Outcome, Reason, Result, Stop};

/// Writes a file by the plan, as a `Write`. Up to 8 MiB are written by [`finish`](Self::finish) in one piece; of more, a thread writes
/// what is done while the program makes the rest, and with [`Durability::Fsync`] brings it to the device meanwhile.
///
/// Dropping it writes what is left, too, but then errors are lost.
///
/// ```
/// use std::io::Write;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// let mut file = seekless::Options::new().durability(seekless::Durability::Fsync).writer(&path)?;
/// writeln!(file, "{} lines", 1)?;
/// assert_eq!(file.finish()?.bytes, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    began: Instant,
    path: PathBuf,
    file: File,
    how: How,
    durability: Durability,
    is_new: bool,
    /// Bytes that belong at `at`.
    block: Vec<u8>,
    at: u64,
    pieces: u64,
    behind: Option<Behind>,
    is_done: bool,
}

/// How pieces are written.
#[derive(Clone)]
struct How {
    choice: Choice,
    threads_max: usize,
    context: Option<Context>,
    stop: Option<Stop>,
}

/// A thread that writes.
struct Behind {
    /// `None` once no more come.
    pieces: Option<Sender<Piece>>,
    written: Receiver<(Vec<u8>, Written)>,
    in_flight: usize,
    thread: Option<JoinHandle<()>>,
}

/// Where bytes go, the bytes, and whether they must reach the device.
type Piece = (u64, Vec<u8>, Choice);
type Written = engine::Result<engine::Outcome<engine::Transfer>>;

/// Fewer bytes are kept until the end.
const PIECE_BYTES: usize = 8 << 20;
/// As many pieces are written at a time, at most.
const PIECES_BEHIND: usize = 2;
/// One in this many pieces brings all bytes so far to the device.
const PIECES_OF_A_FLUSH: u64 = 8;

impl Options<'_> {
    /// Makes a file, or opens the one to overwrite, for writing by the plan or by the method. See [`Writer`]. Progress is not told.
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) if the file cannot be made or opened,
    /// [`ErrorKind::NotRegular`](crate::ErrorKind::NotRegular) for what is no file, and
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for methods that open the file in a way of their own: those with `direct` or
    /// `write-through`.
    pub fn writer(&self, path: impl AsRef<Path>) -> Result<Writer> {
        let (path, choice) = (path.as_ref(), self.choice(Operation::Write)?);
        let is_direct = matches!(choice, Choice::Method(method) if method.options().cache() == CachePolicy::Direct);
        if is_direct || choice.durability() == engine::method::Durability::WriteThrough {
            let why = format!(
                "a `Writer` cannot write by `{choice}`, which opens the file in a way of its own; `Options::write` can"
            );
            return Err(Error::of_words(io::Error::other(why)));
        }
        if self.overwrites {
            // To open a FIFO would wait for its reader.
            engine::files::stat_regular(path).map_err(Error::of)?;
        }
        // What is mapped for writing must also be open for reading.
        let is_mapped = matches!(choice, Choice::Method(method) if method.mechanism().id == MechanismId::Write(WriteMechanism::Mmap));
        let mut options = File::options();
        options.read(is_mapped).write(true).create_new(!self.overwrites);
        let opened = options.open(path);
        let file = opened.map_err(|error| Error::system(path, "open", error))?;
        Ok(Writer {
            began: Instant::now(),
            path: path.to_owned(),
            file,
            how: How {
                choice,
                threads_max: self.threads_max,
                context: self.context.cloned(),
                stop: self.stop.cloned(),
            },
            durability: self.durability,
            is_new: !self.overwrites,
            block: Vec::new(),
            at: 0,
            pieces: 0,
            behind: None,
            is_done: false,
        })
    }
}

impl How {
    /// Writes a piece.
    fn write(&self, file: &File, path: &Path, (at, bytes, choice): &Piece) -> Written {
        let go_on = |_: u64, _: u64| self.stop.as_ref().map_or(ControlFlow::Continue(()), Stop::go_on);
        let mut job = IoOptions::method(*choice).planner(Context::planner(self.context.as_ref(), self.threads_max));
        if self.stop.is_some() {
            job = job.progress(&go_on);
        }
        job.write(FileRange::of_file(file).named(path).range(*at..), bytes)
    }
}

impl Writer {
    /// Writes what is left, brings it to the device as [`Options::durability`] says, and says how the last piece was written.
    ///
    /// # Errors
    /// As [`write`](crate::write()). A new file is then removed.
    pub fn finish(mut self) -> Result<Outcome<()>> {
        let done = self.end()?;
        Ok(Outcome {
            bytes: self.at,
            elapsed: self.began.elapsed(),
            method: Method(done.method),
            reason: Reason(done.reason),
            value: (),
        })
    }

    fn end(&mut self) -> Result<engine::Outcome<engine::Transfer>> {
        let ended = self.settle().and_then(|()| {
            let last = (self.at, mem::take(&mut self.block), self.how.choice);
            self.at += last.1.len() as u64;
            // Before it is brought to the device.
            let cut = if self.is_new {
                Ok(())
            } else {
                self.file.set_len(self.at)
            };
            cut.map_err(|error| Error::system(&self.path, "set its size", error))?;
            self.how.write(&self.file, &self.path, &last).map_err(Error::of)
        });
        self.is_done = true;
        self.unless_failed(ended)
    }

    /// After an error, bytes are missing in the file: nothing more is written, and a new one is removed.
    fn unless_failed<T>(&mut self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.is_done = true;
            // Nothing is written after the program has the error.
            self.behind = None;
            let id = |found: io::Result<Metadata>| found.ok().as_ref().map(FileId::of);
            let ours = id(self.file.metadata());
            if self.is_new && ours.is_some() && ours == id(fs::symlink_metadata(&self.path)) {
                let _ = fs::remove_file(&self.path);
            }
        }
        done
    }

    /// Hands the block to the thread.
    fn hand_over(&mut self) -> Result<()> {
        self.go_on()?;
        self.pieces += 1;
        let is_flushed = self.durability == Durability::Fsync && self.pieces.is_multiple_of(PIECES_OF_A_FLUSH);
        let none = self.how.choice.with_durability(engine::method::Durability::None);
        let choice = if is_flushed {
            self.how.choice
        } else {
            none.map_err(Error::of_words)?
        };
        if self.behind.is_none() {
            let started = Behind::start(&self.file, &self.path, &self.how);
            self.behind = Some(started.map_err(|error| Error::system(&self.path, "start a thread for", error))?);
        }
        let Some(behind) = &mut self.behind else { return Ok(()) };
        let next = if behind.in_flight < PIECES_BEHIND {
            Vec::new()
        } else {
            behind.wait()?
        };
        let block = mem::replace(&mut self.block, next);
        let bytes = block.len() as u64;
        behind.in_flight += 1;
        // If the thread has ended, waiting says so.
        let _ = behind
            .pieces
            .as_ref()
            .map(|pieces| pieces.send((self.at, block, choice)));
        self.at += bytes;
        Ok(())
    }

    /// Fails after an error.
    fn go_on(&self) -> Result<()> {
        if self.is_done {
            let earlier = io::Error::other("an earlier write failed");
            return Err(Error::system(&self.path, "go on writing", earlier));
        }
        Ok(())
    }

    /// Waits until what was handed over is written.
    fn settle(&mut self) -> Result<()> {
        self.go_on()?;
        while let Some(behind) = self.behind.as_mut().filter(|behind| behind.in_flight > 0) {
            behind.wait()?;
        }
        Ok(())
    }
}

impl Behind {
    fn start(file: &File, path: &Path, how: &How) -> io::Result<Self> {
        let ((pieces, asked), (told, written)) = (channel::<Piece>(), channel());
        let (file, path, how) = (file.try_clone()?, path.to_owned(), how.clone());
        let work = move || {
            for mut piece in asked {
                let done = how.write(&file, &path, &piece);
                piece.1.clear();
                if told.send((piece.1, done)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("write-behind".to_owned()).spawn(work)?;
        Ok(Self {
            pieces: Some(pieces),
            written,
            in_flight: 0,
            thread: Some(thread),
        })
    }

    /// Waits for a piece, and returns its memory.
    fn wait(&mut self) -> Result<Vec<u8>> {
        self.in_flight -= 1;
        match self.written.recv() {
            Ok((memory, done)) => done.map(|_| memory).map_err(Error::of),
            Err(_) => Err(Error::of_words(io::Error::other("the thread that writes ended"))),
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.pieces = None;
        // A panic of the thread was told as an error.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() >= PIECE_BYTES {
            let handed_over = self.hand_over();
            self.unless_failed(handed_over)?;
        }
        let taken = bytes.len().min(PIECE_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let handed_over = if self.block.is_empty() {
            Ok(())
        } else {
            self.hand_over()
        };
        let written = handed_over.and_then(|()| self.settle());
        Ok(self.unless_failed(written)?)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = self.end();
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Writer");
        shown
            .field("path", &self.path)
            .field("bytes", &(self.at + self.block.len() as u64));
        shown.finish_non_exhaustive()
    }
}
