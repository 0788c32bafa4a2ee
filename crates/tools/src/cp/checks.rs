//! Checking copies: reading them back, and checksums for other programs.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, openat, readlinkat};
use seekless::files::{Attributes, first_data, hexadecimal, read_full};
use seekless::walk::{FOUND_FILE, StatFacts};
use seekless_sys::{self as sys, Advice};
use sha2::{Digest, Sha256};

use super::Checksum;
use super::copying::{Copying, Worker};
use super::data::{BLOCK_BYTES, DROPPED_BYTES, has_holes, is_cold, stopped};
use super::file::Failed;

/// The offset from which on a file has no holes: its size if it has some, else 0.
fn end_of_holes(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    Ok(if has_holes(&metadata) { metadata.len() } else { 0 })
}

impl Copying<'_> {
    /// Compares a copy with its source, as it is read from the device.
    pub fn verify(&self, source: &File, new: &File, worker: &mut Worker) -> Result<(), Failed> {
        let metadata = new.metadata().map_err(|error| ("stat the copy", error))?;
        // In pieces, so that a signal does not wait long.
        for at in (0..metadata.len()).step_by(DROPPED_BYTES as usize) {
            if self.stop.is_stopped() {
                return Err(("verify the copy", stopped()));
            }
            sys::write_back(new, at, DROPPED_BYTES).map_err(|error| ("write the copy to the device", error))?;
            let _ = sys::advise(new, Advice::DontNeed, at, DROPPED_BYTES);
        }
        sys::drop_from_cache(new).map_err(|error| ("evict the copy from the page cache", error))?;
        if let Some(at) = self.first_difference(source, new, worker)? {
            let reason = format!("the copy differs at or after byte {at}");
            return Err(("verify the copy", io::Error::other(reason)));
        }
        worker.done.verified += 1;
        Ok(())
    }

    /// The offset of the block in which two files differ. What is a hole in both is not read.
    pub fn first_difference(&self, source: &File, copy: &File, worker: &mut Worker) -> Result<Option<u64>, Failed> {
        let (mut other, mut at) = (vec![0; BLOCK_BYTES], 0);
        worker.buffer.resize(BLOCK_BYTES, 0);
        let end_of_holes = end_of_holes(source).map_err(|error| ("stat", error))?;
        loop {
            if self.stop.is_stopped() {
                return Err(("compare the copy", stopped()));
            }
            if at < end_of_holes {
                at = first_data(&[source, copy], at..end_of_holes).map_err(|error| ("find data", error))?;
            }
            let length = read_full(source, &mut worker.buffer, at).map_err(|error| ("read", error))?;
            let copied = read_full(copy, &mut other, at).map_err(|error| ("read the copy", error))?;
            if worker.buffer[..length] != other[..copied] {
                return Ok(Some(at));
            }
            if length == 0 {
                return Ok(None);
            }
            at += length as u64;
        }
    }

    /// Whether two entries of this kind have the same bytes, or lead to the same path. What was not in memory is not left there.
    pub fn have_equal_content(&self, names: [(BorrowedFd<'_>, &CStr); 2], kind: FileType, worker: &mut Worker) -> bool {
        match kind {
            FileType::RegularFile => {
                let open = |(directory, name)| openat(directory, name, FOUND_FILE, Mode::empty()).map(File::from);
                let [Ok(one), Ok(other)] = names.map(open) else {
                    return false;
                };
                let is_dropped = |file: &File| !self.options.keep_cached && is_cold(file, true).unwrap_or(false);
                let dropped = [&one, &other].map(|file| is_dropped(file).then_some(file));
                let first = self.first_difference(&one, &other, worker);
                for file in dropped.into_iter().flatten() {
                    let _ = sys::drop_from_cache(file);
                }
                matches!(first, Ok(None))
            }
            FileType::Symlink => {
                let [one, other] = names.map(|(directory, name)| readlinkat(directory, name, Vec::new()));
                one.is_ok_and(|one| other.is_ok_and(|other| one == other))
            }
            _ => true,
        }
    }

    /// Whether two entries differ in nothing but their names and their times of access and change.
    pub fn are_equal(&self, names: [(BorrowedFd<'_>, &CStr); 2], worker: &mut Worker) -> bool {
        let facts = |(directory, name)| -> io::Result<_> {
            let found = StatFacts::at(directory, name)?;
            let extended = sys::extended_attributes_at(directory, name)?.available();
            let attributes = Attributes::new(&found, extended);
            Ok((attributes, found.kind, found.number, found.bytes, found.modified))
        };
        let [Ok(one), Ok(other)] = names.map(facts) else {
            return false;
        };
        one == other && self.have_equal_content(names, one.1, worker)
    }

    /// The checksum of a file, in hexadecimal. Holes count as zeros, without reading them.
    pub fn checksum(&self, file: &File, kind: Checksum, worker: &mut Worker) -> io::Result<String> {
        let (mut blake3, mut sha256, mut at) = (blake3::Hasher::new(), Sha256::new(), 0);
        let zeros = vec![0; BLOCK_BYTES];
        worker.buffer.resize(BLOCK_BYTES, 0);
        let end_of_holes = end_of_holes(file)?;
        let mut data = 0;
        loop {
            if self.stop.is_stopped() {
                return Err(stopped());
            }
            if (data..end_of_holes).contains(&at) {
                data = first_data(&[file], at..end_of_holes)?;
            }
            let bytes = match data.saturating_sub(at).min(BLOCK_BYTES as u64) as usize {
                0 => {
                    let read = read_full(file, &mut worker.buffer, at)?;
                    &worker.buffer[..read]
                }
                hole => &zeros[..hole],
            };
            match kind {
                Checksum::Blake3 => _ = blake3.update(bytes),
                Checksum::Sha256 => sha256.update(bytes),
            }
            if bytes.is_empty() {
                return Ok(match kind {
                    Checksum::Blake3 => blake3.finalize().to_hex().to_string(),
                    Checksum::Sha256 => hexadecimal(&sha256.finalize()),
                });
            }
            at += bytes.len() as u64;
        }
    }
}
