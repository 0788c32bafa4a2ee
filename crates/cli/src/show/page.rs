//! Text output that is wrapped to a width.

use std::io::{self, Write};

use anstyle::Style;
use serde::Serialize;

use super::escape::json_text;
use super::progress::{stderr, stdout};
use super::units::plural;
use super::wrap::{Width, columns_of, wrapped};
use super::{DIM, WARNING};
use crate::call;

/// An output for text, and how wide its lines may be.
pub struct Page<'a> {
    out: Box<dyn Write + Send + 'a>,
    width: Width,
}

impl<'a> Page<'a> {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'a, width: Width) -> Self {
        Self {
            out: Box::new(out),
            width,
        }
    }

    /// Writes to standard output, as wide as the terminal there.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new(stdout(), Width::of_stdout())
    }

    /// Writes to standard error, as wide as the terminal there.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(stderr(), Width::of_terminal(call::error().terminal_size()))
    }

    /// How wide its lines may be.
    #[must_use]
    pub fn width(&self) -> Width {
        self.width
    }

    /// Writes a text, wrapped.
    pub fn say(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.indented(style, "", 0, text)
    }

    /// Writes a text of less importance, indented.
    pub fn aside(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.indented(style, "  ", 4, text)
    }

    /// Writes `head` and a text after it, both in the style; further lines are indented by `indent` columns.
    pub fn indented(&mut self, style: Style, head: &str, indent: usize, text: &str) -> io::Result<()> {
        writeln!(self.out, "{style}{head}{}{style:#}", wrapped(indent, text, self.width))
    }

    /// Writes a label in the style, and a text whose lines all begin in column `at`.
    pub fn labelled(&mut self, style: Style, label: &str, at: usize, text: &str) -> io::Result<()> {
        let gap = at.saturating_sub(columns_of(label));
        let text = wrapped(at, text, self.width);
        writeln!(self.out, "{style}{label}{style:#}{:gap$}{text}", "")
    }

    /// Writes a JSON document.
    pub fn json(&mut self, document: &impl Serialize) -> io::Result<()> {
        self.out.write_all(json_text(document)?.as_bytes())
    }

    /// Writes a note about the output above it.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.labelled(WARNING, "Note", 6, text)
    }

    /// Writes what was left out: for each kind the number, and its singular and plural.
    pub fn left_out(&mut self, all: &[(u64, &str, &str)]) -> io::Result<()> {
        let found = all.iter().filter(|(number, ..)| *number > 0);
        let found = found.map(|&(number, one, several)| plural(number, one, several));
        let words: Vec<String> = found.collect();
        if words.is_empty() {
            return Ok(());
        }
        self.say(DIM, &format!("Left out: {}.", words.join(", ")))
    }
}

impl Write for Page<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// For [`Page::left_out`]: directories of other file systems that were not entered.
pub fn other_file_systems(number: u64) -> (u64, &'static str, &'static str) {
    let one = "directory of another file system (--all-file-systems)";
    (number, one, "directories of other file systems (--all-file-systems)")
}
