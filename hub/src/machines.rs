//! One profile over several machines with storages of one kind, each of which counts once.
//!
//! At each size, a median polish (Tukey, *Exploratory Data Analysis*, 1977) splits the logarithms of the seconds into that of the method,
//! that of the machine, and the rest. A fast disk is fast by all methods, so the spread of what is common to them is kept apart from
//! that of each, as it is between sittings.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use seekless_method::REVISION;
use seekless_record::{
    Conditions, Curve, CurvePoint, DEVIATION_BETWEEN_STORAGES, DeviceId, ERRORS_OF_BOUNDS, Interval, Profile,
    ProfileCosts, ProfileHead, Run, Storage, StorageCosts, StorageId,
};

use seekless_results::DeviceKind;
use seekless_results::digest::{bounds, digest, moderated, round_points, share_deviations};
use seekless_results::statistics::{mean, median};

/// At most this many runs of a machine are used, the newest ones.
const MOST_RUNS: usize = 64;
/// Steps of the polish.
const STEPS: usize = 24;

/// What a machine says of its storages of a kind with a file system, by its runs, which may be anonymous.
pub fn digest_of_machine(kind: DeviceKind, file_system: &str, runs: &[Run]) -> Vec<Profile> {
    digest(&identified(runs, &|storage| {
        DeviceKind::of(storage) == kind && storage.file_system == file_system
    }))
}

/// The profile of a kind of storage over several machines, by what [`digest_of_machine`] says of each. Runs of other revisions than
/// the newest that is known here are left out. `None` if nothing is left.
pub fn digest_of_kind(kind: DeviceKind, machines: Vec<Vec<Profile>>) -> Option<Profile> {
    let mut profiles = machines;
    let revision = |profile: &Profile| (profile.head.revision.mechanisms, profile.head.revision.protocol);
    let known = profiles
        .iter()
        .flatten()
        .map(revision)
        .filter(|found| found.0 <= REVISION);
    let newest = known.max()?;
    for of_machine in &mut profiles {
        of_machine.retain(|profile| revision(profile) == newest && !profile.curves.is_empty());
    }
    profiles.retain(|of_machine| !of_machine.is_empty());
    let curves = curves(&profiles);
    let sittings = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|point| point.sittings);
    let sittings = sittings.max()?;
    let mut head = head(&profiles, sittings)?;
    head.claims_rotational = match kind {
        DeviceKind::RotatingDisk => Some(true),
        DeviceKind::SteadyDisk => Some(false),
        _ => None,
    };
    Some(Profile { head, curves })
}

/// The newest runs, of which only the storages that are asked for have an identity: it is made of what is not private.
fn identified(runs: &[Run], is_asked: &dyn Fn(&Storage) -> bool) -> Vec<Run> {
    let mut runs: Vec<&Run> = runs.iter().filter(|run| run.storages.iter().any(is_asked)).collect();
    runs.sort_by_cached_key(|run| std::cmp::Reverse(run.started.parse::<Timestamp>().ok()));
    runs.truncate(MOST_RUNS);
    let mut runs: Vec<Run> = runs.into_iter().cloned().collect();
    for run in &mut runs {
        let kernel = StorageId::kernel_of(&run.machine.kernel);
        for storage in &mut run.storages {
            storage.id = is_asked(storage).then(|| public_id(storage, &kernel));
        }
    }
    runs
}

fn public_id(storage: &Storage, kernel: &str) -> StorageId {
    let chain = storage.device.iter().flat_map(|device| {
        let below = device
            .below
            .iter()
            .map(|name| (name, (*name == device.name).then_some(&device.model)));
        let own = (&device.name, Some(&device.model));
        std::iter::once(own).chain(below)
    });
    StorageId {
        file_system: storage.file_system.clone(),
        uuid: None,
        devices: chain
            .map(|(name, model)| DeviceId {
                name: name.clone(),
                model: model.cloned().flatten(),
                serial: None,
            })
            .collect(),
        kernel: kernel.to_owned(),
        read_ahead_kib: storage.device.as_ref().and_then(|device| device.read_ahead_kib),
    }
}

