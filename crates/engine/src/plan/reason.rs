//! The [`Reason`] for a method: what decided, with its figures. No other file has its words.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use seekless_method::{Method, Operation, UpdateOrder};

use super::SAME_REGRET;

/// The reason why a method was chosen. Its text is a clause without a full stop.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The caller named the method that was used.
    Asked,
    /// The caller named the method whose cost is predicted.
    Named,
    /// The planned method is unavailable.
    Unavailable {
        /// The planned method.
        planned: Method,
        /// The error that says so, without its sources.
        error: String,
    },
    /// The operation is on fewer bytes than any other method needs to pay off.
    Little {
        /// The operation on these bytes; a read for a comparison.
        operation: Operation,
    },
    /// At least part of the files is in the page cache.
    PartlyCached {
        /// The number of files.
        files: usize,
    },
    /// Bypassing the page cache would not be clearly faster.
    DirectNotFaster,
    /// The file is in the page cache, and mapping it is faster than reading it.
    MappedFromCache,
    /// Hardly any of a file is in the page cache, and direct reads are faster.
    DirectReads {
        /// Requests in flight at the same time.
        in_flight: u64,
    },
    /// The data need not reach the device.
    NotDurable {
        /// A write or a copy.
        operation: Operation,
    },
    /// The data must reach the device, so copying it to the page cache would only cost time.
    DirectWrites {
        /// A write, or a copy whose source is not in the page cache.
        operation: Operation,
    },
    /// A copy can share the blocks of its source.
    SharedBlocks,
    /// The file is in the page cache, and several threads fill memory faster than one.
    FilledByThreads {
        /// The number of threads.
        threads: usize,
    },
    /// Both files of a comparison are in the page cache.
    BothCached {
        /// Whether one of them has holes, which makes mapping slow.
        has_holes: bool,
        /// Whether this process may map files.
        can_map: bool,
    },
    /// The device moves a head between the two files.
    Alternating {
        /// What a read elsewhere on the device takes longer than a sequential one, in milliseconds.
        seek_ms: f64,
    },
    /// Neither file of a comparison is in the page cache, and the device moves no head between them
    /// as far as is known.
    NeitherCached,
    /// Neither file of a comparison is in the page cache, and they are on two devices.
    TwoDevices,
    /// Many small files are read by several threads, whose waits for the device overlap.
    Overlapping {
        /// The number of files.
        files: u64,
        /// The number of threads.
        threads: u32,
        /// Files that a thread reads at the same time; `None` if it reads one after the other.
        depth: Option<u32>,
    },
    /// The method has the least expected regret of those that were measured on the storage.
    Measured {
        /// The sittings that measured it.
        sittings: MeasuredSittings,
        /// The simplest measured method, and the time of the chosen method as a multiple of its
        /// time; `None` if the simplest was chosen.
        plain: Option<(Method, f64)>,
        /// The number of files.
        files: u64,
        /// Whether at least half of the bytes are in the page cache.
        is_cached: bool,
        /// The method to use if all bytes were in the page cache or, if `is_cached`, none of them;
        /// `None` if that is the same method.
        instead: Option<Method>,
    },
    /// The order of updates is the same at every plausible cost of a write.
    AtAnyCost {
        /// The order.
        order: UpdateOrder,
        /// The limit on writing gaps, or on writing more of them; `None` if there is none.
        limit: Option<GapLimit>,
    },
    /// The order of updates follows from the cost of a write.
    AtWriteCost {
        /// The cost of a write of one update, in nanoseconds.
        write_ns: f64,
        /// Bytes of a gap that cost as much as a write.
        gap_bytes: f64,
        /// Whether there are gaps of at most `gap_bytes`.
        has_gaps: bool,
        /// The order.
        order: UpdateOrder,
        /// The limit on writing gaps, or on writing more of them; `None` if there is none.
        limit: Option<GapLimit>,
    },
    /// The costs that decided are those of a profile.
    AtProfileCosts {
        /// The sittings that measured the costs.
        sittings: MeasuredSittings,
        /// The reason that follows from these costs.
        reason: Box<Self>,
    },
    /// The costs that decided could not be measured, so they are assumed.
    AtAssumedCosts {
        /// The error of measuring them.
        error: String,
        /// The reason that follows from these costs.
        reason: Box<Self>,
    },
    /// A reason, and that the page cache is bypassed, because it holds hardly any of the file.
    PastCache(Box<Self>),
    /// A reason, and that lines are counted during a comparison, because memory cannot hold both
    /// files for a second pass.
    CountingLines(Box<Self>),
    /// A reason, and that only the bytes of updates are written, because other processes cannot be
    /// kept out of the file.
    NotExclusive {
        /// The error that says so.
        error: String,
        /// The reason for the method.
        reason: Box<Self>,
    },
}

