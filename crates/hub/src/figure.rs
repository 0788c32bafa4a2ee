//! What is searched of a run: a row for each method of each of its contests.

use seekless_record::{Contest, Run};
use seekless_results::Place as Ranked;
use serde::{Deserialize, Serialize};

/// What a method was measured on, and under which conditions: methods are ranked within it only. Words are those of the run's document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The kind of storage.
    pub kind: String,
    /// The model of the device; empty if unknown.
    pub model: String,
    /// The file system.
    pub file_system: String,
    /// The system and its version, as in `Linux 6.18`.
    pub kernel: String,
    /// What was done with the files.
    pub operation: String,
    /// The cache state.
    pub cache: String,
    /// The target of writes and copies.
    pub target: String,
    /// What is on the device at the end.
    pub durability: String,
    /// Everything else that makes it another task; empty for the usual one.
    pub work: String,
    /// The size of a file, in bytes.
    pub size_bytes: i64,
    /// The revision of the trials and of the mechanisms, as in `1.2`.
    pub revision: String,
}

/// A method in a contest of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The index of the contest in the run.
    pub contest: usize,
    /// What it was measured on.
    pub place: Place,
    /// The method.
    pub method: String,
    /// Its time over that of the best.
    pub ratio: f64,
    /// Whether it is the best.
    pub is_best: bool,
    /// The median time of one file, in seconds.
    pub seconds: f64,
}

impl Place {
    /// A number for it: of its digest.
    pub fn number(&self) -> i64 {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let bytes = blake3::hash(&text);
        let first: [u8; 8] = std::array::from_fn(|at| bytes.as_bytes()[at]);
        i64::from_le_bytes(first) & i64::MAX
    }

    /// Its words, in the order in which a filter names them.
    pub fn words(&self) -> [&str; 10] {
        [
            &self.kind,
            &self.model,
            &self.file_system,
            &self.kernel,
            &self.operation,
            &self.cache,
            &self.target,
            &self.durability,
            &self.work,
            &self.revision,
        ]
    }

    /// That of a contest.
    pub(crate) fn of(ranked: &Ranked, run: &Run, contest: &Contest, revision: &str) -> Self {
        let storage = &run.storages[contest.storage];
        let model = storage.device.as_ref().and_then(|device| device.model.clone());
        let in_words = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let shared = if ranked.shared_blocks { ", shared blocks" } else { "" };
        let work = format!("{}{}{shared}", ranked.work, ranked.pair);
        Self {
            kind: ranked.device.slug().to_owned(),
            model: model.unwrap_or_default(),
            file_system: ranked.file_system.clone(),
            kernel: ranked.kernel.clone(),
            operation: ranked.operation.name().to_owned(),
            cache: in_words(serde_json::json!(ranked.cache)),
            target: in_words(serde_json::json!(ranked.target)),
            durability: in_words(serde_json::json!(ranked.durability)),
            work: work.replace(", 0 ns/KiB", ""),
            size_bytes: i64::try_from(contest.size_bytes).unwrap_or(i64::MAX),
            revision: revision.to_owned(),
        }
    }
}
