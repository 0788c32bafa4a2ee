//! A profile of runs: for each method the times over the size of a file, by the one estimator over sittings ([`crate::pool`]).
//!
//! At each measured size, the logarithm of a method's time over that of the reference is shrunk towards the mean of its mechanism,
//! because methods that differ in a block size alone differ little, and the luckiest of many looks better than it is.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use seekless_method::{Choice, Method};
use seekless_record::{
    Conditions, Contest, Curve, CurvePoint, ERRORS_OF_BOUNDS, Entry, EntryVerdict, Interval, PROFILE_VERSION, Profile,
    ProfileCosts, ProfileHead, Run, Storage, StorageCosts, Trial,
};

use crate::between::BETWEEN;
use crate::pool::{Merged, is_alike, is_one_sitting, is_same_storage, sittings};

/// Of fewer methods of a mechanism, nothing is known of how far apart they lie.
const FEWEST_ALIKE: usize = 3;
/// The deviation between sittings of all methods counts as much as that of a method at this many sizes.
const SIZES_OF_ALL: f64 = 8.0;
/// The usual standard deviation, between sittings, of the logarithm of what is common to all methods, as on virtual disks.
const USUAL_LEVEL: f64 = 0.15;
/// The degrees of freedom of a usual deviation.
const DEGREES_OF_USUAL: f64 = 2.0;

/// The profiles of all storages of these runs, which are the user's own, the newest first. Runs of other revisions, kernels,
/// machines and devices than the newest of their storage are left out.
#[must_use]
pub fn digest(runs: &[Run]) -> Vec<Profile> {
    let (mut profiles, mut digested) = (Vec::new(), Vec::<&Storage>::new());
    for (at, run) in runs.iter().enumerate() {
        for storage in &run.storages {
            if digested.iter().any(|known| is_same_storage(known, storage)) {
                continue;
            }
            if let Some(profile) = profile(run, storage, &runs[at..]) {
                profiles.push(profile);
                digested.push(storage);
            }
        }
    }
    profiles
}

/// The profile of a storage of a run and of older ones; `None` if nothing can be told from one sitting to another.
fn profile(newest: &Run, storage: &Storage, runs: &[Run]) -> Option<Profile> {
    let (id, revision) = (storage.id.clone()?, newest.revision?);
    let alike = runs
        .iter()
        .filter(|run| run.id == newest.id && !run.alone || is_alike(newest, run));
    let alike: Vec<&Run> = alike.collect();
    let first = *alike.first()?;
    let (curves, sittings) = curves(&alike, storage);
    let head = ProfileHead {
        version: PROFILE_VERSION,
        seekless: first.seekless.clone(),
        newest_unix_seconds: unix_seconds(&first.started),
        sittings,
        machines: None,
        claims_rotational: None,
        revision,
        storage: id,
        mount_point: storage.mount_point.clone(),
        mount_options: storage.mount_options.clone(),
        processors: first.machine.processors,
        memory_bytes: first.machine.memory_bytes,
        alternating_ns: storage.alternating_ns,
        costs: costs(&alike, storage),
    };
    Some(Profile { head, curves })
}

/// The curves of a storage, and the most sittings that a point has.
fn curves(alike: &[&Run], storage: &Storage) -> (Vec<Curve>, u32) {
    let mut curves: HashMap<(Conditions, String), BTreeMap<u64, CurvePoint>> = HashMap::new();
    let mut levels: HashMap<Conditions, Vec<[f64; 2]>> = HashMap::new();
    let mut most_sittings = 0;
    for (at, &run) in alike.iter().enumerate() {
        for (index, contest) in run.contests.iter().enumerate() {
            let is_here = run
                .storages
                .get(contest.storage)
                .is_some_and(|found| is_same_storage(storage, found));
            let Some(conditions) = Conditions::of(contest).filter(|_| is_here) else {
                continue;
            };
            let is_known = |entry: &Entry| {
                let known = curves.get(&(conditions, entry.name().into_owned()));
                known.is_some_and(|points| points.contains_key(&contest.size_bytes))
            };
            // A newer run asked the same, and this one was combined with it.
            if contest.entries.iter().filter(|entry| is_method(entry)).all(is_known) {
                continue;
            }
            let Some(size) = SizeOfMethods::of(run, index, &alike[at + 1..], storage) else {
                continue;
            };
            let (points, level) = size.points();
            levels.entry(conditions).or_default().push(level);
            for (method, point) in points {
                most_sittings = most_sittings.max(point.sittings);
                let points = curves.entry((conditions, method)).or_default();
                points.entry(contest.size_bytes).or_insert(point);
            }
        }
    }
    let curves = curves.into_iter().map(|((conditions, method), points)| Curve {
        conditions,
        method,
        level_deviation: level_deviation(&levels[&conditions]),
        points: points.into_values().collect(),
    });
    let mut curves: Vec<Curve> = curves.collect();
    curves.sort_by_cached_key(|curve| (format!("{:?}", curve.conditions), curve.method.clone()));
    curves
        .chunk_by_mut(|one, other| one.conditions == other.conditions)
        .for_each(share_deviations);
    round_points(&mut curves);
    (curves, most_sittings)
}

