//! Requests that are timed one by one, at random places or appended, and their latencies.

use crate::Bounds;

documents! {
    /// The requests that each trial of a contest makes in each of its files: at places drawn for the round, the same for
    /// all methods, each block at most once; or appended to a new file.
    #[derive(Copy, Eq, Hash)]
    pub struct RandomAccess {
        /// Bytes of a request.
        pub block_bytes: u64 => Bounds::POSITIVE,
        /// Requests in flight; of appends, the writers.
        pub depth: u32 => Bounds::POSITIVE,
        /// The number of requests; fewer if the file has fewer blocks.
        pub requests: u32 => Bounds::POSITIVE,
        /// Per cent of the requests of a write that read.
        #[serde(default, skip_serializing_if = "is_none_read")]
        pub reads_percent: u32 => Bounds::COUNT,
    }

    /// Latencies of requests, each from asking for a block until it is moved. Percentiles are by the nearest rank: the
    /// smallest latency that this many per cent do not exceed.
    #[derive(Copy, Default, Eq)]
    pub struct Latency {
        /// How many requests.
        pub requests: u64 => Bounds::COUNT,
        /// Their mean, in nanoseconds.
        pub mean_ns: u64 => Bounds::COUNT,
        /// The median.
        pub p50_ns: u64 => Bounds::COUNT,
        /// The 90th percentile.
        pub p90_ns: u64 => Bounds::COUNT,
        /// The 99th percentile.
        pub p99_ns: u64 => Bounds::COUNT,
        /// The 99.9th percentile: of fewer than 1,000 requests the longest.
        pub p99_9_ns: u64 => Bounds::COUNT,
        /// The longest.
        pub max_ns: u64 => Bounds::COUNT,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_read(percent: &u32) -> bool {
    *percent == 0
}

impl Latency {
    /// From the latencies of requests, in nanoseconds; `None` if there are none.
    #[must_use]
    pub fn of(mut latencies_ns: Vec<u64>) -> Option<Self> {
        latencies_ns.sort_unstable();
        let requests = latencies_ns.len() as u64;
        let sum: u128 = latencies_ns.iter().copied().map(u128::from).sum();
        let at_thousandths = |thousandths: u64| {
            let rank = (requests * thousandths).div_ceil(1000).max(1);
            latencies_ns.get(rank as usize - 1).copied()
        };
        Some(Self {
            requests,
            mean_ns: sum.checked_div(requests.into())? as u64,
            p50_ns: at_thousandths(500)?,
            p90_ns: at_thousandths(900)?,
            p99_ns: at_thousandths(990)?,
            p99_9_ns: at_thousandths(999)?,
            max_ns: at_thousandths(1000)?,
        })
    }

    /// The percentiles with their names, from the median to the longest.
    #[must_use]
    pub fn percentiles(&self) -> [(&'static str, u64); 5] {
        [
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p99.9", self.p99_9_ns),
            ("max", self.max_ns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let latency = Latency::of((1..=2000).rev().collect()).unwrap();
        let percentiles = latency.percentiles().map(|(_, ns)| ns);
        assert_eq!(percentiles, [1000, 1800, 1980, 1998, 2000]);
        assert_eq!((latency.requests, latency.mean_ns), (2000, 1000));
        let one = Latency::of(vec![7]).unwrap();
        assert!(one.percentiles().iter().all(|(_, ns)| *ns == 7));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
