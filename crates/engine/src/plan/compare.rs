//! Plans for comparing two files.

use seekless_method::{CachePolicy, CompareMechanism, MechanismId, Method, Operation};

use super::cost::{Amounts, Of};
use super::{Candidate, Plan, Reason, SMALL_BYTES, Task, can_be_direct, choose, measured_plan, method, read, usual};
use crate::facts::{Facts, FileFacts, HEAD_MOVES_FROM_NS};

/// The first bytes of two files, which are compared before a method is chosen: a difference near the start then costs
/// only these reads, and reading this much takes no longer than preparing a method.
pub const FIRST_LOOK_BYTES: u64 = 64 << 10;

/// Bytes to compare of each file, without those for which neither file has blocks.
fn data_bytes(request: &Task, facts: &Facts) -> u64 {
    let [one, other] = facts.files;
    request.bytes.min(one.allocated_bytes.max(other.allocated_bytes))
}

fn is_one_device(facts: &Facts) -> bool {
    facts.files[0].device == facts.files[1].device
}

/// Whether what alternating between two cold files of one device costs decides.
fn depends_on_seeks(request: &Task, facts: &Facts) -> bool {
    data_bytes(request, facts) >= ALTERNATING_FROM_BYTES
        && is_one_device(facts)
        && facts.files.iter().all(|file| file.resident_part() < 0.5)
}

/// Whether direct reads are worth considering.
pub(crate) fn may_bypass_cache(request: &Task, facts: &Facts) -> bool {
    let all_bytes = data_bytes(request, facts).saturating_mul(facts.process.files_of_a_plan);
    all_bytes >= SMALL_BYTES && facts.files.iter().all(|file| file.resident_part() <= COLD_PART)
}

fn by_profile(request: &Task, facts: &Facts) -> Option<Plan> {
    let data = Task {
        files: 1,
        bytes: data_bytes(request, facts),
        ..*request
    };
    let plan = || measured_plan(Operation::Compare, &data, facts);
    is_one_device(facts).then(plan).flatten()
}

/// Shorter files are read ahead by a drive that has a head.
const ALTERNATING_FROM_BYTES: u64 = 16 << 20;
/// Bytes of one file that are read in a row where a head has to move for the other one.
const WINDOW_BYTES: f64 = 33_554_432.0;
/// Shorter ranges are compared by one thread, because starting more costs more.
const THREADED_BYTES: u64 = 8 << 20;
/// From this part on, a file counts as cached.
const WARM_PART: f64 = 0.9;
/// Up to this part, a file counts as not cached.
const COLD_PART: f64 = 0.1;
/// Two threads saturate memory; more only wait for each other.
const THREADS_MAX: usize = 4;
const THREADS_THAT_COUNT: u32 = 2;

/// The plan for comparing two files or parts of them. For files in the page cache, on two devices, or on a disk with a head, the method
/// follows from rules, which were found by measuring; otherwise from the costs.
#[must_use]
pub fn compare(request: &Task, facts: &Facts) -> Plan {
    if let Some(plan) = by_profile(request, facts) {
        return plan;
    }
    let mut plan = choose(&candidates(request, facts), facts);
    if let MechanismId::Compare(CompareMechanism::Mmap) = plan.method.mechanism().id {
        plan.otherwise = in_memory(request, facts);
    }
    let seek = facts.costs.seek_ns;
    let is_in_doubt = seek.low < HEAD_MOVES_FROM_NS && seek.high >= HEAD_MOVES_FROM_NS;
    plan.is_certain &= seek.is_measured() || !is_in_doubt || !depends_on_seeks(request, facts);
    plan
}

