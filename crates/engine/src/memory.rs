//! Reading into the caller's memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;

use seekless_sys::lock_mutex;

use crate::{Chunk, Consumer};

/// A consumer that leaves each byte of a read at its place in memory. Every place is given away once, so threads can
/// fill them at the same time.
pub(crate) struct ReadTarget<'a> {
    /// What was not given away, by its offset.
    free: Mutex<BTreeMap<u64, &'a mut [u8]>>,
}

impl<'a> ReadTarget<'a> {
    pub fn new(target: &'a mut [u8]) -> Self {
        Self {
            free: Mutex::new(BTreeMap::from([(0, target)])),
        }
    }

    /// Takes the place of these bytes; `None` if some of it was given away, or lies past the end.
    fn take(&self, offset: u64, length: usize) -> Option<&'a mut [u8]> {
        let mut free = lock_mutex(&self.free);
        let (&start, found) = free.range(..=offset).next_back()?;
        let before = (offset - start) as usize;
        if found.len() < before.checked_add(length)? {
            return None;
        }
        let (head, rest) = free.remove(&start)?.split_at_mut(before);
        let (place, tail) = rest.split_at_mut(length);
        if !head.is_empty() {
            free.insert(start, head);
        }
        if !tail.is_empty() {
            free.insert(offset + length as u64, tail);
        }
        Some(place)
    }

    /// Fills the place of these bytes. A file that is longer than the memory ends the read.
    fn fill(&self, offset: u64, length: usize, fill: impl FnOnce(&mut [u8])) -> ControlFlow<()> {
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
        self.fill(offset, chunk.len(), |place| match chunk {
            Chunk::Memory(bytes) => place.copy_from_slice(bytes),
            Chunk::Mapped(bytes) => bytes.copy_to(place),
        })
    }

    fn zeros(&self, offset: u64, length: u64) -> ControlFlow<()> {
        self.fill(offset, length as usize, |place| place.fill(0))
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn has_places(&self) -> bool {
        true
    }

    fn place(&self, offset: u64, length: usize) -> Option<&mut [u8]> {
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
            let target = ReadTarget::new(&mut memory);
            for _ in 0..40 {
                let (offset, length) = (random.usize(0..320), random.usize(1..60));
                let is_free = free
                    .get(offset..offset + length)
                    .is_some_and(|free| free.iter().all(|&free| free));
                let taken = target.take(offset as u64, length);
                assert_eq!(taken.is_some(), is_free, "{length} bytes at {offset}");
                if let Some(place) = taken {
                    place.fill(1);
                    free[offset..offset + length].fill(false);
                }
            }
            drop(target);
            assert!(memory.iter().zip(&free).all(|(&byte, &free)| (byte == 0) == free));
        }
    }
}
