//! Paths as serde writes them.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serializer;

/// The key of the bytes of a path that is not UTF-8, in the object that stands for it.
pub const PATH_BYTES: &str = "\0bytes";

/// Serialises a path: as text or, if it is not UTF-8, as an object with its bytes in hexadecimal digits.
///
/// # Errors
/// The serializer's.
pub fn serialize_path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => to.serialize_str(text),
        None => to.collect_map([(PATH_BYTES, hexadecimal(path.as_os_str().as_bytes()))]),
    }
}

/// The same; `None` is serialised as such.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn serialize_optional_path<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serialize_path(path, to),
        None => to.serialize_none(),
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
