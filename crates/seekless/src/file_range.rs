//! What is read, written, copied or compared.

use std::ops::RangeBounds;
use std::os::fd::AsFd;
use std::path::Path;

use seekless_engine as engine;

/// A file, by its path or open, or a range of its bytes.
///
/// A path without a range is the whole file: a write or copy makes a new one, or overwrites one
/// ([`Options::overwrite`](crate::Options::overwrite)). Of a range or an open file, all other bytes stay, and the file
/// grows if bytes reach past its end. An open file is read and written at offsets; its position stays.
///
/// ```
/// use seekless::FileRange;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// # std::fs::write(&path, b"0123456789")?;
/// let file = std::fs::File::open(&path)?;
/// assert_eq!(seekless::read_to_vec(FileRange::of_file(&file).range(2..5))?.value, b"234");
/// // Write at an offset; the other bytes stay.
/// seekless::write(FileRange::whole(&path).range(8..), b"ten")?;
/// assert_eq!(std::fs::read(&path)?, b"01234567ten");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileRange<'a>(engine::FileRange<'a>);

impl<'a> FileRange<'a> {
    /// The whole file at a path.
    #[must_use]
    pub fn whole(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self(engine::FileRange::whole(path))
    }

    /// The whole of an open file. Errors name it by its descriptor, as in `/dev/fd/5`.
    #[must_use]
    pub fn of_file(file: &'a impl AsFd) -> Self {
        Self(engine::FileRange::of_file(file))
    }

    /// The same file, which errors name by a path.
    #[must_use]
    pub fn named(self, path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self(self.0.named(path))
    }

    /// A range of its bytes. For a write, the end is a limit: bytes that do not fit are refused before anything is written.
    #[must_use]
    pub fn range(self, range: impl RangeBounds<u64>) -> Self {
        Self(self.0.range(range))
    }

    pub(crate) fn engine(&self) -> &engine::FileRange<'a> {
        &self.0
    }
}

/// A path or a [`FileRange`], which the calls take.
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
