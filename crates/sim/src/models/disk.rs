//! A disk with a head: seeks by distance, rotation by angle, rates by zone, a read cache in segments that the drive fills by
//! reading ahead, a write cache, and a queue from which it takes what is nearest.
//!
//! Simplifications: a track is part of one spiral, so that the rate includes the changes of tracks and heads; the distance of a
//! seek is the distance of the addresses; the drive corrects no errors and never sleeps. The time of a command is that of the
//! host, its controller and the drive together.

use std::time::Duration;

use serde::Deserialize;

use super::shingled::ShingledState;
use super::{bytes_within, transfer_ns};
use crate::ranges::ByteRanges;
use crate::request::{BlockRequest, RequestKind};

/// Parameters of a disk with a head.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The whole disk. A smaller device is its outer part.
    pub capacity_bytes: u64,
    /// The spindle's speed.
    pub rotations_per_minute: u64,
    /// What the outermost zone transfers.
    pub outer_bytes_per_second: u64,
    /// What the innermost zone transfers.
    pub inner_bytes_per_second: u64,
    /// A seek to the next track, with settling.
    pub track_seek_ns: u64,
    /// A seek over a third of the disk, with settling.
    pub average_seek_ns: u64,
    /// A seek over the whole disk, with settling.
    pub full_seek_ns: u64,
    /// The time of a command by itself.
    pub command_ns: u64,
    /// What the interface transfers.
    pub interface_bytes_per_second: u64,
    /// How many places of the disk the read cache holds.
    pub segment_count: u64,
    /// The size of a segment, and thus how far the drive reads ahead while nothing else is to be done.
    pub segment_bytes: u64,
    /// How far it reads on, at least, before the head leaves a stream that is read in order.
    #[serde(default)]
    pub stream_ahead_bytes: u64,
    /// A write of this size or more goes to the medium before it completes, in spite of the write cache; 0: none does.
    #[serde(default)]
    pub write_through_from_bytes: u64,
    /// How many requests it chooses from; 1: it serves them as they come.
    pub queue_depth: u64,
    /// If tracks overlap: what has to be written anew to change one byte in it; else 0.
    #[serde(default)]
    pub shingled_zone_bytes: u64,
    /// The cache on the disk for what is to be changed in such zones.
    #[serde(default)]
    pub disk_cache_bytes: u64,
    /// How long nothing is asked for before the drive writes such zones anew.
    #[serde(default)]
    pub idle_before_rewrite_ns: u64,
}

/// How many zones of constant rate the disk has.
const ZONES: u64 = 16;
/// What is written of the write cache before the drive looks for requests again.
const DESTAGE_BYTES: u64 = 256 << 10;
/// A request that waited this long is served next, however far away it is.
const PATIENCE_NS: u64 = 500_000_000;
/// A head that misses the start of a sector by less than this does not wait for a whole turn.
const ROUNDING_NS: u64 = 1_000;
const SECTOR_BYTES: u64 = 512;

/// A part of the read cache: the last byte of `start..end` arrives at `ready_ns`, the others in order before it.
#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    ready_ns: u64,
    /// The end of what the host read last.
    read_to: u64,
    /// Whether the host read on where it had left off.
    stream: bool,
    used_ns: u64,
}

/// What a disk with a head remembers.
#[derive(Debug)]
pub struct DiskState {
    disk: &'static Disk,
    capacity_bytes: u64,
    write_cache_bytes: u64,
    /// The platter's angle at time 0.
    phase_ns: u64,
    /// The byte that was under the head at `free_ns`, when the mechanism was last done.
    head_bytes: u64,
    free_ns: u64,
    interface_free_ns: u64,
    segments: Vec<Segment>,
    /// The segment that grows while the head follows the track.
    following: Option<usize>,
    dirty: ByteRanges,
    shingled: Option<ShingledState>,
    asked_ns: u64,
    seeks: u64,
}

impl DiskState {
    /// A disk of at least `size_bytes`, just switched on, with the platter at an angle that follows from `seed`.
    #[must_use]
    pub fn new(disk: &'static Disk, write_cache_bytes: u64, size_bytes: u64, seed: u64) -> Self {
        Self {
            disk,
            capacity_bytes: disk.capacity_bytes.max(size_bytes),
            write_cache_bytes,
            phase_ns: fastrand::Rng::with_seed(seed).u64(..1_000_000_000),
            head_bytes: 0,
            free_ns: 0,
            interface_free_ns: 0,
            segments: Vec::new(),
            following: None,
            dirty: ByteRanges::default(),
            shingled: (disk.shingled_zone_bytes > 0)
                .then(|| ShingledState::new(disk.shingled_zone_bytes, disk.disk_cache_bytes)),
            asked_ns: 0,
            seeks: 0,
        }
    }

