//! Many small changes to a file in few writes. A [`Batch`] collects bytes and their offsets, in any order. [`commit`]
//! writes them in place, with a journal, or to a new file that takes the name ([`Safety`]). [`recover`] finishes or
//! undoes an update that a crash interrupted. [`IoOptions::update`](crate::IoOptions::update) does the first two in one call.
//!
//! ```
//! use seekless_engine::Choice;
//! use seekless_engine::update::{Batch, Commit, Safety, commit};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, vec![0; 10_000])?;
//! let mut batch = Batch::new();
//! batch.push(4000, &[42, 0, 0, 0])?;
//! batch.push(8, b"any order")?;
//! // The order and size of writes that cost least here; or any method by name.
//! let how = Commit::by("update/planned,fsync".parse::<Choice>()?).safety(Safety::Journal);
//! let done = commit(&path, &batch.resolve(), &how)?;
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
// order, the plan finds the order, and `commit` carries it out: `in_place`, with a `journal` if requested, or by a new file (`replace`).

mod batch;
mod form;
mod grown;
mod in_place;
mod io_uring;
mod journal;
mod mmap;
mod planned;
mod recover;
mod replace;
mod sync;
mod target;
mod writes;

pub use crate::files::{StepKind, Watch, WatchedStep};
pub use batch::{Batch, Updates};
#[cfg(fuzzing)]
pub use form::read_journal;
pub use in_place::{Commit, Updated, Updater};
pub use journal::journal_path;
pub use planned::{UpdateCost, UpdateEstimate, UpdatePlan, cost, naive};
pub use recover::recover_watched;
pub use recover::{Recovered, recover};

pub use crate::plan::Safety;
pub use crate::plan::{PlanLimits, UpdateFacts};

use std::path::Path;

use crate::error::Result;
use crate::facts::Planner;
use crate::files::{NameInDirectory, Unwatched};
use crate::plan::outcome::Outcome;
use crate::plan::{Plan, PlanClock};
use crate::setup::Prepare;
use in_place::in_place;
use planned::planned;
use seekless_method::{Choice, Method, Operation, UpdateMechanism};
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

/// Applies updates to a file, with the durability that the method names. A journal and a new file are always synced.
///
/// # Errors
/// Every [`UpdateErrorKind`](crate::error::UpdateErrorKind), and those of all operations.
pub fn commit(path: impl AsRef<Path>, updates: &Updates, commit: &Commit) -> Result<Updated> {
    commit_watched(path.as_ref(), updates, commit, &Unwatched)
}

/// The same, calling a watch before each step.
///
/// # Errors
/// As [`commit`], and those of the watch.
pub fn commit_watched(path: &Path, updates: &Updates, commit: &Commit, watch: &dyn Watch) -> Result<Updated> {
    commit_done(path, updates, commit, watch, Planner::default()).map(|done| done.what)
}

/// The same, with the method, and why it was chosen.
pub(crate) fn commit_done(
    path: &Path,
    updates: &Updates,
    commit: &Commit,
    watch: &dyn Watch,
    planner: Planner<'_>,
) -> Result<Outcome<Updated>> {
    let place = &NameInDirectory::of(path)?;
    let done = |is_exact| {
        let plan = |durability| {
            let limits = PlanLimits {
                is_exact,
                ..PlanLimits::new(durability, commit.safety)
            };
            planned(&place.path, updates, &limits, planner)
        };
        let by = |method: &Method| commit_by(place, updates, method, commit, watch);
        let note =
            |clock: PlanClock, plan: &Plan, done: &Updated| clock.note(&place.path, plan, done.written_bytes, planner);
        Outcome::by_choice(commit.method, Operation::Update, plan, by, Some(&note))
    };
    match (done(false), commit.method) {
        // Other processes cannot be kept out, so write only the bytes of updates.
        (Err(error), Choice::Plan(_)) if error.not_exclusive().is_some() => done(true),
        (done, _) => done,
    }
}

fn commit_by(
    place: &NameInDirectory,
    updates: &Updates,
    method: &Method,
    commit: &Commit,
    watch: &dyn Watch,
) -> Result<Updated> {
    match commit.safety {
        Safety::Replace => replace::replace(place, updates, method, commit, watch),
        Safety::InPlace | Safety::Journal => in_place(place, updates, method, commit, None, watch),
    }
}
