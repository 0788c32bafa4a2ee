//! Shingled tracks: in a zone, what is written destroys what lies behind it. So the drive writes a zone only onward. What is to
//! be changed before that goes to a cache on the disk, at its outer edge; when that is full, or the disk is idle, the drive
//! reads a zone and writes it anew.
//!
//! Simplification: the drive does not notice that a whole zone is overwritten in order.

use std::collections::BTreeMap;

use crate::ranges::ByteRanges;

/// What a drive with shingled tracks remembers.
#[derive(Debug)]
pub struct ShingledState {
    zone_bytes: u64,
    /// The size of the cache on the disk.
    cache_bytes: u64,
    /// How far each zone is written; what was never written is not here.
    written_to: BTreeMap<u64, u64>,
    /// What is newer in the cache on the disk.
    cached: ByteRanges,
    /// Where the cache is written next.
    cache_at: u64,
}

impl ShingledState {
    /// A drive that was never written.
    pub fn new(zone_bytes: u64, cache_bytes: u64) -> Self {
        Self {
            zone_bytes,
            cache_bytes,
            written_to: BTreeMap::new(),
            cached: ByteRanges::default(),
            cache_at: 0,
        }
    }

    /// The end of the zone of a byte.
    pub fn zone_end(&self, at: u64) -> u64 {
        (at / self.zone_bytes + 1) * self.zone_bytes
    }

    /// Where `start..end`, a part of one zone, is written: in its place, or in the cache. `None`: a zone has to be written anew.
    pub fn place(&mut self, start: u64, end: u64) -> Option<u64> {
        let written_to = self.written_to.entry(start / self.zone_bytes).or_insert(0);
        if start >= *written_to {
            *written_to = end;
            return Some(start);
        }
        if self.cached.total_bytes() + (end - start) > self.cache_bytes {
            return None;
        }
        self.cached.insert(start, end);
        let at = self.cache_at;
        self.cache_at = (self.cache_at + (end - start)) % self.cache_bytes;
        Some(at)
    }

    /// A zone to write anew, as its first byte and the one after its last; from then on nothing of it is in the cache.
    pub fn rewrite(&mut self) -> Option<(u64, u64)> {
        let (first, _) = self.cached.next_from(0)?;
        let end = self.zone_end(first);
        let start = end - self.zone_bytes;
        self.cached.remove(start, end);
        self.written_to.insert(start / self.zone_bytes, end);
        Some((start, end))
    }

    /// Whether a zone has to be written anew some time.
    pub fn has_cached(&self) -> bool {
        self.cached.total_bytes() > 0
    }

    /// Where in the cache `start..end` is, if a part of it is there.
    pub fn cached_at(&self, start: u64, end: u64) -> Option<u64> {
        (self.cached.overlap_bytes(start, end) > 0).then(|| start % self.cache_bytes)
    }
}
