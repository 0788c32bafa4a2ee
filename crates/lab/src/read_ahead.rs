//! The device's read-ahead window, set for the duration of a trial and restored on any exit.
//!
//! A second process, the watcher, sets the window and restores it when the trial ends or this process is killed.
//! Meanwhile, a note in `/run` holds the old window. If the watcher is killed, too, the next start of seekless restores
//! the window.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use seekless::StorageFacts;
use seekless::files::read_within;
use seekless_sys::{self as sys, Access, Directory};
use serde::{Deserialize, Serialize};

/// Where the notes are. The directory is emptied when the machine starts, and windows are as the kernel makes them
/// then. Only root sets windows; others may see which are set.
const NOTES: &str = "/run/seekless";
/// The suffix of a device's note.
const NOTE: &str = ".read-ahead";
/// The suffix of the file that is locked while the window of a device is set. Without the lock, another run would take
/// our window for the one to restore. The file is never removed.
const LOCK: &str = ".lock";

/// The hidden command that watches over the window of a device.
pub const WATCH_COMMAND: &str = "watch-read-ahead";

/// A read-ahead window that was set. A second process restores the old window when this is dropped or this process is killed: it
/// then sees the end of a pipe that only this process holds.
#[derive(Debug)]
pub struct ReadAhead(Child);

impl ReadAhead {
    /// Sets the window of the device of a storage, in KiB, for files that are opened from now on. `program` is started to set and
    /// restore it.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn set(facts: &StorageFacts, kib: u64, program: &Path) -> Result<Self, String> {
        let file = window_file(facts)?;
        let device = device_of(&file).ok_or("the device has no name")?;
        let failed = |error: io::Error| format!("{}: {error}", program.display());
        let process = Command::new(program)
            .arg(WATCH_COMMAND)
            .arg(device)
            // It may outlive this process, so it must not keep a file system or terminal busy.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut set = Self(process.map_err(failed)?);
        let mut answer = String::new();
        if let (Some(input), Some(output)) = (&mut set.0.stdin, set.0.stdout.take()) {
            // If writing fails, reading the answer shows why.
            let _ = writeln!(input, "{}\n{kib}", file.display());
            BufReader::new(output).read_line(&mut answer).map_err(failed)?;
        }
        match answer.trim_end() {
            WATCHING => Ok(set),
            "" => Err(failed(io::Error::other("the process that restores the window ended"))),
            why => Err(why.to_owned()),
        }
    }

    /// Why the window of a storage cannot be set; `None` if it can.
    #[must_use]
    pub fn refuses(facts: &StorageFacts) -> Option<String> {
        // Opening it for writing changes nothing.
        let refused = |error| format!("cannot set the read-ahead window, which needs root: {error}");
        let opened = window_file(facts).and_then(|path| File::options().write(true).open(path).map_err(refused));
        opened.err()
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Closes the pipe first.
        if !self.0.wait().is_ok_and(|ended| ended.success()) {
            let _ = put_back_left();
        }
    }
}

/// The answer of the process when it has set the window; any other answer is the error.
const WATCHING: &str = "watching";

/// The watcher: sets the window of a device to the KiB in the second line of `input`, through the file in the first
/// line. At the end of `input`, it restores the window.
///
/// # Errors
/// The system's.
pub fn watch(device: &OsStr, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    // A new process group, so that Ctrl-C, or killing the run's group, does not end it.
    rustix::process::setsid()?;
    let (mut file, mut kib) = (String::new(), String::new());
    input.read_line(&mut file)?;
    input.read_line(&mut kib)?;
    let kib = kib.trim_end().parse().map_err(io::Error::other)?;
    let notes = make_notes(Path::new(NOTES));
    let locked = notes.and_then(|notes| Ok((lock(&notes, device)?, notes)));
    let (_lock, notes) = match locked {
        Ok(locked) => locked,
        Err(error) => return writeln!(output, "{NOTES}: {error}"),
    };
    let note = named(device, NOTE);
    let set = set(&notes, &note, Path::new(file.trim_end_matches('\n')), kib);
    writeln!(output, "{}", set.err().as_deref().unwrap_or(WATCHING))?;
    output.flush()?;
    io::copy(input, &mut io::sink())?;
    put_back(&notes, &note).map(drop)
}

/// Writes the note of a window, then sets it. The caller holds the lock of the device.
fn set(notes: &Directory, note: &OsStr, file: &Path, kib: u64) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", file.display());
    // First restore what a killed run left, or its window would be taken for the one to restore.
    put_back(notes, note).map_err(failed)?;
    let before_kib = read_kib(file).map_err(failed)?;
    let left = Note {
        file: file.to_owned(),
        before_kib,
        set_kib: kib,
        process: parent_id().cast_signed(),
    };
    left.write(notes, note)
        .map_err(|error| format!("{}: {error}", note.display()))?;
    fs::write(file, kib.to_string()).map_err(failed)?;
    // Drivers may round it, or have a minimum.
    match read_kib(file).map_err(failed)? {
        now if now == kib => Ok(()),
        now => {
            // The note must match the actual window to be trusted.
            let _ = fs::write(file, before_kib.to_string());
            Err(format!("the device set {now} KiB instead of {kib} KiB"))
        }
    }
}

