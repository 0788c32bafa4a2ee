//! `update/planned`: the method that will be fastest by what writing costs beside the file, chosen when the updates are
//! known. It moves no bytes itself: whoever commits takes the method that it stands for.

use std::path::Path;

use super::facts::{assumed_facts, update_facts};
use super::plan::{PlanLimits, UpdatePlan, certain_plan, plan};
use super::resolved::Updates;
use super::{PrepareUpdate, UpdateTarget};
use crate::error::Result;
use crate::method::{Accepts, Durability, Mechanism, Method, Operation, Platform, Prepare};
use crate::setup::Setup;

const PREPARE: PrepareUpdate = |setup: Setup| -> Result<Box<dyn UpdateTarget>> {
    Err(setup.unavailable("it stands for another, which only updates tell"))
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Update,
    name: "planned",
    about: "what will be fastest by what calls cost beside the file: order, gap and block are chosen for the updates",
    accepts: Accepts {
        durability: &[Durability::Fsync, Durability::WriteThrough],
        ..Accepts::NOTHING
    },
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 2,
    prepare: Prepare::Update(PREPARE),
};

/// Whether a method stands for the one that is planned.
#[must_use]
pub fn is_planned(method: &Method) -> bool {
    *method.mechanism() == MECHANISM
}

/// The plan that `update/planned` stands for. `is_exact` where nothing between updates may be written. Costs are measured
/// where they decide, and assumed where they cannot be.
pub(super) fn planned(path: &Path, updates: &Updates, method: &Method, is_exact: bool) -> Result<UpdatePlan> {
    let durability = method.options().durability;
    let limits = PlanLimits {
        durability,
        amplification_max: None,
        is_exact,
    };
    let assumed = assumed_facts(path, durability)?;
    if let Some(certain) = certain_plan(updates, &assumed, &limits)? {
        return Ok(certain);
    }
    let facts = update_facts(path, durability).unwrap_or_else(|error| {
        tracing::debug!(path = %path.display(), %error, "what writing costs is assumed");
        assumed
    });
    plan(updates, &facts, &limits)
}
