//! Seeded random timings for the tests of the statistics.

use std::f64::consts::TAU;

/// A source of simulated seconds.
pub(crate) struct Simulation(fastrand::Rng);

impl Simulation {
    /// The same seed gives the same seconds.
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A lognormal sample of this median; `noise` is the deviation of its logarithm.
    pub(crate) fn lognormal(&mut self, median: f64, noise: f64) -> f64 {
        // Box and Muller; 1 - f64() is never 0.
        let radius = (-2.0 * (1.0 - self.0.f64()).ln()).sqrt();
        median * (noise * radius * (TAU * self.0.f64()).cos()).exp()
    }
}
