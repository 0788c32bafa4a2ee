//! Real time: requests are answered when the drive completes them, and it is counted how late.
//!
//! A request is on its way for some time before it arrives here, and its answer is after it was sent. The way is measured when
//! the device starts ([`HostTime`]), and an answer leaves so much earlier, so that the time that the host sees is the drive's.

use std::collections::HashMap;
use std::hint::spin_loop;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use seekless_sys::lock_mutex;
use serde::{Deserialize, Serialize};

use crate::drive::{Drive, DriveCounters};
use crate::request::BlockRequest;
use crate::trace::TracedRequest;

/// A thread that sleeps wakes about this late at first, then as late as it did before; for that time it watches the clock.
const WAKING: Duration = Duration::from_micros(70);
const WAKING_MIN: Duration = Duration::from_micros(5);
/// What is later is chance, and waiting for it would keep a processor busy.
const WAKING_MAX: Duration = Duration::from_micros(150);

/// Sends the answer to a request.
pub(super) type AnswerCallback = Box<dyn FnOnce() + Send>;

/// Where completed requests are written down; whether that was possible.
pub(super) type Recorder = Box<dyn FnMut(TracedRequest) -> bool + Send>;

/// The time that a request and its answer are on their way between the host and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostTime {
    /// Of any request, in ns.
    pub base_ns: u64,
    /// In addition for each MiB of data, in ns.
    pub mib_ns: u64,
}

impl HostTime {
    fn of(self, request: &BlockRequest) -> Duration {
        Duration::from_nanos(self.base_ns + ((self.mib_ns * request.length_bytes) >> 20))
    }
}

/// How late answers were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Answers.
    pub answers: u64,
    /// The median, in µs.
    pub p50_us: u64,
    /// The 99th percentile, in µs.
    pub p99_us: u64,
    /// The maximum, in µs.
    pub max_us: u64,
    /// The share of answers that were at most 20 µs late, from 0 to 1.
    pub within_20_us: f64,
    /// How many were late by less than 1 µs, by 1 µs, from 2 µs, from 4 µs and so on; the last has all that were later.
    #[serde(default)]
    pub histogram: Vec<u64>,
}

/// What a device did since it was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// The time that passed for the drive, in ns.
    pub drive_ns: u64,
    /// What it served.
    pub counters: DriveCounters,
    /// Requests that waited at the same time, at most.
    pub depth_max: u64,
    /// How late answers were.
    pub lateness: Lateness,
    /// How often its fault happened.
    pub faults: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests that its trace lacks.
    #[serde(default)]
    pub unrecorded: u64,
}

/// Answers requests in time.
pub(super) struct Pacer {
    shared: Mutex<Shared>,
    changed: Condvar,
    /// Changes when another request than before is the next to complete.
    turns: AtomicU64,
}

/// A request that arrived; it is answered by [`Pacer::answer`].
pub(super) struct Arrived {
    /// Its number, if its time is simulated.
    id: Option<u64>,
    at: Instant,
    length_bytes: u64,
}

struct Shared {
    drive: Drive,
    clock: Option<Clock>,
    generation: u64,
    waiting: HashMap<u64, WaitingRequest>,
    next_id: u64,
    /// No request may be submitted at an earlier virtual time, in ns.
    submit_from_ns: u64,
    depth_max: u64,
    late_us: Vec<u64>,
    latest_us: u64,
    unpaced: [Unpaced; 2],
    recorder: Option<Recorder>,
    unrecorded: u64,
    is_over: bool,
}

struct WaitingRequest {
    request: BlockRequest,
    arrived_ns: u64,
    answer: Option<AnswerCallback>,
    /// When the answer should have been sent, if that was before there was one.
    due: Option<Instant>,
}

/// The time that the server itself took for requests, before pacing began.
#[derive(Clone, Copy, Debug, Default)]
struct Unpaced {
    requests: u32,
    time: Duration,
}

#[derive(Clone, Copy)]
struct Clock {
    began: Instant,
    speed: f64,
    way: HostTime,
}

impl Clock {
    fn virtual_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).mul_f64(self.speed).as_nanos() as u64
    }

    /// When to send the answer of a request that completes at this virtual time.
    fn due(&self, at_ns: u64, request: &BlockRequest) -> Instant {
        let at = self.began + Duration::from_nanos(at_ns).div_f64(self.speed);
        at.checked_sub(self.way.of(request)).unwrap_or(self.began)
    }
}

