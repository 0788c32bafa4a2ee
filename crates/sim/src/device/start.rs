//! Starting a device: the server, a loop device over its file, a file system, and what the kernel believes of the disk.
//!
//! Until all of it is done, requests take no time, so that making the file system is not what is simulated. Whatever fails,
//! what was made before is undone; if this process is killed, the server notices.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use seekless_sys::Buffer;

use super::control::{self, ControlRequest, set_fault};
use super::filesystem::file_of;
use super::identity::fixed_uuid;
use super::kernel::{cover, is_mount_point, mount, set_queue};
use super::pace::HostTime;
use super::serve::UNNAMED_IN;
use super::{DeviceError, DeviceName, DeviceState, Result, VERSION, hold_devices, io_error, stale};
use crate::faults::DeviceFault;
use crate::medium::RESERVE_BYTES;
use crate::models::DiskModel;

/// What to start.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Which disk.
    pub model: &'static DiskModel,
    /// Its size; that of the backing file, if it has bytes.
    pub size_bytes: u64,
    /// The file system to make on it, if any. If the backing file has bytes, it is mounted and not made.
    pub file_system: Option<&'static FileSystemMaker>,
    /// Whether a file system that is made has the same UUID each time, unless another device has it now.
    pub has_fixed_uuid: bool,
    /// Where to mount it: an empty directory, or one to make.
    pub mount_point: Option<PathBuf>,
    /// What is random follows from it.
    pub seed: u64,
    /// What goes wrong with it, once it is mounted.
    pub fault: Option<DeviceFault>,
    /// How much faster than real time.
    pub speed: f64,
    /// A file that keeps the bytes.
    pub backing: Option<PathBuf>,
    /// A file to record requests in.
    pub trace: Option<PathBuf>,
    /// Whether it stays when this process ends.
    pub stays: bool,
}

impl DeviceOptions {
    /// A disk in real time, without faults, with the file system of this name, mounted in the device's directory. It ends with this
    /// process, and its bytes are gone.
    #[must_use]
    pub fn new(model: &'static DiskModel, size_bytes: u64, file_system: &str) -> Self {
        Self {
            model,
            size_bytes,
            file_system: FILE_SYSTEMS.iter().find(|maker| maker.name == file_system),
            has_fixed_uuid: false,
            mount_point: None,
            seed: 1,
            fault: None,
            speed: 1.0,
            backing: None,
            trace: None,
            stays: false,
        }
    }
}

/// How to make a file system.
#[derive(Debug)]
pub struct FileSystemMaker {
    /// Its name for mount(2).
    pub name: &'static str,
    program: &'static str,
    /// Nothing is discarded, and nothing is left for the background. Tables and journals need no zeros: a new disk has only them.
    arguments: &'static [&'static str],
    /// The option that sets a UUID, and what its value begins with.
    uuid: [&'static str; 2],
}

/// The file systems that can be made.
pub const FILE_SYSTEMS: [FileSystemMaker; 3] = [
    FileSystemMaker {
        name: "ext4",
        program: "mkfs.ext4",
        arguments: &["-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"],
        uuid: ["-U", ""],
    },
    FileSystemMaker {
        name: "xfs",
        program: "mkfs.xfs",
        arguments: &["-q", "-f", "-K"],
        uuid: ["-m", "uuid="],
    },
    FileSystemMaker {
        name: "btrfs",
        program: "mkfs.btrfs",
        arguments: &["-q", "-f", "-K"],
        uuid: ["-U", ""],
    },
];

/// The unit of sizes.
const MIB: u64 = 1 << 20;
/// Room for a file system and some files. A backing file is sparse, so it may be larger than what is free.
const LEAST_ROOM_BYTES: u64 = 256 * MIB;
/// As many devices of one model can be there.
const SAME_MODEL_MAX: u32 = 100;
/// Reads that measure the way to the server, and the bytes of each.
const WAY_READS: [(usize, usize); 2] = [(300, 4 << 10), (40, MIB as usize)];