/// What most have; of as many, the least. `None` of nothing.
fn commonest<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = BTreeMap::<T, usize>::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let most = *counts.values().max()?;
    counts
        .into_iter()
        .find_map(|(value, count)| (count == most).then_some(value))
}

/// What all have; `None` if they differ.
fn shared<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

/// What is known of all machines. What differs is left out: the kernel is an empty text, and the processors are none.
fn head(profiles: &[Vec<Profile>], sittings: u32) -> Option<ProfileHead> {
    let heads = || profiles.iter().flatten().map(|profile| &profile.head);
    let newest = heads().max_by_key(|head| head.newest_unix_seconds)?;
    let names =
        |head: &ProfileHead| -> Vec<String> { head.storage.devices.iter().map(|device| device.name.clone()).collect() };
    let chain = commonest(profiles.iter().map(|of_machine| names(&of_machine[0].head)))?;
    let models = |head: &ProfileHead| -> Vec<Option<String>> {
        head.storage.devices.iter().map(|device| device.model.clone()).collect()
    };
    let models = shared(heads().map(|head| Some(models(head)))).unwrap_or_default();
    let devices = chain.into_iter().enumerate().map(|(at, name)| DeviceId {
        name,
        model: models.get(at).cloned().flatten(),
        serial: None,
    });
    Some(ProfileHead {
        sittings,
        machines: u32::try_from(profiles.len()).ok(),
        storage: StorageId {
            devices: devices.collect(),
            kernel: shared(heads().map(|head| Some(head.storage.kernel.clone()))).unwrap_or_default(),
            read_ahead_kib: shared(heads().map(|head| head.storage.read_ahead_kib)),
            ..newest.storage.clone()
        },
        mount_options: shared(heads().map(|head| head.mount_options.clone())),
        processors: shared(heads().map(|head| Some(head.processors))).unwrap_or(0),
        memory_bytes: shared(heads().map(|head| head.memory_bytes)),
        alternating_ns: median(&heads().filter_map(|head| head.alternating_ns).collect::<Vec<_>>()),
        costs: costs(profiles),
        ..newest.clone()
    })
}

fn costs(profiles: &[Vec<Profile>]) -> Option<ProfileCosts> {
    let of_machine = |of_machine: &Vec<Profile>| -> Option<ProfileCosts> {
        let known = of_machine.iter().filter_map(|profile| profile.head.costs.clone());
        pooled_costs(known.collect())
    };
    pooled_costs(profiles.iter().filter_map(of_machine).collect())
}

fn pooled_costs(all: Vec<ProfileCosts>) -> Option<ProfileCosts> {
    Some(ProfileCosts {
        sittings: all.iter().fold(0, |sum, one| sum.saturating_add(one.sittings)),
        newest_unix_seconds: all.iter().map(|one| one.newest_unix_seconds).max()?,
        costs: StorageCosts::pooled(all.into_iter().map(|one| one.costs).collect())?,
    })
}

/// What machines say of one size, by method and by machine.
type OfSize = BTreeMap<String, BTreeMap<usize, CurvePoint>>;

