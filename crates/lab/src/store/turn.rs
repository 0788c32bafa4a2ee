//! Benches take turns, because two at the same time would disturb each other.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{StoreError, make_directory, system};

/// Held while a bench measures: a lock on a file in the store's directory. The kernel releases it with its process.
#[derive(Debug)]
pub struct MeasuringLock {
    _file: File,
}

/// Another bench is measuring: its process ID, if it was already written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measuring(pub Option<u32>);

/// Takes the lock for measuring in a directory, which is made, or returns who has it.
pub(super) fn try_measuring(directory: &Path) -> Result<Result<MeasuringLock, Measuring>, StoreError> {
    make_directory(directory)?;
    let path = directory.join("measuring.lock");
    let mut open = File::options();
    let opened = open
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    let mut file = opened.map_err(system(&path, "open"))?;
    match file.try_lock() {
        Ok(()) => {
            let pid = format!("{}\n", std::process::id());
            let written = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
            written.map_err(system(&path, "write"))?;
            Ok(Ok(MeasuringLock { _file: file }))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            match file.read_to_string(&mut text) {
                Err(error) if error.kind() != ErrorKind::InvalidData => Err(system(&path, "read")(error)),
                _ => Ok(Err(Measuring(text.trim().parse().ok()))),
            }
        }
        Err(TryLockError::Error(error)) => Err(system(&path, "lock")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    #[test]
    fn one_measures_at_a_time_and_the_other_is_told_who() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path().join("seekless"));
        let lock = store.try_measuring().unwrap().unwrap();
        let holder = store.try_measuring().unwrap().unwrap_err();
        assert_eq!(holder, Measuring(Some(std::process::id())));
        drop(lock);
        store.try_measuring().unwrap().unwrap();
        assert!(store.documents().unwrap().is_empty());
    }
}
