//! Changes in a file.

use seekless_engine as engine;

use crate::{Error, Result};

/// Changes for [`update`](crate::update()): bytes and their offsets, in any order. Where two overlap, the later one counts.
#[derive(Clone, Debug, Default)]
pub struct Batch(pub(crate) engine::update::Batch);

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes at an offset. It keeps a copy of them, and 16 bytes for each change; all of them may be up to 4 GiB.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if they end past the largest size of a file, or the batch is full.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.push(offset, bytes).map_err(|error| Error::of(error.into()))
    }
}
