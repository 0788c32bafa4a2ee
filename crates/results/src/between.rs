//! The model of several sittings of a contest: `log seconds = method + sitting + variation of the method between
//! sittings + noise`. The effects within each sitting are those of its own [`Model`]. The variance between sittings is
//! estimated with a prior, because two or three sittings say little about it: first for all methods together, then for
//! each.

use crate::model::{Effect, Model, means};

/// Prior standard deviation, between sittings, of the logarithm of a method's time. Measured on virtual disks: 0 to
/// 13 %, most often 4 %.
pub(crate) const BETWEEN: f64 = 0.05;
/// The degrees of freedom of the prior.
const DEGREES_OF_PRIOR: f64 = 4.0;
/// The degrees of freedom that the variance of all methods has as a prior for each method.
const DEGREES_OF_ALL: f64 = 4.0;
/// The smallest standard deviation between sittings.
const LEAST_BETWEEN: f64 = 0.005;
/// Steps of the fit.
const STEPS: usize = 20;
/// One sitting of a contest, and its weight.
pub(crate) struct Sitting {
    /// How many runs it is.
    pub runs: u32,
    pub effects: Vec<Option<Effect>>,
    /// The methods that were not slower than its leader.
    pub contenders: Vec<usize>,
    /// The weight; 1 for a sitting of today.
    pub weight: f64,
}

/// The result over all sittings of a contest.
pub(crate) struct Pooled {
    pub model: Model,
    /// The standard deviation between sittings of the logarithm of a method's time, for all methods together.
    pub deviation: f64,
}

/// Fits all sittings of a contest, which have the same entries.
pub(crate) fn fit(sittings: &[Sitting]) -> Pooled {
    let entries = sittings.iter().map(|sitting| sitting.effects.len()).max().unwrap_or(0);
    let is_known = |entry: &usize| sittings.iter().any(|sitting| sitting.effects[*entry].is_some());
    let known = (0..entries).filter(is_known).count().max(1) as f64;
    let weights: f64 = sittings.iter().map(|sitting| sitting.weight).sum();
    // The part of each residual's square that the fit of methods and sittings leaves.
    let left = (1.0 - 1.0 / sittings.len() as f64) * (1.0 - 1.0 / known);
    let mut between = vec![BETWEEN.powi(2); entries];
    let mut of_all = BETWEEN.powi(2);
    let mut methods = vec![0.0; entries];
    let mut levels = vec![0.0; sittings.len()];
    let mut precisions = vec![0.0; entries];
    for _ in 0..STEPS {
        let points = || {
            sittings.iter().enumerate().flat_map(|(at, sitting)| {
                let effects = sitting.effects.iter().enumerate();
                effects.filter_map(move |(entry, effect)| Some((at, entry, (*effect)?, sitting.weight)))
            })
        };
        let precision = |entry: usize, effect: Effect| 1.0 / (effect.variance + between[entry]);
        let of_sittings =
            points().map(|(at, entry, effect, _)| (at, effect.log_seconds - methods[entry], precision(entry, effect)));
        (levels, _) = means(sittings.len(), of_sittings);
        let of_methods = points().map(|(at, entry, effect, weight)| {
            (
                entry,
                effect.log_seconds - levels[at],
                weight * precision(entry, effect),
            )
        });
        (methods, precisions) = means(entries, of_methods);
        // The squares of residuals in excess of the noise within each sitting.
        let mut squares = vec![(0.0, 0.0); entries];
        for (at, entry, effect, weight) in points() {
            let residual = effect.log_seconds - methods[entry] - levels[at];
            squares[entry].0 += weight * (residual * residual - left * effect.variance);
            squares[entry].1 += weight * left;
        }
        (of_all, between) = variances(&squares);
    }
    let usual_level = levels
        .iter()
        .zip(sittings)
        .map(|(level, sitting)| level * sitting.weight);
    let usual_level = usual_level.sum::<f64>() / weights.max(f64::MIN_POSITIVE);
    let effect = |entry: usize| {
        (precisions[entry] > 0.0).then(|| Effect {
            log_seconds: methods[entry] + usual_level,
            variance: 1.0 / precisions[entry],
            between: between[entry],
        })
    };
    Pooled {
        model: Model {
            effects: (0..entries).map(effect).collect(),
            degrees: DEGREES_OF_PRIOR + (weights - 1.0).max(0.0) * (known - 1.0),
        },
        deviation: of_all.sqrt(),
    }
}

/// The variance between sittings, of all methods and of each, by their sums of squares and degrees
/// of freedom.
fn variances(squares: &[(f64, f64)]) -> (f64, Vec<f64>) {
    let (sum, degrees) = squares
        .iter()
        .fold((0.0, 0.0), |all, own| (all.0 + own.0, all.1 + own.1));
    let of_all = (DEGREES_OF_PRIOR * BETWEEN.powi(2) + sum) / (DEGREES_OF_PRIOR + degrees);
    let of_all = of_all.max(LEAST_BETWEEN.powi(2));
    let own = squares.iter().map(|(sum, degrees)| {
        let own = (DEGREES_OF_ALL * of_all + sum) / (DEGREES_OF_ALL + degrees);
        own.max(LEAST_BETWEEN.powi(2))
    });
    (of_all, own.collect())
}
