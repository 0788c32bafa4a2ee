//! Text in lines of a width: cut, or broken between words.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::call;

/// The width of a line in columns; without a terminal, there is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Width(Option<usize>);

/// Lines longer than this are hard to read.
const LONGEST_LINE: usize = 120;
/// Narrower terminals are treated as this wide.
const SHORTEST_LINE: usize = 40;

impl Width {
    /// The width of the terminal on standard output.
    #[must_use]
    pub fn of_stdout() -> Self {
        Self::of_terminal(call::output().terminal_size())
    }

    pub(super) fn of_terminal(size: Option<(terminal_size::Width, terminal_size::Height)>) -> Self {
        Self(size.map(|(width, _)| usize::from(width.0).clamp(SHORTEST_LINE, LONGEST_LINE)))
    }

    /// The columns; a very large number if there is no limit.
    #[must_use]
    pub fn columns(self) -> usize {
        self.0.unwrap_or(usize::MAX)
    }

    /// A given number of columns.
    #[cfg(test)]
    pub(crate) fn of(columns: usize) -> Self {
        Self(Some(columns))
    }
}

/// The columns that a text without escapes takes.
pub fn columns_of(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The start of a text, as many columns of it as fit.
pub fn head(text: &str, columns: usize) -> String {
    cut(text.chars(), columns).into_iter().collect()
}

/// The end of a text that is too long, after an ellipsis.
pub fn tail(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let kept = cut(text.chars().rev(), columns.saturating_sub(1));
    ['…'].into_iter().chain(kept.into_iter().rev()).collect()
}

/// As many characters as fit.
fn cut(characters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut taken = 0;
    characters
        .take_while(|character| {
            taken += character.width().unwrap_or(0);
            taken <= columns
        })
        .collect()
}

/// Breaks a text between words, and a word that is longer than a line (such as a method) after commas. The caller
/// writes the first line in column `indent`; further lines are indented to that column.
pub fn wrapped(indent: usize, text: &str, width: Width) -> String {
    let room = width.columns().saturating_sub(indent).max(1);
    let pieces = text.split_inclusive(' ').flat_map(|word| {
        let is_long = columns_of(word.trim_end()) > room;
        word.split_inclusive(move |character| is_long && character == ',')
    });
    let lines = filled(pieces, room, 0);
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join(&format!("\n{:indent$}", ""))
}

/// Breaks a method's name after commas; further lines are indented by `indent` columns.
pub fn wrapped_at_commas(name: &str, room: usize, indent: usize) -> String {
    // The mechanism stands before a space.
    filled(name.split_inclusive([',', ' ']), room, indent).join("\n")
}

/// Puts as many pieces on each line as fit, not counting a space at its end. All lines but the first are indented.
fn filled<'t>(pieces: impl Iterator<Item = &'t str>, room: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if columns_of(line) + columns_of(piece.trim_end()) <= room => line.push_str(piece),
            None => lines.push(piece.to_owned()),
            Some(_) => lines.push(format!("{:indent$}{piece}", "")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_set_in() {
        assert_eq!(wrapped(2, "one two three", Width::of(9)), "one two\n  three");
        assert_eq!(wrapped(2, "one two three", Width::default()), "one two three");
        assert_eq!(wrapped(0, "unbreakable", Width::of(4)), "unbreakable");
        assert_eq!(
            wrapped(0, "Use a,b, or write/sync,direct,fsync.", Width::of(18)),
            "Use a,b, or\nwrite/sync,direct,\nfsync."
        );
    }

    #[test]
    fn what_is_too_long_is_cut_by_columns() {
        assert_eq!(tail("photos/2019/a.img", 17), "photos/2019/a.img");
        assert_eq!(tail("photos/2019/a.img", 9), "…19/a.img");
        // A character of two columns has no half.
        assert_eq!(
            (tail("日本日本", 6).as_str(), head("日本日本", 5).as_str()),
            ("…日本", "日本")
        );
        assert_eq!((tail("abc", 0).as_str(), head("abc", 0).as_str()), ("…", ""));
    }

    #[test]
    fn names_are_broken_behind_commas() {
        assert_eq!(
            wrapped_at_commas("sync direct,block=4M,fsync", 16, 2),
            "sync direct,\n  block=4M,fsync"
        );
        assert_eq!(wrapped_at_commas("sync", 2, 2), "sync");
    }
}
