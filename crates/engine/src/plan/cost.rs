//! What a method takes: how much it does of each thing that costs something, times what that costs ([`Costs`]), summed up.
//!
//! Costs are in nanoseconds: of a call, of a byte, of a wait. What a method does is a list of amounts ([`Amounts`]), which each
//! operation's file counts from the size, from what is in the page cache, and from the block. So a time is linear in every cost:
//! its bounds follow from the bounds of the costs, and whether a method is faster than another at *every* plausible cost is
//! decided exactly, cost by cost.
//!
//! Oversimplified, on purpose:
//! - what goes on at once is added up, where one hides the other: reading ahead and copying from the page cache. Filling the
//!   page cache with what is read costs as much as with what is written;
//! - of methods that keep several requests in flight only the first wait counts;
//! - the kernel's read-ahead waits once for each of its windows, and half of that is hidden;
//! - a device has one rate, and one wait for a request behind the one before. What moves its head elsewhere is told by
//!   [`crate::facts::Seeks`] alone, and what other processes do, not at all;
//! - several threads do the work of memory in a part of the time, and leave the device as fast as it is;
//! - a byte that is written to the page cache and then to the device is waited for twice.

use std::time::Duration;

use super::{NamedFact, Predicted, Unit};
use crate::facts::{Costs, Fact};

/// What costs something, in the order of [`all`].
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// Calls that read.
    ReadCalls,
    /// Bytes read from the page cache.
    ReadBytes,
    /// Calls that write.
    WriteCalls,
    /// Bytes written to pages that are in the page cache.
    WrittenBytes,
    /// Bytes for which the page cache gets new pages.
    FilledBytes,
    /// Bytes written to the device.
    DeviceBytes,
    /// Flushes of the device, and waits for writes past the page cache.
    Flushes,
    /// Bytes of each of two buffers compared.
    ComparedBytes,
    /// Bytes mapped, and compared there.
    MappedBytes,
    /// Files opened and closed.
    Opens,
    /// Waits for the device's answer to a read.
    Waits,
    /// Bytes read from the device.
    FetchedBytes,
}

/// The costs, and what they are called.
fn all(costs: &Costs) -> [(&'static str, Unit, Fact); 12] {
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
    ]
}

/// How much a method does of each of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amounts([f64; 12]);

impl Amounts {
    /// So much of these, and nothing of others.
    pub fn of<const N: usize>(amounts: [(Of, f64); N]) -> Self {
        let mut all = [0.0; 12];
        for (of, amount) in amounts {
            all[of as usize] += amount;
        }
        Self(all)
    }

    /// This, and then the other.
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place] + other.0[place]))
    }

    /// This many times as much of everything.
    pub fn times(self, factor: f64) -> Self {
        Self(self.0.map(|amount| amount * factor))
    }

    /// The costs that count, with their names.
    pub fn facts(self, costs: &Costs) -> impl Iterator<Item = NamedFact> {
        let all = self.0.into_iter().zip(all(costs));
        all.filter(|(amount, _)| *amount > 0.0)
            .map(|(_, (name, unit, fact))| NamedFact { name, unit, fact })
    }

    /// What it takes by the costs.
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

    /// Whether it takes no longer than another wherever the costs lie between their bounds.
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
