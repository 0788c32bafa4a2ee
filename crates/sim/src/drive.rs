//! A model with its state: requests go in, completions come out, in virtual time.
//!
//! Time is what the caller says it is. A request is submitted at a time not before the last completion that was taken; the drive
//! decides which of the waiting requests is served when it becomes free, and not before, so that a later one may overtake.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::models::{DiskMechanism, DiskModel, DiskState, FlashState, Volume, VolumeState};
use crate::request::{BlockRequest, RequestKind};

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Completion {
    /// When, in ns of virtual time.
    pub at_ns: u64,
    /// The number that it was submitted with.
    pub id: u64,
}

/// What a drive served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveCounters {
    /// Requests that were submitted.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Times that a head moved.
    pub seeks: u64,
    /// Time during which at least one request was not complete, in ns.
    pub busy_ns: u64,
}

/// A model with its state.
#[derive(Debug)]
pub struct Drive {
    state: State,
    /// Requests for which the head must move, as they came.
    waiting: VecDeque<Waiting>,
    /// The number of the one that the head serves.
    at_head: Option<u64>,
    serving: BinaryHeap<Reverse<Completion>>,
    counters: DriveCounters,
    busy_since_ns: u64,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    request: BlockRequest,
    arrived_ns: u64,
}

#[derive(Debug)]
enum State {
    Null,
    Disk(Box<DiskState>),
    Flash(Box<FlashState>),
    Volume(&'static Volume, VolumeState),
}

impl Drive {
    /// A drive of `size_bytes` that nobody used yet; what is random in it follows from `seed`.
    #[must_use]
    pub fn new(model: &'static DiskModel, size_bytes: u64, seed: u64) -> Self {
        let cache_bytes = model.claims.write_cache_bytes;
        Self {
            state: match &model.mechanism {
                DiskMechanism::Null => State::Null,
                DiskMechanism::Disk(disk) => State::Disk(Box::new(DiskState::new(disk, cache_bytes, size_bytes, seed))),
                DiskMechanism::Flash(flash) => State::Flash(Box::new(FlashState::new(flash, cache_bytes, size_bytes))),
                DiskMechanism::Volume(volume) => State::Volume(volume, VolumeState::new(volume)),
            },
            waiting: VecDeque::new(),
            at_head: None,
            serving: BinaryHeap::new(),
            counters: DriveCounters::default(),
            busy_since_ns: 0,
        }
    }

    /// A request arrives at `now_ns`. `id` names it in its completion.
    pub fn submit(&mut self, id: u64, request: BlockRequest, now_ns: u64) {
        self.count(&request, now_ns);
        let without_head = match &mut self.state {
            State::Null => Some(now_ns),
            State::Disk(disk) if disk.queue_depth() == 1 => None,
            State::Disk(disk) => disk.without_head(&request, now_ns),
            State::Flash(flash) => Some(flash.serve(&request, now_ns)),
            State::Volume(volume, state) => Some(state.serve(volume, &request, now_ns)),
        };
        if let Some(at_ns) = without_head {
            self.serving.push(Reverse(Completion { at_ns, id }));
        } else {
            self.waiting.push_back(Waiting {
                id,
                request,
                arrived_ns: now_ns,
            });
            self.start_next(now_ns);
        }
    }

    /// The next completion, unless another request arrives before it.
    #[must_use]
    pub fn next(&self) -> Option<Completion> {
        self.serving.peek().map(|next| next.0)
    }

    /// Takes the next completion; what waited for it is served from then on.
    pub fn complete(&mut self) -> Option<Completion> {
        let done = self.serving.pop()?.0;
        if self.at_head == Some(done.id) {
            self.at_head = None;
            self.start_next(done.at_ns);
        }
        if self.serving.is_empty() {
            self.counters.busy_ns += done.at_ns.saturating_sub(self.busy_since_ns);
        }
        Some(done)
    }

    /// Nobody waits any more: what was submitted never completes.
    pub fn forget_all(&mut self) {
        (self.waiting, self.at_head, self.serving) = Default::default();
    }

    /// What it served so far.
    #[must_use]
    pub fn counters(&self) -> DriveCounters {
        let seeks = match &self.state {
            State::Disk(disk) => disk.seeks(),
            State::Null | State::Flash(_) | State::Volume(..) => 0,
        };
        DriveCounters { seeks, ..self.counters }
    }

    /// Lets the head serve one of those that wait at `now_ns`, if it is free.
    fn start_next(&mut self, now_ns: u64) {
        let State::Disk(disk) = &mut self.state else { return };
        let (None, Some(first)) = (self.at_head, self.waiting.front()) else {
            return;
        };
        // In real time, a completion may be taken late: what arrived after it could not be chosen then.
        let now_ns = now_ns.max(first.arrived_ns);
        let queued = self.waiting.iter().take(disk.queue_depth());
        let arrived = queued.take_while(|waiting| waiting.arrived_ns <= now_ns);
        let choice: Vec<_> = arrived.map(|waiting| (waiting.request, waiting.arrived_ns)).collect();
        let Some(next) = self.waiting.remove(disk.choose(&choice, now_ns)) else {
            return;
        };
        let at_ns = disk.serve(&next.request, now_ns);
        self.at_head = Some(next.id);
        self.serving.push(Reverse(Completion { at_ns, id: next.id }));
    }

    fn count(&mut self, request: &BlockRequest, now_ns: u64) {
        let counters = &mut self.counters;
        counters.requests += 1;
        match request.kind {
            RequestKind::Read => counters.read_bytes += request.length_bytes,
            RequestKind::Write => counters.written_bytes += request.length_bytes,
            RequestKind::Flush => counters.flushes += 1,
            RequestKind::Discard => {}
        }
        if self.serving.is_empty() {
            self.busy_since_ns = now_ns;
        }
    }
}
