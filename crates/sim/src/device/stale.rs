//! Taking devices down: those that somebody ends, and those whose server died.
//!
//! What belongs to a device is asked of the kernel, and each step accepts that it was done before: a device can be taken down
//! after any crash, and by two commands at once. When a server dies or is aborted, the kernel answers for it with errors, and
//! nothing waits.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::control::{ControlRequest, ask};
use super::kernel::{abort, cover_of, detach, loops_below, loops_mounted_at, unmount_all, unmount_at};
use super::{DeviceError, DeviceName, DeviceState, PATIENCE, Result, devices, hold_devices, io_error, unless_gone};
use crate::trace::TRACE_END;

/// The files of a device's directory; the rest are mount points.
const FILES: [&str; 5] = ["control", "state.new", "state.json", "log", "lock"];
const MOUNT_POINTS: [&str; 2] = ["fuse", "mnt"];
/// With force, one that is still there after this time is open somewhere.
const PATIENCE_WITH_FORCE: Duration = Duration::from_secs(3);

/// Ends a device: unmounts it, frees the loop device, and waits for the server. What is in use is an error; with `is_forced`,
/// it disappears all the same, and ends when it is no longer used. Whether it is gone.
pub fn stop(name: &DeviceName, is_forced: bool) -> Result<bool> {
    let _held = take_down(name, is_forced)?;
    let since = Instant::now();
    while name.is_alive() {
        if is_forced && since.elapsed() > PATIENCE_WITH_FORCE {
            return Ok(false);
        }
        if since.elapsed() > PATIENCE {
            return Err(DeviceError::Busy {
                path: name.path("fuse"),
                by: "; it ends when the last process closes it".to_owned(),
            });
        }
        sleep(Duration::from_millis(5));
    }
    let trace = name.state().ok().and_then(|state| state.trace);
    remove(name)?;
    match trace.filter(|path| has_no_end(path)) {
        None => Ok(true),
        Some(path) => Err(DeviceError::Unfit {
            path,
            reason: "lacks the last requests, because writing them failed".to_owned(),
        }),
    }
}

/// Whether a trace is there that is not whole.
fn has_no_end(path: &Path) -> bool {
    let end = format!("{TRACE_END}\n");
    let mut last = vec![0; end.len()];
    File::open(path).is_ok_and(|file| {
        let bytes = file.metadata().map_or(0, |found| found.len());
        let read = file.read_exact_at(&mut last, bytes.saturating_sub(end.len() as u64));
        read.is_err() || last != end.as_bytes()
    })
}

/// Takes down all devices whose server is gone, and returns the names of those whose server died: at its regular end, it takes
/// its socket away.
pub fn take_down_stale() -> Result<Vec<DeviceName>> {
    if devices()?.is_empty() {
        return Ok(Vec::new());
    }
    let _held = hold_devices()?;
    let mut stale = devices()?;
    stale.retain(|name| !name.is_alive());
    let mut dead = Vec::new();
    let mut failed = Ok(());
    for name in stale {
        let has_died = name.path("control").exists();
        match take_down(&name, true).and_then(|_held| remove(&name)) {
            Ok(()) => dead.extend(has_died.then_some(name)),
            // The others go all the same.
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed.map(|()| dead)
}

/// Undoes what the kernel has of a device; its server then ends. The device is held until the file that it returns is closed.
pub(super) fn take_down(name: &DeviceName, is_lazy: bool) -> Result<File> {
    let point = name.path("fuse");
    // Requests that wait for power would keep it from being unmounted, and so would those that take long.
    let end = || {
        let told: Result<()> = ask(name, &ControlRequest::End { is_forced: is_lazy });
        // A server that was killed while the kernel works for it does not end, and does not answer.
        if is_lazy && told.is_err() {
            abort(&point)
        } else {
            Ok(())
        }
    };
    let held = match name.hold() {
        // What the other command waits for ends, too.
        Err(DeviceError::Busy { .. }) if is_lazy => end().and_then(|()| name.hold()),
        other => other,
    }?;
    end()?;
    let mut loops = loops_below(&point);
    // Below a mount that is gone, the kernel no longer knows the path of the file.
    loops.extend(loops_mounted_at(&name.path("mnt")));
    if let Ok(DeviceState {
        mount_point: Some(at),
        block_device,
        ..
    }) = name.state()
    {
        loops.extend(
            loops_mounted_at(&at)
                .into_iter()
                .filter(|device| Some(device) == block_device.as_ref()),
        );
    }
    for device in loops {
        unmount_all(&device, is_lazy)?;
        detach(&device)?;
    }
    unmount_all(&cover_of(name), is_lazy)?;
    // A device that is still open keeps the file system below it.
    let still_there = loops_below(&point);
    if let Some(device) = still_there.into_iter().next().filter(|_| !is_lazy) {
        return Err(DeviceError::Busy {
            path: device,
            by: "; close it, then stop it again".to_owned(),
        });
    }
    unmount_at(&name.path("mnt"), is_lazy)?;
    unmount_at(&point, is_lazy)?;
    Ok(held)
}

/// Removes what is left of a device that was taken down.
pub(super) fn remove(name: &DeviceName) -> Result<()> {
    if let Ok(state) = name.state() {
        // If somebody put something there, it stays.
        let _ = state.mount_point.filter(|_| state.made_mount_point).map(fs::remove_dir);
        let _ = state
            .backing
            .filter(|_| state.has_new_backing)
            .map(|path| remove_backing(&path, state.size_bytes));
    }
    for file in FILES {
        let path = name.path(file);
        unless_gone(fs::remove_file(&path)).map_err(io_error("remove", &path))?;
    }
    for point in MOUNT_POINTS {
        let path = name.path(point);
        match unless_gone(fs::remove_dir(&path)) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                let reason = "has files that were written when nothing was mounted there; move them away".to_owned();
                return Err(DeviceError::Unfit { path, reason });
            }
            other => other.map_err(io_error("remove", &path))?,
        }
    }
    unless_gone(fs::remove_dir(name.directory())).map_err(io_error("remove", &name.directory()))
}

/// Removes the backing file of a device that was not started, unless it is that of another device by now, or has other bytes.
fn remove_backing(path: &Path, size_bytes: u64) -> io::Result<()> {
    let file = File::open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    match file.metadata()?.len() {
        bytes if bytes == 0 || bytes == size_bytes => fs::remove_file(path),
        _ => Ok(()),
    }
}
