use super::*;
use crate::simulation::Simulation;

/// Methods of these true medians, measured in this many rounds, each of which has its own drift.
pub fn measured(simulation: &mut Simulation, medians: &[f64], rounds: u32, noise: f64) -> Vec<Samples> {
    let mut samples = vec![Samples::default(); medians.len()];
    for round in 0..rounds {
        let drift = simulation.lognormal(1.0, 0.2);
        for (own, median) in samples.iter_mut().zip(medians) {
            own.by_round.insert(round, drift * simulation.lognormal(*median, noise));
        }
    }
    samples
}

#[test]
fn model_fit_without_noise_is_exact_with_missing_rounds() {
    let mut samples = measured(&mut Simulation::new(1), &[1.0, 1.1, 2.0], 8, 0.0);
    for missing in [0, 3, 5] {
        samples[1].by_round.remove(&missing);
    }
    samples[2].by_round.retain(|&round, _| round < 3);
    let field = ModelField::of(&samples, |_| true).unwrap();
    assert_eq!((field.leader, field.contenders.as_slice()), (0, &[0][..]));
    for (entry, ratio) in [(1, 1.1), (2, 2.0)] {
        let found = field.ratio(entry, 0).unwrap();
        assert!((found.median - ratio).abs() < 1e-3, "{entry}: {found:?}");
    }
}

/// Equal methods: the variance that is stated is the one that is found, and nothing is slower.
#[test]
fn model_variances_are_what_the_effects_vary_by() {
    let mut simulation = Simulation::new(1);
    for rounds in [3, 6, 12] {
        let (runs, mut stated, mut found, mut slower) = (300, 0.0, 0.0, 0);
        for _ in 0..runs {
            let model = Model::fit(&measured(&mut simulation, &[1.0; 16], rounds, 0.1));
            let (one, other) = (model.effects[0].unwrap(), model.effects[1].unwrap());
            stated += one.variance + other.variance;
            found += (one.log_seconds - other.log_seconds).powi(2);
            slower += (0..256).filter(|pair| model.is_slower(pair / 16, pair % 16)).count();
        }
        let is_close = (0.7..1.3).contains(&(stated / found));
        assert!(is_close, "{rounds} rounds: {stated} stated, {found} found");
        assert!(slower <= runs / 50, "{rounds} rounds: {slower} of {runs}");
    }
}

#[test]
fn model_does_not_charge_a_burst_to_the_method() {
    let mut samples = measured(&mut Simulation::new(2), &[1.0; 8], 8, 0.05);
    *samples[3].by_round.get_mut(&4).unwrap() /= 15.0;
    let field = ModelField::of(&samples, |_| true).unwrap();
    assert!(field.ratio(3, 0).unwrap().median > 0.9);
    assert!(field.contenders.len() == 8 && field.costs_at_most(0).unwrap() < 0.2);
}

#[test]
fn model_cost_falls_with_rounds_and_rises_with_ratio() {
    let cost = |rounds, ratio| {
        let samples = measured(&mut Simulation::new(3), &[1.0, ratio, 1.0, 1.02], rounds, 0.05);
        ModelField::of(&samples, |_| true).unwrap().costs_at_most(1)
    };
    assert!(cost(6, 1.0).unwrap() > cost(40, 1.0).unwrap());
    assert!((0.05..0.2).contains(&cost(8, 1.06).unwrap()), "{:?}", cost(8, 1.06));
    assert_eq!(cost(12, 2.0), None, "it is no contender");
}

#[test]
fn model_of_one_method_or_round_tells_no_noise() {
    let alone = ModelField::of(&measured(&mut Simulation::new(4), &[1.0], 9, 0.1), |_| true).unwrap();
    assert_eq!((alone.leader, alone.costs_at_most(0)), (0, Some(0.0)));
    let once = ModelField::of(&measured(&mut Simulation::new(4), &[1.0, 3.0], 1, 0.1), |_| true).unwrap();
    assert_eq!((once.leader, once.contenders.len(), once.ratio(1, 0)), (0, 2, None));
    assert!(ModelField::of(&[Samples::default()], |_| true).is_none());
}

#[test]
fn model_quantiles_are_those_of_the_tables() {
    for (probability, normal_deviations, degrees, deviations) in [
        (0.001, 3.090, 10.0, 4.144),
        (0.0001, 3.719, 30.0, 4.234),
        (0.001, 3.090, 5.0, 5.893),
    ] {
        assert!((normal(probability) - normal_deviations).abs() < 0.05, "{probability}");
        let is_close = (student(normal_deviations, degrees) / deviations - 1.0).abs() < 0.02;
        assert!(is_close, "{probability}, {degrees}");
    }
}
