//! What the lines mean in words.

use std::io::Write;

use seekless_tools::cache::Total;

use super::super::width::{Width, wrapped};
use super::super::{DIM, WARNING};
use super::count;

/// Sentences below the lines, each with what it is about before it.
pub struct Sentences<'a> {
    out: &'a mut dyn Write,
    width: Width,
}

impl<'a> Sentences<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write, width: Width) -> Self {
        Self { out, width }
    }

    /// What was done.
    pub fn say(&mut self, sentence: &str) -> std::io::Result<()> {
        writeln!(self.out, "{}", wrapped(0, sentence, self.width))
    }

    /// What to know about it.
    pub fn note(&mut self, sentence: &str) -> std::io::Result<()> {
        writeln!(
            self.out,
            "{WARNING}Note{WARNING:#}  {}",
            wrapped(6, sentence, self.width)
        )
    }

    /// What was found and not counted.
    pub fn left_out(&mut self, sum: &Total) -> std::io::Result<()> {
        let all = [
            (
                sum.repeated,
                "further name of what was counted",
                "further names of what was counted",
            ),
            (sum.links, "symbolic link", "symbolic links"),
            (sum.special, "device, FIFO or socket", "devices, FIFOs and sockets"),
            (
                sum.other_file_systems,
                "folder of another file system (--all-file-systems)",
                "folders of other file systems (--all-file-systems)",
            ),
        ];
        let words: Vec<String> = all
            .into_iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, one, several)| format!("{} {}", count(number), if number == 1 { one } else { several }))
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        let text = wrapped(0, &format!("Left out: {}.", words.join(", ")), self.width);
        writeln!(self.out, "{DIM}{text}{DIM:#}")
    }
}
