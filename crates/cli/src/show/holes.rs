//! The data and holes of files, and what was done to them: a line for each file, a picture, or a JSON object.

use std::io::{self, Write};
use std::path::Path;

use seekless_results::bytes;
use seekless_tools::holes::{Dig, Dug, Filled, HoleStretch, Punched, RunKind, Shown};
use seekless_tools::walk::Left;
use serde::Serialize;
use serde_json::{Value, json};

use super::escape::{json_line, object, reason_behind, visible_path};
use super::objects::{JsonForm, Objects};
use super::page::{Page, other_file_systems};
use super::units::{counted, nearest};
use super::wrap::Width;
use super::{BOLD, PLAIN};

/// The most columns of the picture, and the indent before it.
const PICTURE: usize = 64;
const INDENT: usize = 2;

/// Writes the lines or objects.
pub struct HoleLines<'a> {
    page: Page<'a>,
    objects: Objects,
    sum: HolesSum,
    files: u64,
    failed: u64,
    /// Bytes that were scanned for zeros.
    scanned_bytes: u64,
}

/// The sum over all files of a job.
#[derive(Serialize)]
#[serde(untagged)]
pub enum HolesSum {
    /// Of showing.
    Shown(Shown),
    /// Of digging.
    Dug {
        /// The sum.
        #[serde(flatten)]
        sum: Dug,
        /// How it is dug.
        #[serde(skip)]
        how: Dig,
    },
    /// Of filling.
    Filled(Filled),
}

impl HolesSum {
    fn words(&self) -> String {
        match self {
            Self::Shown(shown) => shown_words(shown),
            Self::Dug { sum, how } => dug_words(sum, *how),
            Self::Filled(filled) => filled_words(filled),
        }
    }
}

/// The summary of a job as JSON.
#[derive(Serialize)]
struct HolesSummary<'a> {
    kind: &'static str,
    files: u64,
    failed: u64,
    stopped: bool,
    #[serde(flatten)]
    sum: &'a HolesSum,
    #[serde(flatten)]
    left: &'a Left,
}

/// The picture of a file, and its stretches if they are to be listed.
pub struct HolesPicture {
    /// The size that the columns stand for.
    bytes: u64,
    /// Of each column, how many bytes are data and how many reserved.
    columns: Vec<[u64; 2]>,
    /// All stretches, if they are to be listed.
    map: Option<Vec<HoleStretch>>,
}

impl HolesPicture {
    /// The empty picture of a file; [`Self::add`] adds its stretches.
    pub fn of(path: &Path, width: Width, with_map: bool) -> Self {
        let columns = PICTURE.min(width.columns().saturating_sub(INDENT)).max(1);
        Self {
            bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
            columns: vec![[0; 2]; columns],
            map: with_map.then(Vec::new),
        }
    }

    /// Adds the next stretch.
    pub fn add(&mut self, stretch: &HoleStretch) {
        if let Some(map) = &mut self.map {
            map.push(stretch.clone());
        }
        let place = match stretch.kind {
            RunKind::Data => 0,
            RunKind::Reserved => 1,
            RunKind::Hole | RunKind::PastEnd => return,
        };
        let count = self.columns.len() as u128;
        let first = (u128::from(stretch.range.start) * count / u128::from(self.bytes.max(1))) as usize;
        for column in first..self.columns.len() {
            let (start, end) = (self.edge(column), self.edge(column + 1));
            if start >= stretch.range.end {
                break;
            }
            let (from, to) = (start.max(stretch.range.start), end.min(stretch.range.end));
            self.columns[column][place] += to.saturating_sub(from);
        }
    }

    /// Where a column begins.
    fn edge(&self, column: usize) -> u64 {
        (u128::from(self.bytes) * column as u128 / self.columns.len() as u128) as u64
    }

    fn text(&self) -> String {
        let (mut signs, mut next) = (Vec::new(), '·');
        for (column, &[data, reserved]) in self.columns.iter().enumerate().rev() {
            // In a short file, a column without a byte looks like the next one that has any.
            let length = self.edge(column + 1) - self.edge(column);
            if length > 0 {
                next = match data {
                    0 if reserved == 0 => '·',
                    0 => '░',
                    data => level(data as f64 / length as f64),
                };
            }
            signs.push(next);
        }
        signs.iter().rev().collect()
    }
}

/// A block with the height of this part. Only the whole is a full block, and a small part is still visible.
pub fn level(part: f64) -> char {
    const EIGHTHS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    match part {
        1.0.. => '█',
        part => EIGHTHS[nearest(part * 8.0, 7).max(1) - 1],
    }
}

impl<'a> HoleLines<'a> {
    /// Writes to a page; `sum` is the empty sum.
    pub fn new(page: Page<'a>, json: Option<JsonForm>, sum: HolesSum) -> Self {
        Self {
            page,
            objects: Objects::new(json, "results"),
            sum,
            files: 0,
            failed: 0,
            scanned_bytes: 0,
        }
    }

