//! Planning updates: the fastest method by the costs of the storage, which its profile has or which are measured in the directory of the
//! file.

use std::fs::{self, File};
use std::io;
#[cfg(feature = "profile")]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::batch::Updates;
use super::in_place::refuse_second;
use super::journal;
use super::writes::{WriteLayout, Writes, reach};
use crate::error::{Error, Result, full_text};
use crate::facts::{Costs, FileFacts, MeasuredFacts, Planner, Reads, has_holes, shares_blocks};
use crate::files::{NameInDirectory, data_ranges, directory_of, open_without_waiting};
use crate::log;
use crate::plan::{
    self, Amounts, BlockCount, Gaps, MeasuredSittings, Plan, PlanLimits, Predicted, Reason, Safety, UpdateFacts,
    UpdateWork,
};
#[cfg(feature = "profile")]
use crate::profile::StorageProfile;
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use seekless_method::{CachePolicy, Durability, Method, Operation, UpdateOrder};

/// Fewer updates are planned by one read of the device.
const FEW_UPDATES: u64 = 64;
/// Finding and reading the costs of a profile takes 0.3 ms. For an update that takes less than ten times as long, a read or three of the
/// device tell enough, and take 0.1 ms on flash.
const ASKING_NS: f64 = 3e5;
/// Measuring calls takes 1 ms; a long read takes as much, or, on a slow device, as long as some requests. It pays if ten times as much is
/// expected.
const CALLS_NS: f64 = 1e6;
const LONG_REQUESTS: f64 = 40.0;
const PAYS_FROM: f64 = 10.0;

/// A plan for a batch, and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    /// The plan; its predicted time is that of the cost.
    pub plan: Plan,
    /// Its cost, counted by its exact writes.
    pub cost: UpdateCost,
}

/// The facts for a plan.
#[derive(Clone, Debug)]
pub struct UpdateEstimate {
    /// Properties of the file, and costs.
    pub facts: UpdateFacts,
    /// The costs that decide, if they are not all that were measured to predict a time.
    deciding: Option<Costs>,
    /// Why the costs could not be measured.
    pub doubt: Option<String>,
    /// The sittings that the costs are from, if they are those of a profile.
    pub basis: Option<MeasuredSittings>,
}

impl UpdateEstimate {
    /// Examines a file. If the plan for these updates depends on costs, or with `is_predicted`, they are those of the storage's profile,
    /// or else, and if the updates take little time, are measured in the file's directory. If that fails, because no file can be created
    /// there or the disk is full, they are assumed.
    ///
    /// # Errors
    /// As for [`Self::assuming`].
    pub fn at(path: &Path, updates: &Updates, limits: &PlanLimits, is_predicted: bool) -> Result<Self> {
        Self::with(path, updates, limits, is_predicted, Planner::default())
    }

