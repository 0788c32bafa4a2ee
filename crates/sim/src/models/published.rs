//! What was published about a disk, as its file has it.

use serde::Deserialize;

/// What was published about one disk.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Title, author and year.
    pub source: String,
    /// The machine.
    pub machine: String,
    /// How far the model's figures may be off, as a fraction.
    pub within: f64,
    /// The figures.
    pub figures: Vec<PublishedFigure>,
}

/// How long a program took.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// The name of the program, or of the column.
    pub program: String,
    /// How long it took.
    pub seconds: f64,
    /// What it asked of the disk.
    pub requests: ProgramRequests,
    /// Why the model does not reproduce it.
    pub not_reproduced: Option<String>,
}

/// What a program asks of the disk.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ProgramRequests {
    /// Two files of 100,000,000 bytes are read, a block of each in turn.
    Compare {
        /// The block.
        block_bytes: u64,
        /// What the processor does for a byte of both, in ns for 1,024 bytes.
        #[serde(default)]
        processor_ns_per_kib: u64,
        /// What the processor does for a byte of both afterwards, from memory, likewise.
        #[serde(default)]
        from_memory_ns_per_kib: u64,
    },
    /// One file is read from its start.
    Read {
        /// Its size.
        bytes: u64,
    },
    /// A file is written from its start, each write waiting for the one before.
    Overwrite {
        /// Its size.
        bytes: u64,
        /// The write.
        block_bytes: u64,
    },
    /// Pages of 4K are written through, one for each hundredth integer of a file.
    Update {
        /// The size of the file.
        bytes: u64,
        /// Whether the places are drawn, with repetitions, from the first quarter of the file, instead of ascending.
        random: bool,
    },
}
