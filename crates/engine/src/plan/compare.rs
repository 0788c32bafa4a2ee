//! How two files are best compared.

use seekless_method::Method;

use super::Plan;
use crate::facts::{FileFacts, Seeks};

/// What a plan for comparing rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareFacts {
    /// Bytes to be compared of each.
    pub bytes: u64,
    /// What the files are like.
    pub files: [FileFacts; 2],
    /// What reading the two in turn costs; `None` where it was not measured.
    pub seeks: Option<Seeks>,
    /// Whether files may be mapped in this process.
    pub can_map: bool,
    /// Threads that run at once.
    pub processors: usize,
}

impl CompareFacts {
    /// Bytes to be compared of each, less those for which neither file has blocks.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let [one, other] = self.files;
        self.bytes.min(one.allocated_bytes.max(other.allocated_bytes))
    }

    /// Whether both are on one file system.
    #[must_use]
    pub fn is_one_device(&self) -> bool {
        self.files[0].device == self.files[1].device
    }

    /// Whether what reading the two in turn costs decides, and measuring it takes less than it can save.
    #[must_use]
    pub fn depends_on_seeks(&self) -> bool {
        let is_cold = |file: FileFacts| file.resident.is_some_and(|part| part < 0.5);
        self.data_bytes() >= MEASURED_FROM_BYTES && self.is_one_device() && self.files.into_iter().all(is_cold)
    }
}

/// Files shorter than this are not measured: that would take longer than it can save.
const MEASURED_FROM_BYTES: u64 = 16 << 20;
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
    if facts.data_bytes() < SMALL_BYTES {
        return plan(plain, plain, "there is little to read".to_owned());
    }
    let threads = facts.processors.clamp(1, THREADS_MAX);
    let threads = if facts.data_bytes() < THREADED_BYTES {
        1
    } else {
        threads
    };
    let resident = facts.files.map(|file| file.resident.unwrap_or(0.5));
    if resident.iter().all(|&part| part >= WARM_PART) {
        let read = with_threads("compare/sync,block=1M", threads);
        if facts.files.iter().any(FileFacts::is_sparse) {
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
    match (facts.is_one_device(), facts.seeks.map(|seeks| seeks.ratio())) {
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
    use std::time::Duration;

    use super::*;

    const COLD: FileFacts = FileFacts {
        bytes: 1 << 30,
        allocated_bytes: 1 << 30,
        device: 1,
        resident: Some(0.0),
    };
    const FACTS: CompareFacts = CompareFacts {
        bytes: 1 << 30,
        files: [COLD; 2],
        seeks: Some(seeks(1)),
        can_map: true,
        processors: 2,
    };

    const fn seeks(ratio: u64) -> Seeks {
        Seeks {
            in_a_row: Duration::from_millis(1),
            apart: Duration::from_millis(ratio),
        }
    }

    #[test]
    fn the_plan_follows_from_the_facts() {
        let file = |resident| FileFacts { resident, ..COLD };
        let sparse = FileFacts {
            allocated_bytes: 1 << 29,
            ..file(Some(1.0))
        };
        let with = |files| CompareFacts { files, ..FACTS };
        let warm = with([file(Some(1.0)), file(Some(0.95))]);
        let other_device = FileFacts { device: 2, ..COLD };
        let threads = "compare/sync,threads=2,block=1M";
        let table = [
            (
                "small",
                CompareFacts { bytes: 1000, ..FACTS },
                "compare/sync,block=128K",
            ),
            ("warm", warm, "compare/mmap,threads=2,block=8M"),
            (
                "one processor",
                CompareFacts { processors: 1, ..warm },
                "compare/mmap,block=8M",
            ),
            ("no maps", CompareFacts { can_map: false, ..warm }, threads),
            ("cold", FACTS, threads),
            (
                "seeking",
                CompareFacts {
                    seeks: Some(seeks(9)),
                    ..FACTS
                },
                "compare/sync,block=1M,window=32M",
            ),
            (
                "unmeasured",
                CompareFacts { seeks: None, ..FACTS },
                "compare/sync,block=4M",
            ),
            (
                "two devices",
                with([COLD, other_device]),
                "compare/sync,block=1M,order=parallel",
            ),
            ("half", with([file(Some(1.0)), COLD]), threads),
            ("unknown", with([file(None); 2]), threads),
            ("sparse", with([sparse, file(Some(1.0))]), threads),
        ];
        for (name, facts, method) in table {
            assert_eq!(compare(&facts).method.to_string(), method, "{name}");
        }
    }

    #[test]
    fn only_large_cold_files_of_one_device_are_measured() {
        let with = |files| CompareFacts { files, ..FACTS };
        let warm = FileFacts {
            resident: Some(1.0),
            ..COLD
        };
        let elsewhere = FileFacts { device: 2, ..COLD };
        assert!(FACTS.depends_on_seeks());
        for facts in [
            with([warm; 2]),
            with([COLD, elsewhere]),
            CompareFacts {
                bytes: 15 << 20,
                ..FACTS
            },
        ] {
            assert!(!facts.depends_on_seeks(), "{facts:?}");
        }
    }
}
