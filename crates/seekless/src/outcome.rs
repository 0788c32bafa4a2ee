//! What a call did.

use std::time::Duration;

use seekless_engine as engine;

use crate::{Method, Reason};

/// What a call did: how much, how long it took, by which method, and why by this one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome<T> {
    /// Bytes that were moved, holes included; of a comparison, bytes of each file that are equal; of an update, bytes that change.
    pub bytes: u64,
    /// How long the call took, the plan included.
    pub elapsed: Duration,
    /// The method that did it.
    pub method: Method,
    /// Why this method.
    pub reason: Reason,
    /// What the call returns besides: the bytes of [`read_to_vec`](crate::read_to_vec), the verdict of
    /// [`compare`](crate::compare()).
    pub value: T,
}

/// What a comparison found. Offsets count from the starts of the two ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// All bytes are equal.
    Equal,
    /// The first bytes that differ.
    Differ {
        /// How many bytes before them are equal.
        offset: u64,
    },
    /// The first file is shorter, and equal to the start of the second.
    FirstEnded {
        /// Its length, in bytes.
        offset: u64,
    },
    /// The second file is shorter, and equal to the start of the first.
    SecondEnded {
        /// Its length, in bytes.
        offset: u64,
    },
}

impl Verdict {
    pub(crate) fn of(found: engine::Verdict) -> Self {
        match found {
            engine::Verdict::Equal => Self::Equal,
            engine::Verdict::Differ { offset } => Self::Differ { offset },
            engine::Verdict::Ended {
                side: engine::Side::Left,
                offset,
            } => Self::FirstEnded { offset },
            engine::Verdict::Ended {
                side: engine::Side::Right,
                offset,
            } => Self::SecondEnded { offset },
        }
    }
}

/// What an update wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Writes to the file.
    pub writes: u64,
    /// Bytes of these writes, those between changes included.
    pub written_bytes: u64,
}
