//! A directory to run the command in, and helpers for all tests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use seekless_record::Run;
use seekless_sys::Directory;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

/// No command of these tests takes longer; one that does is stuck.
const PATIENCE: Duration = Duration::from_mins(2);

/// A small measurement: reading one megabyte once, by the methods of the next argument.
pub const SMALL_BENCH: [&str; 9] = [
    "bench",
    "--tables",
    "--notes",
    "read",
    "--size",
    "1M",
    "--rounds",
    "1",
    "--methods",
];

/// A directory to work in, and a data directory beside it.
pub struct Place {
    all: TempDir,
}

impl Place {
    /// Makes both.
    pub fn new() -> Self {
        // Shells start background jobs, also of tests, without SIGINT. A handler is not inherited, but ignoring is.
        static HEARD: Once = Once::new();
        HEARD.call_once(|| {
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                if seekless_sys::is_ignored(signal) {
                    signal_hook::flag::register(signal, Arc::default()).expect("a handler");
                }
            }
        });
        let all = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(all.path().join("work")).expect("a directory in it");
        Self { all }
    }

    /// The directory to work in.
    pub fn directory(&self) -> PathBuf {
        self.all.path().join("work")
    }

    /// The path of a file in it.
    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory().join(name.as_ref())
    }

    /// Makes a file in it.
    pub fn file(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("a file is written");
        path
    }

    /// Makes a directory with a path longer than systems accept, and a file `file` in it. Returns the length of the
    /// file's path.
    pub fn deep_file(&self, bytes: &[u8]) -> usize {
        let (name, levels) = (OsString::from("n".repeat(250)), 20);
        let mut at = Directory::open(&self.directory()).unwrap();
        for _ in 0..levels {
            at = at.create_directory(&name, 0o755).unwrap();
        }
        let mut file = at.create_file("file".as_ref(), 0o644).unwrap();
        file.write_all(bytes).unwrap();
        levels * (name.len() + 1) + "file".len()
    }

    /// The command, with its directories and nothing of the user's.
    pub fn command(&self) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_seekless"))
    }

    /// Another program in the same environment.
    pub fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory())
            .env("XDG_DATA_HOME", self.all.path().join("data"))
            .env("XDG_CONFIG_HOME", self.all.path().join("config"))
            .env("XDG_STATE_HOME", self.all.path().join("state"))
            .env("HOME", self.all.path().join("home"))
            .env_remove("SEEKLESS_LOG")
            .env_remove("SEEKLESS_PROFILE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end, with at most this many open files.
    pub fn run_with_few_files(&self, most: u32, arguments: &[&str]) -> Ended {
        let script = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &script])
            .arg(self.command().get_program())
            .args(arguments)
            .current_dir(self.directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ended::of(limited.spawn().unwrap())
    }

    /// Runs the command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ended {
        let child = self.command().args(arguments).spawn().expect("the command starts");
        Ended::of(child)
    }

    /// Runs the command with the words of a line to its end.
    pub fn run_line(&self, line: &str) -> Ended {
        self.run(&words(line))
    }

    /// Runs the command with the words of a line; it must succeed.
    #[track_caller]
    pub fn succeeds(&self, line: &str) -> Ended {
        self.run_line(line).succeeded()
    }

    /// Runs the command with the words of a line; it must end with this exit code.
    #[track_caller]
    pub fn fails(&self, code: i32, line: &str) -> Ended {
        self.run_line(line).ended_with(code)
    }

    /// Runs the command to its end, with this on standard input.
    pub fn run_fed(&self, arguments: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command();
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(input).expect("the command reads its input");
        drop(stdin);
        Ended::of(child)
    }

    /// Runs a small measurement: reading one megabyte by one method, once.
    pub fn bench<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ended {
        let small = SMALL_BENCH.iter().chain(&["read/sync,block=128K"]).map(OsStr::new);
        let all = small.chain(arguments.iter().map(AsRef::as_ref));
        self.run(&all.collect::<Vec<_>>())
    }

    /// The runs that were saved.
    pub fn saved(&self) -> Vec<Run> {
        let Ok(entries) = fs::read_dir(self.all.path().join("data/seekless/runs")) else {
            return Vec::new();
        };
        let text = |path: PathBuf| fs::read(path).expect("a saved run is read");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let runs = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .map(|path| seekless_record::from_json(&text(path)));
        runs.map(|run| run.expect("a saved run is one")).collect()
    }

    /// The only saved run.
    #[track_caller]
    pub fn only_run(&self) -> Run {
        let mut saved = self.saved();
        assert_eq!(saved.len(), 1);
        saved.remove(0)
    }

    /// Everything below the directory: kind, mode, time of change and bytes of each entry.
    pub fn content(&self) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut directories = vec![self.directory()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).expect("a directory is listed") {
                let path = entry.expect("an entry").path();
                let metadata = fs::symlink_metadata(&path).expect("an entry is looked at");
                let bytes = if metadata.is_file() {
                    fs::read(&path).expect("a file is read")
                } else {
                    Vec::new()
                };
                // The time of a directory changes when something is made in it and removed again.
                let changed = if metadata.is_dir() {
                    (0, 0)
                } else {
                    (metadata.mtime(), metadata.mtime_nsec())
                };
                found.insert(path.clone(), (metadata.mode(), changed.0, changed.1, bytes));
                if metadata.is_dir() {
                    directories.push(path);
                }
            }
        }
        found
    }
}

