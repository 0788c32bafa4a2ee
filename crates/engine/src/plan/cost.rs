//! The cost model: a method's time is the sum, over everything that costs time ([`Costs`]), of its amount times its
//! cost.
//!
//! Costs are in nanoseconds per call, byte or wait. The file of each operation counts a method's amounts ([`Amounts`])
//! from the size, the residency and the block. A time is therefore linear in every cost: its bounds follow from the
//! bounds of the costs, and whether one method is faster than another at *every* plausible cost can be decided exactly,
//! cost by cost.
//!
//! Deliberate simplifications:
//! - what overlaps is added up, apart from read-ahead: after the first MiB, half of the processor's time is hidden behind it. A byte
//!   that is written to the page cache and then to the device costs both, and filling the page cache costs the same for reads and writes;
//! - of several requests in flight, only the first wait counts;
//! - what a plan is prepared with once is divided among the files that it is for;
//! - other processes are not covered, and alternating between files by [`crate::facts::Seeks`] only;
//! - several threads divide the time of memory accesses, but not that of the device.

use std::time::Duration;

use super::{NamedFact, Predicted, Unit};
use crate::facts::{Costs, DeviceLimits, Fact, Facts};

/// What costs time, in the order of [`all`].
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Calls that read.
    ReadCalls,
    /// Bytes read from the page cache.
    ReadBytes,
    /// Calls that write.
    WriteCalls,
    /// Bytes written to existing pages of the page cache.
    WrittenBytes,
    /// Bytes for which the page cache allocates new pages.
    FilledBytes,
    /// Bytes written to the device.
    DeviceBytes,
    /// Flushes of the device, and waits for writes that bypass the page cache.
    Flushes,
    /// Bytes compared in two buffers.
    ComparedBytes,
    /// Bytes compared in mapped memory.
    MappedBytes,
    /// Files opened and closed.
    Opens,
    /// Latencies of device reads.
    Waits,
    /// Bytes read from the device.
    FetchedBytes,
    /// Requests at scattered places, with several in flight.
    Scattered,
    /// Bytes read from the device with several requests in flight.
    StreamedBytes,
    /// Files created.
    Creates,
    /// Fsyncs of new files.
    NewSyncs,
    /// Bytes written past the page cache to new blocks.
    GrownBytes,
    /// Bytes of buffers that are touched first.
    BufferBytes,
    /// Changes between reading a file and writing another one, for which a head has to move, if there is one.
    Alternations,
    /// Bytes that whoever reads them looks at.
    LookedBytes,
    /// The same, in mapped memory.
    ViewedBytes,
}

