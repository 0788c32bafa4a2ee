//! Reading the first bytes (heads) of many small files, singly or in groups such as pairs.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use seekless_sys::{self as sys, Ring, RingRequest, Support};

use crate::files::read_some;
use crate::plan::{BatchPlan, FEWEST_FOR_RING};

/// Which file of a group could not be read, and the system's reason.
pub type HeadFailure = (usize, io::Error);

/// What is done with each group of `N` files: 1 for single files, 2 for pairs.
pub trait HeadConsumer<const N: usize> {
    /// Names the files of a group.
    type Item;
    /// The open files of a group, with data of the user's own.
    type Opened;

    /// Opens the files of a group; `None` if there is nothing to read.
    fn open(&mut self, item: Self::Item) -> Option<Self::Opened>;

    /// The files to read.
    fn files(opened: &Self::Opened) -> &[Arc<File>; N];

    /// The beginnings of files are about to be read, and may not be in memory. Where it is known that one is not, because it
    /// was asked for, the system has begun to read it.
    fn cold(&mut self, _opened: &Self::Opened, _was_asked: bool) {}

    /// Takes the head of each file: usually all of a small file, and at least one byte of a file that is not empty.
    fn take(&mut self, opened: Self::Opened, heads: Result<[&[u8]; N], HeadFailure>);
}

/// A single group that is not in memory is read alone. The more of them come in a row, the more are read together.
const GROWTH: usize = 4;

/// Reads the heads of many small files, in one thread.
pub struct HeadReader<const N: usize> {
    plan: BatchPlan,
    buffers: [Vec<u8>; N],
    /// Created when it is first needed.
    ring: Option<Box<Ring>>,
    /// Whether a ring may be created: not where the system does not allow it, as in sandboxes, or the limit of locked memory is too
    /// low.
    may_have_ring: bool,
    /// Groups to read together when the next one is not in memory.
    room: usize,
}

/// The result of reads that do not wait.
enum NowaitRead<const N: usize> {
    Read([usize; N]),
    Cold,
    /// The file system does not support these reads.
    Untold,
}

impl<const N: usize> HeadReader<N> {
    /// Makes the buffers.
    #[must_use]
    pub fn new(plan: &BatchPlan) -> Self {
        Self {
            plan: plan.clone(),
            buffers: std::array::from_fn(|_| vec![0; plan.head_bytes[0]]),
            ring: None,
            may_have_ring: plan.has_rings,
            room: 1,
        }
    }

    /// The same with a ring that was made before.
    #[must_use]
    pub(crate) fn with_ring(plan: &BatchPlan, ring: Ring) -> Self {
        Self {
            ring: Some(Box::new(ring)),
            may_have_ring: false,
            ..Self::new(plan)
        }
    }

