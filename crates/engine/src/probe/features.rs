//! Which features of a storage work: each is used on a temporary file, and the file is examined afterwards.
//!
//! The return value of a call is not enough: a reflink must share blocks, a punched hole must free blocks and read as zeros,
//! preallocation must allocate. [`Probe`] tries methods.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use seekless_sys::{self as sys, Access, LeaseKind, LeaseScope, Opening, Support};

use super::{Attempt, Availability, Probe, Why, require};
use crate::error::{Error, Result};
use crate::files::{self, extents};
use crate::storage::cache::{self, CachedFile, Resident};
use seekless_method::Method;

/// A feature of a storage, and whether it works there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// Its name, as in `reflink`.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Whether it works.
    pub availability: Availability,
    /// For `punch`: the shortest hole that freed space, in bytes.
    pub smallest_hole_bytes: Option<u64>,
}

impl Feature {
    /// The name and description of every feature, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        let by_methods = BY_METHODS.iter().map(|&(name, about, _)| (name, about));
        by_methods.chain(BY_ATTEMPTS.iter().map(|&(name, about, _)| (name, about)))
    }
}

/// An attempt on scratch files.
type Try = fn(&Probe) -> Attempt;

/// Features that a method shows: available if the method does what its name says.
const BY_METHODS: &[(&str, &str, &str)] = &[
    (
        "direct-read",
        "reads that bypass the page cache (O_DIRECT)",
        "read/sync,direct",
    ),
    (
        "direct-write",
        "writes that bypass the page cache (O_DIRECT)",
        "write/sync,direct",
    ),
    (
        "dontcache-read",
        "reads that leave nothing cached (RWF_DONTCACHE)",
        "read/sync,dontcache",
    ),
    (
        "dontcache-write",
        "writes that leave nothing cached (RWF_DONTCACHE)",
        "write/sync,dontcache",
    ),
    ("io_uring", "several requests in flight", "read/io_uring"),
    ("mmap", "files mapped into memory", "read/mmap"),
    ("copy_file_range", "copies within the kernel", "copy/copy_file_range"),
];

/// Features that need an attempt of their own.
const BY_ATTEMPTS: &[(&str, &str, Try)] = &[
    ("reflink", "copies that share blocks", reflink),
    ("holes", "unwritten ranges take no space and can be found", holes),
    ("punch", "turning data into holes", punch),
    ("fallocate", "allocating blocks before writing", fallocate),
    ("residency", "reporting what is in the page cache", residency),
    ("drop", "dropping a file from the page cache", drop_cache),
    (
        "write-lease",
        "keeping other processes out of a file (F_SETLEASE)",
        write_lease,
    ),
];

/// Tries all features in a writable directory. It writes a few megabytes there and removes them.
///
/// # Errors
/// The system's, if no file can be created in the directory.
pub fn features(directory: impl AsRef<Path>) -> Result<Vec<Feature>> {
    let directory = directory.as_ref();
    let mut probe = Probe::new(directory).map_err(|error| match error {
        Error::System { source, .. } => Error::system(directory, "create a temporary file", source),
        other => other,
    })?;
    let mut by_method = |&(name, about, text): &(_, _, &'static str)| Feature {
        name,
        about,
        availability: explained(name, probe.availability(&Method::known(text))),
        smallest_hole_bytes: None,
    };
    let mut found: Vec<Feature> = BY_METHODS.iter().map(&mut by_method).collect();
    let by_attempts = BY_ATTEMPTS.iter().map(|&(name, about, attempt)| {
        let availability = Availability::of(attempt(&probe));
        let is_punch = name == "punch" && availability == Availability::Available;
        Feature {
            name,
            about,
            availability,
            smallest_hole_bytes: is_punch.then(|| smallest_hole(&probe).ok()?).flatten(),
        }
    });
    found.extend(by_attempts);
    Ok(found)
}

/// The setting by which an administrator disables `io_uring` for all (2) or most (1) users.
const IO_URING_SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

