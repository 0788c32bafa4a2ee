//! Finding earlier runs on a storage, which a new run is combined with.

use seekless_record::Run;
use seekless_results::{HALF_LIFE_DAYS, Origin, is_alike};

use super::{Document, StoreError};

/// The age limit of runs, at which their weight is a sixteenth.
const OLDEST_DAYS: f64 = 4.0 * HALF_LIFE_DAYS;
/// The most runs to combine: the newest are enough, and each takes memory.
const MOST_RUNS: usize = 100;
/// The most documents to read, to limit the time.
const MOST_DOCUMENTS: usize = 1000;

/// The length of the date at the start of a document's name.
const DATE: usize = "2026-11-22".len();

/// The own runs among documents, the newest first, that may be combined with this run, which is newer; and the errors of
/// documents that cannot be read.
pub(super) fn sittings(documents: Vec<Document>, run: &Run) -> (Vec<Run>, Vec<StoreError>) {
    let started: Option<jiff::Timestamp> = run.started.parse().ok();
    let oldest = started.and_then(|now| {
        now.checked_sub(jiff::SignedDuration::from_hours(24 * OLDEST_DAYS as i64))
            .ok()
    });
    // A document's name starts with the date.
    let oldest = oldest.map_or_else(String::new, |oldest| oldest.strftime("%Y-%m-%d").to_string());
    let recent = documents.into_iter().filter(|document| {
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
    (runs, unread)
}
