//! A simulated block device, in real time: one file of a FUSE file system below a loop device.
//!
//! A server process ([`serve`]) has the FUSE session. It moves the bytes when a request arrives, and answers when the [`Drive`]
//! says so. What the kernel makes of it (loop device, file system, mount) is made by [`start`] and ended by [`stop`], in processes
//! of their own: a server that waits for its own device could not be killed. A device whose server is gone is [stale](take_down_stale).
//!
//! `/run/seekless/sim/NAME/` has all that is known of a device: `state.json`, a file `lock` that the living hold, the socket
//! `control`, the server's `log`, and the mount point `fuse`. Which loop devices and mounts belong to it is asked of the kernel.
//!
//! [`Drive`]: crate::Drive

mod control;
mod cut;
mod filesystem;
mod fuse;
mod identity;
mod kernel;
mod pace;
mod serve;
mod stale;
mod start;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::models::DiskModel;

pub use control::{is_power_lost, lose_power, report, set_fault};
pub use cut::cut;
pub use pace::{DeviceReport, Lateness};
pub use serve::serve;
pub use stale::{stop, take_down_stale};
pub use start::{DeviceOptions, FILE_SYSTEMS, FileSystemMaker, require, room, start};

/// The directory of all devices.
const DEVICES: &str = "/run/seekless/sim";
/// A server ends this soon after its last request, and a command is done with a device.
const PATIENCE: Duration = Duration::from_secs(10);
/// The version of the state.
const VERSION: u32 = 1;

/// What a device is made of. It is written down, so that other processes find it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceState {
    version: u32,
    /// The name of its model.
    pub model: String,
    /// Its size.
    pub size_bytes: u64,
    /// What is random in it follows from this.
    pub seed: u64,
    /// How much faster than real time it is.
    pub speed: f64,
    /// The file system on it, as `mount -t` names it, if there is one.
    pub file_system: Option<String>,
    /// The UUID of that, if it is the same each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// Where that is mounted.
    pub mount_point: Option<PathBuf>,
    /// Whether the mount point was made for it.
    made_mount_point: bool,
    /// The file with its bytes, which stays when the device ends. Without one, they are in a file without a name.
    pub backing: Option<PathBuf>,
    /// Whether the backing file was empty or not there. Until the device is started, it goes with it.
    #[serde(default)]
    has_new_backing: bool,
    /// Where its requests are recorded.
    pub trace: Option<PathBuf>,
    /// The loop device, once there is one.
    pub block_device: Option<PathBuf>,
    /// The process that starts it, and only its child may serve it.
    #[serde(default)]
    starter: u32,
    /// When it was started, in seconds since 1970.
    pub started_at: u64,
}

/// What cannot be done with a device.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// A call failed.
    #[error("{}: cannot {action}: {reason}", path.display())]
    Call {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Its name.
        program: String,
        /// What it said.
        output: String,
    },
    /// Something that is needed is not here.
    #[error("cannot simulate a device: needs {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A path is not what it must be.
    #[error("{}: {reason}", path.display())]
    Unfit {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no room for bytes.
    #[error("{}: {:.1} GiB needed, {:.1} GiB free", path.display(), gib(*needed_bytes), gib(*free_bytes))]
    NoSpace {
        /// Where they would be.
        path: PathBuf,
        /// What is needed at least.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// Somebody uses the file system or the device.
    #[error("{}: is in use{by}", path.display())]
    Busy {
        /// The mount point or the device.
        path: PathBuf,
        /// By whom, if known.
        by: String,
    },
    /// No device has this name.
    #[error("no simulated device is named {0}")]
    Unknown(String),
    /// The device cannot be started: its options do not fit, or its server ended.
    #[error("cannot start the device: {0}")]
    Server(String),
    /// The caller wants to end.
    #[error("interrupted")]
    Interrupted,
}

type Result<T> = std::result::Result<T, DeviceError>;

impl DeviceError {
    /// Whether there is no device or no server of that name, at this moment.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::Call { reason, .. } => matches!(reason.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
            _ => false,
        }
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Makes an error of a failed call.
fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |reason| DeviceError::Call { action, path, reason }
}