impl Pacer {
    /// Answers at once until it is [started](Self::start).
    pub fn new(drive: Drive, recorder: Option<Recorder>) -> Self {
        Self {
            shared: Mutex::new(Shared {
                drive,
                clock: None,
                generation: 0,
                waiting: HashMap::new(),
                next_id: 0,
                submit_from_ns: 0,
                depth_max: 0,
                late_us: vec![0; 1000],
                latest_us: 0,
                unpaced: [Unpaced::default(); 2],
                recorder,
                unrecorded: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
            turns: AtomicU64::new(0),
        }
    }

    /// From now on, requests take the drive's time.
    pub fn start(&self, speed: f64, way: HostTime) {
        let began = Instant::now();
        self.lock().clock = Some(Clock { began, speed, way });
    }

    /// From now on, requests take no time, those that wait neither.
    pub fn rush(&self) {
        let mut shared = self.lock();
        shared.clock = None;
        self.answer_all(shared);
    }

    /// From now on, only requests of this generation take time.
    pub fn begin(&self, generation: u64) {
        let mut shared = self.lock();
        shared.generation = generation;
        self.answer_all(shared);
    }

    /// Nobody waits any more.
    fn answer_all(&self, mut shared: MutexGuard<'_, Shared>) {
        shared.drive.forget_all();
        let (now, mut answers) = (Instant::now(), Vec::new());
        shared.waiting.retain(|_, waiting| {
            waiting.due = Some(now);
            let answer = waiting.answer.take();
            let is_known = answer.is_some();
            answers.extend(answer.map(|answer| (now, answer)));
            !is_known
        });
        drop(self.send(shared, answers));
    }

    /// The mean time in ns that the server itself took for small and for large requests so far.
    pub fn own_ns(&self) -> [u64; 2] {
        self.lock()
            .unpaced
            .map(|unpaced| unpaced.time.as_nanos() as u64 / u64::from(unpaced.requests.max(1)))
    }

    /// A request of the device of a generation arrived.
    pub fn arrive(&self, generation: u64, request: BlockRequest) -> Arrived {
        let mut shared = self.lock();
        let at = Instant::now();
        let length_bytes = request.length_bytes;
        let Some(clock) = shared.clock.filter(|_| shared.generation == generation) else {
            return Arrived {
                id: None,
                at,
                length_bytes,
            };
        };
        let before = shared.drive.next();
        let id = shared.next_id;
        shared.next_id += 1;
        let arrived_ns = clock.virtual_ns(at).max(shared.submit_from_ns);
        shared.submit_from_ns = arrived_ns;
        shared.drive.submit(id, request, arrived_ns);
        let waiting = WaitingRequest {
            request,
            arrived_ns,
            answer: None,
            due: None,
        };
        shared.waiting.insert(id, waiting);
        shared.depth_max = shared.depth_max.max(shared.waiting.len() as u64);
        // Without a delay, this thread answers.
        let due = shared.take_due(at);
        if shared.drive.next() != before {
            self.turns.fetch_add(1, Ordering::Release);
            self.changed.notify_one();
        }
        drop(self.send(shared, due));
        Arrived {
            id: Some(id),
            at,
            length_bytes,
        }
    }

    /// The answer to a request that arrived is known: it is sent when it is due.
    pub fn answer(&self, arrived: &Arrived, answer: AnswerCallback) {
        let mut shared = self.lock();
        let Some(id) = arrived.id else {
            let unpaced = &mut shared.unpaced[usize::from(arrived.length_bytes > 64 << 10)];
            unpaced.requests += 1;
            unpaced.time += arrived.at.elapsed();
            drop(shared);
            return answer();
        };
        let Some(waiting) = shared.waiting.get_mut(&id) else {
            return;
        };
        if let Some(due) = waiting.due {
            shared.waiting.remove(&id);
            drop(self.send(shared, vec![(due, answer)]));
        } else {
            waiting.answer = Some(answer);
        }
    }

    /// Answers requests until [`Self::end`], in a thread of its own.
    pub fn run(&self) {
        let mut waking = WAKING;
        let mut shared = self.lock();
        while !shared.is_over {
            let due = shared.take_due(Instant::now());
            if !due.is_empty() {
                shared = self.send(shared, due);
                continue;
            }
            let Some(next) = shared.next_due() else {
                shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            // After a long sleep, a processor wakes late more often, and watching the clock for some of that time costs little.
            let watching = (next.saturating_duration_since(now) / 32).clamp(waking, WAKING_MAX);
            let wake_at = next.checked_sub(watching).unwrap_or(next);
            let sleep = wake_at.saturating_duration_since(now);
            if sleep.is_zero() {
                let turn = self.turns.load(Ordering::Acquire);
                drop(shared);
                while Instant::now() < next && self.turns.load(Ordering::Acquire) == turn {
                    spin_loop();
                }
                shared = self.lock();
                continue;
            }
            let woken = self.changed.wait_timeout(shared, sleep);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            shared = woken;
            if timeout.timed_out() {
                waking = waking_after(waking, wake_at.elapsed());
            }
        }
    }

    /// Ends [`Self::run`], and what is recorded.
    pub fn end(&self) {
        let mut shared = self.lock();
        shared.is_over = true;
        shared.recorder = None;
        self.changed.notify_one();
    }

    /// What the device did so far.
    pub fn report(&self) -> DeviceReport {
        let shared = self.lock();
        let drive_ns = shared.clock.map_or(0, |clock| clock.virtual_ns(Instant::now()));
        DeviceReport {
            drive_ns,
            counters: shared.drive.counters(),
            depth_max: shared.depth_max,
            lateness: lateness(&shared.late_us, shared.latest_us),
            unrecorded: shared.unrecorded,
            ..DeviceReport::default()
        }
    }

    /// Sends answers without the lock, and counts how late they were.
    fn send<'a>(
        &'a self,
        shared: MutexGuard<'a, Shared>,
        answers: Vec<(Instant, AnswerCallback)>,
    ) -> MutexGuard<'a, Shared> {
        if answers.is_empty() {
            return shared;
        }
        drop(shared);
        let mut late = Vec::with_capacity(answers.len());
        for (due, answer) in answers {
            late.push(Instant::now().saturating_duration_since(due).as_micros() as u64);
            answer();
        }
        let mut shared = self.lock();
        for us in late {
            let last = shared.late_us.len() - 1;
            shared.late_us[(us as usize).min(last)] += 1;
            shared.latest_us = shared.latest_us.max(us);
        }
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock_mutex(&self.shared)
    }
}

impl Shared {
    /// When the next answer is due.
    fn next_due(&self) -> Option<Instant> {
        let next = self.drive.next()?;
        let waiting = self.waiting.get(&next.id)?;
        Some(self.clock?.due(next.at_ns, &waiting.request))
    }

