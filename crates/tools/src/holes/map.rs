//! The stretches of a file: data, holes, and reserved blocks, which were never written.

use std::ops::Range;

use seekless_sys::{Extent, ExtentFlags};
use serde::{Serialize, Serializer};

/// The kind of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// Bytes that were written.
    Data,
    /// No blocks; reads as zeros.
    Hole,
    /// Blocks that were allocated and not written; reads as zeros.
    Reserved,
    /// Blocks that were allocated behind the end of the file.
    #[serde(rename = "past end")]
    PastEnd,
}

impl RunKind {
    /// Its name in outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Hole => "hole",
            Self::Reserved => "reserved",
            Self::PastEnd => "past end",
        }
    }
}

/// A stretch of a file, as long as it is of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HoleStretch {
    /// What it is.
    pub kind: RunKind,
    /// The bytes.
    #[serde(flatten, serialize_with = "serialize_range")]
    pub range: Range<u64>,
}

fn serialize_range<S: Serializer>(range: &Range<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map([("offset", range.start), ("length", range.end - range.start)])
}

/// The range of the blocks past the end of a file whose blocks end there, in whole blocks; empty if there are none.
pub(super) fn past_end(blocks_end: u64, bytes: u64, block_bytes: u64) -> Range<u64> {
    let start = bytes.next_multiple_of(block_bytes);
    start..blocks_end.max(start)
}

/// Where the last of the extents of a file ends; 0 if it has none.
pub(super) fn end_of(extents: &[Extent]) -> u64 {
    extents
        .last()
        .map_or(0, |last| last.logical.saturating_add(last.length))
}

/// Reports a hole, split into holes and reserved stretches. `extents` are in order and start with those that are not
/// before `range`.
pub(super) fn tell_hole(range: Range<u64>, extents: &mut &[Extent], tell: &mut dyn FnMut(HoleStretch)) {
    let mut at = range.start;
    while let Some(extent) = extents.first()
        && extent.logical < range.end
    {
        let end = extent.logical.saturating_add(extent.length);
        let reserved = extent.logical.max(at)..end.min(range.end);
        if extent.flags.contains(ExtentFlags::UNWRITTEN) && !reserved.is_empty() {
            if at < reserved.start {
                tell(HoleStretch {
                    kind: RunKind::Hole,
                    range: at..reserved.start,
                });
            }
            at = reserved.end;
            tell(HoleStretch {
                kind: RunKind::Reserved,
                range: reserved,
            });
        }
        if end > range.end {
            break;
        }
        *extents = &extents[1..];
    }
    if at < range.end {
        tell(HoleStretch {
            kind: RunKind::Hole,
            range: at..range.end,
        });
    }
}
