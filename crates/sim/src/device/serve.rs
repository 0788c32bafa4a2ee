//! The server: a process in the background that has the bytes, the drive and the FUSE session of one device.
//!
//! It is below the page cache: when memory is short, the kernel writes to the device to get some, and the server must answer
//! without waiting for memory. So it is an `IO_FLUSHER` (`PR_SET_IO_FLUSHER`), what it has touched stays in memory (mlockall), and
//! it leaves the memory group of whoever started it: in a full one it would wait for pages that it is to write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::MlockAllFlags;
use seekless_sys::{LeaseKind, PathWalk, refuse_planted};

use super::filesystem::DeviceFiles;
use super::fuse::Connection;
use super::identity::serial;
use super::pace::{Pacer, Recorder};
use super::{DeviceError, DeviceName, DeviceState, Result, control, io_error, is_same_file};
use crate::drive::Drive;
use crate::medium::Medium;
use crate::power::{TORN_BYTES, WriteCache};
use crate::trace::{TRACE_BEGINS, TRACE_END, TRACE_HEADER, TracedRequest};

/// Where bytes are without a file that the user named: on a disk, and not in memory.
pub(super) const UNNAMED_IN: &str = "/var/tmp";
/// Threads that move bytes.
const WORKERS: usize = 2;
/// The lowest priority that no ordinary task comes before.
const REAL_TIME: u8 = 1;

/// Serves a device until it is unmounted. Standard output says `ready` once it can be attached. If standard input ends before
/// anything was read from it, whoever started the device was killed, and `stop` takes it down.
pub fn serve(name: &DeviceName, stop: impl Fn() -> Command + Send + 'static) -> Result<()> {
    prepare_process()?;
    let _alive = name.live()?;
    let state = name.state()?;
    // If the starter was killed before this process held the lock, its device is gone, and another one may have the name.
    if state.starter != std::os::unix::process::parent_id() {
        return Err(DeviceError::Server("the process that started it has ended".to_owned()));
    }
    let model = state.model()?;
    let cache = WriteCache::new(model.claims.write_cache_bytes, TORN_BYTES);
    let medium = Arc::new(Medium::new(open_backing(&state)?, cache));
    let drive = Drive::new(model, state.size_bytes, state.seed);
    let (recorder, trace) = state.trace.as_deref().map(record_to).transpose()?.unzip();
    let pacer = Arc::new(Pacer::new(drive, recorder));
    let running = spawn("pacer", {
        let pacer = pacer.clone();
        move || pacer.run()
    })?;

    let point = name.path("fuse");
    let source = format!("seekless-sim:{}:{}", state.model, serial(name, &state));
    let connection = Connection::mount(&source, &point)?;
    let files = Arc::new(DeviceFiles::new(medium.clone(), state.size_bytes, pacer.clone()));
    let start = |_| {
        let (connection, files) = (connection.clone(), files.clone());
        spawn("worker", move || {
            connection.serve(|request, reply| files.serve(request, reply))
        })
    };
    let workers: Vec<JoinHandle<_>> = (0..WORKERS).map(start).collect::<Result<_>>()?;
    control::listen(name, &pacer, &medium)?;
    spawn("starter", move || {
        let is_started = stdin().read(&mut [0]).is_ok_and(|bytes| bytes > 0);
        if !is_started {
            take_down(&mut stop());
        }
    })?;
    // Whoever started it may be gone already.
    let _ = writeln!(stdout(), "ready");

    // All of them end before the first error is told.
    let join = |worker: JoinHandle<_>| {
        worker
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    };
    let ended: Vec<io::Result<()>> = workers.into_iter().map(join).collect();
    let ended = ended
        .into_iter()
        .collect::<io::Result<()>>()
        .map_err(io_error("serve", &point));
    pacer.end();
    drop(running.join());
    trace.map(JoinHandle::join);
    let _ = fs::remove_file(name.path("control"));
    ended
}

/// Takes the device down in another process: this one must answer until it is unmounted.
pub(super) fn take_down(stop: &mut Command) {
    if let Ok(mut child) = stop.spawn() {
        let _ = child.wait();
    }
}

fn prepare_process() -> Result<()> {
    let own = Path::new("/proc/self");
    let call = |action| move |errno: Errno| io_error(action, own)(errno.into());
    // Signals of the terminal are for whoever started it.
    rustix::process::setsid().map_err(call("make a session"))?;
    rustix::process::chdir("/").map_err(call("leave the directory"))?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // With one hierarchy of groups, and with one for memory.
    for root in ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs"] {
        let _ = leave_group(Path::new(root));
    }
    // Each needs a capability that root may lack in a container. Without them, a device that is written to when memory is short
    // may wait for itself.
    if let Err(errno) = rustix::process::configure_io_flusher_behavior(true) {
        eprintln!("not an IO_FLUSHER: {errno}");
    }
    let locked = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(errno) = rustix::mm::mlockall(locked) {
        eprintln!("memory is not locked: {errno}");
    }
    if let Err(error) = seekless_sys::run_in_real_time(REAL_TIME) {
        eprintln!("no real-time priority: {error}");
    }
    // Threads inherit all of it.
    let _ = fs::write(own.join("timerslack_ns"), "1");
    Ok(())
}

/// Joins the group whose processes a file lists. Where there is none, that file must not be made.
fn leave_group(processes: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(processes)?.write_all(b"0")
}

