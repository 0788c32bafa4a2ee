//! Whether a method does what its name says on a storage, found out by trying it.
//!
//! Flags are accepted and ignored, so a method that ran is not yet available: past the page cache means that the page
//! cache did not grow, and that nothing of the file stays resident; skipping holes, that a hole was skipped. Tried on files
//! of a megabyte that are removed again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Access, Opening, Support};

use super::cache::{self, Resident};
use crate::error::{Error, Result, full_text};
use crate::update::{Batch, Commit, Safety, commit};
use crate::{Comparer, Copier, Destination, Generator, Kernel, Reader, Tally, Transfer, Verdict, Writer};
use seekless_method::{CachePolicy, Method, Operation, Options, Setting};

/// Whether a method is to be had on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It ran, and did what its name says.
    Available,
    /// It did not, and why.
    Unavailable(String),
}

impl Availability {
    /// The reason, where it is not available.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::Unavailable(reason) => Some(reason),
        }
    }
}

/// A folder of a storage in which methods are tried. It removes its files when it is dropped.
///
/// ```
/// use seekless::method::{Operation, MECHANISMS, variants};
/// use seekless::{Probe, StorageFacts};
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// println!("{}", StorageFacts::of(folder)?.file_system);
/// let mut probe = Probe::new(folder)?;
/// for mechanism in MECHANISMS.iter().filter(|mechanism| mechanism.operation == Operation::Read) {
///     for method in variants(mechanism) {
///         match probe.availability(&method).reason() {
///             None => println!("{method}"),
///             Some(reason) => println!("{method}: not here: {reason}"),
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Probe {
    source: PathBuf,
    /// The same with a hole, made when it is needed.
    sparse: PathBuf,
    target: PathBuf,
    tried: HashMap<(Operation, &'static str, Options), Availability>,
}

/// Large enough that every mechanism does more than one call, small enough to try them all in a second.
const PROBE_BYTES: u64 = (1 << 20) + 123;
/// The block that methods are tried with; what the block itself does is seen when it is measured.
const PROBE_BLOCK_BYTES: u64 = 64 << 10;

impl Probe {
    /// Makes the test file in `folder`, which must exist and be writable.
    ///
    /// # Errors
    /// The system's, where the file cannot be written.
    pub fn new(folder: &Path) -> Result<Self> {
        let name = |part: &str| folder.join(format!("seekless-probe-{}-{part}", std::process::id()));
        let probe = Self {
            source: name("source"),
            sparse: name("sparse"),
            target: name("target"),
            tried: HashMap::new(),
        };
        let method = Method::known("write/sync");
        let _ = fs::remove_file(&probe.source);
        let _ = fs::remove_file(&probe.sparse);
        Writer::prepare(&method)?.write(&probe.source, Destination::New, PROBE_BYTES, &Generator::new(1))?;
        Ok(probe)
    }

    /// Whether a method is available, whatever its block size.
    pub fn availability(&mut self, method: &Method) -> Availability {
        let options = method
            .options()
            .with(Setting::block_bytes(None))
            .with(Setting::depth(None));
        let key = (method.operation(), method.mechanism().name, options);
        if let Some(known) = self.tried.get(&key) {
            return known.clone();
        }
        let _ = fs::remove_file(&self.target);
        let found = match self.attempt(method) {
            Ok(None) => Availability::Available,
            Ok(Some(reason)) | Err(Error::Unavailable { reason, .. }) => Availability::Unavailable(reason),
            Err(Error::System { action, source, .. }) => Availability::Unavailable(format!("{action}: {source}")),
            Err(error) => Availability::Unavailable(full_text(&error)),
        };
        self.tried.insert(key, found.clone());
        found
    }

    /// Runs the method on the test file. Gives the reason where it ran but did not do what its name says.
    fn attempt(&self, method: &Method) -> Result<Option<String>> {
        let options = method.options();
        let smaller = options
            .with(Setting::block_bytes(options.block_bytes().map(|_| PROBE_BLOCK_BYTES)))
            .with(Setting::depth(options.depth().map(|_| 2)));
        let method = &Method::new(method.mechanism(), smaller).unwrap_or(*method);
        let source = if method.options().holes_skipped() {
            self.make_sparse()?;
            &self.sparse
        } else {
            &self.source
        };
        let past_cache = method.options().cache() != CachePolicy::Cached;
        if past_cache && method.operation() != Operation::Write && !is_empty(&cache::drop_file(source)?) {
            return Ok(Some(format!(
                "{} means nothing here: the file stays in memory",
                method.options().cache().name()
            )));
        }
        match method.operation() {
            Operation::Read => read(method, source),
            Operation::Write | Operation::Copy => self.write(method, source),
            Operation::Compare => self.compare(method),
            Operation::Update => self.update(method),
        }
    }

    /// Makes a file that begins and ends with data and has a hole between.
    fn make_sparse(&self) -> Result<()> {
        if self.sparse.exists() {
            return Ok(());
        }
        let mut bytes = vec![0; PROBE_BLOCK_BYTES as usize];
        Generator::new(1).fill(0, &mut bytes);
        let made = File::create_new(&self.sparse).and_then(|file| {
            file.write_all_at(&bytes, 0)?;
            file.write_all_at(&bytes, PROBE_BYTES - PROBE_BLOCK_BYTES)
        });
        made.map_err(|error| Error::system(&self.sparse, "making a file with a hole", error))
    }

    /// Compares the file with its like.
    fn compare(&self, method: &Method) -> Result<Option<String>> {
        let (writer, generator) = (Method::known("write/sync"), Generator::new(1));
        Writer::prepare(&writer)?.write(&self.target, Destination::New, PROBE_BYTES, &generator)?;
        let past_cache = method.options().cache() != CachePolicy::Cached;
        if past_cache {
            cache::drop_file(&self.target)?;
        }
        let comparison = Comparer::prepare(method)?.compare(&self.source, &self.target)?;
        if comparison.verdict != Verdict::Equal {
            return Ok(Some(format!("it found equal files to be {:?}", comparison.verdict)));
        }
        let stayed = !is_empty(&cache::resident(&self.source)?) || !is_empty(&cache::resident(&self.target)?);
        if past_cache && stayed {
            return Ok(Some("it was accepted, and the page cache used all the same".to_owned()));
        }
        Ok(None)
    }

    /// Updates a few places of a file.
    fn update(&self, method: &Method) -> Result<Option<String>> {
        let (writer, generator) = (Method::known("write/sync"), Generator::new(1));
        Writer::prepare(&writer)?.write(&self.target, Destination::New, PROBE_BYTES, &generator)?;
        let mut batch = Batch::new();
        for offset in (0..PROBE_BYTES - 4).step_by(PROBE_BYTES as usize / 7) {
            batch.push(offset, b"seek")?;
        }
        let how = Commit {
            method: (*method).into(),
            safety: Safety::InPlace,
            // The file is the probe's own.
            grows: false,
            is_unsafe: true,
        };
        commit(&self.target, &batch.resolve()?, &how)?;
        if method.options().cache() == CachePolicy::Direct && !refuses_misaligned(&self.target) {
            return Ok(Some(
                "it was accepted, and written through the page cache all the same".to_owned(),
            ));
        }
        Ok(None)
    }

    /// Writes or copies. The counter of dirtied pages is the whole system's, so a busy one is asked again.
    fn write(&self, method: &Method, source: &Path) -> Result<Option<String>> {
        for _ in 1..ATTEMPTS {
            if self.write_once(method, source)?.is_none() {
                return Ok(None);
            }
            let _ = fs::remove_file(&self.target);
            std::thread::sleep(PAUSE);
        }
        self.write_once(method, source)
    }

    fn write_once(&self, method: &Method, source: &Path) -> Result<Option<String>> {
        let dirtied_before = pages_dirtied();
        if method.operation() == Operation::Copy {
            let transfer = Copier::prepare(method)?.copy(source, &self.target, Destination::New)?;
            if let Some(reason) = why_holes_are_not_skipped(method, transfer) {
                return Ok(Some(reason));
            }
            if method.options().holes_skipped() && allocated_bytes(&self.target)? >= PROBE_BYTES {
                return Ok(Some("the copy has no holes where its source has some".to_owned()));
            }
        } else {
            let generator = Generator::new(1);
            Writer::prepare(method)?.write(&self.target, Destination::New, PROBE_BYTES, &generator)?;
        }
        let dirtied = pages_dirtied()
            .zip(dirtied_before)
            .map(|(after, before)| after.saturating_sub(before));
        let dirtied_bytes = dirtied.unwrap_or(0) * sys::page_bytes() as u64;
        let policy = method.options().cache();
        // The residency afterwards says nothing on btrfs: it writes through the cache and then drops it. Who insists on
        // alignment goes to the device; who does not is asked whether pages were made dirty (a loop's backing file is too).
        if policy == CachePolicy::Direct && dirtied_bytes > PROBE_BYTES / 2 && !refuses_misaligned(&self.target) {
            return Ok(Some(
                "it was accepted, and written through the page cache all the same".to_owned(),
            ));
        }
        if policy == CachePolicy::DontCache {
            sync(&self.target)?;
        }
        if policy != CachePolicy::Cached && !is_empty(&cache::resident(&self.target)?) {
            return Ok(Some(
                "it was accepted, and the pages stay in the cache all the same".to_owned(),
            ));
        }
        if policy != CachePolicy::Cached
            && method.operation() == Operation::Copy
            && !is_empty(&cache::resident(source)?)
        {
            return Ok(Some(
                "it was accepted, and the source read through the page cache all the same".to_owned(),
            ));
        }
        Ok(None)
    }
}

fn read(method: &Method, source: &Path) -> Result<Option<String>> {
    let tally = Tally::new(Kernel::Count);
    let transfer = Reader::prepare(method)?.read(source, &tally)?;
    if let Some(reason) = why_holes_are_not_skipped(method, transfer) {
        return Ok(Some(reason));
    }
    if method.options().cache() != CachePolicy::Cached && !is_empty(&cache::resident(source)?) {
        return Ok(Some("it was accepted, and the page cache used all the same".to_owned()));
    }
    if method.options().holes_skipped() {
        let plain = Tally::new(Kernel::Count);
        Reader::prepare(&Method::known("read/sync"))?.read(source, &plain)?;
        if tally.answer() != plain.answer() {
            return Ok(Some("the file system tells of holes where data is".to_owned()));
        }
    }
    Ok(None)
}

fn why_holes_are_not_skipped(method: &Method, transfer: Transfer) -> Option<String> {
    let is_ignored = method.options().holes_skipped() && transfer.hole_bytes == 0;
    is_ignored.then(|| "the file system tells of no holes, so that all bytes are read".to_owned())
}

fn allocated_bytes(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).map_err(|error| Error::system(path, "looking at it", error))?;
    Ok(metadata.blocks() * 512)
}

