//! Trees made for the occasion, compared by many plans and by a naive walk.

mod hard;
mod naive;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{self, BatchPlan};

use super::compare::compare_by;
use super::{TreeEvent, TreeFinding, TreeOptions, TreeSummary};
use crate::{ClosureWatch, Stop};

fn here() -> BatchPlan {
    super::shared::for_pairs(plan::batch(&ProcessFacts::here()))
}

/// Few and small of everything, so that every limit is met; nothing counts as resident, so that every file goes through a ring.
fn narrow() -> BatchPlan {
    BatchPlan {
        threads: 3,
        batch: 5,
        open_directories: 1,
        entries_ahead: 1,
        asks_not_to_wait: false,
        patience: Duration::ZERO,
        ..here()
    }
}

fn told(
    plan: BatchPlan,
    one: &Path,
    other: &Path,
    options: TreeOptions<'_>,
) -> (TreeSummary, Vec<(PathBuf, TreeFinding)>) {
    let (stop, mut told) = (Stop::default(), Vec::new());
    let watch = ClosureWatch::new(
        &stop,
        |_| (),
        |event: TreeEvent<'_>| {
            told.push((event.path.to_owned(), event.found.clone()));
            ControlFlow::Continue(())
        },
    );
    let summary = compare_by(plan, None, [one, other], options, &watch).unwrap();
    (summary, told)
}
