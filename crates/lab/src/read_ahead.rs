//! The device's read-ahead window, set for as long as a trial takes and put back on any exit. After a kill the next run in
//! the same folder puts it back, by a note in the scratch folder.

use std::fs;
use std::path::{Path, PathBuf};

use seekless::StorageFacts;

/// A read-ahead window that was set. Dropping it puts the one before back.
#[derive(Debug)]
pub struct ReadAhead {
    path: PathBuf,
    before: String,
    note: Option<PathBuf>,
    /// Locked for as long as the window is set: another run that looked meanwhile would take ours for the one to put back.
    _lock: fs::File,
}

/// The name of the note of what to put back where.
pub const NOTE: &str = "read-ahead-before";

impl ReadAhead {
    /// Sets the window of the device of a storage, in KiB. Files that are opened from now on have it. What to put back is noted
    /// in `scratch`.
    ///
    /// # Errors
    /// Why it cannot be set, in words.
    pub fn set(facts: &StorageFacts, kib: u64, scratch: Option<&Path>) -> Result<Self, String> {
        let path = window_file(facts)?;
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let lock = fs::File::open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let before = fs::read_to_string(&path).map_err(failed)?;
        let note = scratch.map(|folder| folder.join(NOTE));
        if let Some(note) = &note {
            let written = fs::write(note, format!("{}\n{}\n", path.display(), before.trim()));
            written.map_err(|error| format!("{}: {error}", note.display()))?;
        }
        fs::write(&path, kib.to_string()).map_err(failed)?;
        let set = Self {
            path,
            before,
            note,
            _lock: lock,
        };
        // Drivers round it, or keep to a least of their own.
        let now = fs::read_to_string(&set.path).unwrap_or_default();
        if now.trim() == kib.to_string() {
            Ok(set)
        } else {
            Err(format!("the device made {} KiB of {kib}", now.trim()))
        }
    }

    /// Why the window of a storage cannot be set; `None` where it can.
    #[must_use]
    pub fn refuses(facts: &StorageFacts) -> Option<String> {
        let path = match window_file(facts) {
            Ok(path) => path,
            Err(why) => return Some(why),
        };
        // Opening it for writing changes nothing.
        let opened = fs::File::options().write(true).open(&path);
        opened
            .err()
            .map(|error| format!("the read-ahead window cannot be set ({error}): it needs root"))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, self.before.trim()) {
            tracing::warn!(path = %self.path.display(), %error, window = self.before.trim(), "the read-ahead window was not put back");
        } else if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

/// Puts back what a note says, if it can be one of ours.
pub fn put_back(note: &str) {
    let mut lines = note.lines();
    let (Some(path), Some(kib)) = (lines.next(), lines.next()) else {
        return;
    };
    let is_window = path.starts_with("/sys/") && path.ends_with("/queue/read_ahead_kb") && !path.contains("..");
    if let (true, Ok(kib)) = (is_window, kib.parse::<u64>()) {
        let _ = fs::write(path, kib.to_string());
    }
}

/// The file of the window of a storage's device.
fn window_file(facts: &StorageFacts) -> Result<PathBuf, String> {
    let device = facts
        .device
        .as_ref()
        .ok_or("there is no device whose read-ahead window could be set")?;
    // A partition has the window of its disk.
    let folders = [device.sys_folder.clone(), device.sys_folder.join("..")];
    let mut files = folders.iter().map(|folder| folder.join("queue/read_ahead_kb"));
    let file = files
        .find(|file| file.exists())
        .ok_or("the device has no read-ahead window")?;
    let number = fs::read_to_string(device.sys_folder.join("dev")).unwrap_or_default();
    if number.trim() == facts.device_number_text() {
        fs::canonicalize(&file).map_err(|error| format!("{}: {error}", file.display()))
    } else {
        Err(format!(
            "{} has a read-ahead window of its own, not that of {}",
            facts.file_system, device.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_that_set_the_window_at_once_leave_it_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let facts = StorageFacts::of(folder.path()).unwrap();
        if let Some(why) = ReadAhead::refuses(&facts) {
            println!("skipped: {why}");
            return;
        }
        let window = || fs::read_to_string(window_file(&facts).unwrap()).unwrap();
        let before = window();
        std::thread::scope(|scope| {
            for kib in [128, 256, 512] {
                let facts = &facts;
                scope.spawn(move || {
                    for _ in 0..20 {
                        drop(ReadAhead::set(facts, kib, None).unwrap());
                    }
                });
            }
        });
        assert_eq!(window(), before);
    }
}
