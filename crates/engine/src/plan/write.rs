//! Plans for writing a file from start to end.

use seekless_method::{Durability, Method, Operation, Preallocate};

use super::cost::{Amounts, Of};
use super::{Candidate, Plan, Reason, SMALL_BYTES, SPARE, Task, can_be_direct, choose, measured_plan, method, usual};
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
        amounts: through_cache(request, &usual),
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
            amounts: past_cache(request, &direct),
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

/// The work of writing through the page cache, all to new pages.
pub(super) fn through_cache(request: &Task, method: &Method) -> Amounts {
    let bytes = request.bytes as f64;
    let calls = request
        .bytes
        .div_ceil(method.options().block_bytes().unwrap_or(1 << 20)) as f64;
    let (device_bytes, flushes) = match request.durability {
        Durability::None => (0.0, 0.0),
        Durability::Fsync => (bytes, 1.0),
        Durability::WriteThrough | Durability::FdatasyncEach => (bytes, calls),
    };
    Amounts::of([
        (Of::WriteCalls, calls),
        (Of::FilledBytes, bytes),
        (Of::DeviceBytes, device_bytes),
        (Of::Flushes, flushes),
    ])
}

/// The work of writing directly: each call waits, and there is one flush at the end.
pub(super) fn past_cache(request: &Task, method: &Method) -> Amounts {
    let calls = request
        .bytes
        .div_ceil(method.options().block_bytes().unwrap_or(4 << 20)) as f64;
    Amounts::of([
        (Of::WriteCalls, calls),
        (Of::DeviceBytes, request.bytes as f64),
        (Of::Flushes, calls + 1.0),
    ])
}
