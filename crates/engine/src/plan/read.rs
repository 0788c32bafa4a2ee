//! Plans for reading a file from start to end.

use seekless_method::{Method, Operation};

use super::cost::{Amounts, Of};
use super::{Candidate, DIRECT_FROM_ABSENT, Plan, Reason, Task, can_be_direct, choose, measured_plan, method, usual};
use crate::facts::Facts;

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
    let looked = Amounts::of([(Of::LookedBytes, request.bytes as f64)]);
    let is_cold = facts.files[0].resident_part() <= 1.0 - DIRECT_FROM_ABSENT;
    let cached = Candidate {
        method: usual,
        amounts: through_cache(request.bytes, facts, 0, &usual).and(looked),
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
    if request.bytes < super::SMALL_BYTES {
        return candidates;
    }
    let is_cached = facts.files[0].resident_part() >= DIRECT_FROM_ABSENT;
    if is_cached && request.bytes >= THREADS_FROM_BYTES && facts.process.can_map && !facts.files[0].is_sparse() {
        candidates.push(Candidate {
            method: method("read/mmap"),
            amounts: Amounts::of([(Of::Opens, 1.0), (Of::ViewedBytes, request.bytes as f64)]),
            reason: Reason::MappedFromCache,
        });
    }
    if !is_cold {
        return candidates;
    }
    for (text, depth) in [
        ("read/sync,direct,block=4M", 1),
        ("read/io_uring,depth=8,direct,block=512K", 8),
    ] {
        let method = method(text);
        if can_be_direct(facts, 0, buffers_bytes(request.bytes, &method)) {
            candidates.push(Candidate {
                method,
                amounts: past_cache(request.bytes, facts, &method).and(looked),
                reason: Reason::DirectReads { in_flight: depth },
            });
        }
    }
    candidates
}

/// The work of reading this many bytes of one of the files through the page cache.
pub(super) fn through_cache(bytes: u64, facts: &Facts, file: usize, method: &Method) -> Amounts {
    let block_bytes = method.options().block_bytes().unwrap_or(bytes).clamp(1, bytes.max(1));
    let calls = bytes.div_ceil(block_bytes) as f64;
    let absent_bytes = absent_bytes(bytes, facts, file);
    let hidden = if absent_bytes > FIRST_BYTES {
        0.5 * (1.0 - FIRST_BYTES / absent_bytes)
    } else {
        0.0
    };
    Amounts::of([
        (Of::Opens, 1.0),
        (Of::ReadCalls, calls),
        (Of::ReadBytes, bytes as f64 - hidden * absent_bytes),
        (Of::Waits, if absent_bytes > 0.0 { 1.0 } else { 0.0 }),
        (Of::StreamedBytes, absent_bytes),
        (Of::FilledBytes, (1.0 - hidden) * absent_bytes),
        (Of::BufferBytes, prepared(block_bytes, facts)),
    ])
}

/// Bytes of a file that are waited for before the kernel reads ahead.
const FIRST_BYTES: f64 = 1_048_576.0;

/// Bytes of a file that are not in the page cache.
fn absent_bytes(bytes: u64, facts: &Facts, file: usize) -> f64 {
    let found = &facts.files[file];
    bytes.min(found.allocated_bytes) as f64 * (1.0 - found.resident_part())
}

/// The bytes of all buffers of a method, for a file of this many bytes.
pub(super) fn buffers_bytes(bytes: u64, method: &Method) -> u64 {
    let options = method.options();
    let block_bytes = options.block_bytes().unwrap_or(0).min(bytes);
    block_bytes * u64::from(options.depth().unwrap_or(1))
}

/// The part of one file in what is prepared once for all files of a plan.
pub(super) fn prepared(bytes: u64, facts: &Facts) -> f64 {
    bytes as f64 / facts.process.files_of_a_plan as f64
}

/// Making a ring takes as long as that of so many bytes of its buffers.
const RING_BYTES: u64 = 256 << 10;

/// The work of reading directly, waiting for each block, or only for the first of several in flight.
pub(super) fn past_cache(bytes: u64, facts: &Facts, method: &Method) -> Amounts {
    let block_bytes = method.options().block_bytes().unwrap_or(bytes).max(1);
    let calls = bytes.div_ceil(block_bytes) as f64;
    let buffers_bytes = buffers_bytes(bytes, method);
    let device = if method.options().depth().is_some() {
        Amounts::of([
            (Of::StreamedBytes, bytes as f64),
            (Of::Waits, 1.0),
            (Of::BufferBytes, prepared(buffers_bytes + RING_BYTES, facts)),
        ])
    } else {
        Amounts::of([
            (Of::FetchedBytes, bytes as f64),
            (Of::Waits, calls),
            (Of::BufferBytes, prepared(buffers_bytes, facts)),
        ])
    };
    device.and(Amounts::of([(Of::Opens, 1.0), (Of::ReadCalls, calls)]))
}
