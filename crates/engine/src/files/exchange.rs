//! Replaces an entry without overwriting a file unchecked: the new entry, made under a temporary name, and the old one exchange
//! names (renameat2(2) `RENAME_EXCHANGE`), and the old one is checked before it is removed.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use seekless_sys::{Directory, Support};

use super::{StatFacts, StepKind, Watch};

/// Two names in a directory: one that leads to something else than it should, and the temporary one of what is to replace it.
pub struct Exchange<'a, E> {
    /// Their directory.
    pub directory: &'a Directory,
    /// The name.
    pub name: &'a OsStr,
    /// The path of the name, for the watch.
    pub path: &'a Path,
    /// The temporary name of what is to replace it.
    pub temporary: &'a OsStr,
    /// Is called before each renaming.
    pub watch: &'a dyn Watch,
    /// Fails if the names are not to be exchanged; called right before.
    pub is_ready: &'a dyn Fn() -> Result<(), E>,
    /// Fails if what had the name, and has the temporary one now, must not be removed.
    pub may_go: &'a dyn Fn() -> Result<(), E>,
    /// Whether a name leads to what is to replace it.
    pub is_new: &'a dyn Fn(&OsStr) -> bool,
}

/// Why a name does not lead to what was to replace it.
#[derive(Debug)]
pub enum NotExchanged<E> {
    /// The names were not to be exchanged.
    NotReady(E),
    /// The file system cannot exchange names.
    Unavailable(&'static str),
    /// The system did not exchange them.
    Refused(io::Error),
    /// What had the name must not be removed, and has it back; what was to replace it has the temporary name.
    GivenBack(E),
    /// The same, and another program removed what was to replace it.
    Removed(E),
    /// The same, and what another program saved under the name meanwhile has the temporary name.
    Saved(E),
    /// What had the name must not be removed, and has the temporary name: the name could not be given back, for this reason.
    Aside(E, io::Error),
}

impl<E> Exchange<'_, E> {
    /// Exchanges the names; exchanges them back if what had the name must not be removed.
    ///
    /// # Errors
    /// What became of the two names.
    pub fn run(&self) -> Result<(), NotExchanged<E>> {
        self.watch
            .announce(StepKind::Rename, self.path)
            .map_err(NotExchanged::Refused)?;
        (self.is_ready)().map_err(NotExchanged::NotReady)?;
        match self.directory.exchange(self.temporary, self.name) {
            Ok(Support::Available(())) => {}
            Ok(Support::Unavailable(reason)) => return Err(NotExchanged::Unavailable(reason)),
            Err(error) => return Err(NotExchanged::Refused(error)),
        }
        (self.may_go)().map_err(|why| self.give_back(why))
    }

    fn give_back(&self, why: E) -> NotExchanged<E> {
        let back = self.watch.announce(StepKind::Rename, self.path).and_then(|()| {
            let again = if (self.is_new)(self.name) {
                self.directory.exchange(self.temporary, self.name)
            } else {
                // What another program saved there meanwhile stays.
                self.directory.rename_new(self.temporary, self.directory, self.name)
            };
            again?.required()
        });
        match back {
            Err(error) => NotExchanged::Aside(why, error),
            Ok(()) if (self.is_new)(self.temporary) => NotExchanged::GivenBack(why),
            Ok(()) if StatFacts::at(self.directory, self.temporary).is_err() => NotExchanged::Removed(why),
            Ok(()) => NotExchanged::Saved(why),
        }
    }
}
