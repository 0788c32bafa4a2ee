//! What a method makes of updates, counted by the writes that it will really make, and the time that follows from the facts.

use super::journal;
use super::resolved::Updates;
use super::writes::{Layout, Writes, reach};
use crate::error::Result;
use crate::plan::{self, Amounts, PlanLimits, Predicted, Safety, UpdateFacts, Work};
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use seekless_method::{CachePolicy, Durability, Method, Operation, UpdateOrder};

/// What a method makes of updates, and the time that follows from the facts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateCost {
    /// Calls that write and read, and their bytes.
    pub work: Work,
    /// Bytes that updates name, each once.
    pub requested_bytes: u64,
    /// Bytes written beside it for safety: the journal, or at most the copy that takes its name.
    pub safety_bytes: u64,
    /// What it will take.
    pub predicted: Predicted,
}

impl UpdateCost {
    /// Bytes written, those for safety among them, for each byte that updates name: what flash wears by.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        (self.work.written_bytes + self.safety_bytes) as f64 / self.requested_bytes.max(1) as f64
    }

    /// Whether no more is written than may be.
    #[must_use]
    pub fn is_within(&self, limits: &PlanLimits) -> bool {
        limits.amplification_max.is_none_or(|most| self.amplification() <= most)
    }
}

/// What safety writes beside the file.
pub(super) fn safety_bytes(updates: &Updates, facts: &UpdateFacts, safety: Safety) -> Result<u64> {
    match safety {
        Safety::InPlace => Ok(0),
        Safety::Journal => journal::bytes(updates),
        Safety::Replace => Ok(facts.copied_bytes),
    }
}

/// What a method costs by the facts, with what safety takes.
///
/// # Errors
/// As of [`Updates::visit`].
pub fn cost(updates: &Updates, facts: &UpdateFacts, method: &Method, safety: Safety) -> Result<UpdateCost> {
    Ok(counted(updates, facts, method, safety)?.0)
}

/// The same, with what it is made of.
pub(super) fn counted(
    updates: &Updates,
    facts: &UpdateFacts,
    method: &Method,
    safety: Safety,
) -> Result<(UpdateCost, Amounts)> {
    let layout = layout(updates, facts, method);
    let mut work = Work::default();
    updates.each_window(|window| {
        for write in Writes::new(window, layout) {
            work.writes += 1;
            work.written_bytes += write.length;
            if write.has_gaps() {
                work.reads += 1;
                work.read_bytes += write.length;
            }
        }
        Ok(())
    })?;
    let options = method.options();
    let is_direct = options.cache() == CachePolicy::Direct;
    let requested_bytes = updates.requested_bytes();
    let safety_bytes = safety_bytes(updates, facts, safety)?;
    let mut amounts = plan::amounts(&work, options.durability(), facts.absent_part, is_direct);
    // What safety takes beside the method: bytes are read and written, and files and their names brought to the device.
    let (syncs, read_bytes) = match safety {
        // The journal, its name, and that it is gone. What was there before is read for it.
        Safety::Journal => (3, requested_bytes),
        // Its name.
        Safety::Replace => (1, safety_bytes),
        Safety::InPlace => (0, 0),
    };
    if safety != Safety::InPlace && requested_bytes > 0 {
        // What is written is brought there in any case, and by fsync already counted.
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
        safety_bytes,
        predicted: amounts.predicted(&facts.costs),
    };
    Ok((cost, amounts))
}

fn layout(updates: &Updates, facts: &UpdateFacts, method: &Method) -> Layout {
    let options = method.options();
    let alignment = match options.cache() {
        // Where the file system does not tell, as when the file is opened.
        CachePolicy::Direct => facts.direct_alignment.unwrap_or(MEMORY_ALIGNMENT as u64),
        _ => 1,
    };
    let order = match options.update_order() {
        // As many writes, without sorting back into the order given; but two of one aligned block stay two.
        UpdateOrder::AsGiven if alignment == 1 => UpdateOrder::Ascending,
        order => order,
    };
    let longest = reach(method, updates.end(), facts.file_bytes);
    Layout {
        order,
        block_bytes: match Setup::new(method, longest).block_bytes {
            // A method that stands for others has no block.
            0 => u64::MAX,
            block => block as u64,
        },
        alignment,
        end: updates.end().max(facts.file_bytes),
    }
}

/// What the batch costs when every update is a write of its own, in the order given.
///
/// # Errors
/// As of [`Updates::visit`].
pub fn naive(updates: &Updates, facts: &UpdateFacts, durability: Durability) -> Result<(Method, UpdateCost)> {
    let plain = plan::usual(Operation::Update);
    let as_given = plain.with(UpdateOrder::AsGiven);
    let method = as_given.and_then(|as_given| as_given.with(durability)).unwrap_or(plain);
    Ok((method, cost(updates, facts, &method, Safety::InPlace)?))
}
