//! Whether two runs can be compared: one machine, one file system, one kind of device, and something measured in both.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;

use seekless_record::{Contest, Machine, Run, Storage, is_same_memory};

use crate::kind::DeviceKind;
use crate::labels::{description, title};

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the runs have no contest in common: the first has {}; the second has {}",
    list(only_first),
    list(only_second)
)]
pub struct NotComparable {
    /// What only the first measured.
    pub only_first: Vec<String>,
    /// What only the second measured.
    pub only_second: Vec<String>,
}

fn list(titles: &[String]) -> String {
    if titles.is_empty() {
        "none".to_owned()
    } else {
        titles.join("; ")
    }
}

/// Objections to comparing two runs: another machine, file system or device. Empty if there are none.
#[must_use]
pub fn objections(first: &Run, second: &Run) -> Vec<String> {
    let revision = |run: &Run| {
        let revision = run.revision?;
        Some(format!(
            "trials {}, mechanisms {}",
            revision.protocol, revision.mechanisms
        ))
    };
    let mut objections = machines(&first.machine, &second.machine);
    objections.push(another("revision", revision(first), revision(second)));
    for (one, other) in first.storages.iter().zip(storage_pairs(first, second)) {
        objections.extend(
            other
                .into_iter()
                .flat_map(|other| storages(one, &second.storages[other])),
        );
    }
    objections.into_iter().flatten().collect()
}

/// A fingerprint of the measurements, which is the same for a run and its anonymous form.
#[must_use]
pub fn fingerprint(run: &Run) -> u32 {
    // The same in all versions and on all machines.
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&run.seed.to_le_bytes());
    for trial in &run.trials {
        hasher.update(&trial.seconds.to_le_bytes());
        hasher.update(&trial.at_seconds.to_le_bytes());
    }
    hasher.finalize()
}

/// An objection, if a property is known for both runs and differs. Anonymous runs have fewer properties.
fn another<T: PartialEq + fmt::Display>(what: &str, first: Option<T>, second: Option<T>) -> Option<String> {
    let (first, second) = first.zip(second)?;
    (first != second).then(|| format!("another {what} ({first}; {second})"))
}

fn machines(first: &Machine, second: &Machine) -> Vec<Option<String>> {
    let memory = first.memory_bytes.zip(second.memory_bytes);
    let memory = memory.filter(|&(one, other)| !is_same_memory(one, other));
    let sizes = |(one, other): (u64, u64)| format!("another size of memory ({} MiB; {} MiB)", one >> 20, other >> 20);
    vec![
        another("host", first.host.as_ref(), second.host.as_ref()),
        another("processor", first.processor.as_ref(), second.processor.as_ref()),
        another("system", Some(&first.system), Some(&second.system)),
        another("architecture", Some(&first.architecture), Some(&second.architecture)),
        another("number of processors", Some(first.processors), Some(second.processors)),
        memory.map(sizes),
    ]
}

/// Whether no known property of two machines differs.
pub(crate) fn is_same_machine(first: &Machine, second: &Machine) -> bool {
    machines(first, second).iter().all(Option::is_none)
}

fn storages(first: &Storage, second: &Storage) -> [Option<String>; 3] {
    let [kind, other_kind] = [first, second].map(|storage| Some(DeviceKind::of(storage)));
    let [model, other_model] = [first, second].map(|storage| storage.device.as_ref()?.model.as_ref());
    [
        another("file system", Some(&first.file_system), Some(&second.file_system)),
        another("kind of device", kind, other_kind),
        another("model of device", model, other_model),
    ]
}

/// For each storage of the first run, the storage of the second to compare it with: the only one, the one with the same
/// path, or, if no path is the same, the one with the same index.
pub(crate) fn storage_pairs(first: &Run, second: &Run) -> Vec<Option<usize>> {
    let (one, other) = (&first.storages, &second.storages);
    if one.len() == 1 && other.len() == 1 {
        return vec![Some(0)];
    }
    let mut by_path = HashMap::new();
    for (index, storage) in other.iter().enumerate() {
        by_path.entry(storage.path.as_str()).or_insert(index);
    }
    let pairs: Vec<Option<usize>> = one
        .iter()
        .map(|storage| by_path.get(storage.path.as_str()).copied())
        .collect();
    if pairs.iter().all(Option::is_none) {
        return (0..one.len())
            .map(|index| (index < other.len()).then_some(index))
            .collect();
    }
    pairs
}

