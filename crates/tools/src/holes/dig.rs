//! Digging: blocks of zeros become holes, in place, while the file's bytes stay the same.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, MappedBytes, Support};
use sha2::{Digest, Sha256};

use super::held::{Held, block_bytes, require_regular, unavailable};
use super::map::Data;
use super::zeros::Zeros;
use super::{Error, Result, Stop};

/// How to dig.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dig {
    /// Shorter runs of zeros are left as they are.
    pub min_bytes: u64,
    /// Only look, by reading, without a lease.
    pub dry_run: bool,
    /// Read everything before and after, and compare digests (SHA-256).
    pub verify: bool,
}

/// What was dug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dug {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Runs of zeros that are holes now, each made by one call; or would be, in a dry run.
    pub holes: u64,
    /// Their bytes.
    pub zero_bytes: u64,
    /// What the file took before (`st_blocks`).
    pub allocated_before_bytes: u64,
    /// What it takes now; as before in a dry run.
    pub allocated_bytes: u64,
}

/// Makes holes of the blocks of zeros in a file's data. What is reserved and was never written stays so,
/// unless the file system takes it for data (XFS does while it is cached).
///
/// # Errors
/// Where no lease is granted, the file system cannot punch holes, or what is read afterwards is not what it was. Ends
/// with [`Error::Wanted`] where somebody wants to open the file meanwhile; holes made until then stay.
pub fn dig(path: &Path, how: Dig, stop: &Stop) -> Result<Dug> {
    if how.dry_run {
        return look(path, how, stop);
    }
    let held = Held::open(path)?;
    let dug = dig_held(&held, how, stop);
    let restored = held.restore(true);
    let dug = dug?;
    restored?;
    Ok(dug)
}

/// What digging would do.
fn look(path: &Path, how: Dig, stop: &Stop) -> Result<Dug> {
    let metadata = require_regular(path)?;
    let file = File::open(path).map_err(|error| Error::system(path, "opening it", error))?;
    let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata) * super::SECTOR_BYTES;
    let mut dug = Dug {
        path: path.to_owned(),
        bytes: metadata.len(),
        allocated_before_bytes: allocated,
        allocated_bytes: allocated,
        ..Dug::default()
    };
    let failed = |error| Error::system(path, "looking for zeros in it", error);
    let zeros = Zeros::new(block_bytes(path)?).map_err(failed)?;
    let bytes = dug.bytes;
    let mut count = |run: Range<u64>| {
        dug.count(&run, how);
        Ok(())
    };
    let go_on = || !stop.is_stopped();
    zeros
        .find(&file, bytes, Data::of(&file, 0..bytes), &go_on, &mut count)
        .map_err(failed)?;
    Ok(dug)
}

impl Dug {
    /// Counts a run unless it is too short. Whether it is long enough.
    fn count(&mut self, run: &Range<u64>, how: Dig) -> bool {
        let is_enough = run.end - run.start >= how.min_bytes;
        if is_enough {
            self.holes += 1;
            self.zero_bytes += run.end - run.start;
        }
        is_enough
    }
}

fn dig_held(held: &Held<'_>, how: Dig, stop: &Stop) -> Result<Dug> {
    let bytes = held.metadata.len();
    let before = held.allocated_before_bytes();
    let mut dug = Dug {
        path: held.path.to_owned(),
        bytes,
        allocated_before_bytes: before,
        allocated_bytes: before,
        ..Dug::default()
    };
    let digest_before = digest(held, how)?;
    let block_bytes = held.block_bytes()?;
    let looking = |error| held.failed("looking for zeros in it", error);
    let zeros = Zeros::new(block_bytes).map_err(looking)?;
    let mut samples = Vec::new();
    // What a punch finds is told behind the scan, which knows errors of the system only.
    let mut refused = None;
    let mut punch = |run: Range<u64>| -> io::Result<()> {
        if refused.is_some() || stop.is_stopped() || !dug.count(&run, how) {
            return Ok(());
        }
        refused = punch_run(held, run.clone(), block_bytes).err();
        if samples.len() < SAMPLES {
            samples.push(run);
        }
        Ok(())
    };
    let go_on = || !stop.is_stopped() && held.is_alone();
    let data = Data::of(&held.file, 0..bytes);
    zeros
        .find(&held.file, bytes, data, &go_on, &mut punch)
        .map_err(looking)?;
    if let Some(error) = refused {
        return Err(error);
    }
    held.require_alone()?;
    if dug.holes > 0 {
        dug.allocated_bytes = held.allocated_bytes()?;
        check_samples(held, &samples)?;
    }
    if digest_before != digest(held, how)? {
        return Err(Error::Differs {
            path: held.path.to_owned(),
            what: "its bytes are not what they were (SHA-256)".to_owned(),
        });
    }
    Ok(dug)
}

fn punch_run(held: &Held<'_>, run: Range<u64>, block_bytes: u64) -> Result<()> {
    held.require_alone()?;
    // A last block that is not full is freed only when all of it is asked for.
    let length = (run.end - run.start).next_multiple_of(block_bytes);
    match sys::punch_hole(&held.file, run.start, length) {
        Ok(Support::Available(())) => Ok(()),
        Ok(Support::Unavailable(reason)) => Err(unavailable(held.path, reason)),
        Err(error) => Err(held.failed("punching a hole into it", error)),
    }
}

/// In how many holes the ends are read, to see whether they are zeros.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: u64 = 4096;

fn check_samples(held: &Held<'_>, runs: &[Range<u64>]) -> Result<()> {
    let mut buffer = [0; SAMPLE_BYTES as usize];
    for run in runs {
        let length = SAMPLE_BYTES.min(run.end - run.start);
        for start in [run.start, run.end - length] {
            let bytes = &mut buffer[..length as usize];
            let read = held.file.read_exact_at(bytes, start);
            read.map_err(|error| held.failed("reading a hole", error))?;
            if let Some(found) = MappedBytes::from(&*bytes).first_nonzero() {
                return Err(Error::Differs {
                    path: held.path.to_owned(),
                    what: format!("byte {} in a new hole is not zero", start + found as u64),
                });
            }
        }
    }
    Ok(())
}

/// The digest of all bytes, where that was asked for.
fn digest(held: &Held<'_>, how: Dig) -> Result<Option<[u8; 32]>> {
    if !how.verify {
        return Ok(None);
    }
    let mut buffer = vec![0; 256 << 10];
    let mut digest = Sha256::new();
    let mut offset = 0;
    loop {
        match held.file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(Some(digest.finalize().into())),
            Ok(read) => {
                digest.update(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(held.failed("reading it", error)),
        }
    }
}
