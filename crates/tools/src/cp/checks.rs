//! Checking copies: reading them back, and checksums for other programs.

use std::fs::File;
use std::io;

use seekless::files::{hexadecimal, read_full};
use seekless_sys as sys;
use sha2::{Digest, Sha256};

use super::Checksum;
use super::copying::{Copying, Worker};
use super::data::{BLOCK_BYTES, stopped};
use super::file::Failed;

impl Copying<'_> {
    /// Compares a copy with its source, as it is read from the device.
    pub fn verify(&self, source: &File, new: &File, worker: &mut Worker) -> Result<(), Failed> {
        sys::write_back(new).map_err(|error| ("write the copy to the device", error))?;
        sys::drop_from_cache(new).map_err(|error| ("evict the copy from the page cache", error))?;
        if let Some(at) = self.first_difference(source, new, worker)? {
            let reason = format!("the copy differs at or after byte {at}");
            return Err(("verify the copy", io::Error::other(reason)));
        }
        worker.done.verified += 1;
        Ok(())
    }

    /// The offset of the block in which two files differ.
    pub fn first_difference(&self, source: &File, copy: &File, worker: &mut Worker) -> Result<Option<u64>, Failed> {
        let (mut other, mut at) = (vec![0; BLOCK_BYTES], 0);
        worker.buffer.resize(BLOCK_BYTES, 0);
        loop {
            if self.stop.is_stopped() {
                return Err(("compare the copy", stopped()));
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

    /// The checksum of a file, in hexadecimal.
    pub fn checksum(&self, file: &File, kind: Checksum, worker: &mut Worker) -> io::Result<String> {
        let (mut blake3, mut sha256, mut at) = (blake3::Hasher::new(), Sha256::new(), 0);
        worker.buffer.resize(BLOCK_BYTES, 0);
        loop {
            if self.stop.is_stopped() {
                return Err(stopped());
            }
            let read = read_full(file, &mut worker.buffer, at)?;
            let bytes = &worker.buffer[..read];
            match kind {
                Checksum::Blake3 => _ = blake3.update(bytes),
                Checksum::Sha256 => sha256.update(bytes),
            }
            if read == 0 {
                return Ok(match kind {
                    Checksum::Blake3 => blake3.finalize().to_hex().to_string(),
                    Checksum::Sha256 => hexadecimal(&sha256.finalize()),
                });
            }
            at += read as u64;
        }
    }
}
