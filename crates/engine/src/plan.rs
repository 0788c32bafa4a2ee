//! Which method is to be used: pure functions from what is known to a plan. No I/O here; what is known is found out by
//! `compare::facts`.
//!
//! One rule for each operation, until what was measured on the storage decides.

use crate::compare::CompareFacts;
use seekless_method::Method;

/// A method, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The method to use.
    pub method: Method,
    /// What is to be used where that one turns out not to be available.
    pub otherwise: Method,
    /// Why, for people.
    pub why: String,
}

/// Less than this is read in one go: nothing else pays.
const SMALL_BYTES: u64 = 1 << 20;
/// Less than this is compared by one thread: making others costs more.
const THREADED_BYTES: u64 = 8 << 20;
/// From here on a file counts as being in the page cache.
const WARM_PART: f64 = 0.9;
/// Up to here it does not.
const COLD_PART: f64 = 0.1;
/// Reading two files in turn must cost so many times as much as one after the other to be avoided.
const ALTERNATING_COSTS: f64 = 2.0;
/// Two threads are enough for memory; more only wait for each other.
const THREADS_MAX: usize = 4;

/// The plan for comparing two files or parts of them.
#[must_use]
pub fn compare(facts: &CompareFacts) -> Plan {
    let plain = "compare/sync,block=128K";
    if facts.data_bytes < SMALL_BYTES {
        return plan(plain, plain, "there is little to read".to_owned());
    }
    let threads = facts.processors.clamp(1, THREADS_MAX);
    let threads = if facts.data_bytes < THREADED_BYTES { 1 } else { threads };
    let resident = facts.resident.map(|part| part.unwrap_or(0.5));
    if resident.iter().all(|&part| part >= WARM_PART) {
        let read = with_threads("compare/sync,block=1M", threads);
        if facts.is_sparse {
            let why = "both files are in the page cache and have holes: mapping each piece of data would take longer";
            return plan(&read, plain, why.to_owned());
        }
        if !facts.can_map {
            let why = "both files are in the page cache; maps are not allowed in this process";
            return plan(&read, plain, why.to_owned());
        }
        let mapped = with_threads("compare/mmap,block=8M", threads);
        let why = "both files are in the page cache, where maps in windows save a copy of the bytes";
        return plan(&mapped, &read, why.to_owned());
    }
    // Through the page cache, whose read-ahead asks for more at a time than direct reads did where both were measured.
    let through_cache = with_threads("compare/sync,block=1M", threads.min(2));
    let is_cold = resident.iter().all(|&part| part <= COLD_PART);
    match (facts.is_one_device, facts.alternating_ratio) {
        (true, Some(ratio)) if ratio >= ALTERNATING_COSTS => {
            let why = format!(
                "on this device reading two files in turn takes {ratio:.1} times as long as one after the other"
            );
            plan("compare/sync,block=1M,window=32M", plain, why)
        }
        _ if !is_cold => plan(
            &through_cache,
            plain,
            "the files are partly in the page cache".to_owned(),
        ),
        (true, Some(ratio)) => {
            let why = format!(
                "neither file is in the page cache, and reading the two in turn costs nothing here ({ratio:.1} times)"
            );
            plan(&through_cache, plain, why)
        }
        (true, None) => {
            let why = "neither file is in the page cache, and what reading two in turn costs was not measured: large blocks \
                       need few turns";
            plan("compare/sync,block=4M", plain, why.to_owned())
        }
        (false, _) => {
            let why = "neither file is in the page cache, and they are on two devices, which are read at once";
            plan("compare/sync,block=1M,order=parallel", plain, why.to_owned())
        }
    }
}

fn with_threads(method: &str, threads: usize) -> String {
    if threads > 1 {
        format!("{method},threads={threads}")
    } else {
        method.to_owned()
    }
}

fn plan(method: &str, otherwise: &str, why: String) -> Plan {
    let parse = |text: &str| {
        text.parse::<Method>()
            .unwrap_or_else(|error| panic!("a plan names a method that is none: {error}"))
    };
    Plan {
        method: parse(method),
        otherwise: parse(otherwise),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: CompareFacts = CompareFacts {
        data_bytes: 1 << 30,
        resident: [Some(0.0); 2],
        is_one_device: true,
        alternating_ratio: Some(1.0),
        is_sparse: false,
        can_map: true,
        processors: 2,
    };

    #[test]
    fn the_plan_follows_from_the_facts() {
        let warm = [Some(1.0), Some(0.95)];
        let table = [
            (
                "small",
                CompareFacts {
                    data_bytes: 1000,
                    ..FACTS
                },
                "compare/sync,block=128K",
            ),
            (
                "warm",
                CompareFacts {
                    resident: warm,
                    ..FACTS
                },
                "compare/mmap,threads=2,block=8M",
            ),
            (
                "one processor",
                CompareFacts {
                    resident: warm,
                    processors: 1,
                    ..FACTS
                },
                "compare/mmap,block=8M",
            ),
            (
                "no maps",
                CompareFacts {
                    resident: warm,
                    can_map: false,
                    ..FACTS
                },
                "compare/sync,threads=2,block=1M",
            ),
            ("cold", FACTS, "compare/sync,threads=2,block=1M"),
            (
                "seeking",
                CompareFacts {
                    alternating_ratio: Some(9.0),
                    ..FACTS
                },
                "compare/sync,block=1M,window=32M",
            ),
            (
                "unmeasured",
                CompareFacts {
                    alternating_ratio: None,
                    ..FACTS
                },
                "compare/sync,block=4M",
            ),
            (
                "two devices",
                CompareFacts {
                    alternating_ratio: None,
                    is_one_device: false,
                    ..FACTS
                },
                "compare/sync,block=1M,order=parallel",
            ),
            (
                "half",
                CompareFacts {
                    resident: [Some(1.0), Some(0.0)],
                    ..FACTS
                },
                "compare/sync,threads=2,block=1M",
            ),
            (
                "unknown",
                CompareFacts {
                    resident: [None; 2],
                    ..FACTS
                },
                "compare/sync,threads=2,block=1M",
            ),
            (
                "sparse",
                CompareFacts {
                    is_sparse: true,
                    resident: warm,
                    ..FACTS
                },
                "compare/sync,threads=2,block=1M",
            ),
        ];
        for (name, facts, method) in table {
            assert_eq!(compare(&facts).method.to_string(), method, "{name}");
        }
    }
}