/// The file with the bytes. One without a name is gone when the server is, however it ends.
fn open_backing(state: &DeviceState) -> Result<File> {
    let unnamed = Path::new(UNNAMED_IN);
    let path = state.backing.as_deref().unwrap_or(unnamed);
    let file = match &state.backing {
        Some(path) => open_alone(path)?,
        None => open((CWD, unnamed), path, OFlags::TMPFILE)?,
    };
    let found = file.metadata().map_err(io_error("stat", path))?;
    if found.len() != 0 && (state.has_new_backing || found.len() != state.size_bytes) {
        return Err(DeviceError::Unfit {
            path: path.to_owned(),
            reason: "changed while the device started; try again".to_owned(),
        });
    }
    file.set_len(state.size_bytes).map_err(io_error("extend", path))?;
    Ok(file)
}

fn open((directory, name): (impl AsFd, &Path), path: &Path, flags: OFlags) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
    let opened = retry_on_intr(|| openat(&directory, name, flags, Mode::RUSR | Mode::WUSR));
    opened
        .map(File::from)
        .map_err(|errno| io_error("open", path)(errno.into()))
}

/// Opens a file that a user named, or makes it. It must be a regular file that nobody else has open: no loop device, no program,
/// no other device, and not as another file of this device.
fn open_alone(path: &Path) -> Result<File> {
    let above = PathWalk::protected(path.parent().unwrap_or(path)).and_then(PathWalk::into_directory);
    let above = above.map_err(io_error("open the directory of", path))?;
    let name = Path::new(path.file_name().unwrap_or_default());
    // A FIFO would wait for somebody who reads it.
    let file = open(
        (&above, name),
        path,
        OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK,
    )?;
    let unfit = |reason: &str| DeviceError::Unfit {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let found = file.metadata().map_err(io_error("stat", path))?;
    if !found.is_file() {
        return Err(unfit("is not a regular file"));
    }
    refuse_planted(&above, found.uid()).map_err(io_error("write to", path))?;
    // Where there are no leases, there are still locks: those of other devices.
    let lease = seekless_sys::take_lease(&file, LeaseKind::Exclusive).map(drop);
    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    match lease.and(locked.map_err(io::Error::from)) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(unfit("is in use by another program or device, or is named twice"));
        }
        other => other.map_err(io_error("lock", path))?,
    }
    seekless_sys::end_lease(&file);
    // Another start, which failed, may have removed it before it was locked.
    if !is_same_file(file.metadata(), fs::symlink_metadata(path)) {
        return Err(unfit("changed while the device started; try again"));
    }
    Ok(file)
}

/// Writes completed requests to a file, one a line, in a thread of its own, which ends when the recorder is dropped. Only a trace is
/// overwritten.
fn record_to(path: &Path) -> Result<(Recorder, JoinHandle<()>)> {
    let mut file = open_alone(path)?;
    let mut begins = Vec::new();
    let read = (&file).take(TRACE_BEGINS.len() as u64).read_to_end(&mut begins);
    read.map_err(io_error("read", path))?;
    if !begins.is_empty() && begins != TRACE_BEGINS.as_bytes() {
        return Err(DeviceError::Unfit {
            path: path.to_owned(),
            reason: "is not a trace, so it is not overwritten".to_owned(),
        });
    }
    let emptied = file.set_len(0).and_then(|()| file.rewind());
    emptied.map_err(io_error("empty", path))?;
    let mut file = BufWriter::new(file);
    writeln!(file, "{TRACE_HEADER}").map_err(io_error("write", path))?;
    let (rows, written) = mpsc::channel::<TracedRequest>();
    let thread = spawn("trace", move || {
        for row in written {
            // What is recorded is not worth more than the device.
            if writeln!(file, "{row}").is_err() {
                return;
            }
        }
        let _ = writeln!(file, "{TRACE_END}").and_then(|()| file.flush());
    })?;
    Ok((Box::new(move |row| rows.send(row).is_ok()), thread))
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(io_error("start a thread", Path::new("/proc/self")))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{FileType, mknodat};

    use super::*;

    #[test]
    fn a_group_that_is_not_there_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let processes = directory.path().join("cgroup.procs");
        assert!(leave_group(&processes).is_err() && !processes.exists());
    }

    #[test]
    fn a_file_that_is_used_or_is_something_else_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let [new, link, fifo, used] = ["new", "link", "fifo", "used"].map(|name| directory.path().join(name));
        let file = open_alone(&new).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        symlink(&new, &link).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::write(&used, "bytes").unwrap();
        let reader = File::open(&used).unwrap();
        for path in [&new, &link, &fifo, &used, &directory.path().to_owned()] {
            assert!(open_alone(path).is_err(), "{path:?}");
        }
        drop((file, reader));
        open_alone(&new).unwrap();
        assert_eq!(fs::read(&used).unwrap(), b"bytes");
    }

    #[test]
    fn only_a_trace_is_overwritten_and_a_whole_one_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for before in ["other", "#", "", "# seekless trace 1: old"] {
            let is_kept = ["other", "#"].contains(&before);
            fs::write(&path, before).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let recorded = record_to(&path);
            assert_eq!(recorded.is_err(), is_kept, "{before:?}");
            if let Ok((recorder, thread)) = recorded {
                drop(recorder);
                thread.join().unwrap();
            }
            let after = fs::read_to_string(&path).unwrap();
            let whole = format!("{TRACE_HEADER}\n{TRACE_END}\n");
            assert_eq!(after, if is_kept { before } else { &whole });
        }
    }
}