fn curves(profiles: &[Vec<Profile>]) -> Vec<Curve> {
    let mut all: HashMap<Conditions, BTreeMap<u64, OfSize>> = HashMap::new();
    let mut of_sittings: HashMap<Conditions, Vec<f64>> = HashMap::new();
    for (machine, profiles) in profiles.iter().enumerate() {
        let mut own: HashMap<(Conditions, &String, u64), Vec<&CurvePoint>> = HashMap::new();
        for curve in profiles.iter().flat_map(|profile| &profile.curves) {
            of_sittings
                .entry(curve.conditions)
                .or_default()
                .push(curve.level_deviation.powi(2));
            for point in &curve.points {
                own.entry((curve.conditions, &curve.method, point.bytes))
                    .or_default()
                    .push(point);
            }
        }
        for ((conditions, method, bytes), points) in own {
            let of_size = all.entry(conditions).or_default().entry(bytes).or_default();
            let point = typical(points.iter().copied(), middle(&points));
            of_size.entry(method.clone()).or_default().insert(machine, point);
        }
    }
    let mut conditions: Vec<Conditions> = all.keys().copied().collect();
    conditions.sort_by_cached_key(|conditions| format!("{conditions:?}"));
    let curves = conditions.into_iter().flat_map(|conditions| {
        let sittings = mean(&of_sittings[&conditions]).unwrap_or(0.0);
        curves_under(conditions, &all[&conditions], sittings)
    });
    curves.collect()
}

/// The curves under the same conditions, where the variance of what is common to a machine's sittings is this.
fn curves_under(conditions: Conditions, sizes: &BTreeMap<u64, OfSize>, of_sittings: f64) -> Vec<Curve> {
    let mut points: BTreeMap<&String, Vec<CurvePoint>> = BTreeMap::new();
    let mut levels = Vec::new();
    for of_size in sizes.values() {
        let polish = Polish::of(of_size);
        levels.push([
            polish.levels.values().map(|level| level * level).sum::<f64>(),
            polish.levels.len() as f64 - 1.0,
        ]);
        for (method, machines) in of_size {
            points
                .entry(method)
                .or_default()
                .push(polish.point(method, machines, of_size.len()));
        }
    }
    let [squares, degrees] =
        [0, 1].map(|at| mean(&levels.iter().map(|size| size[at]).collect::<Vec<_>>()).unwrap_or(0.0));
    let level_deviation = moderated(DEVIATION_BETWEEN_STORAGES, squares, degrees).hypot(of_sittings.sqrt());
    let curves = points.into_iter().map(|(method, points)| Curve {
        conditions,
        method: method.clone(),
        level_deviation,
        points,
    });
    let mut curves: Vec<Curve> = curves.collect();
    share_deviations(&mut curves);
    round_points(&mut curves);
    curves
}

/// The logarithm of each method's seconds, and what is common to those of each machine, with a median of 0.
struct Polish<'a> {
    logs: BTreeMap<&'a str, f64>,
    levels: BTreeMap<usize, f64>,
}

impl<'a> Polish<'a> {
    fn of(of_size: &'a OfSize) -> Self {
        let mut polish = Self {
            logs: BTreeMap::new(),
            levels: BTreeMap::new(),
        };
        for _ in 0..STEPS {
            let mut of_machines: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for (method, machines) in of_size {
                let over = machines
                    .iter()
                    .map(|(machine, point)| log(point) - polish.level(*machine));
                let log_seconds = median(&over.collect::<Vec<_>>()).unwrap_or(0.0);
                polish.logs.insert(method, log_seconds);
                for (machine, point) in machines {
                    of_machines.entry(*machine).or_default().push(log(point) - log_seconds);
                }
            }
            let levels = of_machines
                .into_iter()
                .map(|(machine, over)| (machine, median(&over).unwrap_or(0.0)));
            polish.levels = levels.collect();
            let middle = median(&polish.levels.values().copied().collect::<Vec<_>>()).unwrap_or(0.0);
            for level in polish.levels.values_mut() {
                *level -= middle;
            }
            for log_seconds in polish.logs.values_mut() {
                *log_seconds += middle;
            }
        }
        polish
    }

    fn level(&self, machine: usize) -> f64 {
        self.levels.get(&machine).copied().unwrap_or(0.0)
    }

