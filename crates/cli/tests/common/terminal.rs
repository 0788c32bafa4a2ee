//! A terminal that commands print to and are answered on.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::place::{Place, Words};

/// A terminal with this many columns.
pub struct Terminal {
    ours: OwnedFd,
    theirs: File,
}

impl Terminal {
    pub fn of(columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        Self { ours, theirs }
    }

    /// Starts a command with its output and errors on the terminal. Returns all that it prints once it has ended.
    pub fn start(self, mut command: Command, feed: impl FnOnce(Option<std::process::ChildStdin>)) -> String {
        command
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdout(self.theirs.try_clone().unwrap())
            .stderr(self.theirs.try_clone().unwrap());
        let (printed, ()) = self.used(|theirs| {
            let mut child = command.spawn().unwrap();
            drop((command, theirs));
            feed(child.stdin.take());
            child.wait().unwrap();
        });
        printed
    }

    /// All that is printed on the terminal while this runs, and what it returns. It must leave the terminal open nowhere.
    pub fn used<T>(self, run: impl FnOnce(File) -> T) -> (String, T) {
        let reader = read(self.ours);
        let done = run(self.theirs);
        (String::from_utf8(reader.join().unwrap()).unwrap(), done)
    }

    /// Starts a command that has all on the terminal, where nobody answers.
    pub fn waiting(&self, mut command: Command) -> std::process::Child {
        let theirs = || self.theirs.try_clone().unwrap();
        command
            .stdin(theirs())
            .stdout(theirs())
            .stderr(theirs())
            .spawn()
            .unwrap()
    }

    /// Runs a command with its input on the terminal, too, where this answer waits. Returns what it prints, and its exit code.
    pub fn answer(self, command: Command, answer: &str) -> (String, Option<i32>) {
        rustix::io::write(&self.ours, answer.as_bytes()).unwrap();
        let mut child = self.waiting(command);
        self.used(|theirs| {
            drop(theirs);
            child.wait().unwrap().code()
        })
    }

    /// Like [`Terminal::answer`], for the command with these arguments.
    pub fn answered(place: &Place, arguments: impl Words, answer: &str) -> (String, Option<i32>) {
        let mut command = place.command();
        command.args(arguments.list());
        Self::of(100).answer(command, answer)
    }

    pub fn run(columns: u16, place: &Place, arguments: &[&str]) -> String {
        let mut command = place.command();
        command.args(arguments);
        Self::of(columns).start(command, |_| {})
    }
}

/// Reads all that is printed on a terminal.
fn read(ours: OwnedFd) -> JoinHandle<Vec<u8>> {
    let mut ours = File::from(ours);
    thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = ours.read(&mut buffer) {
            all.extend(&buffer[..read]);
        }
        all
    })
}
