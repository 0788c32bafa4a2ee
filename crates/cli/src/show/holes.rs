//! What files consist of, and what became of their holes: a line each, a picture, or an object for programs.

use std::io::Write;
use std::path::Path;

use seekless_results::bytes;
use seekless_tools::holes::{Dig, Dug, Filled, Kind, Left, Punched, Shown, Stretch};
use serde_json::{Map, Value, json};

use super::visible::{Json, insert_path, visible_path};
use super::width::{Width, wrapped};
use super::{BOLD, DIM};

/// Columns of the picture at most, and what stands before it.
const PICTURE: usize = 64;
const INDENT: usize = 2;

/// Writes the lines.
pub struct HoleLines<'a> {
    out: &'a mut dyn Write,
    json: bool,
    width: Width,
    files: u64,
    sum: Sum,
}

/// What all files come to, of the one job that is done.
enum Sum {
    Nothing,
    Shown(Shown),
    Changed {
        holes: u64,
        zeros: u64,
        before: u64,
        after: u64,
        how: Dig,
    },
    Filled {
        before: u64,
        after: u64,
    },
}

/// What of a file's stretches is kept while they are told.
pub struct Picture {
    /// The size that the columns stand for.
    bytes: u64,
    /// Of each column, how many bytes are data and how many reserved.
    columns: Vec<[u64; 2]>,
    /// All stretches, where these were asked for.
    map: Option<Vec<Stretch>>,
}

impl Picture {
    /// That of a file, to be filled with its stretches.
    pub fn of(path: &Path, width: Width, with_map: bool) -> Self {
        let columns = PICTURE.min(width.columns().saturating_sub(INDENT)).max(1);
        Self {
            bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
            columns: vec![[0; 2]; columns],
            map: with_map.then(Vec::new),
        }
    }

    /// Takes the next stretch.
    pub fn add(&mut self, stretch: &Stretch) {
        if let Some(map) = &mut self.map {
            map.push(stretch.clone());
        }
        let place = match stretch.kind {
            Kind::Data => 0,
            Kind::Reserved => 1,
            Kind::Hole => return,
        };
        let count = self.columns.len() as u128;
        let first = (u128::from(stretch.range.start) * count / u128::from(self.bytes.max(1))) as usize;
        for column in first..self.columns.len() {
            let (start, end) = (self.edge(column), self.edge(column + 1));
            if start >= stretch.range.end {
                break;
            }
            let common = stretch
                .range
                .end
                .min(end)
                .saturating_sub(stretch.range.start.max(start));
            self.columns[column][place] += common;
        }
    }

    /// Where a column begins.
    fn edge(&self, column: usize) -> u64 {
        (u128::from(self.bytes) * column as u128 / self.columns.len() as u128) as u64
    }

    fn text(&self) -> String {
        let sign = |(data, reserved): (u64, u64), length: u64| match (data, reserved) {
            (0, 0) => '·',
            (0, _) => '░',
            (data, _) if data * 2 < length => '▄',
            _ => '█',
        };
        let length = self.bytes / self.columns.len() as u64;
        let (mut signs, mut next) = (Vec::new(), '·');
        for (column, &[data, reserved]) in self.columns.iter().enumerate().rev() {
            // One without a byte of its own, in a short file, is like the next that has one.
            if self.edge(column) < self.edge(column + 1) {
                next = sign((data, reserved), length);
            }
            signs.push(next);
        }
        signs.iter().rev().collect()
    }
}

