//! A directory to run the command in, and helpers for all tests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use seekless_cli::{Call, Streams};
use seekless_record::Run;
use seekless_sys::Directory;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

/// No command of these tests takes longer; one that does is stuck.
const PATIENCE: Duration = Duration::from_mins(2);

/// A small measurement: reading one megabyte once, by the methods of the next argument.
pub const SMALL_BENCH: &str = "bench --tables --notes read --size 1M --rounds 1 --methods";

/// The words of a command line.
pub trait Words {
    /// One by one.
    fn list(self) -> Vec<OsString>;
}

/// A line, which is divided at spaces.
impl Words for &str {
    fn list(self) -> Vec<OsString> {
        self.split_whitespace().map(OsString::from).collect()
    }
}

impl Words for &String {
    fn list(self) -> Vec<OsString> {
        self.as_str().list()
    }
}

impl<S: AsRef<OsStr>> Words for &[S] {
    fn list(self) -> Vec<OsString> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<OsStr>, const N: usize> Words for &[S; N] {
    fn list(self) -> Vec<OsString> {
        self.as_slice().list()
    }
}

impl<S: AsRef<OsStr>> Words for &Vec<S> {
    fn list(self) -> Vec<OsString> {
        self.as_slice().list()
    }
}

/// Some words, and some after them.
impl<A: Words, B: Words> Words for (A, B) {
    fn list(self) -> Vec<OsString> {
        [self.0.list(), self.1.list()].concat()
    }
}

impl<A: Words, B: Words, C: Words> Words for (A, B, C) {
    fn list(self) -> Vec<OsString> {
        (self.0, (self.1, self.2)).list()
    }
}

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

    /// A place for a test that needs root; prints `skipped` and returns `None` without it.
    pub fn of_root() -> Option<Self> {
        is_root().then(Self::new)
    }

    /// The directory to work in.
    pub fn directory(&self) -> PathBuf {
        self.all.path().join("work")
    }