/// Adds what switched `io_uring` off, if the kernel reports it.
fn explained(name: &str, availability: Availability) -> Availability {
    let switch = fs::read_to_string(IO_URING_SWITCH).unwrap_or_default();
    match (name, availability, switch.trim()) {
        ("io_uring", Availability::Unavailable(reason), value @ ("1" | "2")) => {
            Availability::Unavailable(format!("{reason} (the sysctl kernel.io_uring_disabled is {value})"))
        }
        ("io_uring", Availability::Unavailable(reason), "0") if reason.contains("switched off") => {
            Availability::Unavailable(format!("{reason} (by a sandbox: kernel.io_uring_disabled is 0)"))
        }
        (_, availability, _) => availability,
    }
}

/// Large enough to hold several blocks of any file system in each of its parts.
const SIZE_BYTES: u64 = 1 << 20;
/// The unit in which `st_blocks` counts (stat(2)).
const SECTOR_BYTES: u64 = 512;

impl Probe {
    /// An empty test file.
    fn fresh(&self) -> io::Result<File> {
        let _ = fs::remove_file(&self.target);
        File::create_new(&self.target)
    }

    /// A test file full of data that is on its device.
    fn full(&self) -> io::Result<File> {
        let file = self.fresh()?;
        file.write_all_at(self.data(), 0)?;
        file.sync_all()?;
        Ok(file)
    }

    fn data(&self) -> &[u8] {
        &self.bytes[..SIZE_BYTES as usize]
    }
}

fn reflink(probe: &Probe) -> Attempt {
    let (source, target) = (File::open(&probe.source)?, probe.fresh()?);
    let mut cloned = sys::clone_file(&source, &target);
    // Where files are cloned by their paths, the target must not exist.
    if let Ok(Support::Unavailable(_)) = cloned {
        let _ = fs::remove_file(&probe.target);
        if let by_path @ (Ok(Support::Available(())) | Err(_)) = sys::clone_path(&probe.source, &probe.target) {
            cloned = by_path;
        }
    }
    cloned?.required()?;
    let is_equal = fs::read(&probe.target)? == probe.bytes;
    require(is_equal, "accepted, but the copy has other bytes")?;
    let found = extents(&probe.target).ok().flatten();
    let shares = found.is_none_or(|found| found.shared_bytes >= SIZE_BYTES);
    require(shares, "accepted, but the copy shares no blocks")
}

fn holes(probe: &Probe) -> Attempt {
    let file = probe.fresh()?;
    let block = &probe.data()[..64 << 10];
    let last = SIZE_BYTES - block.len() as u64;
    file.write_all_at(block, 0)?;
    file.write_all_at(block, last)?;
    file.sync_all()?;
    let takes_less = allocated_bytes(&file)? < SIZE_BYTES;
    require(takes_less, "unwritten ranges take space")?;
    let reason = match sys::next_hole(&file, 0) {
        Ok(Support::Available(at)) if at < last => return Ok(()),
        Ok(Support::Available(_)) => "SEEK_HOLE does not find them".to_owned(),
        Ok(Support::Unavailable(reason)) => reason.to_owned(),
        Err(error) => format!("SEEK_HOLE fails: {error}"),
    };
    Err(Why::Found(format!("holes take no space, but {reason}")))
}

fn punch(probe: &Probe) -> Attempt {
    let file = probe.full()?;
    let before = allocated_bytes(&file)?;
    let (from, len) = (SIZE_BYTES / 4, SIZE_BYTES / 2);
    sys::punch_hole(&file, from, len)?.required()?;
    file.sync_all()?;
    let mut expected = probe.data().to_vec();
    expected[from as usize..(from + len) as usize].fill(0);
    require(
        fs::read(&probe.target)? == expected,
        "accepted, but the file does not read as zeros in the hole and as data around it",
    )?;
    let has_freed = allocated_bytes(&file)? + len / 2 <= before;
    require(has_freed, "accepted, but freed no space")
}

