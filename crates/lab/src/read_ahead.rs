//! The device's read-ahead window, set for the duration of a trial.
//!
//! It is restored after the trial, and by a signal that ends the run. SIGKILL leaves the window and a note of it; the next
//! run restores the window.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use seekless_engine::StorageFacts;

/// Where the notes are, one for each device whose window is set: KiB before, KiB set, the process, and the file of the window.
/// The directory is emptied when the machine starts, and windows are as the kernel makes them then.
const NOTES: &str = "/run/seekless/read-ahead";

/// A read-ahead window that was set, restored when this is dropped.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    window: PathBuf,
    before_kib: u64,
    note: PathBuf,
}

impl ReadAhead {
    /// Sets the window of the device of a storage, in KiB, for files that are opened from now on.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn set(facts: &StorageFacts, kib: u64) -> Result<Self, String> {
        set_in(Path::new(NOTES), window_file(facts)?, kib)
    }

    /// Why the window of a storage cannot be set; `None` if it can.
    pub fn refuses(facts: &StorageFacts) -> Option<String> {
        // Opening it for writing changes nothing.
        let refused = |error| format!("cannot set the read-ahead window, which needs root: {error}");
        let opened = window_file(facts).and_then(|path| File::options().write(true).open(path).map_err(refused));
        opened.err()
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = fs::write(&self.window, self.before_kib.to_string());
        let _ = fs::remove_file(&self.note);
    }
}

fn set_in(notes: &Path, window: PathBuf, kib: u64) -> Result<ReadAhead, String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("{path}: {error}")
    };
    // First restore what a killed run left, or its window would be taken for the one to restore.
    put_back_in(notes);
    let before_kib = read_kib(&window).map_err(failed(&window))?;
    let made = DirBuilder::new().recursive(true).mode(0o755).create(notes);
    made.map_err(failed(notes))?;
    // The directory of the device is above `queue`.
    let device = window.ancestors().nth(2).and_then(Path::file_name);
    let note = notes.join(device.ok_or("the device has no name")?);
    let mut file = File::create_new(&note).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => "another run has set the read-ahead window".to_owned(),
        _ => failed(&note)(error),
    })?;
    let set = ReadAhead {
        window,
        before_kib,
        note,
    };
    let window = &set.window;
    let written = write!(file, "{before_kib} {kib} {} {}", process::id(), window.display());
    written.map_err(failed(&set.note))?;
    fs::write(window, kib.to_string()).map_err(failed(window))?;
    // Drivers may round it, or have a minimum.
    match read_kib(window).map_err(failed(window))? {
        now if now == kib => Ok(set),
        now => Err(format!("the device set {now} KiB instead of {kib} KiB")),
    }
}

/// Restores the windows that this process has set, and those that killed runs left changed.
pub fn put_back_windows() {
    put_back_in(Path::new(NOTES));
}

fn put_back_in(notes: &Path) {
    for note in fs::read_dir(notes).into_iter().flatten().flatten() {
        let text = fs::read_to_string(note.path()).unwrap_or_default();
        let mut words = text.splitn(4, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let numbers = (number(), number(), number());
        // Without all of them, the run was killed before it set the window.
        if let ((Some(before_kib), Some(set_kib), Some(process)), Some(window)) = (numbers, words.next()) {
            if process != u64::from(process::id()) && Path::new("/proc").join(process.to_string()).exists() {
                continue;
            }
            // Somebody may have changed it since.
            if read_kib(Path::new(window)).is_ok_and(|now| now == set_kib) {
                let _ = fs::write(window, before_kib.to_string());
            }
        }
        let _ = fs::remove_file(note.path());
    }
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

    /// A file that stands for the window of the device `disk`, and a directory of notes.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let all = tempfile::tempdir().unwrap();
        let (window, notes) = (all.path().join("disk/queue/read_ahead_kb"), all.path().join("notes"));
        fs::create_dir_all(window.parent().unwrap()).unwrap();
        fs::write(&window, "128\n").unwrap();
        (all, window, notes)
    }

    #[test]
    fn read_ahead_window_is_set_for_a_trial_by_one_run_at_a_time() {
        let (_all, window, notes) = place();
        let set = set_in(&notes, window.clone(), 0).unwrap();
        assert_eq!(read_kib(&window).unwrap(), 0);
        // As if the first process, which lives, had set it.
        fs::write(&set.note, format!("128 0 1 {}", window.display())).unwrap();
        let why = set_in(&notes, window.clone(), 256).unwrap_err();
        assert_eq!(why, "another run has set the read-ahead window");
        assert_eq!(read_kib(&window).unwrap(), 0);
        drop(set);
        assert_eq!(read_kib(&window).unwrap(), 128);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);
    }

    #[test]
    fn read_ahead_window_of_a_killed_run_is_put_back_if_unchanged() {
        for (set_later, expected) in [(None, 128), (Some("512\n"), 512)] {
            let (_all, window, notes) = place();
            std::mem::forget(set_in(&notes, window.clone(), 0).unwrap());
            if let Some(kib) = set_later {
                fs::write(&window, kib).unwrap();
            }
            // Killed between making its note and setting the window.
            fs::write(notes.join("other"), "128 0").unwrap();
            put_back_in(&notes);
            assert_eq!(read_kib(&window).unwrap(), expected);
            assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_run_after_a_killed_one_puts_back_what_was_before_both() {
        let (_all, window, notes) = place();
        std::mem::forget(set_in(&notes, window.clone(), 0).unwrap());
        drop(set_in(&notes, window.clone(), 256).unwrap());
        assert_eq!(read_kib(&window).unwrap(), 128);
    }
}