/// A limit on writing the bytes between updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapLimit {
    /// Only the bytes of the updates may be written.
    Exact,
    /// The file has holes, which would get blocks.
    Holes,
    /// The caller limits write amplification: the bytes written for each byte that changes.
    Amplification,
    /// Writing gaps wears the device more than the time saved is worth.
    Wear,
}

/// The sittings of measuring that a choice rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeasuredSittings {
    /// The number of sittings.
    pub count: u32,
    /// The time since the newest of them began; `None` if it is dated in the future.
    pub newest_age: Option<Duration>,
    /// When that began, in seconds since 1970.
    pub newest_unix_seconds: u64,
    /// The name of the profile of another storage, if they measured that one.
    pub borrowed_from: Option<String>,
}

impl Reason {
    /// The sittings that the choice rests on, if it does.
    #[must_use]
    pub fn sittings(&self) -> Option<&MeasuredSittings> {
        match self {
            Self::Measured { sittings, .. } | Self::AtProfileCosts { sittings, .. } => Some(sittings),
            Self::PastCache(reason) | Self::CountingLines(reason) | Self::NotExclusive { reason, .. } => {
                reason.sittings()
            }
            _ => None,
        }
    }
}

impl Display for Reason {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => out.write_str("it was asked for"),
            Self::Named => out.write_str("as requested"),
            Self::Unavailable { planned, error } => write!(out, "{planned} is unavailable: {error}"),
            Self::Little { operation } => write!(out, "there is little to {operation}"),
            Self::PartlyCached { files: 1 } => out.write_str("at least part of the file is in the page cache"),
            Self::PartlyCached { .. } => out.write_str("the files are partly in the page cache"),
            Self::DirectNotFaster => out.write_str("bypassing the page cache would not be clearly faster"),
            Self::MappedFromCache => out.write_str("mapping the file saves a copy of its bytes in the page cache"),
            Self::DirectReads { in_flight } => {
                let faster = match in_flight {
                    1 => "direct reads wait less for the device than read-ahead does",
                    _ => "the device is faster with several requests in flight",
                };
                write!(out, "hardly any of the file is in the page cache, and {faster}")
            }
            Self::NotDurable { operation } => {
                let subject = if is_copy(*operation) { "copy" } else { "data" };
                write!(out, "the {subject} need not reach the device")
            }
            Self::DirectWrites { operation } => out.write_str(if is_copy(*operation) {
                "the copy must reach the device and its source is not cached: the page cache would only cost time"
            } else {
                "the data must reach the device, so copying it to the page cache would only cost time"
            }),
            Self::SharedBlocks => out.write_str("the copy can share the blocks of its source"),
            Self::FilledByThreads { .. } => {
                out.write_str("the file is in the page cache, and several threads fill memory faster than one")
            }
            Self::BothCached { has_holes, can_map } => {
                let mapping = match (has_holes, can_map) {
                    (true, _) => "but have holes: mapping each data range would take longer",
                    (false, false) => "but this process may not map files",
                    (false, true) => "where mapping them saves a copy of the bytes",
                };
                write!(out, "both files are in the page cache, {mapping}")
            }
            Self::Alternating { seek_ms } => write!(
                out,
                "on this device, a read elsewhere takes {seek_ms:.1} ms longer than a sequential one, so each file is read in long pieces"
            ),
            Self::NeitherCached => out.write_str(
                "neither file is in the page cache, and reading ahead of both is not clearly slower than bypassing it",
            ),
            Self::TwoDevices => out.write_str(
                "neither file is in the page cache, and they are on two devices, which can be read at the same time",
            ),
            Self::Overlapping { files: 0, .. } => out.write_str("there are no files"),
            Self::Overlapping { files: 1, .. } => out.write_str("there is one file"),
            Self::Overlapping { files, threads, depth } => {
                let each = depth.map_or_else(|| "one file".to_owned(), |depth| format!("up to {depth} files"));
                let threads = (*files).min(u64::from(*threads));
                write!(
                    out,
                    "{threads} threads work on {each} each, so their waits for the device overlap"
                )
            }
            Self::Measured {
                sittings,
                plain,
                files,
                is_cached,
                instead,
            } => {
                write!(out, "{sittings}")?;
                measured(out, *plain, *files, *is_cached, *instead)
            }
            Self::AtAnyCost { order, limit } => out.write_str(at_any_cost(*order, *limit)),
            Self::AtWriteCost {
                write_ns,
                gap_bytes,
                has_gaps,
                order,
                limit,
            } => {
                let write_us = write_ns / 1e3;
                write!(
                    out,
                    "a write costs {write_us:.1} µs here, as much as rewriting {gap_bytes:.0} bytes of a gap, "
                )?;
                at_write_cost(out, *order, *limit, *has_gaps)
            }
            Self::AtProfileCosts { sittings, reason } => write!(out, "{sittings}: {reason}"),
            Self::AtAssumedCosts { error, reason } => write!(
                out,
                "{reason}; these costs are assumed, as they could not be measured ({error})"
            ),
            Self::PastCache(reason) => write!(
                out,
                "{reason}; the page cache is bypassed, because it holds hardly any of the file"
            ),
            Self::CountingLines(reason) => write!(
                out,
                "{reason}; lines are counted meanwhile, because memory cannot hold both files for a second pass"
            ),
            Self::NotExclusive { error, reason } => {
                write!(out, "{reason}: other processes cannot be kept out ({error})")
            }
        }
    }
}

