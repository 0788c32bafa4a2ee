//! What is known before a plan is made: what calls and bytes cost on a storage, and what its files are like. Nothing else
//! measures for a plan.
//!
//! A measurement takes at most 50 ms and 8 MiB where the device is no slower than a disk, and holds for a minute of the
//! process. What cannot be measured, or need not be, is assumed between bounds that hold for the storages there are. What was
//! measured beats what the system claims, and that beats what is assumed.

mod costs;
mod device;
mod file;
mod kept;
mod memory;
mod process;
mod seeks;

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use seekless_sys::{self as sys, Directory, Support};

use crate::error::{Error, Result};
use crate::files::{directory_of, number_text};
use crate::log;
use crate::part::Part;

pub use costs::Costs;
pub(crate) use costs::costs_in;
pub use file::FileFacts;
pub(crate) use file::{has_holes, shares_blocks};
pub use process::ProcessFacts;
pub use seeks::Seeks;

/// What the plan of a read, a write, a copy or a comparison rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// What calls, bytes and waiting cost.
    pub costs: Costs,
    /// What the file is like, and the one that it is copied to or compared with; the same twice where there is one.
    pub files: [FileFacts; 2],
    /// What reading the two in turn costs; `None` where it was not measured.
    pub seeks: Option<Seeks>,
    /// What this process may have.
    pub process: ProcessFacts,
    /// What the kernel reads ahead of a sequential reader.
    pub read_ahead_bytes: u64,
    /// Memory that can be had without swapping.
    pub memory_bytes: u64,
    /// Space that is free where is written.
    pub free_bytes: u64,
    /// Whether a copy can share the blocks of its source.
    pub can_share: bool,
}

/// What the kernel reads ahead unless it was told otherwise.
const READ_AHEAD_BYTES: u64 = 128 << 10;

impl Facts {
    /// What is taken where nothing is known but what the files are like, and what the process may have.
    #[must_use]
    pub fn assumed(files: [FileFacts; 2], process: ProcessFacts) -> Self {
        Self {
            costs: Costs::ASSUMED,
            files,
            seeks: None,
            process,
            read_ahead_bytes: READ_AHEAD_BYTES,
            memory_bytes: u64::MAX,
            free_bytes: u64::MAX,
            can_share: false,
        }
    }

    /// What the system tells of an open file, its device and this machine.
    pub(crate) fn of(path: &Path, file: &File, metadata: &Metadata) -> Self {
        let found = FileFacts::of(metadata, Some(file)).with_alignment(file);
        let mut facts = Self::assumed([found; 2], ProcessFacts::without_rings());
        facts.claims(path);
        facts
    }

    /// The same of a part. One that is open is not had past the page cache but by methods that are named.
    pub(crate) fn of_part(part: &Part<'_>, file: &File, metadata: &Metadata) -> Self {
        let mut facts = Self::of(&part.path_to_measure(), file, metadata);
        if part.is_open() {
            facts.files = facts.files.map(|found| FileFacts {
                direct_alignment: None,
                ..found
            });
        }
        facts
    }

    /// The same of what is written to: a file that is open, or one that is made.
    ///
    /// # Errors
    /// The system's, where it cannot be looked at.
    pub(crate) fn of_target(part: &Part<'_>) -> Result<Self> {
        if part.is_open() {
            let (file, metadata) = part.open()?;
            return Ok(Self::of_part(part, &file, &metadata));
        }
        Self::of_new_file(directory_of(part.path()))
    }

    /// What opening and reading many files at or below a path costs, measured but for the device.
    ///
    /// # Errors
    /// The system's, where the path cannot be looked at.
    pub(crate) fn of_many(path: &Path) -> Result<Self> {
        let failed = |error| Error::system(path, "stat", error);
        // Of a file its directory is opened: opening a FIFO would wait.
        let directory = if path.is_dir() { path } else { directory_of(path) };
        let opened = File::open(directory).map_err(failed)?;
        let found = FileFacts::of(&opened.metadata().map_err(failed)?, None);
        let mut facts = Self::assumed([found; 2], ProcessFacts::without_rings());
        facts.claims(directory);
        let costs = &mut facts.costs;
        if let Err(error) = costs::of_opening(directory, costs).and_then(|()| memory::measure(&opened, found, costs)) {
            log::debug!(%error, "memory costs are assumed");
        }
        Ok(facts)
    }

