//! In which order, and with which gap, updates are best written: pure functions from measured costs to a method and the
//! time it will take. No I/O here; the costs are measured by `update::facts`.
//!
//! A call that writes is like a remote call: it costs more than the bytes it carries, so neighbours share one until the
//! bytes between them cost more than the call they save.

use super::choice::{Choice, Costs, DEAR_BYTES, DEAR_CALLS, USUAL, past_cache};
use super::commit::Safety;
use super::cost::{UpdateCost, cost, safety_bytes};
use super::resolved::Updates;
use crate::error::Result;
use seekless_method::{CachePolicy, Durability, Method, UpdateOrder};

/// What writing costs on a storage with the wished durability, and what the file is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateFacts {
    /// Nanoseconds of a call that writes, but for its bytes.
    pub write_call_ns: f64,
    /// Nanoseconds of a byte written.
    pub write_byte_ns: f64,
    /// Nanoseconds of bringing a few bytes to the device: a flush, or what writing through adds to a call.
    pub flush_ns: f64,
    /// Nanoseconds of a call that reads, but for its bytes.
    pub read_call_ns: f64,
    /// Nanoseconds of a byte read.
    pub read_byte_ns: f64,
    /// The file's size in bytes.
    pub file_bytes: u64,
    /// The part of the file that is not in memory, 0 to 1.
    pub absent_part: f64,
    /// Whether the file has holes, which would take space if what lies between updates were written.
    pub has_holes: bool,
    /// What offsets and lengths of direct I/O are multiples of; none where the file system tells of no direct I/O.
    pub direct_alignment: Option<u64>,
    /// What a copy of the file takes at most: its data, or nothing where blocks can be shared. Counts with
    /// [`Safety::Replace`] only.
    pub copied_bytes: u64,
}

impl UpdateFacts {
    /// What is taken where nothing can be measured: a disk that answers in a millisecond.
    #[must_use]
    pub fn assumed(file_bytes: u64) -> Self {
        Self {
            write_call_ns: 2_000.0,
            write_byte_ns: 1.0,
            flush_ns: 1e6,
            read_call_ns: 2_000.0,
            read_byte_ns: 1.0,
            file_bytes,
            absent_part: 0.0,
            has_holes: false,
            direct_alignment: None,
            copied_bytes: file_bytes,
        }
    }
}

/// What a plan has to keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanLimits {
    /// What is on the device in the end.
    pub durability: Durability,
    /// The most bytes written for each byte that updates name.
    pub amplification_max: Option<f64>,
    /// Whether only bytes may be written that updates name.
    pub is_exact: bool,
    /// What becomes of the file when it ends early. A journal and a new file that was just copied take the page cache, and
    /// are written beside the file.
    pub safety: Safety,
}

impl PlanLimits {
    /// Whether no more is written than may be.
    #[must_use]
    pub fn allows(&self, cost: &UpdateCost) -> bool {
        self.amplification_max.is_none_or(|most| cost.amplification() <= most)
    }

    /// The limits for the file itself, beside what safety takes.
    fn of_file(&self, updates: &Updates, facts: &UpdateFacts) -> Result<Self> {
        let Some(most) = self.amplification_max else {
            return Ok(*self);
        };
        let beside = safety_bytes(updates, facts, self.safety)? as f64 / updates.requested_bytes().max(1) as f64;
        Ok(Self {
            amplification_max: Some(most - beside),
            ..*self
        })
    }
}

/// A method for a batch, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    /// The method to use.
    pub method: Method,
    /// What it will cost.
    pub cost: UpdateCost,
    /// Why, for people.
    pub why: String,
}

/// The method that will be fastest by the facts, within the limits.
///
/// # Errors
/// As of [`Updates::visit`].
pub fn plan(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Result<UpdatePlan> {
    let choice = Choice::of(updates, facts, &limits.of_file(updates, facts)?);
    let (method, cost) = chosen(&choice, updates, facts, limits)?;
    Ok(UpdatePlan {
        method,
        cost,
        why: choice.why(&method, updates, facts, limits),
    })
}

/// The choice, where it is the same whatever calls and bytes cost on today's storages.
pub(super) fn certain_choice(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Result<Option<Choice>> {
    let limits = limits.of_file(updates, facts)?;
    let by = |costs: &Costs| Choice::of(updates, &costs.on(facts), &limits);
    Ok((by(&DEAR_BYTES).order == by(&DEAR_CALLS).order).then(|| by(&USUAL)))
}

/// The plan, where it is the same whatever calls and bytes cost on today's storages: measuring takes longer than a small
/// update. Of the facts only what they tell of the file counts, but for the predicted time.
///
/// # Errors
/// As of [`Updates::visit`].
pub fn certain_plan(updates: &Updates, facts: &UpdateFacts, limits: &PlanLimits) -> Result<Option<UpdatePlan>> {
    let Some(choice) = certain_choice(updates, facts, limits)? else {
        return Ok(None);
    };
    let (method, cost) = chosen(&choice, updates, facts, limits)?;
    let why = match choice.order {
        UpdateOrder::Coalesce(0) => choice
            .restriction(facts, limits)
            .unwrap_or("nothing between updates is worth writing, whatever a write costs"),
        UpdateOrder::Rewrite => "the whole file is worth writing at once, whatever a write costs",
        _ => "neighbours up to the gap are worth sharing a write, whatever it costs",
    };
    Ok(Some(UpdatePlan {
        method,
        cost,
        why: format!("{why}{}", past_cache(&method)),
    }))
}

/// The method of a choice, and what it costs. Past the page cache whole blocks of the device are written: where those are
/// more than may be written, it is made through the page cache.
fn chosen(
    choice: &Choice,
    updates: &Updates,
    facts: &UpdateFacts,
    limits: &PlanLimits,
) -> Result<(Method, UpdateCost)> {
    let method = choice.method(updates, facts, limits);
    let planned = cost(updates, facts, &method, limits.safety)?;
    let is_direct = method.options().cache() == CachePolicy::Direct;
    if !is_direct || limits.allows(&planned) {
        return Ok((method, planned));
    }
    let method = choice.method_through_cache(facts, limits);
    Ok((method, cost(updates, facts, &method, limits.safety)?))
}

#[cfg(test)]
mod tests;
