//! The estimate from all rounds of a contest: `log seconds = method + round + noise`, and how much a choice may cost.
//!
//! A round that only some methods have counts for these, and a method that was dropped after fast rounds does not gain
//! from them. The noise has heavy tails (Student's t with [`TAIL`] degrees of freedom, by reweighting), so a burst is
//! not attributed to the method. Each method has a variance of its own, shrunk towards that of all, because three
//! rounds say little about one method.
//!
//! What a choice may cost is its *regret*: its time over that of the best, less one. It is drawn from the posterior of the
//! effects of all contenders. How far contenders lie apart is a parameter too (Rubin, "Estimation in parallel randomized
//! experiments", 1981): if sixteen methods differ by no more than the noise makes them, then the luckiest is not thought to
//! be faster.

use std::collections::BTreeMap;

use seekless_record::Interval;

use crate::samples::{Samples, TIE_RATIO};
use crate::statistics::{COVERAGE, FEWEST_SAMPLES, draw_normal, median, paired_ratios, ratio_interval};

/// The degrees of freedom of the noise that the fit expects.
const TAIL: f64 = 4.0;
/// Rounds of reweighting.
const STEPS: usize = 30;
/// Steps before the first weights.
const SETTLING: usize = 3;
/// The degrees of freedom that the variance of all methods has as a prior for each method.
const DEGREES_OF_ALL: f64 = 16.0;
/// Comparisons of two methods in a run: 8 contests, each judged five times.
const LOOKS: f64 = 40.0;
/// The accepted probability that one of all comparisons of a run is wrong.
const WRONG: f64 = 0.05;
/// The factor by which the posterior is widened, because the leader is chosen for being fast, and noise has bursts and
/// modes that a t distribution lacks and that differ between methods. Tuned so that claims hold as often as they say
/// (`cargo xtask rule`).
const CAUTION: f64 = 1.15;
/// Draws from the posterior.
const DRAWS: usize = 400;
/// The possible standard deviations between contenders.
const APART: [f64; 9] = [0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];

/// The estimate for one method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// The logarithm of its seconds in a usual round.
    pub log_seconds: f64,
    /// Its variance.
    pub variance: f64,
    /// The variance between sittings; 0 if the model covers only one sitting.
    pub between: f64,
}

/// The estimates for all methods of a contest.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// None for an entry without a sample.
    pub effects: Vec<Option<Effect>>,
    /// Degrees of freedom of the variances. With less than 1, the noise is unknown.
    pub degrees: f64,
}

impl Model {
    /// Fits all samples.
    pub fn fit(samples: &[Samples]) -> Self {
        let (points, rounds) = points_of(samples);
        let entries = samples.iter().filter(|own| own.rounds() > 0).count();
        let degrees = points.len() as f64 - (entries + rounds) as f64 + 1.0;
        let mut weights = vec![1.0; points.len()];
        let mut methods = vec![0.0; samples.len()];
        let mut residuals = vec![0.0; points.len()];
        let mut variance = 0.0;
        let mut of_rounds = Vec::new();
        for step in 0..STEPS {
            let weighted = || points.iter().zip(&weights);
            let by_round = weighted().map(|(&(entry, round, log), weight)| (round, log - methods[entry], *weight));
            (of_rounds, _) = means(rounds, by_round);
            let by_method = weighted().map(|(&(entry, round, log), weight)| (entry, log - of_rounds[round], *weight));
            (methods, _) = means(samples.len(), by_method);
            for (residual, &(entry, round, log)) in residuals.iter_mut().zip(&points) {
                *residual = log - methods[entry] - of_rounds[round];
            }
            // The first steps have no weights, so that rounds and methods can settle.
            if step >= SETTLING {
                let squares: f64 = (weights.iter().zip(&residuals))
                    .map(|(weight, residual)| weight * residual * residual)
                    .sum();
                variance = (squares / degrees.max(1.0)).max(1e-18);
                for (weight, residual) in weights.iter_mut().zip(&residuals) {
                    *weight = (TAIL + 1.0) / (TAIL + residual * residual / variance);
                }
            }
        }
        let mut own_squares = vec![0.0; samples.len()];
        for (&(entry, ..), square) in points
            .iter()
            .zip(squares_of_pulls(&weights, &residuals, variance, degrees))
        {
            own_squares[entry] += square;
        }
        let usual_round = median(&of_rounds).unwrap_or(0.0);
        let of_all = own_squares.iter().sum::<f64>() / points.len() as f64;
        let effect = |(entry, own): (usize, &Samples)| {
            let count = own.rounds() as f64;
            (count > 0.0).then(|| {
                let variance = (DEGREES_OF_ALL * of_all + own_squares[entry]) / (DEGREES_OF_ALL + count);
                Effect {
                    log_seconds: methods[entry] + usual_round,
                    variance: variance / count,
                    between: 0.0,
                }
            })
        };
        Self {
            effects: samples.iter().enumerate().map(effect).collect(),
            degrees,
        }
    }