/// How often a write that seems to use the page cache is tried, and how long apart.
const ATTEMPTS: u32 = 4;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(3);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.source);
        let _ = fs::remove_file(&self.sparse);
        let _ = fs::remove_file(&self.target);
    }
}

/// The file's last page may be resident all the same: setting an exact size behind direct I/O zeroes its rest.
const STRAY_PART: f64 = 0.01;

/// Whether nothing of a file is resident, or it cannot be known: then the flag is believed.
fn is_empty(resident: &Resident) -> bool {
    resident.part().is_none_or(|part| part <= STRAY_PART)
}

/// Whether a direct write of a few bytes is refused, as it is where it would go to the device.
fn refuses_misaligned(path: &Path) -> bool {
    let opening = Opening {
        access: Access::Overwrite,
        direct: true,
        write_through: false,
    };
    let Ok(Support::Available(file)) = sys::open(path, opening) else {
        return false;
    };
    let Ok(buffer) = sys::Buffer::new(4096, 4096) else {
        return false;
    };
    let written = file.write_at(&buffer[..100], 0);
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidInput)
}

/// Pages that the whole system has made dirty since it started (Linux).
fn pages_dirtied() -> Option<u64> {
    let counters = fs::read_to_string("/proc/vmstat").ok()?;
    counters
        .lines()
        .find_map(|line| line.strip_prefix("nr_dirtied ")?.parse().ok())
}

fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::system(path, "opening it", error))?;
    match sys::sync_file_system(&file) {
        Ok(Support::Available(())) => Ok(()),
        _ => sys::sync(&file).map_err(|error| Error::system(path, "fsync", error)),
    }
}
