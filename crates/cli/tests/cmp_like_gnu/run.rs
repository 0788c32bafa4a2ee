//! Writes the inputs of a case, and runs the two programs on them under one name.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

use crate::case::{Case, Sink, Source};

/// How a program ended, and its output.
#[derive(PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |bytes: &[u8]| {
            let end = bytes.len().min(400);
            format!("{:?} ({} bytes)", String::from_utf8_lossy(&bytes[..end]), bytes.len())
        };
        write!(f, "code {:?} signal {:?} ", self.code, self.signal)?;
        write!(f, "stdout {} stderr {}", shown(&self.stdout), shown(&self.stderr))
    }
}

/// A directory to run cases in, one at a time.
pub struct Bench {
    directory: TempDir,
    ours: PathBuf,
}

const NAMES: [&str; 2] = ["one", "other"];

impl Bench {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).expect("a directory in it");
        fs::create_dir(directory.path().join("work")).expect("a directory in it");
        symlink(env!("CARGO_BIN_EXE_seekless"), bin.join("cmp")).expect("a link");
        Self {
            ours: bin.join("cmp"),
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("work").join(name)
    }

    /// Creates the inputs.
    pub fn lay_out(&self, case: &Case) {
        for name in NAMES {
            let path = self.path(name);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        for (side, source) in case.sources.into_iter().enumerate() {
            let path = self.path(NAMES[side]);
            match source {
                Source::Directory => fs::create_dir(path).expect("a directory"),
                Source::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO"),
                Source::Missing | Source::HardLink | Source::SymbolicLink => {}
                _ => fs::write(path, &case.contents[side]).expect("a file is written"),
            }
        }
        for (side, source) in case.sources.into_iter().enumerate() {
            let (path, other) = (self.path(NAMES[side]), self.path(NAMES[1 - side]));
            match source {
                Source::HardLink => fs::hard_link(other, path).expect("a link"),
                Source::SymbolicLink => symlink(other, path).expect("a link"),
                _ => {}
            }
        }
    }

    pub fn run_theirs(&self, case: &Case) -> Ended {
        self.run(Path::new("cmp"), case)
    }

    pub fn run_ours(&self, case: &Case) -> Ended {
        self.run(&self.ours, case)
    }

    fn run(&self, program: &Path, case: &Case) -> Ended {
        for side in (0..2).filter(|&side| case.sources[side] == Source::Fifo) {
            // A new FIFO: a process that is being started elsewhere may still have the old one open, with old data.
            let path = self.path(NAMES[side]);
            fs::remove_file(&path).expect("the FIFO is there");
            mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
        }
        let mut command = Command::new(program);
        command
            .arg0("cmp")
            .args(&case.words)
            .current_dir(self.path(""))
            .env("LC_ALL", "C")
            .env_remove("POSIXLY_CORRECT")
            .stdin(Stdio::null())
            .stdout(self.sink(case.sink))
            .stderr(Stdio::piped());
        if case.posixly {
            command.env("POSIXLY_CORRECT", "1");
        }
        let mut piped = None;
        for (side, source) in case.sources.into_iter().enumerate() {
            match source {
                Source::StandardInput => {
                    let mut file = File::open(self.path(NAMES[side])).expect("the file is there");
                    file.seek(SeekFrom::Start(case.consumed_bytes))
                        .expect("files can be sought");
                    command.stdin(file);
                    piped = None;
                }
                Source::StandardInputByPipe => {
                    command.stdin(Stdio::piped());
                    piped = Some(side);
                }
                _ => {}
            }
        }
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        thread::scope(|scope| {
            if let (Some(side), Some(mut input)) = (piped, input) {
                // The program may close it early.
                scope.spawn(move || drop(input.write_all(&case.contents[side])));
            }
            let writers: Vec<_> = (0..2)
                .filter(|&side| case.sources[side] == Source::Fifo)
                .map(|side| (self.path(NAMES[side]), &case.contents[side]))
                .map(|(path, content)| {
                    let opened = path.clone();
                    let write = move || {
                        let fifo = OpenOptions::new().write(true).open(opened);
                        let _ = fifo.expect("the FIFO is there").write_all(content);
                    };
                    (path, scope.spawn(write))
                })
                .collect();
            let output = child.wait_with_output().expect("the program ends");
            for (path, writer) in writers {
                // A FIFO that was never opened keeps its writer waiting.
                while !writer.is_finished() {
                    let flags = OFlags::NONBLOCK.bits().cast_signed();
                    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
                    drop(opened.expect("the FIFO is there"));
                    thread::sleep(Duration::from_micros(200));
                }
            }
            Ended {
                code: output.status.code(),
                signal: output.status.signal(),
                stdout: if case.sink == Sink::File {
                    self.written()
                } else {
                    output.stdout
                },
                stderr: output.stderr,
            }
        })
    }

    fn sink(&self, sink: Sink) -> Stdio {
        let open = |path: &Path| {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
            Stdio::from(file.expect("a file for the output"))
        };
        match sink {
            Sink::Pipe => Stdio::piped(),
            Sink::File => open(&self.directory.path().join("output")),
            Sink::Null => Stdio::null(),
            Sink::Full => open(Path::new("/dev/full")),
        }
    }

    fn written(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let file = File::open(self.directory.path().join("output"));
        file.and_then(|mut file| file.read_to_end(&mut bytes))
            .expect("the output is read");
        bytes
    }
}