    /// The estimates for some of the methods.
    pub fn only(&self, chosen: impl Fn(usize) -> bool) -> Self {
        let effects = self.effects.iter().enumerate();
        Self {
            effects: effects
                .map(|(entry, effect)| effect.filter(|_| chosen(entry)))
                .collect(),
            degrees: self.degrees,
        }
    }

    /// An entry's seconds, with a 95 % interval.
    pub fn seconds(&self, entry: usize) -> Option<Interval> {
        let effect = self.effects[entry]?;
        let errors = self.errors(effect.variance);
        let log = effect.log_seconds;
        Some(interval(log - errors, log, log + errors))
    }

    /// Half the width of the 95 % interval of an estimate with this variance.
    fn errors(&self, variance: f64) -> f64 {
        CAUTION * student(1.96, self.degrees) * variance.sqrt()
    }

    /// The number of standard errors from which on an entry is called slower.
    fn slower_errors(&self) -> f64 {
        let entries = self.effects.iter().flatten().count();
        let pairs = (entries * entries.saturating_sub(1) / 2) as f64;
        student(normal(WRONG / (LOOKS * pairs.max(1.0))), self.degrees)
    }

    /// Whether an entry is certainly slower than another by more than a tie. At most in a part [`WRONG`] of the runs is
    /// one of these claims wrong. Over several sittings, it means slower in the next sitting, too.
    pub fn is_slower(&self, entry: usize, than: usize) -> bool {
        let (Some(one), Some(other)) = (self.effects[entry], self.effects[than]) else {
            return false;
        };
        let behind = one.log_seconds - other.log_seconds - TIE_RATIO.ln();
        let variance = one.variance + one.between + other.variance + other.between;
        self.degrees >= 1.0 && behind > self.slower_errors() * variance.sqrt()
    }
}

/// All points, each with its entry, the number of its round, and the logarithm of its seconds; and
/// how many rounds there are.
fn points_of(samples: &[Samples]) -> (Vec<(usize, usize, f64)>, usize) {
    let mut rounds = BTreeMap::new();
    for &round in samples.iter().flat_map(|own| own.by_round.keys()) {
        let next = rounds.len();
        rounds.entry(round).or_insert(next);
    }
    let of_entry = |(entry, own): (usize, &Samples)| {
        let points = own.by_round.iter();
        let points = points.map(|(round, seconds)| (entry, rounds[round], seconds.ln()));
        points.collect::<Vec<_>>()
    };
    (samples.iter().enumerate().flat_map(of_entry).collect(), rounds.len())
}

/// Huber's variance of an estimate, by points: the mean square of what each residual pulls, over
/// the square of how fast that grows.
fn squares_of_pulls(weights: &[f64], residuals: &[f64], variance: f64, degrees: f64) -> Vec<f64> {
    let both = || weights.iter().zip(residuals);
    let growth = both().map(|(weight, residual)| {
        let square = residual * residual / variance;
        weight * (TAIL - square) / (TAIL + square)
    });
    let points = residuals.len() as f64;
    let growth = growth.sum::<f64>() / points;
    let scale = points / degrees.max(1.0) / (growth * growth);
    let pulls = both().map(|(weight, residual)| weight * residual);
    pulls.map(|pull| pull * pull * scale).collect()
}

/// The number of standard deviations that a normal variable exceeds with this small probability. Source: the tail's
/// asymptotic expansion, which is off by less than 0.05 below a hundredth.
fn normal(probability: f64) -> f64 {
    let log = -probability.ln();
    let most = (2.0 * log).sqrt();
    most - (log.ln() + (4.0 * std::f64::consts::PI).ln()) / (2.0 * most)
}

/// The value that Student's t with these degrees of freedom exceeds as often as a normal variable exceeds `normal`.
/// Source: Gleason, "A note on a proposed Student t approximation", 2000.
fn student(normal: f64, degrees: f64) -> f64 {
    let scale = (degrees - 5.0 / 6.0) / (degrees - 2.0 / 3.0 + 0.1 / degrees).powi(2);
    (degrees * (scale * normal * normal).exp_m1()).sqrt()
}

