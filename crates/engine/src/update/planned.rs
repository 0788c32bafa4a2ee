//! `update/planned`: the method that will be fastest by what writing costs beside the file, chosen when the updates are
//! known. It moves no bytes itself: whoever commits takes the method that it stands for.

use std::path::Path;

use super::commit::refuse_second;
use super::facts::{assumed_facts, update_facts};
use super::plan::{PlanLimits, UpdateFacts, UpdatePlan, certain_choice, certain_plan, plan};
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

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the file is like, and what calls cost.
    pub facts: UpdateFacts,
    /// Whether all costs are measured, those too that decide nothing: then the predicted time is one.
    pub is_measured: bool,
    /// Why costs that would decide are assumed.
    pub doubt: Option<String>,
}

impl Look {
    /// Looks at a file, and measures beside it what calls cost where that decides for these updates, or where a time is to
    /// be predicted. Where it cannot be measured, because the folder takes no file or the disk is full, it is assumed.
    ///
    /// # Errors
    /// As of [`Self::assuming`].
    pub fn at(path: &Path, updates: &Updates, limits: &PlanLimits, is_predicted: bool) -> Result<Self> {
        let assumed = Self::assuming(path, limits.durability)?;
        if !is_predicted && certain_choice(updates, &assumed.facts, limits).is_some() {
            return Ok(assumed);
        }
        let durability = match limits.durability {
            // It is brought to the device once, whatever the order: that decides nothing.
            Durability::Fsync if !is_predicted => Durability::None,
            other => other,
        };
        Ok(match update_facts(path, durability) {
            Ok(facts) => Self {
                facts,
                is_measured: is_predicted,
                ..assumed
            },
            Err(error) => Self {
                doubt: Some(error.to_string()),
                ..assumed
            },
        })
    }

    /// Looks at a file, and assumes what calls cost.
    ///
    /// # Errors
    /// The system's; [`crate::Error::Refused`] where an update of the file is going on, whose lease a look would end.
    pub fn assuming(path: &Path, durability: Durability) -> Result<Self> {
        refuse_second(path)?;
        Ok(Self {
            facts: assumed_facts(path, durability)?,
            is_measured: false,
            doubt: None,
        })
    }

    /// The plan that follows.
    ///
    /// # Errors
    /// As of [`Updates::visit`].
    pub fn plan(&self, updates: &Updates, limits: &PlanLimits) -> Result<UpdatePlan> {
        if !self.is_measured
            && let Some(certain) = certain_plan(updates, &self.facts, limits)?
        {
            return Ok(certain);
        }
        plan(updates, &self.facts, limits)
    }
}

/// The method that `update/planned` stands for.
pub(super) fn planned(path: &Path, updates: &Updates, limits: &PlanLimits) -> Result<Method> {
    let look = Look::at(path, updates, limits, false)?;
    if let Some(doubt) = &look.doubt {
        tracing::debug!(path = %path.display(), doubt, "what writing costs is assumed");
    }
    Ok(look.plan(updates, limits)?.method)
}
