//! What is known before a plan is made: what calls and bytes cost on a storage, and what its files are like. Nothing else
//! measures for a plan.
//!
//! A measurement takes at most 50 ms where the device is no slower than a disk, and holds for a minute of the process. What
//! cannot be measured, or need not be, is assumed between bounds that hold for the storages there are.

mod costs;
mod file;
mod process;
mod seeks;

use std::time::Instant;

pub use costs::Costs;
pub(crate) use costs::costs_by;
pub use file::FileFacts;
pub(crate) use file::has_holes;
pub use process::ProcessFacts;
pub use seeks::Seeks;

/// A figure, where it comes from, and between which bounds it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// The figure.
    pub value: f64,
    /// The lower bound: of what is measured, the least that was found.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Where it comes from.
    pub source: Source,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured, and when.
    Measured(Instant),
    /// It holds for most storages.
    Assumed,
}

impl Fact {
    /// A figure that was not measured.
    #[must_use]
    pub const fn assumed(low: f64, value: f64, high: f64) -> Self {
        Self {
            value,
            low,
            high,
            source: Source::Assumed,
        }
    }

    /// A figure that was measured exactly.
    #[must_use]
    pub fn measured(value: f64) -> Self {
        Self::between(value, value, value)
    }

    fn between(low: f64, value: f64, high: f64) -> Self {
        Self {
            value,
            low,
            high,
            source: Source::Measured(Instant::now()),
        }
    }

    /// Whether it was measured.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self.source, Source::Measured(_))
    }

    /// This part of it.
    fn scaled(self, part: f64) -> Self {
        Self {
            value: self.value * part,
            low: self.low * part,
            high: self.high * part,
            ..self
        }
    }
}
