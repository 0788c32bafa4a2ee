//! Lists of requests through a model in virtual time.
//!
//! A program does not ask for everything at once: it waits for an answer, computes, and asks again. So a step starts some time
//! after another one completed. What a trace recorded shows only when requests came and completed; each is taken to wait for the
//! last completion before its arrival. On a slower disk it then comes later, on a faster one earlier. A program with several
//! threads, or one that waited for a clock, may in truth depend on less.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::drive::{Drive, DriveCounters};
use crate::models::DiskModel;
use crate::request::BlockRequest;
use crate::trace::TracedRequest;

/// A request of a list, and when it starts: at the latest of the times that are given.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is asked for.
    pub request: BlockRequest,
    /// The number of the step that has to complete before, and how long before, in ns. Without one, the time since the start.
    pub after: (Option<usize>, u64),
    /// How long before the step ahead of it in the list started, in ns, if it may not overtake that.
    pub since_previous_ns: Option<u64>,
}

/// What a list took.
#[derive(Debug)]
pub struct Replayed {
    /// The requests, with their times, in the order of the list.
    pub requests: Vec<TracedRequest>,
    /// What the drive counted.
    pub counters: DriveCounters,
    /// The last completion, in ns.
    pub total_ns: u64,
}

/// The steps of a trace: each waits for the last completion before its arrival.
#[must_use]
pub fn steps_of(trace: &[TracedRequest]) -> Vec<Step> {
    let mut completions: Vec<_> = (0..trace.len())
        .filter_map(|index| Some((trace[index].completed_ns?, index)))
        .collect();
    completions.sort_unstable();
    let first_ns = trace.first().map_or(0, |first| first.arrived_ns);
    let step = |traced: &TracedRequest| {
        let before = completions.partition_point(|(completed_ns, _)| *completed_ns <= traced.arrived_ns);
        // One that took no time at all does not wait for itself or for a later one.
        let last = completions[..before]
            .iter()
            .rev()
            .find(|(_, index)| trace[*index].arrived_ns < traced.arrived_ns);
        let last = last.filter(|_| traced.completed_ns.is_some());
        let pause_ns = traced.arrived_ns - last.map_or(first_ns, |(completed_ns, _)| *completed_ns);
        Step {
            request: traced.request,
            after: (last.map(|(_, index)| *index), pause_ns),
            since_previous_ns: None,
        }
    };
    trace.iter().map(step).collect()
}

/// Serves `steps` on a drive that nobody used yet.
///
/// # Panics
/// If steps wait for each other.
#[must_use]
pub fn replay(model: &'static DiskModel, size_bytes: u64, seed: u64, steps: &[Step]) -> Replayed {
    let mut drive = Drive::new(model, size_bytes, seed);
    let mut waiting_for: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        if let Some(after) = step.after.0 {
            waiting_for[after].push(index);
        }
    }
    let mut times = Times {
        started_ns: vec![None; steps.len()],
        completed_ns: vec![None; steps.len()],
        ready: BinaryHeap::new(),
    };
    for index in 0..steps.len() {
        times.start_if_possible(steps, index);
    }
    let mut total_ns = 0;
    loop {
        let start = times.ready.peek().map(|ready| ready.0);
        // What completes at the moment at which another arrives, completes first.
        let completes_first = drive
            .next()
            .is_some_and(|next| start.is_none_or(|(start_ns, _)| next.at_ns <= start_ns));
        if completes_first && let Some(done) = drive.complete() {
            total_ns = total_ns.max(done.at_ns);
            times.completed_ns[done.id as usize] = Some(done.at_ns);
            for index in std::mem::take(&mut waiting_for[done.id as usize]) {
                times.start_if_possible(steps, index);
            }
        } else if let Some((start_ns, index)) = start {
            times.ready.pop();
            drive.submit(index as u64, steps[index].request, start_ns);
        } else {
            break;
        }
    }
    let known = |time: Option<u64>| time.expect("steps that wait for each other");
    let traced = |index: usize| TracedRequest {
        arrived_ns: known(times.started_ns[index]),
        completed_ns: Some(known(times.completed_ns[index])),
        request: steps[index].request,
    };
    Replayed {
        requests: (0..steps.len()).map(traced).collect(),
        counters: drive.counters(),
        total_ns,
    }
}

struct Times {
    started_ns: Vec<Option<u64>>,
    completed_ns: Vec<Option<u64>>,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Times {
    /// Sets the time of a step if what it waits for is known, and of those after it in the list that waited for that only.
    fn start_if_possible(&mut self, steps: &[Step], index: usize) {
        let mut index = index;
        while let Some(step) = steps.get(index)
            && self.started_ns[index].is_none()
            && let Some(after_ns) = step.after.0.map_or(Some(0), |after| self.completed_ns[after])
        {
            let previous_ns = match step.since_previous_ns.filter(|_| index > 0) {
                None => 0,
                Some(since_ns) => match self.started_ns[index - 1] {
                    None => return,
                    Some(started_ns) => started_ns + since_ns,
                },
            };
            let start_ns = previous_ns.max(after_ns + step.after.1);
            self.started_ns[index] = Some(start_ns);
            self.ready.push(Reverse((start_ns, index)));
            index += 1;
        }
    }
}