/// Starts a device. `server` is the command that [serves](super::serve()) it. What is done is undone when `is_interrupted`.
pub fn start(
    options: &DeviceOptions,
    server: impl FnOnce(&DeviceName) -> Command,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(DeviceName, DeviceState)> {
    require(options)?;
    let (backing, size_bytes, is_new) = plan_backing(options)?;
    let mut state = DeviceState {
        version: VERSION,
        model: options.model.name.to_owned(),
        size_bytes,
        seed: options.seed,
        speed: options.speed,
        file_system: options.file_system.map(|maker| maker.name.to_owned()),
        uuid: None,
        mount_point: options.mount_point.as_deref().map(absolute).transpose()?,
        made_mount_point: false,
        has_new_backing: backing.is_some() && is_new,
        backing,
        trace: options.trace.as_deref().map(absolute).transpose()?,
        block_device: None,
        starter: std::process::id(),
        started_at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    }
    .checked()
    .map_err(DeviceError::Server)?;
    if options.has_fixed_uuid && is_new {
        state.uuid = fixed_uuid(&state);
    }
    let (name, alive) = allocate(options.model.name)?;
    let mut starting = Starting {
        name,
        state,
        server: None,
        maker: options.file_system.filter(|_| is_new),
        is_interrupted,
    };
    let started = starting.start(server, options);
    if let Err(error) = started {
        starting.undo(alive);
        return Err(error);
    }
    Ok((starting.name, starting.state))
}

/// Fails with all that is missing here.
pub fn require(options: &DeviceOptions) -> Result<()> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root privileges".to_owned());
    }
    for path in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(path).exists() {
            missing.push(path.to_owned());
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program| {
        std::env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
            .any(|directory| directory.join(program).is_file())
    };
    if let Some(maker) = options.file_system.filter(|maker| !has(maker.program)) {
        missing.push(maker.program.to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(DeviceError::Missing(missing))
}

/// The file with the bytes if it is named, the size of the device, and whether it has no bytes yet.
fn plan_backing(options: &DeviceOptions) -> Result<(Option<PathBuf>, u64, bool)> {
    let backing = options.backing.as_deref().map(absolute).transpose()?;
    if let Some(path) = &backing {
        let unfit = |reason: &str| DeviceError::Unfit {
            path: path.clone(),
            reason: reason.to_owned(),
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => return Err(unfit("is not a regular file")),
            Ok(found) if found.len() % MIB != 0 => return Err(unfit("its size is not a multiple of 1 MiB")),
            Ok(found) if found.len() > 0 => return Ok((backing, found.len(), false)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("stat", path)(error)),
        }
    }
    let size_bytes = options.size_bytes / MIB * MIB;
    let (path, room_bytes) = room(backing.as_deref())?;
    let needed_bytes = size_bytes.min(LEAST_ROOM_BYTES);
    if needed_bytes > room_bytes {
        return Err(DeviceError::NoSpace {
            path: path.to_owned(),
            needed_bytes: needed_bytes + RESERVE_BYTES,
            free_bytes: room_bytes + RESERVE_BYTES,
        });
    }
    Ok((backing, size_bytes, true))
}

/// The directory of a backing file, and how many bytes a device can store there before its writes fail.
pub fn room(backing: Option<&Path>) -> Result<(&Path, u64)> {
    let path = backing.and_then(Path::parent).unwrap_or(Path::new(UNNAMED_IN));
    let space = rustix::fs::statvfs(path).map_err(|errno| io_error("stat the file system", path)(errno.into()))?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    Ok((path, free_bytes.saturating_sub(RESERVE_BYTES)))
}

/// A path as the state has it.
fn absolute(path: &Path) -> Result<PathBuf> {
    if path.to_str().is_none() {
        return Err(DeviceError::Unfit {
            path: path.to_owned(),
            reason: "is not UTF-8; choose another name".to_owned(),
        });
    }
    std::path::absolute(path).map_err(io_error("resolve", path))
}

/// Makes the directory of a device with the first free name, and lives for it.
fn allocate(model: &str) -> Result<(DeviceName, File)> {
    let _held = hold_devices()?;
    for number in 1..=SAME_MODEL_MAX {
        let name = match number {
            1 => DeviceName::new(model)?,
            _ => DeviceName::new(&format!("{model}-{number}"))?,
        };
        let path = name.directory();
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {
                let alive = name.live()?;
                return Ok((name, alive));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("create", &path)(error)),
        }
    }
    Err(DeviceError::Server(format!(
        "there are already {SAME_MODEL_MAX} devices of {model}"
    )))
}

/// Makes a block device of the file of a generation.
pub(super) fn attach(name: &DeviceName, generation: u64, model: &DiskModel) -> Result<PathBuf> {
    let path = name.path("fuse").join(file_of(generation));
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.map_err(io_error("open", &path))?;
    let attached = seekless_sys::attach_loop(&file, model.claims.logical_block_bytes);
    let device = attached.and_then(seekless_sys::Support::required);
    device.map_err(io_error("attach a loop device", &path))
}

/// A device that is being made.
struct Starting<'a> {
    name: DeviceName,
    state: DeviceState,
    server: Option<Child>,
    maker: Option<&'static FileSystemMaker>,
    is_interrupted: &'a dyn Fn() -> bool,
}

