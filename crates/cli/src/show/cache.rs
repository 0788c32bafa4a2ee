//! What of files and folders is in memory: a line for each, a total, and what that means in words.

mod json;
mod sentences;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use indicatif::ProgressBar;
use seekless::cache::Resident;
use seekless_results::{bytes, visible};
use seekless_tools::cache::{FileState, Total, Watch};

use super::units::bar;
use super::visible::{Json, visible_path};
use super::width::Width;
use super::{BOLD, DIM, WARNING};
use json::{failed_json, file_json, total_json};
pub use sentences::Sentences;

/// What is shown of the files.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// A line of JSON for each, instead of columns.
    pub json: bool,
    /// Files found in folders, too.
    pub all: bool,
    /// So many files at the end, those of which most is resident.
    pub top: usize,
    /// How wide the lines may be.
    pub width: Width,
}

/// Errors that are said one by one; the rest is counted.
const MOST_ERRORS: u64 = 20;
/// Columns of the bar, and how wide the terminal must be for one.
const BAR: usize = 10;
const WIDE_ENOUGH: usize = 70;
/// Files between two looks at the progress bar.
const FILES_PER_LOOK: u64 = 64;

/// Writes a line for each file as it comes, and keeps what is to be said at the end.
pub struct Lines<'a> {
    out: &'a mut dyn Write,
    format: Format,
    progress: &'a ProgressBar,
    expected_files: Option<u64>,
    top: BinaryHeap<Reverse<(u64, FileOrder)>>,
    files: u64,
    errors: u64,
    has_head: bool,
    broken: Option<std::io::Error>,
}

/// A file among those of which most is resident; of equals the first goes first.
struct FileOrder(FileState, u64);

impl PartialEq for FileOrder {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}
impl Eq for FileOrder {}
impl PartialOrd for FileOrder {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for FileOrder {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.1.cmp(&self.1)
    }
}

impl Watch for Lines<'_> {
    fn file(&mut self, file: &FileState) -> ControlFlow<()> {
        self.files += 1;
        if self.files.is_multiple_of(FILES_PER_LOOK) {
            self.progress.set_message(self.progress_text());
        }
        if self.format.top > 0
            && let Resident::Known { resident_bytes, .. } = file.resident
            && resident_bytes > 0
        {
            self.top
                .push(Reverse((resident_bytes, FileOrder(file.clone(), self.files))));
            if self.top.len() > self.format.top {
                self.top.pop();
            }
        }
        if file.is_named || self.format.all {
            let written = self.write_file(file);
            return self.went(written);
        }
        ControlFlow::Continue(())
    }

    fn failed(&mut self, path: &Path, reason: &str) {
        self.errors += 1;
        if self.errors <= MOST_ERRORS {
            self.progress.suspend(|| {
                let sentence = format!("{}: {}", visible_path(path), visible(reason));
                let _ = writeln!(anstream::stderr(), "seekless: {sentence}");
            });
        }
        let written = if self.format.json {
            writeln!(self.out, "{}", Json(failed_json(path, reason)))
        } else if self.errors <= MOST_ERRORS {
            self.write_line(None, &visible_path(path))
        } else {
            Ok(())
        };
        let _ = self.went(written);
    }
}

impl<'a> Lines<'a> {
    /// Writes to `out`, beside a progress bar; `expected_files` are known where they were counted before.
    pub fn new(out: &'a mut dyn Write, format: Format, progress: &'a ProgressBar, expected_files: Option<u64>) -> Self {
        Self {
            out,
            format,
            progress,
            expected_files,
            top: BinaryHeap::new(),
            files: 0,
            errors: 0,
            has_head: false,
            broken: None,
        }
    }

