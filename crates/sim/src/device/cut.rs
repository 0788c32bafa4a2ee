//! Power cuts: the device of a generation ends with what its disk lost, the next one comes back, and its file system recovers.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;

use super::control::{ControlRequest, ask, lose_power};
use super::kernel::{RETRIES, RETRY_AFTER, detach, loops_below, mount, set_queue, unmount_all};
use super::start::attach;
use super::{DeviceError, DeviceName, Result};
use crate::medium::CutReport;
use crate::power::PowerLoss;

/// Cuts the power of devices at the same moment, or completes a cut that a fault began. Programs that use them get errors from then on.
/// Their file systems are mounted again at the same places, and recover, which no fault disturbs. Without a loss, it follows from `seed`.
pub fn cut(devices: &[(&DeviceName, Option<PowerLoss>)], seed: u64) -> Result<Vec<CutReport>> {
    let mut names: Vec<_> = devices.iter().map(|(name, _)| *name).collect();
    names.sort();
    let _held = names.into_iter().map(DeviceName::hold).collect::<Result<Vec<File>>>()?;
    for (name, _) in devices {
        lose_power(name)?;
    }
    // A program that waits for one of them keeps all from being unmounted.
    let cut = |(name, loss): &(&DeviceName, _)| ask(name, &ControlRequest::Cut { loss: *loss, seed });
    let reports = devices.iter().map(cut).collect::<Result<Vec<CutReport>>>()?;
    for ((name, _), report) in devices.iter().zip(&reports) {
        begin(name, report.generation)?;
    }
    Ok(reports)
}

/// Makes btrfs forget a device, which may be in use for a moment after it was unmounted. Of a file system that it knows it would refuse the
/// older state, and give that another identity for as long as it is mounted. Where there is no `btrfs`, mounting says so.
fn forget(device: &Path) {
    for _ in 0..RETRIES {
        let forgotten = Command::new("btrfs")
            .args(["device", "scan", "-u"])
            .arg(device)
            .output();
        if forgotten.map_or(true, |output| output.status.success()) {
            return;
        }
        sleep(RETRY_AFTER);
    }
}

/// Puts the device of a generation in the place of the last one.
fn begin(name: &DeviceName, generation: u64) -> Result<()> {
    let mut state = name.state()?;
    let model = state.model()?;
    for old in loops_below(&name.path("fuse")) {
        // Programs end a moment later than their files; a shell in it may stay.
        match unmount_all(&old, false) {
            Err(DeviceError::Busy { .. }) => unmount_all(&old, true)?,
            other => other?,
        }
        if state.file_system.as_deref() == Some("btrfs") {
            forget(&old);
        }
        detach(&old)?;
    }
    let device = attach(name, generation, model)?;
    state.block_device = Some(device.clone());
    name.save(&state)?;
    set_queue(&device, &model.claims)?;
    mount(&state, &device)?;
    set_queue(&device, &model.claims)?;
    ask(name, &ControlRequest::GoOn)
}
