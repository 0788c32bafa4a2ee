//! Facts for plans: the costs of calls and bytes on a storage, and properties of its files. Only this module measures
//! for plans.
//!
//! A measurement takes at most 50 ms and 8 MiB, unless the device is slower than a disk, and is valid for a day, also in
//! other processes ([`MeasuredFacts`]), or for a minute if it depends on a file. Costs that are not measured are assumed,
//! with bounds that hold for the kind of device. Measured values take precedence over claims of the system, and claims over
//! assumptions.

mod costs;
mod device;
mod file;
mod kind;
mod limits;
mod measured;
mod memory;
mod planner;
mod process;
#[cfg(feature = "profile")]
mod sampled;
mod seeks;
#[cfg(feature = "profile")]
mod store;
mod timing;

use std::fs::{self, File, Metadata};
#[cfg(not(feature = "profile"))]
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use seekless_method::Durability;
use seekless_sys::{self as sys, Directory, FileSystemTrait, Support, lock_mutex};

use crate::error::{Error, Result};
use crate::file_range::FileRange;
use crate::files::{directory_of, number_text};
use crate::log;
#[cfg(feature = "profile")]
use crate::profile::StorageProfile;
use crate::storage::cache;
use crate::storage::device::disk_directory;

pub use costs::Costs;
pub(crate) use device::Reads;
pub use file::FileFacts;
pub(crate) use file::{has_holes, shares_blocks};
use kind::AssumedDevice;
pub use limits::DeviceLimits;
pub use measured::MeasuredFacts;
pub use planner::Planner;
pub use process::{ProcessFacts, prepares_for};
pub(crate) use seeks::HEAD_MOVES_FROM_NS;
pub use seeks::{SeekFacts, Seeks};

/// The facts for planning a read, write, copy or comparison.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The costs of calls, bytes and waits.
    pub costs: Costs,
    /// The file, and the file that it is copied to or compared with; if there is only one file, twice the same.
    pub files: [FileFacts; 2],
    /// The limits of this process.
    pub process: ProcessFacts,
    /// Memory available without swapping.
    pub memory_bytes: u64,
    /// Free space on the storage of the target.
    pub free_bytes: u64,
    /// Whether a copy can share the blocks of its source.
    pub can_share: bool,
    /// What the control group of this process allows on the device.
    pub limits: DeviceLimits,
    /// The time that the fastest method is expected to take for all files of the plan, in nanoseconds.
    pub expected_ns: f64,
    /// The profiles and measurements that the plan may use, unless they are those of the process.
    pub planner: Option<Planner<'a>>,
    /// What earlier runs of the lab measured on the storage.
    #[cfg(feature = "profile")]
    pub profile: Option<&'a StorageProfile>,
    #[cfg(not(feature = "profile"))]
    pub(crate) profile: PhantomData<&'a ()>,
}

/// Twice the time that measuring may take.
const MEASURED_FROM_NS: f64 = 100e6;

impl<'a> Facts<'a> {
    /// Assumed facts, if only the files and the limits of the process are known.
    #[must_use]
    pub fn assumed(files: [FileFacts; 2], process: ProcessFacts) -> Self {
        Self {
            costs: Costs::ASSUMED,
            files,
            process,
            memory_bytes: u64::MAX,
            free_bytes: u64::MAX,
            can_share: false,
            limits: DeviceLimits::NONE,
            expected_ns: 0.0,
            planner: None,
            #[cfg(feature = "profile")]
            profile: None,
            #[cfg(not(feature = "profile"))]
            profile: PhantomData,
        }
    }

    /// What the system reports about an open file, its device and this machine.
    pub(crate) fn of(path: &Path, file: &File, metadata: &Metadata) -> Self {
        let found = FileFacts::of(metadata, Some(file)).with_alignment(file);
        let mut facts = Self::assumed([found; 2], ProcessFacts::without_rings());
        facts.claims(path);
        facts
    }

    /// The same for a part. Plans do not bypass the page cache for an open file.
    pub(crate) fn of_part(part: &FileRange<'_>, file: &File, metadata: &Metadata) -> Self {
        let mut facts = Self::of(&part.path_to_measure(), file, metadata);
        if part.is_open() {
            facts.files = facts.files.map(|found| FileFacts {
                direct_alignment: None,
                ..found
            });
        }
        facts
    }

