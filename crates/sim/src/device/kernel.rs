//! What the kernel has made of devices: loop devices, mounts, and the settings of their queues.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::{DeviceError, DeviceName, DeviceState, Result, io_error};
use crate::models::Claims;

/// Programs that look at new devices use them for a moment.
pub(super) const RETRIES: u32 = 100;
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The largest request that FUSE passes on as one.
const REQUEST_MAX_KIB: u32 = 1024;

/// The loop devices of files below a directory, as paths in `/dev`.
pub(super) fn loops_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let backing = fs::read(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(&OsString::from_vec(backing)).starts_with(directory) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found
}

/// The loop devices that are mounted at a path.
pub(super) fn loops_mounted_at(path: &Path) -> Vec<PathBuf> {
    let is_loop = |source: &Path| source.as_os_str().as_encoded_bytes().starts_with(b"/dev/loop");
    let here = mounts().into_iter().filter(|(_, point)| point == path);
    here.map(|(source, _)| source)
        .filter(|source| is_loop(source))
        .collect()
}

/// All mounts, each with its source and its mount point, in the order of mounting.
fn mounts() -> Vec<(PathBuf, PathBuf)> {
    let text = fs::read("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &[u8]| {
        let mut words = line.split(|&byte| byte == b' ').map(unescaped);
        Some((words.next()?, words.next()?))
    };
    text.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Whether something is mounted at a path.
pub(super) fn is_mount_point(path: &Path) -> bool {
    mounts().iter().any(|(_, point)| point == path)
}

/// A path of `/proc/self/mounts`, where blanks and backslashes are octal.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let code = code.filter(|_| byte == b'\\');
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    OsString::from_vec(bytes).into()
}

/// Mounts the file system of a device, if it has one, where it belongs. XFS is the only one that refuses a second device with the
/// same file system, as the last one is where it is still in use.
pub(super) fn mount(state: &DeviceState, device: &Path) -> Result<()> {
    let (Some(point), Some(file_system)) = (&state.mount_point, &state.file_system) else {
        return Ok(());
    };
    let options = match file_system.as_str() {
        // Otherwise, threads of the kernel read all bitmaps after mounting, and write zeros to all tables.
        "ext4" => Some(c"no_prefetch_block_bitmaps,noinit_itable"),
        "xfs" => Some(c"nouuid"),
        _ => None,
    };
    let mounted = rustix::mount::mount(device, point, file_system.as_str(), MountFlags::empty(), options);
    mounted.map_err(|errno| io_error("mount", point)(errno.into()))?;
    // What making it or recovery left in memory is no work of the disk.
    let root = File::open(point).map_err(io_error("open", point))?;
    rustix::fs::syncfs(&root).map_err(|errno| io_error("sync", point)(errno.into()))
}

/// Covers the mount point of a device with an empty read-only file system: while the power is off,
/// writes by path would otherwise go to the directory below.
pub(super) fn cover(name: &DeviceName, state: &DeviceState) -> Result<()> {
    let Some(point) = &state.mount_point else {
        return Ok(());
    };
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let covered = rustix::mount::mount(cover_of(name), point, "tmpfs", flags, Some(c"size=4k,mode=755"));
    covered.map_err(|errno| io_error("cover", point)(errno.into()))
}

/// The source by which the cover of a device is found among all mounts.
pub(super) fn cover_of(name: &DeviceName) -> PathBuf {
    PathBuf::from(format!("seekless-sim-{}", name.as_str()))
}

/// Frees a loop device, or lets it end when it is closed.
pub(super) fn detach(device: &Path) -> Result<()> {
    let detached = seekless_sys::detach_loop(device).map(drop);
    super::unless_gone(detached).map_err(io_error("free", device))
}

/// Unmounts all mounts of a device or another source. With `is_lazy`, a mount in use disappears now,
/// and is unmounted when it is no longer in use.
pub(super) fn unmount_all(device: &Path, is_lazy: bool) -> Result<()> {
    for (_, point) in mounts().iter().rev().filter(|(source, _)| source == device) {
        unmount(point, is_lazy)?;
    }
    Ok(())
}

/// Unmounts all that is mounted at a path, one above the other.
pub(super) fn unmount_at(path: &Path, is_lazy: bool) -> Result<()> {
    let mut here = mounts().into_iter().filter(|(_, point)| point == path);
    here.try_for_each(|_| unmount(path, is_lazy))
}