/// How a command ended, and its output.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Waits for a command. If it is stuck, kills it and fails.
    pub fn of(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().expect("the command is waited for") {
                break Some(status);
            }
            if Instant::now() > end {
                child.kill().expect("the command is ended");
                child.wait().expect("the command has ended");
                break None;
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        let text = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
            let bytes = reader.map(|reader| reader.join().expect("what it says is read"));
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
        };
        let (stdout, stderr) = (text(stdout), text(stderr));
        let status = status.unwrap_or_else(|| panic!("the command is stuck\n{stdout}\n{stderr}"));
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self {
            code: status.code(),
            stdout,
            stderr,
        }
    }

    /// Checks that the command succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        self.ended_with(0)
    }

    /// Checks the exit code of the command.
    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that a text is on standard output.
    #[track_caller]
    pub fn says(&self, text: &str) {
        let said = &self.stdout;
        assert!(said.contains(text), "{text:?} is not in {said}\n{}", self.stderr);
    }

    /// Checks that a text is on standard error.
    #[track_caller]
    pub fn warns(&self, text: &str) {
        let said = &self.stderr;
        assert!(said.contains(text), "{text:?} is not in {said}\n{}", self.stdout);
    }

    /// The error of a command that must have refused bad input.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "an error belongs on standard error");
        assert!(!self.stderr.trim().is_empty(), "an error says what is wrong");
        self.stderr
    }
}

/// The words of a line, which are separated by spaces.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn reader(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// A value for long runs, in which tests try everything, or the one for short runs.
pub fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("SEEKLESS_TEST_LONG").is_some() {
        long
    } else {
        short
    }
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Runs a program that prepares a test. Returns whether it exists and succeeded.
pub fn prepared(program: &str, arguments: &[&OsStr]) -> bool {
    let output: Option<Output> = Command::new(program).args(arguments).output().ok();
    output.is_some_and(|output| output.status.success())
}

/// Whether root runs the tests; prints `skipped` if not.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: not root");
    }
    is_root
}

