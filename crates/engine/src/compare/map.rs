//! The ranges of two files that need not be read: holes in both, and shared extents. These are claims of the file
//! system, and used only if they are the same before and after (see `Pass::must_look_again`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use seekless_sys::{self as sys, Extent, Support};

use super::pair::Pair;
use crate::error::Result;
use crate::files::{Stretch, allocated_bytes};

/// Shorter files are read without looking for shared extents, because that is faster.
const SHARED_FROM_BYTES: u64 = 128 << 10;
/// If there are more extents, they are not matched, because the lists take too much memory.
const EXTENTS_MAX: usize = 1 << 18;

/// How a range of the two files is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MapKind {
    /// Data in both.
    Data,
    /// A hole in one; the other, with this number, has data, which must be zeros.
    DataIn(usize),
    /// A hole in both.
    Hole,
    /// The same extents.
    Shared,
}

/// The ranges of two files that need not be read; by default, none.
#[derive(Default)]
pub(super) struct HoleMap {
    holes: bool,
    /// In order, and not adjacent.
    shared: Vec<Range<u64>>,
}

impl HoleMap {
    pub fn of(pair: &Pair<'_>) -> Result<Self> {
        if pair.sides[0].method.options().holes_ignored() {
            return Ok(Self::default());
        }
        Ok(Self {
            holes: true,
            shared: shared(pair)?,
        })
    }

    /// The ranges of the two files, in order.
    pub fn runs<'a>(&'a self, pair: &'a Pair<'a>) -> Runs<'a, impl Iterator<Item = Result<Stretch>>> {
        let coming = [0, 1].map(|file| {
            let asks = self.holes && may_have_holes(pair, file);
            asks.then(|| pair.sides[file].stretches(pair.place(file, &(0..pair.bytes)), 1))
        });
        Runs {
            pair,
            at: 0,
            known: [(true, 0); 2],
            coming,
            shared: &self.shared,
            hasher: DefaultHasher::new(),
        }
    }
}

/// Whether a file's blocks hold fewer bytes than its size; otherwise it has no holes.
fn may_have_holes(pair: &Pair<'_>, file: usize) -> bool {
    let metadata = &pair.metadata[file];
    allocated_bytes(metadata) < metadata.len()
}

/// Iterates over the ranges of two files, each as long as its kind stays the same.
pub(super) struct Runs<'a, I> {
    pair: &'a Pair<'a>,
    at: u64,
    /// For each file, whether there is data, and up to which offset that is known.
    known: [(bool, u64); 2],
    /// What follows; without it, the rest of the file counts as data.
    coming: [Option<I>; 2],
    shared: &'a [Range<u64>],
    hasher: DefaultHasher,
}

impl<I: Iterator<Item = Result<Stretch>>> Runs<'_, I> {
    /// A hash of the ranges so far.
    pub fn signature(&self) -> u64 {
        self.hasher.finish()
    }

    pub fn next(&mut self) -> Result<Option<(MapKind, Range<u64>)>> {
        let at = self.at;
        if at >= self.pair.bytes {
            return Ok(None);
        }
        for file in 0..2 {
            if self.known[file].1 <= at {
                let start = self.pair.starts[file];
                let next = self.coming[file].as_mut().and_then(Iterator::next).transpose()?;
                self.known[file] = match next {
                    Some(Stretch::Data(range)) => (true, range.end - start),
                    Some(Stretch::Hole(range)) => (false, range.end - start),
                    None => (true, u64::MAX),
                };
            }
        }
        let [(one_is_data, one_until), (other_is_data, other_until)] = self.known;
        let mut until = one_until.min(other_until).min(self.pair.bytes);
        let kind = match (one_is_data, other_is_data) {
            (true, true) => {
                let (kind, end) = self.data_or_shared(at);
                until = until.min(end);
                kind
            }
            (true, false) => MapKind::DataIn(0),
            (false, true) => MapKind::DataIn(1),
            (false, false) => MapKind::Hole,
        };
        self.at = until;
        (kind, at, until).hash(&mut self.hasher);
        Ok(Some((kind, at..until)))
    }

    fn data_or_shared(&mut self, at: u64) -> (MapKind, u64) {
        while let Some(first) = self.shared.first()
            && first.end <= at
        {
            self.shared = &self.shared[1..];
        }
        match self.shared.first() {
            Some(first) if first.start <= at => (MapKind::Shared, first.end),
            Some(first) => (MapKind::Data, first.start),
            None => (MapKind::Data, u64::MAX),
        }
    }
}

/// The ranges in which both files certainly have the same extents.
fn shared(pair: &Pair<'_>) -> Result<Vec<Range<u64>>> {
    if pair.bytes < SHARED_FROM_BYTES || !pair.has_one_device_number() || pair.has_one_inode() {
        return Ok(Vec::new());
    }
    // First without writing back dirty pages, which takes time and is unnecessary if nothing is shared.
    let range = |file: usize| pair.place(file, &(0..pair.bytes));
    let known = [0, 1].map(|file| sys::extents_as_known(&pair.sides[file].file, range(file)));
    if matching(pair, known)?.is_empty() || !pair.is_in_one_address_space()? {
        return Ok(Vec::new());
    }
    matching(
        pair,
        [0, 1].map(|file| sys::extents(&pair.sides[file].file, range(file))),
    )
}

