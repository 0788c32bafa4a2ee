//! The warnings of a run: caveats about its figures.

use seekless_record::{Cache, Contest, Device, Machine, Run, Trial};

use crate::labels::{has_small_files, has_target, title_in};
use crate::prediction::mispredicted;
use crate::samples::sorted;
use crate::statistics::median;
use crate::throttle::throttled;

/// The part of the bytes read from devices during trials that was not the trials' own; none where they read nothing
/// themselves, as when all is in memory.
#[must_use]
pub fn other_io(trials: &[Trial]) -> Option<f64> {
    let (mut all, mut other) = (0, 0);
    for trial in trials {
        let Some((device, read)) = trial.device.zip(trial.source_bytes) else {
            continue;
        };
        // What is written may be written later; only reads can be told apart.
        all += device.read_bytes;
        other += device.read_bytes.saturating_sub(read);
    }
    (other < all).then(|| other as f64 / all as f64)
}

/// A drift of the reference method beyond this is worth a warning.
const DRIFT: f64 = 1.25;
/// The part of reads by others from which on there is a warning.
pub(crate) const OTHER_IO: f64 = 0.05;
/// The part of steal time from which on there is a warning.
pub(crate) const STOLEN: f64 = 0.02;
/// The part of processor time used by others from which on there is a warning. On an idle machine, the kernel's threads that
/// write data back use a few per cent.
pub(crate) const OTHERS: f64 = 0.1;

/// What a reader should know about the figures, with what to do next.
#[must_use]
pub fn warnings(run: &Run) -> Vec<String> {
    let mut warnings = busy(run);
    let mut devices = run.storages.iter().filter_map(|storage| storage.device.as_ref());
    if devices.clone().any(|device| device.is_virtual == Some(true)) {
        warnings.push(
            "The disk is virtual: \"cold\" means cold for this guest, and the host may cache what it serves. Compare \
             methods, not absolute rates; rerun at another time."
                .to_owned(),
        );
    }
    warnings.extend(throttled(run));
    warnings.extend(mispredicted(run));
    if let Some(model) = devices.clone().find_map(Device::simulated) {
        warnings.push(format!(
            "The disk is simulated ({model}): times are those of a model. The processor, the page cache and the file system are those \
             of this machine."
        ));
    }
    let is_loop = |device: &&Device| device.name.starts_with("loop") && device.simulated().is_none();
    if let Some(device) = devices.find(is_loop) {
        warnings.push(format!(
            "{} is a loop device: its data comes from a file on another file system, which was dropped from the page cache, \
             too. The figures include both file systems; measure the disk below for its own figures.",
            device.name
        ));
    }
    warnings.extend(of_trials(run));
    warnings.extend(of_machine(&run.machine));
    let contests = run.contests.iter().zip(sorted(run));
    warnings.extend(contests.filter_map(|(contest, trials)| drift(run, contest, &trials)));
    warnings
}

/// What the trials were not: cold as far as the system tells, or valid.
fn of_trials(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_cold = |trial: &Trial| run.contests[trial.contest].cache == Cache::Cold;
    let is_unverified = |trial: &&Trial| trial.valid && trial.resident_before.is_none() && is_cold(trial);
    let unverified = run.trials.iter().filter(is_unverified).count();
    if unverified > 0 {
        warnings.push(format!(
            "{unverified} cold trials could not be verified: the system does not report what is in the page cache here. \
             Root can empty the whole page cache."
        ));
    }
    let has_warm_metadata =
        |contest: &Contest| contest.cache == Cache::Cold && has_small_files(contest) && !contest.cold_metadata;
    if run.contests.iter().any(has_warm_metadata) {
        warnings.push(
            "Only the data of cold files is cold: the metadata of small files may be in memory. Root can drop it, too."
                .to_owned(),
        );
    }
    let invalid = run.trials.iter().filter(|trial| !trial.valid).count();
    if invalid > 0 {
        let first = run.trials.iter().find_map(|trial| trial.invalid.as_deref());
        let first = first.unwrap_or_default();
        warnings.push(format!(
            "Invalid trials: {invalid} of {}, left out (the first: {first}). If there are more than a few, stop other \
             processes that read or write here.",
            run.trials.len()
        ));
    }
    warnings
}

