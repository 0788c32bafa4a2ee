//! The cost model: a method's time is the sum, over everything that costs time ([`Costs`]), of its amount times its
//! cost.
//!
//! Costs are in nanoseconds per call, byte or wait. The file of each operation counts a method's amounts ([`Amounts`])
//! from the size, the residency and the block. A time is therefore linear in every cost: its bounds follow from the
//! bounds of the costs, and whether one method is faster than another at *every* plausible cost can be decided exactly,
//! cost by cost.
//!
//! Deliberate simplifications:
//! - overlapping activities, such as read-ahead and copying from the page cache, are added up. Filling the page cache
//!   costs the same for reads and writes;
//! - for methods that keep several requests in flight, only the first wait counts;
//! - the kernel's read-ahead waits once for each of its windows, and half of that is hidden;
//! - a device has one rate, and two latencies: of sequential requests, and of scattered ones, several of which are in
//!   flight. Alternating is covered only by [`crate::facts::Seeks`], and other processes not at all;
//! - several threads divide the time of memory accesses, but not that of the device;
//! - for a byte that is written to the page cache and then to the device, both times count.

use std::time::Duration;

use super::{NamedFact, Predicted, Unit};
use crate::facts::{Costs, Fact};

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
}

/// The costs, with their names.
fn all(costs: &Costs) -> [(&'static str, Unit, Fact); 13] {
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
    ]
}

/// The amounts of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts([f64; 13]);

impl Amounts {
    /// These amounts; all others are 0.
    pub fn of<const N: usize>(amounts: [(Of, f64); N]) -> Self {
        let mut all = [0.0; 13];
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
        let time = |of: fn(&Fact) -> f64| duration(self.sum(costs, of));
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

    fn sum(&self, costs: &Costs, of: impl Fn(&Fact) -> f64) -> f64 {
        let amounts = self.0.into_iter().zip(all(costs));
        amounts.map(|(amount, (.., fact))| amount * of(&fact)).sum()
    }
}

fn duration(nanoseconds: f64) -> Duration {
    Duration::try_from_secs_f64(nanoseconds / 1e9).unwrap_or(Duration::MAX)
}
