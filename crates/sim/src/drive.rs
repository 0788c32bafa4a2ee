//! A model with its state: requests go in, completions come out, in virtual time.
//!
//! Time is what the caller says it is. A request is submitted at a time not before the last completion that was taken; the drive
//! decides which of the waiting requests is served when it becomes free, and not before, so that a later one may overtake.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::models::{Mechanism, Model, VolumeState};
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
pub struct Counters {
    /// Requests that completed.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Times that a head moved.
    pub seeks: u64,
    /// Time during which it served at least one request, in ns.
    pub busy_ns: u64,
}

/// A model with its state.
#[derive(Debug)]
pub struct Drive {
    state: State,
    serving: BinaryHeap<Reverse<Completion>>,
    counters: Counters,
    busy_until_ns: u64,
}

#[derive(Debug)]
enum State {
    Null,
    Volume(&'static crate::models::Volume, VolumeState),
}

impl Drive {
    /// A drive of `size_bytes` that nobody used yet; what is random in it follows from `seed`.
    #[must_use]
    pub fn new(model: &'static Model, _size_bytes: u64, _seed: u64) -> Self {
        Self {
            state: match &model.mechanism {
                Mechanism::Null => State::Null,
                Mechanism::Volume(volume) => State::Volume(volume, VolumeState::new(volume)),
            },
            serving: BinaryHeap::new(),
            counters: Counters::default(),
            busy_until_ns: 0,
        }
    }

    /// A request arrives at `now_ns`. `id` names it in its completion.
    pub fn submit(&mut self, id: u64, request: BlockRequest, now_ns: u64) {
        let at_ns = match &mut self.state {
            State::Null => now_ns,
            State::Volume(volume, state) => state.serve(volume, &request, now_ns),
        };
        self.count(&request, now_ns, at_ns);
        self.serving.push(Reverse(Completion { at_ns, id }));
    }

    /// The next completion, unless another request arrives before it.
    #[must_use]
    pub fn next(&self) -> Option<Completion> {
        self.serving.peek().map(|next| next.0)
    }

    /// Takes the next completion; what waited for it is served from then on.
    pub fn complete(&mut self) -> Option<Completion> {
        self.serving.pop().map(|next| next.0)
    }

    /// What it served so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn count(&mut self, request: &BlockRequest, from_ns: u64, to_ns: u64) {
        let counters = &mut self.counters;
        counters.requests += 1;
        match request.kind {
            RequestKind::Read => counters.read_bytes += request.length_bytes,
            RequestKind::Write => counters.written_bytes += request.length_bytes,
            RequestKind::Flush => counters.flushes += 1,
            RequestKind::Discard => {}
        }
        counters.busy_ns += to_ns.saturating_sub(from_ns.max(self.busy_until_ns));
        self.busy_until_ns = self.busy_until_ns.max(to_ns);
    }
}
