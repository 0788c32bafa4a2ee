//! Lists of requests through a model in virtual time.
//!
//! A program does not ask for everything at once: it waits for an answer, computes, and asks again. So a step starts some time
//! after another one completed. What a trace recorded shows only when requests came and completed; each is taken to wait for the
//! last completion before its arrival, and for the one before that too, if at most one other request was in flight: then it was a
//! program that reads ahead, and not one that keeps a queue. On a slower disk it comes later, on a faster one earlier. In truth it
//! may depend on more, or on less: on a clock, or on another thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::drive::{Drive, DriveCounters};
use crate::models::DiskModel;
use crate::request::BlockRequest;
use crate::trace::TracedRequest;

/// A request of a list, and when it starts: at the latest of the times that are given.
#[derive(Clone, Copy, Debug)]
pub struct ReplayStep {
    /// What is asked for.
    pub request: BlockRequest,
    /// The numbers of the steps that have to complete before.
    pub after: [Option<usize>; 2],
    /// How long after that it starts, in ns; without such steps, after the start of all.
    pub pause_ns: u64,
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
pub fn steps_of(trace: &[TracedRequest]) -> Vec<ReplayStep> {
    let mut completions: Vec<_> = (0..trace.len())
        .filter_map(|index| {
            let completed_ns = trace[index].completed_ns?;
            Some((completed_ns, completed_ns == trace[index].arrived_ns, index))
        })
        .collect();
    completions.sort_unstable();
    let first_ns = trace.first().map_or(0, |first| first.arrived_ns);
    let step = |(index, traced): (usize, &TracedRequest)| {
        let before = completions.partition_point(|(completed_ns, ..)| *completed_ns <= traced.arrived_ns);
        let alone = index <= before + 1;
        // One that took no time at all does not wait for itself or for a later one.
        let earlier = completions.partition_point(|done| *done < (traced.arrived_ns, true, 0));
        let mut latest = completions[..earlier].iter().rev();
        let last = latest.next().filter(|_| traced.completed_ns.is_some());
        let after = [last, latest.next().filter(|_| alone && last.is_some())];
        ReplayStep {
            request: traced.request,
            after: after.map(|found| found.map(|(.., other)| *other)),
            pause_ns: traced.arrived_ns - last.map_or(first_ns, |(completed_ns, ..)| *completed_ns),
            since_previous_ns: None,
        }
    };
    trace.iter().enumerate().map(step).collect()
}

/// Serves `steps` on a drive that nobody used yet.
///
/// # Panics
/// If steps wait for each other.
#[must_use]
pub fn replay(model: &'static DiskModel, size_bytes: u64, seed: u64, steps: &[ReplayStep]) -> Replayed {
    let mut drive = Drive::new(model, size_bytes, seed);
    let mut waiting_for: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        for after in step.after.into_iter().flatten() {
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
    fn start_if_possible(&mut self, steps: &[ReplayStep], index: usize) {
        let mut index = index;
        while let Some(step) = steps.get(index)
            && self.started_ns[index].is_none()
            && let Some(after_ns) = step
                .after
                .iter()
                .flatten()
                .try_fold(0, |last_ns, after| Some(self.completed_ns[*after]?.max(last_ns)))
        {
            let previous_ns = match step.since_previous_ns.filter(|_| index > 0) {
                None => 0,
                Some(since_ns) => match self.started_ns[index - 1] {
                    None => return,
                    Some(started_ns) => started_ns + since_ns,
                },
            };
            let start_ns = previous_ns.max(after_ns + step.pause_ns);
            self.started_ns[index] = Some(start_ns);
            self.ready.push(Reverse((start_ns, index)));
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestKind;
    use crate::trace::read_trace;

    fn total_ns(model: &str, steps: &[ReplayStep]) -> u64 {
        replay(DiskModel::named(model).unwrap(), 0, 1, steps).total_ns
    }

    #[test]
    fn a_recorded_program_takes_on_another_disk_what_it_takes_there() {
        let publication = &DiskModel::named("hdd-2009").unwrap().published[0];
        for figure in &publication.figures {
            let (steps, _) = figure.requests.steps(1);
            let fast = replay(DiskModel::named("ssd-2016").unwrap(), 0, 1, &steps);
            for model in ["ssd-2016", "hdd-2009", "hdd-2016", "hdd-nas"] {
                let ratio = total_ns(model, &steps_of(&fast.requests)) as f64 / total_ns(model, &steps) as f64;
                assert!((ratio - 1.0).abs() < 0.01, "{} on {model}: {ratio}", figure.program);
            }
        }
    }

    /// Random reads, so many of them in flight.
    fn queue(model: &str, depth: usize) -> Vec<TracedRequest> {
        let mut drive = Drive::new(DiskModel::named(model).unwrap(), 0, 1);
        let mut random = fastrand::Rng::with_seed(4);
        let mut traced: Vec<TracedRequest> = Vec::new();
        let mut arrived_ns = 0;
        for id in 0..1_000 + depth {
            if id >= depth {
                let done = drive.complete().unwrap();
                arrived_ns = done.at_ns;
                traced[done.id as usize].completed_ns = Some(arrived_ns);
            }
            let request = BlockRequest::new(RequestKind::Read, random.u64(..1 << 26) * 4096, 4096);
            traced.push(TracedRequest {
                arrived_ns,
                completed_ns: None,
                request,
            });
            drive.submit(id as u64, request, arrived_ns);
        }
        traced.retain(|traced| traced.completed_ns.is_some());
        traced
    }

    #[test]
    fn replay_keeps_a_queue_on_a_disk_of_another_order() {
        let last =
            |traced: &[TracedRequest]| traced.iter().filter_map(|traced| traced.completed_ns).max().unwrap() as f64;
        for depth in [1, 2, 8, 32] {
            for (recorded, replayed) in [
                ("ssd-sata", "hdd-nas"),
                ("hdd-2009", "hdd-nas"),
                ("hdd-nas", "hdd-2016"),
                ("hdd-nas", "ssd-sata"),
            ] {
                let steps = steps_of(&queue(recorded, depth));
                let ratio = total_ns(replayed, &steps) as f64 / last(&queue(replayed, depth));
                let is_close = (ratio - 1.0).abs() < 0.2;
                assert!(is_close, "{depth} in flight, {recorded} on {replayed}: {ratio}");
            }
        }
    }

    #[test]
    fn replay_keeps_the_pause_after_an_awaited_request() {
        let text = "0 read 0 4096 1000\n5000 read 40000000000 4096 6000\n5500 write 0 4096 5600\n";
        let steps = steps_of(&read_trace(text.as_bytes()).unwrap());
        let done = replay(DiskModel::named("hdd-2009").unwrap(), 0, 1, &steps).requests;
        let first_ns = done[0].completed_ns.unwrap();
        let pauses_ns = [1, 2].map(|at| done[at].arrived_ns - first_ns);
        assert_eq!(pauses_ns, [4000, 4500]);
        assert_eq!(done[1].request.kind, RequestKind::Read);
        let steps = steps_of(&read_trace("70 read 0 4096\n1070 read 40000000000 4096\n".as_bytes()).unwrap());
        let done = replay(DiskModel::named("hdd-2009").unwrap(), 0, 1, &steps).requests;
        assert_eq!((done[0].arrived_ns, done[1].arrived_ns), (0, 1000));
    }

    #[test]
    fn replay_requests_of_one_moment_do_not_wait() {
        let at = |arrived_ns: u64, completed_ns: u64| TracedRequest {
            arrived_ns,
            completed_ns: Some(completed_ns),
            request: BlockRequest::new(RequestKind::Read, 0, 4096),
        };
        let mut trace = vec![at(0, 5), at(1, 4)];
        trace.extend(std::iter::repeat_n(at(5, 5), 200_000));
        let steps = steps_of(&trace);
        let mut steps = steps[2..].iter();
        assert!(steps.all(|step| step.after[0] == Some(0) && step.pause_ns == 0));
    }
}