fn of_machine(machine: &Machine) -> Vec<String> {
    let mut warnings = Vec::new();
    if matches!(machine.governor.as_deref(), Some("powersave" | "conservative")) {
        warnings
            .push("The frequency governor saves power: set it to `performance` before measuring CPU time.".to_owned());
    }
    if machine.on_battery == Some(true) {
        warnings.push("The machine runs on battery: plug it in and rerun.".to_owned());
    }
    warnings
}

/// A part in per cent, if it is more than `most`.
fn percent_beyond(part: Option<f64>, most: f64) -> Option<f64> {
    part.filter(|part| *part > most).map(|part| part * 100.0)
}

/// How busy others kept the machine.
#[must_use]
pub fn busy(run: &Run) -> Vec<String> {
    let others = percent_beyond(run.noise.others, OTHERS).map(|percent| {
        format!("The machine was busy: other processes used {percent:.0} % of the processor time. Stop them and rerun.")
    });
    let stolen = percent_beyond(run.noise.stolen, STOLEN).map(|percent| {
        format!("Steal time was {percent:.1} %: the host of this virtual machine was busy. Rerun at another time.")
    });
    let other_io = percent_beyond(run.noise.other_io, OTHER_IO).map(|percent| {
        format!(
            "{percent:.0} % of the bytes that the device read during trials were for other processes. Stop them and rerun."
        )
    });
    [others, stolen, other_io].into_iter().flatten().collect()
}

/// What changes how much of a run one may believe, in one line; `None` where nothing does.
#[must_use]
pub fn caution(run: &Run) -> Option<String> {
    let others = percent_beyond(run.noise.others, OTHERS);
    let others = others.map(|percent| format!("other processes used {percent:.0} % of the processors"));
    let stolen = percent_beyond(run.noise.stolen, STOLEN);
    let stolen = stolen.map(|percent| format!("the host took {percent:.0} % of the processors"));
    let other_io = percent_beyond(run.noise.other_io, OTHER_IO);
    let other_io = other_io.map(|percent| format!("{percent:.0} % of all reads were by other processes"));
    let ratios = sorted(run).into_iter().filter_map(|trials| drift_ratio(&trials));
    let ratios: Vec<f64> = ratios.collect();
    let drift = |drifted: Vec<f64>, change: &str| {
        let most = drifted.iter().copied().reduce(f64::max)?;
        let (contests, up_to) = match drifted.len() {
            1 => ("one contest".to_owned(), ""),
            several => (format!("{several} contests"), "up to "),
        };
        Some(format!("{contests} became {up_to}{most:.1}x {change} during the run"))
    };
    let slower = ratios.iter().copied().filter(|ratio| *ratio > DRIFT).collect();
    let faster = ratios
        .iter()
        .map(|ratio| 1.0 / ratio)
        .filter(|ratio| *ratio > DRIFT)
        .collect();
    let all = [
        others,
        stolen,
        other_io,
        drift(slower, "slower"),
        drift(faster, "faster"),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("Caution: {}.", all.join("; ")))
}

/// The time of a contest's reference, which runs in every round, at the end of the run over that at the beginning.
fn drift_ratio(trials: &[Vec<&Trial>]) -> Option<f64> {
    let seconds_of = |trials: &Vec<&Trial>| -> Vec<f64> {
        let valid = trials.iter().filter(|trial| trial.valid);
        valid.map(|trial| trial.compared_seconds()).collect()
    };
    let seconds = trials.iter().map(seconds_of).max_by_key(Vec::len)?;
    if seconds.len() < 6 {
        return None;
    }
    let third = seconds.len() / 3;
    let early = median(&seconds[..third])?;
    let late = median(&seconds[seconds.len() - third..])?;
    Some(late / early)
}

