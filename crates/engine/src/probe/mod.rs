//! Tests whether a method does what its name says on a storage.
//!
//! File systems may accept flags and ignore them, so a method that ran is not necessarily available. To bypass the page
//! cache, a method must not make it grow or leave the file resident; to skip holes, it must skip a hole. Test files
//! have a megabyte and are removed.

mod features;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use seekless_sys::{self as sys, Access, Opening, Support};

use crate::compare::{Comparer, Verdict};
use crate::copy::Copier;
use crate::error::{Error, Result, full_text};
use crate::files;
use crate::plan;
use crate::read::Reader;
use crate::scan::{ScanFile, Scanner};
use crate::storage::cache::{self, Resident};
use crate::transfer::{Destination, Transfer};
use crate::update::{Batch, Commit, commit};
use crate::write::Writer;
use crate::{Chunk, Consumer};
use seekless_method::{CachePolicy, Method, Operation, Options, Setting};

pub use features::{Feature, features};

/// Whether a method is available on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It ran, and did what its name says.
    Available,
    /// It did not, and why.
    Unavailable(String),
}

impl Availability {
    /// For a failed system call, only the action and the reason, because the test file's name is of no interest.
    fn of(attempt: Attempt) -> Self {
        match attempt {
            Ok(()) => Self::Available,
            Err(Why::Found(reason) | Why::Failed(Error::Unavailable { reason, .. })) => Self::Unavailable(reason),
            Err(Why::Failed(Error::System { action, source, .. })) => {
                Self::Unavailable(format!("cannot {action}: {source}"))
            }
            Err(Why::Failed(error)) => Self::Unavailable(full_text(&error)),
        }
    }

    /// The reason, if it is not available.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available => None,
            Self::Unavailable(reason) => Some(reason),
        }
    }
}

