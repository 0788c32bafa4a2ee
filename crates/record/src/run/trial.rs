//! One trial, and what the device did meanwhile.

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
        /// Bytes moved; of a comparison the size of the first file, which is what its verdict is about.
        pub bytes: u64 => Bounds::COUNT,
        /// The bytes to which its times are scaled where it is compared; `None` where all trials of its contest move
        /// the same.
        pub compared_bytes: Option<u64> => Bounds::COUNT,
        /// Bytes of these in holes that were skipped: nobody read them; `None` for a command.
        pub hole_bytes: Option<u64> => Bounds::COUNT,
        /// Bytes that the process caused to be read from the device; `None` where the system does not tell.
        pub source_bytes: Option<u64> => Bounds::COUNT,
        /// Bytes that the process dirtied or wrote; `None` where the system does not tell.
        pub sink_bytes: Option<u64> => Bounds::COUNT,
        /// What the device did meanwhile.
        pub device: Option<DeviceUse>,
        /// What the whole system did meanwhile; `None` where it does not tell.
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
        /// The seconds that the planner's model gave from what was known just before the clock; `None` for a method
        /// that it does not know.
        pub predicted_seconds: Option<f64> => Bounds::SECONDS,
        /// How long its requests took; `None` where they were not timed: only those at random places are.
        pub latency: Option<Latency>,
        /// What each file of a sustained write took, its fsync included, in seconds; `None` for other trials. Each has
        /// [`super::Contest::size_bytes`].
        pub segment_seconds: Option<Vec<f64>> => Bounds::SECONDS,
        /// Bytes of what it made that were read back and compared afterwards: all of them, or a sample; `None` where it
        /// made nothing and its answer was checked, and before version 3.
        pub checked_bytes: Option<u64> => Bounds::COUNT,
        /// Whether the trial was what it claims to be.
        pub valid: bool,
        /// Why not.
        pub invalid: Option<String> => Text::Invalid,
    }
}

impl Trial {
    /// Seconds that can be compared with those of other trials of its contest: for the same bytes.
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
    /// What a device did during a trial, everybody's requests included.
    #[derive(Copy, Eq)]
    pub struct DeviceUse {
        /// Read requests completed.
        pub reads: u64 => Bounds::COUNT,
        /// Bytes read.
        pub read_bytes: u64 => Bounds::COUNT,
        /// Requests of the file system that were put together with others before they reached the device.
        pub read_merges: Option<u64> => Bounds::COUNT,
        /// Write requests completed.
        pub writes: u64 => Bounds::COUNT,
        /// Bytes written.
        pub write_bytes: u64 => Bounds::COUNT,
        /// Whether the bytes agree with the trial's own, so that nobody else was using the device.
        pub reliable: bool,
    }
}
