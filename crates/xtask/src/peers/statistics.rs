//! What the intervals of medians say about a tolerance.

use seekless_results::statistics;

/// The interval of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end, a sample.
    pub low: f64,
    /// Its upper end, a sample.
    pub high: f64,
}

impl Interval {
    /// Whether all of it lies within `tolerance` of 1.
    pub fn is_within(self, tolerance: f64) -> bool {
        1.0 - tolerance <= self.low && self.high <= 1.0 + tolerance
    }

    /// Whether none of it lies within `tolerance` of 1.
    pub fn is_outside(self, tolerance: f64) -> bool {
        self.high < 1.0 - tolerance || 1.0 + tolerance < self.low
    }
}

/// The interval that covers the median with at least 95 %; none below 6 samples, of which even the whole range does not.
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let seekless_record::Interval {
        low, high, coverage, ..
    } = statistics::median_interval(samples)?;
    coverage.map(|_| Interval { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_six_is_the_range() {
        let interval = median_interval(&[1.0, 6.0, 2.0, 5.0, 3.0, 4.0]).unwrap();
        assert_eq!(interval, Interval { low: 1.0, high: 6.0 });
        assert_eq!(median_interval(&[1.0; 5]), None);
    }

    #[test]
    fn tolerances_have_a_middle_ground() {
        let agrees = Interval { low: 0.98, high: 1.02 };
        let straddles = Interval { low: 0.98, high: 1.09 };
        let differs = Interval { low: 1.06, high: 1.09 };
        assert!(agrees.is_within(0.05) && !agrees.is_outside(0.05));
        assert!(!straddles.is_within(0.05) && !straddles.is_outside(0.05));
        assert!(!differs.is_within(0.05) && differs.is_outside(0.05));
    }
}
