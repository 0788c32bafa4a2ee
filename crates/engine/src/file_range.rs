//! What is read, written, copied or compared: a file, given by its path or open, as a whole or a range of it.
//!
//! Not here: opening it as the method says (`transfer`).

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::ops::{Bound, Range, RangeBounds};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{open_regular, open_without_waiting, require_told_size, stat_open_regular};

/// A file, given by its path or open, or a range of its bytes.
///
/// ```
/// use std::io::{Seek, Write};
/// use std::ops::ControlFlow;
/// use seekless_engine::{FileRange, IoOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// # let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(&path)?;
/// # file.write_all(b"0123456789")?;
/// // A range of an open file:
/// let mut text = Vec::new();
/// IoOptions::new().read(FileRange::of_file(&file).range(2..5), |_offset, bytes| {
///     text.extend_from_slice(bytes);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(text, b"234");
/// // Write at an offset; the other bytes stay:
/// IoOptions::new().write(FileRange::whole(&path).range(8..), b"ten".as_slice())?;
/// assert_eq!(std::fs::read(&path)?, b"01234567ten");
/// // Copy within a file:
/// IoOptions::new().copy(FileRange::of_file(&file).range(..2), FileRange::of_file(&file).range(4..))?;
/// assert_eq!(std::fs::read(&path)?, b"01230167ten");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is read, and compared
/// The bytes of the range up to the end of the file, as with pread(2). Offsets passed to consumers count from the start
/// of the range.
///
/// # What is written
/// A path without a range is the whole file: a new one, or one that is overwritten, as
/// [`Destination`](crate::Destination) says. If the part is a range or an open file, all other bytes stay, and the file
/// grows if the bytes reach past its end. Bytes that do not fit into the range are refused before anything is written.
/// If a write fails, the part holds what was written until then.
///
/// # Open files
/// They are read and written at offsets, and the file's position is the same before and after.
/// (Comparing, and methods with `holes=skip`, move it meanwhile. `copy/sendfile` and `compare/stdio` open the file again,
/// which only Linux can.) A method with `direct` needs a file that was
/// opened with `O_DIRECT`; all others need one that was opened without it. `write-through` needs `O_DSYNC`. A file that
/// was opened with `O_APPEND` cannot be written to. If a method does not support the file or the range, the error is
/// [`Error::Unavailable`].
#[derive(Clone, Debug)]
pub struct FileRange<'a> {
    pub(crate) file: FileOf<'a>,
    range: Option<Bounds>,
}

/// How a file is given.
#[derive(Clone, Debug)]
pub(crate) enum FileOf<'a> {
    /// By path; it is opened as the method says.
    Path(&'a Path),
    /// Open; the caller closes it.
    Borrowed { file: BorrowedFd<'a>, name: Cow<'a, Path> },
}

/// The start of a range, and its largest length.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: u64,
    bytes: Option<u64>,
}

/// A path or a [`FileRange`], which the calls of this crate take.
pub trait AsFileRange {
    /// The range.
    fn as_file_range(&self) -> FileRange<'_>;
}

impl<P: AsRef<Path> + ?Sized> AsFileRange for P {
    fn as_file_range(&self) -> FileRange<'_> {
        FileRange::whole(self)
    }
}

impl AsFileRange for FileRange<'_> {
    fn as_file_range(&self) -> FileRange<'_> {
        self.clone()
    }
}

impl AsFileRange for &FileRange<'_> {
    fn as_file_range(&self) -> FileRange<'_> {
        (*self).clone()
    }
}

impl<'a> FileRange<'a> {
    /// The whole file at a path.
    #[must_use]
    pub fn whole(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        let file = FileOf::Path(path.as_ref());
        Self { file, range: None }
    }

    /// The whole of an open file. Errors name it by its descriptor, as in `/dev/fd/5`.
    #[must_use]
    pub fn of_file(file: &'a impl AsFd) -> Self {
        let file = file.as_fd();
        let name = Cow::Owned(descriptor_path(file));
        Self {
            file: FileOf::Borrowed { file, name },
            range: None,
        }
    }

    /// Names an open file in errors.
    #[must_use]
    pub fn named(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        if let FileOf::Borrowed { name, .. } = &mut self.file {
            *name = Cow::Borrowed(path.as_ref());
        }
        self
    }

    /// A range of the file, in bytes. For a write, the end is a limit.
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

    /// The name of the file in errors.
    pub(crate) fn path(&self) -> &Path {
        match &self.file {
            FileOf::Path(path) => path,
            FileOf::Borrowed { name, .. } => name,
        }
    }

    /// The path, if the part is a path without a range.
    pub(crate) fn only_path(&self) -> Option<&'a Path> {
        match self.file {
            FileOf::Path(path) if self.range.is_none() => Some(path),
            _ => None,
        }
    }

    /// A path by which the file can be opened again, to measure its device.
    pub(crate) fn path_to_measure(&self) -> Cow<'_, Path> {
        match &self.file {
            FileOf::Path(path) => Cow::Borrowed(path),
            FileOf::Borrowed { file, .. } => Cow::Owned(descriptor_path(*file)),
        }
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> u64 {
        self.range.map_or(0, |range| range.start)
    }

    /// Its largest length.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.range.and_then(|range| range.bytes).unwrap_or(u64::MAX)
    }

    /// The same, but no more than this many bytes of it.
    pub(crate) fn at_most(self, bytes: u64) -> Self {
        let (start, bytes) = (self.start(), Some(self.bytes_max().min(bytes)));
        let range = Some(Bounds { start, bytes });
        Self { range, ..self }
    }

    /// The bytes of it that a file of this size has.
    pub(crate) fn within(&self, file_bytes: u64) -> Range<u64> {
        let start = self.start().min(file_bytes);
        start..start.saturating_add(self.bytes_max()).min(file_bytes)
    }

    /// Whether the file is already open; then a planned method cannot bypass the page cache.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.file, FileOf::Path(_))
    }

    /// Opens the file to examine or read it. Never blocks.
    ///
    /// # Errors
    /// [`Error::NotRegular`], [`Error::NotStorage`], and the system's.
    pub fn open(&self) -> Result<(File, Metadata)> {
        let (file, metadata) = match &self.file {
            FileOf::Path(path) => open_regular(path)?,
            FileOf::Borrowed { file, .. } => {
                let file = self.duplicate(*file)?;
                let metadata = stat_open_regular(self.path(), &file)?;
                (file, metadata)
            }
        };
        require_told_size(self.path(), &file, &metadata)?;
        Ok((file, metadata))
    }

    /// The same by fewer calls, as std does: a device is opened before it is refused.
    pub(crate) fn open_once(&self) -> Result<(File, Metadata)> {
        let FileOf::Path(path) = self.file else {
            return self.open();
        };
        let file = open_without_waiting(path).map_err(|error| Error::system(path, "open", error))?;
        let metadata = stat_open_regular(path, &file)?;
        require_told_size(path, &file, &metadata)?;
        Ok((file, metadata))
    }

    /// A duplicate descriptor of an open file.
    pub(crate) fn duplicate(&self, file: BorrowedFd<'_>) -> Result<File> {
        let owned = file.try_clone_to_owned();
        let owned = owned.map_err(|error| Error::system(self.path(), "duplicate its descriptor", error))?;
        Ok(owned.into())
    }
}

fn descriptor_path(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()))
}
