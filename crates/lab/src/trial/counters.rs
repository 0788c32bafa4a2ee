//! Counters of the system, read before and after a trial.

use std::fs;
use std::path::Path;

use seekless_record::DeviceUse;
use seekless_sys::{self as sys, ProcessIo, Usage, Whose};

use super::Spec;
use super::system::SystemCounters;

/// The counters that are read before and after.
pub(super) struct Counters {
    pub usage: Usage,
    pub io: Option<ProcessIo>,
    pub device: Option<DeviceUse>,
    pub system: SystemCounters,
}

impl Counters {
    pub fn now(spec: &Spec) -> Self {
        let whose = if spec.is_of_command() {
            Whose::Children
        } else {
            Whose::Process
        };
        Self {
            usage: sys::usage(whose).unwrap_or_default(),
            // The I/O of a command is added to that of its parent when it has ended.
            io: sys::process_io().ok().and_then(sys::Support::available),
            device: devices_use(spec),
            system: SystemCounters::now(),
        }
    }
}

/// The sum of the counters of all devices of a trial; `None` if one of them has none.
fn devices_use(spec: &Spec) -> Option<DeviceUse> {
    let mut devices = spec
        .device_directories
        .iter()
        .map(|directory| device_use(Path::new(directory)));
    let first = devices.next()??;
    devices.try_fold(first, |sum, next| Some(combined(sum, next?, u64::saturating_add)))
}

/// The requests that a device has completed; `None` if unknown.
pub fn requests_of(directory: &Path) -> Option<u64> {
    device_use(directory).map(|device| device.reads + device.writes)
}

/// Combines each count of one with that of the other.
pub(super) fn combined(one: DeviceUse, other: DeviceUse, with: fn(u64, u64) -> u64) -> DeviceUse {
    let merges = one.read_merges.zip(other.read_merges);
    DeviceUse {
        reads: with(one.reads, other.reads),
        read_bytes: with(one.read_bytes, other.read_bytes),
        read_merges: merges.map(|(one, other)| with(one, other)),
        writes: with(one.writes, other.writes),
        write_bytes: with(one.write_bytes, other.write_bytes),
        reliable: false,
    }
}

/// Reads a device's `stat` (the kernel's Documentation/block/stat.rst): requests and sectors of 512 bytes.
fn device_use(directory: &Path) -> Option<DeviceUse> {
    let text = fs::read_to_string(directory.join("stat")).ok()?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    Some(DeviceUse {
        reads: *numbers.first()?,
        read_merges: numbers.get(1).copied(),
        read_bytes: numbers.get(2)? * 512,
        writes: *numbers.get(4)?,
        write_bytes: numbers.get(6)? * 512,
        reliable: false,
    })
}
