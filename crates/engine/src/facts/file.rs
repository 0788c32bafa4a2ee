//! What a file is like, as the system tells.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use seekless_sys::{self as sys, Support};

use crate::files::{allocated_bytes, make_unnamed};

/// What a file is like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileFacts {
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// The number of its device.
    pub device: u64,
    /// The part of it, as far as it has blocks, that is in the page cache, 0 to 1; `None` where that cannot be known.
    pub resident: Option<f64>,
    /// What offsets and lengths of direct I/O are multiples of; `None` where it was not asked, or there is none to tell.
    pub direct_alignment: Option<u64>,
}

impl FileFacts {
    /// What the system tells of a file; of one that cannot be opened, not what is in the page cache.
    #[must_use]
    pub fn of(metadata: &Metadata, file: Option<&File>) -> Self {
        let found = Self {
            bytes: metadata.len(),
            allocated_bytes: allocated_bytes(metadata),
            device: metadata.dev(),
            ..Self::default()
        };
        let asked = file.and_then(|file| sys::residency(file).ok()?.available());
        // Of a file with holes, what can be read from the device counts, not its length.
        let resident = asked.map(|asked| {
            let whole = if found.is_sparse() {
                found.allocated_bytes
            } else {
                asked.total_bytes
            };
            if whole == 0 {
                1.0
            } else {
                (asked.resident_bytes as f64 / whole as f64).min(1.0)
            }
        });
        Self { resident, ..found }
    }

    /// The same with what direct I/O asks for, by the open file.
    #[must_use]
    pub fn with_alignment(self, file: &File) -> Self {
        let asked = sys::direct_alignment(file).ok().and_then(Support::available);
        Self {
            direct_alignment: asked.map(|asked| u64::from(asked.offset_bytes)),
            ..self
        }
    }

    /// The part of it that is in the page cache; half of it where that cannot be known.
    #[must_use]
    pub fn resident_part(&self) -> f64 {
        self.resident.unwrap_or(0.5)
    }

    /// Whether it has fewer blocks than bytes.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        self.allocated_bytes < self.bytes
    }
}

/// Whether a file with fewer blocks than bytes has holes, or may have: blocks may be missing because they are compressed.
pub(crate) fn has_holes(file: &File, path: &Path, bytes: u64) -> bool {
    match sys::next_hole(file, 0) {
        Ok(Support::Available(hole)) if hole >= bytes => {
            sys::file_system(path).is_ok_and(|found| found.may_hide_holes())
        }
        _ => true,
    }
}

/// What is shared to find out whether blocks can be.
const SHARED_BYTES: usize = 256 << 10;

/// Whether files in a directory can share their blocks, found out by a short file; not where none can be made.
pub(crate) fn shares_blocks(directory: &Path) -> bool {
    let tried = || -> io::Result<Support<()>> {
        let (from, to) = (make_unnamed(directory)?, make_unnamed(directory)?);
        from.write_all_at(&vec![1; SHARED_BYTES], 0)?;
        sys::clone_file(&from, &to)
    };
    matches!(tried(), Ok(Support::Available(())))
}
