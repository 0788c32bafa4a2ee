//! The updates of a contest, and what a trial wrote.

use crate::{Bounds, Draw};

documents! {
    /// The updates that every trial of a contest makes.
    #[derive(Copy, Eq, Hash)]
    pub struct UpdatePattern {
        /// Bytes of an update.
        pub bytes: u64 => Bounds::COUNT,
        /// Bytes from the beginning of one place to that of the next.
        pub every_bytes: u64 => Bounds::COUNT,
        /// Which places occur, and in which order.
        pub draw: Draw,
    }

    /// What a trial of updating wrote.
    #[derive(Copy, Default, Eq)]
    pub struct UpdateAccount {
        /// Writes to the files.
        pub writes: u64 => Bounds::COUNT,
        /// Bytes that change, each counted once.
        pub requested_bytes: u64 => Bounds::COUNT,
        /// Bytes written to the files.
        pub written_bytes: u64 => Bounds::COUNT,
    }
}
