//! A prepared method of updating, for updating many files, or timing it.

use std::path::Path;

use super::UpdateTarget;
use super::commit::{Commit, Updated, in_place};
use super::resolved::Updates;
use crate::error::Result;
use crate::files::{NameInDirectory, Unwatched};
use crate::setup::Prepared;
use seekless_method::{Choice, MechanismId, Method, Operation};

/// A method of updating in place, prepared.
pub struct Updater(pub(super) Prepared<UpdateTarget>);

impl Updater {
    /// Prepares buffers and rings for files up to this size in bytes. Updates past it are written in smaller pieces
    /// than the method's block.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not update;
    /// [`Error::Unavailable`](crate::Error::Unavailable) where it is not available.
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Update(mechanism) => Some(super::body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Update, make, longest_file_bytes).map(Self)
    }

    /// Applies updates to a file in place, as [`super::commit`] does. The file does not grow.
    ///
    /// # Errors
    /// As for [`super::commit`].
    pub fn update(&mut self, path: impl AsRef<Path>, updates: &Updates) -> Result<Updated> {
        let method = self.0.setup.method;
        let commit = Commit::by(Choice::Method(method));
        in_place(
            &NameInDirectory::of(path.as_ref())?,
            updates,
            &method,
            &commit,
            Some(self),
            &Unwatched,
        )
    }
}