/// The same where only root may do it.
fn needs_root(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DeviceError {
    let error = io_error(action, path);
    |reason| match reason.kind() {
        ErrorKind::PermissionDenied => DeviceError::Missing(vec!["root privileges".to_owned()]),
        _ => error(reason),
    }
}

/// The same for calls that may find that somebody else was faster.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether two looks found one file: what was opened may have lost its name to another meanwhile.
fn is_same_file(one: io::Result<Metadata>, other: io::Result<Metadata>) -> bool {
    let [one, other] = [one, other].map(|found| found.map(|found| (found.dev(), found.ino())).ok());
    one == other
}

/// A device, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName(String);

impl DeviceName {
    /// Checks a name: it becomes a part of paths.
    pub fn new(name: &str) -> Result<Self> {
        let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 64 || name.starts_with('-') || !name.bytes().all(is_fit) {
            return Err(DeviceError::Unknown(format!("{name:?}")));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory().join(file)
    }

    fn directory(&self) -> PathBuf {
        Path::new(DEVICES).join(&self.0)
    }

    /// Whether a server or a command that starts it is alive.
    fn is_alive(&self) -> bool {
        File::open(self.path("lock"))
            .is_ok_and(|lock| rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
    }

    /// Says that this process lives for the device, until the file is closed.
    fn live(&self) -> Result<File> {
        let path = self.path("lock");
        let lock = private(&path).map_err(io_error("open", &path))?;
        let locked = rustix::fs::flock(&lock, FlockOperation::LockShared);
        locked.map_err(|errno| io_error("lock", &path)(errno.into()))?;
        Ok(lock)
    }

    /// Held by a command that takes parts of the device away or puts others in their place, until the file is closed. Others
    /// wait, but not for ever.
    fn hold(&self) -> Result<File> {
        let path = self.directory();
        let since = Instant::now();
        let directory = match File::open(self.path(".")) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(DeviceError::Unknown(self.0.clone()));
            }
            other => other.map_err(needs_root("open", &path))?,
        };
        while let Err(errno) = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            if errno != Errno::WOULDBLOCK {
                return Err(io_error("lock", &path)(errno.into()));
            }
            if since.elapsed() > PATIENCE {
                return Err(DeviceError::Busy {
                    path,
                    by: " by another command, which stops it or cuts its power".to_owned(),
                });
            }
            sleep(Duration::from_millis(5));
        }
        // Another device may have got its name meanwhile.
        if !is_same_file(directory.metadata(), fs::metadata(&path)) {
            return Err(DeviceError::Unknown(self.0.clone()));
        }
        Ok(directory)
    }

    /// What it is made of.
    pub fn state(&self) -> Result<DeviceState> {
        let path = self.path("state.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(DeviceError::Unknown(self.0.clone())),
            other => other.map_err(io_error("read", &path))?,
        };
        let state = serde_json::from_slice(&text).map_err(|error| error.to_string());
        state
            .and_then(DeviceState::checked)
            .map_err(|reason| DeviceError::Unfit { path, reason })
    }

    fn save(&self, state: &DeviceState) -> Result<()> {
        let (path, new) = (self.path("state.json"), self.path("state.new"));
        let text = serde_json::to_vec_pretty(state).map_err(|error| DeviceError::Unfit {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(io_error("write", &path))
    }
}

impl DeviceState {
    /// Itself, if it is what this version writes.
    fn checked(self) -> std::result::Result<Self, String> {
        let is_absolute = |path: &Option<PathBuf>| path.as_ref().is_none_or(|path| path.is_absolute());
        if self.version != VERSION {
            return Err(format!("version {} is not {VERSION}", self.version));
        }
        if DiskModel::named(&self.model).is_none() {
            return Err(format!("{:?} is not a model", self.model));
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(format!("a speed of {} is not possible", self.speed));
        }
        if ![&self.mount_point, &self.backing, &self.trace, &self.block_device]
            .into_iter()
            .all(is_absolute)
        {
            return Err("a path in it is not absolute".to_owned());
        }
        Ok(self)
    }

    fn model(&self) -> Result<&'static DiskModel> {
        DiskModel::named(&self.model).ok_or_else(|| DeviceError::Unknown(self.model.clone()))
    }
}

/// The names of all devices, in order; those of dead ones, too.
pub fn devices() -> Result<Vec<DeviceName>> {
    let entries = match fs::read_dir(DEVICES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(needs_root("list", Path::new(DEVICES)))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter_map(|name| DeviceName::new(&name).ok()).collect();
    names.retain(|name| name.directory().is_dir());
    names.sort();
    Ok(names)
}

/// Held while devices come and go, so that nobody takes down what is being made.
fn hold_devices() -> Result<File> {
    let path = Path::new(DEVICES);
    // What else is in the directory above may be seen by everybody, whatever the umask: that of a server is 077.
    let above = path.parent().unwrap_or(path);
    for (made, mode) in [(above, 0o755), (path, 0o700)] {
        match DirBuilder::new().mode(0o700).create(made) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => {
                let given = created.and_then(|()| fs::set_permissions(made, Permissions::from_mode(mode)));
                given.map_err(io_error("create", made))?;
            }
        }
    }
    let found = fs::symlink_metadata(path).map_err(io_error("stat", path))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(DeviceError::Unfit {
            path: path.to_owned(),
            reason: "must be a directory that only root can write to".to_owned(),
        });
    }
    let path = path.join("lock");
    let lock = private(&path).map_err(io_error("open", &path))?;
    let locked = rustix::fs::flock(&lock, FlockOperation::LockExclusive);
    locked.map_err(|errno| io_error("lock", &path)(errno.into()))?;
    Ok(lock)
}

/// Opens or makes a file that only its owner can open.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn state() -> DeviceState {
        DeviceState {
            version: VERSION,
            model: "null".to_owned(),
            size_bytes: 1 << 30,
            seed: 1,
            speed: 1.0,
            file_system: Some("ext4".to_owned()),
            uuid: None,
            mount_point: Some(PathBuf::from("/mnt")),
            made_mount_point: false,
            backing: None,
            has_new_backing: false,
            trace: None,
            block_device: None,
            starter: 1,
            started_at: 0,
        }
    }

    pub(super) fn with(change: impl FnOnce(&mut DeviceState)) -> DeviceState {
        let mut state = state();
        change(&mut state);
        state
    }

    #[test]
    fn names_cannot_leave_the_directory_of_devices() {
        for name in ["", ".", "..", "a/b", "-x", "lock.new", "A", "null\n", &"x".repeat(65)] {
            assert!(DeviceName::new(name).is_err(), "{name:?}");
        }
        assert_eq!(DeviceName::new("hdd-2009-2").unwrap().as_str(), "hdd-2009-2");
    }

    #[test]
    fn a_state_that_this_version_did_not_write_is_refused() {
        assert_eq!(state().checked().unwrap(), state());
        for wrong in [
            with(|state| state.version = 2),
            with(|state| "no-such".clone_into(&mut state.model)),
            with(|state| state.speed = 0.0),
            with(|state| state.speed = f64::NAN),
            with(|state| state.mount_point = Some(PathBuf::from("mnt"))),
            with(|state| state.backing = Some(PathBuf::from("mnt"))),
        ] {
            assert!(wrong.clone().checked().is_err(), "{wrong:?}");
        }
    }
}