    /// The same for a target: an open file, or a file to create.
    ///
    /// # Errors
    /// The system's, if it cannot be examined.
    pub(crate) fn of_target(part: &FileRange<'_>) -> Result<Self> {
        if part.is_open() {
            let (file, metadata) = part.open()?;
            return Ok(Self::of_part(part, &file, &metadata));
        }
        Self::of_new_file(directory_of(part.path()))
    }

    /// The same, for a plan with these profiles and threads.
    pub(crate) fn with(mut self, planner: Planner<'a>) -> Self {
        self.planner = Some(planner);
        self.process.processors = self.process.processors.min(planner.threads_max).max(1);
        self
    }

    /// What is known of many files at or below a path.
    ///
    /// # Errors
    /// The system's, if the path cannot be examined.
    pub(crate) fn of_many(path: &Path, process: &ProcessFacts) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
        let found = FileFacts::of(&metadata, None);
        let mut facts = Self::assumed([found; 2], *process);
        facts.claims(path);
        #[cfg(feature = "profile")]
        {
            facts.profile = Planner::default().profiles.of_device(path, found.device);
        }
        Ok(facts)
    }

    /// Measures the costs of opening files at or below a path, and of memory. If that fails, they stay assumed.
    pub(crate) fn measure_opening(&mut self, path: &Path) {
        // Opens the directory of a file, because opening a FIFO would block.
        let directory = if path.is_dir() { path } else { directory_of(path) };
        let (measured, costs) = (self.planner.unwrap_or_default().measured, &mut self.costs);
        let of_opening = File::open(directory).and_then(|opened| {
            measured.opening(directory, self.files[0].device, costs)?;
            measured.memory(&opened, self.files[0], costs)
        });
        if let Err(error) = of_opening {
            log::debug!(%error, "memory costs are assumed");
        }
    }

    /// The same for a file to create in a directory, found by an unnamed file if possible.
    ///
    /// # Errors
    /// The system's, if the directory cannot be examined.
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

    /// Asks the profile of the storage of a path, if that takes little of the time of a task on one device: by the costs, that of the
    /// fastest method. Returns whether one was found.
    #[cfg(feature = "profile")]
    pub(crate) fn ask(&mut self, path: &Path, bytes: u64, durability: Durability) -> bool {
        let [one, other] = self.files;
        let absent = |file: &FileFacts| bytes.min(file.allocated_bytes) as f64 * (1.0 - file.resident_part());
        let absent_bytes = absent(&one).max(absent(&other));
        let costs = &self.costs;
        let mut expected_ns = costs.map_byte_ns.value * bytes as f64 + costs.fetch_byte_ns.value * absent_bytes;
        if durability != Durability::None {
            expected_ns += costs.flush_ns.value + costs.device_byte_ns.value * bytes as f64;
        }
        expected_ns *= self.process.files_of_a_plan as f64;
        self.expected_ns = expected_ns;
        let profiles = self.planner.unwrap_or_default().profiles;
        if profiles.pays(expected_ns) {
            if one.device == other.device {
                self.profile = profiles.of_device(path, one.device);
            }
            if self.profile.is_none() {
                self.read_kept(path);
            }
        }
        self.profile.is_some()
    }

    /// Nothing was measured earlier.
    #[cfg(not(feature = "profile"))]
    #[expect(
        clippy::unused_self,
        clippy::needless_pass_by_ref_mut,
        reason = "with profiles, it adds one"
    )]
    pub(crate) fn ask(&mut self, _path: &Path, _bytes: u64, _durability: Durability) -> bool {
        false
    }

    /// Adds what the system reports about the device of a path, with the costs of its kind, and about memory.
    pub(crate) fn claims(&mut self, path: &Path) {
        let (limits, device) = told_of_device(self.files[0].device);
        self.limits = limits;
        let system = sys::file_system(path).ok();
        self.costs = match &system {
            Some(system) if system.is_network || system.has(FileSystemTrait::ServedByProgram) => AssumedDevice::Remote,
            _ => device,
        }
        .costs();
        if let Some(memory) = cache::memory() {
            self.memory_bytes = memory.available_bytes;
        }
        if let Some(system) = system {
            self.free_bytes = system.free_bytes;
        }
    }

    /// Whether what follows takes so long that measuring costs little of it.
    pub(crate) fn pays_measuring(&self) -> bool {
        self.expected_ns >= MEASURED_FROM_NS
    }

    /// Measures the costs of reading the first file, from the page cache and, unless all of it is there, from the
    /// device. If that fails, they stay assumed.
    pub(crate) fn measure_reading(&mut self, path: &Path, file: &File) {
        let found = self.files[0];
        let measured = self.planner.unwrap_or_default().measured;
        self.read_kept(path);
        let of_memory = measured.memory(file, found, &mut self.costs);
        let of_opening = measured.opening(path, found.device, &mut self.costs);
        let of_device = if found.resident_part() < 1.0 {
            measured.reads(path, found, &mut self.costs)
        } else {
            Ok(())
        };
        if let Err(error) = of_memory.and(of_opening).and(of_device) {
            log::debug!(path = %path.display(), %error, "read costs are assumed");
        }
    }

    /// Measures the costs of writing in the directory of a file. Reading is measured afterwards, because it may give
    /// better figures for the page cache. If measuring fails, or the file is open and its directory therefore unknown,
    /// the costs stay assumed.
    pub(crate) fn measure_writing(&mut self, part: &FileRange<'_>, durability: Durability) {
        if part.is_open() {
            return;
        }
        let directory = directory_of(part.path());
        let measured = self.planner.unwrap_or_default().measured;
        self.read_kept(directory);
        let costs = &mut self.costs;
        let of_writing = Directory::open(directory).and_then(|opened| {
            let flushes = matches!(durability, Durability::WriteThrough | Durability::FdatasyncEach);
            measured.writing(&opened, flushes, costs)?;
            measured.new_files(&opened, costs)
        });
        if let Err(error) = of_writing {
            log::debug!(directory = %directory.display(), %error, "write costs are assumed");
        }
    }

    /// Adds the costs that are known of the storage of a path: by this process or, unless plans use no profiles, by earlier ones.
    fn read_kept(&mut self, path: &Path) {
        let (planner, device) = (self.planner.unwrap_or_default(), self.files[0].device);
        #[cfg(feature = "profile")]
        if planner.profiles.are_found() {
            planner.measured.read_kept(path, device);
        }
        #[cfg(not(feature = "profile"))]
        let _ = path;
        planner.measured.known(device, &mut self.costs);
    }
}

