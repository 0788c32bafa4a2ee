//! Text from outside made safe to look at: names of files may hold anything, a terminal's commands included.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value};

/// A text with its control characters written out, as in `\n` or `\u{1b}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        // Besides control characters, those that turn the direction of writing or are not to be seen.
        let is_hidden = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if is_hidden {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A path with its control characters, and the bytes that are no text, written out, as in `\xff`.
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

/// Puts a path into a JSON object. One that is no UTF-8 is there a second time, as `NAME_bytes`, in hexadecimal digits.
pub fn insert_path(object: &mut Map<String, Value>, name: &str, path: &Path) {
    object.insert(name.to_owned(), path.to_string_lossy().into());
    if path.to_str().is_none() {
        let mut digits = String::new();
        for byte in path.as_os_str().as_bytes() {
            let _ = write!(digits, "{byte:02x}");
        }
        object.insert(format!("{name}_bytes"), digits.into());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible("a\x1b[31mb\nc\u{202e}"), "a\\u{1b}[31mb\\nc\\u{202e}");
        assert_eq!(visible("größe 1 µs"), "größe 1 µs");
        let path = Path::new(OsStr::from_bytes(b"\xffx\x07\xc3\xa4"));
        assert_eq!(visible_path(path), "\\xffx\\u{7}ä");
    }

    #[test]
    fn a_path_that_is_no_utf_8_loses_nothing_in_json() {
        let mut object = Map::new();
        insert_path(&mut object, "path", Path::new("plain"));
        assert_eq!(Value::from(object), serde_json::json!({"path": "plain"}));
        let mut object = Map::new();
        insert_path(&mut object, "path", Path::new(OsStr::from_bytes(b"a\xff")));
        assert_eq!(
            Value::from(object),
            serde_json::json!({"path": "a\u{fffd}", "path_bytes": "61ff"})
        );
    }
}
