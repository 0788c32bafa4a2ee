//! Many small changes to a file in few writes. A [`Batch`] collects bytes and their offsets, in any order. [`commit`]
//! writes them in place, with a journal, or to a new file that takes the name ([`Safety`]). [`recover`] finishes or
//! undoes an update that a crash interrupted. [`seekless::update`](crate::update()) does the first two in one call.
//!
//! ```
//! use seekless::Choice;
//! use seekless::update::{Batch, Commit, Safety, commit};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, vec![0; 10_000])?;
//! let mut batch = Batch::new();
//! batch.push(4000, &[42, 0, 0, 0])?;
//! batch.push(8, b"any order")?;
//! // The order and size of writes that cost least here; or any method by name.
//! let how = Commit::by("update/planned,fsync".parse::<Choice>()?).safety(Safety::Journal);
//! let done = commit(&path, &batch.resolve()?, &how)?;
//! assert_eq!(done.requested_bytes, 13);
//! # assert_eq!(&std::fs::read(&path)?[8..17], b"any order");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Offsets and lengths are in bytes. The file is locked (flock(2)) meanwhile. If gaps between updates are written back,
//! a lease keeps other processes out (fcntl(2), `F_SETLEASE`), or there is an error that says that they cannot be kept
//! out.
//!
//! Not here: reading updates from text (the crate `seekless-tools`).

// One source file per mechanism; `body` connects them to their rows. `writes` turns a batch into write calls of some
// order, the plan finds the order, and `commit` carries it out safely, with a `journal` or a new file (`replace`) if
// requested.

mod ahead;
mod attributes;
mod batch;
mod commit;
mod cost;
mod form;
mod grown;
mod io_uring;
mod journal;
mod left;
mod mmap;
mod overlap;
mod place;
mod planned;
mod recover;
mod replace;
mod resolved;
mod run;
mod spill;
mod state;
mod sync;
mod target;
mod updater;
mod window;
mod writes;

pub use crate::files::{StepKind, Watch, WatchedStep};
pub use batch::Batch;
pub(crate) use commit::commit_done;
pub use commit::commit_watched;
pub use commit::{Commit, Updated, commit};
pub use cost::{UpdateCost, cost, naive};
#[cfg(fuzzing)]
pub use form::read_journal;
pub use journal::journal_path;
pub use planned::{Look, UpdatePlan};
pub use recover::recover_watched;
pub use recover::{Recovered, recover};
pub use resolved::Updates;
pub use updater::Updater;

pub use crate::plan::Safety;
pub use crate::plan::{PlanLimits, UpdateFacts};

use crate::error::Result;
use crate::setup::Prepare;
use seekless_method::UpdateMechanism;
use target::Target;

/// A prepared mechanism of updating: writes all updates. The caller calls fsync.
pub(crate) type UpdateTarget = dyn FnMut(&Target<'_>) -> Result<()> + Send;

/// What a mechanism prepares.
type PreparedUpdate = Result<Box<UpdateTarget>>;

/// The bodies of the mechanisms.
fn body(mechanism: UpdateMechanism) -> Prepare<UpdateTarget> {
    match mechanism {
        UpdateMechanism::Sync => sync::prepare,
        UpdateMechanism::IoUring => io_uring::prepare,
        UpdateMechanism::Mmap => mmap::prepare,
    }
}