    /// The point of one of some methods, with what its machines do not have in common as its deviation.
    fn point(&self, method: &str, machines: &BTreeMap<usize, CurvePoint>, methods: usize) -> CurvePoint {
        let log_seconds = self.logs[method];
        let over = machines
            .iter()
            .map(|(machine, point)| log(point) - log_seconds - self.level(*machine));
        let squares: f64 = over.map(|over| over * over).sum();
        let count = machines.len() as f64;
        let degrees = (count - 1.0) * (1.0 - 1.0 / methods as f64);
        // That of the next machine, and that of the median of these.
        let deviation = moderated(DEVIATION_BETWEEN_STORAGES, squares, degrees) * (1.0 + 1.0 / count).sqrt();
        CurvePoint {
            deviation,
            ..typical(machines.values(), log_seconds)
        }
    }
}

fn log(point: &CurvePoint) -> f64 {
    point.seconds.median.max(f64::MIN_POSITIVE).ln()
}

fn middle(points: &[&CurvePoint]) -> f64 {
    median(&points.iter().map(|point| log(point)).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// A point with this logarithm of the seconds, which is otherwise as these are; there is at least one.
fn typical<'a>(points: impl Iterator<Item = &'a CurvePoint> + Clone, log_seconds: f64) -> CurvePoint {
    let middle = |of: fn(&CurvePoint) -> f64| median(&points.clone().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
    let error = |point: &CurvePoint| {
        let Interval { median, high, .. } = point.seconds;
        ((high / median).ln() / ERRORS_OF_BOUNDS).powi(2)
    };
    CurvePoint {
        bytes: points.clone().map(|point| point.bytes).max().unwrap_or(0),
        seconds: bounds(log_seconds.exp(), middle(error).sqrt()),
        deviation: middle(|point| point.deviation),
        setup_seconds: middle(|point| point.setup_seconds),
        cpu_part: middle(|point| point.cpu_part),
        sittings: points.clone().fold(0, |sum, point| sum.saturating_add(point.sittings)),
        newest_unix_seconds: points.map(|point| point.newest_unix_seconds).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use seekless_record::{Device, Revision};

    use super::*;
    use seekless_results::{Known, anonymous, simulation};

    /// An anonymous run of a day on a machine's storage with these times.
    fn run(day: u32, device: &str, seconds: [f64; 2]) -> Run {
        let mut run = simulation::run(&[("read/mmap", seconds[0]), ("read/sync,block=1M", seconds[1])], 8);
        run.started = format!("2026-11-{day:02}T10:00:00Z");
        run.seed = u64::from(day);
        run.revision = Some(Revision {
            protocol: 1,
            mechanisms: REVISION,
        });
        run.machine.kernel = "6.18.44".to_owned();
        run.storages[0].file_system = "ext4".to_owned();
        run.storages[0].device = Some(Device {
            name: format!("{device}1"),
            below: vec![device.to_owned()],
            model: Some("Samsung SSD 860".to_owned()),
            claims_rotational: Some(false),
            ..Device::default()
        });
        let known = Known {
            experiment: |_| None,
            is_kernel: |name| name == "count",
            layout: |_| None,
        };
        anonymous(&run, &known)
    }

    fn of_kind(machines: &[Vec<Run>]) -> Option<Profile> {
        let of_machine = |runs: &Vec<Run>| digest_of_machine(DeviceKind::SteadyDisk, "ext4", runs);
        digest_of_kind(DeviceKind::SteadyDisk, machines.iter().map(of_machine).collect())
    }

    fn point(profile: &Profile, method: &str) -> CurvePoint {
        let curve = profile.curves.iter().find(|curve| curve.method == method).unwrap();
        assert_eq!(curve.points.len(), 1);
        curve.points[0].clone()
    }

    #[test]
    fn a_machine_with_many_runs_counts_once() {
        let mut machines = vec![vec![run(1, "sda", [1.0, 2.0])], vec![run(2, "sda", [1.0, 2.0])]];
        machines.push((1..9).map(|day| run(day, "sdb", [5.0, 10.0])).collect());
        let profile = of_kind(&machines).unwrap();
        for (method, seconds) in [("read/mmap", 1.0), ("read/sync,block=1M", 2.0)] {
            let found = point(&profile, method);
            assert!((found.seconds.median - seconds).abs() < 1e-5, "{method}: {found:?}");
            assert_eq!(found.sittings, 10);
        }
        assert_eq!((profile.head.machines, profile.head.sittings), (Some(3), 10));
        assert_eq!(profile.head.claims_rotational, Some(false));
        let storage = &profile.head.storage;
        assert_eq!(
            (
                storage.kernel.as_str(),
                storage.devices[1].model.as_deref(),
                &storage.uuid
            ),
            ("6.18", Some("Samsung SSD 860"), &None)
        );
        let text = profile.to_text().unwrap();
        assert_eq!(Profile::from_text(text.as_bytes()).unwrap(), profile);
    }

    #[test]
    fn the_bounds_include_the_spread_between_machines() {
        let width = |ratios: &[f64]| {
            let machines = ratios.iter().map(|&ratio| vec![run(1, "sda", [1.0, ratio])]);
            let profile = of_kind(&machines.collect::<Vec<_>>()).unwrap();
            let Interval { low, high, .. } = point(&profile, "read/sync,block=1M").seconds;
            (high / low).ln()
        };
        let steady = width(&[2.0; 12]);
        let spread = width(&[1.0, 4.0, 1.5, 3.0, 2.0, 2.5, 1.2, 3.3, 2.1, 1.9, 1.4, 2.8]);
        assert!(spread > 1.5 * steady, "{spread} {steady}");
        assert!(width(&[2.0]) > 1.5 * steady, "one machine says little of others");
    }

    #[test]
    fn a_machine_that_is_slow_by_all_methods_moves_their_level_only() {
        let of = |times: [f64; 6]| {
            let machines = times.map(|times| vec![run(1, "sda", [times, 2.0 * times])]);
            of_kind(&machines).unwrap()
        };
        let (alike, unlike) = (of([1.0; 6]), of([0.3, 0.5, 1.0, 1.0, 2.0, 3.0]));
        assert!(unlike.curves[0].level_deviation > 2.0 * alike.curves[0].level_deviation);
        let seconds = [&unlike, &alike].map(|profile| point(profile, "read/mmap").seconds);
        let [unlike, alike] = seconds.map(|seconds| [seconds.low, seconds.median, seconds.high]);
        for (one, other) in unlike.into_iter().zip(alike) {
            assert!((one / other - 1.0).abs() < 1e-3, "{one} {other}");
        }
        // A method that slow machines alone measured is not slow for that.
        let mut machines = [1.0, 1.0, 4.0].map(|times| vec![run(1, "sda", [times, 2.0 * times])]);
        for runs in &mut machines[..2] {
            runs[0].contests[0].entries.truncate(1);
            runs[0].trials.retain(|trial| trial.entry == 0);
        }
        let seconds = point(&of_kind(&machines).unwrap(), "read/sync,block=1M").seconds.median;
        assert!((seconds - 2.0).abs() < 1e-3, "{seconds}");
    }

    #[test]
    fn other_kinds_file_systems_and_unknown_revisions_are_left_out() {
        let good = vec![run(1, "sda", [1.0, 2.0])];
        let mut changes = [0; 3].map(|_| run(2, "sda", [9.0, 9.0]));
        changes[0].storages[0].device.as_mut().unwrap().claims_rotational = Some(true);
        changes[1].storages[0].file_system = "xfs".to_owned();
        changes[2].revision.as_mut().unwrap().mechanisms = REVISION + 1;
        for other in changes {
            assert_eq!(of_kind(&[vec![other.clone()]]), None);
            assert_eq!(
                of_kind(&[good.clone(), vec![other]]),
                of_kind(std::slice::from_ref(&good))
            );
        }
        assert_eq!(of_kind(&[]), None);
    }
}
