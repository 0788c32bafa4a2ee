//! Compares two files byte by byte, as cmp(1) does: the first difference and its line, all differences, or only whether
//! they differ.
//!
//! Sizes are trusted only for larger regular files. Files of a few blocks, files that claim to be empty (as in /proc),
//! pipes and devices are read to the end. Not here: the text for a person (the command has it), and trees ([`crate::tree`]).
//!
//! ```
//! use seekless_tools::Stop;
//! use seekless_tools::cmp::{CmpRequest, CmpVerdict, WantedDifferences, compare};
//! # let directory = tempfile::tempdir()?;
//! # let (one, other) = (directory.path().join("one"), directory.path().join("other"));
//! # std::fs::write(&one, b"a\nb\n")?;
//! # std::fs::write(&other, b"a\nc\n")?;
//! let request = CmpRequest::new([one.into(), other.into()], WantedDifferences::Difference);
//! let CmpVerdict::Differ(difference) = compare(&request, &mut std::io::sink(), &Stop::default())?.verdict else { panic!() };
//! assert_eq!((difference.offset, difference.line, difference.bytes), (2, Some(2), *b"bc"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod amount;
mod error;
mod first;
mod large;
mod lines;
mod list;
mod lockstep;
mod row;
mod side;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use seekless_engine::Method;
use seekless_engine::plan::{FIRST_LOOK_BYTES, Plan};
use serde::Serialize;

use crate::tree::Side;
use crate::watch::JobWatch;
pub use amount::parse_amount;
pub use error::{CmpProblem, Error, reason};
use first::first_difference;
use large::RestOfPair;
use lines::LineCount;
use list::list;
use lockstep::Lockstep;
use row::Rows;
pub use row::{RowStyle, visible_byte};
use side::{CmpInput, open};

/// Smaller files have no progress.
const TOLD_BYTES: u64 = 16 << 20;

/// What to compare, and what to find out.
#[derive(Clone, Debug)]
pub struct CmpRequest {
    /// The files; `-` is standard input, from its current position.
    pub names: [OsString; 2],
    /// Opens standard input; by default, that of the process.
    pub standard_input: fn() -> io::Result<File>,
    /// How many bytes of each to skip.
    pub skip_bytes: [u64; 2],
    /// The most bytes of each to compare; `None` for all.
    pub limit_bytes: Option<u64>,
    /// What to find out.
    pub wanted: WantedDifferences,
    /// Regular files of different sizes differ, whatever is skipped.
    pub sizes_first: bool,
    /// Whether symbolic links are followed; otherwise two links are compared by their targets.
    pub follow_links: bool,
    /// The method for regular files; `None` to choose one for larger files.
    pub method: Option<Method>,
    /// Called before a method is chosen or run. The program may allow maps there, so small files need not wait for that.
    pub before_method: fn(),
    /// Whether to predict the time of a planned method, which takes up to 50 ms of measuring.
    pub is_predicted: bool,
}

impl CmpRequest {
    /// All bytes of both.
    #[must_use]
    pub fn new(names: [OsString; 2], wanted: WantedDifferences) -> Self {
        Self {
            names,
            standard_input: || Ok(io::stdin().as_fd().try_clone_to_owned()?.into()),
            skip_bytes: [0; 2],
            limit_bytes: None,
            wanted,
            sizes_first: false,
            follow_links: true,
            method: None,
            before_method: || {},
            is_predicted: false,
        }
    }
}

/// What to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedDifferences {
    /// Whether they differ. Regular files of different sizes differ and are not read.
    Verdict,
    /// Whether and where they differ first.
    Offset,
    /// Where they differ first, and in which line.
    Difference,
    /// All differences, as rows.
    Every(RowStyle),
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum CmpVerdict {
    /// They are equal, within the limit if there is one.
    Equal,
    /// They differ.
    Differ(ByteDifference),
    /// They differ, and each byte that differs has a row.
    #[serde(rename = "differ")]
    Listed {
        /// How many bytes differ.
        #[serde(skip)]
        differences: u64,
    },
    /// One is shorter than the other; listed differences may precede.
    Ended(End),
    /// They have different sizes, and were not read.
    #[serde(rename = "sizes differ")]
    SizesDiffer,
}

/// The first difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ByteDifference {
    /// Its offset, counted after the skipped bytes.
    pub offset: u64,
    /// The line in which it is, counted from 1, if that was requested.
    pub line: Option<u64>,
    /// The byte of each file there.
    pub bytes: [u8; 2],
}

/// The end of the shorter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Which is shorter.
    #[serde(rename = "shorter")]
    pub side: Side,
    /// Its end, counted after the skipped bytes.
    pub offset: u64,
    /// The newlines before it, if they were requested.
    #[serde(skip)]
    pub newlines: Option<u64>,
    /// Whether it does not end with a newline.
    #[serde(skip)]
    pub is_within_line: bool,
}

impl End {
    fn new(side: usize, offset: u64, lines: Option<LineCount>) -> Self {
        Self {
            side: Side::BOTH[side],
            offset,
            newlines: lines.map(|lines| lines.newlines),
            is_within_line: lines.is_some_and(|lines| lines.is_within_line()),
        }
    }
}

