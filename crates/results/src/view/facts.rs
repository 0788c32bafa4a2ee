//! The circumstances of a run, a line each: storages, machine, what measuring costs, processor, and the run itself.

use seekless_record::{Device, Ended, Run, Storage};

use crate::statistics::median;
use crate::units::{chosen_size, counted, duration, rate, seconds};

/// What each line is about, and the line.
pub(super) fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let storages = run.storages.iter().map(|storage| ("Storage", storage_line(storage)));
    let others = [
        ("Machine", machine(run)),
        ("Lab", lab(run)),
        ("Processor", processor(run)),
        ("Run", run_line(run)),
    ];
    storages.chain(others).collect()
}

fn joined(words: impl IntoIterator<Item = Option<String>>, between: &str) -> String {
    words.into_iter().flatten().collect::<Vec<_>>().join(between)
}

/// The device and the file system of a storage, as in `vda1, ext4, virtual disk`.
#[must_use]
pub fn storage_words(storage: &Storage) -> String {
    let device = storage.device.as_ref();
    let below = device.filter(|device| !device.below.is_empty());
    let is_virtual = device.is_some_and(|device| device.is_virtual == Some(true));
    let simulated = device.and_then(Device::simulated);
    let below = below.filter(|_| simulated.is_none());
    let words = [
        simulated.map(|model| format!("simulated: {model}")),
        device.map(|device| device.name.clone()),
        Some(storage.file_system.clone()),
        below.map(|device| format!("on {}", device.below.join(", "))),
        is_virtual.then(|| "virtual disk".to_owned()),
        device.and_then(|device| device.model.clone()),
    ];
    joined(words, ", ")
}

/// Below this difference, random reads count as costing no more than sequential ones.
const FLAT_NS: f64 = 50_000.0;

fn storage_line(storage: &Storage) -> String {
    let rotates = storage.device.as_ref().and_then(|device| device.claims_rotational);
    let seeks = storage.alternating_ns.map(|ns| {
        if ns < FLAT_NS {
            "random reads cost no more than sequential ones".to_owned()
        } else {
            format!("a random read costs {} more than a sequential one", seconds(ns / 1e9))
        }
    });
    let facts = joined([rotates.map(rotation_claim), seeks], "; ");
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    format!("{}: {}{facts}", storage.path, storage_words(storage))
}

/// What a device claims about its rotation.
#[must_use]
pub fn rotation_claim(rotates: bool) -> String {
    let kind = if rotates { "rotational" } else { "non-rotational" };
    format!("reports as {kind}")
}

fn machine(run: &Run) -> String {
    let machine = &run.machine;
    let memory = machine.memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
    let caches = machine.level_1_cache_bytes.zip(machine.level_2_cache_bytes);
    let words = [
        Some(counted(machine.processors.into(), "core")),
        memory.map(|memory| format!("{memory:.0} GiB")),
        caches.map(|(one, two)| format!("caches of {} and {}", chosen_size(one), chosen_size(two))),
        Some(format!("{} {}", machine.system, machine.kernel)),
    ];
    let percent = |name: &str, part: Option<f64>| {
        let percent = part.map(|part| part * 100.0).filter(|percent| percent.is_finite())?;
        Some(format!("{percent:.1} % {name}"))
    };
    let noise = [
        percent("of reads by other processes", run.noise.other_io),
        percent("steal time", run.noise.stolen),
        percent("CPU used by other processes", run.noise.others),
    ];
    format!("{}; noise: {}", joined(words, ", "), joined(noise, ", "))
}

/// The cost of measuring, and the speed at which test data is generated.
fn lab(run: &Run) -> String {
    let cost = &run.lab_cost;
    let touches = cost
        .first_touch_bytes_per_second
        .zip(cost.second_touch_bytes_per_second);
    let words = [
        median(&cost.null_seconds).map(|null| format!("a trial that does nothing takes {}", seconds(null))),
        cost.producer_bytes_per_second
            .map(|speed| format!("test data is generated at {}", rate(speed))),
        touches.map(|(first, second)| format!("memory: first touch {}, second touch {}", rate(first), rate(second))),
    ];
    joined(words, "; ")
}

fn processor(run: &Run) -> String {
    let machine = &run.machine;
    let words = [
        machine.processor.clone(),
        Some(machine.architecture.clone()),
        machine.hypervisor.as_ref().map(|name| format!("virtual ({name})")),
        machine.governor.as_ref().map(|name| format!("governor {name}")),
    ];
    joined(words, ", ")
}

fn run_line(run: &Run) -> String {
    let resumed = match run.resumed_at_seconds.len() {
        0 => None,
        1 => Some("resumed once".to_owned()),
        times => Some(format!("resumed {times} times")),
    };
    let words = [
        Some(format!(
            "{} trials in {}",
            run.trials.len(),
            duration(run.elapsed_seconds)
        )),
        (run.ended == Ended::Interrupted).then(|| "interrupted".to_owned()),
        resumed,
        Some(format!("by seekless {}", run.seekless)),
        Some(format!("seed {}", run.seed)),
        Some(format!("page cache dropped by {}", run.drop.name())),
    ];
    let started = run.started.replacen('T', " ", 1).replace('Z', " UTC");
    format!("{started}: {}", joined(words, ", "))
}