    /// How often the head moved.
    #[must_use]
    pub fn seeks(&self) -> u64 {
        self.seeks
    }

    /// How many requests it chooses from; 1: it serves them strictly as they come.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        self.disk.queue_depth as usize
    }

    /// When a request that arrives at `now_ns` completes, if the head need not move for it.
    pub fn without_head(&mut self, request: &BlockRequest, now_ns: u64) -> Option<u64> {
        self.pass_idle_time(now_ns);
        match request.kind {
            RequestKind::Discard => Some(now_ns + self.disk.command_ns),
            RequestKind::Flush => (self.dirty.total_bytes() == 0).then_some(now_ns + self.disk.command_ns),
            RequestKind::Write => {
                let fits = self.is_cached_write(request) && self.room_for(request);
                fits.then(|| {
                    self.accept(request);
                    self.transferred_ns(request, now_ns)
                })
            }
            RequestKind::Read => {
                if self.dirty.covers(request.offset_bytes, request.end_bytes()) {
                    return Some(self.transferred_ns(request, now_ns));
                }
                let index = self.segment_with(request)?;
                let segment = &mut self.segments[index];
                let rest_ns = transfer_ns(
                    segment.end - request.end_bytes(),
                    zone_rate(self.disk, request.offset_bytes),
                );
                segment.read(request, now_ns);
                let ready_ns = segment.ready_ns.saturating_sub(rest_ns);
                Some(self.transferred_ns(request, now_ns).max(ready_ns))
            }
        }
    }

    /// The one among `waiting` (first come, first named) to serve next. Each has its request and its arrival.
    #[must_use]
    pub fn choose(&self, waiting: &[(BlockRequest, u64)], now_ns: u64) -> usize {
        // A flush is no queued command: what came before it is done first, and it before what came after.
        let before_flush = waiting
            .iter()
            .take_while(|(request, _)| request.kind != RequestKind::Flush)
            .count();
        if before_flush <= 1 || now_ns.saturating_sub(waiting[0].1) > PATIENCE_NS {
            return 0;
        }
        (0..before_flush)
            .min_by_key(|index| self.reach_ns(waiting[*index].0.offset_bytes, now_ns.max(self.free_ns)))
            .unwrap_or(0)
    }

    /// When a request for which the head must move completes. The head is free from `now_ns` on.
    pub fn serve(&mut self, request: &BlockRequest, now_ns: u64) -> u64 {
        if let Some(done_ns) = self.without_head(request, now_ns) {
            return done_ns;
        }
        match request.kind {
            RequestKind::Read => self.read(request, now_ns),
            RequestKind::Write if self.is_cached_write(request) => {
                while !self.room_for(request) {
                    self.destage();
                }
                self.accept(request);
            }
            RequestKind::Write => {
                self.leave_stream(now_ns + self.disk.command_ns);
                self.forget(request);
                self.dirty.remove(request.offset_bytes, request.end_bytes());
                self.pass(request.offset_bytes, request.end_bytes());
            }
            RequestKind::Flush | RequestKind::Discard => {
                while self.dirty.total_bytes() > 0 {
                    self.destage();
                }
            }
        }
        // What the head reads or writes is transferred meanwhile.
        self.free_ns.max(self.transferred_ns(request, now_ns))
    }

    /// Reads a range whose end is not in the cache: on the way of the head, or after a seek.
    fn read(&mut self, request: &BlockRequest, now_ns: u64) {
        let begun = self
            .segments
            .iter()
            .position(|segment| segment.start <= request.offset_bytes && request.offset_bytes <= segment.end);
        if begun.is_none() || begun != self.following {
            self.leave_stream(now_ns + self.disk.command_ns);
            self.following = begun;
        }
        let index = begun.unwrap_or_else(|| self.new_segment(request.offset_bytes));
        let from = self.segments[index].end;
        self.pass(from, request.end_bytes());
        let newer = self
            .shingled
            .as_ref()
            .and_then(|shingled| shingled.cached_at(from, request.end_bytes()));
        if let Some(at) = newer {
            self.pass(at, at + request.end_bytes() - from);
        }
        let (end, ready_ns) = (request.end_bytes(), self.free_ns);
        let segment = &mut self.segments[index];
        (segment.end, segment.ready_ns) = (end, ready_ns);
        segment.read(request, now_ns);
        segment.start = segment
            .start
            .max(end.saturating_sub(self.disk.segment_bytes.max(request.length_bytes)));
        self.following = newer.is_none().then_some(index);
    }

    /// What the drive does by itself until `now_ns`: it reads ahead, then it writes what its write cache holds.
    fn pass_idle_time(&mut self, now_ns: u64) {
        if let Some(index) = self.following
            && now_ns > self.free_ns
        {
            self.read_ahead(
                index,
                self.segments[index].read_to + self.disk.segment_bytes,
                Some(now_ns),
            );
        }
        while self.dirty.total_bytes() > 0 && self.free_ns < now_ns {
            self.destage();
        }
        if self.shingled.is_some() {
            let idle_from_ns = self.asked_ns + self.disk.idle_before_rewrite_ns;
            while self.free_ns.max(idle_from_ns) < now_ns
                && self.shingled.as_ref().is_some_and(ShingledState::has_cached)
            {
                self.free_ns = self.free_ns.max(idle_from_ns);
                self.rewrite_zone();
            }
            self.asked_ns = self.asked_ns.max(now_ns);
        }
        // Where it has nothing to follow, the platter turns on without it.
        if now_ns > self.free_ns + transfer_ns(SECTOR_BYTES, zone_rate(self.disk, self.head_bytes)) {
            self.free_ns = now_ns;
        }
    }

    /// The head leaves what it follows at `now_ns`, but not before it has read ahead as far as it does for a stream.
    fn leave_stream(&mut self, now_ns: u64) {
        if let Some(index) = self.following.take()
            && self.segments[index].stream
        {
            self.read_ahead(index, self.segments[index].read_to + self.disk.stream_ahead_bytes, None);
        }
        self.free_ns = self.free_ns.max(now_ns);
    }

    /// Follows the track until the segment reaches `to_bytes`, or until `until_ns`.
    fn read_ahead(&mut self, index: usize, to_bytes: u64, until_ns: Option<u64>) {
        let segment = &mut self.segments[index];
        let rate = zone_rate(self.disk, segment.end);
        let wanted = to_bytes.min(self.capacity_bytes).saturating_sub(segment.end);
        let possible = until_ns.map_or(wanted, |until_ns| bytes_within(until_ns - self.free_ns, rate));
        let bytes = wanted.min(possible) / SECTOR_BYTES * SECTOR_BYTES;
        segment.end += bytes;
        segment.start = segment.start.max(segment.end.saturating_sub(self.disk.segment_bytes));
        self.free_ns += transfer_ns(bytes, rate);
        segment.ready_ns = self.free_ns;
        self.head_bytes = segment.end;
    }

    /// Writes what is next on the way of the head.
    fn destage(&mut self) {
        let Some((start, end)) = self.dirty.next_from(self.head_bytes) else {
            return;
        };
        self.following = None;
        let mut end = end.min(start + DESTAGE_BYTES);
        let mut place = Some(start);
        if let Some(shingled) = &mut self.shingled {
            end = end.min(shingled.zone_end(start));
            place = shingled.place(start, end);
        }
        if let Some(at) = place {
            self.dirty.remove(start, end);
            self.pass(at, at + end - start);
        } else {
            self.rewrite_zone();
        }
    }

    /// Reads a shingled zone, of which something newer is in the cache on the disk, and writes it anew.
    fn rewrite_zone(&mut self) {
        if let Some((start, end)) = self.shingled.as_mut().and_then(ShingledState::rewrite) {
            self.following = None;
            self.pass(start, end);
            self.pass(start, end);
        }
    }

    /// Moves the head to `start` from when it is free, and past all bytes up to `end`.
    fn pass(&mut self, start: u64, end: u64) {
        self.seeks += u64::from(self.seek_ns(start) > 0);
        self.free_ns += self.reach_ns(start, self.free_ns);
        let mut at = start;
        while at < end {
            let to = end.min(zone_start(self.disk, at) + zone_bytes(self.disk));
            self.free_ns += transfer_ns(to - at, zone_rate(self.disk, at));
            at = to;
        }
        self.head_bytes = end;
    }

    /// How long it takes from `from_ns` until `to` is under the head: the seek, and the rest of the turn.
    fn reach_ns(&self, to: u64, from_ns: u64) -> u64 {
        let seek_ns = self.seek_ns(to);
        let turn_ns = self.turn_ns();
        let angle_ns = transfer_ns(to - zone_start(self.disk, to), zone_rate(self.disk, to)) % turn_ns;
        let arrived_ns = (from_ns + seek_ns + self.phase_ns) % turn_ns;
        let wait_ns = (angle_ns + turn_ns - arrived_ns) % turn_ns;
        seek_ns + if wait_ns + ROUNDING_NS >= turn_ns { 0 } else { wait_ns }
    }

    /// The time of a seek to `to`: nothing on the same track, else by the square root of the distance and the distance.
    fn seek_ns(&self, to: u64) -> u64 {
        let disk = self.disk;
        let distance_bytes = self.head_bytes.abs_diff(to);
        if distance_bytes < bytes_within(self.turn_ns(), zone_rate(disk, to)) {
            return 0;
        }
        let third = 1.0_f64 / 3.0;
        let average = (disk.average_seek_ns - disk.track_seek_ns) as f64;
        let full = (disk.full_seek_ns - disk.track_seek_ns) as f64;
        let by_root = (average - full * third) / (third.sqrt() - third);
        // A list for a larger disk may go past the end.
        let distance = (distance_bytes as f64 / self.capacity_bytes as f64).min(1.0);
        let travel = Duration::from_secs_f64((by_root * distance.sqrt() + (full - by_root) * distance) / 1e9);
        disk.track_seek_ns + travel.as_nanos() as u64
    }

    fn turn_ns(&self) -> u64 {
        60_000_000_000 / self.disk.rotations_per_minute
    }

    /// When the data of a request that arrives at `now_ns` has passed the interface.
    fn transferred_ns(&mut self, request: &BlockRequest, now_ns: u64) -> u64 {
        let start_ns = self.interface_free_ns.max(now_ns + self.disk.command_ns);
        self.interface_free_ns = start_ns + transfer_ns(request.length_bytes, self.disk.interface_bytes_per_second);
        self.interface_free_ns
    }

    fn is_cached_write(&self, request: &BlockRequest) -> bool {
        let limit_bytes = self.disk.write_through_from_bytes;
        (limit_bytes == 0 || request.length_bytes < limit_bytes) && request.length_bytes <= self.write_cache_bytes
    }

    fn room_for(&self, request: &BlockRequest) -> bool {
        let known = self.dirty.overlap_bytes(request.offset_bytes, request.end_bytes());
        self.dirty.total_bytes() + request.length_bytes - known <= self.write_cache_bytes
    }

    fn accept(&mut self, request: &BlockRequest) {
        self.forget(request);
        self.dirty.insert(request.offset_bytes, request.end_bytes());
    }

    /// Takes what is overwritten out of the read cache.
    fn forget(&mut self, request: &BlockRequest) {
        for segment in &mut self.segments {
            if segment.start < request.end_bytes() && request.offset_bytes < segment.end {
                (segment.start, segment.end, segment.stream) = (0, 0, false);
            }
        }
    }

    fn segment_with(&self, request: &BlockRequest) -> Option<usize> {
        self.segments
            .iter()
            .position(|segment| segment.start <= request.offset_bytes && request.end_bytes() <= segment.end)
    }

    /// A segment that begins at `start`, in the place of the one unused for longest if there are too many.
    fn new_segment(&mut self, start: u64) -> usize {
        let index = if (self.segments.len() as u64) < self.disk.segment_count {
            self.segments.len()
        } else {
            let oldest = self
                .segments
                .iter()
                .enumerate()
                .min_by_key(|(_, segment)| segment.used_ns);
            oldest.map_or(0, |(index, _)| index)
        };
        let segment = Segment {
            start,
            end: start,
            ready_ns: 0,
            read_to: start,
            stream: false,
            used_ns: 0,
        };
        if index < self.segments.len() {
            self.segments[index] = segment;
        } else {
            self.segments.push(segment);
        }
        index
    }
}

impl Segment {
    fn read(&mut self, request: &BlockRequest, now_ns: u64) {
        self.stream |= self.read_to == request.offset_bytes && self.start < request.offset_bytes;
        self.read_to = request.end_bytes();
        self.used_ns = now_ns;
    }
}

fn zone_bytes(disk: &Disk) -> u64 {
    disk.capacity_bytes.div_ceil(ZONES)
}

fn zone_start(disk: &Disk, at: u64) -> u64 {
    at / zone_bytes(disk) * zone_bytes(disk)
}

/// What the zone of a byte transfers, in bytes per second.
fn zone_rate(disk: &Disk, at: u64) -> u64 {
    let zone = (at / zone_bytes(disk)).min(ZONES - 1);
    disk.outer_bytes_per_second - (disk.outer_bytes_per_second - disk.inner_bytes_per_second) * zone / (ZONES - 1)
}
