//! Taking devices down: those that somebody ends, and those whose server died.
//!
//! What belongs to a device is asked of the kernel, and each step accepts that it was done before: a device can be taken down
//! after any crash, and by two commands at once. When a server dies or is aborted, the kernel answers for it with errors, and
//! nothing waits.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::control::{ControlRequest, ask, report};
use super::cut::is_power_lost;
use super::kernel::{abort, is_mount_point, loops_below, unmount, unmount_all};
use super::{DeviceError, DeviceName, Result, devices, failed, hold_devices, unless_gone};
use crate::medium::CutReport;

/// The files of a device's directory; the rest are mount points.
const FILES: [&str; 5] = ["control", "state.new", "state.json", "log", "lock"];
const MOUNT_POINTS: [&str; 2] = ["fuse", "mnt"];
/// A server ends this soon after its last request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends a device: unmounts it, frees the loop device, and waits for the server. What is in use is an error; with `is_forced`,
/// it disappears all the same, and ends when it is no longer used.
pub fn stop(name: &DeviceName, is_forced: bool) -> Result<()> {
    if !name.directory().is_dir() {
        return Err(DeviceError::Unknown(name.as_str().to_owned()));
    }
    take_down(name, is_forced)?;
    let since = Instant::now();
    while name.is_alive() {
        if since.elapsed() > PATIENCE {
            return Err(DeviceError::Busy {
                path: name.path("fuse"),
                by: "; its server ends when it no longer is".to_owned(),
            });
        }
        sleep(Duration::from_millis(5));
    }
    remove(name)
}

/// Takes down all devices whose server died, and returns their names.
pub fn take_down_stale() -> Result<Vec<DeviceName>> {
    if devices()?.is_empty() {
        return Ok(Vec::new());
    }
    let _held = hold_devices()?;
    let mut stale = devices()?;
    stale.retain(|name| !name.is_alive());
    for name in &stale {
        take_down(name, true)?;
        remove(name)?;
    }
    Ok(stale)
}

/// Undoes what the kernel has of a device; its server then ends.
pub(super) fn take_down(name: &DeviceName, is_lazy: bool) -> Result<()> {
    let point = name.path("fuse");
    // If the power of the device is gone, its requests wait for a cut, and unmounting would wait for them.
    if is_power_lost(name).is_ok_and(|is_lost| is_lost) {
        let _: CutReport = ask(name, &ControlRequest::Cut { loss: None, seed: 0 })?;
    }
    // A server that was killed while the kernel works for it does not end, and does not answer.
    if is_lazy && report(name).is_err() {
        abort(&point)?;
    }
    for device in loops_below(&point) {
        unmount_all(&device, is_lazy)?;
        match seekless_sys::detach_loop(&device) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("free", &device)(error)),
        }
    }
    // A device that is still open keeps the file system below it.
    let still_there = loops_below(&point);
    if let Some(device) = still_there.into_iter().next().filter(|_| !is_lazy) {
        return Err(DeviceError::Busy {
            path: device,
            by: "; it ends when it is closed, and then stop it again".to_owned(),
        });
    }
    while is_mount_point(&point) {
        unmount(&point, is_lazy)?;
    }
    Ok(())
}

/// Removes what is left of a device that was taken down.
pub(super) fn remove(name: &DeviceName) -> Result<()> {
    if let Ok(state) = name.state()
        && state.made_mount_point
        && let Some(point) = state.mount_point
    {
        // If somebody put something there, it stays.
        let _ = fs::remove_dir(point);
    }
    for file in FILES {
        let path = name.path(file);
        unless_gone(fs::remove_file(&path)).map_err(failed("remove", &path))?;
    }
    for point in MOUNT_POINTS {
        let path = name.path(point);
        unless_gone(fs::remove_dir(&path)).map_err(failed("remove", &path))?;
    }
    unless_gone(fs::remove_dir(name.directory())).map_err(failed("remove", &name.directory()))
}