/// Whether the reference of a contest became faster or slower meanwhile.
fn drift(run: &Run, contest: &Contest, trials: &[Vec<&Trial>]) -> Option<String> {
    let ratio = drift_ratio(trials)?;
    // No device has a part in what is read from memory.
    let is_warm = contest.cache == Cache::Warm && !has_target(contest);
    let (times, change, cause, next) = if ratio > DRIFT {
        let cause = if is_warm {
            "CPU throttling, or other processes"
        } else {
            "throttling, a full write cache, or other users of the device"
        };
        (ratio, "slower", cause, "Let it idle, then rerun.")
    } else if ratio < 1.0 / DRIFT {
        let (cause, next) = if is_warm {
            ("other processes at the start", "Rerun when the machine is quieter.")
        } else {
            ("a cache below this system is filling", "Rerun with a larger --size.")
        };
        (1.0 / ratio, "faster", cause, next)
    } else {
        return None;
    };
    Some(format!(
        "{}: it became {times:.2}x {change} during the run (likely {cause}). Ratios come from the same rounds and are less \
         affected than absolute rates. {next}",
        title_in(run, contest)
    ))
}

#[cfg(test)]
mod tests {
    use seekless_record::{Cache, DeviceCounters, Run};

    use super::{caution, other_io, warnings};
    use crate::simulation::{self, trial};

    #[test]
    fn a_busy_machine_is_said_first() {
        let mut run = Run::default();
        run.machine.on_battery = Some(true);
        run.noise.others = Some(0.05);
        assert_eq!(warnings(&run).len(), 1, "a machine at rest does this much itself");
        run.noise.others = Some(0.634);
        run.noise.stolen = Some(0.03);
        let found = warnings(&run);
        assert!(found.len() >= 3, "{found:?}");
        let others = "other processes used 63 % of the processor time";
        for (found, words) in found.iter().zip([others, "Steal time was 3.0 %", "battery"]) {
            assert!(found.contains(words), "{found}");
        }
    }

    #[test]
    fn caution_is_one_line_of_what_disturbed_a_run() {
        let mut run = simulation::run(&[("read/mmap", 1.0)], 9);
        assert_eq!(caution(&run), None);
        run.noise.others = Some(0.86);
        assert_eq!(
            caution(&run).unwrap(),
            "Caution: other processes used 86 % of the processors."
        );
        for (number, trial) in run.trials.iter_mut().enumerate() {
            trial.seconds = if number < 4 { 1.0 } else { 1.4 };
        }
        let found = caution(&run).unwrap();
        assert!(
            found.ends_with("processors; one contest became 1.4x slower during the run."),
            "{found}"
        );
    }

    #[test]
    fn small_cold_files_whose_metadata_may_be_in_memory_are_told() {
        for (files, cold_metadata, is_told) in [(8, false, false), (9, false, true), (256, true, false)] {
            let mut run = simulation::run(&[("read/sync", 1.0)], 3);
            (run.contests[0].files, run.contests[0].cold_metadata) = (files, cold_metadata);
            let found = warnings(&run);
            let are_told = found.iter().any(|warning| warning.contains("metadata"));
            assert_eq!(are_told, is_told, "{found:?}");
        }
    }

    #[test]
    fn drift_in_memory_is_not_blamed_on_a_device() {
        for (cache, is_of_device) in [(Cache::Cold, true), (Cache::Warm, false)] {
            for slower in [true, false] {
                let mut run = simulation::run(&[("read/sync", 1.0)], 12);
                run.contests[0].cache = cache;
                for trial in run.trials.iter_mut().filter(|trial| (trial.round >= 6) == slower) {
                    trial.seconds = 2.0;
                }
                let found = warnings(&run);
                let [drift] = &found[..] else { panic!("{found:?}") };
                let factor = if slower { "2.00x slower" } else { "2.00x faster" };
                assert!(drift.contains(factor), "{drift}");
                let causes = ["device", "a cache below", "a full write cache"];
                let blames = causes.iter().any(|cause| drift.contains(cause));
                assert_eq!(blames, is_of_device, "{drift}");
            }
        }
    }

    #[test]
    fn what_others_read_is_told_beside_what_was_read_here_only() {
        let reading = |ours, all| {
            let mut trial = trial(0, 0, 1.0);
            trial.source_bytes = Some(ours);
            trial.device = Some(DeviceCounters {
                reads: 1,
                read_bytes: all,
                read_merges: None,
                writes: 0,
                write_bytes: 0,
                reliable: false,
            });
            trial
        };
        assert_eq!(other_io(&[reading(0, 0), reading(0, 4096)]), None);
        assert_eq!(other_io(&[reading(300, 400), reading(0, 0)]), Some(0.25));
    }
}
