//! Read, write, copy, compare and update files by the method that is fastest for the file and its storage: a plan chooses it, and says
//! why.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::write(&from, b"bytes")?;
//! let done = seekless::copy(&from, &to)?;
//! println!("{} bytes in {:?} by {}: {}", done.bytes, done.elapsed, done.method, done.reason);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | call | |
//! |---|---|---|
//! | read a file | [`read`], [`read_to_vec`], [`read_into`] | [`Options::reader`] is a `Read`, `BufRead` and `Seek` |
//! | write a file | [`write`](write()) | [`Options::writer`] is a `Write` |
//! | copy a file | [`copy`](copy()) | |
//! | find the first difference of two files | [`compare`](compare()) | |
//! | make many small changes in a file | [`update`](update()) | [`Batch`] |
//! | learn the method and its time beforehand | [`plan`](plan()) | [`PlanRequest`] |
//!
//! [`Options`] has the same calls with a durability, a method, progress, an end from outside. A method that is named does what
//! its name says, or fails:
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::write(&from, b"bytes")?;
//! use seekless::{Durability, Options};
//! let options = Options::new().method("copy/double-buffer,block=1M".parse()?).durability(Durability::Fsync);
//! assert_eq!(options.copy(&from, &to)?.method.to_string(), "copy/double-buffer,block=1M,fsync");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All calls block the calling thread, and some start threads while they run. From async code, call them in `spawn_blocking`, as
//! `examples/reader_under_tokio.rs` does; from rayon, call them as any other work, with [`Options::threads`]`(1)` where many run at once.
//! The page `docs/library.md` shows both.
//! Sizes and offsets are in bytes.
//!
//! The page cache gets what is read and written, as with std, unless a plan or method bypasses it: `direct` in its name. Plans do that
//! only for files of which hardly anything is in it, where it is clearly faster.
//!
//! # Features
//! On by default: `profile` (plans rest on what `seekless bench` measured on the storage, if anything), `threads` (threads are
//! started before the first file, by rayon), `suggestions` (errors about misspelt names suggest similar ones) and `tracing`
//! (logs internal steps).
//!
//! # Not here
//! Everything below these calls is in the crate `seekless-engine`, which promises nothing from one version to the next; jobs on trees
//! of files are in `seekless-tools`. 64-bit Linux, macOS and other unixes; on others than Linux, fewer methods exist.

#![allow(
    clippy::needless_pass_by_value,
    reason = "ranges are taken as std takes paths, by value or by reference"
)]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;

mod batch;
mod context;
mod error;
mod file_range;
mod method;
mod options;
mod outcome;
mod plan;
mod reader;
mod reason;
mod stop;
mod writer;

use std::ops::ControlFlow;
use std::path::Path;

pub use batch::Batch;
pub use context::Context;
pub use error::{Error, ErrorKind, Result};
pub use file_range::{AsFileRange, FileRange};
pub use method::{Durability, Method, Operation, Safety};
pub use options::{Options, Prepared};
pub use outcome::{Outcome, Updated, Verdict};
pub use plan::{Plan, PlanRequest};
pub use reader::Reader;
pub use reason::{Reason, ReasonKind};
pub use stop::Stop;
pub use writer::Writer;

/// Reads a file from start to end. `take` gets offsets and bytes in order, and may end the read by `Break`, which is then the value.
/// Offsets count from the start of the range. It blocks, and may call `take` from another thread. The front page of this crate says
/// what the page cache gets.
///
/// ```
/// # let path = tempfile::NamedTempFile::new()?;
/// # std::fs::write(&path, b"one\ntwo\n")?;
/// let mut lines = 0;
/// let done = seekless::read(&path, |_offset, bytes| {
///     lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
///     std::ops::ControlFlow::Continue(())
/// })?;
/// println!("{lines} lines in {} bytes by {}: {}", done.bytes, done.method, done.reason);
/// # assert_eq!((lines, done.bytes), (2, 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::System`], [`ErrorKind::NotRegular`] for what is no file of a storage, and [`ErrorKind::Resized`] if the file shrank
/// meanwhile, so that `take` did not get all of it.
pub fn read(
    from: impl AsFileRange,
    take: impl FnMut(u64, &[u8]) -> ControlFlow<()> + Send,
) -> Result<Outcome<ControlFlow<()>>> {
    Options::new().read(from, take)
}