    /// The path of a file in it.
    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.directory().join(name.as_ref())
    }

    /// Makes directories in it, whose names are divided by spaces.
    pub fn directories(&self, names: &str) {
        for name in names.split(' ') {
            fs::create_dir_all(self.path(name)).expect("a directory is made");
        }
    }

    /// Makes a file in it, and the directories above that.
    pub fn file(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        let above = path.parent().expect("a directory");
        fs::create_dir_all(above).expect("its directory is made");
        fs::write(&path, bytes).expect("a file is written");
        path
    }

    /// Makes files with these bytes in it, whose names are divided by spaces.
    pub fn files(&self, names: &str, bytes: &[u8]) {
        for name in names.split(' ') {
            self.file(name, bytes);
        }
    }

    /// Makes a device in it, by the words of mknod; prints `skipped` and returns false if that is not allowed.
    pub fn device(&self, name: &str, words: &str) -> bool {
        let is_made = Ended::by(self.command_of("mknod").arg(name).args(words.split(' '))).code == Some(0);
        if !is_made {
            println!("skipped: making a device needs root");
        }
        is_made
    }

    /// Makes a file of this many bytes in it, which is a hole if the file system has holes.
    pub fn sparse(&self, name: impl AsRef<OsStr>, bytes: u64) -> PathBuf {
        let path = self.file(name, b"");
        resize(&path, bytes);
        path
    }

    /// The bytes of a file in it.
    pub fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file is read")
    }

    /// The text of a file in it.
    pub fn text(&self, name: impl AsRef<OsStr>) -> String {
        fs::read_to_string(self.path(name)).expect("a text is read")
    }

    /// Gives a file in it one more name.
    pub fn hard_link(&self, name: impl AsRef<OsStr>, other: impl AsRef<OsStr>) {
        fs::hard_link(self.path(name), self.path(other)).expect("a file is linked");
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
            .env_remove("XDG_CACHE_HOME")
            .env_remove("SEEKLESS_LOG")
            .env_remove("SEEKLESS_PROFILE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the command.
    pub fn start(&self, arguments: impl Words) -> Child {
        let mut command = self.command();
        command.args(arguments.list()).spawn().expect("the command starts")
    }

    /// Runs the command to its end, with at most this many open files.
    pub fn run_with_few_files(&self, most: u32, arguments: impl Words) -> Ended {
        Ended::by(self.command_after(&format!("ulimit -n {most}")).args(arguments.list()))
    }

    /// The command, in a shell that runs this line first.
    pub fn command_after(&self, line: &str) -> Command {
        let mut shell = self.command_of("bash");
        shell.args(["-c", &format!("{line} && exec \"$0\" \"$@\"")]);
        shell.arg(self.command().get_program());
        shell
    }

    /// Runs the command to its end with its output on a full device; `None` if there is no such device.
    pub fn run_full(&self, arguments: impl Words) -> Option<Ended> {
        let full = fs::File::options().write(true).open("/dev/full").ok()?;
        Some(Ended::by(self.command().args(arguments.list()).stdout(full)))
    }

    /// Runs the command to its end with its output closed.
    pub fn run_unread(&self, arguments: impl Words) -> Ended {
        let mut child = self.start(arguments);
        drop(child.stdout.take());
        Ended::of(child)
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: impl Words) -> Ended {
        Ended::of(self.start(arguments))
    }

    /// Runs the command to its end in this process, which takes less time. What it does is the same, unless it depends on signals,
    /// limits, variables or users.
    pub fn call(&self, arguments: impl Words) -> Ended {
        self.call_fed(arguments, b"")
    }

    /// Like [`Place::call`], with this on standard input.
    pub fn call_fed(&self, arguments: impl Words, input: &[u8]) -> Ended {
        self.call_as("seekless", arguments, input)
    }

    /// Like [`Place::call_fed`], under this name.
    #[cfg(target_os = "linux")]
    pub fn call_as(&self, name: &str, arguments: impl Words, input: &[u8]) -> Ended {
        // As in the program.
        seekless_engine::allow_mapping().expect("methods may map files");
        let mut files = [(); 3].map(|()| tempfile::tempfile().expect("a temporary file"));
        files[0].write_all(input).expect("its input is written");
        files[0].rewind().expect("its input is read from the beginning");
        let [input, output, error] = files.each_ref().map(|file| file.try_clone().expect("a descriptor"));
        let words = std::iter::once(name.into())
            .chain(arguments.list())
            .collect::<Vec<OsString>>();
        let call = Call::new(words, Streams::new(input, output, error))
            .with_program(env!("CARGO_BIN_EXE_seekless"))
            .with_user_directory(self.all.path());
        let directory = self.directory();
        let called = std::thread::spawn(move || {
            // The working directory is then that of this thread, and of those that it starts.
            unshare(CloneFlags::CLONE_FS).expect("a working directory of its own");
            std::env::set_current_dir(directory).expect("the directory is there");
            seekless_cli::run(call)
        });
        let code = called.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let [_, stdout, stderr] = files.map(|mut file| {
            let mut bytes = Vec::new();
            file.rewind().expect("what it says is read");
            file.read_to_end(&mut bytes).expect("what it says is read");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ended {
            code: Some(code.into()),
            stdout,
            stderr,
        }
    }

    /// Elsewhere threads have no working directories of their own.
    #[cfg(not(target_os = "linux"))]
    pub fn call_as(&self, name: &str, arguments: impl Words, input: &[u8]) -> Ended {
        self.run_as(name, arguments, input)
    }

    /// Runs the command, which must succeed.
    #[track_caller]
    pub fn succeeds(&self, arguments: impl Words) -> Ended {
        self.run(arguments).succeeded()
    }

    /// Runs the command, which must end with this exit code.
    #[track_caller]
    pub fn fails(&self, code: i32, arguments: impl Words) -> Ended {
        self.run(arguments).ended_with(code)
    }

    /// Like [`Place::call`] of a command that must refuse bad input, with an error that has all of these parts.
    #[track_caller]
    pub fn refuses(&self, arguments: impl Words, told: &[&str]) {
        self.call(arguments).refused_with(told);
    }

    /// Runs a command for a path, which must fail for this reason, and for the file `file`, which must be done all the same.
    #[track_caller]
    pub fn goes_on_after(&self, words: &str, path: &str, reason: &str) {
        let ended = self.run((words, &[path, "file", "--jsonl"])).ended_with(2);
        let told = &ended.stderr;
        let is_told = told.starts_with(&format!("seekless: {path}: {reason}"));
        assert!(is_told && told.matches("seekless: ").count() == 1, "{told}");
        let all = ended.json_lines();
        assert_fields(&all[0], &json!({"kind": "failed", "path": path}));
        assert!(all[0]["reason"].as_str().unwrap().starts_with(reason), "{}", all[0]);
        assert_eq!(all[1]["path"], "file");
        assert_fields(all.last().unwrap(), &json!({"files": 1, "failed": 1}));
    }

    /// Runs the command to its end, with this on standard input.
    pub fn run_fed(&self, arguments: impl Words, input: &[u8]) -> Ended {
        self.run_as("seekless", arguments, input)
    }

    /// Like [`Place::run_fed`], under this name.
    pub fn run_as(&self, name: &str, arguments: impl Words, input: &[u8]) -> Ended {
        let mut command = self.command();
        let mut child = command
            .arg0(name)
            .args(arguments.list())
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(input).expect("the command reads its input");
        drop(stdin);
        Ended::of(child)
    }

    /// Runs a small measurement: reading one megabyte by one method, once.
    pub fn bench(&self, arguments: impl Words) -> Ended {
        self.run((SMALL_BENCH, "read/sync,block=128K", arguments))
    }

    /// Measures an experiment, which is written into `experiment.toml`, with tables and notes and these options.
    #[track_caller]
    pub fn measured(&self, experiment: &str, options: impl Words) -> (Ended, Run) {
        self.file("experiment.toml", experiment.as_bytes());
        let ended = self.succeeds(("bench --tables --notes experiment.toml", options));
        (ended, self.only_run())
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
#[derive(Debug, PartialEq)]
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

    /// Runs a command to its end.
    pub fn by(command: &mut Command) -> Self {
        Self::of(command.spawn().expect("the command starts"))
    }

    /// Interrupts a command as Ctrl-C does. It must end so.
    #[track_caller]
    pub fn interrupted(child: Child) -> Self {
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        Self::of(child).ended_with(130)
    }

    /// Checks the exit code, and that the errors have all of these parts.
    #[track_caller]
    pub fn failed_with(&self, code: i32, told: &[&str]) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert_contains(&self.stderr, told);
    }

    /// The document on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// The documents on the lines of standard output.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
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

    /// Checks that the command refused bad input, with an error that has all of these parts.
    #[track_caller]
    pub fn refused_with(self, told: &[&str]) {
        assert_contains(&self.refused(), told);
    }
}

/// Fails unless an object has all fields of another.
#[track_caller]
pub fn assert_fields(object: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(object[name], *value, "{name}: {object}");
    }
}

/// Changes who may do what with a file or directory.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode is set");
}

/// Changes the size of a file.
pub fn resize(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).expect("a file is opened");
    file.set_len(bytes).expect("a file is resized");
}