    /// Completes what is due, and returns the answers that are known, each with the time when it is due.
    fn take_due(&mut self, now: Instant) -> Vec<(Instant, AnswerCallback)> {
        let mut answers = Vec::new();
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            let Some(completion) = self.drive.complete() else { break };
            self.submit_from_ns = self.submit_from_ns.max(completion.at_ns);
            let Some(waiting) = self.waiting.get_mut(&completion.id) else {
                continue;
            };
            if let Some(recorder) = &mut self.recorder {
                let is_recorded = recorder(TracedRequest {
                    arrived_ns: waiting.arrived_ns,
                    completed_ns: Some(completion.at_ns),
                    request: waiting.request,
                });
                self.unrecorded += u64::from(!is_recorded);
            }
            if let Some(answer) = mem::take(&mut waiting.answer) {
                self.waiting.remove(&completion.id);
                answers.push((due, answer));
            } else {
                waiting.due = Some(due);
            }
        }
        answers
    }
}

/// How late the next waking may be: as late as this one and a bit, or nearly as late as before.
fn waking_after(waking: Duration, late: Duration) -> Duration {
    let next = (late + late / 4).max(waking / 32 * 31);
    next.clamp(WAKING_MIN, WAKING_MAX)
}

/// Percentiles of a histogram with a bin for each µs; the last has all that are later.
fn lateness(bins: &[u64], max_us: u64) -> Lateness {
    let answers: u64 = bins.iter().sum();
    let percentile = |percent: u64| {
        let wanted = (answers * percent).div_ceil(100);
        let mut seen = 0;
        let reached = bins.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.filter(|us| us + 1 < bins.len()).map_or(max_us, |us| us as u64)
    };
    Lateness {
        answers,
        p50_us: percentile(50),
        p99_us: percentile(99),
        max_us,
        within_20_us: bins[..=20].iter().sum::<u64>() as f64 / answers.max(1) as f64,
        histogram: doubling(bins),
    }
}

