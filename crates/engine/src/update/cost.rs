//! The cost of updates by a method: its exact writes, and the time predicted from the facts.

use super::journal;
use super::resolved::Updates;
use super::writes::{WriteLayout, Writes, reach};
use crate::error::Result;
use crate::plan::{self, Amounts, Blocks, PlanLimits, Predicted, Safety, UpdateFacts, Work};
use crate::setup::{MEMORY_ALIGNMENT, Setup};
use seekless_method::{CachePolicy, Durability, Method, Operation, UpdateOrder};

/// The cost of updates by a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateCost {
    /// Calls that write and read, and their bytes.
    pub work: Work,
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
pub(super) fn safety_bytes(updates: &Updates, facts: &UpdateFacts, safety: Safety) -> Result<u64> {
    match safety {
        Safety::InPlace => Ok(0),
        Safety::Journal => journal::bytes(updates),
        Safety::Replace => Ok(facts.copied_bytes),
    }
}

/// The cost of a method by the facts, including safety.
///
/// # Errors
/// As for [`Updates::visit`].
pub fn cost(updates: &Updates, facts: &UpdateFacts, method: &Method, safety: Safety) -> Result<UpdateCost> {
    Ok(counted(updates, facts, method, safety)?.0)
}

/// The same, with the amounts that it consists of.
pub(super) fn counted(
    updates: &Updates,
    facts: &UpdateFacts,
    method: &Method,
    safety: Safety,
) -> Result<(UpdateCost, Amounts)> {
    let layout = layout(updates, facts, method);
    let (mut work, mut blocks) = (Work::default(), Blocks::default());
    updates.each_window(|window| {
        for write in Writes::new(window, layout) {
            work.writes += 1;
            work.written_bytes += write.length;
            blocks.add(write.offset, write.length);
            if write.has_gaps() {
                work.reads += 1;
                work.read_bytes += write.length;
            } else {
                work.cut_blocks += Blocks::cut(write.offset, write.length);
            }
        }
        Ok(())
    })?;
    work.cut_blocks = work.cut_blocks.min(blocks.bytes() / Blocks::BYTES);
    work.written_block_bytes = blocks.bytes().max(work.written_bytes);
    let options = method.options();
    let is_direct = options.cache() == CachePolicy::Direct;
    let requested_bytes = updates.requested_bytes();
    let safety_bytes = safety_bytes(updates, facts, safety)?;
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
    Ok((cost, amounts))
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
///
/// # Errors
/// As for [`Updates::visit`].
pub fn naive(updates: &Updates, facts: &UpdateFacts, durability: Durability) -> Result<(Method, UpdateCost)> {
    let plain = plan::usual(Operation::Update);
    let as_given = plain.with(UpdateOrder::AsGiven);
    let method = as_given.and_then(|as_given| as_given.with(durability)).unwrap_or(plain);
    Ok((method, cost(updates, facts, &method, Safety::InPlace)?))
}