/// The result, and how it was found.
#[derive(Clone, Debug, Serialize)]
pub struct CmpOutcome {
    /// The result.
    #[serde(flatten)]
    pub verdict: CmpVerdict,
    /// How many bytes of each were compared: up to the first difference, unless all were requested.
    pub compared_bytes: u64,
    /// How many of these are known to be equal without reading them.
    pub unread_bytes: u64,
    /// How they were compared.
    #[serde(flatten)]
    pub way: MethodUsed,
    /// The last rows, which are not written yet.
    #[serde(skip)]
    pub rows: Vec<u8>,
}

/// How files were compared.
#[derive(Clone, Debug, Serialize)]
pub struct MethodUsed {
    /// The method, or a word such as `identity` if none was needed.
    pub method: String,
    /// Why.
    pub why: String,
    /// The plan that was carried out, if there was one, and the time that its method took.
    #[serde(skip)]
    pub planned: Option<(Plan, Duration)>,
}

impl MethodUsed {
    fn new(method: &str, why: &str) -> Self {
        Self {
            method: method.to_owned(),
            why: why.to_owned(),
            planned: None,
        }
    }
}

/// Compares. Rows go to `out`, except for a last part that may be left in the outcome. Progress is reported once 16 MiB are compared
/// or to be compared. A method of the engine is stopped only if progress is wanted, because both need pauses.
///
/// # Errors
/// What cannot be opened, read or written, with its name; files that change their size meanwhile; and a stop.
pub fn compare(request: &CmpRequest, out: &mut dyn Write, watch: &dyn JobWatch) -> Result<CmpOutcome, Error> {
    let identity_counts = !request.method.is_some_and(|method| method.options().identity_ignored());
    let Some(mut sides) = open(request, identity_counts)? else {
        let way = MethodUsed::new("identity", "both names lead to the same place of the same file");
        return Ok(unread(CmpVerdict::Equal, way));
    };
    let limit_bytes = request.limit_bytes.unwrap_or(u64::MAX);
    if sizes_differ(request, &sides, limit_bytes) {
        let way = MethodUsed::new("sizes", "the sizes differ");
        return Ok(unread(CmpVerdict::SizesDiffer, way));
    }
    if let WantedDifferences::Every(style) = request.wanted {
        let mut rows = Rows::new(style, last_number(&sides, request.limit_bytes));
        let (verdict, compared_bytes, rows) = list(
            &mut Lockstep::new(request, &mut sides, limit_bytes, watch),
            &mut rows,
            out,
        )?;
        return Ok(CmpOutcome {
            rows,
            ..read(verdict, compared_bytes)
        });
    }
    let counts_lines = request.wanted == WantedDifferences::Difference;
    if let Some(method) = request.method {
        (request.before_method)();
        let rest = RestOfPair::new(request, &sides, 0, counts_lines.then(LineCount::default), watch)?;
        return rest.compare_by(&method, "as requested");
    }
    let is_large = |side: &CmpInput| side.regular().is_some_and(|(.., bytes)| bytes > FIRST_LOOK_BYTES);
    let has_rest = limit_bytes > FIRST_LOOK_BYTES && sides.iter().all(is_large);
    let first_bytes = if has_rest { FIRST_LOOK_BYTES } else { limit_bytes };
    let mut streams = Lockstep::new(request, &mut sides, first_bytes, watch);
    let (verdict, equal_bytes, lines) = first_difference(&mut streams, counts_lines)?;
    if !has_rest || verdict != CmpVerdict::Equal {
        return Ok(read(verdict, equal_bytes));
    }
    (request.before_method)();
    RestOfPair::new(request, &sides, equal_bytes, lines, watch)?.compare(request.is_predicted)
}

fn read(verdict: CmpVerdict, compared_bytes: u64) -> CmpOutcome {
    CmpOutcome {
        compared_bytes,
        ..unread(
            verdict,
            MethodUsed::new("stream", "both are read in turn until one ends"),
        )
    }
}

fn unread(verdict: CmpVerdict, way: MethodUsed) -> CmpOutcome {
    CmpOutcome {
        verdict,
        compared_bytes: 0,
        unread_bytes: 0,
        way,
        rows: Vec::new(),
    }
}

/// Whether the sizes decide.
fn sizes_differ(request: &CmpRequest, sides: &[CmpInput; 2], limit_bytes: u64) -> bool {
    let (Some(one), Some(other)) = (sides[0].regular_bytes(), sides[1].regular_bytes()) else {
        return false;
    };
    if request.sizes_first && one != other {
        return true;
    }
    // Files in /proc report a size of 0, but are not empty.
    let are_believed = one > 0 && other > 0;
    let (Some((_, _, one)), Some((_, _, other))) = (sides[0].regular(), sides[1].regular()) else {
        return false;
    };
    request.wanted == WantedDifferences::Verdict && are_believed && one != other && one.min(other) < limit_bytes
}

/// The largest number expected in a row, from the limit and the sizes of regular files. A skip past the end, which
/// matters only in /proc, counts with its digits, as in GNU cmp.
fn last_number(sides: &[CmpInput; 2], limit_bytes: Option<u64>) -> u64 {
    let largest = i128::from(limit_bytes.unwrap_or(u64::MAX).min(i64::MAX as u64));
    let least = sides.iter().filter_map(CmpInput::bytes_ahead).fold(largest, i128::min);
    u64::try_from(least.unsigned_abs()).unwrap_or(u64::MAX)
}