impl Starting<'_> {
    fn start(&mut self, server: impl FnOnce(&DeviceName) -> Command, options: &DeviceOptions) -> Result<()> {
        let model = options.model;
        let fuse = self.name.path("fuse");
        fs::create_dir(&fuse).map_err(io_error("create", &fuse))?;
        self.prepare_mount_point()?;
        self.name.save(&self.state)?;
        cover(&self.name, &self.state)?;
        self.start_server(server(&self.name))?;

        let device = attach(&self.name, 0, model)?;
        self.state.block_device = Some(device.clone());
        self.name.save(&self.state)?;
        let way = self.measure_way(&device)?;

        // What makes and mounts a file system looks at some of it, and mounting changes some of it.
        set_queue(&device, &model.claims)?;
        self.go_on()?;
        self.make_file_system(&device)?;
        self.go_on()?;
        mount(&self.state, &device)?;
        set_queue(&device, &model.claims)?;
        self.go_on()?;
        let speed = self.state.speed;
        let () = control::ask(&self.name, &ControlRequest::Pace { speed, way })?;
        set_fault(&self.name, options.fault.clone())?;
        self.state.has_new_backing = false;
        self.name.save(&self.state)?;
        let stdin = self.server.as_mut().and_then(|server| server.stdin.take());
        if !options.stays {
            // Open as long as this process is there, however it ends.
            mem::forget(stdin);
            return Ok(());
        }
        // From here on, the server goes on without this process.
        let told = stdin.map(|mut stdin| stdin.write_all(b"\n")).transpose();
        told.map(drop)
            .map_err(io_error("reach the server", &self.name.directory()))
    }

    fn go_on(&self) -> Result<()> {
        if (self.is_interrupted)() {
            return Err(DeviceError::Interrupted);
        }
        Ok(())
    }

    fn prepare_mount_point(&mut self) -> Result<()> {
        if self.state.file_system.is_none() {
            self.state.mount_point = None;
            return Ok(());
        }
        let own = self.name.path("mnt");
        let point = self.state.mount_point.get_or_insert(own);
        let unfit = |path: &Path, reason: &str| DeviceError::Unfit {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        match fs::read_dir(&point) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(unfit(point, "is not an empty directory"));
                }
                *point = fs::canonicalize(&point).map_err(io_error("resolve", point))?;
                if is_mount_point(point) {
                    return Err(unfit(point, "is a mount point already"));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir(&point).map_err(io_error("create", point))?;
                self.state.made_mount_point = true;
            }
            Err(error) => return Err(io_error("list", point)(error)),
        }
        Ok(())
    }

    /// Starts the server, and waits until it is ready.
    fn start_server(&mut self, mut command: Command) -> Result<()> {
        let path = self.name.path("log");
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let log = log.map_err(io_error("create", &path))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let program = PathBuf::from(command.get_program());
        let mut child = command.spawn().map_err(io_error("start", &program))?;
        let output = child.stdout.take();
        self.server = Some(child);
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output.take(64))
                .read_line(&mut line)
                .map_err(io_error("ask", &program))?;
        }
        if line == "ready\n" {
            return Ok(());
        }
        let said = fs::read_to_string(&path).unwrap_or_default();
        let reason = said.lines().find_map(|line| line.strip_prefix("seekless: "));
        let reason = reason.unwrap_or(said.trim_end()).replace('\n', "; ");
        Err(DeviceError::Server(reason))
    }

    /// Measures how long reads take, less the time that the server itself takes for them. Most are held up by other work; the tenth
    /// part that is fastest hardly is.
    fn measure_way(&self, device: &Path) -> Result<HostTime> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(device).map_err(io_error("open", device))?;
        let mut fastest = [0; 2];
        for (fast, (reads, bytes)) in fastest.iter_mut().zip(WAY_READS) {
            let mut buffer = Buffer::new(bytes, 4096).map_err(io_error("read", device))?;
            let mut times = Vec::with_capacity(reads);
            for read in 0..reads {
                self.go_on()?;
                let began = Instant::now();
                let offset = (read * bytes) as u64 % (self.state.size_bytes - bytes as u64 + 1);
                file.read_exact_at(&mut buffer, offset / 4096 * 4096)
                    .map_err(io_error("read", device))?;
                times.push(began.elapsed().as_nanos() as u64);
            }
            times.sort_unstable();
            *fast = times[reads / 10];
        }
        let own: [u64; 2] = control::ask(&self.name, &ControlRequest::OwnTime)?;
        let base_ns = fastest[0].saturating_sub(own[0]);
        Ok(HostTime {
            base_ns,
            mib_ns: fastest[1].saturating_sub(own[1] + base_ns),
        })
    }

    fn make_file_system(&self, device: &Path) -> Result<()> {
        let Some(maker) = self.maker else { return Ok(()) };
        let [option, begin] = maker.uuid;
        let uuid = self.state.uuid.iter();
        let uuid: Vec<String> = uuid
            .flat_map(|uuid| [option.to_owned(), format!("{begin}{uuid}")])
            .collect();
        let mut output = String::new();
        // mkfs.btrfs looks at all loop devices, and fails if one ends meanwhile.
        for _ in 0..3 {
            let made = Command::new(maker.program)
                .args(maker.arguments)
                .args(&uuid)
                .arg(device)
                .output();
            let made = made.map_err(io_error("run", Path::new(maker.program)))?;
            if made.status.success() {
                return Ok(());
            }
            self.go_on()?;
            output = reason_of(&String::from_utf8_lossy(&made.stderr));
        }
        Err(DeviceError::Program {
            program: maker.program.to_owned(),
            output,
        })
    }

    /// Undoes all that was done.
    fn undo(mut self, alive: File) {
        let undone = stale::take_down(&self.name, true);
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        drop(alive);
        // The next command tries again, and says why it cannot.
        let _ = undone.and_then(|_held| stale::remove(&self.name));
    }
}

/// What a program said was wrong, without the page on how to use it.
fn reason_of(output: &str) -> String {
    let lines = output.trim().lines().take_while(|line| !line.starts_with("Usage:"));
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_tells_the_reason_of_a_program_that_failed() {
        let output = "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs\n/* blocksize */ [-b size=num]\n";
        assert_eq!(reason_of(output), "Filesystem must be larger than 300MB.");
        assert_eq!(reason_of("ERROR: one\nERROR: two\n"), "ERROR: one; ERROR: two");
    }
}
