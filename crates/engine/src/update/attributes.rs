//! Copying owner, mode, flags and extended attributes to the new file.

use std::fs::File;
use std::path::Path;

use seekless_sys as sys;

use crate::error::{Error, Result, UpdateErrorKind};
use crate::files::Attributes;

/// Copies the flags of `from` to `to`, which is still empty, because some can only be set on an empty file.
///
/// # Errors
/// The system's, if one cannot be copied.
pub(super) fn keep_flags(from: &File, to: &File, path: &Path) -> Result<()> {
    let kept = sys::copy_inode_flags(from, to);
    kept.map_err(not_kept(path, "flags (lsattr)"))
}

fn not_kept(path: &Path, attribute: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| UpdateErrorKind::NotKept { attribute, source }.at(path)
}

/// Copies owner, mode and extended attributes, including access control lists, from `from` to `to`.
///
/// # Errors
/// The system's, if one cannot be copied.
pub(super) fn keep(from: &File, to: &File, path: &Path) -> Result<()> {
    let wanted = Attributes::of(from).map_err(|error| Error::system(path, "read its attributes", error))?;
    wanted
        .give(to)
        .map_err(|(attribute, error)| not_kept(path, attribute)(error))
}