/// The weighted means of groups, 0 of an empty one, and their weights: each value has a group and a weight.
pub(crate) fn means(groups: usize, values: impl Iterator<Item = (usize, f64, f64)>) -> (Vec<f64>, Vec<f64>) {
    let mut sums = vec![(0.0, 0.0); groups];
    for (group, value, weight) in values {
        sums[group].0 += weight * value;
        sums[group].1 += weight;
    }
    let mean = |&(sum, weight): &(f64, f64)| if weight > 0.0 { sum / weight } else { 0.0 };
    (
        sums.iter().map(mean).collect(),
        sums.iter().map(|(_, weight)| *weight).collect(),
    )
}

/// The methods of a contest, compared with the leader.
#[derive(Clone, Debug)]
pub(crate) struct ModelField {
    /// The estimates.
    pub model: Model,
    /// The leader: the fastest by the estimates.
    pub leader: usize,
    /// The methods that are not certainly slower than the leader.
    pub contenders: Vec<usize>,
    /// By entry: whether it is slower than the leader, by the fit of all rounds, confirmed by the rounds that both
    /// have.
    pub slower: Vec<bool>,
    /// By entry: the logarithms of its seconds, drawn from the posterior, if it is a contender and the noise is known.
    draws: Vec<Option<Vec<f64>>>,
    /// The smallest of each draw.
    bests: Vec<f64>,
}