/// A window that a killed run left changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftWindow {
    /// The name of the device.
    pub device: String,
    /// What the run set, in KiB.
    pub set_kib: u64,
    /// What it was before.
    pub before_kib: u64,
    /// What was done about it.
    pub now: WindowOutcome,
}

/// What was done about a window that a killed run left changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowOutcome {
    /// It is as it was before the run.
    PutBack,
    /// It is as the run set it: only root may put it back.
    NotAllowed,
    /// It is as the run set it, and could not be put back.
    Failed(String),
}

/// Restores the windows that killed runs left changed. If there is none, this takes a few system calls.
#[must_use]
pub fn put_back_left() -> Vec<LeftWindow> {
    left_in(Path::new(NOTES))
}

/// The name of the device whose read-ahead window applies to the files of a storage; `None` if there is none to set.
#[must_use]
pub fn device_name(facts: &StorageFacts) -> Option<OsString> {
    device_of(&window_file(facts).ok()?)
}

fn left_in(directory: &Path) -> Vec<LeftWindow> {
    let Ok(notes) = open_notes(directory) else {
        return Vec::new();
    };
    let names = notes.names().unwrap_or_default();
    let device = |name: &OsString| {
        let device = name.as_bytes().strip_suffix(NOTE.as_bytes())?;
        left(&notes, OsStr::from_bytes(device))
    };
    names.iter().filter_map(device).collect()
}

fn left(notes: &Directory, device: &OsStr) -> Option<LeftWindow> {
    let name = &named(device, NOTE);
    let left = |note: Note, now: WindowOutcome| LeftWindow {
        device: device.to_string_lossy().into_owned(),
        set_kib: note.set_kib,
        before_kib: note.before_kib,
        now,
    };
    let lock = open_lock(notes, device);
    if lock
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    {
        let note = Note::read(notes, name).ok()??;
        let is_left = note.is_set() && !note.is_of_live_run();
        return is_left.then(|| left(note, WindowOutcome::NotAllowed));
    }
    let lock = lock.ok()?;
    lock.try_lock().ok()?;
    let note = Note::read(notes, name).ok()??;
    match put_back(notes, name) {
        Ok(true) => Some(left(note, WindowOutcome::PutBack)),
        Ok(false) => None,
        Err(error) => Some(left(note, WindowOutcome::Failed(error.to_string()))),
    }
}

/// What a note says.
#[derive(Serialize, Deserialize)]
struct Note {
    file: PathBuf,
    before_kib: u64,
    set_kib: u64,
    /// The process of the run.
    process: i32,
}

/// A note is a path and three numbers.
const LONGEST_NOTE: u64 = 8 << 10;

impl Note {
    /// `None` where there is none, or one that was not written to its end: the window was not set then.
    fn read(notes: &Directory, name: &OsStr) -> io::Result<Option<Self>> {
        match notes.open_plain(name, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => Ok(serde_json::from_slice(&read_within(opened?, LONGEST_NOTE)?).ok()),
        }
    }

    fn write(&self, notes: &Directory, name: &OsStr) -> io::Result<()> {
        let mut file = notes.create_file(name, 0o600)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.set_permissions(Permissions::from_mode(0o644))
    }

    /// Whether the window is as the run set it: somebody may have changed it since, or put another device in its place.
    fn is_set(&self) -> bool {
        read_kib(&self.file).is_ok_and(|now| now == self.set_kib)
    }

    /// For users who may not check the lock.
    fn is_of_live_run(&self) -> bool {
        Pid::from_raw(self.process).is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
    }
}

/// Restores a window, and removes its note. Returns false if there was nothing to restore. The caller holds the lock of
/// the device.
fn put_back(notes: &Directory, name: &OsStr) -> io::Result<bool> {
    let note = Note::read(notes, name)?;
    let is_set = note.as_ref().is_some_and(Note::is_set);
    if let Some(note) = note.filter(|_| is_set) {
        fs::write(note.file, note.before_kib.to_string())?;
    }
    match notes.remove_file(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(is_set),
    }
}

/// The directory of notes, made where it is missing.
fn make_notes(path: &Path) -> io::Result<Directory> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => {
            made?;
            // Whatever the umask says.
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
    }
    open_notes(path)
}

/// Opens the directory of notes. Fails if others than root and this user can write to it.
fn open_notes(path: &Path) -> io::Result<Directory> {
    let notes = Directory::open(path)?;
    let found = notes.metadata()?;
    if [0, sys::effective_user()].contains(&found.uid()) && found.mode() & 0o022 == 0 {
        Ok(notes)
    } else {
        Err(io::Error::other("others may write to it"))
    }
}