/// The costs, with their names.
fn all(costs: &Costs) -> [(&'static str, Unit, Fact); KINDS] {
    use Unit::{Nanoseconds, NanosecondsPerByte};
    [
        ("a read call", Nanoseconds, costs.read_call_ns),
        ("reading from the page cache", NanosecondsPerByte, costs.read_byte_ns),
        ("a write call", Nanoseconds, costs.write_call_ns),
        ("writing to the page cache", NanosecondsPerByte, costs.write_byte_ns),
        (
            "filling new pages of the page cache",
            NanosecondsPerByte,
            costs.fill_byte_ns,
        ),
        ("writing to the device", NanosecondsPerByte, costs.device_byte_ns),
        ("flushing the device", Nanoseconds, costs.flush_ns),
        ("comparing in memory", NanosecondsPerByte, costs.compare_byte_ns),
        ("comparing in mapped memory", NanosecondsPerByte, costs.map_byte_ns),
        ("opening a file", Nanoseconds, costs.open_ns),
        ("latency of a device read", Nanoseconds, costs.wait_ns),
        ("reading from the device", NanosecondsPerByte, costs.fetch_byte_ns),
        (
            "a request at a scattered place, several in flight",
            Nanoseconds,
            costs.scattered_ns,
        ),
        (
            "reading from the device, several requests in flight",
            NanosecondsPerByte,
            costs.stream_byte_ns,
        ),
        ("creating a file", Nanoseconds, costs.create_ns),
        ("an fsync of a new file", Nanoseconds, costs.sync_new_ns),
        (
            "writing to new blocks of the device",
            NanosecondsPerByte,
            costs.grow_byte_ns,
        ),
        ("touching a buffer first", NanosecondsPerByte, costs.buffer_byte_ns),
        ("a read elsewhere on the device", Nanoseconds, costs.seek_ns),
        ("looking at what was read", NanosecondsPerByte, costs.look_byte_ns),
        (
            "mapping a file and looking at it",
            NanosecondsPerByte,
            costs.view_byte_ns,
        ),
    ]
}

/// How many costs there are.
pub(crate) const KINDS: usize = 21;

/// The amounts of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts([f64; KINDS]);

impl Amounts {
    /// These amounts; all others are 0.
    pub fn of<const N: usize>(amounts: [(Of, f64); N]) -> Self {
        let mut all = [0.0; KINDS];
        for (of, amount) in amounts {
            all[of as usize] += amount;
        }
        Self(all)
    }

    /// The sum of both.
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place] + other.0[place]))
    }

    /// All amounts, multiplied.
    pub fn times(self, factor: f64) -> Self {
        Self(self.0.map(|amount| amount * factor))
    }

    /// The same with another amount of this.
    pub fn with(mut self, of: Of, amount: f64) -> Self {
        self.0[of as usize] = amount;
        self
    }

    /// The same, if several threads share what is in memory.
    pub fn in_threads(mut self, threads: u32) -> Self {
        for of in [Of::ReadCalls, Of::ReadBytes, Of::ComparedBytes, Of::MappedBytes] {
            self.0[of as usize] /= f64::from(threads);
        }
        self
    }

    /// The costs whose amounts are not 0, with their names.
    pub fn facts(self, costs: &Costs) -> impl Iterator<Item = NamedFact> {
        let all = self.0.into_iter().zip(all(costs));
        all.filter(|(amount, _)| *amount > 0.0)
            .map(|(_, (name, unit, fact))| NamedFact { name, unit, fact })
    }

    /// The time, by these costs.
    pub fn nanoseconds(&self, costs: &Costs) -> f64 {
        self.sum(costs, |fact| fact.value)
    }

    /// The same, with bounds.
    pub fn predicted(&self, costs: &Costs) -> Predicted {
        self.predicted_at_least(costs, 0.0)
    }

    /// The time of one of the files of a plan, with bounds, by the costs and the limits of its device.
    pub fn predicted_of_file(&self, facts: &Facts) -> Predicted {
        self.predicted_at_least(&facts.costs, self.limited_ns(facts))
    }

    fn predicted_at_least(&self, costs: &Costs, least_ns: f64) -> Predicted {
        let time = |of: fn(&Fact) -> f64| duration(self.sum(costs, of).max(least_ns));
        Predicted {
            low: time(|fact| fact.low),
            value: time(|fact| fact.value),
            high: time(|fact| fact.high),
        }
    }

    /// Whether it takes no longer than another, for all costs within their bounds.
    pub fn is_never_slower(&self, other: &Self, costs: &Costs) -> bool {
        let amounts = self.0.into_iter().zip(other.0);
        let most = amounts.zip(all(costs)).map(|((own, others), (.., fact))| {
            let more = own - others;
            more * if more > 0.0 { fact.high } else { fact.low }
        });
        most.sum::<f64>() <= 0.0
    }

    /// The least time of one of the files of a plan that the limits of its device leave, in nanoseconds.
    fn limited_ns(&self, facts: &Facts) -> f64 {
        let (limits, files) = (&facts.limits, facts.process.files_of_a_plan as f64);
        if *limits == DeviceLimits::NONE {
            return 0.0;
        }
        let amount = |of: Of| self.0[of as usize] * files;
        let read_bytes = amount(Of::FetchedBytes) + amount(Of::StreamedBytes);
        let read_requests = if read_bytes > 0.0 { amount(Of::ReadCalls) } else { 0.0 };
        let write_bytes = amount(Of::DeviceBytes) + amount(Of::GrownBytes);
        let write_requests = write_bytes / WRITE_BYTES + amount(Of::Flushes) + REQUESTS_OF_SYNC * amount(Of::NewSyncs);
        let [read, write] = [
            [
                read_bytes / limits.read_bytes - SPARED_BYTES,
                read_requests / limits.read_requests - SPARED_REQUESTS,
            ],
            [
                write_bytes / limits.write_bytes - SPARED_BYTES,
                write_requests / limits.write_requests - SPARED_REQUESTS,
            ],
        ]
        .map(|seconds| seconds.into_iter().fold(0.0, f64::max));
        // Limits of reads and of writes pass at the same time.
        let seconds = if amount(Of::Alternations) > 0.0 {
            read.max(write)
        } else {
            read + write
        };
        seconds * 1e9 / files
    }

    /// The times of some methods at points between the bounds of the costs: all have the same costs at the same point.
    pub fn times_within(methods: &[Self], facts: &Facts) -> Vec<[f64; POINTS]> {
        let mut times = vec![[0.0; POINTS]; methods.len()];
        for (kind, (.., fact)) in all(&facts.costs).iter().enumerate() {
            if methods.iter().all(|amounts| amounts.0[kind] == 0.0) {
                continue;
            }
            let costs: [f64; POINTS] = std::array::from_fn(|point| within(fact, part(point, kind)));
            for (times, amounts) in times.iter_mut().zip(methods) {
                let each = times.iter_mut().zip(costs);
                each.for_each(|(time, cost)| *time += amounts.0[kind] * cost);
            }
        }
        for (times, amounts) in times.iter_mut().zip(methods) {
            let limited = amounts.limited_ns(facts);
            *times = times.map(|time| time.max(limited));
        }
        times
    }

    fn sum(&self, costs: &Costs, of: impl Fn(&Fact) -> f64) -> f64 {
        let amounts = self.0.into_iter().zip(all(costs));
        amounts.map(|(amount, (.., fact))| amount * of(&fact)).sum()
    }
}