/// Tests methods in a directory. Dropping it removes its files.
///
/// ```
/// use seekless_engine::method::{Operation, MECHANISMS, variants};
/// use seekless_engine::{Probe, StorageFacts};
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// println!("{}", StorageFacts::of(directory)?.file_system);
/// let mut probe = Probe::new(directory)?;
/// for mechanism in MECHANISMS.iter().filter(|mechanism| mechanism.operation == Operation::Read) {
///     for method in variants(mechanism) {
///         match probe.availability(&method).reason() {
///             None => println!("{method}"),
///             Some(reason) => println!("{method}: not available here: {reason}"),
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Probe {
    /// The content of the test files.
    bytes: Vec<u8>,
    source: PathBuf,
    /// The same with a hole, made when it is needed.
    sparse: PathBuf,
    target: PathBuf,
    tried: HashMap<(Operation, &'static str, Options), Availability>,
}

/// Large enough that every mechanism makes more than one call, small enough to test all methods in a second.
const PROBE_BYTES: u64 = (1 << 20) + 123;
/// The block for tests; other blocks are not tested, only measured.
const PROBE_BLOCK_BYTES: u64 = 64 << 10;
/// Where the sparse file has its hole: all but a block at each end.
const HOLE: Range<usize> = PROBE_BLOCK_BYTES as usize..(PROBE_BYTES - PROBE_BLOCK_BYTES) as usize;

impl Probe {
    /// Creates the test file in `directory`, which must exist and be writable.
    ///
    /// # Errors
    /// The system's, if the file cannot be written.
    pub fn new(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref();
        Self::between(directory, directory)
    }

    /// Tests copies from a directory to another: what is written is there.
    ///
    /// # Errors
    /// As [`Probe::new`].
    pub fn between(directory: &Path, to: &Path) -> Result<Self> {
        let name = |part: &str| {
            let directory = if part == "target" { to } else { directory };
            directory.join(format!("seekless-probe-{}-{part}", std::process::id()))
        };
        let probe = Self {
            bytes: incompressible(PROBE_BYTES),
            source: name("source"),
            sparse: name("sparse"),
            target: name("target"),
            tried: HashMap::new(),
        };
        let _ = fs::remove_file(&probe.source);
        let _ = fs::remove_file(&probe.sparse);
        probe.fill(&probe.source, &plan::usual(Operation::Write))?;
        Ok(probe)
    }

    /// Creates a test file by a method that writes.
    fn fill(&self, path: &Path, method: &Method) -> Result<Transfer> {
        Writer::prepare(method)?.write(path, Destination::New, PROBE_BYTES, &self.bytes.as_slice())
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
        let found = Availability::of(self.attempt(method));
        self.tried.insert(key, found.clone());
        found
    }

    /// Runs the method on the test file.
    fn attempt(&self, method: &Method) -> Attempt {
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
        let reads_past_cache = is_past_cache(method) && method.operation() != Operation::Write;
        if reads_past_cache && !is_empty(&cache::drop_file(source)?) {
            let policy = method.options().cache().name();
            return Err(Why::Found(format!(
                "{policy} has no effect here: the file stays in memory"
            )));
        }
        match method.operation() {
            Operation::Read => self.read(method, source),
            Operation::Write | Operation::Copy => self.write(method, source),
            Operation::Compare => self.compare(method),
            Operation::Update => self.update(method),
            Operation::Scan => self.scan(method, source),
        }
    }

    fn read(&self, method: &Method, source: &Path) -> Attempt {
        let skips_holes = method.options().holes_skipped();
        let mut bytes = self.bytes.clone();
        if skips_holes {
            bytes[HOLE].fill(0);
        }
        let against = Against {
            bytes: &bytes,
            is_equal: AtomicBool::new(true),
        };
        let transfer = Reader::prepare(method)?.read(source, &against)?;
        require_holes_skipped(method, transfer)?;
        require_empty(method, source, READ_BY_CACHE)?;
        let tells_right = !skips_holes || against.is_equal.into_inner();
        require(tells_right, "the file system reports holes where there is data")
    }

    /// Reads the file several times, as if it were several files.
    fn scan(&self, method: &Method, source: &Path) -> Attempt {
        let against = Against {
            bytes: &self.bytes,
            is_equal: AtomicBool::new(true),
        };
        let file = ScanFile {
            path: source,
            bytes: PROBE_BYTES,
            consumer: &against,
        };
        Scanner::prepare(method)?.scan(&[file; 4])?;
        require(against.is_equal.into_inner(), "it read other bytes than were written")
    }

    /// Makes a file that begins and ends with data and has a hole between.
    fn make_sparse(&self) -> Result<()> {
        if self.sparse.exists() {
            return Ok(());
        }
        let made = File::create_new(&self.sparse).and_then(|file| {
            file.write_all_at(&self.bytes[..HOLE.start], 0)?;
            file.write_all_at(&self.bytes[HOLE.end..], HOLE.end as u64)
        });
        made.map_err(|error| Error::system(&self.sparse, "create a file with a hole", error))
    }

    /// Compares the file with an equal one.
    fn compare(&self, method: &Method) -> Attempt {
        self.fill(&self.target, &plan::usual(Operation::Write))?;
        if is_past_cache(method) {
            cache::drop_file(&self.target)?;
        }
        let verdict = Comparer::prepare(method)?.compare(&self.source, &self.target)?.verdict;
        if verdict != Verdict::Equal {
            return Err(Why::Found(format!("it reported equal files as {verdict:?}")));
        }
        require_empty(method, &self.source, READ_BY_CACHE)?;
        require_empty(method, &self.target, READ_BY_CACHE)
    }

    /// Updates a few places of a file.
    fn update(&self, method: &Method) -> Attempt {
        self.fill(&self.target, &plan::usual(Operation::Write))?;
        let mut batch = Batch::new();
        for offset in (0..PROBE_BYTES - 4).step_by(PROBE_BYTES as usize / 7) {
            batch.push(offset, b"seek").map_err(Error::from)?;
        }
        let how = Commit::by(*method).unsafely();
        commit(&self.target, &batch.resolve(), &how)?;
        let is_direct = method.options().cache() == CachePolicy::Direct;
        require(!is_direct || refuses_misaligned(&self.target), WRITTEN_BY_CACHE)
    }

    /// Writes or copies. The counter of dirtied pages includes all processes, so on a busy system the test is repeated.
    fn write(&self, method: &Method, source: &Path) -> Attempt {
        for _ in 1..ATTEMPTS {
            match self.write_once(method, source) {
                Err(Why::Found(_)) => {}
                other => return other,
            }
            let _ = fs::remove_file(&self.target);
            std::thread::sleep(PAUSE);
        }
        self.write_once(method, source)
    }

    fn write_once(&self, method: &Method, source: &Path) -> Attempt {
        let dirtied_before = pages_dirtied();
        let copies = method.operation() == Operation::Copy;
        if copies {
            let transfer = Copier::prepare(method)?.copy(source, &self.target, Destination::New)?;
            require_holes_skipped(method, transfer)?;
            let has_holes = !method.options().holes_skipped() || allocated_bytes(&self.target)? < PROBE_BYTES;
            require(has_holes, "the copy lacks the holes of its source")?;
        } else {
            self.fill(&self.target, method)?;
        }
        let dirtied = pages_dirtied().zip(dirtied_before);
        let dirtied = dirtied.map_or(0, |(after, before)| after.saturating_sub(before));
        let dirtied_bytes = dirtied * sys::page_bytes() as u64;
        let policy = method.options().cache();
        // On btrfs, the residency afterwards shows nothing, because it writes through the cache and then drops the
        // pages. If the file system requires alignment, the write goes to the device; otherwise, the test checks
        // whether pages became dirty (as those of a loop's backing file do).
        let is_suspect = policy == CachePolicy::Direct && dirtied_bytes > PROBE_BYTES / 2;
        require(!is_suspect || refuses_misaligned(&self.target), WRITTEN_BY_CACHE)?;
        if policy == CachePolicy::DontCache {
            sync(&self.target)?;
        }
        require_empty(method, &self.target, "accepted, but the pages stay in the page cache")?;
        if copies {
            require_empty(
                method,
                source,
                "accepted, but the source was read through the page cache",
            )?;
        }
        Ok(())
    }
}

/// The result of testing a method or a feature.
type Attempt<T = ()> = std::result::Result<T, Why>;

/// Why something does not work.
enum Why {
    /// It failed, or is not available.
    Failed(Error),
    /// It ran, but did not do what its name says.
    Found(String),
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Why {
    fn from(error: io::Error) -> Self {
        Self::Found(error.to_string())
    }
}

const READ_BY_CACHE: &str = "accepted, but the page cache was used";
const WRITTEN_BY_CACHE: &str = "accepted, but written through the page cache";

fn require(is_so: bool, otherwise: &str) -> Attempt {
    if is_so {
        Ok(())
    } else {
        Err(Why::Found(otherwise.to_owned()))
    }
}

/// If a method bypasses the page cache, nothing of the file may be resident.
fn require_empty(method: &Method, path: &Path, otherwise: &str) -> Attempt {
    require(!is_past_cache(method) || is_empty(&cache::resident(path)?), otherwise)
}

fn require_holes_skipped(method: &Method, transfer: Transfer) -> Attempt {
    let is_ignored = method.options().holes_skipped() && transfer.hole_bytes == 0;
    require(!is_ignored, "the file system reports no holes, so all bytes are read")
}

fn is_past_cache(method: &Method) -> bool {
    method.options().cache() != CachePolicy::Cached
}

/// Incompressible bytes without equal blocks, which no file system stores as a hole or compresses.
fn incompressible(bytes: u64) -> Vec<u8> {
    let mut made = vec![0; bytes as usize];
    fastrand::Rng::with_seed(1).fill(&mut made);
    made
}

/// A consumer that compares the bytes, in any order, with the expected ones.
struct Against<'a> {
    bytes: &'a [u8],
    is_equal: AtomicBool,
}

impl Consumer for Against<'_> {
    fn data(&self, offset: u64, chunk: Chunk<'_>) -> ControlFlow<()> {
        chunk.for_each_slice(|start, found| {
            if !self.bytes[offset as usize + start..].starts_with(found) {
                self.is_equal.store(false, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        })
    }

    fn needs_order(&self) -> bool {
        false
    }
}

fn allocated_bytes(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).map_err(|error| Error::system(path, "stat", error))?;
    Ok(files::allocated_bytes(&metadata))
}

/// How often a write that seems to use the page cache is repeated, and the time between.
const ATTEMPTS: u32 = 4;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(3);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.source);
        let _ = fs::remove_file(&self.sparse);
        let _ = fs::remove_file(&self.target);
    }
}