impl ModelField {
    /// The field, with a leader among those that may lead; `None` if none of them has a sample.
    pub fn of(samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<Self> {
        Self::of_model(Model::fit(samples), samples, may_lead)
    }

    /// The same for a given model.
    pub fn of_model(model: Model, samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<Self> {
        let all = || samples.iter().enumerate().filter(|(entry, _)| may_lead(*entry));
        let log_seconds = |entry: usize| model.effects[entry].map(|effect| effect.log_seconds);
        let leader = leader(&model, samples, &may_lead)?;
        let is_slower =
            |entry: usize| model.is_slower(entry, leader) && rounds_agree(&samples[entry], &samples[leader]);
        let slower: Vec<bool> = (0..samples.len()).map(is_slower).collect();
        let is_contender = |entry: &usize| log_seconds(*entry).is_some() && !slower[*entry];
        let contenders: Vec<usize> = all().map(|(entry, _)| entry).filter(is_contender).collect();
        let effects: Vec<Effect> = contenders.iter().filter_map(|&entry| model.effects[entry]).collect();
        let mut draws = vec![None; samples.len()];
        let mut bests = vec![f64::INFINITY; DRAWS];
        if model.degrees >= 1.0 {
            for (&entry, own) in contenders.iter().zip(draw(&effects, model.degrees)) {
                for (best, own) in bests.iter_mut().zip(&own) {
                    *best = best.min(*own);
                }
                draws[entry] = Some(own);
            }
        }
        Some(Self {
            model,
            leader,
            contenders,
            slower,
            draws,
            bests,
        })
    }

    /// The leader among these.
    pub fn leader_of(&self, samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<usize> {
        leader(&self.model, samples, may_lead)
    }

    /// The ratio of an entry's time to another's, with a 95 % interval.
    pub fn ratio(&self, entry: usize, over: usize) -> Option<Interval> {
        let (one, other) = (self.model.effects[entry]?, self.model.effects[over]?);
        let difference = one.log_seconds - other.log_seconds;
        let (low, median, high) = match (&self.draws[entry], &self.draws[over]) {
            (Some(own), Some(others)) => {
                let mut differences: Vec<f64> = own.iter().zip(others).map(|(own, other)| own - other).collect();
                differences.sort_by(f64::total_cmp);
                let tail = DRAWS / 40;
                (differences[tail], differences[DRAWS / 2], differences[DRAWS - 1 - tail])
            }
            _ if self.model.degrees < 1.0 => return None,
            _ => {
                let errors = self.model.errors(one.variance + other.variance);
                (difference - errors, difference, difference + errors)
            }
        };
        Some(interval(low, median, high))
    }

    /// The bound on how much slower than the best a contender is, with a probability of 95 %: 0.05 is 5 %.
    pub fn costs_at_most(&self, entry: usize) -> Option<f64> {
        if self.contenders == [entry] {
            return Some(0.0);
        }
        let own = self.draws[entry].as_ref()?;
        Some(mostly(own.iter().zip(&self.bests).map(|(own, best)| own - best)))
    }

    /// The same bound for the slowest contender.
    pub fn all_within(&self) -> Option<f64> {
        let mut slowest = vec![f64::NEG_INFINITY; DRAWS];
        for own in self.draws.iter().flatten() {
            for (slowest, own) in slowest.iter_mut().zip(own) {
                *slowest = slowest.max(*own);
            }
        }
        let is_known = self.draws.iter().any(Option::is_some);
        is_known.then(|| mostly(slowest.iter().zip(&self.bests).map(|(slowest, best)| slowest - best)))
    }
}

/// An interval, from logarithms.
fn interval(low: f64, median: f64, high: f64) -> Interval {
    Interval {
        low: low.exp(),
        median: median.exp(),
        high: high.exp(),
        coverage: Some(COVERAGE),
    }
}

/// Whether the common rounds of two entries confirm that the first is slower: each round, if there are few, otherwise
/// their interval. With three rounds, the fit would attribute two bursts to the method.
fn rounds_agree(entry: &Samples, leader: &Samples) -> bool {
    let ratios = paired_ratios(&entry.by_round, &leader.by_round);
    if ratios.len() < FEWEST_SAMPLES {
        ratios.iter().all(|ratio| *ratio > TIE_RATIO)
    } else {
        ratio_interval(&ratios).is_some_and(|interval| interval.low > 1.0)
    }
}

/// The fastest of those that may lead, among those with at least three quarters as many rounds as the most. So a method
/// does not lose the lead by one invalid trial, and a dropped method does not win by a few fast rounds.
fn leader(model: &Model, samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<usize> {
    let all = || {
        samples
            .iter()
            .enumerate()
            .filter(|(entry, own)| may_lead(*entry) && own.rounds() > 0)
    };
    let most = all().map(|(_, own)| own.rounds()).max()?;
    let leaders = all().filter(|(_, own)| own.rounds() * 4 >= most * 3);
    let known = leaders.filter_map(|(entry, _)| Some((model.effects[entry]?.log_seconds, entry)));
    known
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, entry)| entry)
}

/// The 95th percentile of draws of logarithms, as a part.
fn mostly(logs: impl Iterator<Item = f64>) -> f64 {
    let mut logs: Vec<f64> = logs.collect();
    logs.sort_by(f64::total_cmp);
    logs[DRAWS - DRAWS / 20].exp_m1()
}

/// Draws the effects of contenders jointly: by contender, the logarithms of seconds.
fn draw(effects: &[Effect], degrees: f64) -> Vec<Vec<f64>> {
    // A fixed seed, so that the conclusions of a run are the same each time it is read.
    let mut rng = fastrand::Rng::with_seed(1);
    let parts = posterior_of_distance(effects);
    let mut all = vec![Vec::with_capacity(DRAWS); effects.len()];
    for draw in 0..DRAWS {
        // Each deviation gets its share of the draws.
        let at = (draw as f64 + 0.5) / DRAWS as f64;
        let apart = parts
            .iter()
            .find(|(_, below)| at < *below)
            .map_or(APART[APART.len() - 1], |(apart, _)| *apart);
        let noise = CAUTION * draw_noise(&mut rng, degrees);
        let (middle, precision) = middle(effects, apart);
        let middle = middle + draw_normal(&mut rng) / precision.sqrt();
        for (own, effect) in all.iter_mut().zip(effects) {
            let kept = apart * apart / (effect.variance + apart * apart);
            let mean = middle + kept * (effect.log_seconds - middle);
            own.push(mean + (kept * effect.variance).sqrt() * noise * draw_normal(&mut rng));
        }
    }
    all
}

/// The mean of all effects for this deviation between them, and its precision.
fn middle(effects: &[Effect], apart: f64) -> (f64, f64) {
    let precisions = || effects.iter().map(|effect| 1.0 / (effect.variance + apart * apart));
    let precision: f64 = precisions().sum();
    let sum: f64 = effects
        .iter()
        .zip(precisions())
        .map(|(effect, own)| effect.log_seconds * own)
        .sum();
    (sum / precision, precision)
}

/// The deviations of [`APART`], each with the probability that the true one is at most this.
fn posterior_of_distance(effects: &[Effect]) -> Vec<(f64, f64)> {
    let logs = APART.map(|apart| {
        let (middle, precision) = middle(effects, apart);
        let logs = effects.iter().map(|effect| {
            let variance = effect.variance + apart * apart;
            variance.ln() + (effect.log_seconds - middle).powi(2) / variance
        });
        -0.5 * (logs.sum::<f64>() + precision.ln())
    });
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = logs.iter().map(|log| (log - most).exp()).sum();
    let mut below = 0.0;
    let with_part = APART.iter().zip(logs).map(|(&apart, log)| {
        below += (log - most).exp() / all;
        (apart, below)
    });
    with_part.collect()
}

/// Draws a factor for the uncertainty of the noise: the root of the degrees of freedom over chi squared, by Wilson and
/// Hilferty's approximation.
fn draw_noise(rng: &mut fastrand::Rng, degrees: f64) -> f64 {
    let part = 2.0 / (9.0 * degrees);
    let cube = (1.0 - part + draw_normal(rng) * part.sqrt()).max(0.05);
    cube.powi(-3).sqrt()
}

#[cfg(test)]
pub(crate) mod tests;
