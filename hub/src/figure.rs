//! What is searched of a run: a row for each method of each of its contests, and where it was measured.

use std::ops;

use seekless_record::{Contest, Run};
use seekless_results::Place as Ranked;
use sqlx::FromRow;

/// The words of a place, as tables, filters and dumps call them, each with what it says.
pub const WORDS: [(&str, &str); 10] = [
    ("kind", "The kind of storage, as in `nvme`"),
    ("operation", "`read`, `write`, `copy`, `compare`, `update` or `scan`"),
    ("cache", "The cache state"),
    ("target", "The target of writes and copies"),
    ("durability", "What is on the device at the end"),
    ("work", "What else makes it another task; empty for the usual one"),
    ("model", "The model of the device"),
    ("file_system", "The file system"),
    ("kernel", "The system and its version, as in `Linux 6.18`"),
    (
        "revision",
        "The revision of trials and methods, as in `1.2`; the newest that three machines measured if it is not given",
    ),
];

/// One of [`WORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The kind of storage. From here to `Work` it is the task.
    Kind,
    /// What was done with the files.
    Operation,
    /// The cache state.
    Cache,
    /// The target of writes and copies.
    Target,
    /// What is on the device at the end.
    Durability,
    /// What else makes it another task.
    Work,
    /// The model of the device.
    Model,
    /// The file system.
    FileSystem,
    /// The system and its version.
    Kernel,
    /// The revision of trials and methods.
    Revision,
}

/// What a method was measured on, and under which conditions: methods are ranked within it only. Words are those of the run's document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its words; unknown ones are empty.
    pub words: [String; WORDS.len()],
    /// The size of a file, in bytes.
    pub size_bytes: i64,
}

/// A method in a contest of a run.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Figure {
    /// The sequence of the run; 0 until it is stored.
    pub run: i64,
    /// The index of the contest in the run.
    pub contest: i64,
    /// The number of what it was measured on.
    pub place: i64,
    /// The method.
    pub method: String,
    /// Its time over that of the best.
    pub ratio: f64,
    /// Whether it is the best, as 1 or 0.
    pub is_best: i64,
    /// The median time of one file, in seconds.
    pub seconds: f64,
}

impl ops::Index<Word> for Place {
    type Output = String;

    fn index(&self, word: Word) -> &String {
        &self.words[word as usize]
    }
}

impl Place {
    /// A number for it: of its digest.
    pub fn number(&self) -> i64 {
        let text = serde_json::to_vec(&(&self.words, self.size_bytes)).unwrap_or_default();
        let bytes = blake3::hash(&text);
        let first: [u8; 8] = std::array::from_fn(|at| bytes.as_bytes()[at]);
        i64::from_le_bytes(first) & i64::MAX
    }

    /// The size of a file, in bytes.
    pub fn size(&self) -> u64 {
        self.size_bytes.unsigned_abs()
    }

    /// That of a contest.
    pub(crate) fn of(ranked: &Ranked, run: &Run, contest: &Contest, revision: &str) -> Self {
        let storage = &run.storages[contest.storage];
        let model = storage.device.as_ref().and_then(|device| device.model.clone());
        let in_words = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let shared = if ranked.shared_blocks { ", shared blocks" } else { "" };
        let work = format!("{}{}{shared}", ranked.work, ranked.pair);
        let words = [
            ranked.device.slug().to_owned(),
            ranked.operation.name().to_owned(),
            in_words(serde_json::json!(ranked.cache)),
            in_words(serde_json::json!(ranked.target)),
            in_words(serde_json::json!(ranked.durability)),
            work.replace(", 0 ns/KiB", ""),
            model.unwrap_or_default(),
            ranked.file_system.clone(),
            ranked.kernel.clone(),
            revision.to_owned(),
        ];
        let size_bytes = i64::try_from(contest.size_bytes).unwrap_or(i64::MAX);
        Self { words, size_bytes }
    }
}
