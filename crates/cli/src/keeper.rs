//! A run under way: its progress is shown, and what was measured so far is kept, so that a power cut costs minutes.

use std::path::Path;

use seekless_lab::runs::{Kept, Store};
use seekless_lab::{Event, Watch};
use seekless_record::Run;

use crate::show::Progress;
use crate::store::open_store;

/// Shows what happens during a run, and saves it every few minutes.
pub struct Keeper {
    progress: Progress,
    store: anyhow::Result<Store>,
    kept: Option<Kept>,
}

impl Keeper {
    /// For a new run, or one that is gone on with and has a document already.
    pub fn new(progress: Progress, kept: Option<Kept>) -> Self {
        Self {
            progress,
            store: open_store(),
            kept,
        }
    }

    /// Takes the progress away.
    pub fn finish(&self) {
        self.progress.finish();
    }

    /// Saves the run as it is, and gives its file.
    pub fn save(&mut self, run: &Run) -> anyhow::Result<&Path> {
        let store = self.store.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let kept = match self.kept.take() {
            None => Kept::save(store, run)?,
            Some(mut kept) => {
                kept.update(store, run)?;
                kept
            }
        };
        Ok(self.kept.insert(kept).path())
    }
}

impl Watch for Keeper {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Checkpoint(run) = event {
            // At the end it is tried again, and that is told.
            if let Err(error) = self.save(run) {
                tracing::warn!("what was measured so far could not be saved: {error:#}");
            }
        }
        self.progress.event(event);
    }
}
