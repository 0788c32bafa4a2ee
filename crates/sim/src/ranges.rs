//! Sets of bytes, as ranges that neither overlap nor touch.

use std::collections::BTreeMap;

/// A set of bytes.
#[derive(Debug, Default)]
pub struct ByteRanges {
    ends: BTreeMap<u64, u64>,
    total_bytes: u64,
}

impl ByteRanges {
    /// How many bytes are in it.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Adds `start..end`.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.take(from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.put(start, end);
    }

    /// Removes `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        while start < end
            && let Some((&from, &to)) = self.ends.range(..end).next_back()
            && to > start
        {
            self.take(from);
            self.put(from, start);
            self.put(end, to);
        }
    }

    /// Whether it has all of `start..end`.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.ends.range(..=start).next_back().is_some_and(|(_, &to)| to >= end)
    }

    /// The parts of `start..end` that are in it, in order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let before = self.ends.range(..start).next_back();
        let within = self.ends.range(start..end.max(start));
        let parts = before.into_iter().chain(within);
        let parts = parts.map(move |(&from, &to)| (from.max(start), to.min(end)));
        parts.filter(|(from, to)| from < to)
    }

    /// How many bytes of `start..end` are in it.
    pub fn overlap_bytes(&self, start: u64, end: u64) -> u64 {
        self.within(start, end).map(|(from, to)| to - from).sum()
    }

    /// The first range that ends after `at`, or the first of all.
    pub fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        let holds = self.ends.range(..=at).next_back().filter(|(_, to)| **to > at);
        let next = holds
            .or_else(|| self.ends.range(at..).next())
            .or_else(|| self.ends.iter().next());
        next.map(|(&from, &to)| (if from < at && at < to { at } else { from }, to))
    }

    fn put(&mut self, start: u64, end: u64) {
        if start < end {
            self.ends.insert(start, end);
            self.total_bytes += end - start;
        }
    }

    fn take(&mut self, start: u64) {
        if let Some(end) = self.ends.remove(&start) {
            self.total_bytes -= end - start;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_set_of_single_bytes(steps in proptest::collection::vec((any::<bool>(), 0..40_u64, 0..12_u64), 1..60), at in 0..50_u64) {
            let (mut ranges, mut bytes) = (ByteRanges::default(), std::collections::BTreeSet::new());
            for (insert, start, length) in steps {
                if insert {
                    ranges.insert(start, start + length);
                    bytes.extend(start..start + length);
                } else {
                    ranges.remove(start, start + length);
                    bytes.retain(|byte| !(start..start + length).contains(byte));
                }
            }
            prop_assert_eq!(ranges.total_bytes(), bytes.len() as u64);
            let expected = bytes.iter().find(|byte| **byte >= at).or_else(|| bytes.first());
            prop_assert_eq!(ranges.next_from(at).map(|(start, _)| start), expected.copied());
            for length in 0..10 {
                prop_assert_eq!(ranges.overlap_bytes(at, at + length), bytes.range(at..at + length).count() as u64);
                let within: Vec<_> = ranges.within(at, at + length).flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(within, bytes.range(at..at + length).copied().collect::<Vec<_>>());
                prop_assert_eq!(ranges.covers(at, at + length), (at..at + length).all(|byte| bytes.contains(&byte)));
            }
        }
    }
}