/// The histogram with bins that double.
fn doubling(bins: &[u64]) -> Vec<u64> {
    let mut sums = Vec::new();
    for (us, count) in bins.iter().enumerate() {
        let bin = (usize::BITS - us.leading_zeros()) as usize;
        sums.resize(bin + 1, 0);
        sums[bin] += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::models::DiskModel;
    use crate::request::RequestKind;

    #[test]
    fn pace_percentiles_are_those_of_the_samples() {
        let mut bins = vec![0; 1000];
        (bins[3], bins[20], bins[21], bins[999]) = (60, 30, 8, 2);
        let found = lateness(&bins, 5000);
        let expected = (100, 3, 5000, 5000);
        assert_eq!((found.answers, found.p50_us, found.p99_us, found.max_us), expected);
        assert!((found.within_20_us - 0.9).abs() < 1e-9);
        assert_eq!(lateness(&[0; 1000], 0).p50_us, 0);
        // Below 1 µs, 1, 2 and 3, 4 to 7, ..., 512 and later.
        assert_eq!(found.histogram, [0, 0, 60, 0, 0, 38, 0, 0, 0, 0, 2]);
        assert_eq!(doubling(&[7, 1, 2, 3, 4]), [7, 1, 5, 4]);
    }

    #[test]
    fn pace_watches_the_clock_as_long_as_it_wakes_late() {
        let us = Duration::from_micros;
        assert_eq!(waking_after(us(20), us(40)), us(50));
        assert_eq!(waking_after(us(32), us(1)), us(31));
        assert_eq!(waking_after(us(20), us(9000)), WAKING_MAX);
        assert!((0..200).fold(WAKING_MAX, |waking, _| waking_after(waking, us(1))) == WAKING_MIN);
    }

    #[test]
    fn pace_answers_at_once_when_a_generation_ends() {
        let model = DiskModel::named("hdd-2003").unwrap();
        let request = |at: u64| BlockRequest::new(RequestKind::Read, at << 30, 4096);
        for rush in [false, true] {
            let pacer = Pacer::new(Drive::new(model, 0, 1), None);
            pacer.start(1e-6, HostTime::default());
            let (sent, answered) = channel();
            let answer = |arrived: &Arrived| {
                let sent = sent.clone();
                pacer.answer(arrived, Box::new(move || sent.send(()).unwrap()));
            };
            let arrived: Vec<_> = (0..10).map(|at| pacer.arrive(0, request(at))).collect();
            arrived[5..].iter().for_each(answer);
            assert_eq!(answered.try_iter().count(), 0);
            if rush {
                pacer.rush();
            } else {
                pacer.begin(1);
            }
            assert_eq!(answered.try_iter().count(), 5);
            arrived[..5].iter().for_each(answer);
            answer(&pacer.arrive(0, request(0)));
            assert_eq!(answered.try_iter().count(), 6);
            answer(&pacer.arrive(1, request(0)));
            assert_eq!(answered.try_iter().count(), usize::from(rush));
        }
    }

    #[test]
    fn every_request_is_answered_once_whoever_is_first() {
        let model = DiskModel::named("null").unwrap();
        let pacer = Arc::new(Pacer::new(Drive::new(model, 1 << 30, 1), None));
        let running = thread::spawn({
            let pacer = pacer.clone();
            move || pacer.run()
        });
        let (sent, answered) = channel();
        for id in 0..100_u64 {
            if id == 10 {
                pacer.start(1.0, HostTime::default());
            }
            let request = BlockRequest::new(RequestKind::Read, id << 12, 4096);
            let arrived = pacer.arrive(0, request);
            let sent = sent.clone();
            pacer.answer(&arrived, Box::new(move || sent.send(id).unwrap()));
        }
        drop(sent);
        let mut all: Vec<u64> = answered.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
        assert_eq!(pacer.report().counters.requests, 90);
        assert_eq!(pacer.report().lateness.answers, 90);
        pacer.end();
        running.join().unwrap();
    }
}
