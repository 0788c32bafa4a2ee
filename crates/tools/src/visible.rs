//! Paths in messages.
//!
//! Not here: paths in JSON (`json`).

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use seekless_method::visible;

/// A path with escapes for control characters and for bytes that are not UTF-8, as in `\xff`.
#[must_use]
pub fn visible_path(path: &Path) -> String {
    let mut shown = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        shown.push_str(&visible(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let path = Path::new(OsStr::from_bytes(b"\xffx\x07\xc3\xa4"));
        assert_eq!(visible_path(path), "\\xffx\\u{7}ä");
    }
}
