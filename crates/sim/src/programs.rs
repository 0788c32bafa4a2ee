//! The requests of the programs whose times were published, and what they take on a model.
//!
//! A list is what reached the disk, as far as that is known: Linux asks for the next window of its read-ahead when a program
//! touches the current one; Windows wrote pages of 4K. Files lie one behind the other. Since a figure depends on how two places of
//! the disk lie on their tracks, it is the mean over several [places](PLACES).

use crate::models::{DiskModel, ProgramRequests, PublishedFigure};
use crate::replay::{ReplayStep, replay};
use crate::request::{BlockRequest, RequestKind};

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
    pub fn steps(&self, place: u64) -> (Vec<ReplayStep>, u64) {
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
fn read_ahead(
    visits: impl Iterator<Item = (usize, u64)>,
    files: [u64; 2],
    bytes: u64,
    window_ns: u64,
) -> Vec<ReplayStep> {
    let mut steps = Vec::new();
    let mut newest = [None; 2];
    let mut processor_ns = 0;
    for (file, window) in visits {
        for window in if window == 0 { 0..2 } else { window + 1..window + 2 } {
            let at = window * WINDOW_BYTES;
            if at < bytes {
                let request = BlockRequest::new(
                    RequestKind::Read,
                    files[file] + at,
                    WINDOW_BYTES.min((bytes - at).next_multiple_of(PAGE_BYTES)),
                );
                // A first window, too, is asked for only when what was read before it is there.
                let after = newest[file].or(steps.len().checked_sub(1));
                newest[file] = Some(steps.len());
                steps.push(ReplayStep {
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
fn one_by_one(writes: impl Iterator<Item = (u64, u64)>) -> Vec<ReplayStep> {
    let step = |(index, (at, length_bytes)): (usize, (u64, u64))| ReplayStep {
        request: BlockRequest::new(RequestKind::Write, FILES_AT + at, length_bytes),
        after: [index.checked_sub(1), None],
        pause_ns: 0,
        since_previous_ns: None,
    };
    writes.enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use crate::models::MODELS;

    #[test]
    fn models_reproduce_what_was_published_or_say_why_not() {
        let mut wrong = Vec::new();
        for (model, publication) in MODELS
            .iter()
            .flat_map(|model| model.published.iter().map(move |published| (model, published)))
        {
            // In the short run, one of four.
            let is_long = std::env::var_os("SEEKLESS_TEST_LONG").is_some();
            for figure in publication.figures.iter().step_by(if is_long { 1 } else { 4 }) {
                let simulated = figure.simulated_seconds(model);
                let ratio = simulated / figure.seconds;
                if ((ratio - 1.0).abs() <= publication.within) != figure.not_reproduced.is_none() {
                    wrong.push((model.name, &figure.program, figure.seconds, simulated));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
