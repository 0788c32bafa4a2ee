//! Plans for reading a file from start to end.

use seekless_method::{Method, Operation};

use super::cost::{Amounts, Of};
use super::{Candidate, DIRECT_FROM_ABSENT, Plan, Reason, Task, can_be_direct, choose, measured_plan, method, usual};
use crate::facts::Facts;

/// From this size on, measuring direct reads, which reads up to 8 MiB, costs little compared with what it can save.
const DIRECT_FROM_BYTES: u64 = 128 << 20;

/// The plan for reading a file once. Bypassing the page cache leaves nothing for the next reader, so it must be clearly
/// faster.
#[must_use]
pub fn read(request: &Task, facts: &Facts) -> Plan {
    measured_plan(Operation::Read, request, facts).unwrap_or_else(|| choose(&candidates(request, facts), facts))
}

/// From this size on, starting threads costs little compared with what they save.
const THREADS_FROM_BYTES: u64 = 16 << 20;
/// More threads than this do not read faster from the page cache: memory is the limit.
const THREADS_MAX: usize = 4;

/// The plan for reading a file into the caller's memory. From the page cache, several threads fill it at once. The profile does not
/// have that: its reads go to buffers that are used again, so nothing waits for new pages of memory.
#[must_use]
pub fn read_into_memory(request: &Task, facts: &Facts) -> Plan {
    let plan = read(request, facts);
    let threads = facts.process.processors.min(THREADS_MAX);
    let is_cached = facts.files[0].resident_part() > DIRECT_FROM_ABSENT;
    if !is_cached || threads < 2 || request.bytes < THREADS_FROM_BYTES {
        return plan;
    }
    Plan {
        method: method(&format!("read/threads={threads},block=1M")),
        otherwise: usual(Operation::Read),
        reason: Reason::FilledByThreads { threads },
        ..plan
    }
}

/// The methods to choose from without a profile.
pub(super) fn candidates(request: &Task, facts: &Facts) -> Vec<Candidate> {
    let usual = usual(Operation::Read);
    let is_cold = facts.files[0].resident_part() <= 1.0 - DIRECT_FROM_ABSENT;
    let cached = Candidate {
        method: usual,
        amounts: through_cache(request.bytes, facts, 0, &usual),
        reason: if request.bytes < super::SMALL_BYTES {
            Reason::Little {
                operation: Operation::Read,
            }
        } else if !is_cold {
            Reason::PartlyCached { files: 1 }
        } else {
            Reason::DirectNotFaster
        },
    };
    let mut candidates = vec![cached];
    let mut direct = |text: &str, depth: u64| {
        let method = method(text);
        let block_bytes = method.options().block_bytes().unwrap_or(0);
        if request.bytes >= DIRECT_FROM_BYTES && is_cold && can_be_direct(facts, 0, depth * block_bytes) {
            let amounts = past_cache(request.bytes, &method, depth > 1);
            let reason = Reason::DirectReads { in_flight: depth };
            candidates.push(Candidate {
                method,
                amounts,
                reason,
            });
        }
    };
    direct("read/sync,direct,block=4M", 1);
    direct("read/io_uring,depth=8,direct,block=512K", 8);
    candidates
}

/// The work of reading this many bytes of one of the files through the page cache.
pub(super) fn through_cache(bytes: u64, facts: &Facts, file: usize, method: &Method) -> Amounts {
    from_cache(bytes, facts, file, method).and(from_device(bytes, facts, file))
}

/// The processor's part of it: filling the page cache, and copying from it.
pub(super) fn from_cache(bytes: u64, facts: &Facts, file: usize, method: &Method) -> Amounts {
    let block_bytes = method.options().block_bytes().unwrap_or(bytes).max(1);
    let calls = bytes.div_ceil(block_bytes) as f64;
    Amounts::of([
        (Of::ReadCalls, calls),
        (Of::ReadBytes, bytes as f64),
        (Of::FilledBytes, absent_bytes(bytes, facts, file)),
    ])
}

/// Bytes of a file that are not in the page cache.
pub(super) fn absent_bytes(bytes: u64, facts: &Facts, file: usize) -> f64 {
    let found = &facts.files[file];
    bytes.min(found.allocated_bytes) as f64 * (1.0 - found.resident_part())
}

/// The device's part of it, with the kernel's read-ahead.
pub(super) fn from_device(bytes: u64, facts: &Facts, file: usize) -> Amounts {
    let absent_bytes = absent_bytes(bytes, facts, file);
    let windows = absent_bytes / facts.read_ahead_bytes.max(4096) as f64;
    Amounts::of([(Of::FetchedBytes, absent_bytes), (Of::Waits, 0.5 * windows)])
}

/// The work of reading directly, waiting for each block, or only for the first of several in flight.
pub(super) fn past_cache(bytes: u64, method: &Method, is_in_flight: bool) -> Amounts {
    let block_bytes = method.options().block_bytes().unwrap_or(bytes).max(1);
    let calls = bytes.div_ceil(block_bytes) as f64;
    Amounts::of([
        (Of::ReadCalls, calls),
        (Of::FetchedBytes, bytes as f64),
        (Of::Waits, if is_in_flight { 1.0 } else { calls }),
    ])
}
