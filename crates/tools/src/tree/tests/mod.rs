//! Trees made for the occasion, compared by many plans and by a naive walk.

mod hard;
mod naive;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_engine::facts::ProcessFacts;
use seekless_engine::plan::{self, BatchPlan};

use super::compare::compare_by;
use super::{TreeFinding, TreeOptions, TreeSummary, TreeWatch};
use crate::Stop;

/// All differences that were reported.
#[derive(Default)]
struct Told(Vec<(PathBuf, TreeFinding)>);

impl TreeWatch for Told {
    fn found(&mut self, path: &Path, what: &TreeFinding) -> ControlFlow<()> {
        self.0.push((path.to_owned(), what.clone()));
        ControlFlow::Continue(())
    }
}

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
    let mut told = Told::default();
    let summary = compare_by(plan, None, [one, other], options, &Stop::default(), &mut told).unwrap();
    (summary, told.0)
}