/// The methods to choose from without a profile.
pub(super) fn candidates(request: &Task, facts: &Facts) -> Vec<Candidate> {
    let plain = usual(Operation::Compare);
    let data_bytes = data_bytes(request, facts);
    let one = |method: Method, reason| Candidate {
        method,
        amounts: amounts(request, facts, &method),
        reason,
    };
    let resident = facts.files.map(|file| file.resident_part());
    let is_cold = resident.iter().all(|&part| part <= COLD_PART);
    if data_bytes < SMALL_BYTES && !may_bypass_cache(request, facts) {
        let operation = Operation::Read;
        return vec![one(plain, Reason::Little { operation })];
    }
    if resident.iter().all(|&part| part >= WARM_PART) {
        let has_holes = facts.files.iter().any(FileFacts::is_sparse);
        let can_map = facts.process.can_map;
        let reason = Reason::BothCached { has_holes, can_map };
        let mapped = || with_threads("compare/mmap,block=8M", threads(data_bytes, facts));
        let is_read = has_holes || !can_map;
        return vec![one(if is_read { in_memory(request, facts) } else { mapped() }, reason)];
    }
    let seek_ns = facts.costs.seek_ns.value;
    if seek_ns >= HEAD_MOVES_FROM_NS && depends_on_seeks(request, facts) {
        let mut in_turn = one(
            method("compare/sync,block=1M,window=32M"),
            Reason::Alternating { seek_ms: seek_ns / 1e6 },
        );
        let moves = (2.0 * data_bytes as f64 / WINDOW_BYTES).ceil();
        in_turn.amounts = in_turn.amounts.and(Amounts::of([(Of::Alternations, moves)]));
        return vec![in_turn];
    } else if !is_cold {
        let threaded = with_threads("compare/sync,block=1M", threads(data_bytes, facts).min(2));
        return vec![one(threaded, Reason::PartlyCached { files: 2 })];
    } else if !is_one_device(facts) {
        return vec![one(method("compare/sync,block=1M,order=parallel"), Reason::TwoDevices)];
    }
    let mut candidates = vec![one(plain, Reason::NeitherCached)];
    let direct = method("compare/io_uring,depth=8,direct,block=512K");
    let buffers_bytes = read::buffers_bytes(data_bytes, &direct);
    if (0..2).all(|file| can_be_direct(facts, file, buffers_bytes)) {
        candidates.push(one(direct, Reason::DirectReads { in_flight: 8 }));
    }
    candidates
}

/// The work of comparing by a method.
fn amounts(request: &Task, facts: &Facts, method: &Method) -> Amounts {
    let bytes = data_bytes(request, facts);
    let compared = Amounts::of([(Of::ComparedBytes, bytes as f64)]);
    if method.options().cache() == CachePolicy::Direct {
        // Requests for both files are in flight, so the second one does not wait.
        let [one, other] = [1.0, 0.0].map(|waits| read::past_cache(bytes, facts, method).with(Of::Waits, waits));
        return one.and(other.with(Of::BufferBytes, 0.0)).and(compared);
    }
    let threads = method.options().threads().min(THREADS_THAT_COUNT);
    if method.mechanism().id == MechanismId::Compare(CompareMechanism::Mmap) {
        let mapped = Amounts::of([(Of::Opens, 2.0), (Of::MappedBytes, 2.0 * bytes as f64)]);
        return mapped.in_threads(threads);
    }
    let both = [0, 1].map(|file| read::through_cache(bytes, facts, file, method));
    both[0].and(both[1]).and(compared).in_threads(threads)
}

/// The method of reading two files that are in the page cache.
fn in_memory(request: &Task, facts: &Facts) -> Method {
    with_threads("compare/sync,block=1M", threads(data_bytes(request, facts), facts))
}

/// The threads that compare this many bytes of each of two files.
fn threads(data_bytes: u64, facts: &Facts) -> usize {
    if data_bytes < THREADED_BYTES {
        1
    } else {
        facts.process.processors.clamp(1, THREADS_MAX)
    }
}

fn with_threads(text: &str, threads: usize) -> Method {
    if threads > 1 {
        method(&format!("{text},threads={threads}"))
    } else {
        method(text)
    }
}
