//! The verdicts on simulated methods, whose true speeds are known.

use proptest::prelude::*;

use super::super::*;
use super::verdicts;
use crate::model::tests::measured;
use crate::simulation::Simulation;

/// The noise of a trial on a quiet disk, as the deviation of its logarithm.
const NOISE: f64 = 0.06;

fn measure(simulation: &mut Simulation, medians: &[f64], rounds: u32) -> Vec<Samples> {
    measured(simulation, medians, rounds, NOISE)
}

/// Three rounds of twenty equal methods and a slow one.
#[test]
fn ranking_drops_the_slow_early_and_spares_the_equal() {
    let mut simulation = Simulation::new(4);
    let mut medians = [1.0; 21];
    medians[20] = 1.3;
    let (runs, mut equals, mut slow) = (if crate::is_long() { 500 } else { 100 }, 0, 0);
    for _ in 0..runs {
        let beaten = clearly_beaten(&measure(&mut simulation, &medians, 3), &[true; 21], None);
        equals += beaten.iter().filter(|entry| **entry < 20).count();
        slow += beaten.iter().filter(|entry| **entry == 20).count();
    }
    assert!(equals * 20 <= runs, "{equals} equal methods dropped in {runs} runs");
    assert!(slow * 2 >= runs, "the slow one dropped in {slow} of {runs} runs");
}

fn any_samples() -> impl Strategy<Value = Vec<Samples>> {
    let own = proptest::collection::btree_map(0u32..10, 0.5f64..2.0, 0..10).prop_map(|by_round| Samples { by_round });
    proptest::collection::vec(own, 0..6)
}

proptest! {
    #[test]
    fn ranking_has_one_best_and_drops_nobody_without_reason(samples in any_samples()) {
        let found = verdicts(&samples);
        let best: Vec<usize> = (0..samples.len())
            .filter(|&entry| matches!(found[entry], Some(EntryVerdict::Best(_))))
            .collect();
        prop_assert_eq!(best.len(), usize::from(samples.iter().any(|own| own.rounds() > 0)));
        for entry in clearly_beaten(&samples, &vec![true; samples.len()], None) {
            let common: Vec<u32> = samples[entry]
                .by_round
                .keys()
                .copied()
                .filter(|round| samples[best[0]].by_round.contains_key(round))
                .collect();
            prop_assert!(common.len() >= 3);
            let wins = common.iter().filter(|round| samples[entry].by_round[round] <= samples[best[0]].by_round[round]);
            prop_assert!(wins.count() * 2 < common.len(), "dropped although it won half of the rounds");
        }
    }
}