type ExtentQuery = std::io::Result<Support<Vec<Extent>>>;

fn matching(pair: &Pair<'_>, asked: [ExtentQuery; 2]) -> Result<Vec<Range<u64>>> {
    let mut lists = Vec::with_capacity(2);
    for (file, asked) in asked.into_iter().enumerate() {
        pair.sides[file].count_call();
        match asked {
            Ok(Support::Available(list)) if list.len() <= EXTENTS_MAX => lists.push(list),
            Ok(_) => return Ok(Vec::new()),
            Err(error) => return Err(pair.sides[file].failed("list its extents", error)),
        }
    }
    Ok(common_ranges([&lists[0], &lists[1]], pair.starts, pair.bytes))
}

/// The ranges at which two lists of extents have the same place on the device at the same offset from their starts.
/// Pure.
fn common_ranges(lists: [&[Extent]; 2], starts: [u64; 2], bytes: u64) -> Vec<Range<u64>> {
    let usable = |n: usize| {
        let sure = lists[n]
            .iter()
            .filter(|extent| extent.flags.is_shared() && !extent.flags.is_doubtful());
        sure.filter_map(move |extent| {
            let end = (extent.logical + extent.length).checked_sub(starts[n])?;
            let begin = extent.logical.max(starts[n]);
            let physical = extent.physical + (begin - extent.logical);
            Some((begin - starts[n]..end.min(bytes), physical)).filter(|(range, _)| !range.is_empty())
        })
    };
    let (mut one, mut other) = (usable(0).peekable(), usable(1).peekable());
    let mut found: Vec<Range<u64>> = Vec::new();
    while let (Some((a, a_physical)), Some((b, b_physical))) = (one.peek(), other.peek()) {
        let both = a.start.max(b.start)..a.end.min(b.end);
        if !both.is_empty() && a_physical + (both.start - a.start) == b_physical + (both.start - b.start) {
            match found.last_mut() {
                Some(last) if last.end == both.start => last.end = both.end,
                _ => found.push(both),
            }
        }
        if a.end <= b.end {
            one.next();
        } else {
            other.next();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_sys::ExtentFlags;

    use super::*;

    fn extent(logical: u64, physical: u64, length: u64, flags: ExtentFlags) -> Extent {
        Extent {
            logical,
            physical,
            length,
            flags,
        }
    }

    #[test]
    fn encoded_extents_are_not_common_and_neighbours_are_one_range() {
        let shared = |logical, physical, length| extent(logical, physical, length, ExtentFlags::SHARED);
        let common = |a: &[Extent], b: &[Extent]| common_ranges([a, b], [0, 0], 1000);
        let encoded = extent(0, 50, 100, ExtentFlags(ExtentFlags::SHARED.0 | ExtentFlags::ENCODED.0));
        assert_eq!(common(&[encoded], &[encoded]), []);
        let pieces = [shared(0, 50, 60), shared(60, 110, 60)];
        let found = common(&pieces, &[shared(0, 50, 200)]);
        assert_eq!((found.len(), found[0].clone()), (1, 0..120));
    }

    proptest! {
        #[test]
        fn common_ranges_are_those_of_looking_at_each_byte(
            cuts in proptest::collection::vec((1u64..6, 0u64..3, any::<bool>()), 1..12),
            others in proptest::collection::vec((1u64..6, 0u64..3, any::<bool>()), 1..12),
            starts: (prop::sample::Index, prop::sample::Index),
        ) {
            let list = |cuts: &[(u64, u64, bool)]| {
                let mut at = 0;
                cuts.iter().map(|&(length, shift, shared)| {
                    let flags = if shared { ExtentFlags::SHARED } else { ExtentFlags::default() };
                    at += length;
                    extent(at - length, at - length + shift, length, flags)
                }).collect::<Vec<_>>()
            };
            let (a, b) = (list(&cuts), list(&others));
            let starts = [starts.0.index(4) as u64, starts.1.index(4) as u64];
            let bytes = 20;
            let place = |list: &[Extent], at: u64| list.iter()
                .find(|e| e.flags.is_shared() && (e.logical..e.logical + e.length).contains(&at))
                .map(|e| e.physical + at - e.logical);
            let naive: Vec<u64> = (0..bytes).filter(|at| {
                let one = place(&a, at + starts[0]);
                one.is_some() && one == place(&b, at + starts[1])
            }).collect();
            let found: Vec<u64> = common_ranges([&a, &b], starts, bytes).into_iter().flatten().collect();
            prop_assert_eq!(found, naive);
        }
    }
}