/// The costs of a storage by all sittings that have them. Runs are given with the newest first; those of one sitting count as one.
fn costs(runs: &[&Run], storage: &Storage) -> Option<ProfileCosts> {
    let of_run = |run: &Run| {
        let found = run.storages.iter().find(|found| is_same_storage(storage, found));
        found?.costs.clone()
    };
    let newest = runs.iter().find(|run| of_run(run).is_some())?;
    let mut sittings: Vec<(&Run, Vec<StorageCosts>)> = Vec::new();
    for run in runs.iter().rev() {
        let Some(found) = of_run(run) else { continue };
        match sittings.last_mut() {
            Some((first, costs)) if is_one_sitting(first, run) => costs.push(found),
            _ => sittings.push((run, vec![found])),
        }
    }
    let of_each: Vec<StorageCosts> = sittings
        .into_iter()
        .filter_map(|(_, costs)| StorageCosts::pooled(costs))
        .collect();
    let sittings = u32::try_from(of_each.len()).unwrap_or(u32::MAX);
    let mut costs = StorageCosts::pooled(of_each)?;
    shorten(costs.all().into_iter().flat_map(figures_of));
    Some(ProfileCosts {
        costs,
        sittings,
        newest_unix_seconds: unix_seconds(&newest.started),
    })
}

/// The deviation of what is common to all methods, by what each size says of it. Sizes of one sitting share its level.
fn level_deviation(sizes: &[[f64; 2]]) -> f64 {
    let [squares, degrees] = [0, 1].map(|at| mean(sizes.iter().map(|size| size[at])).unwrap_or(0.0));
    moderated(USUAL_LEVEL, squares, degrees)
}

/// A deviation by some squares with these degrees of freedom, moderated by the usual one.
#[must_use]
pub fn moderated(usual: f64, squares: f64, degrees: f64) -> f64 {
    ((DEGREES_OF_USUAL * usual.powi(2) + squares) / (DEGREES_OF_USUAL + degrees)).sqrt()
}

/// The mean; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Widens the bounds of curves under the same conditions by the deviation between sittings. Two or three sittings say little about
/// that of one method at one size, so all sizes of the method count, and all methods.
pub fn share_deviations(curves: &mut [Curve]) {
    let squares = |curve: &Curve| curve.points.iter().map(|point| point.deviation.powi(2)).sum::<f64>();
    let sizes = curves.iter().map(|curve| curve.points.len()).sum::<usize>().max(1) as f64;
    let of_all = curves.iter().map(squares).sum::<f64>() / sizes;
    for curve in curves {
        let variance = (squares(curve) + SIZES_OF_ALL * of_all) / (curve.points.len() as f64 + SIZES_OF_ALL);
        for point in &mut curve.points {
            point.deviation = variance.sqrt();
            let error = (point.seconds.high / point.seconds.median).ln() / ERRORS_OF_BOUNDS;
            point.seconds = bounds(point.seconds.median, error.hypot(point.deviation));
        }
    }
}

/// The bounds of seconds whose logarithm has this standard error.
#[must_use]
pub fn bounds(seconds: f64, error: f64) -> Interval {
    Interval::around(seconds, (ERRORS_OF_BOUNDS * error).exp(), Some(0.95))
}

fn unix_seconds(started: &str) -> u64 {
    let started = started.parse::<Timestamp>().map_or(0, Timestamp::as_second);
    started.try_into().unwrap_or(0)
}

fn cpu_part(trial: &Trial) -> f64 {
    (trial.user_seconds + trial.system_seconds) / trial.seconds.max(f64::MIN_POSITIVE)
}

fn is_method(entry: &Entry) -> bool {
    matches!(entry.choice(), Some(Choice::Method(_))) && entry.summary.is_some()
}

/// The methods of a contest at its size, over all sittings.
struct SizeOfMethods<'a> {
    run: &'a Run,
    merged: Merged,
}

