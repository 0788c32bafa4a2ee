//! Text from outside, made harmless: what would move a cursor or turn a line round is shown as an escape instead.

use std::borrow::Cow;

/// The text with its control characters shown as escapes, `\u{1b}` for one.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    // Nearly all texts are so, and bytes are looked at many at a time.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and the formatting ones that reorder or hide the text beside them.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_all_else_stays() {
        let path = "/data/Bücher 日本, größe 1 µs";
        assert_eq!(visible(path), path);
        assert_eq!(visible("a\u{1b}[2J\n\r\u{9b}b"), "a\\u{1b}[2J\\n\\r\\u{9b}b");
        assert_eq!(visible("txt.\u{202e}exe\u{61c}"), "txt.\\u{202e}exe\\u{61c}");
    }
}
