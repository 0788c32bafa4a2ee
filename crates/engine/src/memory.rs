//! Reading into the caller's memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use seekless_sys::lock_mutex;

use crate::caller_memory::CallerMemory;
use crate::{Chunk, Consumer};

/// A consumer that leaves each byte of a read at its place in memory. Every place is given away once, so threads can
/// fill them at the same time.
pub(crate) struct ReadTarget<'a> {
    /// What was not given away, by its offset.
    free: Mutex<BTreeMap<u64, CallerMemory<'a>>>,
}

impl<'a> ReadTarget<'a> {
    pub fn new(target: CallerMemory<'a>) -> Self {
        Self {
            free: Mutex::new(BTreeMap::from([(0, target)])),
        }
    }

    /// Takes the place of these bytes; `None` if some of it was given away, or lies past the end.
    fn take(&self, offset: u64, length: usize) -> Option<CallerMemory<'a>> {
        let mut free = lock_mutex(&self.free);
        let (&start, found) = free.range(..=offset).next_back()?;
        let before = (offset - start) as usize;
        if found.len() < before.checked_add(length)? {
            return None;
        }
        let mut rest = free.remove(&start)?;
        let head = rest.split_off(before);
        let place = rest.split_off(length);
        if !head.is_empty() {
            free.insert(start, head);
        }
        if !rest.is_empty() {
            free.insert(offset + length as u64, rest);
        }
        Some(place)
    }

    /// Fills the place of these bytes. A file that is longer than the memory ends the read.
    fn fill(&self, offset: u64, length: usize, fill: impl FnOnce(CallerMemory<'a>)) -> ControlFlow<()> {
        match self.take(offset, length) {
            Some(place) => {
                fill(place);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

impl Consumer for ReadTarget<'_> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        self.fill(offset, chunk.len(), |place| place.copy_chunk(chunk))
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.fill(offset, length as usize, CallerMemory::zero)
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn has_places(&self) -> bool {
        true
    }

    fn place(&self, offset: u64, length: usize) -> Option<CallerMemory<'_>> {
        self.take(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_given_away_once_and_none_past_the_end() {
        let mut random = fastrand::Rng::with_seed(40);
        for _ in 0..200 {
            let mut memory = vec![0_u8; random.usize(1..300)];
            let mut free = vec![true; memory.len()];
            let target = ReadTarget::new(CallerMemory::Initialised(&mut memory));
            for _ in 0..40 {
                let (offset, length) = (random.usize(0..320), random.usize(1..60));
                let is_free = free
                    .get(offset..offset + length)
                    .is_some_and(|free| free.iter().all(|&free| free));
                let taken = target.take(offset as u64, length);
                assert_eq!(taken.is_some(), is_free, "{length} bytes at {offset}");
                if let Some(place) = taken {
                    place.copy_chunk(Chunk::Memory(&vec![1; length]));
                    free[offset..offset + length].fill(false);
                }
            }
            drop(target);
            assert!(memory.iter().zip(&free).all(|(&byte, &free)| (byte == 0) == free));
        }
    }
}
