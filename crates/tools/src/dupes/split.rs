//! Reading files side by side, and splitting them where they differ.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use seekless_engine::files::read_full;

use super::opened::{Open, unread};
use crate::Stop;
use crate::walk::CHANGED;

/// Which of several files may still be equal.
pub(super) struct Split<'w> {
    /// The number of each file's class; `None` if the file failed.
    class: Vec<Option<usize>>,
    pub failed: Vec<(usize, io::Error)>,
    pub read_bytes: u64,
    blocks_bytes: [usize; 2],
    stop: &'w Stop,
    /// Whether a class of files is wanted if they are equal; other classes are not read further.
    is_wanted: &'w (dyn Fn(&[usize]) -> bool + Sync),
}

impl Clone for Split<'_> {
    /// Without the failures, which must be reported only once.
    fn clone(&self) -> Self {
        Self {
            class: self.class.clone(),
            failed: Vec::new(),
            read_bytes: 0,
            ..*self
        }
    }
}

impl<'w> Split<'w> {
    pub fn new(
        files: &[Open],
        blocks_bytes: [usize; 2],
        stop: &'w Stop,
        is_wanted: &'w (dyn Fn(&[usize]) -> bool + Sync),
    ) -> Self {
        Self {
            class: files.iter().map(|open| open.read_by.is_none().then_some(0)).collect(),
            failed: Vec::new(),
            read_bytes: 0,
            blocks_bytes,
            stop,
            is_wanted,
        }
    }

    /// All classes, also those of a single file.
    pub fn all_classes(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.class.len())
            .filter(|file| self.class[*file].is_some())
            .collect();
        order.sort_by_key(|file| self.class[*file]);
        let classes = order.chunk_by(|one, other| self.class[*one] == self.class[*other]);
        classes.map(<[usize]>::to_vec).collect()
    }

    /// The classes that are read further.
    pub fn classes(&self) -> Vec<Vec<usize>> {
        let mut classes = self.all_classes();
        classes.retain(|class| class.len() > 1 && (self.is_wanted)(class));
        classes
    }

    /// Reads a part of all files that do not stand alone, and splits them where they differ.
    pub fn read(&mut self, files: &[Open], range: Range<u64>) {
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        let mut holes = vec![0; files.len()];
        let [mut block, last_block] = self.blocks_bytes;
        let mut at = range.start;
        while at < range.end && !self.stop.is_stopped() {
            let classes = self.classes();
            if classes.is_empty() {
                return;
            }
            let length = (range.end - at).min(block as u64) as usize;
            let end = at + length as u64;
            let mut next = range.end;
            for class in classes {
                // The first file of each kind, and its block.
                let mut kinds: Vec<(usize, Vec<u8>)> = Vec::new();
                for file in class {
                    let open = &files[file];
                    let mut buffer = buffers.pop().unwrap_or_default();
                    let read = match open.hole_end(at..range.end, &mut holes[file]) {
                        Ok(until) if until >= end => {
                            next = next.min(until);
                            buffer.clear();
                            Ok(())
                        }
                        Ok(_) => {
                            next = end;
                            buffer.resize(length, 0);
                            self.read_bytes += length as u64;
                            match read_full(&open.file, &mut buffer, at) {
                                Ok(read) if read == length => Ok(()),
                                Ok(_) => Err(io::Error::new(CHANGED, "truncated during the search")),
                                Err(error) => Err(unread(at, &error)),
                            }
                        }
                        Err(error) => Err(error),
                    };
                    if let Err(error) = read {
                        self.fail(file, error);
                        continue;
                    }
                    if let Some((first, _)) = kinds.iter().find(|(_, block)| equal(block, &buffer)) {
                        self.class[file] = self.class[*first];
                        buffers.push(buffer);
                    } else {
                        if !kinds.is_empty() {
                            self.leave(file);
                        }
                        kinds.push((file, buffer));
                    }
                }
                buffers.extend(kinds.into_iter().map(|(_, block)| block));
            }
            at = next.max(end);
            block = (block * 2).min(last_block);
        }
    }

    /// Gives a file a class of its own.
    pub fn leave(&mut self, file: usize) {
        let last = self.class.iter().flatten().max();
        self.class[file] = last.map(|last| last + 1);
    }

    pub fn fail(&mut self, file: usize, error: io::Error) {
        if self.class[file].take().is_some() {
            self.failed.push((file, error));
        }
    }

    /// Keeps files together only if they are in the same class in both.
    pub fn refine(&mut self, other: Self) {
        let mut numbers = HashMap::new();
        for (class, other) in self.class.iter_mut().zip(&other.class) {
            let pair = class.zip(*other);
            *class = pair.map(|pair| {
                let next = numbers.len();
                *numbers.entry(pair).or_insert(next)
            });
        }
        self.failed.extend(other.failed);
        self.read_bytes += other.read_bytes;
    }
}

/// Whether two blocks are equal; an empty one stands for zeros.
fn equal(one: &[u8], other: &[u8]) -> bool {
    match (one.is_empty(), other.is_empty()) {
        (false, false) => one == other,
        (true, _) => other.iter().all(|byte| *byte == 0),
        (false, true) => one.iter().all(|byte| *byte == 0),
    }
}
