//! Finding earlier runs on a storage, which a new run is combined with.

use seekless_record::Run;
use seekless_results::{HALF_LIFE_DAYS, Origin, is_alike};

use super::{Store, StoreError};

/// The age limit of runs, at which their weight is a sixteenth.
const OLDEST_DAYS: f64 = 4.0 * HALF_LIFE_DAYS;
/// The most runs to combine: the newest are enough, and each takes memory.
const MOST_RUNS: usize = 100;
/// The most documents to read, to limit the time.
const MOST_DOCUMENTS: usize = 1000;

/// The length of the date at the start of a document's name.
const DATE: usize = "2026-11-22".len();

impl Store {
    /// The own runs before this one that may be combined with it, the newest first, and the errors of documents that
    /// cannot be read.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn sittings(&self, run: &Run) -> Result<(Vec<Run>, Vec<StoreError>), StoreError> {
        let started: Option<jiff::Timestamp> = run.started.parse().ok();
        let oldest = started.and_then(|now| {
            now.checked_sub(jiff::SignedDuration::from_hours(24 * OLDEST_DAYS as i64))
                .ok()
        });
        // A document's name starts with the date.
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