impl<'a> SizeOfMethods<'a> {
    /// Those of a contest of a run, and those of older runs under the same conditions.
    fn of(run: &'a Run, index: usize, older: &[&Run], storage: &Storage) -> Option<Self> {
        let mut contest = run.contests[index].clone();
        let alike = |one: &Contest| (one.size_bytes, one.files, one.cold_metadata, Conditions::of(one));
        let asked = alike(&contest);
        let same = |other: &Run| {
            other.contests.iter().position(|found| {
                alike(found) == asked
                    && (other.storages.get(found.storage)).is_some_and(|found| is_same_storage(storage, found))
            })
        };
        for &other in older {
            for entry in same(other).iter().flat_map(|&found| &other.contests[found].entries) {
                if is_method(entry) && contest.entries.iter().all(|known| known.name() != entry.name()) {
                    contest.entries.push(entry.clone());
                }
            }
        }
        for entry in &mut contest.entries {
            if entry.verdict.why_excluded().is_none() {
                entry.verdict = EntryVerdict::Measured;
            }
        }
        let together = sittings(run, older.iter().copied());
        let merged = Merged::of(run, index, contest, &together, same)?;
        Some(Self { run, merged })
    }

    /// The point of each method, and what is known of the level of all: the sum of its squares over the sittings, and their degrees
    /// of freedom.
    fn points(&self) -> (Vec<(String, CurvePoint)>, [f64; 2]) {
        let judged = self.merged.judged();
        let Some(field) = judged.all() else {
            return Default::default();
        };
        let known = self
            .merged
            .contest
            .entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| {
                let is_counted = entry.verdict.why_excluded().is_none();
                let Some(Choice::Method(method)) = entry.choice().filter(|_| is_counted) else {
                    return None;
                };
                let (effect, bounds) = (field.model.effects[at]?, field.model.seconds(at)?);
                Some(MethodEffect {
                    at,
                    method,
                    log_seconds: effect.log_seconds,
                    // Of few rounds, little is known of the variance, too.
                    error: (bounds.high / bounds.median).ln() / ERRORS_OF_BOUNDS,
                    deviation: if effect.between > 0.0 {
                        effect.between.sqrt()
                    } else {
                        BETWEEN
                    },
                })
            });
        let known: Vec<MethodEffect> = known.collect();
        let points = known.iter().filter_map(|own| {
            let point = self.point(&own.shrunk(&known))?;
            (point.bytes > 0 && point.seconds.high.is_finite()).then(|| (own.method.to_string(), point))
        });
        let sittings = &self.merged.sittings;
        let levels = sittings.iter().filter_map(|sitting| {
            let over = |one: &MethodEffect| Some(sitting.effects[one.at]?.log_seconds - one.log_seconds);
            mean(known.iter().filter_map(over))
        });
        let squares = levels.map(|level| level * level).sum();
        (points.collect(), [squares, sittings.len().saturating_sub(1) as f64])
    }

    fn point(&self, effect: &MethodEffect) -> Option<CurvePoint> {
        let files = f64::from(self.merged.contest.files.max(1));
        Some(CurvePoint {
            bytes: self.merged.contest.size_bytes,
            seconds: bounds(effect.log_seconds.exp() / files, effect.error),
            deviation: effect.deviation,
            setup_seconds: self.merged.median_of(effect.at, |trial| trial.setup_seconds)?,
            cpu_part: self.merged.median_of(effect.at, cpu_part)?,
            sittings: u32::try_from(self.merged.sittings.len()).unwrap_or(u32::MAX),
            newest_unix_seconds: unix_seconds(&self.run.started),
        })
    }
}

/// Rounds the figures of all points to seven digits: a plan reads short figures faster, and no sitting is more exact.
pub fn round_points(curves: &mut [Curve]) {
    for point in curves.iter_mut().flat_map(|curve| &mut curve.points) {
        shorten(figures_of(&mut point.seconds));
        shorten([&mut point.deviation, &mut point.setup_seconds, &mut point.cpu_part]);
    }
}

/// Rounds figures to seven digits.
fn shorten<'a>(figures: impl IntoIterator<Item = &'a mut f64>) {
    for figure in figures {
        *figure = format!("{figure:.6e}").parse().unwrap_or(*figure);
    }
}

fn figures_of(Interval { low, median, high, .. }: &mut Interval) -> [&mut f64; 3] {
    [low, median, high]
}

/// The time of a method over all sittings.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MethodEffect {
    /// The place of its entry.
    at: usize,
    method: Method,
    log_seconds: f64,
    /// The standard error of the logarithm.
    error: f64,
    /// The standard deviation of the logarithm between sittings.
    deviation: f64,
}