/// Reads a file into a new vector, which is the value. It blocks. Small files are read without a plan.
///
/// ```
/// # let path = tempfile::NamedTempFile::new()?;
/// # std::fs::write(&path, b"one\ntwo\n")?;
/// assert_eq!(seekless::read_to_vec(&path)?.value, b"one\ntwo\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`read`].
pub fn read_to_vec(from: impl AsFileRange) -> Result<Outcome<Vec<u8>>> {
    Options::new().read_to_vec(from)
}

/// Reads a file into memory, up to the end of either: [`Outcome::bytes`] of it are filled. It blocks; of a file in the page cache,
/// several threads may read. For memory that is not initialised, there is [`Options::read_into_uninit`].
///
/// ```
/// # let path = tempfile::NamedTempFile::new()?;
/// # std::fs::write(&path, b"one\ntwo\n")?;
/// let mut memory = vec![0; 4];
/// let done = seekless::read_into(&path, &mut memory)?;
/// assert_eq!((done.bytes, memory.as_slice()), (4, b"one\n".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`read`]. The memory then holds some of the bytes.
pub fn read_into(from: impl AsFileRange, memory: &mut [u8]) -> Result<Outcome<()>> {
    Options::new().read_into(from, memory)
}

/// Writes bytes to a new file. It blocks; when it returns, the bytes are in the page cache, and with [`Options::durability`] on the
/// device.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// let done = seekless::write(&path, "all of it")?;
/// assert_eq!((done.bytes, std::fs::read(&path)?.as_slice()), (9, b"all of it".as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::System`]. A new file is then removed, and one that was overwritten holds what was written until then.
pub fn write(to: impl AsFileRange, bytes: impl AsRef<[u8]>) -> Result<Outcome<()>> {
    Options::new().write(to, bytes)
}

/// Copies a file to a new one: its bytes and holes, but not its mode, owner and times. It blocks. Where the file system can, the new file
/// shares the blocks of the old one.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
/// # std::fs::write(&from, b"bytes")?;
/// assert_eq!(seekless::copy(&from, &to)?.bytes, 5);
/// # assert_eq!(std::fs::read(&to)?, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`read`] and [`write`](write()); [`ErrorKind::Invalid`] if both are one file and overlap.
pub fn copy(from: impl AsFileRange, to: impl AsFileRange) -> Result<Outcome<()>> {
    Options::new().copy(from, to)
}

/// Compares two files up to the first difference. It blocks, and may start threads. Bytes that both files share, and holes of both, are
/// not read.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
/// # std::fs::write(&one, b"the same")?;
/// # std::fs::write(&other, b"the sane")?;
/// assert_eq!(seekless::compare(&one, &other)?.value, seekless::Verdict::Differ { offset: 6 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`read`].
pub fn compare(one: impl AsFileRange, other: impl AsFileRange) -> Result<Outcome<Verdict>> {
    Options::new().compare(one, other)
}

/// Makes many small changes in a file, in few writes. It blocks. The file keeps its size, and is locked (flock(2)) meanwhile; where
/// bytes between changes are written back, other processes are kept out by a lease, or only the changes are written.
///
/// ```
/// # let file = tempfile::NamedTempFile::new()?;
/// # std::fs::write(file.path(), [0; 100])?;
/// let mut batch = seekless::Batch::new();
/// batch.push(40, b"changed")?;
/// let done = seekless::update(file.path(), batch)?;
/// println!("{} bytes written by {}: {}", done.value.written_bytes, done.method, done.reason);
/// # assert_eq!(&std::fs::read(file.path())?[40..47], b"changed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Update`]: the text says whether the file is as before.
pub fn update(path: impl AsRef<Path>, batch: Batch) -> Result<Outcome<Updated>> {
    Options::new().update(path, batch)
}

/// Plans an operation and predicts its time, but does not carry it out. It measures for at most 100 ms.
///
/// ```
/// use seekless::{FileRange, PlanRequest};
/// # let file = tempfile::NamedTempFile::new()?;
/// # let path = file.path();
/// let plan = seekless::plan(&PlanRequest::Read(FileRange::whole(path)))?;
/// println!("{} in {:?}: {}", plan.method, plan.predicted, plan.reason);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::System`] if a file or its directory cannot be opened or examined.
pub fn plan(request: &PlanRequest<'_>) -> Result<Plan> {
    Options::new().plan(request)
}