    /// The same by a planner.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn with(
        path: &Path,
        updates: &Updates,
        limits: &PlanLimits,
        is_predicted: bool,
        planner: Planner<'_>,
    ) -> Result<Self> {
        let ask = |estimate: &mut Self| estimate.ask(path, planner);
        Self::asking(path, updates, limits, is_predicted, planner.measured, ask)
    }

    /// The same; `ask` takes the costs of a profile.
    fn asking(
        path: &Path,
        updates: &Updates,
        limits: &PlanLimits,
        is_predicted: bool,
        kept: &MeasuredFacts,
        ask: impl FnOnce(&mut Self) -> bool,
    ) -> Result<Self> {
        let mut estimate = Self::assuming(path, limits)?;
        let of_file = of_file(updates, &estimate.facts, limits);
        let is_certain = plan::is_certain(&updates.gaps, &estimate.facts, &of_file);
        let expected_ns = |estimate: &Self| plan::expected_ns(&updates.gaps, &estimate.facts, &of_file);
        let asks = is_predicted || !is_certain && expected_ns(&estimate) >= PAYS_FROM * ASKING_NS;
        if asks && ask(&mut estimate) {
            return Ok(estimate);
        }
        if !is_certain {
            let is_few = updates.gaps.pieces < FEW_UPDATES;
            estimate.measure_scattered(path, if is_few { Reads::One } else { Reads::Few }, limits, kept);
            let pays_ns = expected_ns(&estimate) / PAYS_FROM;
            if pays_ns >= CALLS_NS.max(LONG_REQUESTS * estimate.facts.costs.scattered_ns.value) {
                estimate.measure_scattered(path, Reads::Long, limits, kept);
            }
            if pays_ns >= CALLS_NS {
                estimate.measure(path, limits.durability.is_of_each_call(), kept);
            }
            if !estimate.is_measured() && plan::weighs_wear(&updates.gaps, &estimate.facts, &of_file) {
                estimate.measure(path, true, kept);
            }
        }
        if is_predicted {
            estimate.deciding = Some(estimate.facts.costs);
            estimate.measure_scattered(path, Reads::Long, limits, kept);
            estimate.measure(path, true, kept);
        }
        Ok(estimate)
    }

    /// Examines a file, for updates that are not known yet; all costs are those of the storage's profile, or else measured.
    ///
    /// # Errors
    /// As for [`Self::assuming`].
    pub fn measured(path: &Path, limits: &PlanLimits) -> Result<Self> {
        let (mut estimate, planner) = (Self::assuming(path, limits)?, Planner::default());
        if !estimate.ask(path, planner) {
            let kept = planner.measured;
            estimate.measure_scattered(path, Reads::Long, limits, kept);
            estimate.measure(path, true, kept);
        }
        Ok(estimate)
    }

    /// Examines a file, and assumes the costs.
    ///
    /// # Errors
    /// The system's; [`crate::error::UpdateErrorKind::Running`] if another update of the file is running, whose lease
    /// opening would end.
    pub fn assuming(path: &Path, limits: &PlanLimits) -> Result<Self> {
        refuse_second(&NameInDirectory::of(path)?)?;
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
        Ok(Self {
            facts,
            deciding: None,
            doubt: None,
            basis: None,
        })
    }

    /// Takes the costs of the storage's profile. Returns whether it has them.
    #[cfg(feature = "profile")]
    fn ask(&mut self, path: &Path, planner: Planner<'_>) -> bool {
        let profile = fs::metadata(path)
            .ok()
            .and_then(|found| planner.profiles.of_device(path, found.dev()));
        profile.is_some_and(|profile| self.is_known(profile))
    }

    #[cfg(feature = "profile")]
    fn is_known(&mut self, profile: &StorageProfile) -> bool {
        let known = plan::known_costs(profile);
        if let Some((costs, basis)) = known {
            self.facts.costs = costs;
            self.basis = Some(basis);
        }
        self.basis.is_some()
    }

    /// Nothing was measured earlier.
    #[cfg(not(feature = "profile"))]
    #[expect(
        clippy::unused_self,
        clippy::needless_pass_by_ref_mut,
        reason = "with profiles, it takes their costs"
    )]
    fn ask(&mut self, _path: &Path, _planner: Planner<'_>) -> bool {
        false
    }

    /// The plan for updates that are counted only, at equal distances.
    #[cfg(feature = "profile")]
    pub(crate) fn plan_of(&self, gaps: &Gaps, limits: &PlanLimits) -> Plan {
        self.explained(plan::update(gaps, &self.facts, limits))
    }

    /// A plan, with what its costs rest on.
    fn explained(&self, mut plan: Plan) -> Plan {
        if let Some(basis) = &self.basis {
            plan.reason = Reason::AtProfileCosts {
                sittings: basis.clone(),
                reason: Box::new(plan.reason),
            };
        }
        plan
    }

    /// Whether all costs are measured, so that the predicted time is meaningful.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.facts.costs.is_measured()
    }

    fn measure(&mut self, path: &Path, with_device: bool, kept: &MeasuredFacts) {
        match measured_costs(path, with_device, kept) {
            Ok(costs) => {
                let known = self.facts.costs;
                self.facts.costs = Costs {
                    fetch_byte_ns: known.fetch_byte_ns,
                    scattered_ns: known.scattered_ns,
                    ..costs
                };
            }
            Err(error) => self.doubt = Some(full_text(&error)),
        }
    }

    /// Measures requests of the device, if they take time: of data that is not in memory, or for an fsync.
    fn measure_scattered(&mut self, path: &Path, reads: Reads, limits: &PlanLimits, kept: &MeasuredFacts) {
        let facts = &mut self.facts;
        if (facts.absent_part > 0.0 || limits.durability == Durability::Fsync)
            && let Err(error) = kept.scattered(path, facts.file_bytes, reads, &mut facts.costs)
        {
            log::debug!(path = %path.display(), %error, "the latency of the device is assumed");
        }
    }

    /// The plan for updates.
    pub fn plan(&self, updates: &Updates, limits: &PlanLimits) -> UpdatePlan {
        let costs = self.deciding.unwrap_or(self.facts.costs);
        let deciding = UpdateFacts { costs, ..self.facts };
        let mut found = followed(updates, &self.facts, &deciding, limits, plan::update);
        found.plan = self.explained(found.plan);
        found
    }

    /// The cost of a named method.
    pub fn of_method(&self, method: Method, updates: &Updates, limits: &PlanLimits) -> UpdatePlan {
        let (cost, amounts) = counted(updates, &self.facts, &method, limits.safety);
        let plan = Plan {
            method,
            otherwise: method,
            predicted: cost.predicted,
            is_certain: true,
            reason: Reason::Named,
            facts: amounts.facts(&self.facts.costs).collect(),
        };
        UpdatePlan { plan, cost }
    }
}

