//! Medians and their intervals, free of assumptions about how the samples are distributed.

/// The interval of a median by order statistics: the sign test turned round.
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

/// The median; none of no samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// The narrowest symmetric interval `[x(k), x(n + 1 - k)]` that covers the median with at least 95 %; none below 6
/// samples, of which even the whole range does not.
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let sorted = sorted(samples);
    let k = widest_k(sorted.len())?;
    Some(Interval {
        low: sorted[k - 1],
        high: sorted[sorted.len() - k],
    })
}

/// The largest k with `P(Binomial(n, 1/2) < k) <= 2.5 %`.
fn widest_k(n: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut k = 0;
    loop {
        below += probability;
        if below > 0.025 {
            return (k > 0).then_some(k);
        }
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_takes_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// Ranks as tabulated for the sign test, for example in Conover, "Practical Nonparametric Statistics".
    #[test]
    fn interval_ranks_are_those_of_the_sign_test() {
        let tabulated = [
            (6, 1),
            (8, 1),
            (9, 2),
            (11, 2),
            (12, 3),
            (15, 4),
            (17, 5),
            (20, 6),
            (25, 8),
            (30, 10),
            (40, 14),
        ];
        for (n, k) in tabulated {
            assert_eq!(widest_k(n), Some(k), "n = {n}");
        }
        for n in 0..6 {
            assert_eq!(widest_k(n), None, "n = {n}");
        }
    }

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