    /// Writes the data and holes of a file.
    pub fn shown(&mut self, shown: &Shown, picture: HolesPicture) -> io::Result<()> {
        self.files += 1;
        self.scanned_bytes += shown.data_bytes;
        if let HolesSum::Shown(sum) = &mut self.sum {
            sum.add(shown);
        }
        if self.objects.are_wanted() {
            let mut object = object("file", shown, Some(&shown.path));
            object["stretches"] = json!(picture.map);
            return self.objects.write(&mut self.page, &object);
        }
        writeln!(self.page, "{BOLD}{}{BOLD:#}", visible_path(&shown.path))?;
        self.page.labelled(PLAIN, "", INDENT, &shown_words(shown))?;
        if shown.bytes > 0 && shown.is_known {
            writeln!(self.page, "{:INDENT$}{}", "", picture.text())?;
        }
        let digits = shown.bytes.to_string().len();
        for HoleStretch { kind, range } in picture.map.into_iter().flatten() {
            let (name, start, length) = (kind.name(), range.start, range.end - range.start);
            let (size, indent) = (bytes(length), " ".repeat(INDENT));
            writeln!(
                self.page,
                "{indent}{name:<8}  {start:>digits$}  {length:>digits$}  {size:>7}"
            )?;
        }
        Ok(())
    }

    /// Writes what was dug in a file.
    pub fn dug(&mut self, dug: &Dug, how: Dig) -> io::Result<()> {
        self.scanned_bytes += dug.allocated_before_bytes.min(dug.bytes);
        if let HolesSum::Dug { sum, .. } = &mut self.sum {
            sum.add(dug);
        }
        let mut object = object("dug", dug, Some(&dug.path));
        object["is_dry_run"] = how.dry_run.into();
        self.line(&dug.path, &object, &dug_words(dug, how))
    }

    /// Writes what was filled in a file.
    pub fn filled(&mut self, filled: &Filled) -> io::Result<()> {
        if let HolesSum::Filled(sum) = &mut self.sum {
            sum.add(filled);
        }
        let object = object("filled", filled, Some(&filled.path));
        self.line(&filled.path, &object, &filled_words(filled))
    }

    /// Writes an error, also to standard error. The error begins with the path.
    pub fn failed(&mut self, path: &Path, error: &anyhow::Error) -> io::Result<()> {
        self.failed += 1;
        crate::print_error(error);
        let reason = reason_behind(path, error);
        let failed = object("failed", json!({"reason": reason}), Some(path));
        self.objects.write(&mut self.page, &failed)
    }

    /// Whether there was an error.
    pub fn has_failed(&self) -> bool {
        self.failed > 0
    }

    fn line(&mut self, path: &Path, object: &Value, words: &str) -> io::Result<()> {
        self.files += 1;
        if self.objects.are_wanted() {
            return self.objects.write(&mut self.page, object);
        }
        self.page.say(PLAIN, &format!("{}: {words}", visible_path(path)))
    }

    /// The number of files, and the bytes of them that were scanned for zeros.
    pub fn scanned(&self) -> [u64; 2] {
        [self.files, self.scanned_bytes]
    }

    /// Writes the sum over several files, and what was left out.
    pub fn finish(&mut self, left: &Left, is_stopped: bool) -> io::Result<()> {
        if self.objects.are_wanted() {
            let summary = HolesSummary {
                kind: "summary",
                files: self.files,
                failed: self.failed,
                stopped: is_stopped,
                sum: &self.sum,
                left,
            };
            self.objects.finish(&mut self.page, &json!(summary))?;
        } else {
            if self.files > 1 {
                let words = format!("{} files: {}.", self.files, self.sum.words());
                self.page.labelled(BOLD, "Together", 10, &words)?;
            }
            let special = ["link, device, FIFO or socket", "links, devices, FIFOs and sockets"];
            self.page.left_out(&[
                (left.repeated, "additional hard link", "additional hard links"),
                (left.links + left.special, special[0], special[1]),
                other_file_systems(left.other_file_systems),
            ])?;
        }
        self.page.flush()
    }
}

/// Shows what was punched.
pub fn show_punched(page: &mut Page<'_>, punched: &Punched, json: bool) -> io::Result<()> {
    if json {
        return writeln!(page, "{}", json_line(&object("punched", punched, Some(&punched.path))));
    }
    let freed = freed_words(punched.allocated_before_bytes, punched.allocated_bytes);
    let lost = match punched.data_bytes {
        0 => String::new(),
        data => format!("{} of data lost, ", bytes(data)),
    };
    let (path, offset, length) = (visible_path(&punched.path), punched.offset, bytes(punched.length));
    let words = format!("{path}: {length} from byte {offset} read as zeros now; {lost}{freed}");
    page.say(PLAIN, &words)
}

