//! Requests as they were recorded, as text: one request a line, `ARRIVED KIND OFFSET LENGTH COMPLETED`, times in ns since the
//! first, offset and length in bytes. Lines that begin with `#` are comments. What has no time of completion was not recorded but
//! planned: it starts at its time, whatever happened before.

use std::fmt;
use std::io::{self, BufRead};

use crate::request::{BlockRequest, RequestKind};

/// What the first line of a trace says.
pub const TRACE_HEADER: &str = "# seekless trace 1: arrived (ns), kind, offset (bytes), length (bytes), completed (ns)";
/// How that begins in every version.
pub const TRACE_BEGINS: &str = "# seekless trace ";
/// What the last line of a recorded trace says, if all requests are in it.
pub const TRACE_END: &str = "# end of the trace";

/// A request cannot end past this byte (1 PiB), which is more than any disk has.
const ADDRESS_MAX: u64 = 1 << 50;
/// No request reads or writes more.
const LENGTH_MAX: u64 = 1 << 30;
/// No time is later (36 years): times can be added up.
const TIME_MAX: u64 = 1 << 60;

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
    /// No disk can be asked for this.
    #[error("impossible: {0}")]
    Impossible(&'static str),
    /// The end of the line is missing.
    #[error("cut off: it has no newline at its end, so more may be missing")]
    CutOff,
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
pub fn read_trace(mut source: impl BufRead) -> Result<Vec<TracedRequest>, TraceError> {
    let mut requests = Vec::new();
    let (mut text, mut line) = (String::new(), 0);
    while source.read_line(&mut text)? > 0 {
        line += 1;
        let parsed = match text.strip_suffix('\n') {
            None => Err(LineProblem::CutOff),
            Some(text) if text.trim().is_empty() || text.starts_with('#') => Ok(None),
            Some(text) => parse(text).map(Some),
        };
        requests.extend(parsed.map_err(|problem| TraceError::Line { line, problem })?);
        text.clear();
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
        request: BlockRequest::new(
            named.ok_or_else(|| LineProblem::Kind(kind.to_owned()))?.0,
            number(offset)?,
            number(length)?,
        ),
    };
    let BlockRequest {
        kind,
        offset_bytes,
        length_bytes,
    } = traced.request;
    let moves = matches!(kind, RequestKind::Read | RequestKind::Write);
    let completed_ns = traced.completed_ns.unwrap_or(traced.arrived_ns);
    let end = offset_bytes.checked_add(length_bytes);
    let problems = [
        (completed_ns < traced.arrived_ns, "it completes before it arrives"),
        (completed_ns > TIME_MAX, "its time is past 2^60 ns"),
        (end.is_none_or(|end| end > ADDRESS_MAX), "it ends past 1 PiB"),
        (moves && length_bytes > LENGTH_MAX, "it has more than 1 GiB"),
        (kind != RequestKind::Flush && length_bytes == 0, "it has no bytes"),
    ];
    match problems.into_iter().find(|(is_so, _)| *is_so) {
        None => Ok(traced),
        Some((_, problem)) => Err(LineProblem::Impossible(problem)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_trace_is_read_as_it_was_written(rows in proptest::collection::vec((any::<u32>(), 0..4_usize, any::<u32>(), 1..=1_u32 << 30, proptest::option::of(any::<u32>())), 0..20)) {
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
        let fields = "line 2: expected ARRIVED KIND OFFSET LENGTH [COMPLETED], found 3 fields";
        let kind = "line 1: not a kind of request: \"trim\"; expected read, write, flush or discard";
        let end = "line 2: cut off: it has no newline at its end, so more may be missing";
        assert_eq!(error("# a\n0 read 1\n"), fields);
        assert_eq!(error("0 trim 0 0\n"), kind);
        assert_eq!(error("0 read -4 0\n"), "line 1: not a whole number: \"-4\"");
        assert_eq!(error("# a\n0 read 0 4096 5"), end);
        for (line, problem) in [
            ("9 read 0 512 8", "it completes before it arrives"),
            ("18446744073709551615 read 0 512", "its time is past 2^60 ns"),
            ("0 write 0 1000000000000000000 0", "it ends past 1 PiB"),
            ("0 discard 1 18446744073709551615", "it ends past 1 PiB"),
            ("0 read 0 1073741825 5", "it has more than 1 GiB"),
            ("0 write 0 0 0", "it has no bytes"),
        ] {
            assert_eq!(error(&format!("{line}\n")), format!("line 1: impossible: {problem}"));
        }
    }
}
