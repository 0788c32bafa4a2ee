//! A memory control group smaller than the file, for the cache state `over`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The smallest limit of a group: a program with its buffers needs that much.
pub const LEAST_BYTES: u64 = 32 << 20;

/// A control group that is removed when this is dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    directory: PathBuf,
}

impl MemoryGroup {
    /// Creates a group whose processes, page cache included, may use this many bytes.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn new(limit_bytes: u64) -> Result<Self, String> {
        let name = format!("{PREFIX}{}", std::process::id());
        let (directory, limit) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
            (Path::new("/sys/fs/cgroup/memory").join(name), "memory.limit_in_bytes")
        } else if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            (Path::new("/sys/fs/cgroup").join(name), "memory.max")
        } else {
            return Err("this system has no memory control groups".to_owned());
        };
        if let Some(parent) = directory.parent() {
            remove_stale(parent);
        }
        let refused = |error: io::Error| format!("cannot create a memory control group ({error}): run as root");
        fs::create_dir_all(&directory).map_err(refused)?;
        let group = Self { directory };
        fs::write(group.directory.join(limit), limit_bytes.to_string()).map_err(refused)?;
        Ok(group)
    }

    /// The group's directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }
}

/// How the groups are named: this and the process that owns them.
const PREFIX: &str = "seekless-";

/// Removes groups that a killed run left behind. One that holds a process stays, whatever its name.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes have ended; what they cached is charged to the parent.
        let _ = fs::remove_dir(&self.directory);
    }
}
