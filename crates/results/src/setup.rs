//! How machine, run and storage were set up: properties by name, which a comparison of runs compares and a report lists.

use seekless_record::{Run, Storage};

/// A name, and what is known.
pub(crate) type Property = (&'static str, Option<String>);

/// The properties of machine and run. A machine has no name in an anonymous run.
pub(crate) fn run_setup(run: &Run) -> [Property; 7] {
    let machine = &run.machine;
    let battery = machine.on_battery.map(|is_on| if is_on { "yes" } else { "no" });
    [
        ("host", machine.host.clone()),
        ("kernel", Some(machine.kernel.clone())),
        ("seekless", Some(run.seekless.clone())),
        ("governor", machine.governor.clone()),
        ("hypervisor", machine.hypervisor.clone()),
        ("on battery", battery.map(str::to_owned)),
        ("page cache dropped by", Some(run.drop.name().to_owned())),
    ]
}

/// The properties of a storage; those of its device last, if it has one.
#[must_use]
pub fn storage_setup(storage: &Storage) -> Vec<Property> {
    let own = [
        ("directory", Some(storage.path.clone())),
        ("mount options", storage.mount_options.clone()),
    ];
    let device = storage.device.iter().flat_map(|device| {
        [
            ("device", Some(device.name.clone())),
            ("scheduler", device.scheduler.clone()),
            ("read-ahead", device.read_ahead_kib.map(|kib| format!("{kib} KiB"))),
            ("write cache", device.write_cache.clone()),
        ]
    });
    own.into_iter().chain(device).collect()
}