fn is_copy(operation: Operation) -> bool {
    operation == Operation::Copy
}

/// Writes what was measured, and the method for the opposite state of the page cache.
fn measured(
    out: &mut Formatter<'_>,
    plain: Option<(Method, f64)>,
    files: u64,
    is_cached: bool,
    instead: Option<Method>,
) -> fmt::Result {
    match plain {
        Some((method, times)) if times < 1.0 - SAME_REGRET => {
            write!(out, ": it takes {times:.2}x as long as {method}")?;
        }
        Some(_) => out.write_str(": no method is clearly faster than this one")?,
        None => {}
    }
    let Some(method) = instead else { return Ok(()) };
    let subject = if files > 1 { "files" } else { "file" };
    let not = if is_cached { "not " } else { "" };
    write!(
        out,
        "; if the {subject} were {not}in the page cache, {method} would be used"
    )
}

/// The clause for an order of updates that is the same whatever a write costs.
fn at_any_cost(order: UpdateOrder, limit: Option<GapLimit>) -> &'static str {
    match (order, limit) {
        (UpdateOrder::Rewrite, _) => "rewriting the whole file at once is fastest, whatever a write costs",
        (UpdateOrder::Coalesce(1..), _) => {
            "combining updates up to the method's gap apart pays off, whatever a write costs"
        }
        (_, Some(limit)) => limit.leaves_no_gap(),
        (_, None) => "no gap is short enough to be worth writing, whatever a write costs",
    }
}

/// Writes what follows from the cost of a write.
fn at_write_cost(out: &mut Formatter<'_>, order: UpdateOrder, limit: Option<GapLimit>, has_gaps: bool) -> fmt::Result {
    out.write_str(match (order, limit) {
        (UpdateOrder::Rewrite, _) => "so the whole file is written at once",
        (UpdateOrder::Coalesce(1..), _) => "so updates up to the method's gap apart share a write",
        (_, Some(limit)) => return write!(out, "but {}", limit.leaves_no_gap()),
        (_, None) if has_gaps => "but reading the gaps would take longer than fewer writes save",
        (_, None) => "so no gap is written",
    })?;
    out.write_str(match limit {
        Some(GapLimit::Amplification) => "; without the limit on write amplification, more gaps would be written",
        Some(GapLimit::Wear) => "; writing more gaps would wear the device more than the time saved is worth",
        Some(GapLimit::Exact | GapLimit::Holes) | None => "",
    })
}

impl GapLimit {
    /// The clause for updates that are written without gaps.
    fn leaves_no_gap(self) -> &'static str {
        match self {
            Self::Exact => "only the bytes of the updates may be written",
            Self::Holes => "only blocks that updates touch may be written, because the file has holes",
            Self::Amplification => "the limit on write amplification leaves no room for gaps",
            Self::Wear => "writing gaps would wear the device more than the time saved is worth",
        }
    }
}

