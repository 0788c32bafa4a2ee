//! Plans for writing a file from start to end.

use seekless_method::{Durability, Method, Operation, Preallocate};

use super::cost::{Amounts, Of};
use super::{
    Candidate, Plan, Reason, SMALL_BYTES, SPARE, Task, can_be_direct, choose, measured_plan, method, read, usual,
};
use crate::facts::Facts;

/// The plan for writing a file. Without durability, nothing waits for the device, so the page cache is used.
#[must_use]
pub fn write(request: &Task, facts: &Facts) -> Plan {
    measured_plan(Operation::Write, request, facts).unwrap_or_else(|| choose(&candidates(request, facts), facts))
}

/// The methods to choose from without a profile.
pub(super) fn candidates(request: &Task, facts: &Facts) -> Vec<Candidate> {
    let operation = Operation::Write;
    let usual = wanted(usual(operation), request, facts);
    let cached = Candidate {
        method: usual,
        amounts: through_cache(request, facts, &usual),
        reason: match request.durability {
            _ if request.bytes < SMALL_BYTES => Reason::Little { operation },
            Durability::None => Reason::NotDurable { operation },
            _ => Reason::DirectNotFaster,
        },
    };
    let mut candidates = vec![cached];
    let direct = wanted(method("write/sync,direct,block=4M"), request, facts);
    let block_bytes = direct.options().block_bytes().unwrap_or(0);
    if request.durability != Durability::None && request.bytes >= SMALL_BYTES && can_be_direct(facts, 1, block_bytes) {
        candidates.push(Candidate {
            method: direct,
            amounts: past_cache(request, facts, &direct),
            reason: Reason::DirectWrites { operation },
        });
    }
    candidates
}

/// The method with the requested durability, and with preallocation if the disk is nearly full.
fn wanted(method: Method, request: &Task, facts: &Facts) -> Method {
    let durable = method.with(request.durability).unwrap_or(method);
    if request.bytes.saturating_mul(SPARE) < facts.free_bytes || request.bytes == 0 {
        return durable;
    }
    durable.with(Preallocate::Allocate).unwrap_or(durable)
}

/// The work of writing a new file through the page cache.
pub(super) fn through_cache(request: &Task, facts: &Facts, method: &Method) -> Amounts {
    let (bytes, calls, block_bytes) = blocks(request, method);
    let durable = match request.durability {
        Durability::None => Amounts::default(),
        Durability::Fsync => Amounts::of([(Of::GrownBytes, bytes), (Of::NewSyncs, 1.0)]),
        Durability::WriteThrough | Durability::FdatasyncEach => {
            Amounts::of([(Of::DeviceBytes, bytes), (Of::Flushes, calls)])
        }
    };
    durable.and(Amounts::of([
        (Of::Creates, 1.0),
        (Of::WriteCalls, calls),
        (Of::FilledBytes, bytes),
        (Of::BufferBytes, read::prepared(block_bytes, facts)),
    ]))
}

/// The work of writing a new file directly.
pub(super) fn past_cache(request: &Task, facts: &Facts, method: &Method) -> Amounts {
    let (bytes, calls, block_bytes) = blocks(request, method);
    let durable = match request.durability {
        Durability::None => Amounts::default(),
        Durability::Fsync => Amounts::of([(Of::NewSyncs, 1.0)]),
        Durability::WriteThrough | Durability::FdatasyncEach => Amounts::of([(Of::Flushes, calls)]),
    };
    durable.and(Amounts::of([
        (Of::Creates, 1.0),
        (Of::WriteCalls, calls),
        (Of::GrownBytes, bytes),
        (Of::BufferBytes, read::prepared(block_bytes, facts)),
    ]))
}

/// The bytes of a task, the calls that move them, and the bytes of a block.
fn blocks(request: &Task, method: &Method) -> (f64, f64, u64) {
    let block_bytes = method
        .options()
        .block_bytes()
        .unwrap_or(1 << 20)
        .clamp(1, request.bytes.max(1));
    (
        request.bytes as f64,
        request.bytes.div_ceil(block_bytes) as f64,
        block_bytes,
    )
}
