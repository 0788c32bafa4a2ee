//! Steps that do not contradict each other, whatever wrote them down.
//!
//! Not here: deciding what is done (`choose`), and reading it (`plan`).

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use seekless::files::FileId;

use super::{Action, RefusalReason, Step};

/// Steps that do not contradict each other.
#[derive(Debug, Default)]
pub struct Agreed {
    acted_on: HashSet<FileId>,
    kept: HashSet<FileId>,
    /// Paths that are acted on, or kept.
    paths: HashMap<PathBuf, FileId>,
    /// Whether a file stays by another of its names.
    is_of_names: bool,
}

impl Agreed {
    /// Steps of an action.
    pub fn of(action: &Action) -> Self {
        Self {
            is_of_names: *action == Action::Names,
            ..Self::default()
        }
    }

    /// Adds a step.
    ///
    /// # Errors
    /// How it contradicts an earlier one. It is not added.
    pub fn add(&mut self, step: &Step) -> Result<(), RefusalReason> {
        let (file, keep) = (step.file.state.id(), step.keep.state.id());
        let paths = step.file.paths.iter().map(|path| (path, file));
        let named = paths.chain([(&step.keep.path, keep)]);
        let is_other = |(path, id): (&PathBuf, FileId)| self.paths.get(path).is_some_and(|known| *known != id);
        let keeps_itself = if self.is_of_names {
            file != keep || step.file.paths.contains(&step.keep.path)
        } else {
            file == keep
        };
        let why = if keeps_itself {
            RefusalReason::KeepsItself
        } else if self.acted_on.contains(&file) {
            RefusalReason::ActedOn
        } else if self.kept.contains(&file) {
            RefusalReason::KeptForAnother
        } else if self.acted_on.contains(&keep) {
            RefusalReason::KeptActedOn
        } else if named.clone().any(is_other) {
            RefusalReason::PathOfAnother
        } else {
            self.acted_on.insert(file);
            self.kept.insert(keep);
            self.paths.extend(named.map(|(path, id)| (path.clone(), id)));
            return Ok(());
        };
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use seekless::files::FileState;

    use super::super::{ActedOn, KeepReason, KeptFile};
    use super::*;

    fn step(file: u64, keep: u64) -> Step {
        let state = |inode| FileState {
            device: 1,
            inode,
            bytes: 1,
            modified_ns: 0,
            changed_ns: 0,
        };
        Step {
            file: ActedOn {
                paths: vec![format!("/{file}").into()],
                state: state(file),
                is_directory: false,
            },
            keep: KeptFile {
                path: format!("/{keep}").into(),
                state: state(keep),
            },
            why: KeepReason::LastCopy,
            own_bytes: 9,
        }
    }

    #[test]
    fn no_file_is_acted_on_twice_or_kept_and_acted_on() {
        let mut agreed = Agreed::default();
        assert_eq!(agreed.add(&step(1, 2)), Ok(()));
        assert_eq!(agreed.add(&step(3, 2)), Ok(()));
        for (file, keep, why) in [
            (4, 4, "the file that is kept"),
            (1, 5, "already acted on"),
            (2, 5, "kept for another"),
            (2, 1, "kept for another"),
            (4, 3, "the file that is kept is already acted on"),
        ] {
            let refused = agreed.add(&step(file, keep)).unwrap_err().to_string();
            assert!(refused.contains(why), "{file} {keep}: {refused}");
        }
        let mut other = step(6, 2);
        other.file.paths = vec!["/1".into()];
        assert!(agreed.add(&other).is_err());
        assert_eq!(agreed.add(&step(4, 5)), Ok(()));
    }
}