impl MethodEffect {
    /// Shrunk towards the mean of its mechanism, as far as it is uncertain compared with how far apart its methods lie.
    fn shrunk(self, all: &[Self]) -> Self {
        let mechanism = self.method.mechanism().id;
        let alike = all.iter().filter(|other| other.method.mechanism().id == mechanism);
        let alike: Vec<&Self> = alike.collect();
        let count = alike.len() as f64;
        if alike.len() < FEWEST_ALIKE {
            return self;
        }
        let mean = alike.iter().map(|one| one.log_seconds).sum::<f64>() / count;
        let squares = alike.iter().map(|one| (one.log_seconds - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let noise = alike.iter().map(|one| one.error * one.error).sum::<f64>() / count;
        // The variance of the methods themselves, by the method of moments.
        let apart = (squares - noise).max(0.0);
        let kept = apart / (apart + self.error * self.error).max(f64::MIN_POSITIVE);
        Self {
            log_seconds: mean + kept * (self.log_seconds - mean),
            error: (kept * self.error * self.error + (1.0 - kept).powi(2) * noise / count).sqrt(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::Cache;

    use super::*;
    use crate::simulation;

    fn run(day: u32, methods: &[(&str, f64)]) -> Run {
        let run = simulation::concluded(simulation::run(methods, 8));
        simulation::sitting(run, format!("run-{day}"), format!("2026-11-{day:02}T10:00:00Z"))
    }

    const METHODS: [(&str, f64); 2] = [("read/sync,block=1M", 2.0), ("read/mmap", 1.0)];

    fn only(runs: &[Run]) -> Profile {
        let mut profiles = digest(runs);
        assert_eq!(profiles.len(), 1);
        profiles.remove(0)
    }

    #[test]
    fn a_profile_has_the_time_of_each_method_at_each_size() {
        let mut other_size = run(2, &METHODS);
        other_size.contests[0].size_bytes = 1 << 20;
        let profile = only(&[run(3, &METHODS), other_size, run(1, &METHODS)]);
        assert_eq!((profile.curves.len(), profile.head.sittings), (2, 2));
        let mapped = &profile.curves[0];
        assert_eq!((&*mapped.method, mapped.conditions.cache), ("read/mmap", Cache::Cold));
        let points = mapped.points.iter();
        let sizes: Vec<(u64, u32)> = points.map(|point| (point.bytes, point.sittings)).collect();
        assert_eq!(sizes, [(1 << 20, 1), (64 << 20, 2)]);
        for curve in &profile.curves {
            let seconds = if curve.method == "read/mmap" { 1.0 } else { 2.0 };
            for Interval { low, median, high, .. } in curve.points.iter().map(|point| point.seconds) {
                let is_between = low < seconds && seconds < high;
                assert!((median / seconds - 1.0).abs() < 1e-6 && is_between, "{median}");
            }
        }
        let text = profile.to_text().unwrap();
        assert_eq!(Profile::from_text(text.as_bytes()).unwrap(), profile);
    }

    #[test]
    fn a_profile_has_the_costs_of_all_sittings_that_measured_them() {
        let with = |day: u32, nanoseconds: f64| {
            let mut run = run(day, &METHODS);
            let cost = Interval::around(nanoseconds, 2.0, None);
            run.storages[0].costs = Some(StorageCosts {
                write_call_ns: cost,
                write_byte_ns: cost,
                device_byte_ns: cost,
                flush_ns: cost,
                read_call_ns: cost,
                read_byte_ns: cost,
                fill_byte_ns: cost,
                fetch_byte_ns: cost,
                scattered_ns: cost,
            });
            run
        };
        // Runs within an hour are one sitting.
        let mut again = with(4, 30.0);
        (again.id, again.started) = ("again".to_owned(), "2026-11-04T10:20:00Z".to_owned());
        let profile = only(&[
            run(5, &METHODS),
            again,
            with(4, 30.0),
            with(3, 10.0 / 3.0),
            with(2, 1.0),
        ]);
        let mut known = profile.head.costs.clone().unwrap();
        let newest = unix_seconds("2026-11-04T10:20:00Z");
        assert_eq!((known.sittings, known.newest_unix_seconds), (3, newest));
        for cost in known.costs.all() {
            assert_eq!((cost.low, cost.median, cost.high), (1.666_667, 3.333_333, 6.666_667));
        }
        let text = profile.to_text().unwrap();
        assert_eq!(Profile::from_text(text.as_bytes()).unwrap(), profile);
        assert!(Profile::from_text(text.replacen("3.333333", "-1.0", 1).as_bytes()).is_err());
        assert_eq!(only(&[run(5, &METHODS)]).head.costs, None);
    }

    #[test]
    fn without_a_uuid_each_mount_point_has_a_profile_of_its_own() {
        let at = |mount_point: &str, uuid: Option<&str>| {
            let mut run = run(1, &METHODS);
            run.storages[0].mount_point = Some(mount_point.to_owned());
            run.storages[0].id.as_mut().unwrap().uuid = uuid.map(str::to_owned);
            run
        };
        assert_eq!(digest(&[at("/a", None), at("/b", None)]).len(), 2);
        assert_eq!(digest(&[at("/a", Some("0-1")), at("/b", Some("0-1"))]).len(), 1);
    }

    type RunChange = fn(&mut Run);

    #[test]
    fn what_is_not_comparable_is_left_out() {
        let changed = |change: RunChange| {
            let mut other = run(1, &METHODS);
            change(&mut other);
            digest(&[run(3, &METHODS), other])
        };
        let left_out: [(&str, RunChange); 6] = [
            ("alone", |run| run.alone = true),
            ("revision", |run| run.revision.as_mut().unwrap().mechanisms = 2),
            ("machine", |run| run.machine.processors = 99),
            ("work", |run| run.contests[0].work_ns_per_kib = 1),
            ("kernel", |run| run.contests[0].kernel = "histogram".to_owned()),
            ("shared", |run| run.contests[0].shared_blocks = true),
        ];
        for (name, change) in left_out {
            let profiles = changed(change);
            assert_eq!((profiles.len(), profiles[0].head.sittings), (1, 1), "{name}");
        }
        let of_its_own: [RunChange; 2] = [
            |run| run.storages[0].id.as_mut().unwrap().kernel = "7.0".to_owned(),
            |run| run.storages[0].mount_options = Some("sync".to_owned()),
        ];
        assert_eq!(of_its_own.map(|change| changed(change).len()), [2; 2]);
        let mut alone = run(3, &METHODS);
        alone.alone = true;
        assert_eq!(digest(&[alone]).len(), 0);
    }

    #[test]
    fn digest_moderates_the_deviation_of_one_size_by_others() {
        let point = |bytes: u64, deviation: f64| CurvePoint {
            bytes,
            seconds: bounds(1.0, 0.1),
            deviation,
            ..CurvePoint::default()
        };
        let curve = |deviations: [f64; 2]| Curve {
            points: vec![point(1, deviations[0]), point(2, deviations[1])],
            ..Curve::default()
        };
        let mut curves = [curve([0.0, 0.0]), curve([0.2, 0.0])];
        share_deviations(&mut curves);
        let [steady, moved] = curves.map(|curve| curve.points[0].clone());
        // The mean of all squares is 0.01; of two sizes, those of one method are 0 and 0.02.
        for (point, variance) in [(steady, 8.0 * 0.01 / 10.0), (moved, (0.04 + 8.0 * 0.01) / 10.0)] {
            assert!((point.deviation.powi(2) - variance).abs() < 1e-12, "{point:?}");
            let error = (point.seconds.high / point.seconds.median).ln() / ERRORS_OF_BOUNDS;
            assert!((error - 0.1_f64.hypot(variance.sqrt())).abs() < 1e-12, "{point:?}");
        }
    }

    #[test]
    fn a_method_that_only_an_older_run_measured_is_known_too() {
        let third = ("read/sync,block=16K", 3.0);
        let profile = only(&[run(3, &METHODS), run(1, &[METHODS[0], METHODS[1], third])]);
        assert_eq!(profile.curves.len(), 3);
    }

    #[test]
    fn digest_shrinks_uncertain_methods_to_their_mechanism() {
        let of = |error: f64| {
            let methods = ["sync,block=16K", "sync,block=128K", "sync,block=1M", "mmap"];
            let effects = [0, 1, 2, 3].map(|at| MethodEffect {
                at: 0,
                method: format!("read/{}", methods[at]).parse().unwrap(),
                log_seconds: [0.0, 0.1, 0.2, 9.0][at],
                error,
                deviation: 0.05,
            });
            effects.map(|own| own.shrunk(&effects).log_seconds)
        };
        let certain = of(1e-4);
        let are_kept = certain[0].abs() < 1e-4 && (certain[2] - 0.2).abs() < 1e-4;
        assert!(are_kept, "{certain:?}");
        let uncertain = of(1.0);
        let mut logs = uncertain[..3].iter();
        assert!(logs.all(|log| (log - 0.1).abs() < 1e-9), "{uncertain:?}");
        assert!((uncertain[3] - 9.0).abs() < 1e-9, "of another mechanism");
        let between = of(0.07);
        assert!(between[0] > 0.01 && between[0] < 0.09, "{between:?}");
    }
}
