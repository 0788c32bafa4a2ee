//! A volume of a cloud: a latency, and limits of requests and bytes per second with credits for bursts.

use serde::Deserialize;

use super::transfer_ns;
use crate::request::{BlockRequest, RequestKind};

/// Parameters of a volume.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Time of a request when no limit is reached, in ns.
    pub latency_ns: u64,
    /// Requests per second that are always granted.
    pub base_iops: u64,
    /// Requests per second while there are credits.
    pub burst_iops: u64,
    /// Credits at most, in requests.
    pub credits_max: u64,
    /// A request that is larger counts as several.
    pub counted_bytes: u64,
    /// Bytes per second at most.
    pub bytes_per_second: u64,
}

/// What a volume remembers.
#[derive(Debug)]
pub struct VolumeState {
    credits: f64,
    refilled_ns: u64,
    requests_free_ns: u64,
    bytes_free_ns: u64,
}

impl VolumeState {
    /// A volume with all its credits.
    #[must_use]
    pub fn new(volume: &Volume) -> Self {
        Self {
            credits: volume.credits_max as f64,
            refilled_ns: 0,
            requests_free_ns: 0,
            bytes_free_ns: 0,
        }
    }

    /// When a request that arrives at `now_ns` completes.
    pub fn serve(&mut self, volume: &Volume, request: &BlockRequest, now_ns: u64) -> u64 {
        if request.kind == RequestKind::Flush {
            return now_ns + volume.latency_ns;
        }
        let since_seconds = now_ns.saturating_sub(self.refilled_ns) as f64 / 1e9;
        self.refilled_ns = self.refilled_ns.max(now_ns);
        self.credits = (self.credits + since_seconds * volume.base_iops as f64).min(volume.credits_max as f64);
        let count = request.length_bytes.div_ceil(volume.counted_bytes).max(1);
        let rate = if self.credits >= count as f64 {
            volume.burst_iops
        } else {
            volume.base_iops
        };
        self.credits = (self.credits - count as f64).max(0.0);
        let start_ns = now_ns.max(self.requests_free_ns).max(self.bytes_free_ns);
        self.requests_free_ns = start_ns + count * 1_000_000_000 / rate;
        self.bytes_free_ns = start_ns + transfer_ns(request.length_bytes, volume.bytes_per_second);
        self.requests_free_ns
            .max(self.bytes_free_ns)
            .max(start_ns + volume.latency_ns)
    }
}
