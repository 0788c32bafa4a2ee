//! What is read, written, copied or compared: a file by its path or open already, all of it or a range.
//!
//! Not here: how it is opened, which `transfer` does as the method says.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::ops::{Bound, Range, RangeBounds};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::{open_regular, stat_open_regular};

/// A file, or a range of its bytes: what is read, written, copied or compared where a path alone does not say it.
///
/// ```
/// use std::io::{Seek, Write};
/// use std::ops::ControlFlow;
/// use seekless::Part;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// # let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(&path)?;
/// # file.write_all(b"0123456789")?;
/// // A range of an open file:
/// let mut text = Vec::new();
/// seekless::read(Part::of_file(&file).range(2..5), |_offset, bytes| {
///     text.extend_from_slice(bytes);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(text, b"234");
/// // Bytes into a file at an offset; the others stay:
/// seekless::write(Part::whole(&path).range(8..), b"ten".as_slice())?;
/// assert_eq!(std::fs::read(&path)?, b"01234567ten");
/// // From one offset to another, within one file:
/// seekless::copy(Part::of_file(&file).range(..2), Part::of_file(&file).range(4..))?;
/// assert_eq!(std::fs::read(&path)?, b"01230167ten");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is read, and compared
/// Bytes of the range that the file has; what is past its end is empty, as with pread(2). Offsets that are told count from
/// the start of the range.
///
/// # What is written
/// A path without a range is the whole file: a new one, or one that is written over, as [`Destination`](crate::Destination)
/// says. A range, and a file that is open, is written into: all other bytes stay, and the file becomes longer if the bytes
/// reach past its end. Bytes that do not fit into the range are refused before anything is written. A part that could not be
/// written to its end holds whatever was written until then.
///
/// # Files that are open
/// They are read and written at offsets; the file's position is where it was before. (`copy/sendfile`, and methods with
/// `holes=skip`, move it meanwhile.) A method with `direct`
/// needs a file that is open with `O_DIRECT`, and all others need one without; `write-through` needs `O_DSYNC`; a file that
/// is open with `O_APPEND` cannot be written into. A method that cannot do with the file or the range says so with
/// [`Error::Unavailable`].
#[derive(Clone, Debug)]
pub struct Part<'a> {
    pub(crate) file: FileOf<'a>,
    range: Option<Bounds>,
}

/// How a file is told.
#[derive(Clone, Debug)]
pub(crate) enum FileOf<'a> {
    /// It is opened, as the method says.
    Path(&'a Path),
    /// It is open, and closed by whoever opened it.
    Borrowed { file: BorrowedFd<'a>, name: Cow<'a, Path> },
    /// It is open, and known by a path.
    Shared(Arc<File>, &'a Path),
}

/// Where a range begins, and how long it is at most.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: u64,
    bytes: Option<u64>,
}

/// A path, or a [`Part`]: what the calls of this crate take.
pub trait AsPart {
    /// The part.
    fn as_part(&self) -> Part<'_>;
}

impl<P: AsRef<Path> + ?Sized> AsPart for P {
    fn as_part(&self) -> Part<'_> {
        Part::whole(self)
    }
}

impl AsPart for Part<'_> {
    fn as_part(&self) -> Part<'_> {
        self.clone()
    }
}

impl AsPart for &Part<'_> {
    fn as_part(&self) -> Part<'_> {
        (*self).clone()
    }
}

impl<'a> Part<'a> {
    /// All of the file at a path.
    #[must_use]
    pub fn whole(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        let file = FileOf::Path(path.as_ref());
        Self { file, range: None }
    }

    /// All of a file that is open. Errors call it by its descriptor, as in `/dev/fd/5`.
    #[must_use]
    pub fn of_file(file: &'a impl AsFd) -> Self {
        let file = file.as_fd();
        let name = Cow::Owned(descriptor_path(file));
        Self {
            file: FileOf::Borrowed { file, name },
            range: None,
        }
    }

    /// All of a file that is open, without duplicating its descriptor each time. Errors call it by the path, which is also
    /// opened to measure the device.
    #[doc(hidden)]
    #[must_use]
    pub fn of_shared(file: &Arc<File>, path: &'a Path) -> Self {
        let file = FileOf::Shared(Arc::clone(file), path);
        Self { file, range: None }
    }

    /// Names an open file in errors.
    #[must_use]
    pub fn named(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        if let FileOf::Borrowed { name, .. } = &mut self.file {
            *name = Cow::Borrowed(path.as_ref());
        }
        self
    }

    /// A range of the file, in bytes; of what is written, an end is the most that it may hold.
    #[must_use]
    pub fn range(self, range: impl RangeBounds<u64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => Some(last.saturating_add(1)),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => None,
        };
        let bytes = end.map(|end| end.saturating_sub(start));
        Self {
            range: Some(Bounds { start, bytes }),
            ..self
        }
    }

    /// What errors call the file.
    pub(crate) fn path(&self) -> &Path {
        match &self.file {
            FileOf::Path(path) | FileOf::Shared(_, path) => path,
            FileOf::Borrowed { name, .. } => name,
        }
    }

    /// The path, if there is no more to it.
    pub(crate) fn only_path(&self) -> Option<&'a Path> {
        match self.file {
            FileOf::Path(path) if self.range.is_none() => Some(path),
            _ => None,
        }
    }

    /// A path by which the file can be opened once more, to measure its device.
    pub(crate) fn path_to_measure(&self) -> Cow<'_, Path> {
        match &self.file {
            FileOf::Path(path) | FileOf::Shared(_, path) => Cow::Borrowed(path),
            FileOf::Borrowed { file, .. } => Cow::Owned(descriptor_path(*file)),
        }
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> u64 {
        self.range.map_or(0, |range| range.start)
    }

    /// How long it may be.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.range.and_then(|range| range.bytes).unwrap_or(u64::MAX)
    }

    /// The bytes of it that a file of a size has.
    pub(crate) fn within(&self, file_bytes: u64) -> Range<u64> {
        let start = self.start().min(file_bytes);
        start..start.saturating_add(self.bytes_max()).min(file_bytes)
    }

    /// Whether the file is open already: then it cannot be had past the page cache.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.file, FileOf::Path(_))
    }

    /// The file, to be looked at. Never waits.
    pub(crate) fn open(&self) -> Result<(Arc<File>, Metadata)> {
        let file = match &self.file {
            FileOf::Path(path) => {
                let (file, metadata) = open_regular(path)?;
                return Ok((Arc::new(file), metadata));
            }
            FileOf::Borrowed { file, .. } => Arc::new(self.duplicate(*file)?),
            FileOf::Shared(file, _) => Arc::clone(file),
        };
        let metadata = stat_open_regular(self.path(), &file)?;
        Ok((file, metadata))
    }

    /// A descriptor of our own for a file that is open.
    pub(crate) fn duplicate(&self, file: BorrowedFd<'_>) -> Result<File> {
        let owned = file.try_clone_to_owned();
        let owned = owned.map_err(|error| Error::system(self.path(), "duplicate its descriptor", error))?;
        Ok(owned.into())
    }
}

fn descriptor_path(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()))
}