/// The seconds for which a group that was idle may move bytes or make requests at once. On Linux 6.18, it was 0.05 and 0.025.
const SPARED_BYTES: f64 = 0.05;
const SPARED_REQUESTS: f64 = 0.025;
/// The requests of an fsync of a new file, those of the file system included: 2.6 to 2.9 on ext4.
const REQUESTS_OF_SYNC: f64 = 3.0;
/// The bytes of a request that writes.
const WRITE_BYTES: f64 = 1_048_576.0;

/// How many points within the bounds of the costs stand for what the costs may be.
pub(crate) const POINTS: usize = 16;

/// The part of the way between the bounds of a cost, at a point: each cost takes every part once, in an order of its own.
fn part(point: usize, kind: usize) -> f64 {
    // Odd factors permute the points.
    let place = (point * (2 * kind + 1) + 5 * kind) % POINTS;
    (place as f64 + 0.5) / POINTS as f64
}

/// A cost that is its value in the middle, and a bound at either end. Costs differ by factors, so they are apart by equal factors.
fn within(fact: &Fact, part: f64) -> f64 {
    let (end, way) = if part < 0.5 {
        (fact.low, 1.0 - 2.0 * part)
    } else {
        (fact.high, 2.0 * part - 1.0)
    };
    // Most lie near the middle.
    let way = way * way;
    if fact.value > 0.0 && end > 0.0 {
        fact.value * (end / fact.value).powf(way)
    } else {
        fact.value + way * (end - fact.value)
    }
}

fn duration(nanoseconds: f64) -> Duration {
    Duration::try_from_secs_f64(nanoseconds / 1e9).unwrap_or(Duration::MAX)
}
