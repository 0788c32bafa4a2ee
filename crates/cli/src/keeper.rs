//! A run under way: its progress is shown, and what was measured so far is kept, so that a power cut costs minutes.

use std::path::Path;

use anyhow::anyhow;
use seekless::full_text;
use seekless_lab::store::{Document, Kept, Store, StoreError};
use seekless_lab::{Event, Watch};
use seekless_record::Run;

use crate::show::Progress;

/// Shows what happens during a run, and saves it every few minutes.
pub struct Keeper {
    progress: Progress,
    kept: Result<Kept, StoreError>,
}

impl Keeper {
    /// For a new run, or one that is resumed and has a document already.
    pub fn new(progress: Progress, document: Option<&Document>) -> Self {
        let kept = Store::of_user().map(|store| Kept::new(store, document));
        Self { progress, kept }
    }

    /// Takes the progress away.
    pub fn finish(&self) {
        self.progress.finish();
    }

    /// Saves the run as it is, and gives its file.
    pub fn save(&mut self, run: &Run) -> anyhow::Result<&Path> {
        let kept = self.kept.as_mut().map_err(|error| anyhow!(full_text(error)))?;
        Ok(kept.save(run)?)
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
