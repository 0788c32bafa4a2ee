//! How files of one size are read to find those that are equal: many side by side, unless the device must move a head between
//! them.

use super::BatchPlan;
use crate::facts::{ProcessFacts, SeekFacts};

/// How files of one size are read.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicatesPlan {
    /// How beginnings are read.
    pub batch: BatchPlan,
    /// If files are read in the order in which they lie on the device, and one group at a time: how many bytes at a time are fetched into
    /// the page cache first. Otherwise, they are read in the order of their inodes.
    pub window_bytes: Option<u64>,
    /// Whether threads take a group each.
    pub has_threads: bool,
    /// How much of a file is read before the next one's turn: at first, and at last.
    pub blocks_bytes: [usize; 2],
    /// The most files of a group that are open side by side; larger groups are compared by digests.
    pub most_open: usize,
    /// The device that decides: one whose head moves or, if there is none, the slowest; `None` if the files are in memory.
    pub device: Option<SeekFacts>,
}

/// Blocks grow from the one to the other. Beyond a processor's second cache growing does not help: with blocks up to 64K proving
/// 13,800 candidates took 62 ms, up to 4M 84 ms.
const BLOCKS_BYTES: [usize; 2] = [16 << 10, 64 << 10];
/// Files of a group that are open side by side.
const MOST_OPEN: usize = 64;
/// Bytes of a file by which it is told from others of its size: most that differ do so here. Of 116,700 files in /usr that share
/// a size, 88 % are alone after 4K; reading 16K of each took 1.05 times as long.
pub const FIRST_BYTES: usize = 4 << 10;
/// Files up to this size that begin alike and are open at one time are compared at once: opening a file takes longer than reading
/// it.
pub const WHOLE_BYTES: u64 = 16 << 10;
/// Directories that stay open: more make nothing faster.
const OPEN_DIRECTORIES: usize = 1 << 16;
/// Descriptors that are the program's own.
const OWN_FILES: usize = 16;
/// What is fetched may fill the memory divided by this.
const FETCHED_PART: u64 = 4;
/// Bytes of a file that are fetched with its beginning. A track has 1 to 2 MiB: what is skipped of it passes below the head in the time
/// that reading it takes. On a model of such a disk, reading beginnings of 256K and then equal files took 9.6 s, of 1M 8.6 s, of 16M 8.5 s.
const FETCHED_BYTES: [u64; 4] = [1 << 20, 256 << 10, 64 << 10, 16 << 10];
/// A head that moves for 10 ms and reads 200 MB/s reads this much in four times as long as it moves.
const WINDOW_BYTES: usize = 8 << 20;
/// Such windows take at most the memory divided by this, and at most this many bytes.
const MEMORY_PART: u64 = 8;
const WINDOWS_BYTES_MAX: u64 = 256 << 20;

/// The plan for files on these devices, if they are read by such batches, with this much available memory.
#[must_use]
pub fn duplicates(
    batch: BatchPlan,
    process: &ProcessFacts,
    devices: &[SeekFacts],
    memory_bytes: u64,
) -> DuplicatesPlan {
    let open_files = process.open_files_max.saturating_sub(OWN_FILES);
    let has_threads = open_files / 2 >= 2 * batch.threads;
    let threads = if has_threads { batch.threads } else { 1 };
    let most_open = (open_files / 2 / threads).clamp(2, MOST_OPEN);
    // What neither files that are compared nor those of batches, each with a directory above, may need.
    let spare = open_files.saturating_sub((threads * most_open).max(2 * batch.threads * (batch.batch + 1)));
    let batch = BatchPlan {
        open_directories: spare.max(process.open_files_max / 4).clamp(1, OPEN_DIRECTORIES),
        head_bytes: [FIRST_BYTES; 2],
        ..batch
    };
    let Some(device) = devices.iter().find(|device| device.moves_head()) else {
        let more = |device: &&SeekFacts| device.seeks.map(|seeks| seeks.head_moves_for());
        return DuplicatesPlan {
            batch,
            window_bytes: None,
            has_threads,
            blocks_bytes: BLOCKS_BYTES,
            most_open,
            device: devices.iter().max_by_key(more).copied(),
        };
    };
    let windows_bytes = (memory_bytes / MEMORY_PART).min(WINDOWS_BYTES_MAX) as usize;
    DuplicatesPlan {
        batch: BatchPlan { threads: 1, ..batch },
        window_bytes: Some(memory_bytes / FETCHED_PART),
        has_threads: false,
        blocks_bytes: [WINDOW_BYTES; 2],
        most_open: (windows_bytes / WINDOW_BYTES).clamp(2, most_open),
        device: Some(*device),
    }
}