/// Waits for the lock of a device.
fn lock(notes: &Directory, device: &OsStr) -> io::Result<File> {
    let lock = open_lock(notes, device)?;
    lock.lock()?;
    Ok(lock)
}

/// Only its owner may open it: anybody who may open a file may lock it.
fn open_lock(notes: &Directory, device: &OsStr) -> io::Result<File> {
    let name = named(device, LOCK);
    match notes.create_file(&name, 0o600) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => notes.open_plain(&name, Access::Overwrite),
        made => made,
    }
}

fn named(device: &OsStr, end: &str) -> OsString {
    let mut name = device.to_owned();
    name.push(end);
    name
}

/// The name of the device whose window a file of `/sys` is: the directory above `queue`.
fn device_of(file: &Path) -> Option<OsString> {
    file.parent()?.parent()?.file_name().map(OsStr::to_owned)
}

fn read_kib(file: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    text.trim().parse().map_err(io::Error::other)
}

/// The file of the window of a storage's device.
fn window_file(facts: &StorageFacts) -> Result<PathBuf, String> {
    let device = facts.device.as_ref();
    let device = device.ok_or("there is no device with a read-ahead window")?;
    // A partition has the window of its disk.
    let files = ["queue/read_ahead_kb", "../queue/read_ahead_kb"].map(|file| device.sys_directory.join(file));
    let file = files.into_iter().find(|file| file.exists());
    let file = file.ok_or("the device has no read-ahead window")?;
    let number = fs::read_to_string(device.sys_directory.join("dev")).unwrap_or_default();
    if number.trim() == facts.device_number_text() {
        fs::canonicalize(&file).map_err(|error| format!("{}: {error}", file.display()))
    } else {
        Err(format!(
            "{} has a read-ahead window of its own instead of that of {}",
            facts.file_system, device.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE_OF_DISK: &str = "disk.read-ahead";

    /// A file that stands for the window of the device `disk`, and a directory of notes.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let all = tempfile::tempdir().unwrap();
        let (file, notes) = (all.path().join("disk/queue/read_ahead_kb"), all.path().join("notes"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "128\n").unwrap();
        (all, file, notes)
    }

    /// The place after a run that set the window to 0 and was killed then: nothing was put back.
    fn left_by_killed() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let (all, file, notes) = place();
        set(&make_notes(&notes).unwrap(), OsStr::new(NOTE_OF_DISK), &file, 0).unwrap();
        assert_eq!(read_kib(&file).unwrap(), 0);
        (all, file, notes)
    }

    #[test]
    fn a_window_that_a_killed_run_left_is_put_back_once() {
        let (_all, file, notes) = left_by_killed();
        let expected = LeftWindow {
            device: "disk".to_owned(),
            set_kib: 0,
            before_kib: 128,
            now: WindowOutcome::PutBack,
        };
        assert_eq!(left_in(&notes), [expected]);
        assert_eq!(read_kib(&file).unwrap(), 128);
        assert_eq!(left_in(&notes), []);
    }

    #[test]
    fn a_window_stays_that_somebody_set_later_or_whose_run_lives_or_whose_notes_others_may_have_written() {
        let (_all, file, notes) = left_by_killed();
        fs::write(&file, "512\n").unwrap();
        assert_eq!((left_in(&notes), read_kib(&file).unwrap()), (Vec::new(), 512));
        let (_all, file, notes) = left_by_killed();
        let lock = lock(&make_notes(&notes).unwrap(), OsStr::new("disk")).unwrap();
        assert_eq!((left_in(&notes), read_kib(&file).unwrap()), (Vec::new(), 0));
        drop(lock);
        fs::set_permissions(&notes, Permissions::from_mode(0o777)).unwrap();
        assert_eq!((left_in(&notes), read_kib(&file).unwrap()), (Vec::new(), 0));
    }

    #[test]
    fn a_run_after_a_killed_one_puts_back_what_was_before_both() {
        let (_all, file, notes) = left_by_killed();
        let notes = make_notes(&notes).unwrap();
        set(&notes, OsStr::new(NOTE_OF_DISK), &file, 256).unwrap();
        put_back(&notes, OsStr::new(NOTE_OF_DISK)).unwrap();
        assert_eq!(read_kib(&file).unwrap(), 128);
    }

    #[test]
    fn several_that_set_the_window_at_once_leave_it_as_it_was() {
        let (_all, file, notes) = place();
        make_notes(&notes).unwrap();
        std::thread::scope(|scope| {
            for kib in [128, 256, 512] {
                let (file, notes) = (&file, &notes);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let (notes, note) = (make_notes(notes).unwrap(), OsStr::new(NOTE_OF_DISK));
                        let _lock = lock(&notes, OsStr::new("disk")).unwrap();
                        set(&notes, note, file, kib).unwrap();
                        put_back(&notes, note).unwrap();
                    }
                });
            }
        });
        assert_eq!(read_kib(&file).unwrap(), 128);
    }
}
