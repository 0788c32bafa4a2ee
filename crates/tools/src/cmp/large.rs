//! Larger regular files, compared by a method of the engine: one that was asked for, or the one of the plan.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use seekless::{Comparer, Comparison, Method, Part, Which, full_text};

use super::error::Error;
use super::lines::count_newlines;
use super::side::Side;
use super::{Difference, End, Outcome, Request, Verdict, Wanted, Way};
use crate::handle::path_of;

/// A file for the engine: open, and a path to open it again, as direct methods must.
struct Opened<'a> {
    side: &'a Side,
    file: &'a Arc<File>,
    path: PathBuf,
    start: u64,
    bytes: u64,
}

impl<'a> Opened<'a> {
    fn new(side: &'a Side, equal_bytes: u64) -> Result<Self, Error> {
        let name = &side.name;
        let (file, position, bytes) = side.regular().ok_or_else(|| Error::NotRegular { name: name.clone() })?;
        Ok(Self {
            side,
            file,
            path: path_of(file).unwrap_or_else(|| name.into()),
            start: position + equal_bytes,
            bytes: bytes.saturating_sub(equal_bytes),
        })
    }

    fn part(&self, by_path: bool) -> Part<'_> {
        Part {
            path: &self.path,
            file: (!by_path).then(|| Arc::clone(self.file)),
            start: self.start,
        }
    }

    fn byte_at(&self, offset: u64) -> Result<u8, Error> {
        let mut byte = [0];
        let read = self.file.read_exact_at(&mut byte, self.start + offset);
        read.map_err(|source| self.failed(self.start + offset, source))?;
        Ok(byte[0])
    }

    fn failed(&self, offset: u64, error: std::io::Error) -> Error {
        Error::Read {
            name: self.side.name.clone(),
            offset,
            error,
        }
    }
}

/// Compares what is behind the bytes that are known to be equal, by the plan's method.
pub(super) fn compare(sides: &[Side; 2], request: &Request, equal_bytes: u64) -> Result<Outcome, Error> {
    let [one, other] = [
        Opened::new(&sides[0], equal_bytes)?,
        Opened::new(&sides[1], equal_bytes)?,
    ];
    let left = request.limit_bytes.map_or(u64::MAX, |limit| limit - equal_bytes);
    let bytes = one.bytes.min(other.bytes).min(left);
    let plan = Comparer::plan(&one.part(false), &other.part(false), bytes, request.is_predicted);
    let plan = plan.map_err(|error| named(error, [&one, &other]))?;
    let started = Instant::now();
    match run(&plan.method, [&one, &other], request, equal_bytes) {
        Err(seekless::Error::Unavailable { method, reason, .. }) => {
            let why = format!("{}, but `{method}` is not available here: {reason}", plan.why);
            compare_by(&plan.otherwise, &why, sides, request, equal_bytes)
        }
        result => {
            let took = started.elapsed();
            let comparison = result.map_err(|error| named(error, [&one, &other]))?;
            let way = Way {
                planned: Some((plan.clone(), took)),
                ..Way::new(&plan.method.to_string(), &plan.why)
            };
            outcome(&comparison, way, [&one, &other], request, equal_bytes)
        }
    }
}

/// Compares by this method.
pub(super) fn compare_by(
    method: &Method,
    why: &str,
    sides: &[Side; 2],
    request: &Request,
    equal_bytes: u64,
) -> Result<Outcome, Error> {
    let [one, other] = [
        Opened::new(&sides[0], equal_bytes)?,
        Opened::new(&sides[1], equal_bytes)?,
    ];
    let comparison = run(method, [&one, &other], request, equal_bytes);
    let comparison = comparison.map_err(|error| named(error, [&one, &other]))?;
    let way = Way::new(&method.to_string(), why);
    outcome(&comparison, way, [&one, &other], request, equal_bytes)
}

fn run(
    method: &Method,
    [one, other]: [&Opened<'_>; 2],
    request: &Request,
    equal_bytes: u64,
) -> seekless::Result<Comparison> {
    let limit_bytes = request.limit_bytes.map(|limit| limit.saturating_sub(equal_bytes));
    // A descriptor that is open already reads through the page cache.
    let by_path = method.options().cache() != seekless::method::CachePolicy::Cached;
    let longest = (one.start + one.bytes).max(other.start + other.bytes);
    let mut comparer = Comparer::prepare_for(method, longest)?;
    comparer.compare_parts(&one.part(by_path), &other.part(by_path), limit_bytes)
}

fn outcome(
    comparison: &Comparison,
    way: Way,
    [one, other]: [&Opened<'_>; 2],
    request: &Request,
    equal_bytes: u64,
) -> Result<Outcome, Error> {
    let all_equal_bytes = equal_bytes + comparison.bytes;
    let counted = || -> Result<(Option<u64>, bool), Error> {
        if request.wanted != Wanted::Difference {
            return Ok((None, false));
        }
        let start = one.start - equal_bytes;
        let counted = count_newlines(one.file, start, all_equal_bytes);
        let (newlines, last) = counted.map_err(|source| one.failed(start, source))?;
        Ok((Some(newlines), last.is_some_and(|byte| byte != b'\n')))
    };
    let verdict = match comparison.verdict {
        seekless::Verdict::Equal => Verdict::Equal,
        seekless::Verdict::Differ { offset } => Verdict::Differ(Difference {
            offset: equal_bytes + offset,
            newlines: counted()?.0,
            bytes: [one.byte_at(offset)?, other.byte_at(offset)?],
        }),
        seekless::Verdict::Ended { side, offset } => {
            let (newlines, is_within_line) = counted()?;
            Verdict::Ended(End {
                side: usize::from(side == Which::Other),
                offset: equal_bytes + offset,
                newlines,
                is_within_line,
            })
        }
    };
    Ok(Outcome {
        verdict,
        compared_bytes: all_equal_bytes,
        unread_bytes: comparison.unread_bytes,
        way,
        rows: Vec::new(),
    })
}

/// The engine's error with the name that the user knows.
fn named(error: seekless::Error, sides: [&Opened<'_>; 2]) -> Error {
    let name = |path: &Path| {
        let side = sides.into_iter().find(|side| side.path == path);
        side.map_or_else(|| path.into(), |side| side.side.name.clone())
    };
    match error {
        seekless::Error::Resized {
            path,
            expected_bytes,
            found_bytes,
            ..
        } => Error::Changed {
            name: name(&path),
            expected_bytes,
            found_bytes,
        },
        seekless::Error::System {
            path, action, source, ..
        } => Error::Method {
            name: name(&path),
            reason: format!("{} ({action})", super::reason(&source)),
        },
        seekless::Error::Unavailable {
            path, method, reason, ..
        } => Error::Method {
            name: name(&path),
            reason: format!("`{method}` is not available here: {reason}"),
        },
        other => Error::Method {
            name: sides[0].side.name.clone(),
            reason: full_text(&other),
        },
    }
}