    /// The same of a file that is to be made in a directory, told by one without a name where there can be such a one.
    ///
    /// # Errors
    /// The system's, where the directory cannot be looked at.
    pub(crate) fn of_new_file(directory: &Path) -> Result<Self> {
        let metadata = fs::metadata(directory);
        let metadata = metadata.map_err(|error| Error::system(directory, "stat", error))?;
        let mut found = FileFacts {
            device: metadata.dev(),
            ..FileFacts::default()
        };
        let made = Directory::open(directory).and_then(|directory| sys::unnamed_file(&directory));
        if let Ok(Support::Available((file, _))) = made {
            found = found.with_alignment(&file);
        }
        let mut facts = Self::assumed([found; 2], ProcessFacts::without_rings());
        facts.claims(directory);
        Ok(facts)
    }

    /// Adds what the system tells of the device behind a path, and of this machine's memory.
    pub(crate) fn claims(&mut self, path: &Path) {
        // A profile of the storage would come first, here and in what is measured below.
        let device = number_text(self.files[0].device);
        let told = fs::read_to_string(format!("/sys/class/bdi/{device}/read_ahead_kb"));
        if let Some(kib) = told.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
            self.read_ahead_bytes = kib << 10;
        }
        if let Ok(Support::Available(memory)) = sys::memory() {
            self.memory_bytes = memory.available_bytes;
        }
        if let Ok(system) = sys::file_system(path) {
            self.free_bytes = system.free_bytes;
        }
    }

    /// Measures what reading the first file costs: of the page cache, and of the device where not all is there. What cannot be
    /// measured stays assumed.
    pub(crate) fn measure_reading(&mut self, path: &Path, file: &File) {
        let found = self.files[0];
        let of_memory = memory::measure(file, found, &mut self.costs);
        let of_device = if found.resident_part() < 1.0 {
            device::measure(path, found.bytes, &mut self.costs)
        } else {
            Ok(())
        };
        if let Err(error) = of_memory.and(of_device) {
            log::debug!(path = %path.display(), %error, "read costs are assumed");
        }
    }

    /// Measures what writing costs beside a file, before reading, which may tell more of the page cache. What cannot be
    /// measured stays assumed; so it does where the file is open, and who knows in which directory.
    pub(crate) fn measure_writing(&mut self, part: &Part<'_>) {
        if part.is_open() {
            return;
        }
        let directory = directory_of(part.path());
        match Directory::open(directory).and_then(|directory| costs_in(&directory, true)) {
            Ok(costs) => self.costs = costs,
            Err(error) => log::debug!(directory = %directory.display(), %error, "write costs are assumed"),
        }
    }
}

/// A figure, where it comes from, and between which bounds it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fact {
    /// The figure.
    pub value: f64,
    /// The lower bound: of what is measured, the least that was found.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Where it comes from.
    pub source: Source,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured, and when.
    Measured(Instant),
    /// The system says so.
    Claimed,
    /// It holds for most storages.
    Assumed,
}

impl Fact {
    /// A figure that was not measured.
    #[must_use]
    pub const fn assumed(low: f64, value: f64, high: f64) -> Self {
        Self {
            value,
            low,
            high,
            source: Source::Assumed,
        }
    }

    /// A figure that the system tells.
    #[must_use]
    pub const fn claimed(value: f64) -> Self {
        Self {
            source: Source::Claimed,
            ..Self::assumed(value, value, value)
        }
    }

    /// A figure that was measured exactly.
    #[must_use]
    pub fn measured(value: f64) -> Self {
        Self::between(value, value, value)
    }

    fn between(low: f64, value: f64, high: f64) -> Self {
        Self {
            source: Source::Measured(Instant::now()),
            ..Self::assumed(low, value, high)
        }
    }

    /// Whether it was measured.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        matches!(self.source, Source::Measured(_))
    }

    /// This part of it.
    fn scaled(self, part: f64) -> Self {
        Self {
            value: self.value * part,
            low: self.low * part,
            high: self.high * part,
            ..self
        }
    }
}
