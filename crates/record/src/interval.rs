//! A median with bounds.

use serde::{Deserialize, Serialize};

use crate::visit::{Field, step};
use crate::{Bounds, Visitor};

/// A median with bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper end.
    pub high: f64,
    /// The probability that the interval contains the median, by order statistics; `None` if the bounds are just the
    /// range of fewer than 6 samples.
    pub coverage: Option<f64>,
}

impl Interval {
    /// Returns the interval from a median divided by a factor to the median times that factor.
    #[must_use]
    pub fn around(median: f64, factor: f64, coverage: Option<f64>) -> Self {
        Self {
            low: median / factor,
            median,
            high: median * factor,
            coverage,
        }
    }
}

impl Field<Bounds> for Interval {
    fn visit(&mut self, place: &mut String, of_median: Bounds, visitor: &mut dyn Visitor) -> bool {
        let below = Bounds {
            most: self.median,
            ..of_median
        };
        let above = Bounds {
            least: self.median,
            ..of_median
        };
        step(place, "median", &mut |place| {
            self.median.visit(place, of_median, visitor)
        });
        step(place, "low", &mut |place| self.low.visit(place, below, visitor));
        step(place, "high", &mut |place| self.high.visit(place, above, visitor));
        step(place, "coverage", &mut |place| {
            self.coverage.visit(place, Bounds::PART, visitor)
        })
    }
}
