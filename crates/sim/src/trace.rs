//! Requests as they were recorded, as text: one request a line, `ARRIVED KIND OFFSET LENGTH COMPLETED`, times in ns since the
//! first, offset and length in bytes. Lines that begin with `#` are comments. What has no time of completion was not recorded but
//! planned: it starts at its time, whatever happened before.

use std::fmt;
use std::io::{self, BufRead};

use crate::request::{BlockRequest, RequestKind};

/// What the first line of a trace says.
pub const TRACE_HEADER: &str = "# seekless trace 1: arrived (ns), kind, offset (bytes), length (bytes), completed (ns)";

/// A request, and when it came and was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// When it arrived, in ns.
    pub arrived_ns: u64,
    /// When it was complete, in ns; `None` in a list that was not recorded.
    pub completed_ns: Option<u64>,
    /// What was asked for.
    pub request: BlockRequest,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system's reason.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A line is not a request.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineProblem {
    /// Too few or too many fields.
    #[error("expected ARRIVED KIND OFFSET LENGTH [COMPLETED], found {0} fields")]
    Fields(usize),
    /// A field is no number.
    #[error("not a whole number: {0:?}")]
    Number(String),
    /// Not one of the kinds.
    #[error("not a kind of request: {0:?}; expected read, write, flush or discard")]
    Kind(String),
    /// It completed before it arrived, or ends past the largest address.
    #[error("impossible: it completes before it arrives, or ends past 2^63")]
    Impossible,
}

impl RequestKind {
    /// All kinds, with their names in a trace.
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Flush, "flush"),
        (Self::Discard, "discard"),
    ];
}

impl fmt::Display for RequestKind {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(kind, _)| kind == self);
        formatter.pad(name.map_or("", |(_, name)| name))
    }
}

impl fmt::Display for TracedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let BlockRequest {
            kind,
            offset_bytes,
            length_bytes,
        } = self.request;
        write!(formatter, "{} {kind} {offset_bytes} {length_bytes}", self.arrived_ns)?;
        self.completed_ns
            .map_or(Ok(()), |completed_ns| write!(formatter, " {completed_ns}"))
    }
}

/// The requests of a trace, in the order of their arrival.
pub fn read_trace(source: impl BufRead) -> Result<Vec<TracedRequest>, TraceError> {
    let mut requests = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        requests.push(parse(&line).map_err(|problem| TraceError::Line {
            line: index + 1,
            problem,
        })?);
    }
    requests.sort_by_key(|traced| traced.arrived_ns);
    Ok(requests)
}

fn parse(line: &str) -> Result<TracedRequest, LineProblem> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| LineProblem::Number(text.to_owned()));
    let fields: Vec<_> = line.split_whitespace().collect();
    let (&[arrived, kind, offset, length] | &[arrived, kind, offset, length, _]) = fields.as_slice() else {
        return Err(LineProblem::Fields(fields.len()));
    };
    let named = RequestKind::NAMES.iter().find(|(_, name)| *name == kind);
    let traced = TracedRequest {
        arrived_ns: number(arrived)?,
        completed_ns: fields.get(4).map(|completed| number(completed)).transpose()?,
        request: BlockRequest {
            kind: named.ok_or_else(|| LineProblem::Kind(kind.to_owned()))?.0,
            offset_bytes: number(offset)?,
            length_bytes: number(length)?,
        },
    };
    let end = traced.request.offset_bytes.checked_add(traced.request.length_bytes);
    let in_order = traced
        .completed_ns
        .is_none_or(|completed_ns| completed_ns >= traced.arrived_ns);
    if !in_order || end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(LineProblem::Impossible);
    }
    Ok(traced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_trace_is_read_as_it_was_written(rows in proptest::collection::vec((any::<u32>(), 0..4_usize, any::<u32>(), any::<u32>(), proptest::option::of(any::<u32>())), 0..20)) {
            let mut traced: Vec<_> = rows.into_iter().map(|(arrived, kind, offset, length, took)| TracedRequest {
                arrived_ns: arrived.into(),
                completed_ns: took.map(|took| u64::from(arrived) + u64::from(took)),
                request: BlockRequest { kind: RequestKind::NAMES[kind].0, offset_bytes: offset.into(), length_bytes: length.into() },
            }).collect();
            let text = traced.iter().fold(format!("{TRACE_HEADER}\n"), |text, traced| format!("{text}{traced}\n"));
            traced.sort_by_key(|traced| traced.arrived_ns);
            prop_assert_eq!(read_trace(text.as_bytes()).unwrap(), traced);
        }
    }

    #[test]
    fn a_wrong_line_is_named_with_what_is_wrong() {
        let error = |text: &str| read_trace(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error("# a\n0 read 1\n"),
            "line 2: expected ARRIVED KIND OFFSET LENGTH [COMPLETED], found 3 fields"
        );
        assert_eq!(
            error("0 trim 0 0"),
            "line 1: not a kind of request: \"trim\"; expected read, write, flush or discard"
        );
        assert_eq!(error("0 read -4 0"), "line 1: not a whole number: \"-4\"");
        assert_eq!(
            error("9 read 0 0 8"),
            "line 1: impossible: it completes before it arrives, or ends past 2^63"
        );
    }
}