    /// Writes what is left: the files of which most is resident, and the totals.
    pub fn finish(mut self, totals: &[Total], sum: &Total) -> std::io::Result<()> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if self.errors > MOST_ERRORS {
            let _ = writeln!(
                anstream::stderr(),
                "seekless: and {} more like these",
                self.errors - MOST_ERRORS
            );
        }
        for Reverse((_, FileOrder(file, _))) in std::mem::take(&mut self.top).into_sorted_vec() {
            self.write_file(&file)?;
        }
        if self.format.json {
            for total in totals {
                writeln!(self.out, "{}", Json(total_json(total, Some(&total.path))))?;
            }
            writeln!(self.out, "{}", Json(total_json(sum, None)))?;
        } else {
            for total in totals.iter().filter(|total| total.is_folder) {
                let name = format!("{} ({})", visible_path(&total.path), files(total.files));
                self.write_line(Some((total.resident_bytes, total.cacheable_bytes)), &name)?;
            }
            if totals.len() > 1 {
                let name = format!("{BOLD}together ({}){BOLD:#}", files(sum.files));
                self.write_line(Some((sum.resident_bytes, sum.cacheable_bytes)), &name)?;
            }
        }
        self.out.flush()
    }

    fn progress_text(&self) -> String {
        match self.expected_files {
            Some(all) => format!("{} of {}", count(self.files), files(all)),
            None => files(self.files),
        }
    }

    fn went(&mut self, written: std::io::Result<()>) -> ControlFlow<()> {
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.broken = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn write_file(&mut self, file: &FileState) -> std::io::Result<()> {
        if self.format.json {
            return writeln!(self.out, "{}", Json(file_json(file)));
        }
        let known = match file.resident {
            Resident::Known {
                resident_bytes,
                total_bytes,
            } => Some((resident_bytes, total_bytes)),
            Resident::Unknown(_) => None,
        };
        self.write_line(known, &visible_path(&file.path))
    }

    fn write_line(&mut self, known: Option<(u64, u64)>, name: &str) -> std::io::Result<()> {
        let bar_width = if self.format.width.columns() >= WIDE_ENOUGH {
            BAR
        } else {
            0
        };
        let gap = if bar_width > 0 { 2 } else { 0 };
        if !self.has_head {
            self.has_head = true;
            let head = format!(
                "{:>9} {:>9} {:>6}  {:bar_width$}{:gap$}path",
                "resident", "of", "part", "", ""
            );
            writeln!(self.out, "{DIM}{head}{DIM:#}")?;
        }
        let Some((resident, of)) = known else {
            return writeln!(
                self.out,
                "{WARNING}{:>9}{WARNING:#} {:>9} {:>6}  {:bar_width$}{:gap$}{name}",
                "unknown", "", "", "", ""
            );
        };
        let part = if of == 0 { 0.0 } else { resident as f64 / of as f64 };
        // Not 100 % where a page is missing, not 0 % where one is there.
        let percent = match format!("{:.0} %", part * 100.0) {
            text if text == "100 %" && resident < of => "99 %".to_owned(),
            text if text == "0 %" && resident > 0 => "1 %".to_owned(),
            text => text,
        };
        let bar = bar(part, bar_width);
        writeln!(
            self.out,
            "{:>9} {:>9} {:>6}  {bar:<bar_width$}{:gap$}{name}",
            bytes(resident as f64),
            bytes(of as f64),
            if of == 0 { "" } else { &percent },
            "",
        )
    }
}

/// A number with a comma between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of files in words.
pub fn files(number: u64) -> String {
    match number {
        1 => "1 file".to_owned(),
        number => format!("{} files", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(path: &str, resident: Resident) -> FileState {
        FileState {
            path: path.into(),
            is_named: false,
            bytes: 10_000,
            before: None,
            resident,
        }
    }

    fn known(resident_bytes: u64) -> Resident {
        Resident::Known {
            resident_bytes,
            total_bytes: 12_288,
        }
    }

    fn printed(format: Format, files: &[FileState]) -> String {
        let mut out = Vec::new();
        let bar = ProgressBar::hidden();
        let mut lines = Lines::new(&mut out, format, &bar, None);
        for file in files {
            assert!(lines.file(file).is_continue());
        }
        lines.finish(&[], &Total::default()).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    const TEXT: Format = Format {
        json: false,
        all: true,
        top: 0,
        width: Width::unlimited(),
    };

    #[test]
    fn part_is_all_or_nothing_only_where_it_is() {
        let nearly = state(
            "a\x1b[2J",
            Resident::Known {
                resident_bytes: 999_999,
                total_bytes: 1_000_000,
            },
        );
        let hardly = state(
            "b",
            Resident::Known {
                resident_bytes: 1,
                total_bytes: 1_000_000,
            },
        );
        let text = printed(TEXT, &[nearly, hardly, state("c", Resident::Unknown("why"))]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].contains("99 %") && lines[1].ends_with("  a\\u{1b}[2J"),
            "{text}"
        );
        assert!(lines[2].contains(" 1 %") && lines[3].contains("unknown"), "{text}");
        let columns: Vec<_> = lines.iter().map(|line| super::super::width::columns_of(line)).collect();
        assert_eq!(columns[2], columns[3], "{text}");
    }

    #[test]
    fn the_top_is_what_is_resident_most_and_of_equals_the_first() {
        let files = [("a", 4096), ("b", 12_288), ("c", 0), ("d", 4096), ("e", 8192)];
        let files = files.map(|(path, resident)| state(path, known(resident)));
        let format = Format {
            all: false,
            top: 3,
            ..TEXT
        };
        let text = printed(format, &files);
        let names: Vec<_> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().last())
            .collect();
        assert_eq!(names, ["b", "e", "a"], "{text}");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            ["0", "999", "1,000", "12,345,678"],
            [0, 999, 1000, 12_345_678].map(count).each_ref().map(String::as_str)
        );
    }
}
