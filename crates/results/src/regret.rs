//! What plans by a profile cost in a run, for renderers; the lab finds it.

use seekless_record::{Cache, Contest};

/// What the plan for a contest costs.
#[derive(Clone, Debug)]
pub struct ContestRegret {
    /// The index of the contest in its run.
    pub contest: usize,
    /// Whether the run itself decides it.
    pub is_decided: bool,
    /// The planned method's text, and what it costs; `None` if the profile does not cover the contest.
    pub planned: Option<(String, Regrets)>,
}

/// The time of a method over that of the best, less one, by who chose the method.
#[derive(Clone, Copy, Debug)]
pub struct Regrets {
    /// The plan.
    pub planned: f64,
    /// The winner of the nearest size that the profile has.
    pub nearest: f64,
    /// Always the plain loop.
    pub plain: f64,
    /// The best of the other half of the rounds: no choice is better for certain.
    pub oracle: f64,
    /// The predicted time over the measured one.
    pub predicted: f64,
    /// Whether the measured time is within the bounds of the predicted one.
    pub is_within_bounds: bool,
}

/// The largest regret that counts as none in a summary.
pub const SMALL_REGRET: f64 = 0.10;

/// What plans cost in all decided contests, in a sentence; `None` if none is covered.
#[must_use]
pub fn regret_in_words(regrets: &[ContestRegret]) -> Option<String> {
    let decided = || regrets.iter().filter(|one| one.is_decided);
    let known: Vec<Regrets> = decided()
        .filter_map(|one| one.planned.as_ref())
        .map(|one| one.1)
        .collect();
    let mean = |of: fn(&Regrets) -> f64| {
        let found: Vec<f64> = known.iter().map(of).filter(|one| one.is_finite()).collect();
        format!("{:.1} %", 100.0 * found.iter().sum::<f64>() / found.len().max(1) as f64)
    };
    (!known.is_empty()).then(|| {
        let small = known.iter().filter(|one| one.planned <= SMALL_REGRET).count();
        format!(
            "{small} of {} decided contests within 10 % of the best; slower on average: the plan {}, the best method of the nearest size \
             {}, a plain loop {}, the best of the other half of the rounds {}; not covered: {}; undecided: {}",
            known.len(),
            mean(|one| one.planned),
            mean(|one| one.nearest),
            mean(|one| one.plain),
            mean(|one| one.oracle),
            decided().count() - known.len(),
            regrets.iter().filter(|one| !one.is_decided).count(),
        )
    })
}

/// What a contest asks besides its size, as in "read, cold".
#[must_use]
pub fn regret_row(contest: &Contest) -> String {
    match contest.cache {
        Cache::None => contest.operation.to_string(),
        cache => format!("{}, {}", contest.operation, cache.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undecided_or_not_covered_is_counted_apart() {
        let regret = |planned: f64| Regrets {
            planned,
            nearest: f64::NAN,
            plain: 0.5,
            oracle: 0.0,
            predicted: 1.0,
            is_within_bounds: true,
        };
        let of = |is_decided, planned: Option<f64>| ContestRegret {
            contest: 0,
            is_decided,
            planned: planned.map(|planned| ("read/mmap".to_owned(), regret(planned))),
        };
        let all = [
            of(true, Some(0.02)),
            of(true, Some(0.2)),
            of(true, None),
            of(false, Some(9.0)),
        ];
        let words = regret_in_words(&all).unwrap();
        let starts = "1 of 2 decided contests within 10 % of the best; slower on average: the plan 11.0 %,";
        assert!(words.starts_with(starts), "{words}");
        assert!(words.ends_with("not covered: 1; undecided: 1"), "{words}");
        assert_eq!(regret_in_words(&all[2..]), None);
    }
}