/// The shortest hole, in powers of two, that frees space where it begins at a multiple of itself.
fn smallest_hole(probe: &Probe) -> io::Result<Option<u64>> {
    let file = probe.full()?;
    let full = allocated_bytes(&file)?;
    let mut len = SECTOR_BYTES;
    while len < SIZE_BYTES {
        // Each at a place of its own, so that earlier holes do not count.
        sys::punch_hole(&file, len, len)?.required()?;
        file.sync_all()?;
        if allocated_bytes(&file)? < full {
            return Ok(Some(len));
        }
        len *= 2;
    }
    Ok(None)
}

fn fallocate(probe: &Probe) -> Attempt {
    let file = probe.fresh()?;
    sys::allocate(&file, 0, SIZE_BYTES)?.required()?;
    let has_allocated = allocated_bytes(&file)? >= SIZE_BYTES;
    require(has_allocated, "accepted, but allocated nothing")
}

fn residency(probe: &Probe) -> Attempt {
    let file = full_and_cached(probe)?;
    known_bytes(&file.resident()?)?;
    // Unless a FUSE program asks the kernel to keep pages, opening a file drops them.
    let kept = known_bytes(&cache::resident(&probe.target)?)?;
    require(kept > 0, "opening a file drops its cached pages")
}

fn drop_cache(probe: &Probe) -> Attempt {
    let file = full_and_cached(probe)?;
    known_bytes(&file.resident()?)?;
    let left = known_bytes(&file.drop_pages(|_| ControlFlow::Continue(()))?)?;
    require(left == 0, "accepted, but the file stays in memory")
}

/// A scratch file, all of it just read through this opening.
fn full_and_cached(probe: &Probe) -> Attempt<CachedFile> {
    drop(probe.full()?);
    let file = CachedFile::open(&probe.target)?;
    let resident = file.warm(&mut |_| ControlFlow::Continue(()))?;
    let is_cached = !matches!(resident, Resident::Known { resident_bytes: 0, .. });
    require(is_cached, "a file that was just read is not in the page cache").map(|()| file)
}

fn known_bytes(resident: &Resident) -> Attempt<u64> {
    match *resident {
        Resident::Known { resident_bytes, .. } => Ok(resident_bytes),
        Resident::Unknown(reason) => Err(Why::Found(reason.to_owned())),
    }
}

fn write_lease(probe: &Probe) -> Attempt {
    drop(probe.fresh()?);
    let file = sys::open(&probe.target, Opening::plain(Access::Overwrite))?.required()?;
    sys::take_lease(&file, LeaseKind::Exclusive)?.required()?;
    require(
        sys::lease_scope(&file)?.required()? != LeaseScope::Unknown,
        "a lease is not known to keep out all writers",
    )
}

fn allocated_bytes(file: &File) -> io::Result<u64> {
    Ok(files::allocated_bytes(&file.metadata()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_tried_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let tried = features(directory.path()).unwrap();
        let names: Vec<_> = tried.iter().map(|feature| (feature.name, feature.about)).collect();
        assert_eq!(names, Feature::all().collect::<Vec<_>>());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        for feature in tried {
            let can_punch = feature.name == "punch" && feature.availability == Availability::Available;
            assert_eq!(feature.smallest_hole_bytes.is_some(), can_punch, "{}", feature.name);
            let hole = feature.smallest_hole_bytes;
            let is_right = hole.is_none_or(|bytes| bytes.is_power_of_two() && bytes < SIZE_BYTES);
            assert!(is_right, "{hole:?}");
            assert_ne!(feature.availability.reason(), Some(""), "{}", feature.name);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_that_names_it() {
        let error = features(Path::new("/nonexistent/directory")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/directory"), "{error}");
    }

    #[test]
    fn the_reason_of_io_uring_names_the_switch_only_where_it_is_missing() {
        let available = explained("io_uring", Availability::Available);
        assert_eq!(available, Availability::Available);
        let other = Availability::Unavailable("why".to_owned());
        assert_eq!(explained("mmap", other.clone()), other);
    }
}
