//! The published figures that models must reproduce, and the lists of requests of the programs behind them.
//!
//! A list is what reached the disk, as far as that is known: Linux asks for the next window of its read-ahead when a program
//! touches the current one; Windows wrote pages of 4K. Files lie one behind the other. Since a figure depends on how two places of
//! the disk lie on their tracks, it is the mean over several [places](PLACES).

use crate::models::DiskModel;
use crate::replay::{Step, replay};
use crate::request::{BlockRequest, RequestKind};

/// What was published about one disk.
#[derive(Debug)]
pub struct Publication {
    /// The model of that disk.
    pub model: &'static str,
    /// Title, author and year.
    pub source: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// How far the model's figures may be off, as a fraction.
    pub within: f64,
    /// The figures.
    pub figures: &'static [PublishedFigure],
}

/// How long a program took.
#[derive(Debug)]
pub struct PublishedFigure {
    /// The name of the program, or of the column.
    pub program: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// What it asked of the disk.
    pub requests: ProgramRequests,
    /// Why the model does not reproduce it.
    pub not_reproduced: Option<&'static str>,
}

/// What a program asks of the disk.
#[derive(Debug)]
pub enum ProgramRequests {
    /// Two files of 100,000,000 bytes are read, a block of each in turn.
    Compare {
        /// The block.
        block_bytes: u64,
        /// What the processor does for a byte of both, in ns for 1,024 bytes.
        processor_ns_per_kib: u64,
        /// What the processor does for a byte of both afterwards, from memory, likewise.
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

/// How many places on the disk a figure is the mean of.
pub const PLACES: u64 = 9;

/// The size of a file of the 2009 document.
const COMPARED_BYTES: u64 = 100_000_000;
/// The read-ahead window of Linux.
const WINDOW_BYTES: u64 = 128 << 10;
const PAGE_BYTES: u64 = 4096;
/// Where the files begin.
const FILES_AT: u64 = 1 << 30;

impl PublishedFigure {
    /// How long the program's requests take on this model, in seconds.
    #[must_use]
    pub fn simulated_seconds(&self, model: &'static DiskModel) -> f64 {
        let total_ns = |place: u64| {
            let (steps, rest_ns) = self.requests.steps(place);
            replay(model, 0, place, &steps).total_ns + rest_ns
        };
        (0..PLACES).map(total_ns).sum::<u64>() as f64 / PLACES as f64 / 1e9
    }
}

impl ProgramRequests {
    /// The list, with the second file at one of several places, and what the processor does afterwards.
    #[must_use]
    pub fn steps(&self, place: u64) -> (Vec<Step>, u64) {
        match *self {
            Self::Compare {
                block_bytes,
                processor_ns_per_kib,
                from_memory_ns_per_kib,
            } => {
                let second = (FILES_AT + COMPARED_BYTES).next_multiple_of(PAGE_BYTES) + place * (60 << 10);
                let windows = COMPARED_BYTES.div_ceil(WINDOW_BYTES);
                let windows_of_block = block_bytes.div_ceil(WINDOW_BYTES);
                let visits = (0..windows).step_by(windows_of_block as usize).flat_map(|first| {
                    let block = first..windows.min(first + windows_of_block);
                    block
                        .clone()
                        .map(|window| (0, window))
                        .chain(block.map(|window| (1, window)))
                });
                let window_ns = processor_ns_per_kib * (WINDOW_BYTES >> 10) / 2;
                let steps = read_ahead(visits, [FILES_AT, second], COMPARED_BYTES, window_ns);
                (steps, window_ns + from_memory_ns_per_kib * (COMPARED_BYTES >> 10))
            }
            Self::Read { bytes } => {
                let visits = (0..bytes.div_ceil(WINDOW_BYTES)).map(|window| (0, window));
                (read_ahead(visits, [FILES_AT; 2], bytes, 0), 0)
            }
            Self::Overwrite { bytes, block_bytes } => {
                let blocks = (0..bytes).step_by(block_bytes as usize);
                (one_by_one(blocks.map(|at| (at, block_bytes.min(bytes - at)))), 0)
            }
            Self::Update { bytes, random } => {
                let mut draw = fastrand::Rng::with_seed(place);
                let places = (0..bytes)
                    .step_by(400)
                    .map(|at| if random { draw.u64(..bytes / 4) } else { at });
                (
                    one_by_one(places.map(|at| (at / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES))),
                    0,
                )
            }
        }
    }
}

/// Windows of two files, as `visits` needs them: whoever touches one asks for the one behind it.
fn read_ahead(visits: impl Iterator<Item = (usize, u64)>, files: [u64; 2], bytes: u64, window_ns: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut newest = [None; 2];
    let mut processor_ns = 0;
    for (file, window) in visits {
        for window in if window == 0 { 0..2 } else { window + 1..window + 2 } {
            let at = window * WINDOW_BYTES;
            if at < bytes {
                let request = BlockRequest {
                    kind: RequestKind::Read,
                    offset_bytes: files[file] + at,
                    length_bytes: WINDOW_BYTES.min((bytes - at).next_multiple_of(PAGE_BYTES)),
                };
                // A first window, too, is asked for only when what was read before it is there.
                let after = newest[file].or(steps.len().checked_sub(1));
                newest[file] = Some(steps.len());
                steps.push(Step {
                    request,
                    after: [after, None],
                    pause_ns: 0,
                    since_previous_ns: Some(processor_ns),
                });
                processor_ns = 0;
            }
        }
        processor_ns += window_ns;
    }
    steps
}

/// Writes, each after the one before it.
fn one_by_one(writes: impl Iterator<Item = (u64, u64)>) -> Vec<Step> {
    let step = |(index, (at, length_bytes)): (usize, (u64, u64))| Step {
        request: BlockRequest {
            kind: RequestKind::Write,
            offset_bytes: FILES_AT + at,
            length_bytes,
        },
        after: [index.checked_sub(1), None],
        pause_ns: 0,
        since_previous_ns: None,
    };
    writes.enumerate().map(step).collect()
}

const PRELOADING: &str =
    "Surprising performance when reading files: Cache pre-loading (Thomas Padron-McCarthy, 2009 and 2016)";
const SAVING: &str = "Some observations on saving to file (Ayende, 2008)";
const SPARSE: &str = "sparse file performance (Andy Isaacson, linux-kernel, 2003)";

const fn compare(block_bytes: u64) -> ProgramRequests {
    ProgramRequests::Compare {
        block_bytes,
        processor_ns_per_kib: 0,
        from_memory_ns_per_kib: 0,
    }
}

const fn figure(program: &'static str, seconds: f64, requests: ProgramRequests) -> PublishedFigure {
    PublishedFigure {
        program,
        seconds,
        requests,
        not_reproduced: None,
    }
}

impl PublishedFigure {
    const fn not_reproduced(self, reason: &'static str) -> Self {
        Self {
            not_reproduced: Some(reason),
            ..self
        }
    }
}

/// What the processor of 2016 takes for 1,024 bytes of both files: from the document's column for its SSD, of which it waits little.
const GETC_2016_NS: u64 = 11_500;
const UNLOCKED_2016_NS: u64 = 5_000;

/// All figures.
pub const PUBLICATIONS: &[Publication] = &[
    Publication {
        model: "hdd-2003",
        source: SPARSE,
        machine: "an IDE disk in an Athlon XP 2400+; 1 GB at 40 MB/s",
        within: 0.15,
        figures: &[figure("1 GB file", 25.0, ProgramRequests::Read { bytes: 1_000_000_000 })],
    },
    Publication {
        model: "hdd-2008",
        source: SAVING,
        machine: "a comment: Samsung 7200 rpm, Vista 32, a Core 2 of 2.66 GHz; 4 MB",
        within: 0.2,
        figures: &[
            figure("Initial write", 0.081, SAVED_4M),
            figure("Sequential Sparse Update Write", 5.583, SPARSE_4M),
            figure("Sequential Update Write", 0.083, SAVED_4M),
            figure("Random Update Write", 4.150, RANDOM_4M),
        ],
    },
    Publication {
        model: "hdd-2008",
        source: SAVING,
        machine: "the text: a machine that it does not name; 38 MB, and a buffer of 4K",
        within: 0.2,
        figures: &[
            figure("Sequential Update Write", 8.0, ProgramRequests::Overwrite { bytes: 40_000_000, block_bytes: 4096 })
                .not_reproduced(ANOTHER_MACHINE),
            figure("Sequential Sparse Update Write", 64.0, ProgramRequests::Update { bytes: 40_000_000, random: false })
                .not_reproduced(ANOTHER_MACHINE),
            figure("Random Update Write", 300.0, ProgramRequests::Update { bytes: 40_000_000, random: true })
                .not_reproduced(ANOTHER_MACHINE),
        ],
    },
    Publication {
        model: "raptor-2008",
        source: SAVING,
        machine: "a comment: WD Raptor 10,000 rpm in the same machine; 4 MB",
        within: 0.2,
        figures: &[
            figure("Initial write", 0.097, SAVED_4M),
            figure("Sequential Sparse Update Write", 1.683, SPARSE_4M),
            figure("Sequential Update Write", 0.099, SAVED_4M),
            figure("Random Update Write", 1.731, RANDOM_4M),
        ],
    },
    Publication {
        model: "thumb-2008",
        source: SAVING,
        machine: "a comment: a thumb drive at the same machine; 4 MB",
        within: 0.2,
        figures: &[
            figure("Initial write", 0.395, SAVED_4M),
            figure("Sequential Sparse Update Write", 10.699, SPARSE_4M),
            figure("Sequential Update Write", 0.293, SAVED_4M),
            figure("Random Update Write", 140.377, RANDOM_4M),
        ],
    },
    Publication {
        model: "ssd-2008",
        source: SAVING,
        machine: "a comment: Memoright SSD, Vista 32, a Core 2 laptop of 2.5 GHz; 4 MB",
        within: 0.2,
        figures: &[
            figure("Initial write", 0.197, SAVED_4M).not_reproduced(
                "the file is new, and overwriting it takes 0.117 s: what the file system writes for a new file is not known",
            ),
            figure("Sequential Sparse Update Write", 2.458, SPARSE_4M),
            figure("Sequential Update Write", 0.117, SAVED_4M),
            figure("Random Update Write", 2.117, RANDOM_4M),
        ],
    },
    Publication {
        model: "hdd-2009",
        source: PRELOADING,
        machine: "HDD 2009: a 3 GHz Pentium 4 with a SATA disk, ext3, Ubuntu 8.04",
        within: 0.15,
        figures: &[
            figure("simple-compare", 17.72, compare(4096)),
            figure("compare-with-extra-read", 9.64, compare(COMPARED_BYTES)).not_reproduced(
                "waits for the disk as long as block-compare-with-extra-read-4k; the rest is the processor: getc, twice for each byte",
            ),
            figure("block-compare-4k", 17.38, compare(4096)),
            figure("block-compare-with-extra-read-4k", 6.17, compare(COMPARED_BYTES)),
            figure("block-compare-1M", 7.48, compare(1 << 20)),
            figure("block-compare-with-extra-read-1M", 6.24, compare(COMPARED_BYTES)),
            figure("unlocked-compare", 17.50, compare(4096)),
            figure("block-compare-100M", 6.19, compare(COMPARED_BYTES)),
        ],
    },
    Publication {
        model: "ssd-2016",
        source: PRELOADING,
        machine: "SSD 2016: a Core i7 6850K with a Samsung 950 Pro",
        within: 0.15,
        figures: &[
            figure("simple-compare", 1.12, compare(4096)).not_reproduced(PROCESSOR),
            figure("compare-with-extra-read", 2.21, compare(COMPARED_BYTES)).not_reproduced(PROCESSOR),
            figure("block-compare-4k", 0.10, compare(4096)),
            figure("block-compare-with-extra-read-4k", 0.13, compare(COMPARED_BYTES)),
            figure("block-compare-1M", 0.16, compare(1 << 20)).not_reproduced(PROCESSOR),
            figure("block-compare-with-extra-read-1M", 0.16, compare(COMPARED_BYTES)).not_reproduced(PROCESSOR),
            figure("unlocked-compare", 0.49, compare(4096)).not_reproduced(PROCESSOR),
        ],
    },
    Publication {
        model: "hdd-2016",
        source: PRELOADING,
        machine: "HDD 2016: a Core i7 6850K with an HGST Ultrastar 7K4000",
        within: 0.15,
        figures: &[
            figure("simple-compare", 1.86, getc(4096, GETC_2016_NS, 0)).not_reproduced(
                "asks for the same blocks in the same order as block-compare-4k and unlocked-compare, which took 1 s longer",
            ),
            figure("compare-with-extra-read", 2.53, getc(COMPARED_BYTES, GETC_2016_NS, GETC_2016_NS)),
            figure("block-compare-4k", 2.81, compare(4096)),
            figure("block-compare-with-extra-read-4k", 1.45, compare(COMPARED_BYTES)),
            figure("block-compare-1M", 2.34, compare(1 << 20)),
            figure("block-compare-with-extra-read-1M", 1.47, compare(COMPARED_BYTES)),
            figure("unlocked-compare", 2.76, getc(4096, UNLOCKED_2016_NS, 0)),
        ],
    },
];

const SAVED_4M: ProgramRequests = ProgramRequests::Overwrite {
    bytes: 4_000_000,
    block_bytes: 1 << 20,
};
const SPARSE_4M: ProgramRequests = ProgramRequests::Update {
    bytes: 4_000_000,
    random: false,
};
const RANDOM_4M: ProgramRequests = ProgramRequests::Update {
    bytes: 4_000_000,
    random: true,
};
const ANOTHER_MACHINE: &str = "another disk, whose kind is not known; beside the disk of the comments";
const PROCESSOR: &str = "the processor takes most of it, or the rest: copying and comparing, which is not simulated";

const fn getc(block_bytes: u64, processor_ns_per_kib: u64, from_memory_ns_per_kib: u64) -> ProgramRequests {
    ProgramRequests::Compare {
        block_bytes,
        processor_ns_per_kib,
        from_memory_ns_per_kib,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_reproduce_what_was_published_but_for_the_rows_that_say_why_not() {
        let mut wrong = Vec::new();
        for publication in PUBLICATIONS {
            let Some(model) = DiskModel::named(publication.model) else {
                println!("no {}", publication.model);
                continue;
            };
            for figure in publication.figures {
                let simulated = figure.simulated_seconds(model);
                let ratio = simulated / figure.seconds;
                println!(
                    "{:12} {:34} {:9.3} {simulated:9.3} {ratio:6.3}",
                    model.name, figure.program, figure.seconds
                );
                if ((ratio - 1.0).abs() <= publication.within) != figure.not_reproduced.is_none() {
                    wrong.push((model.name, figure.program, figure.seconds, simulated));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
