//! The server: a process in the background that has the bytes, the drive and the FUSE session of one device.
//!
//! It is below the page cache: when memory is short, the kernel writes to the device to get some, and the server must answer
//! without waiting for memory. So it is an `IO_FLUSHER` (`PR_SET_IO_FLUSHER`), what it has touched stays in memory (mlockall), and
//! it leaves the memory group of whoever started it: in a full one it would wait for pages that it is to write.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Write, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use fuser::{Config, MountOption, Session};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::MlockAllFlags;

use super::filesystem::DeviceFiles;
use super::pace::{Pacer, Recorder};
use super::{DeviceError, DeviceName, DeviceState, Result, control, failed};
use crate::drive::Drive;
use crate::faults::Faults;
use crate::medium::Medium;
use crate::power::{TORN_BYTES, WriteCache};
use crate::trace::{TRACE_HEADER, TracedRequest};

/// Where bytes are without a file that the user named: on a disk, and not in memory.
pub(super) const UNNAMED_IN: &str = "/var/tmp";
/// Threads that move bytes.
const WORKERS: usize = 2;
/// The lowest priority that no ordinary task comes before.
const REAL_TIME: u8 = 1;

/// Serves a device until it is unmounted. Standard output says `ready` once it can be attached. If standard input ends before
/// anything was read from it, what starts the device was killed, and `stop` takes down what it made.
pub fn serve(name: &DeviceName, stop: impl Fn() -> Command + Send + 'static) -> Result<()> {
    prepare_process()?;
    let _alive = name.live()?;
    let state = name.state()?;
    // If the starter was killed before this process held the lock, its device is gone, and another one may have the name.
    if state.starter != std::os::unix::process::parent_id() {
        return Err(DeviceError::Server("what started it is gone".to_owned()));
    }
    let model = state.model()?;
    let cache = WriteCache::new(model.claims.write_cache_bytes, TORN_BYTES);
    let medium = Arc::new(Medium::new(open_backing(&state)?, cache, Faults::default()));
    let drive = Drive::new(model, state.size_bytes, state.seed);
    let recorder = state.trace.as_deref().map(record_to).transpose()?;
    let pacer = Arc::new(Pacer::new(drive, recorder));
    let running = spawn("pacer", {
        let pacer = pacer.clone();
        move || pacer.run()
    })?;

    let point = name.path("fuse");
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("seekless-sim:{}", state.model)),
        MountOption::CUSTOM("subtype=seekless-sim".to_owned()),
        MountOption::NoExec,
    ];
    config.n_threads = Some(WORKERS);
    config.clone_fd = true;
    let file_system = DeviceFiles::new(medium.clone(), state.size_bytes, pacer.clone());
    let session = Session::new(file_system, &point, &config).map_err(failed("mount", &point))?;
    let session = session.spawn().map_err(failed("serve", &point))?;
    control::listen(name, &pacer, &medium)?;
    spawn("starter", move || {
        let is_started = stdin().read(&mut [0]).is_ok_and(|bytes| bytes > 0);
        if !is_started {
            take_down(&mut stop());
        }
    })?;
    // Whoever started it may be gone already.
    let _ = writeln!(stdout(), "ready");

    let ended = session.join().map_err(failed("serve", &point));
    pacer.end();
    drop(running.join());
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
    let call = |action| move |errno: Errno| failed(action, own)(errno.into());
    // Signals of the terminal are for whoever started it.
    rustix::process::setsid().map_err(call("make a session of"))?;
    rustix::process::chdir("/").map_err(call("leave the directory of"))?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // With one hierarchy of groups, and with one for memory.
    for root in ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs"] {
        let _ = fs::write(root, "0");
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

/// The file with the bytes. One without a name is gone when the server is, however it ends.
fn open_backing(state: &DeviceState) -> Result<File> {
    let path = state.backing.as_deref().unwrap_or(Path::new(UNNAMED_IN));
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let flags = if state.backing.is_some() {
        OFlags::NOFOLLOW
    } else {
        OFlags::TMPFILE
    };
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(failed("open", path))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        Errno::WOULDBLOCK => DeviceError::Busy {
            path: path.to_owned(),
            by: " by another simulated device".to_owned(),
        },
        errno => failed("lock", path)(errno.into()),
    })?;
    let found = file.metadata().map_err(failed("stat", path))?;
    if !found.is_file() {
        return Err(DeviceError::Unfit {
            path: path.to_owned(),
            reason: "is not a regular file".to_owned(),
        });
    }
    if found.len() != state.size_bytes {
        file.set_len(state.size_bytes).map_err(failed("extend", path))?;
    }
    Ok(file)
}

/// Writes completed requests to a file, one a line, in a thread of its own.
fn record_to(path: &Path) -> Result<Recorder> {
    let file = OpenOptions::new().write(true).truncate(true).create(true).open(path);
    let mut file = BufWriter::new(file.map_err(failed("write", path))?);
    writeln!(file, "{TRACE_HEADER}").map_err(failed("write", path))?;
    let (rows, written) = mpsc::channel::<TracedRequest>();
    spawn("trace", move || {
        for row in written {
            // What is recorded is not worth more than the device.
            if writeln!(file, "{row}").is_err() {
                return;
            }
        }
        let _ = file.flush();
    })?;
    Ok(Box::new(move |row| {
        let _ = rows.send(row);
    }))
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<thread::JoinHandle<T>> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(failed("start a thread in", Path::new("/proc/self")))
}