    /// Whether there is a ring: it is created when files are not in memory.
    #[must_use]
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether the last files that were read were in memory.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.room == 1
    }

    /// Opens and reads all of them, in their order, except that files that are not in memory come later.
    pub fn read<E: HeadConsumer<N>>(&mut self, items: impl IntoIterator<Item = E::Item>, each: &mut E) {
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            let Some(opened) = each.open(item) else { continue };
            let mut cold = Vec::new();
            match self.read_resident(E::files(&opened)) {
                NowaitRead::Read(lengths) => {
                    each.take(opened, Ok(self.heads(lengths)));
                    self.room = (self.room / 2).max(1);
                    continue;
                }
                NowaitRead::Cold => cold.push(opened),
                NowaitRead::Untold => {
                    let started = Instant::now();
                    let read = self.read_waiting(E::files(&opened));
                    let has_waited = started.elapsed() > self.plan.patience;
                    each.take(opened, read.map(|lengths| self.heads(lengths)));
                    if !has_waited {
                        continue;
                    }
                }
            }
            // The following files are not tried without waiting: a read that would have to wait starts a request of its
            // own.
            let room = self.room - cold.len().min(self.room);
            cold.extend(items.by_ref().filter_map(|item| each.open(item)).take(room));
            self.read_cold(cold, each);
            self.room = (self.room * GROWTH).min(self.plan.batch);
        }
    }

    fn heads(&self, lengths: [usize; N]) -> [&[u8]; N] {
        std::array::from_fn(|file| &self.buffers[file][..lengths[file]])
    }

    /// Reads the files of a group that is in memory.
    fn read_resident(&mut self, files: &[Arc<File>; N]) -> NowaitRead<N> {
        if !self.plan.asks_not_to_wait {
            return NowaitRead::Untold;
        }
        let mut lengths = [0; N];
        for (index, (file, buffer)) in files.iter().zip(&mut self.buffers).enumerate() {
            match sys::read_at_nowait(file, buffer, 0) {
                Ok(Support::Available(Some(length))) => lengths[index] = length,
                Ok(Support::Available(None)) => return NowaitRead::Cold,
                // A read that may wait reports the error.
                Ok(Support::Unavailable(_)) | Err(_) => return NowaitRead::Untold,
            }
        }
        NowaitRead::Read(lengths)
    }

    fn read_waiting(&mut self, files: &[Arc<File>; N]) -> Result<[usize; N], HeadFailure> {
        let mut lengths = [0; N];
        for (index, (file, buffer)) in files.iter().zip(&mut self.buffers).enumerate() {
            lengths[index] = read_some(file, buffer, 0).map_err(|error| (index, error))?;
        }
        Ok(lengths)
    }

    /// Reads all in one call, or one after the other where there is no ring.
    fn read_cold<E: HeadConsumer<N>>(&mut self, groups: Vec<E::Opened>, each: &mut E) {
        for (index, group) in groups.iter().enumerate() {
            each.cold(group, index == 0 && self.plan.asks_not_to_wait);
        }
        let mut ring = (groups.len() >= FEWEST_FOR_RING).then(|| self.take_ring()).flatten();
        let lengths = ring.as_mut().map_or_else(Vec::new, |ring| {
            read_all(ring, self.plan.head_bytes[1], groups.iter().flat_map(E::files))
        });
        for (group, opened) in groups.into_iter().enumerate() {
            let first = group * N;
            let read = lengths.get(first..first + N);
            let read: Option<&[Option<usize>]> = read.filter(|read| read.iter().all(Option::is_some));
            if let (Some(ring), Some(read)) = (&ring, read) {
                let head = |file: usize| &ring.buffer((first + file) as u32)[..read[file].unwrap_or(0)];
                each.take(opened, Ok(std::array::from_fn(head)));
            } else {
                let read = self.read_waiting(E::files(&opened));
                each.take(opened, read.map(|lengths| self.heads(lengths)));
            }
        }
        // A ring that failed to wait is not used again.
        self.ring = ring.filter(|ring| ring.in_flight() == 0).or(self.ring.take());
    }

    fn take_ring(&mut self) -> Option<Box<Ring>> {
        if std::mem::take(&mut self.may_have_ring) {
            let made = Ring::new((N * self.plan.batch) as u32, self.plan.head_bytes[1], 1);
            return made.ok()?.available().map(Box::new);
        }
        self.ring.take()
    }
}

/// The bytes read into each slot, one for each file; `None` if the read failed. Reading that file again gives the
/// system's reason.
fn read_all<'f>(ring: &mut Ring, head_bytes: usize, files: impl Iterator<Item = &'f Arc<File>>) -> Vec<Option<usize>> {
    let mut lengths = vec![None; ring.depth() as usize];
    for (slot, file) in files.enumerate() {
        let head = RingRequest {
            is_read: true,
            offset: 0,
            range: 0..head_bytes,
            dontcache: false,
            is_synced: false,
        };
        let queued = ring.queue(slot as u32, file, &head);
        if queued.is_err() {
            break;
        }
    }
    while ring.in_flight() > 0 {
        let Ok(completed) = ring.wait() else { break };
        lengths[completed.slot as usize] = completed.result.ok();
    }
    lengths
}

#[cfg(test)]
mod tests;
