//! Properties of a file, as the system reports them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use seekless_sys::{self as sys, Support};

use crate::files::{allocated_bytes, make_unnamed, require_file_bytes};

/// Properties of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileFacts {
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of its allocated blocks.
    pub allocated_bytes: u64,
    /// The number of its device.
    pub device: u64,
    /// The part of its allocated data that is in the page cache, 0 to 1; `None` if unknown.
    pub resident: Option<f64>,
    /// The alignment of offsets and lengths for direct I/O; `None` if it was not queried or is not reported.
    pub direct_alignment: Option<u64>,
}

impl FileFacts {
    /// What the system reports about a file; without an open file, the residency is unknown.
    #[must_use]
    pub fn of(metadata: &Metadata, file: Option<&File>) -> Self {
        let found = Self {
            bytes: metadata.len(),
            allocated_bytes: allocated_bytes(metadata),
            device: metadata.dev(),
            ..Self::default()
        };
        let asked = file.and_then(|file| sys::residency(file).ok()?.available());
        // For a file with holes, its allocated bytes count, not its length.
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

    /// The same with the alignment for direct I/O.
    #[must_use]
    pub(crate) fn with_alignment(self, file: &File) -> Self {
        let asked = sys::direct_alignment(file).ok().and_then(Support::available);
        Self {
            direct_alignment: asked.map(|asked| u64::from(asked.offset_bytes)),
            ..self
        }
    }

    /// The part of it that is in the page cache; 0.5 if unknown.
    #[must_use]
    pub fn resident_part(&self) -> f64 {
        self.resident.unwrap_or(0.5)
    }

    /// Whether its blocks hold fewer bytes than its size.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        self.allocated_bytes < self.bytes
    }
}

/// Whether a file whose blocks hold fewer bytes than its size has, or may have, holes. Compression also reduces blocks.
pub(crate) fn has_holes(file: &File, path: &Path, bytes: u64) -> bool {
    match sys::next_hole(file, 0) {
        Ok(Support::Available(hole)) if hole >= bytes => {
            sys::file_system(path).is_ok_and(|found| found.may_hide_holes())
        }
        _ => true,
    }
}

/// The size of the file for testing whether blocks can be shared.
const SHARED_BYTES: usize = 256 << 10;

/// Whether files in a directory can share blocks, tested with a short file; false if none can be created.
pub(crate) fn shares_blocks(directory: &Path) -> bool {
    let tried = || -> io::Result<Support<()>> {
        require_file_bytes(SHARED_BYTES as u64)?;
        let (from, to) = (make_unnamed(directory)?, make_unnamed(directory)?);
        from.write_all_at(&vec![1; SHARED_BYTES], 0)?;
        sys::clone_file(&from, &to)
    };
    matches!(tried(), Ok(Support::Available(())))
}
