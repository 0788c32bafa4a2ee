//! Reading many small files whole, by several threads: the beginnings of those that are not in memory singly, or many in one call.
//!
//! Both mechanisms are [`HeadReader`], which the tools use, too; they differ in whether it has a
//! ring.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use seekless_method::{MechanismId, Method, Operation};
use seekless_sys::{into_unlocked, lock_mutex};

use crate::batch::{HeadConsumer, HeadFailure, HeadReader};
use crate::error::{Error, Result};
use crate::facts::{Facts, ProcessFacts};
use crate::files::read_some;
use crate::plan::{self, BatchPlan, FEWEST_TO_ASK, Plan, Scan};
use crate::setup::Setup;
use crate::threads::ThreadPool;
use crate::transfer::Transfer;
use crate::{Chunk, Consumer};

/// A file to scan.
#[derive(Clone, Copy)]
pub struct ScanFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Its size in bytes. A file that is found to be shorter is an error.
    pub bytes: u64,
    /// What takes its bytes, in order; `Break` ends the reading of this file.
    pub consumer: &'a dyn Consumer,
}

/// A method of scanning, with its buffers, rings and threads.
pub struct Scanner {
    method: Method,
    batch: usize,
    heads: Vec<HeadReader<1>>,
    pool: Option<ThreadPool>,
}

/// Bytes of a read after the first.
const REST_BYTES: usize = 128 << 10;

impl Scanner {
    /// Plans for many files at or below a path, by what was measured on their storage, or else after measuring the costs of memory
    /// for some milliseconds.
    ///
    /// # Errors
    /// The system's, if the path cannot be examined.
    pub fn plan(path: impl AsRef<Path>, many: &Scan, process: &ProcessFacts) -> Result<Plan> {
        let path = path.as_ref();
        let mut facts = Facts::of_many(path, process)?;
        let plan = plan::scan(many, &facts);
        if plan.is_certain {
            return Ok(plan);
        }
        facts.measure_opening(path);
        Ok(plan::scan(many, &facts))
    }

    /// The same for batches, without measuring anything, and without looking for a profile for a few files.
    #[must_use]
    pub fn batch_plan(path: &Path, many: &Scan, process: &ProcessFacts) -> BatchPlan {
        let facts = (many.files >= FEWEST_TO_ASK).then(|| Facts::of_many(path, process));
        match facts {
            Some(Ok(facts)) => BatchPlan::of(plan::scan(many, &facts), process),
            Some(Err(_)) | None => plan::batch(process),
        }
    }

    /// Prepares a method.
    ///
    /// # Errors
    /// [`Error::WrongOperation`] for a method that does not scan, [`Error::Unavailable`] if the system lacks it or allows too few open
    /// files for its threads, and the system's error if there is no memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        let MechanismId::Scan(_) = method.mechanism().id else {
            return Err(Error::WrongOperation {
                asked: (*method).into(),
                wanted: Operation::Scan.name(),
            });
        };
        let setup = Setup::new(method, u64::MAX);
        setup.require_here()?;
        let plan = BatchPlan::by(method, &ProcessFacts::without_rings());
        let threads = method.options().threads() as usize;
        let depth = method.options().depth().map_or(plan.batch, |depth| depth as usize);
        if (plan.threads, plan.batch) != (threads, depth) {
            return Err(setup.unavailable("the limit of open files is too low for its threads"));
        }
        let made = |_| {
            let ring = plan.has_rings.then(|| setup.ring()).transpose()?;
            Ok(ring.map_or_else(|| HeadReader::new(&plan), |ring| HeadReader::with_ring(&plan, ring)))
        };
        Ok(Self {
            method: *method,
            batch: plan.batch,
            heads: (0..threads).map(made).collect::<Result<_>>()?,
            pool: (threads > 1).then(|| setup.pool(threads)).transpose()?,
        })
    }

    /// Opens and reads all files, and closes them.
    ///
    /// # Errors
    /// Every [`Error`], of the first file that failed; [`Error::Resized`] for one that is shorter than expected.
    pub fn scan(&mut self, files: &[ScanFile<'_>]) -> Result<Transfer> {
        let next = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        let sum = Mutex::new(Ok(Transfer::default()));
        let (method, batch) = (&self.method, self.batch);
        let work = |heads: &mut HeadReader<1>| {
            let mut part = ScanPart {
                method,
                done: Transfer::default(),
                error: None,
                rest: Vec::new(),
            };
            while !is_over.load(Ordering::Relaxed) {
                let start = next.fetch_add(batch, Ordering::Relaxed);
                let Some(left) = files.get(start..).filter(|left| !left.is_empty()) else {
                    break;
                };
                heads.read(&left[..batch.min(left.len())], &mut part);
                is_over.fetch_or(part.error.is_some(), Ordering::Relaxed);
            }
            let mut sum = lock_mutex(&sum);
            match (&mut *sum, part.error) {
                (Ok(_), Some(error)) => *sum = Err(error),
                (Ok(sum), None) => {
                    sum.bytes += part.done.bytes;
                    sum.calls += part.done.calls;
                    sum.stopped |= part.done.stopped;
                }
                (Err(_), _) => {}
            }
        };
        match &self.pool {
            None => self.heads.iter_mut().for_each(&work),
            Some(pool) => pool.in_place_scope(|scope| {
                for heads in &mut self.heads {
                    scope.spawn(|_| work(heads));
                }
            }),
        }
        if method.options().depth().is_some() && !self.heads.iter().all(HeadReader::has_ring) {
            return Err(Error::unavailable(method, Path::new("."), "a ring failed"));
        }
        into_unlocked(sum)
    }
}

