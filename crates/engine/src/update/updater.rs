//! A prepared method of updating, for updating many files, or timing it.

use std::path::Path;

use super::UpdateTarget;
use super::commit::{Commit, Updated, in_place};
use super::place::PlaceBeside;
use super::resolved::Updates;
use super::watch::Unwatched;
use crate::error::{Error, Result};
use crate::setup::Setup;
use seekless_method::{Choice, MechanismId, Method, Operation};

/// A method of updating in place, prepared.
pub struct Updater {
    method: Method,
    /// Bytes of a write at most.
    pub(super) block_bytes: usize,
    pub(super) mechanism: Box<UpdateTarget>,
}

impl Updater {
    /// Prepares buffers and rings for files up to this size in bytes. Updates past it are written in smaller pieces
    /// than the method's block.
    ///
    /// # Errors
    /// [`Error::WrongOperation`] for a method that does not update; [`Error::Unavailable`] where it is not available.
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let MechanismId::Update(mechanism) = method.mechanism().id else {
            return Err(Error::WrongOperation {
                asked: (*method).into(),
                wanted: Operation::Update.name(),
            });
        };
        let setup = Setup::new(method, longest_file_bytes);
        setup.require_here()?;
        Ok(Self {
            method: *method,
            block_bytes: setup.block_bytes,
            mechanism: super::body(mechanism)(setup)?,
        })
    }

    /// Applies updates to a file in place, as [`super::commit`] does. The file does not grow.
    ///
    /// # Errors
    /// As for [`super::commit`].
    pub fn update(&mut self, path: impl AsRef<Path>, updates: &Updates) -> Result<Updated> {
        let method = self.method;
        let commit = Commit::by(Choice::Method(method));
        in_place(
            &PlaceBeside::of(path.as_ref())?,
            updates,
            &method,
            &commit,
            Some(self),
            &Unwatched,
        )
    }
}