/// Unmounts a file system, unless nothing is mounted there.
fn unmount(point: &Path, is_lazy: bool) -> Result<()> {
    let flags = UnmountFlags::NOFOLLOW;
    for _ in 0..RETRIES {
        match rustix::mount::unmount(point, flags) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if is_lazy => break,
            Err(Errno::BUSY) => sleep(RETRY_AFTER),
            Err(_) if is_lazy => break,
            Err(errno) => return Err(io_error("unmount", point)(errno.into())),
        }
    }
    if is_lazy {
        let done = rustix::mount::unmount(point, flags | UnmountFlags::DETACH);
        return done.map_err(|errno| io_error("unmount", point)(errno.into()));
    }
    Err(DeviceError::Busy {
        path: point.to_owned(),
        by: users_of(point),
    })
}

/// The processes that have files of a mount open or work in it, for a message.
fn users_of(point: &Path) -> String {
    let Ok(processes) = fs::read_dir("/proc") else {
        return String::new();
    };
    let is_in = |link: PathBuf| fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    let is_user = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        is_in(process.join("cwd")) || is_in(process.join("root")) || files.into_iter().any(|file| is_in(file.path()))
    };
    // `self` and `thread-self` name this process once more.
    let is_process = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = processes.flatten().filter(|entry| is_process(&entry.file_name()));
    let users = processes.filter(|process| is_user(&process.path()));
    let names = users.map(|process| {
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        format!("{} ({})", name.trim_end(), process.file_name().display())
    });
    let names: Vec<String> = names.take(4).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" by {}", names.join(", ")),
    }
}

/// Ends a FUSE connection, so that nobody waits for a server that does not answer: its files give errors from now on.
pub(super) fn abort(point: &Path) -> Result<()> {
    // The third field of a mount is its device, `0:MINOR`, and connections are named by it.
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let minor = text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut words = line.split(|&byte| byte == b' ').skip(2);
        let device = std::str::from_utf8(words.next()?).ok()?;
        (unescaped(words.nth(1)?) == point).then(|| device.strip_prefix("0:"))?
    });
    let Some(minor) = minor else { return Ok(()) };
    let connections = Path::new("/sys/fs/fuse/connections");
    if fs::read_dir(connections).is_ok_and(|mut entries| entries.next().is_none()) {
        let mounted = rustix::mount::mount("fusectl", connections, "fusectl", MountFlags::empty(), None);
        mounted.map_err(|errno| io_error("mount", connections)(errno.into()))?;
    }
    let path = connections.join(minor).join("abort");
    super::unless_gone(fs::write(&path, "1")).map_err(io_error("write", &path))
}

/// Makes the kernel treat a loop device as it would treat the disk, and reads back what it took. Mounting changes some of it.
pub(super) fn set_queue(device: &Path, claims: &Claims) -> Result<()> {
    let Some(name) = device.file_name() else { return Ok(()) };
    let queue = Path::new("/sys/block").join(name).join("queue");
    set(&queue.join("rotational"), &u8::from(claims.rotational).to_string())?;
    set(&queue.join("max_sectors_kb"), &REQUEST_MAX_KIB.to_string())?;
    let write_cache = if claims.is_flushed {
        "write back"
    } else {
        "write through"
    };
    set(&queue.join("write_cache"), write_cache)?;
    if claims.rotational {
        // A disk without TRIM. Kernels that lack mq-deadline keep what they have: it orders requests, but is no part of the disk.
        set(&queue.join("discard_max_bytes"), "0")?;
        let _ = fs::write(queue.join("scheduler"), "mq-deadline");
    } else {
        set(&queue.join("scheduler"), "none")?;
    }
    // Last, because a change of a limit sets the window anew.
    set(&queue.join("read_ahead_kb"), &claims.read_ahead_kib.to_string())?;
    // btrfs has a read-ahead window of its own.
    for file_system in fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten() {
        if file_system.path().join("devices").join(name).exists() {
            let own = file_system.path().join("bdi/read_ahead_kb");
            set(&own, &claims.read_ahead_kib.to_string())?;
        }
    }
    Ok(())
}

fn set(path: &Path, wanted: &str) -> Result<()> {
    fs::write(path, wanted).map_err(io_error("write", path))?;
    let text = fs::read_to_string(path).map_err(io_error("read", path))?;
    // Of several words, the brackets are around the one that counts.
    let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text).trim();
    if chosen == wanted {
        return Ok(());
    }
    let reason = format!("is {chosen} after {wanted} was written to it");
    Err(io_error("set", path)(io::Error::other(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_mount_points_are_read_back() {
        assert_eq!(unescaped(br"/mnt/a\040b\134c"), Path::new(r"/mnt/a b\c"));
        assert_eq!(unescaped(br"/mnt/end\04"), Path::new(r"/mnt/end\04"));
    }

    #[test]
    fn the_root_is_a_mount_point_and_is_used_by_this_process() {
        assert!(is_mount_point(Path::new("/")));
        assert!(!is_mount_point(Path::new("/no/such/point")));
        let users = users_of(Path::new("/"));
        assert!(!users.is_empty() && !users.contains("self)"), "{users}");
    }
}