/// The last page may be resident nevertheless, because setting the exact size after direct I/O zeroes its rest.
const STRAY_PART: f64 = 0.01;

/// Whether nothing of a file is resident. If the residency is unknown, the flag is trusted.
fn is_empty(resident: &Resident) -> bool {
    resident.part().is_none_or(|part| part <= STRAY_PART)
}

/// Whether a misaligned direct write is refused, which shows that direct writes go to the device.
fn refuses_misaligned(path: &Path) -> bool {
    let opening = Opening {
        direct: true,
        ..Opening::plain(Access::Overwrite)
    };
    let (Ok(Support::Available(file)), Ok(buffer)) = (sys::open(path, opening), sys::Buffer::new(4096, 4096)) else {
        return false;
    };
    let written = file.write_at(&buffer[..100], 0);
    written.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
}

/// The number of pages that the whole system has dirtied since it started (Linux).
fn pages_dirtied() -> Option<u64> {
    let counters = fs::read_to_string("/proc/vmstat").ok()?;
    counters
        .lines()
        .find_map(|line| line.strip_prefix("nr_dirtied ")?.parse().ok())
}

fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::system(path, "open", error))?;
    match sys::sync_file_system(&file) {
        Ok(Support::Available(())) => Ok(()),
        _ => sys::sync(&file).map_err(|error| Error::system(path, "fsync", error)),
    }
}