/// A file system mounted on a directory, unmounted when this is dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs; prints why and returns `None` if mounting is not allowed.
    pub fn tmpfs(directory: &Path, options: &str) -> Option<Self> {
        Self::of("tmpfs", directory, options)
    }

    /// A ramfs, which has neither limits nor holes; as [`Mount::tmpfs`].
    pub fn ramfs(directory: &Path) -> Option<Self> {
        Self::of("ramfs", directory, "mode=700")
    }

    /// A file system in a new image of this many bytes; as [`Mount::tmpfs`], also if its programs are missing.
    pub fn image(kind: &str, bytes: u64, image: &Path, directory: &Path) -> Option<Self> {
        fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let made = prepared(&format!("mkfs.{kind}"), &[OsStr::new("-q"), image.as_os_str()]);
        let arguments = [
            OsStr::new("-o"),
            OsStr::new("loop"),
            image.as_os_str(),
            directory.as_os_str(),
        ];
        let mounted = made && prepared("mount", &arguments);
        if !mounted {
            println!("skipped: a {kind} image needs its mkfs and root");
        }
        mounted.then(|| Self(directory.to_owned()))
    }

    /// The file system of an image again, only to be read, with these options; prints why and returns `None` if that is not allowed.
    pub fn image_again(image: &Path, options: &str, directory: &Path) -> Option<Self> {
        let options = format!("ro,loop,{options}");
        let options = ["-o", &options].map(OsStr::new);
        Self::by("mount", &[&options[..], &[image.as_os_str()]].concat(), directory)
    }

    /// A directory again, by FUSE; prints why and returns `None` if its program is missing or mounting is not allowed.
    pub fn bindfs(source: &Path, directory: &Path, options: &[&str]) -> Option<Self> {
        let options: Vec<_> = options.iter().map(OsStr::new).collect();
        Self::by("bindfs", &[&options[..], &[source.as_os_str()]].concat(), directory)
    }

    /// A directory again, by a bind mount; as [`Mount::bindfs`].
    pub fn bind(source: &Path, directory: &Path) -> Option<Self> {
        Self::by("mount", &[OsStr::new("--bind"), source.as_os_str()], directory)
    }

    /// The ext4 of an image, by FUSE; as [`Mount::bindfs`].
    pub fn fuse2fs(image: &Path, directory: &Path) -> Option<Self> {
        let options = ["-o", "fakeroot"].map(OsStr::new);
        Self::by("fuse2fs", &[&options[..], &[image.as_os_str()]].concat(), directory)
    }

    /// The exFAT of an image, by FUSE: no holes, no modes, no lasting inode numbers; as [`Mount::bindfs`].
    pub fn exfat(image: &Path, directory: &Path) -> Option<Self> {
        let options = ["-t", "exfat-fuse", "-o", "loop"].map(OsStr::new);
        Self::by("mount", &[&options[..], &[image.as_os_str()]].concat(), directory)
    }

    /// An overlay over a directory; as [`Mount::bindfs`].
    pub fn overlay([lower, upper, work]: [&Path; 3], directory: &Path) -> Option<Self> {
        let [lower, upper, work] = [lower, upper, work].map(Path::display);
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        Self::of("overlay", directory, &options)
    }

    /// An overlay of two directories that is only read; as [`Mount::bindfs`].
    pub fn layers([upper, lower]: [&Path; 2], options: &str, directory: &Path) -> Option<Self> {
        let [upper, lower] = [upper, lower].map(Path::display);
        Self::of("overlay", directory, &format!("lowerdir={upper}:{lower},{options}"))
    }

    pub fn by(program: &str, arguments: &[&OsStr], directory: &Path) -> Option<Self> {
        let mounted = prepared(program, &[arguments, &[directory.as_os_str()]].concat());
        if !mounted {
            println!("skipped: {program} {arguments:?} cannot mount this here");
        }
        mounted.then(|| Self(directory.to_owned()))
    }

    fn of(kind: &str, directory: &Path, options: &str) -> Option<Self> {
        let arguments = ["-t", kind, "-o", options, kind].map(OsStr::new);
        let mounted = prepared("mount", &[&arguments[..], &[directory.as_os_str()]].concat());
        if !mounted {
            println!("skipped: mounting a file system needs root");
        }
        mounted.then(|| Self(directory.to_owned()))
    }

    /// Makes it read-only.
    pub fn read_only(&self) {
        let arguments = ["-o", "remount,ro"].map(OsStr::new);
        assert!(prepared("mount", &[&arguments[..], &[self.0.as_os_str()]].concat()));
    }
}

/// A further device of an image, only to be read. It goes with this, or when it is unmounted.
pub struct Loop(String);

impl Loop {
    /// Prints why and returns `None` if that is not allowed.
    pub fn attach(image: &Path) -> Option<Self> {
        let mut attach = Command::new("losetup");
        let attached = attach.args(["-f", "-r", "--show"]).arg(image).output();
        let attached = attached.ok().filter(|output| output.status.success());
        if attached.is_none() {
            println!("skipped: a device of an image needs losetup and root");
        }
        Some(Self(String::from_utf8(attached?.stdout).unwrap().trim().to_owned()))
    }

    /// Mounts its file system, only to be read, with these options.
    pub fn mount(&self, options: &str, directory: &Path) -> Option<Mount> {
        let options = format!("ro,{options}");
        let arguments = ["-o", &options, &self.0].map(OsStr::new);
        Mount::by("mount", &arguments, directory)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        prepared("losetup", &["-d", &self.0].map(OsStr::new));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A command that has just ended may keep a FUSE mount busy for a moment.
        let attempts = 0..50;
        let is_unmounted = attempts.into_iter().any(|attempt| {
            std::thread::sleep(Duration::from_millis(attempt));
            prepared("umount", &[self.0.as_os_str()])
        });
        if !is_unmounted {
            println!("{} stays mounted", self.0.display());
        }
    }
}
