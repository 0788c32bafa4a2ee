//! The trials of a run, sorted.

use std::collections::HashMap;

use seekless_record::{Run, Trial};

/// The trials of a run by contest and entry, in the order they happened: a run of others may have ten thousand of each.
#[derive(Clone, Debug)]
pub struct Trials<'a>(HashMap<(usize, usize), Vec<&'a Trial>>);

impl<'a> Trials<'a> {
    /// Sorts the trials of a run.
    #[must_use]
    pub fn new(run: &'a Run) -> Self {
        let mut of_entry = HashMap::<_, Vec<_>>::new();
        for trial in &run.trials {
            of_entry.entry((trial.contest, trial.entry)).or_default().push(trial);
        }
        Self(of_entry)
    }

    /// Those of an entry.
    #[must_use]
    pub fn of(&self, contest: usize, entry: usize) -> &[&'a Trial] {
        self.0.get(&(contest, entry)).map_or(&[], Vec::as_slice)
    }
}
