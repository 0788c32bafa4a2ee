//! Writing a producer's bytes to a file. One source file per mechanism; `body` connects them to their rows.

mod double_buffer;
mod io_uring;
mod mmap;
mod posix_aio;
mod sync;
mod threads;

use std::path::Path;

use crate::Producer;
use crate::error::Result;
use crate::facts::{Facts, Planner};
use crate::file_range::{AsFileRange, FileRange};
use crate::files::directory_of;
use crate::plan::{self, Plan, Task};
use crate::setup::{Prepare, Prepared};
use crate::transfer::{Destination, OpenFile, Progress, Transfer, Visits};
use seekless_method::{Durability, MechanismId, Method, Operation, WriteMechanism};

/// The bodies of the mechanisms.
fn body(mechanism: WriteMechanism) -> Prepare<WriteTarget> {
    match mechanism {
        WriteMechanism::Sync => sync::prepare,
        WriteMechanism::DoubleBuffer => double_buffer::prepare,
        WriteMechanism::PosixAio => posix_aio::prepare,
        WriteMechanism::IoUring => io_uring::prepare,
        WriteMechanism::Threads => threads::prepare,
        WriteMechanism::Mmap => mmap::prepare,
    }
}

/// A prepared mechanism of writing: writes all bytes of the target. The caller sets the exact size and calls fsync.
type WriteTarget = dyn FnMut(&OpenFile<'_>, &dyn Producer) -> Result<()> + Send;
type PreparedWrite = Result<Box<WriteTarget>>;

/// Writes files by one method. Buffers, rings and threads are made once, before the first write.
///
/// ```
/// use seekless_engine::{Destination, Method, Writer};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// let method: Method = "write/sync,block=1M,preallocate=allocate,fsync".parse()?;
/// let numbers = |offset: u64, bytes: &mut [u8]| {
///     for (at, byte) in (offset..).zip(bytes) {
///         *byte = at as u8;
///     }
///     Ok(())
/// };
/// let transfer = Writer::prepare(&method)?.write(&path, Destination::New, 1000, &numbers)?;
/// assert_eq!(transfer.bytes, 1000);
/// assert_eq!(std::fs::read(&path)?[255..257], [255, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer(Prepared<WriteTarget>);

impl Writer {
    /// Plans writing this many bytes to a file, which need not exist, after examining its directory. If the plan
    /// depends on it, or with `is_predicted`, it measures there for at most 50 ms. For an open file, the costs of
    /// writing are assumed.
    ///
    /// # Errors
    /// The system's, if the directory cannot be examined.
    pub fn plan(to: impl AsFileRange, bytes: u64, durability: Durability, is_predicted: bool) -> Result<Plan> {
        Self::plan_with(&to.as_file_range(), bytes, durability, is_predicted, Planner::default())
    }

    /// The same by a planner.
    ///
    /// # Errors
    /// As [`Writer::plan`].
    pub fn plan_with(
        part: &FileRange<'_>,
        bytes: u64,
        durability: Durability,
        is_predicted: bool,
        planner: Planner<'_>,
    ) -> Result<Plan> {
        let mut facts = Facts::of_target(part)?.with(planner);
        let place = part.path_to_measure();
        facts.ask(
            if part.is_open() { &place } else { directory_of(&place) },
            bytes,
            durability,
        );
        let request = Task {
            files: 1,
            bytes,
            durability,
        };
        let plan = plan::write(&request, &facts);
        if !is_predicted && (plan.is_certain || !facts.pays_measuring()) {
            return Ok(plan);
        }
        facts.measure_writing(part, durability);
        Ok(plan::write(&request, &facts))
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not write,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the system lacks it, and the system's error if there is no
    /// memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to this many bytes, with buffers no larger than these need. Longer files can
    /// be written, too; they need a second preparation.
    ///
    /// # Errors
    /// As [`Writer::prepare`].
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Write(mechanism) => Some(body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Write, make, longest_file_bytes).map(Self)
    }

    /// Opens or creates a file, writes `bytes` bytes from the producer, and closes it. At the end, the file has exactly
    /// that size, and the durability that the method names. If the target is a [`FileRange`], all other bytes
    /// of its file stay as they are.
    ///
    /// A method with `access=random` writes all blocks in random order.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error). After an error, a new file is removed, and an overwritten one holds what was
    /// written until then. After a failed fsync, none of it may be assumed to be on the device. The name of a new file
    /// is durable only after its directory is synced, too, which is up to the caller.
    pub fn write(
        &mut self,
        to: impl AsFileRange,
        destination: Destination,
        bytes: u64,
        producer: &dyn Producer,
    ) -> Result<Transfer> {
        self.write_told(&to.as_file_range(), destination, bytes, producer, None)
    }

    pub(crate) fn write_told(
        &mut self,
        part: &FileRange<'_>,
        destination: Destination,
        bytes: u64,
        producer: &dyn Producer,
        progress: Option<&dyn Progress>,
    ) -> Result<Transfer> {
        let method = self.0.setup.method;
        let mechanism = self.0.for_bytes(bytes)?;
        let mut target = OpenFile::open_target(part, &method, destination, bytes)?;
        target.progress = progress;
        let written = fill(mechanism, &target, bytes, producer);
        if written.is_err() && target.is_made {
            target.remove_failed();
        }
        written
    }

    /// Opens an existing file, overwrites the blocks of `visits` in their order, and closes the file. The method has
    /// `access=random`; its block and the file's size are those for which the visits were drawn. If they are blocks to
    /// append, the file is new, and gets them one after the other.
    ///
    /// # Errors
    /// Every [`Error`](crate::Error); [`Error::Resized`](crate::Error::Resized) if the file has another size. After an
    /// error, some blocks may be written.
    pub fn visit(&mut self, path: impl AsRef<Path>, visits: &Visits, producer: &dyn Producer) -> Result<Transfer> {
        let method = self.0.setup.method;
        let part = FileRange::whole(&path);
        let destination = visits.destination();
        let mut target = OpenFile::open_target(&part, &method, destination, visits.bytes())?;
        if destination == Destination::Overwrite {
            target.bytes = target.metadata()?.len();
        }
        target.begin(visits)?;
        target.visits = Some(visits);
        fill(self.0.for_bytes(target.bytes)?, &target, visits.bytes(), producer)
    }
}

fn fill(mechanism: &mut WriteTarget, target: &OpenFile<'_>, bytes: u64, producer: &dyn Producer) -> Result<Transfer> {
    target.preallocate(0)?;
    if !target.range().is_empty() {
        mechanism(target, producer)?;
    }
    let fsync = target.finish_target()?;
    Ok(Transfer {
        bytes,
        calls: target.calls(),
        fsync,
        ..Transfer::default()
    })
}
