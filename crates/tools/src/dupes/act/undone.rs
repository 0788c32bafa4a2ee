//! What comes of undoing a step, or would.
//!
//! Not here: undoing (`undo`), and foreseeing it (`foresee`).

use std::path::Path;

use super::{ActedOn, RefusalReason};

/// The outcome of undoing a step for one name, the better first: they compare by that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Undone {
    /// It is what it was.
    Restored,
    /// Its content is back, but as a file of its own: the old one had names that the search did not see.
    Apart {
        /// How many.
        names: u64,
    },
    /// There is nothing to undo: files that share blocks have their own bytes and metadata.
    Nothing,
    /// It could not be restored.
    Failed {
        /// Why, and where the content still is.
        why: RefusalReason,
    },
}

/// A step that was undone, or would be.
#[derive(Debug)]
pub struct UndoneStep<'a> {
    /// What was acted on.
    pub file: &'a ActedOn,
    /// The outcome of each name; `None` if it was undone before.
    pub outcomes: &'a [Option<Undone>],
    /// How many steps there are to undo.
    pub of: u64,
}

impl UndoneStep<'_> {
    /// The names with an outcome.
    pub fn names(&self) -> impl Iterator<Item = (&Path, &Undone)> {
        let names = self.file.paths.iter().zip(self.outcomes);
        names.filter_map(|(path, undone)| Some((path.as_path(), undone.as_ref()?)))
    }
}

/// Receives the outcome of each step.
pub type TellUndone<'a> = &'a dyn Fn(&UndoneStep<'_>);

pub(super) fn failed(why: RefusalReason) -> Undone {
    Undone::Failed { why }
}
