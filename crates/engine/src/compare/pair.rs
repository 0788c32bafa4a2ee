//! The two files of a comparison: opened as the method says, read at offsets from their starts, and checked again
//! before a verdict.

use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use seekless_sys::{self as sys, MappedBytes};

use super::{Side, Verdict};
use crate::error::Result;
use crate::file_range::FileRange;
use crate::files::FileId;
use crate::transfer::OpenFile;
use seekless_method::{Differ, Method};

/// Two open files, and the range to compare.
pub(crate) struct Pair<'a> {
    pub sides: [OpenFile<'a>; 2],
    pub starts: [u64; 2],
    /// Bytes to compare of each, if all are equal.
    pub bytes: u64,
    /// The length of each from its start, at most its range.
    lengths: [u64; 2],
    differ: Differ,
    /// The metadata of each at opening.
    pub metadata: [Metadata; 2],
}

impl<'a> Pair<'a> {
    pub fn open(parts: [&'a FileRange<'_>; 2], method: &'a Method) -> Result<Self> {
        let open = |part: &'a FileRange<'_>| {
            let side = OpenFile::open_source(part, method)?;
            side.require_aligned(part.start(), "start").map(|()| side)
        };
        let sides = [open(parts[0])?, open(parts[1])?];
        let starts = parts.map(FileRange::start);
        let length = |n: usize| {
            let range = parts[n].within(sides[n].bytes);
            range.end - range.start
        };
        let lengths = [length(0), length(1)];
        Ok(Self {
            metadata: [sides[0].metadata()?, sides[1].metadata()?],
            sides,
            starts,
            bytes: lengths[0].min(lengths[1]),
            lengths,
            differ: method.options().differ(),
        })
    }

    /// Whether both are the same part of the same file, if inode numbers identify files on their file system.
    pub fn is_one_file(&self) -> Result<bool> {
        let is_one_range = self.starts[0] == self.starts[1] && self.lengths[0] == self.lengths[1];
        if !self.has_one_inode() || !is_one_range {
            return Ok(false);
        }
        self.both_are_on(|file| sys::inodes_identify(file))
    }

    /// Whether extents at the same place are the same bytes: both files are on one file system with a single address
    /// space.
    pub fn is_in_one_address_space(&self) -> Result<bool> {
        Ok(self.has_one_device_number() && self.both_are_on(sys::is_one_address_space)?)
    }

    /// Whether the file systems of both have a property.
    fn both_are_on(&self, holds: impl Fn(&File) -> io::Result<bool>) -> Result<bool> {
        for side in &self.sides {
            if !holds(&side.file).map_err(|error| side.failed("stat its file system", error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether both have the same `st_dev` and `st_ino`; they may still be different files.
    pub fn has_one_inode(&self) -> bool {
        FileId::of(&self.metadata[0]) == FileId::of(&self.metadata[1])
    }

    /// Whether both have the same `st_dev`. They may still be on different file systems below an overlay.
    pub fn has_one_device_number(&self) -> bool {
        self.metadata[0].dev() == self.metadata[1].dev()
    }

    /// Bytes of the longer file.
    pub fn longest_bytes(&self) -> u64 {
        self.sides[0].bytes.max(self.sides[1].bytes)
    }

    pub fn calls(&self) -> u64 {
        self.sides[0].calls() + self.sides[1].calls()
    }

    /// The alignment of offsets for both files; 1 without direct I/O.
    pub fn alignment(&self) -> u64 {
        self.sides[0].alignment.max(self.sides[1].alignment)
    }

    /// The position of a range in one of the files.
    pub fn place(&self, file: usize, range: &Range<u64>) -> Range<u64> {
        range.start + self.starts[file]..range.end + self.starts[file]
    }

    /// Reads `length` bytes of one of the files.
    pub fn read(&self, file: usize, buffer: &mut [u8], offset: u64, length: usize) -> Result<()> {
        self.sides[file].read_block(buffer, self.starts[file] + offset, length)
    }

    /// Where two runs of bytes first differ, found by the method's `differ`.
    pub fn difference<'b>(
        &self,
        one: impl Into<MappedBytes<'b>>,
        other: impl Into<MappedBytes<'b>>,
        newlines: &mut u64,
    ) -> Option<u64> {
        let (one, other) = (one.into(), other.into());
        let found = match self.differ {
            Differ::Memcmp => one.mismatch(&other),
            Differ::Bytewise => one.mismatch_bytewise(&other),
            Differ::Linewise => one.mismatch_linewise(&other, newlines),
        };
        found.map(|at| at as u64)
    }

    /// The verdict, if the files still have the sizes on which it rests.
    pub fn verdict(&self, found: Option<u64>) -> Result<Verdict> {
        if let Some(offset) = found {
            for (side, start) in self.sides.iter().zip(self.starts) {
                // In a map, bytes past the new end read as zeros.
                side.check_reaches(start + offset + 1)?;
            }
            return Ok(Verdict::Differ { offset });
        }
        for n in 0..2 {
            let side = &self.sides[n];
            let end = self.starts[n].saturating_add(self.lengths[n]);
            if end < side.bytes {
                side.check_reaches(end)?;
            } else {
                side.check_same_size()?;
            }
        }
        let ended = |side| Verdict::Ended {
            side,
            offset: self.bytes,
        };
        Ok(match self.lengths[0].cmp(&self.lengths[1]) {
            Ordering::Equal => Verdict::Equal,
            Ordering::Less => ended(Side::Left),
            Ordering::Greater => ended(Side::Right),
        })
    }
}
