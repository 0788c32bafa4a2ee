//! Plans for copying a file.

use seekless_method::{Durability, Operation};

use super::cost::{Amounts, Of};
use super::{
    Candidate, DIRECT_FROM_ABSENT, Plan, Reason, SMALL_BYTES, Task, can_be_direct, choose, measured_plan, method, read,
    usual, write,
};
use crate::facts::Facts;

/// Whether the plan depends on sharing blocks, which is tested with two short files.
pub(crate) fn depends_on_sharing(request: &Task, facts: &Facts) -> bool {
    let [source, target] = facts.files;
    // `write-through` does not apply to shared blocks.
    let is_durable = request.durability == Durability::WriteThrough;
    data_of(request, facts).bytes >= SMALL_BYTES && source.device == target.device && !is_durable
}

/// The task without holes, which are skipped.
fn data_of(request: &Task, facts: &Facts) -> Task {
    Task {
        files: 1,
        bytes: request.bytes.min(facts.files[0].allocated_bytes),
        ..*request
    }
}

/// The plan for copying a file to a new one. It shares blocks if possible. Otherwise it bypasses the page cache if the
/// copy must be durable and the source is not in memory.
#[must_use]
pub fn copy(request: &Task, facts: &Facts) -> Plan {
    let shares = facts.can_share && depends_on_sharing(request, facts);
    let is_known = !shares && facts.files[0].device == facts.files[1].device;
    let plan = || measured_plan(Operation::Copy, &data_of(request, facts), facts);
    let known = is_known.then(plan).flatten();
    known.unwrap_or_else(|| choose(&candidates(request, facts), facts))
}

/// The methods to choose from without a profile.
pub(super) fn candidates(request: &Task, facts: &Facts) -> Vec<Candidate> {
    let operation = Operation::Copy;
    let usual = usual(operation);
    let usual = usual.with(request.durability).unwrap_or(usual);
    let data = data_of(request, facts);
    let read_usual = super::usual(Operation::Read);
    let cached = Candidate {
        method: usual,
        amounts: read::through_cache(data.bytes, facts, 0, &read_usual).and(write::through_cache(&data, facts, &usual)),
        reason: match request.durability {
            _ if data.bytes < SMALL_BYTES => Reason::Little { operation },
            Durability::None => Reason::NotDurable { operation },
            _ => Reason::DirectNotFaster,
        },
    };
    let mut candidates = vec![cached];
    let is_cold = facts.files[0].resident_part() <= 1.0 - DIRECT_FROM_ABSENT;
    let direct = method("copy/sync,direct,block=1M,holes=skip");
    let direct = direct.with(request.durability).unwrap_or(direct);
    let block_bytes = direct.options().block_bytes().unwrap_or(0);
    let calls = data.bytes.div_ceil(block_bytes.max(1)) as f64;
    let is_one_device = facts.files[0].device == facts.files[1].device;
    let alternating = Amounts::of([(Of::Alternations, if is_one_device { 2.0 * calls } else { 0.0 })]);
    let can_be_direct = (0..2).all(|file| can_be_direct(facts, file, block_bytes));
    if request.durability != Durability::None && is_cold && data.bytes >= SMALL_BYTES && can_be_direct {
        candidates.push(Candidate {
            method: direct,
            amounts: read::past_cache(data.bytes, facts, &direct)
                .and(write::past_cache(&data, facts, &direct))
                .and(alternating),
            reason: Reason::DirectWrites { operation },
        });
    }
    let share = method("copy/reflink");
    if facts.can_share && depends_on_sharing(request, facts) {
        let flushes = f64::from(u8::from(request.durability == Durability::Fsync));
        candidates.push(Candidate {
            method: share.with(request.durability).unwrap_or(share),
            amounts: Amounts::of([(Of::Creates, 1.0), (Of::WriteCalls, 1.0), (Of::NewSyncs, flushes)]),
            reason: Reason::SharedBlocks,
        });
    }
    candidates
}
