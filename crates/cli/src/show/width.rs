//! How wide the output may be, and text that keeps to it.

use unicode_width::UnicodeWidthStr;

/// How many columns a line may take; no limit where no terminal wraps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Width(Option<usize>);

/// Lines longer than this are hard to read.
const LONGEST_LINE: usize = 120;
/// Below this, nothing looks right whatever is done.
const SHORTEST_LINE: usize = 40;

impl Width {
    /// That of the terminal on standard output.
    #[must_use]
    pub fn of_stdout() -> Self {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        Self(size.map(|(width, _)| usize::from(width.0).clamp(SHORTEST_LINE, LONGEST_LINE)))
    }

    /// No limit.
    #[cfg(test)]
    pub(crate) const fn unlimited() -> Self {
        Self(None)
    }

    /// The columns; a number that nothing reaches where there is no limit.
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

/// How many columns a text without escapes takes.
pub fn columns_of(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Breaks a text between words. It starts behind `indent` columns, and so do the lines that follow.
pub fn wrapped(indent: usize, text: &str, width: Width) -> String {
    let room = width.columns().saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns_of(line) + 1 + columns_of(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join(&format!("\n{:indent$}", ""))
}

/// Breaks a method's name behind commas; what follows is set in by `indent` more columns.
pub fn wrapped_at_commas(name: &str, room: usize, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for option in name.split_inclusive(',') {
        match lines.last_mut() {
            Some(line) if columns_of(line) + columns_of(option) <= room => line.push_str(option),
            None => lines.push(option.to_owned()),
            Some(_) => lines.push(format!("{:indent$}{option}", "")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_set_in() {
        assert_eq!(wrapped(2, "one two three", Width::of(9)), "one two\n  three");
        assert_eq!(wrapped(2, "one two three", Width::default()), "one two three");
        assert_eq!(wrapped(0, "unbreakable", Width::of(4)), "unbreakable");
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
