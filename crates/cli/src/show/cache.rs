//! The residency of files and directories: a line for each, and a total.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use anstyle::Style;
use seekless_engine::cache::Resident;
use seekless_results::{bytes, visible};
use seekless_tools::PathFailure;
use seekless_tools::cache::{CacheEvent, CacheFileState, Total};
use serde_json::{Value, json};

use super::escape::{object, visible_path};
use super::objects::{JsonForm, Objects};
use super::page::Page;
use super::progress::{Amount, PROGRESS, stderr};
use super::units::{bar, files, percent};
use super::{BOLD, DIM, PLAIN, WARNING};

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// JSON objects instead of columns.
    pub json: Option<JsonForm>,
    /// Also show each file in directories.
    pub all: bool,
    /// The number of files to show at the end, those with the most resident bytes.
    pub top: usize,
}

/// The number of errors to print; further ones are only counted.
const MOST_ERRORS: u64 = 20;
/// The columns of the bar, and the terminal width from which there is one.
const BAR: usize = 10;
const WIDE_ENOUGH: usize = 70;
/// Files between two updates of the progress line.
const FILES_PER_LOOK: u64 = 64;

/// Writes a line for each file as it comes, and collects what is written at the end.
pub struct CacheLines<'a> {
    page: Page<'a>,
    format: Format,
    objects: Objects,
    /// The verb of the progress line, if files are counted there.
    doing: Option<&'static str>,
    /// Sorted by resident bytes, then by the order in which they came.
    top: BTreeMap<(Reverse<u64>, u64), CacheFileState>,
    files: u64,
    errors: u64,
    has_head: bool,
    broken: Option<std::io::Error>,
}

