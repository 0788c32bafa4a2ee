//! The method that will be fastest by what writing costs beside the file, chosen when the updates are known.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::commit::refuse_second;
use super::cost::{UpdateCost, cost, counted, safety_bytes};
use super::place::Place;
use super::resolved::Updates;
use crate::error::{Error, Result, full_text};
use crate::facts::{Costs, FileFacts, costs_in, has_holes, shares_blocks};
use crate::files::{data_ranges, directory_of, open_without_waiting};
use crate::log;
use crate::plan::{self, Gaps, Plan, PlanLimits, Safety, UpdateFacts};
use seekless_method::{CachePolicy, Durability, Method};

/// A plan for a batch, and what it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    /// The plan, whose time is that of the cost.
    pub plan: Plan,
    /// What it will cost, counted by the writes that will really be made.
    pub cost: UpdateCost,
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the file is like, and what calls cost.
    pub facts: UpdateFacts,
    /// Why costs are assumed.
    pub doubt: Option<String>,
}

impl Look {
    /// Looks at a file, and measures beside it what calls cost where that decides for these updates, or where a time is to
    /// be predicted. Where it cannot be measured, because the directory takes no file or the disk is full, it is assumed.
    ///
    /// # Errors
    /// As of [`Self::assuming`].
    pub fn at(path: &Path, updates: &Updates, limits: &PlanLimits, is_predicted: bool) -> Result<Self> {
        let mut look = Self::assuming(path, limits)?;
        if is_predicted || !plan::is_certain(&updates.gaps, &look.facts, &of_file(updates, &look.facts, limits)?) {
            look.measure(path, is_predicted || limits.durability == Durability::WriteThrough);
        }
        Ok(look)
    }

    /// Looks at a file, and measures all that calls cost beside it, for updates that are not known yet.
    ///
    /// # Errors
    /// As of [`Self::assuming`].
    pub fn measured(path: &Path, limits: &PlanLimits) -> Result<Self> {
        let mut look = Self::assuming(path, limits)?;
        look.measure(path, true);
        Ok(look)
    }

    /// Looks at a file, and assumes what calls cost.
    ///
    /// # Errors
    /// The system's; [`crate::error::UpdateErrorKind::Running`] where an update of the file is going on, whose lease a look would end.
    pub fn assuming(path: &Path, limits: &PlanLimits) -> Result<Self> {
        refuse_second(&Place::of(path)?)?;
        let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
        let file = open_without_waiting(path).ok();
        let mut found = FileFacts::of(&metadata, file.as_ref());
        if let Some(file) = &file {
            found = found.with_alignment(file);
        }
        let mut facts = UpdateFacts {
            absent_part: 1.0 - found.resident.unwrap_or(1.0),
            has_holes: found.is_sparse() && file.is_some_and(|file| has_holes(&file, path, found.bytes)),
            direct_alignment: found.direct_alignment,
            ..UpdateFacts::assumed(found.bytes)
        };
        if limits.safety == Safety::Replace {
            facts.copied_bytes = copied_bytes(path)?;
        }
        Ok(Self { facts, doubt: None })
    }

    /// Whether all costs are measured, those too that decide nothing: then the predicted time is one.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.facts.costs.is_measured()
    }

    fn measure(&mut self, path: &Path, with_device: bool) {
        match measured_costs(path, with_device) {
            Ok(costs) => self.facts.costs = costs,
            Err(error) => self.doubt = Some(full_text(&error)),
        }
    }

    /// The plan that follows.
    ///
    /// # Errors
    /// As of [`Updates::visit`].
    pub fn plan(&self, updates: &Updates, limits: &PlanLimits) -> Result<UpdatePlan> {
        followed(updates, &self.facts, limits, plan::update)
    }

    /// What a method comes to that was asked for by name.
    ///
    /// # Errors
    /// As of [`Updates::visit`].
    pub fn of_method(&self, method: Method, updates: &Updates, limits: &PlanLimits) -> Result<UpdatePlan> {
        let (cost, amounts) = counted(updates, &self.facts, &method, limits.safety)?;
        let plan = Plan {
            method,
            otherwise: method,
            predicted: cost.predicted,
            is_certain: true,
            why: "as requested".to_owned(),
            facts: amounts.facts(&self.facts.costs).collect(),
        };
        Ok(UpdatePlan { plan, cost })
    }
}

/// What a planner says, with what it comes to by the writes that will really be made.
fn followed(
    updates: &Updates,
    facts: &UpdateFacts,
    limits: &PlanLimits,
    by: fn(&Gaps, &UpdateFacts, &PlanLimits) -> Plan,
) -> Result<UpdatePlan> {
    let mut plan = by(&updates.gaps, facts, &of_file(updates, facts, limits)?);
    let mut planned = cost(updates, facts, &plan.method, limits.safety)?;
    if !planned.is_within(limits) && plan.method != plan.otherwise {
        plan.method = plan.otherwise;
        planned = cost(updates, facts, &plan.method, limits.safety)?;
    }
    if plan.method.options().cache() == CachePolicy::Direct {
        plan.why += "; the page cache is bypassed, because it holds hardly any of the file";
    }
    plan.predicted = planned.predicted;
    Ok(UpdatePlan { plan, cost: planned })
}

/// The limits for the file itself, beside what safety takes.
fn of_file(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Result<PlanLimits> {
    let Some(most) = limits.amplification_max else {
        return Ok(*limits);
    };
    let beside = safety_bytes(updates, facts, limits.safety)? as f64 / updates.requested_bytes().max(1) as f64;
    Ok(PlanLimits {
        amplification_max: Some(most - beside),
        ..*limits
    })
}

/// What calls that write cost beside a file.
fn measured_costs(path: &Path, with_device: bool) -> Result<Costs> {
    let place = Place::of(path)?;
    let measured = costs_in(&place.directory, with_device);
    measured.map_err(|error| place.system("measure writing in its directory", error))
}

/// What a copy of a file takes: its data, or nothing where blocks are shared beside it.
fn copied_bytes(path: &Path) -> Result<u64> {
    let path = &Place::of(path)?.path;
    if shares_blocks(directory_of(path)) {
        return Ok(0);
    }
    let failed = |error| Error::system(path, "list its data ranges", error);
    data_bytes(&File::open(path).map_err(failed)?).map_err(failed)
}

/// How much of a file is not in holes.
fn data_bytes(file: &File) -> io::Result<u64> {
    let end = file.metadata()?.len();
    let ranges = data_ranges(file, 0..end);
    ranges.map(|range| range.map(|range| range.end - range.start)).sum()
}

/// The method that a plan chooses.
pub(super) fn planned(path: &Path, updates: &Updates, limits: &PlanLimits) -> Result<Method> {
    let look = Look::at(path, updates, limits, false)?;
    if let Some(doubt) = &look.doubt {
        log::debug!(path = %path.display(), doubt, "write costs are assumed");
    }
    Ok(look.plan(updates, limits)?.plan.method)
}

#[cfg(test)]
mod tests;