impl DuplicatesPlan {
    /// Whether files are read in the order in which they lie on the device.
    #[must_use]
    pub fn is_by_place(&self) -> bool {
        self.window_bytes.is_some()
    }

    /// How many bytes are fetched with the beginning of each of these files, so that those of all are still in memory when files with
    /// equal beginnings are compared; `None` if files are not fetched.
    #[must_use]
    pub fn fetched_bytes(&self, sizes: impl Iterator<Item = u64> + Clone) -> Option<u64> {
        let window_bytes = self.window_bytes?;
        let all = |most: u64| sizes.clone().map(|bytes| most.min(bytes)).fold(0, u64::saturating_add);
        let fits = FETCHED_BYTES.into_iter().find(|most| all(*most) <= window_bytes);
        Some(fits.unwrap_or(FIRST_BYTES as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::batch;
    use super::*;
    use crate::facts::Seeks;

    #[test]
    fn only_where_a_head_moves_are_files_read_one_after_the_other() {
        let seeks = |in_a_row: u64, apart: u64| {
            Some(Seeks {
                in_a_row: Duration::from_micros(in_a_row),
                apart: Duration::from_micros(apart),
            })
        };
        let facts = |claims_rotational, is_virtual, seeks| SeekFacts {
            claims_rotational,
            is_virtual,
            seeks,
        };
        let disk = facts(Some(true), false, seeks(200, 11_000));
        let virtual_disk = facts(Some(true), true, seeks(200, 9000));
        let controller = facts(Some(true), false, seeks(80, 120));
        let table = [
            ("turning disk", disk, true),
            ("turning disk, not measured", facts(Some(true), false, None), true),
            ("virtual disk", facts(Some(true), true, None), false),
            ("virtual, on a turning one", virtual_disk, true),
            ("SATA SSD", facts(Some(false), false, None), false),
            ("SSD behind a controller", controller, false),
            ("throttled volume", facts(Some(true), true, seeks(250, 260)), false),
            ("network", facts(None, false, None), false),
        ];
        let process = ProcessFacts::without_rings();
        for (name, facts, is_by_place) in table {
            let plan = duplicates(batch(&process), &process, &[facts], 8 << 30);
            assert_eq!(plan.is_by_place(), is_by_place, "{name}");
            assert_eq!(plan.batch.threads == 1, is_by_place, "{name}");
        }
        let both = [facts(Some(false), false, None), disk];
        let plan = duplicates(batch(&process), &process, &both, 8 << 30);
        assert!(plan.is_by_place(), "the slower decides");
        assert!(!duplicates(batch(&process), &process, &[], 8 << 30).is_by_place());
        for memory in [0, 64 << 20, 1 << 40] {
            let plan = duplicates(batch(&process), &process, &[disk], memory);
            let bytes = plan.most_open * plan.blocks_bytes[1];
            assert!(plan.most_open >= 2 && bytes <= (256 << 20), "{memory}: {plan:?}");
        }
        let plan = duplicates(batch(&process), &process, &[disk], 4 << 20);
        assert_eq!(plan.window_bytes, Some(1 << 20));
        for (sizes, fetched) in [
            (vec![1 << 30], 1 << 20),
            (vec![1 << 30; 4], 256 << 10),
            (vec![1 << 30; 5], 64 << 10),
            (vec![1000; 1000], 1 << 20),
            (vec![1 << 30; 65], FIRST_BYTES as u64),
        ] {
            let found = plan.fetched_bytes(sizes.iter().copied());
            assert_eq!(found, Some(fetched), "{} files", sizes.len());
        }
        for open_files_max in [0, 24, 64, 256, 1024, 1 << 20] {
            let mut process = process;
            process.open_files_max = open_files_max;
            let plan = duplicates(batch(&process), &process, &[], 0);
            let threads = if plan.has_threads { plan.batch.threads } else { 1 };
            let files = threads * plan.most_open + plan.batch.open_directories;
            assert!(files <= open_files_max.max(16), "{open_files_max}: {plan:?}");
        }
    }
}