/// The limits and the kind of the device with a number, as they were when a plan first asked.
fn told_of_device(number: u64) -> (DeviceLimits, AssumedDevice) {
    static KNOWN: Mutex<Vec<(u64, (DeviceLimits, AssumedDevice))>> = Mutex::new(Vec::new());
    let mut known = lock_mutex(&KNOWN);
    if let Some((_, told)) = known.iter().find(|(known, _)| *known == number) {
        return *told;
    }
    let disk = disk_directory(Path::new("/sys"), &number_text(number));
    let told = disk.map_or((DeviceLimits::NONE, AssumedDevice::Unknown), |disk| {
        (DeviceLimits::of(&disk), AssumedDevice::of(&disk))
    });
    known.push((number, told));
    told
}

/// A figure with bounds and a source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fact {
    /// The figure.
    pub value: f64,
    /// The lower bound; for a measured figure, the smallest measurement.
    pub low: f64,
    /// The upper bound; for a measured figure, the largest measurement.
    pub high: f64,
    /// Its source.
    pub source: Source,
}

/// The source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured, at this time.
    Measured(Instant),
    /// Measured by earlier runs of the lab.
    Profile,
    /// Reported by the system.
    Claimed,
    /// Not measured; it holds for most storages.
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

    /// A figure that the system reports.
    #[must_use]
    pub const fn claimed(value: f64) -> Self {
        Self {
            source: Source::Claimed,
            ..Self::assumed(value, value, value)
        }
    }

    /// A figure that was measured, without bounds.
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
        matches!(self.source, Source::Measured(_) | Source::Profile)
    }

    /// The figure and its bounds, times `part`.
    fn scaled(self, part: f64) -> Self {
        Self {
            value: self.value * part,
            low: self.low * part,
            high: self.high * part,
            ..self
        }
    }
}
