//! Earlier runs on a storage, which a new one is put together with.

use seekless_record::Run;
use seekless_results::{HALF_LIFE_DAYS, Origin, is_alike};

use super::{Store, StoreError};

/// What is older tells less than a sixteenth of what a run of today tells.
const OLDEST_DAYS: f64 = 4.0 * HALF_LIFE_DAYS;
/// The last of them are enough, and each takes memory.
const MOST_RUNS: usize = 100;
/// Reading more documents would take longer than they are worth.
const MOST_DOCUMENTS: usize = 1000;

/// The bytes of the date with which the name of a document begins.
const DATE: usize = "2026-11-22".len();

impl Store {
    /// The runs of one's own from before this one that may be put together with it, the last first, and what kept documents
    /// from being read.
    ///
    /// # Errors
    /// Where the directory cannot be listed.
    pub fn sittings(&self, run: &Run) -> Result<(Vec<Run>, Vec<StoreError>), StoreError> {
        let started: Option<jiff::Timestamp> = run.started.parse().ok();
        let oldest = started.and_then(|now| {
            now.checked_sub(jiff::SignedDuration::from_hours(24 * OLDEST_DAYS as i64))
                .ok()
        });
        // A document's name begins with the date.
        let oldest = oldest.map_or_else(String::new, |oldest| oldest.strftime("%Y-%m-%d").to_string());
        let documents = self.documents()?.into_iter();
        let recent = documents.filter(|document| {
            document.origin == Origin::Own && document.id >= oldest && document.id.get(..DATE) <= run.id.get(..DATE)
        });
        let (mut runs, mut unread) = (Vec::new(), Vec::new());
        for document in recent.take(MOST_DOCUMENTS) {
            if runs.len() == MOST_RUNS {
                break;
            }
            match document.read() {
                Ok(found) if found.id != run.id && found.started <= run.started && is_alike(run, &found) => {
                    runs.push(found);
                }
                Ok(_) => {}
                Err(error) => unread.push(error),
            }
        }
        Ok((runs, unread))
    }
}