fn shown_words(shown: &Shown) -> String {
    let holes = match shown.holes {
        _ if !shown.is_known => "the file system does not report holes".to_owned(),
        0 => format!("data {}, no holes", bytes(shown.data_bytes)),
        holes => {
            let (data, holes) = (bytes(shown.data_bytes), counted(holes, "hole"));
            format!("data {data}, {holes} of {}", bytes(shown.hole_bytes))
        }
    };
    let (size, allocated) = (bytes(shown.bytes), bytes(shown.allocated_bytes));
    let zeros = shown.zero_bytes.map(bytes);
    let words = [
        Some(format!("{size}, takes {allocated}, {holes}")),
        (shown.reserved_bytes > 0).then(|| format!("reserved {}", bytes(shown.reserved_bytes))),
        (shown.past_end_bytes > 0).then(|| format!("past its end {}", bytes(shown.past_end_bytes))),
        shown.extents.map(|extents| counted(extents, "extent")),
        zeros.map(|zeros| format!("zeros that could be holes {zeros}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn dug_words(dug: &Dug, how: Dig) -> String {
    let freed = freed_words(dug.allocated_before_bytes, dug.allocated_bytes);
    let zeros = match (dug.holes, bytes(dug.zero_bytes)) {
        (0, _) if how.past_end && dug.allocated_before_bytes > dug.allocated_bytes => {
            return format!("past its end: {freed}");
        }
        (0, _) if how.min_bytes > 0 => return "no zeros that take space are as long as --min".to_owned(),
        (0, _) => return "no zeros that take space".to_owned(),
        (1, length) => format!("1 hole of {length}"),
        (holes, length) => format!("{holes} holes, {length} in total"),
    };
    if how.dry_run {
        return format!("would make {zeros}");
    }
    format!("{zeros}; {freed}")
}

fn freed_words(before: u64, after: u64) -> String {
    let freed = bytes(before.saturating_sub(after));
    format!("{freed} freed, it takes {}", bytes(after))
}

fn filled_words(filled: &Filled) -> String {
    let after = filled.allocated_bytes;
    let more = bytes(after.saturating_sub(filled.allocated_before_bytes));
    format!("{more} allocated, it takes {}", bytes(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_a_sign_for_each_part() {
        let mut picture = HolesPicture {
            bytes: 1000,
            columns: vec![[0; 2]; 10],
            map: None,
        };
        for (kind, range) in [
            (RunKind::Data, 0..150),
            (RunKind::Hole, 150..400),
            (RunKind::Reserved, 400..500),
            (RunKind::Hole, 500..990),
            (RunKind::Data, 990..1000),
        ] {
            picture.add(&HoleStretch { kind, range });
        }
        assert_eq!(picture.text(), "█▄··░····▁");
    }

    /// The picture of a file of 64,000 bytes with so much data at each of so many places.
    fn drawn(columns: usize, data: &[(u64, u64)]) -> String {
        let mut picture = HolesPicture {
            bytes: 64_000,
            columns: vec![[0; 2]; columns],
            map: None,
        };
        for &(start, end) in data {
            picture.add(&HoleStretch {
                kind: RunKind::Data,
                range: start..end,
            });
        }
        picture.text()
    }

    #[test]
    fn half_a_file_of_data_is_half_a_bar_however_it_lies() {
        let half = |filled: usize, rest: &str| "█".repeat(filled) + rest;
        assert_eq!(drawn(64, &[(0, 32_000)]), half(32, &"·".repeat(32)));
        assert_eq!(drawn(64, &[(32_000, 64_000)]), "·".repeat(32) + &"█".repeat(32));
        assert_eq!(drawn(57, &[(0, 32_000)]), half(28, &format!("▄{}", "·".repeat(28))));
        let alternating: Vec<_> = (0..64_000).step_by(200).map(|start| (start, start + 100)).collect();
        assert_eq!(drawn(64, &alternating), "▄".repeat(64));
        assert_eq!(drawn(64, &[(0, 64_000)]), "█".repeat(64));
    }

    #[test]
    fn a_little_data_and_a_small_hole_are_seen() {
        // 1 % of the file, in one place and in each column.
        assert_eq!(
            drawn(64, &[(10_000, 10_640)]),
            format!("{}▅{}", "·".repeat(10), "·".repeat(53))
        );
        let everywhere: Vec<_> = (0..64_000).step_by(1000).map(|start| (start, start + 10)).collect();
        assert_eq!(drawn(64, &everywhere), "▁".repeat(64));
        assert_eq!(drawn(64, &[(0, 1000), (1001, 64_000)]), format!("█▇{}", "█".repeat(62)));
        assert_eq!(drawn(64, &[]), "·".repeat(64));
    }

    #[test]
    fn a_picture_of_a_file_shorter_than_its_columns_is_whole() {
        let mut picture = HolesPicture {
            bytes: 3,
            columns: vec![[0; 2]; 10],
            map: None,
        };
        picture.add(&HoleStretch {
            kind: RunKind::Data,
            range: 0..3,
        });
        assert_eq!(picture.columns.iter().map(|[data, _]| data).sum::<u64>(), 3);
        assert_eq!(picture.text(), "██████████");
    }
}