/// A plan by the facts that decide, with the cost of its exact writes by all facts.
fn followed(
    updates: &Updates,
    facts: &UpdateFacts,
    deciding: &UpdateFacts,
    limits: &PlanLimits,
    by: fn(&Gaps, &UpdateFacts, &PlanLimits) -> Plan,
) -> UpdatePlan {
    let mut plan = by(&updates.gaps, deciding, &of_file(updates, facts, limits));
    let (mut planned, mut amounts) = counted(updates, facts, &plan.method, limits.safety);
    if !planned.is_within(limits) && plan.method != plan.otherwise {
        plan.method = plan.otherwise;
        (planned, amounts) = counted(updates, facts, &plan.method, limits.safety);
    }
    // After the part in the page cache.
    plan.facts.truncate(1);
    plan.facts.extend(amounts.facts(&facts.costs));
    if plan.method.options().cache() == CachePolicy::Direct {
        plan.reason = Reason::PastCache(Box::new(plan.reason));
    }
    plan.predicted = planned.predicted;
    UpdatePlan { plan, cost: planned }
}

/// The limits for writes to the file itself, without those for safety.
fn of_file(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> PlanLimits {
    let Some(most) = limits.amplification_max else {
        return *limits;
    };
    let beside = safety_bytes(updates, facts, limits.safety) as f64 / updates.requested_bytes().max(1) as f64;
    PlanLimits {
        amplification_max: Some(most - beside),
        ..*limits
    }
}

/// Measures the costs of writing in the directory of a file.
fn measured_costs(path: &Path, with_device: bool, kept: &MeasuredFacts) -> Result<Costs> {
    let place = NameInDirectory::of(path)?;
    let mut costs = Costs::ASSUMED;
    let measured = kept.writing(&place.directory, with_device, &mut costs);
    measured.map_err(|error| place.system("measure writing in its directory", error))?;
    Ok(costs)
}

/// Bytes that a copy of the file takes: its data, or nothing if blocks can be shared in its directory.
fn copied_bytes(path: &Path) -> Result<u64> {
    let path = &NameInDirectory::of(path)?.path;
    if shares_blocks(directory_of(path)) {
        return Ok(0);
    }
    let failed = |error| Error::system(path, "list its data ranges", error);
    data_bytes(&File::open(path).map_err(failed)?).map_err(failed)
}

/// Bytes of a file that are not in holes.
fn data_bytes(file: &File) -> io::Result<u64> {
    let end = file.metadata()?.len();
    let ranges = data_ranges(file, 0..end);
    ranges.map(|range| range.map(|range| range.end - range.start)).sum()
}

/// The plan for a file, which is examined first.
pub(super) fn planned(path: &Path, updates: &Updates, limits: &PlanLimits, planner: Planner<'_>) -> Result<Plan> {
    let estimate = UpdateEstimate::with(path, updates, limits, false, planner)?;
    if let Some(doubt) = &estimate.doubt {
        log::debug!(path = %path.display(), doubt, "write costs are assumed");
    }
    Ok(estimate.plan(updates, limits).plan)
}

/// The cost of updates by a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateCost {
    /// Calls that write and read, and their bytes.
    pub work: UpdateWork,
    /// Bytes that change, each counted once.
    pub requested_bytes: u64,
    /// Bytes of the blocks of 4 KiB in which bytes change: a device writes at least these.
    pub changed_block_bytes: u64,
    /// Bytes written for safety: the journal, or at most the copy of the file.
    pub safety_bytes: u64,
    /// The predicted time.
    pub predicted: Predicted,
}

