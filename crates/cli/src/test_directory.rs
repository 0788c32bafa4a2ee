//! A directory in which things are tried: gone when its user is done, and when a signal ends the program.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use seekless_lab::Scratch;

use crate::signals::on_signal;

/// At most one directory at a time, which a signal finds whenever it comes.
pub struct TestDirectory {
    scratch: Arc<Mutex<Option<Scratch>>>,
}

impl TestDirectory {
    /// From now on a signal removes the directory, if there is one, and ends the program.
    pub fn new() -> anyhow::Result<Self> {
        let scratch = Arc::new(Mutex::new(None::<Scratch>));
        on_signal({
            let scratch = Arc::clone(&scratch);
            move |signal| {
                drop(scratch.lock().unwrap_or_else(PoisonError::into_inner).take());
                std::process::exit(128 + i32::from(signal));
            }
        })?;
        Ok(Self { scratch })
    }

    /// Makes the directory, after removing the one before.
    pub fn make(&self, parent: &Path) -> anyhow::Result<PathBuf> {
        self.remove();
        // Locked meanwhile, so that a signal finds the directory that is being made.
        let mut made = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = Scratch::new(parent);
        let directory = directory.with_context(|| format!("{}: no test files can be made in it", parent.display()))?;
        let path = directory.path().to_owned();
        *made = Some(directory);
        Ok(path)
    }

    /// Removes the directory and all that is in it.
    pub fn remove(&self) {
        drop(self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}