impl<'a> HoleLines<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write, json: bool, width: Width) -> Self {
        Self {
            out,
            json,
            width,
            files: 0,
            sum: Sum::Nothing,
        }
    }

    /// What a file consists of.
    pub fn shown(&mut self, shown: &Shown, picture: Picture) -> std::io::Result<()> {
        self.files += 1;
        match &mut self.sum {
            Sum::Shown(sum) => sum.add(shown),
            sum => *sum = Sum::Shown(shown.clone()),
        }
        if self.json {
            return writeln!(self.out, "{}", Json(shown_json(shown, "file", picture.map.as_deref())));
        }
        writeln!(self.out, "{BOLD}{}{BOLD:#}", visible_path(&shown.path))?;
        self.sentence(&shown_words(shown))?;
        if shown.bytes > 0 && shown.is_known {
            writeln!(self.out, "{:INDENT$}{}", "", picture.text())?;
        }
        for stretch in picture.map.into_iter().flatten() {
            let length = stretch.range.end - stretch.range.start;
            writeln!(
                self.out,
                "{:INDENT$}{:<8} {:>20} {:>20}  {}",
                "",
                stretch.kind.name(),
                stretch.range.start,
                length,
                bytes(length as f64)
            )?;
        }
        Ok(())
    }

    /// What was dug in a file.
    pub fn dug(&mut self, dug: &Dug, how: Dig) -> std::io::Result<()> {
        self.files += 1;
        let (mut holes, mut zeros, mut before, mut after) = (
            dug.holes,
            dug.zero_bytes,
            dug.allocated_before_bytes,
            dug.allocated_bytes,
        );
        if self.json {
            let values = [
                ("bytes", json!(dug.bytes)),
                ("holes", json!(holes)),
                ("zero_bytes", json!(zeros)),
                ("allocated_before_bytes", json!(before)),
                ("allocated_bytes", json!(after)),
                ("is_dry_run", json!(how.dry_run)),
            ];
            writeln!(self.out, "{}", Json(object("dug", &dug.path, values)))?;
        } else {
            let words = dug_words(holes, zeros, before, after, how);
            self.line(&dug.path, &words)?;
        }
        if let Sum::Changed {
            holes: h,
            zeros: z,
            before: b,
            after: a,
            ..
        } = self.sum
        {
            (holes, zeros, before, after) = (holes + h, zeros + z, before + b, after + a);
        }
        self.sum = Sum::Changed {
            holes,
            zeros,
            before,
            after,
            how,
        };
        Ok(())
    }

    /// What was punched.
    pub fn punched(&mut self, punched: &Punched) -> std::io::Result<()> {
        let (before, after) = (punched.allocated_before_bytes, punched.allocated_bytes);
        if self.json {
            let values = [
                ("bytes", json!(punched.bytes)),
                ("offset", json!(punched.offset)),
                ("length", json!(punched.length)),
                ("allocated_before_bytes", json!(before)),
                ("allocated_bytes", json!(after)),
            ];
            return writeln!(self.out, "{}", Json(object("punched", &punched.path, values)));
        }
        let words = format!(
            "{} from byte {} read as zeros now; {}",
            bytes(punched.length as f64),
            punched.offset,
            freed_words(before, after)
        );
        self.line(&punched.path, &words)
    }

    /// What was filled.
    pub fn filled(&mut self, filled: &Filled) -> std::io::Result<()> {
        self.files += 1;
        let (mut before, mut after) = (filled.allocated_before_bytes, filled.allocated_bytes);
        if self.json {
            let values = [
                ("bytes", json!(filled.bytes)),
                ("allocated_before_bytes", json!(before)),
                ("allocated_bytes", json!(after)),
            ];
            writeln!(self.out, "{}", Json(object("filled", &filled.path, values)))?;
        } else {
            self.line(&filled.path, &filled_words(before, after))?;
        }
        if let Sum::Filled { before: b, after: a } = self.sum {
            (before, after) = (before + b, after + a);
        }
        self.sum = Sum::Filled { before, after };
        Ok(())
    }

    /// Writes what several files come to, and what was left out.
    pub fn finish(self, left: &Left) -> std::io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.files > 1 {
            let words = match &self.sum {
                Sum::Nothing => String::new(),
                Sum::Shown(sum) => shown_words(sum),
                Sum::Changed {
                    holes,
                    zeros,
                    before,
                    after,
                    how,
                } => dug_words(*holes, *zeros, *before, *after, *how),
                Sum::Filled { before, after } => filled_words(*before, *after),
            };
            let words = format!("{} files: {words}.", self.files);
            writeln!(self.out, "{BOLD}Together{BOLD:#}  {}", wrapped(10, &words, self.width))?;
        }
        let all = [
            (left.repeated, "further names"),
            (left.special, "links, devices, FIFOs and sockets"),
            (
                left.other_file_systems,
                "folders of other file systems (--all-file-systems)",
            ),
        ];
        let words: Vec<String> = all
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        let text = wrapped(0, &format!("Left out: {}.", words.join(", ")), self.width);
        writeln!(self.out, "{DIM}{text}{DIM:#}")
    }

    fn sentence(&mut self, words: &str) -> std::io::Result<()> {
        writeln!(self.out, "{:INDENT$}{}", "", wrapped(INDENT, words, self.width))
    }

    fn line(&mut self, path: &Path, words: &str) -> std::io::Result<()> {
        let text = format!("{}: {words}", visible_path(path));
        writeln!(self.out, "{}", wrapped(0, &text, self.width))
    }
}