/// The words of a line, which are separated by spaces.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Fails unless a text has all of these parts.
#[track_caller]
pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
}

/// Fails if a text has one of these parts.
#[track_caller]
pub fn assert_lacks(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "`{part}` is there: {text}");
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// A value for long runs, in which tests try everything, or the one for short runs.
pub fn long_or<T>(long: T, short: T) -> T {
    if is_long() { long } else { short }
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

/// Whether everything is tried: many moments of a kill, all combinations, all cases.
pub fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}

/// Whether root runs the tests; prints `skipped` if not.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: not root");
    }
    is_root
}

/// A file system mounted on a directory, which is made if it is not there. It is unmounted when this is dropped.
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

    /// A file system in a new image of this many bytes; as [`Mount::tmpfs`], also if its programs
    /// are missing. Options of its mkfs may follow the kind. exFAT and NTFS are mounted by FUSE.
    pub fn image(kind: &str, bytes: u64, image: &Path, directory: &Path) -> Option<Self> {
        fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let _ = fs::create_dir(directory);
        let (kind, options) = kind.split_once(' ').unwrap_or((kind, ""));
        let options: Vec<_> = options.split_whitespace().map(OsStr::new).collect();
        let made = prepared(&format!("mkfs.{kind}"), &[&options[..], &[image.as_os_str()]].concat());
        let driver = match kind {
            "exfat" => "exfat-fuse",
            "ntfs" => "lowntfs-3g",
            kind => kind,
        };
        let options = ["-t", driver, "-o", "loop"].map(OsStr::new);
        let paths = [image.as_os_str(), directory.as_os_str()];
        let mounted = made && prepared("mount", &[&options[..], &paths].concat());
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
        let _ = fs::create_dir(directory);
        let mounted = prepared(program, &[arguments, &[directory.as_os_str()]].concat());
        if !mounted {
            println!("skipped: {program} {arguments:?} cannot mount this here");
        }
        mounted.then(|| Self(directory.to_owned()))
    }

    fn of(kind: &str, directory: &Path, options: &str) -> Option<Self> {
        let _ = fs::create_dir(directory);
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
