//! Commands of a user who owns nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::place::{Ended, Words, set_mode, wait_for};

/// The number of a user who owns nothing.
pub const NOBODY: u32 = 65_534;

/// A directory that everybody may enter, with the command in it: the target directory may be closed to other users.
pub struct Common {
    all: tempfile::TempDir,
}

impl Common {
    pub fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        set_mode(all.path(), 0o755);
        fs::copy(env!("CARGO_BIN_EXE_seekless"), all.path().join("seekless")).unwrap();
        for (name, mode) in [("open", 0o777), ("shut", 0o555)] {
            fs::create_dir(all.path().join(name)).unwrap();
            set_mode(all.path().join(name), mode);
        }
        Self { all }
    }

    pub fn directory(&self) -> &Path {
        self.all.path()
    }

    pub fn run(&self, arguments: impl Words) -> Ended {
        let mut command = self.command(self.directory().join("seekless"));
        command.args(arguments.list());
        // While another test forks, its child may still hold the copied program open for writing.
        wait_for("the program may run", || {
            Command::new(self.directory().join("seekless"))
                .arg("--version")
                .stdout(Stdio::null())
                .status()
                .is_ok()
        });
        Ended::of(command.spawn().unwrap())
    }

    /// A program that starts in the directory, without privileges.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory())
            .env("XDG_DATA_HOME", self.directory().join("open/data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}
