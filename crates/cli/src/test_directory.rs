//! A directory for test files. It is removed when its user is done, and when a signal ends the program.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Context;
use seekless_lab::Scratch;

use crate::signals;

/// At most one directory at a time.
pub struct TestDirectory {
    scratch: RefCell<Option<Scratch>>,
}

impl TestDirectory {
    /// From now on, a signal removes the directory, if there is one, and ends the program.
    pub fn new() -> anyhow::Result<Self> {
        signals::on_signal(|signal| signals::end(signal))?;
        Ok(Self {
            scratch: RefCell::default(),
        })
    }

    /// Creates a new directory, after removing the previous one.
    pub fn make(&self, parent: &Path) -> anyhow::Result<PathBuf> {
        self.remove();
        let directory = Scratch::new(parent);
        let directory = directory.with_context(|| format!("{}: cannot make test files in it", parent.display()))?;
        let path = directory.path().to_owned();
        self.scratch.replace(Some(directory));
        Ok(path)
    }

    /// Removes the directory and all that is in it.
    pub fn remove(&self) {
        self.scratch.take();
    }
}