impl UpdateCost {
    /// Write amplification: bytes written, including those for safety, for each byte that changes.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        (self.work.written_bytes + self.safety_bytes) as f64 / self.requested_bytes.max(1) as f64
    }

    /// The same in blocks: bytes of the blocks that are written, and for safety, for each byte of the blocks that change.
    #[must_use]
    pub fn block_amplification(&self) -> f64 {
        (self.work.written_block_bytes + self.safety_bytes) as f64 / self.changed_block_bytes.max(1) as f64
    }

    /// Whether it is within the limit on write amplification.
    #[must_use]
    pub fn is_within(&self, limits: &PlanLimits) -> bool {
        limits.amplification_max.is_none_or(|most| self.amplification() <= most)
    }
}

/// Bytes written for safety.
fn safety_bytes(updates: &Updates, facts: &UpdateFacts, safety: Safety) -> u64 {
    match safety {
        Safety::InPlace => 0,
        Safety::Journal => journal::bytes(updates),
        Safety::Replace => facts.copied_bytes,
    }
}

/// The cost of a method by the facts, including safety.
pub fn cost(updates: &Updates, facts: &UpdateFacts, method: &Method, safety: Safety) -> UpdateCost {
    counted(updates, facts, method, safety).0
}

/// The same, with the amounts that it consists of.
fn counted(updates: &Updates, facts: &UpdateFacts, method: &Method, safety: Safety) -> (UpdateCost, Amounts) {
    let layout = layout(updates, facts, method);
    let (mut work, mut blocks) = (UpdateWork::default(), BlockCount::default());
    for write in Writes::new(updates, layout) {
        work.writes += 1;
        work.written_bytes += write.length;
        blocks.add(write.offset, write.length);
        if write.has_gaps() {
            work.reads += 1;
            work.read_bytes += write.length;
        } else {
            work.cut_blocks += BlockCount::cut(write.offset, write.length);
        }
    }
    work.cut_blocks = work.cut_blocks.min(blocks.bytes() / BlockCount::BYTES);
    work.written_block_bytes = blocks.bytes().max(work.written_bytes);
    let options = method.options();
    let is_direct = options.cache() == CachePolicy::Direct;
    let requested_bytes = updates.requested_bytes();
    let safety_bytes = safety_bytes(updates, facts, safety);
    let mut amounts = plan::amounts(&work, options.durability(), facts.absent_part, is_direct);
    // Safety in addition to the method: reads and writes, and syncs of files and directories.
    let (syncs, read_bytes) = match safety {
        // Syncs for the journal, its name, and its removal; it also reads the old bytes.
        Safety::Journal => (3, requested_bytes),
        // Its name.
        Safety::Replace => (1, safety_bytes),
        Safety::InPlace => (0, 0),
    };
    if safety != Safety::InPlace && requested_bytes > 0 {
        // The file is synced in any case; a fsync of the method is already counted.
        let syncs = syncs + u32::from(options.durability() != Durability::Fsync);
        amounts = amounts.and(plan::amounts_of_safety(
            safety_bytes,
            read_bytes,
            syncs,
            options.durability(),
        ));
    }
    let cost = UpdateCost {
        work,
        requested_bytes,
        changed_block_bytes: updates.gaps.blocks.bytes(),
        safety_bytes,
        predicted: amounts.predicted(&facts.costs),
    };
    (cost, amounts)
}

fn layout(updates: &Updates, facts: &UpdateFacts, method: &Method) -> WriteLayout {
    let options = method.options();
    let alignment = match options.cache() {
        // If the file system does not report it, as when opening the file.
        CachePolicy::Direct => facts.direct_alignment.unwrap_or(MEMORY_ALIGNMENT as u64),
        _ => 1,
    };
    let order = match options.update_order() {
        // The same number of writes, without sorting back into the given order; but two updates in one aligned block
        // stay two writes.
        UpdateOrder::AsGiven if alignment == 1 => UpdateOrder::Ascending,
        order => order,
    };
    let longest = reach(method, updates.end(), facts.file_bytes);
    WriteLayout {
        order,
        block_bytes: match Setup::new(method, longest).block_bytes {
            // A method that moves everything in one call has no block.
            0 => u64::MAX,
            block => block as u64,
        },
        alignment,
        end: updates.end().max(facts.file_bytes),
    }
}

/// The cost if every update is a write of its own, in the given order.
pub fn naive(updates: &Updates, facts: &UpdateFacts, durability: Durability) -> (Method, UpdateCost) {
    let plain = plan::usual(Operation::Update);
    let as_given = plain.with(UpdateOrder::AsGiven);
    let method = as_given.and_then(|as_given| as_given.with(durability)).unwrap_or(plain);
    (method, cost(updates, facts, &method, Safety::InPlace))
}

#[cfg(test)]
mod tests;
