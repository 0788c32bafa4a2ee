//! One trial, and the counters of the device.

use super::{Latency, SystemUse, UpdateAccount};
use crate::{Bounds, Phase, Text};

documents! {
    /// One timed execution.
    #[derive(Default)]
    pub struct Trial {
        /// The index of its contest in [`super::Run::contests`].
        pub contest: usize,
        /// The index of its entry in [`super::Contest::entries`].
        pub entry: usize,
        /// The round, from 0.
        pub round: u32,
        /// The part of the run.
        pub phase: Phase,
        /// When it began, in seconds since the run's start.
        pub at_seconds: f64 => Bounds::SECONDS,
        /// Seconds by the monotonic clock from open to close, fsync included.
        pub seconds: f64 => Bounds::SECONDS,
        /// Seconds of these in fsync.
        pub fsync_seconds: f64 => Bounds::SECONDS,
        /// Seconds of set-up (buffers, rings, threads), before the clock.
        pub setup_seconds: f64 => Bounds::SECONDS,
        /// User seconds.
        pub user_seconds: f64 => Bounds::SECONDS,
        /// System seconds.
        pub system_seconds: f64 => Bounds::SECONDS,
        /// Voluntary context switches.
        pub voluntary_switches: u64 => Bounds::COUNT,
        /// Involuntary context switches.
        pub involuntary_switches: u64 => Bounds::COUNT,
        /// Page faults served without I/O.
        pub minor_faults: u64 => Bounds::COUNT,
        /// Page faults that needed I/O.
        pub major_faults: u64 => Bounds::COUNT,
        /// Peak resident memory of the process, in bytes.
        pub peak_memory_bytes: u64 => Bounds::COUNT,
        /// System calls the method made to move its bytes; `None` for a command.
        pub calls: Option<u64> => Bounds::COUNT,
        /// Bytes moved; for a comparison, the size of the first files.
        pub bytes: u64 => Bounds::COUNT,
        /// The size to which times are scaled for comparison; `None` if all trials of the contest move the same bytes.
        pub compared_bytes: Option<u64> => Bounds::COUNT,
        /// How many of these are in skipped holes, which were not read; `None` for a command.
        pub hole_bytes: Option<u64> => Bounds::COUNT,
        /// Bytes that the process caused to be read from the device; `None` where the system does not tell.
        pub source_bytes: Option<u64> => Bounds::COUNT,
        /// Bytes that the process dirtied or wrote; `None` where the system does not tell.
        pub sink_bytes: Option<u64> => Bounds::COUNT,
        /// The device's counters for the trial.
        pub device: Option<DeviceCounters>,
        /// Figures of the whole system during the trial; `None` if it does not report them.
        pub system: Option<SystemUse>,
        /// Part of the file resident just before the clock, 0 to 1; `None` where it cannot be known.
        pub resident_before: Option<f64> => Bounds::PART,
        /// Part of the file resident just after, 0 to 1.
        pub resident_after: Option<f64> => Bounds::PART,
        /// Extents of the file read or written; `None` where the system does not tell.
        pub extents: Option<u64> => Bounds::COUNT,
        /// What an update wrote; `None` for other operations.
        pub updated: Option<UpdateAccount>,
        /// The method that the planner chose; `None` for a method that was named.
        pub planned: Option<String> => Text::Method,
        /// The seconds predicted by the planner's model just before the clock started; `None` for a method that it does
        /// not cover.
        pub predicted_seconds: Option<f64> => Bounds::SECONDS,
        /// Latencies of its requests, for random access and appends; `None` otherwise.
        pub latency: Option<Latency>,
        /// Latencies of requests of a write that read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub read_latency: Option<Latency>,
        /// For a sustained write, the time of each file, fsync included, in seconds; `None` for other trials. Each file
        /// has [`super::Contest::size_bytes`].
        pub segment_seconds: Option<Vec<f64>> => Bounds::SECONDS,
        /// Written bytes that were read back and compared afterwards: all of them, or a sample; `None` if it wrote
        /// nothing and its answer was checked instead, and in documents of early builds.
        pub checked_bytes: Option<u64> => Bounds::COUNT,
        /// Whether the trial was what it claims to be.
        pub valid: bool,
        /// Why not.
        pub invalid: Option<String> => Text::Reason,
    }
}

impl Trial {
    /// Its seconds, scaled to the bytes of the other trials of its contest.
    #[must_use]
    pub fn compared_seconds(&self) -> f64 {
        let compared_bytes = self.compared_bytes.unwrap_or(self.bytes);
        if compared_bytes == self.bytes {
            return self.seconds;
        }
        self.seconds * compared_bytes as f64 / self.bytes.max(1) as f64
    }
}

documents! {
    /// The counters of a device during a trial, with the requests of all processes.
    #[derive(Copy, Eq)]
    pub struct DeviceCounters {
        /// Read requests completed.
        pub reads: u64 => Bounds::COUNT,
        /// Bytes read.
        pub read_bytes: u64 => Bounds::COUNT,
        /// Requests of the file system that were merged with others before they reached the device.
        pub read_merges: Option<u64> => Bounds::COUNT,
        /// Write requests completed.
        pub writes: u64 => Bounds::COUNT,
        /// Bytes written.
        pub write_bytes: u64 => Bounds::COUNT,
        /// Whether the bytes agree with the trial's own, so that nobody else was using the device.
        pub reliable: bool,
    }
}