/// What a thread does.
struct ScanPart<'a> {
    method: &'a Method,
    done: Transfer,
    error: Option<Error>,
    /// A buffer for what follows the first block.
    rest: Vec<u8>,
}

impl<'a> HeadConsumer<1> for ScanPart<'a> {
    type Item = &'a ScanFile<'a>;
    type Opened = (&'a ScanFile<'a>, [Arc<File>; 1]);

    fn open(&mut self, file: &'a ScanFile<'a>) -> Option<Self::Opened> {
        if self.error.is_some() {
            return None;
        }
        match File::open(file.path) {
            Ok(opened) => Some((file, [Arc::new(opened)])),
            Err(error) => {
                self.error = Some(Error::by(self.method, file.path, "open", error));
                None
            }
        }
    }

    fn files((_, files): &Self::Opened) -> &[Arc<File>; 1] {
        files
    }

    fn cold(&mut self, _opened: &Self::Opened, was_asked: bool) {
        self.done.calls += u64::from(was_asked);
    }

    fn take(&mut self, (file, [opened]): Self::Opened, heads: std::result::Result<[&[u8]; 1], HeadFailure>) {
        let read = match heads {
            Ok([head]) => self.consume(file, &opened, head),
            Err((_, error)) => Err(Error::by(self.method, file.path, "read", error)),
        };
        self.error = self.error.take().or(read.err());
    }
}

impl ScanPart<'_> {
    /// Passes the bytes of a file on, of which the first were read.
    fn consume(&mut self, file: &ScanFile<'_>, opened: &File, head: &[u8]) -> Result<()> {
        // It is opened, read and closed.
        self.done.calls += 3;
        let mut at = (head.len() as u64).min(file.bytes);
        let mut flow = file.consumer.data(0, Chunk::Memory(&head[..at as usize]));
        while at < file.bytes && flow.is_continue() {
            let wanted = (file.bytes - at).min(REST_BYTES as u64) as usize;
            self.rest.resize(wanted.max(self.rest.len()), 0);
            let read = read_some(opened, &mut self.rest[..wanted], at);
            let read = read.map_err(|error| Error::by(self.method, file.path, "read", error))?;
            self.done.calls += 1;
            if read == 0 {
                return Err(Error::Resized {
                    path: file.path.to_owned(),
                    method: *self.method,
                    expected_bytes: file.bytes,
                    found_bytes: at,
                });
            }
            flow = file.consumer.data(at, Chunk::Memory(&self.rest[..read]));
            at += read as u64;
        }
        self.done.bytes += at;
        self.done.stopped |= flow.is_break();
        Ok(())
    }
}