fn shown_words(shown: &Shown) -> String {
    let mut words = vec![format!(
        "{}, takes {}",
        bytes(shown.bytes as f64),
        bytes(shown.allocated_bytes as f64)
    )];
    if shown.is_known {
        words.push(format!("data {}", bytes(shown.data_bytes as f64)));
        words.push(match shown.holes {
            0 => "no holes".to_owned(),
            1 => format!("1 hole of {}", bytes(shown.hole_bytes as f64)),
            holes => format!("{holes} holes of {}", bytes(shown.hole_bytes as f64)),
        });
    } else {
        words.push("the file system does not tell where holes are".to_owned());
    }
    if shown.reserved_bytes > 0 {
        words.push(format!("reserved {}", bytes(shown.reserved_bytes as f64)));
    }
    words.extend(shown.extents.map(|extents| match extents {
        1 => "1 extent".to_owned(),
        extents => format!("{extents} extents"),
    }));
    words.extend(
        shown
            .zero_bytes
            .map(|zeros| format!("zeros that could be holes {}", bytes(zeros as f64))),
    );
    words.join(", ")
}

fn dug_words(holes: u64, zeros: u64, before: u64, after: u64, how: Dig) -> String {
    let holes = match (holes, how.dry_run) {
        (0, _) if how.min_bytes > 0 => return "no zeros that take space are as long as --min".to_owned(),
        (0, _) => return "no zeros that take space".to_owned(),
        (1, false) => "1 hole".to_owned(),
        (1, true) => "would make 1 hole".to_owned(),
        (holes, false) => format!("{holes} holes"),
        (holes, true) => format!("would make {holes} holes"),
    };
    let zeros = format!("{holes} of {} of zeros", bytes(zeros as f64));
    if how.dry_run {
        return zeros;
    }
    format!("{zeros}; {}", freed_words(before, after))
}

fn freed_words(before: u64, after: u64) -> String {
    format!(
        "{} freed, it takes {}",
        bytes(before.saturating_sub(after) as f64),
        bytes(after as f64)
    )
}

fn filled_words(before: u64, after: u64) -> String {
    format!(
        "{} allocated, it takes {}",
        bytes(after.saturating_sub(before) as f64),
        bytes(after as f64)
    )
}

fn object<const N: usize>(kind: &str, path: &Path, values: [(&str, Value); N]) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), kind.into());
    insert_path(&mut object, "path", path);
    for (name, value) in values {
        object.insert(name.to_owned(), value);
    }
    object.into()
}

fn shown_json(shown: &Shown, kind: &str, map: Option<&[Stretch]>) -> Value {
    let stretches: Option<Vec<Value>> = map.map(|map| {
        let stretch = |stretch: &Stretch| {
            let length = stretch.range.end - stretch.range.start;
            json!({"kind": stretch.kind.name(), "offset": stretch.range.start, "length": length})
        };
        map.iter().map(stretch).collect()
    });
    let values = [
        ("bytes", json!(shown.bytes)),
        ("allocated_bytes", json!(shown.allocated_bytes)),
        ("is_known", json!(shown.is_known)),
        ("data_bytes", json!(shown.data_bytes)),
        ("hole_bytes", json!(shown.hole_bytes)),
        ("reserved_bytes", json!(shown.reserved_bytes)),
        ("holes", json!(shown.holes)),
        ("extents", json!(shown.extents)),
        ("zero_bytes", json!(shown.zero_bytes)),
        ("stretches", json!(stretches)),
    ];
    object(kind, &shown.path, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_a_sign_for_each_part() {
        let mut picture = Picture {
            bytes: 1000,
            columns: vec![[0; 2]; 10],
            map: None,
        };
        for (kind, range) in [
            (Kind::Data, 0..150),
            (Kind::Hole, 150..400),
            (Kind::Reserved, 400..500),
            (Kind::Hole, 500..990),
            (Kind::Data, 990..1000),
        ] {
            picture.add(&Stretch { kind, range });
        }
        assert_eq!(picture.text(), "██··░····▄");
    }

    #[test]
    fn a_picture_of_a_file_shorter_than_its_columns_is_whole() {
        let mut picture = Picture {
            bytes: 3,
            columns: vec![[0; 2]; 10],
            map: None,
        };
        picture.add(&Stretch {
            kind: Kind::Data,
            range: 0..3,
        });
        assert_eq!(picture.columns.iter().map(|[data, _]| data).sum::<u64>(), 3);
        assert_eq!(picture.text(), "██████████");
    }
}