impl Display for MeasuredSittings {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (plural, newest) = if self.count == 1 {
            ("", "")
        } else {
            ("s", "the newest ")
        };
        write!(out, "by {} sitting{plural}", self.count)?;
        match &self.borrowed_from {
            Some(name) => write!(out, ", borrowed from a profile of {name}, not measured here, {newest}")?,
            None => write!(out, " on this storage, {newest}")?,
        }
        let Some(age) = self.newest_age else {
            return out.write_str("dated in the future");
        };
        let minutes = age.as_secs() / 60;
        match minutes {
            0 => out.write_str("less than a minute old"),
            1..120 => write!(out, "{minutes} min old"),
            120..2880 => write!(out, "{} hours old", minutes / 60),
            _ => write!(out, "{} days old", minutes / 1440),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sittings_have_a_number_an_age_and_a_storage() {
        let borrowed = || Some("disk".to_owned());
        for (count, seconds, borrowed_from, text) in [
            (
                1,
                Some(59),
                None,
                "by 1 sitting on this storage, less than a minute old",
            ),
            (2, Some(60), None, "by 2 sittings on this storage, the newest 1 min old"),
            (
                2,
                Some(119 * 60),
                None,
                "by 2 sittings on this storage, the newest 119 min old",
            ),
            (
                2,
                Some(120 * 60),
                None,
                "by 2 sittings on this storage, the newest 2 hours old",
            ),
            (
                2,
                Some(48 * 3600),
                None,
                "by 2 sittings on this storage, the newest 2 days old",
            ),
            (
                1,
                None,
                borrowed(),
                "by 1 sitting, borrowed from a profile of disk, not measured here, dated in the future",
            ),
        ] {
            let newest_age = seconds.map(Duration::from_secs);
            let sittings = MeasuredSittings {
                count,
                newest_age,
                newest_unix_seconds: 0,
                borrowed_from,
            };
            assert_eq!(sittings.to_string(), text);
        }
    }

    #[test]
    fn reason_text_follows_its_figures() {
        let method = Method::known("read/mmap");
        let sittings = MeasuredSittings {
            count: 1,
            newest_age: None,
            newest_unix_seconds: 0,
            borrowed_from: None,
        };
        let measured = |times, files, is_cached| {
            let reason = Reason::Measured {
                sittings: sittings.clone(),
                plain: Some((method, times)),
                files,
                is_cached,
                instead: Some(method),
            };
            let text = reason.to_string();
            text.strip_prefix(&sittings.to_string()).unwrap_or_default().to_owned()
        };
        let overlapping = |files, depth| {
            let reason = Reason::Overlapping {
                files,
                threads: 16,
                depth,
            };
            reason.to_string()
        };
        let at_write_cost = |order, limit| {
            let reason = Reason::AtWriteCost {
                write_ns: 6500.0,
                gap_bytes: 4096.0,
                has_gaps: false,
                order,
                limit,
            };
            let text = reason.to_string();
            let known = "a write costs 6.5 µs here, as much as rewriting 4096 bytes of a gap, ";
            text.strip_prefix(known).unwrap_or_default().to_owned()
        };
        let (alone, shared, limit) = (
            UpdateOrder::Coalesce(0),
            UpdateOrder::Coalesce(32),
            Some(GapLimit::Exact),
        );
        for (text, expected) in [
            (
                measured(0.5, 1, false),
                ": it takes 0.50x as long as read/mmap; if the file were in the page cache, read/mmap would be used",
            ),
            (
                measured(0.98, 2, true),
                ": no method is clearly faster than this one; if the files were not in the page cache, read/mmap would be used",
            ),
            (overlapping(0, None), "there are no files"),
            (overlapping(1, Some(32)), "there is one file"),
            (
                overlapping(2, None),
                "2 threads work on one file each, so their waits for the device overlap",
            ),
            (
                overlapping(99, Some(32)),
                "16 threads work on up to 32 files each, so their waits for the device overlap",
            ),
            (
                at_write_cost(shared, Some(GapLimit::Amplification)),
                "so updates up to the method's gap apart share a write; without the limit on write amplification, more gaps \
                 would be written",
            ),
            (
                at_write_cost(shared, limit),
                "so updates up to the method's gap apart share a write",
            ),
            (
                at_write_cost(alone, limit),
                "but only the bytes of the updates may be written",
            ),
            (at_write_cost(alone, None), "so no gap is written"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
