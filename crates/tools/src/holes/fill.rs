//! Filling: holes get blocks again, so that writing to them can find no full file system. Bytes stay the same.

use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Support};

use super::Result;
use super::held::{Held, unavailable};

/// What was filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now.
    pub allocated_bytes: u64,
}

/// Allocates the blocks of all holes: fallocate(2). They read as zeros, and are reserved rather than data.
///
/// # Errors
/// Where no lease is granted, the file system cannot allocate or has no room; then some holes may have blocks.
pub fn fill(path: &Path) -> Result<Filled> {
    let held = Held::open(path)?;
    held.require_alone()?;
    let done = match sys::allocate(&held.file, held.metadata.len()) {
        Ok(Support::Available(())) => held.allocated_bytes(),
        Ok(Support::Unavailable(reason)) => Err(unavailable(path, reason)),
        Err(error) => Err(held.failed("allocating its holes", error)),
    };
    let restored = held.restore(true);
    let allocated_bytes = done?;
    restored?;
    Ok(Filled {
        path: path.to_owned(),
        bytes: held.metadata.len(),
        allocated_before_bytes: held.allocated_before_bytes(),
        allocated_bytes,
    })
}
