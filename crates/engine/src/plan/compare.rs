//! Plans for comparing two files.

use seekless_method::{CompareMechanism, MechanismId, Method, Operation};

use super::cost::{Amounts, Of};
use super::{NamedFact, Plan, Reason, SMALL_BYTES, Task, Unit, measured_plan, method, read, residency, usual};
use crate::facts::{Fact, Facts, FileFacts};

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

/// Whether the plan depends on the cost of alternating, and measuring it takes less time than it can save.
pub(crate) fn depends_on_seeks(request: &Task, facts: &Facts) -> bool {
    let is_cold = |file: FileFacts| file.resident.is_some_and(|part| part < 0.5);
    data_bytes(request, facts) >= MEASURED_FROM_BYTES
        && is_one_device(facts)
        && facts.files.into_iter().all(is_cold)
        && by_profile(request, facts).is_none()
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

/// For shorter files, measuring would take longer than it can save.
const MEASURED_FROM_BYTES: u64 = 16 << 20;
/// Shorter ranges are compared by one thread, because starting more costs more.
const THREADED_BYTES: u64 = 8 << 20;
/// From this part on, a file counts as cached.
const WARM_PART: f64 = 0.9;
/// Up to this part, a file counts as not cached.
const COLD_PART: f64 = 0.1;
/// Two threads saturate memory; more only wait for each other.
const THREADS_MAX: usize = 4;
const THREADS_THAT_COUNT: u32 = 2;

/// The plan for comparing two files or parts of them. The method follows from rules, which were found by measuring; the
/// time follows from the costs.
#[must_use]
pub fn compare(request: &Task, facts: &Facts) -> Plan {
    if let Some(plan) = by_profile(request, facts) {
        return plan;
    }
    let (method, otherwise, reason) = chosen(request, facts);
    let amounts = amounts(request, facts, &method);
    let seeks = facts.seeks.map(|seeks| NamedFact {
        name: "alternating between the files, compared with sequential reads",
        unit: Unit::Times,
        fact: Fact::measured(seeks.ratio()),
    });
    Plan {
        method,
        otherwise,
        predicted: amounts.predicted(&facts.costs),
        is_certain: facts.seeks.is_some() || !depends_on_seeks(request, facts),
        reason,
        facts: residency(facts)
            .into_iter()
            .chain(seeks)
            .chain(amounts.facts(&facts.costs))
            .collect(),
    }
}

/// The work of comparing by a method.
fn amounts(request: &Task, facts: &Facts, method: &Method) -> Amounts {
    let bytes = data_bytes(request, facts);
    let in_memory = if method.mechanism().id == MechanismId::Compare(CompareMechanism::Mmap) {
        Amounts::of([(Of::MappedBytes, 2.0 * bytes as f64)])
    } else {
        let both = [0, 1].map(|file| read::from_cache(bytes, facts, file, method));
        both[0]
            .and(both[1])
            .and(Amounts::of([(Of::ComparedBytes, bytes as f64)]))
    };
    let from_device = |file| read::from_device(bytes, facts, file);
    let threads = method.options().threads().min(THREADS_THAT_COUNT);
    let in_memory = in_memory.times(1.0 / f64::from(threads));
    in_memory.and(from_device(0)).and(from_device(1))
}

/// The method, the method if that is unavailable, and the reason.
fn chosen(request: &Task, facts: &Facts) -> (Method, Method, Reason) {
    let plain = usual(Operation::Compare);
    let data_bytes = data_bytes(request, facts);
    if data_bytes < SMALL_BYTES {
        let operation = Operation::Read;
        return (plain, plain, Reason::Little { operation });
    }
    let threads = if data_bytes < THREADED_BYTES {
        1
    } else {
        facts.process.processors.clamp(1, THREADS_MAX)
    };
    let resident = facts.files.map(|file| file.resident_part());
    if resident.iter().all(|&part| part >= WARM_PART) {
        let read = with_threads("compare/sync,block=1M", threads);
        let has_holes = facts.files.iter().any(FileFacts::is_sparse);
        let can_map = facts.process.can_map;
        let reason = Reason::BothCached { has_holes, can_map };
        if has_holes || !can_map {
            return (read, plain, reason);
        }
        return (with_threads("compare/mmap,block=8M", threads), read, reason);
    }
    // Through the page cache: in measurements, its read-ahead made larger requests than direct reads.
    let through_cache = with_threads("compare/sync,block=1M", threads.min(2));
    let is_cold = resident.iter().all(|&part| part <= COLD_PART);
    let (method, reason) = match (is_one_device(facts), facts.seeks) {
        (true, Some(seeks)) if seeks.moves_head() => (
            method("compare/sync,block=1M,window=32M"),
            Reason::Alternating { times: seeks.ratio() },
        ),
        _ if !is_cold => (through_cache, Reason::PartlyCached { files: 2 }),
        (true, Some(seeks)) => {
            let times = Some(seeks.ratio());
            (through_cache, Reason::NeitherCached { times })
        }
        (true, None) => (method("compare/sync,block=4M"), Reason::NeitherCached { times: None }),
        (false, _) => (method("compare/sync,block=1M,order=parallel"), Reason::TwoDevices),
    };
    (method, plain, reason)
}

fn with_threads(text: &str, threads: usize) -> Method {
    if threads > 1 {
        method(&format!("{text},threads={threads}"))
    } else {
        method(text)
    }
}
