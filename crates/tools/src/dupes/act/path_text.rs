//! Paths in plans, which people edit: a backslash begins an escape of a byte.
//!
//! Not here: the lines of plans (`plan`), and paths in messages and JSON.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use seekless_method::visible;

use super::RefusalReason;
use crate::json;

/// A path as it is written: what is not printable UTF-8, a backslash, and a space at an end are escaped. That of a directory ends with a
/// slash.
pub(super) fn written(path: &Path, is_directory: bool) -> Vec<u8> {
    let mut text = Vec::new();
    let escape = |text: &mut Vec<u8>, bytes: &[u8]| {
        text.extend(bytes.iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()));
    };
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        let mut bytes = [0; 4];
        for character in chunk.valid().chars() {
            let shown = &*character.encode_utf8(&mut bytes);
            match character {
                '\\' => text.extend_from_slice(b"\\\\"),
                _ if visible(shown) != shown => escape(&mut text, shown.as_bytes()),
                _ => text.extend_from_slice(shown.as_bytes()),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    // An editor may cut it off.
    if text.last() == Some(&b' ') {
        text.pop();
        escape(&mut text, b" ");
    }
    if is_directory {
        text.push(b'/');
    }
    text
}

/// The reverse, without the slash.
pub(super) fn path_of(text: &[u8]) -> Result<PathBuf, RefusalReason> {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            path.push(*first);
            continue;
        }
        let digits = more.strip_prefix(b"x").and_then(|more| more.get(..2));
        let byte = digits.and_then(|digits| json::bytes_of(std::str::from_utf8(digits).ok()?));
        match (more.first(), byte.as_deref()) {
            (Some(b'\\'), _) => (path.push(b'\\'), rest = &more[1..]),
            (_, Some(&[byte])) if byte != 0 => (path.push(byte), rest = &more[3..]),
            _ => return Err(RefusalReason::WrongEscape),
        };
    }
    if path.is_empty() || path.contains(&0) {
        return Err(RefusalReason::NoPath);
    }
    Ok(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_is_read_back_as_it_was_written_on_one_printable_line(
            bytes in prop::collection::vec(prop_oneof![1_u8.., Just(b'\\'), Just(b' '), Just(b'x')], 1..12),
        ) {
            let path = Path::new(OsStr::from_bytes(&bytes));
            let text = written(path, false);
            prop_assert_eq!(path_of(&text).unwrap(), path);
            let text = std::str::from_utf8(&text).unwrap();
            prop_assert!(visible(text) == text && !text.ends_with(' '), "{}", text);
        }
    }
}
