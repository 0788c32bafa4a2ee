//! A directory to run the program in, with a data directory beside it, and a terminal that answers.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use seekless_lab::store::Store;
use tempfile::TempDir;

/// A directory to work in, and directories of data and configuration.
pub struct Place(TempDir);

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        for name in ["work", "config/seekless"] {
            fs::create_dir_all(all.path().join(name)).unwrap();
        }
        Self(all)
    }

    /// A file in the directory to work in.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("work").join(name)
    }

    /// The directory of data of seekless.
    pub fn data(&self) -> PathBuf {
        self.0.path().join("data/seekless")
    }

    /// The user's saved runs.
    pub fn store(&self) -> Store {
        Store::new(self.data())
    }

    /// Writes the user's configuration.
    pub fn configure(&self, text: &str) {
        fs::write(self.0.path().join("config/seekless/config.toml"), text).unwrap();
    }

    /// The program, with its directories and nothing of the user's.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekless-hub"));
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env("XDG_DATA_HOME", self.0.path().join("data"))
            .env("XDG_CONFIG_HOME", self.0.path().join("config"))
            .env("HOME", self.0.path().join("home"))
            .env_remove("SEEKLESS_HUB")
            .env_remove("SEEKLESS_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).spawn().unwrap())
    }

    /// Runs the program to its end on a terminal where an answer waits. Returns what it prints, and its exit code.
    pub fn answer(&self, arguments: &[&str], answer: &str) -> (String, Option<i32>) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        rustix::io::write(&ours, answer.as_bytes()).unwrap();
        let mut command = self.command(arguments);
        let all = || theirs.try_clone().unwrap();
        let mut child = command.stdin(all()).stdout(all()).stderr(all()).spawn().unwrap();
        // The end of its output is seen once no process has the terminal open.
        drop((command, theirs));
        let reader = thread::spawn(|| printed(ours));
        let code = child.wait().unwrap().code();
        (String::from_utf8(reader.join().unwrap()).unwrap(), code)
    }
}

/// All that is printed on a terminal.
fn printed(ours: OwnedFd) -> Vec<u8> {
    let (mut ours, mut all, mut buffer) = (File::from(ours), Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = ours.read(&mut buffer) {
        all.extend(&buffer[..read]);
    }
    all
}

impl Ended {
    /// Waits for the end of a program.
    pub fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Self {
            code: output.status.code(),
            stdout,
            stderr,
        }
    }

    /// What it printed; it must have succeeded.
    pub fn succeeded(self) -> String {
        assert!(self.code == Some(0) && self.stderr.is_empty(), "{self:?}");
        self.stdout
    }

    /// Its error; it must have failed, and printed nothing else.
    pub fn refused(self) -> String {
        assert!(self.code == Some(2) && self.stdout.is_empty(), "{self:?}");
        self.stderr
    }
}
