//! Comparing the planner's predictions with measured times.

use seekless_record::{Contest, Run};

use crate::labels::title_in;

/// A prediction is wrong if it is off by more than this factor. On a shared disk, equal calls vary by that much from
/// minute to minute, but the orders among which the planner chooses differ by far more.
const MISPREDICTED: f64 = 2.0;
/// The most time per file that the model leaves out: opening, locking, sorting, planning, making buffers.
const LEFT_OUT_SECONDS: f64 = 1e-3;

/// The warning about plans whose predicted time was wrong.
#[must_use]
pub fn mispredicted(run: &Run) -> Option<String> {
    let planned = run.contests.iter().flat_map(|contest| {
        let entries = contest.entries.iter().filter_map(|entry| entry.summary.as_ref());
        let planned = entries.filter(|summary| summary.planned.is_some());
        planned.filter_map(move |summary| Some((contest, summary.predicted_seconds?, summary.seconds.median)))
    });
    let all: Vec<(&Contest, f64, f64)> = planned.collect();
    let off = |ratio: f64| ratio.max(1.0 / ratio);
    let ratios = all.iter().filter_map(|&(contest, predicted, took)| {
        let is_beyond_the_rest = (took - predicted).abs() > LEFT_OUT_SECONDS * f64::from(contest.files);
        is_beyond_the_rest.then_some((contest, took / predicted.max(1e-9)))
    });
    let wrong: Vec<(&Contest, f64)> = ratios.filter(|(_, ratio)| off(*ratio) > MISPREDICTED).collect();
    let (contest, ratio) = wrong.iter().max_by(|one, other| off(one.1).total_cmp(&off(other.1)))?;
    Some(format!(
        "In {} of {} contests, the plan took more than {MISPREDICTED} times the predicted time, or less than half of it \
         ({}: {:.1}x the prediction), so the plan may not be the best. Compare it with the other methods of the contest, or \
         rerun on a quiet machine.",
        wrong.len(),
        all.len(),
        title_in(run, contest),
        ratio
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in which updates were planned, taking this many seconds.
    fn planned(seconds: f64, predicted: f64) -> Run {
        let mut run = seekless_record::from_json(crate::simulation::FULL.as_bytes()).expect("a run");
        for entry in run.contests.iter_mut().flat_map(|contest| &mut contest.entries) {
            if let Some(summary) = entry.summary.as_mut().filter(|summary| summary.planned.is_some()) {
                summary.seconds.median = seconds;
                summary.predicted_seconds = Some(predicted);
            }
        }
        run
    }

    #[test]
    fn a_prediction_that_is_off_by_more_than_two_is_told() {
        for (seconds, words) in [
            (0.009, None),
            (0.019, None),
            (0.021, Some(": 2.1x the prediction")),
            (0.004, Some(": 0.4x the prediction")),
        ] {
            let told = mispredicted(&planned(seconds, 0.010));
            assert_eq!(told.is_some(), words.is_some(), "{seconds}: {told:?}");
            let is_told = words.is_none_or(|words| told.is_some_and(|told| told.contains(words)));
            assert!(is_told, "{seconds}");
        }
        let told = mispredicted(&planned(0.0009, 0.0001));
        assert_eq!(told, None, "less than what the model leaves out");
    }
}
