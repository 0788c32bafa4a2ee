//! Why a child has no report.

use std::io;
use std::process::ExitStatus;

use seekless_engine::full_text;
use seekless_record::EntryVerdict;

/// An error of the engine, or of running a command.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrialError {
    /// An error of the process itself.
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Engine(#[from] seekless_engine::Error),
    #[error("cannot run `{0}`")]
    Command(String, #[source] io::Error),
    #[error("`{0}` failed: {1}{2}")]
    Status(String, ExitStatus, String),
    #[error("cannot make the updates: {0}")]
    Updates(String),
    /// A run that is resumed may have been edited by hand.
    #[error("{0}")]
    Contest(String),
}

/// What an error makes of its entry.
pub(super) fn status_of(error: &TrialError) -> EntryVerdict {
    match error {
        TrialError::Engine(seekless_engine::Error::Unavailable { reason, .. }) => EntryVerdict::unavailable(reason),
        TrialError::Command(_, cause) if cause.kind() == io::ErrorKind::NotFound => {
            EntryVerdict::unavailable("the program is not installed")
        }
        other => EntryVerdict::failed(full_text(other)),
    }
}
