//! Escaping texts and JSON from outside for a terminal.

use std::borrow::Cow;
use std::path::Path;

use seekless_results::visible;
use seekless_tools::json::ascii;
pub use seekless_tools::json::{json_line, with_path};
pub use seekless_tools::visible::visible_path;
use serde::Serialize;
use serde_json::{Value, json};

/// A text that may have several lines, with its control characters shown as escapes.
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// The longest message that is shown as a whole; it may name two paths of any length that systems take.
const LONGEST_MESSAGE: usize = 16 << 10;

/// A message without its middle if it quotes a value of megabytes; both ends stay, since the reason may come last.
pub fn shortened(message: &str) -> Cow<'_, str> {
    const KEPT: usize = 1000;
    if message.len() <= LONGEST_MESSAGE {
        return message.into();
    }
    let start = &message[..message.floor_char_boundary(KEPT)];
    let end = &message[message.ceil_char_boundary(message.len() - KEPT)..];
    format!("{start} ... {end}").into()
}

/// A document as JSON in ASCII, indented, with a newline at its end. The fields stand in their order.
pub fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(ascii(serde_json::to_string_pretty(value)?) + "\n")
}

/// The text of an error after the path with which it begins.
pub fn reason_behind(path: &Path, error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let reason = text.strip_prefix(&format!("{}: ", path.display()));
    reason.map_or_else(|| text.clone(), str::to_owned)
}

/// An object with a kind, figures, and the path to which they belong.
pub fn object(kind: &str, figures: impl Serialize, path: Option<&Path>) -> Value {
    let mut object = json!(figures);
    object["kind"] = kind.into();
    with_path(object, "path", path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn json_for_a_terminal_is_ascii_and_reads_the_same() {
        let text = "é\u{9b}日\u{1f600}\u{1b}\u{7f}";
        let json = json_text(&text).unwrap();
        assert!(json.trim_end().chars().all(|c| c.is_ascii_graphic()), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible_lines("one\x07\ntwo"), "one\\u{7}\ntwo");
    }

    #[test]
    fn a_message_of_megabytes_keeps_its_ends() {
        let most = "é".repeat(LONGEST_MESSAGE / 2);
        assert_eq!(shortened(&most), most);
        let message = format!("file:1:1: x{}x is no number", "é".repeat(1 << 20));
        let shown = shortened(&message);
        assert!(shown.len() < 2100, "{}", shown.len());
        assert!(
            shown.starts_with("file:1:1: xé") && shown.ends_with("éx is no number"),
            "{shown}"
        );
    }

    #[test]
    fn a_path_that_is_no_utf_8_loses_nothing_in_json() {
        let object = |path| with_path(json!({}), "path", path);
        assert_eq!(object(Some(Path::new("plain"))), json!({"path": "plain"}));
        assert_eq!(
            object(Some(Path::new(OsStr::from_bytes(b"a\xff")))),
            json!({"path": "a\u{fffd}", "path_bytes": "61ff"})
        );
    }
}