impl<'a> CacheLines<'a> {
    /// Receives an event of the job.
    pub fn event(&mut self, event: CacheEvent<'_>) -> ControlFlow<()> {
        let written = match event {
            CacheEvent::File(file) => self.file(file),
            CacheEvent::Failed(failure) => self.failed(&failure),
        };
        if let Err(error) = written {
            self.broken = Some(error);
            // A failure that cannot be told keeps no other file from being processed.
            if let CacheEvent::File(_) = event {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn file(&mut self, file: &CacheFileState) -> std::io::Result<()> {
        self.files += 1;
        if let Some(doing) = self.doing.filter(|_| self.files.is_multiple_of(FILES_PER_LOOK)) {
            let amount = Amount::Words(files(self.files), None);
            PROGRESS.set(doing, visible_path(&file.path), amount);
        }
        if self.format.top > 0
            && let Some((resident_bytes @ 1.., _)) = known(&file.resident)
        {
            self.top.insert((Reverse(resident_bytes), self.files), file.clone());
            if self.top.len() > self.format.top {
                self.top.pop_last();
            }
        }
        if file.is_named || self.format.all {
            return self.write_file(file);
        }
        Ok(())
    }

    fn failed(&mut self, PathFailure { path, reason }: &PathFailure<'_>) -> std::io::Result<()> {
        self.errors += 1;
        if self.errors <= MOST_ERRORS {
            let sentence = format!("{}: {}", visible_path(path), visible(reason));
            let _ = writeln!(stderr(), "seekless: {sentence}");
        }
        if self.objects.are_wanted() {
            let failed = object("failed", json!({"reason": reason}), Some(path));
            return self.objects.write(&mut self.page, &failed);
        }
        if self.errors <= MOST_ERRORS && path.is_file() {
            return self.write_line(None, &visible_path(path));
        }
        Ok(())
    }

    /// Writes to a page; `doing` is the verb of the progress line, if that counts the files.
    pub fn new(page: Page<'a>, format: Format, doing: Option<&'static str>) -> Self {
        Self {
            page,
            format,
            objects: Objects::new(format.json, "results"),
            doing,
            top: BTreeMap::new(),
            files: 0,
            errors: 0,
            has_head: false,
            broken: None,
        }
    }

    /// Writes the files with the most resident bytes, and the totals. Returns the page.
    pub fn finish(mut self, totals: &[Total], sum: &Total, is_stopped: bool) -> std::io::Result<Page<'a>> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if let more @ 1.. = self.errors.saturating_sub(MOST_ERRORS) {
            let _ = writeln!(stderr(), "seekless: and {more} more like these");
        }
        for file in std::mem::take(&mut self.top).values() {
            self.write_file(file)?;
        }
        if self.objects.are_wanted() {
            for total in totals {
                self.objects
                    .write(&mut self.page, &object("total", total, Some(&total.path)))?;
            }
            let mut summary = object("total", sum, None);
            summary["stopped"] = is_stopped.into();
            self.objects.finish(&mut self.page, &summary)?;
        } else {
            for total in totals.iter().filter(|total| total.is_directory) {
                let name = format!("{} ({})", visible_path(&total.path), files(total.files));
                self.write_line(Some((total.resident_bytes, total.cacheable_bytes)), &name)?;
            }
            let is_told = |total: &&Total| total.files > 0 || total.is_directory;
            if totals.iter().filter(is_told).count() > 1 {
                let name = format!("{BOLD}together ({}){BOLD:#}", files(sum.files));
                self.write_line(Some((sum.resident_bytes, sum.cacheable_bytes)), &name)?;
            }
        }
        self.page.flush()?;
        Ok(self.page)
    }

    fn write_file(&mut self, file: &CacheFileState) -> std::io::Result<()> {
        if self.objects.are_wanted() {
            return self.objects.write(&mut self.page, &file_json(file));
        }
        self.write_line(known(&file.resident), &visible_path(&file.path))
    }

    fn write_line(&mut self, known: Option<(u64, u64)>, name: &str) -> std::io::Result<()> {
        let is_wide = self.page.width().columns() >= WIDE_ENOUGH;
        let (bar_width, bar_column) = if is_wide { (BAR, BAR + 2) } else { (0, 0) };
        let line = |style: Style, [resident, of, part, bar]: [&str; 4], name: &str| {
            format!("{style}{resident:>9}{style:#} {of:>9} {part:>6}  {bar:<bar_column$}{name}")
        };
        if !self.has_head {
            self.has_head = true;
            let head = line(PLAIN, ["resident", "of", "part", ""], "path");
            writeln!(self.page, "{DIM}{head}{DIM:#}")?;
        }
        let Some((resident, of)) = known else {
            return writeln!(self.page, "{}", line(WARNING, ["unknown", "", "", ""], name));
        };
        let part = if of == 0 { 0.0 } else { resident as f64 / of as f64 };
        let percent = if of == 0 {
            String::new()
        } else {
            percent((resident, of))
        };
        let (resident, of, bar) = (bytes(resident), bytes(of), bar(part, bar_width));
        writeln!(self.page, "{}", line(PLAIN, [&resident, &of, &percent, &bar], name))
    }
}

/// Resident bytes, and total bytes.
fn known(resident: &Resident) -> Option<(u64, u64)> {
    match *resident {
        Resident::Known {
            resident_bytes,
            total_bytes,
        } => Some((resident_bytes, total_bytes)),
        Resident::Unknown(_) => None,
    }
}

/// The JSON object of a file.
fn file_json(file: &CacheFileState) -> Value {
    let (resident, cacheable) = known(&file.resident).unzip();
    let figures = json!({
        "bytes": file.bytes,
        "cacheable_bytes": cacheable,
        "resident_before_bytes": file.before.as_ref().and_then(known).map(|(resident, _)| resident),
        "resident_bytes": resident,
        "unknown": match file.resident {
            Resident::Unknown(reason) => Some(reason),
            Resident::Known { .. } => None,
        },
    });
    object("file", figures, Some(&file.path))
}

#[cfg(test)]
mod tests {
    use super::super::wrap::{Width, columns_of};
    use super::*;

    fn state(path: &str, resident: Resident) -> CacheFileState {
        CacheFileState {
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

    fn printed(format: Format, files: &[CacheFileState]) -> String {
        let mut out = Vec::new();
        let mut lines = CacheLines::new(Page::new(&mut out, Width::default()), format, None);
        for file in files {
            assert!(lines.event(CacheEvent::File(file)).is_continue());
        }
        lines.finish(&[], &Total::default(), false).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    const TEXT: Format = Format {
        json: None,
        all: true,
        top: 0,
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
        let columns: Vec<_> = lines.iter().map(|line| columns_of(line)).collect();
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
}
