//! The document of a run in progress, which is saved repeatedly, but never overwrites another process's changes.

use std::fs;
use std::path::{Path, PathBuf};

use seekless_engine::files::FileState;
use seekless_record::Run;

use super::{Document, Store, StoreError, replace};

/// The document of a run in progress, as last read or written here.
#[derive(Debug)]
pub struct RunDocument {
    store: Store,
    path: PathBuf,
    seen: Option<FileState>,
}

impl RunDocument {
    /// For a new run, or a resumed one, which already has a document.
    #[must_use]
    pub fn new(store: Store, document: Option<&Document>) -> Self {
        let path = document.map(|document| document.path.clone()).unwrap_or_default();
        let seen = seen(&path);
        Self { store, path, seen }
    }

    /// Writes the run, and returns its path: over the last version, or to a new file if there is none yet or it was
    /// changed or removed meanwhile.
    pub fn save(&mut self, run: &Run) -> Result<&Path, StoreError> {
        if self.seen.is_some() && self.seen == seen(&self.path) {
            replace(&self.path, run)?;
        } else {
            self.path = self.store.save(run)?;
        }
        self.seen = seen(&self.path);
        Ok(&self.path)
    }
}

fn seen(path: &Path) -> Option<FileState> {
    Some(FileState::of(&fs::metadata(path).ok()?))
}

#[cfg(test)]
mod tests {
    use seekless_results::simulation;

    use super::*;

    #[test]
    fn run_document_is_one_unless_somebody_else_writes_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::new(directory.path().to_owned());
        let mut run = simulation::run(&[], 0);
        let mut kept = RunDocument::new(store.clone(), None);
        kept.save(&run).unwrap();
        run.elapsed_seconds = 7.0;
        kept.save(&run).unwrap();
        let documents = store.documents().unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].read().unwrap(), run);
        // Another goes on with it.
        let mut other = RunDocument::new(store.clone(), Some(&documents[0]));
        let mut theirs = run.clone();
        theirs.elapsed_seconds = 8.0;
        other.save(&theirs).unwrap();
        run.elapsed_seconds = 9.0;
        kept.save(&run).unwrap();
        let documents = store.documents().unwrap();
        let seconds = documents
            .iter()
            .map(|document| document.read().unwrap().elapsed_seconds);
        let mut seconds: Vec<f64> = seconds.collect();
        seconds.sort_by(f64::total_cmp);
        assert_eq!(seconds, [8.0, 9.0]);
        let left = fs::read_dir(directory.path().join("runs")).unwrap().count();
        assert_eq!(left, 2, "nothing is left beside");
    }
}