/// The subject of a contest on a storage.
pub(crate) fn subject(storage: usize, contest: &Contest) -> impl Eq + Hash {
    (
        storage,
        contest.shared_blocks,
        contest.holes_skipped,
        description(contest),
    )
}

/// The indices of contests that measured the same, and the titles of those that only one run has.
pub(crate) fn contest_pairs(first: &Run, second: &Run) -> (Vec<(usize, usize)>, NotComparable) {
    let storages = storage_pairs(first, second);
    let mut left: HashMap<_, VecDeque<usize>> = HashMap::new();
    for (index, contest) in second.contests.iter().enumerate() {
        left.entry(subject(contest.storage, contest))
            .or_default()
            .push_back(index);
    }
    let mut pairs = Vec::new();
    let mut only_first = Vec::new();
    for (index, contest) in first.contests.iter().enumerate() {
        let storage = storages.get(contest.storage).copied().flatten();
        let same = storage.and_then(|storage| left.get_mut(&subject(storage, contest))?.pop_front());
        match same {
            Some(other) => pairs.push((index, other)),
            None => only_first.push(title(contest)),
        }
    }
    let mut left: Vec<usize> = left.into_values().flatten().collect();
    left.sort_unstable();
    let only_second = left.into_iter().map(|index| title(&second.contests[index])).collect();
    (
        pairs,
        NotComparable {
            only_first,
            only_second,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymous::{NOTHING_KNOWN, anonymous};
    use crate::simulation::{self, FULL};

    fn run() -> Run {
        seekless_record::from_json(FULL.as_bytes()).unwrap()
    }

    #[test]
    fn one_machine_under_two_kernels_is_one_machine() {
        let mut other = run();
        other.machine.kernel = "7.0.1".to_owned();
        other.machine.memory_bytes = other.machine.memory_bytes.map(|bytes| bytes - (100 << 20));
        assert_eq!(objections(&run(), &other), Vec::<String>::new());
        let found = objections(&run(), &anonymous(&other, &NOTHING_KNOWN));
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn another_machine_file_system_or_device_is_named() {
        let mut other = run();
        other.machine.host = Some("elsewhere".to_owned());
        other.machine.processors += 2;
        other.machine.memory_bytes = Some(1 << 30);
        other.storages[0].file_system = "xfs".to_owned();
        other.revision.as_mut().unwrap().mechanisms += 1;
        other.storages[0].device.as_mut().unwrap().below = vec!["sda".to_owned()];
        let objections = objections(&run(), &other).join("\n");
        for word in [
            "host",
            "number of processors",
            "memory",
            "revision (trials 1, mechanisms 1; trials 1, mechanisms 2)",
            "file system (ext4; xfs)",
            "kind of device",
        ] {
            assert!(objections.contains(word), "{word}: {objections}");
        }
    }

    #[test]
    fn storages_are_paired_by_path_and_else_by_place() {
        let with = |paths: &[&str]| {
            let storages = paths.iter().map(|path| Storage {
                path: (*path).to_owned(),
                ..Storage::default()
            });
            Run {
                storages: storages.collect(),
                ..simulation::run(&[], 0)
            }
        };
        let pairs = |one: &[&str], other: &[&str]| storage_pairs(&with(one), &with(other));
        assert_eq!(pairs(&["a"], &["b"]), [Some(0)]);
        assert_eq!(pairs(&["a", "b"], &["b", "a"]), [Some(1), Some(0)]);
        assert_eq!(pairs(&["a", "b"], &["b"]), [None, Some(0)]);
        assert_eq!(pairs(&["a", "b", "c"], &["d", "e"]), [Some(0), Some(1), None]);
    }

    #[test]
    fn contests_of_another_size_are_not_compared() {
        let mut other = run();
        other.contests[0].size_bytes *= 2;
        let (pairs, rest) = contest_pairs(&run(), &other);
        assert_eq!(pairs, [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]);
        assert!(rest.only_first[0].contains("64 MiB") && rest.only_second[0].contains("128 MiB"));
    }
}
