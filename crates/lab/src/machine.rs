//! The machine, as far as the system reports it to any user.
//!
//! These facts help to understand a result later. Only warnings depend on them.

use std::fs;
use std::path::{Path, PathBuf};

use seekless_record::Machine;

/// The machine that this runs on. Facts that the system does not report are `None`.
#[must_use]
pub fn machine() -> Machine {
    let memory = seekless_sys::memory().ok().and_then(seekless_sys::Support::available);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let system = match seekless_sys::system_name().as_str() {
        "Darwin" => "macOS".to_owned(),
        name => name.to_owned(),
    };
    Machine {
        host: seekless_sys::host_name(),
        system,
        kernel: seekless_sys::kernel_release(),
        architecture: std::env::consts::ARCH.to_owned(),
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        memory_bytes: memory.map(|memory| memory.total_bytes),
        memory_available_bytes: memory.map(|memory| memory.available_bytes),
        ..claims(Path::new("/"))
    }
}

/// Reads `/proc` and `/sys` of Linux below a root; on other systems, nothing is known.
fn claims(root: &Path) -> Machine {
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    Machine {
        processor: processor(&cpuinfo),
        hypervisor: hypervisor(root, &cpuinfo),
        governor: line(&root.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        level_1_cache_bytes: cache_bytes(root, "1"),
        level_2_cache_bytes: cache_bytes(root, "2"),
        on_battery: on_battery(&root.join("sys/class/power_supply")),
        ..Machine::default()
    }
}

/// The name in /proc/cpuinfo: `model name` on x86, `Model` or `Hardware` on boards that have one.
fn processor(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "Hardware", "cpu model"]
        .into_iter()
        .find_map(|key| field(cpuinfo, key))
}

/// The value of the first `KEY : VALUE` line.
fn field(cpuinfo: &str, key: &str) -> Option<String> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let value = fields.find(|(name, _)| name.trim() == key)?.1.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Xen names itself; others show in the firmware's tables; all show as a processor flag on x86.
fn hypervisor(root: &Path, cpuinfo: &str) -> Option<String> {
    if let Some(kind) = line(&root.join("sys/hypervisor/type")) {
        return Some(kind);
    }
    let firmware: Vec<String> = ["sys_vendor", "product_name"]
        .into_iter()
        .filter_map(|name| line(&root.join("sys/class/dmi/id").join(name)))
        .collect();
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if !is_virtual && !firmware.iter().any(|name| names_a_hypervisor(name)) {
        return None;
    }
    Some(if firmware.is_empty() {
        "unnamed".to_owned()
    } else {
        firmware.join(" ")
    })
}

/// The names by which systemd-detect-virt(1) recognizes hypervisors.
fn names_a_hypervisor(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "KVM",
        "QEMU",
        "VMware",
        "VirtualBox",
        "innotek",
        "Xen",
        "Bochs",
        "Parallels",
        "BHYVE",
        "Google Compute Engine",
    ];
    NAMES.iter().any(|known| name.contains(known)) || name == "Virtual Machine" || name == "Amazon EC2"
}

/// Whether a battery is being emptied and no mains adapter is on; `None` on a machine without either. Batteries of mice
/// and the like have the scope `Device`.
fn on_battery(supplies: &Path) -> Option<bool> {
    let (mut plugged, mut discharging, mut any) = (false, false, false);
    for supply in fs::read_dir(supplies).ok()?.flatten() {
        let value = |name: &str| line(&supply.path().join(name));
        if value("scope").as_deref() == Some("Device") {
            continue;
        }
        match value("type").as_deref() {
            Some("Mains" | "USB") => plugged |= value("online").as_deref() == Some("1"),
            Some("Battery") => discharging |= value("status").as_deref() == Some("Discharging"),
            _ => continue,
        }
        any = true;
    }
    any.then_some(discharging && !plugged)
}

/// The size of the first processor's cache of a level: of the data cache, if instructions have their own.
fn cache_bytes(root: &Path, level: &str) -> Option<u64> {
    let caches = root.join("sys/devices/system/cpu/cpu0/cache");
    let is_meant = |directory: &PathBuf| {
        let kind = line(&directory.join("type"));
        line(&directory.join("level")).as_deref() == Some(level) && matches!(kind.as_deref(), Some("Data" | "Unified"))
    };
    let entries = fs::read_dir(caches).ok()?.flatten();
    let directory = entries.map(|entry| entry.path()).find(is_meant)?;
    seekless_engine::method::parse_size(&line(&directory.join("size"))?).ok()
}

/// The file's first line, trimmed, if there is one.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The claims of a machine with these files below its root directory.
    fn claims_of(files: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        claims(root.path())
    }

    #[test]
    fn this_machine_has_a_name_processors_and_a_kernel() {
        let machine = machine();
        assert!(machine.processors > 0);
        assert!(!machine.system.is_empty() && !machine.kernel.is_empty() && !machine.architecture.is_empty());
    }

    #[test]
    fn a_laptop_tells_its_processor_governor_and_battery() {
        let processor = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu sse";
        let claims = claims_of(&[
            ("proc/cpuinfo", processor),
            ("sys/class/dmi/id/sys_vendor", "LENOVO"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
            ("sys/class/power_supply/AC/type", "Mains"),
            ("sys/class/power_supply/AC/online", "0"),
            ("sys/class/power_supply/BAT0/type", "Battery"),
            ("sys/class/power_supply/BAT0/status", "Discharging"),
        ]);
        assert_eq!(claims.processor.as_deref(), Some("Some CPU @ 2 GHz"));
        let expected = (None, Some("powersave"));
        assert_eq!((claims.hypervisor, claims.governor.as_deref()), expected);
        assert_eq!(claims.on_battery, Some(true));
    }

    #[test]
    fn a_guest_is_told_by_firmware_or_by_the_processor_s_flag() {
        let vendor = ("sys/class/dmi/id/sys_vendor", "QEMU");
        let firmware = [vendor, ("sys/class/dmi/id/product_name", "Standard PC")];
        for (files, hypervisor) in [
            (&[("proc/cpuinfo", "flags : fpu hypervisor sse")][..], "unnamed"),
            (&firmware, "QEMU Standard PC"),
            (&[("sys/hypervisor/type", "xen")], "xen"),
        ] {
            assert_eq!(claims_of(files).hypervisor.as_deref(), Some(hypervisor));
        }
    }

    #[test]
    fn the_processor_s_cache_for_data_is_told_from_that_for_code() {
        let machine = claims_of(&[
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Instruction"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "32K"),
            ("sys/devices/system/cpu/cpu0/cache/index1/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index1/type", "Data"),
            ("sys/devices/system/cpu/cpu0/cache/index1/size", "48K"),
        ]);
        let expected = (Some(48 << 10), None);
        assert_eq!((machine.level_1_cache_bytes, machine.level_2_cache_bytes), expected);
    }

    #[test]
    fn machine_battery_is_none_without_supplies_or_of_a_mouse() {
        assert_eq!(claims_of(&[]), Machine::default());
        let mouse = claims_of(&[
            ("sys/class/power_supply/mouse/type", "Battery"),
            ("sys/class/power_supply/mouse/scope", "Device"),
            ("sys/class/power_supply/mouse/status", "Discharging"),
        ]);
        assert_eq!(mouse.on_battery, None);
    }
}
