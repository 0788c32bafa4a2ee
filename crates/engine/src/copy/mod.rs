//! Copying a file. One source file per mechanism; those that are a single system call are in `calls`. `body` connects
//! them to their rows.

mod calls;
mod double_buffer;
mod io_uring;
mod mmap;
mod sparse;
mod splice;
mod sync;

use std::ops::Range;

use crate::error::Result;
use crate::facts::{Facts, Planner, shares_blocks};
use crate::file_range::{AsFileRange, FileRange};
use crate::files::directory_of;
use crate::plan::{self, Plan, Task};
use crate::setup::{Prepare, Prepared};
use crate::transfer::{Destination, OpenFile, Progress, Transfer, require_apart, require_distinct};
use seekless_method::{CopyMechanism, Durability, MechanismId, Method, Operation};
use sparse::{Skipped, copy_data};

/// The bodies of the mechanisms.
fn body(mechanism: CopyMechanism) -> Prepare<CopyBytes> {
    match mechanism {
        CopyMechanism::Sync => sync::prepare,
        CopyMechanism::DoubleBuffer => double_buffer::prepare,
        CopyMechanism::IoUring => io_uring::prepare,
        CopyMechanism::Mmap => mmap::prepare,
        CopyMechanism::Splice => splice::prepare,
        CopyMechanism::Sendfile => |_| Ok(Box::new(calls::sendfile)),
        CopyMechanism::CopyFileRange => |_| Ok(Box::new(calls::copy_file_range)),
        CopyMechanism::Reflink => |_| Ok(Box::new(calls::reflink)),
        CopyMechanism::Fcopyfile => |_| Ok(Box::new(calls::fcopyfile)),
        CopyMechanism::Clonefile => |_| Ok(Box::new(calls::clonefile)),
    }
}

/// A prepared mechanism of copying: copies a range of the source, which is not empty, to its place in the target. A
/// mechanism without options copies everything. The caller sets the exact size and calls fsync.
type CopyBytes = dyn FnMut(&OpenFile<'_>, &OpenFile<'_>, Range<u64>) -> Result<()> + Send;
type PreparedCopy = Result<Box<CopyBytes>>;

/// Copies files by one method. Buffers, rings and threads are made once, before the first copy.
///
/// ```
/// use seekless_engine::{Copier, Destination, Method};
/// # let directory = tempfile::tempdir()?;
/// # let (source, target) = (directory.path().join("source"), directory.path().join("target"));
/// # std::fs::write(&source, b"bytes")?;
/// let method: Method = "copy/double-buffer,block=1M".parse()?;
/// let transfer = Copier::prepare(&method)?.copy(&source, &target, Destination::New)?;
/// assert_eq!(transfer.bytes, 5);
/// assert_eq!(std::fs::read(&target)?, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Copier(Prepared<CopyBytes>);

impl Copier {
    /// Plans copying a file to a new one, after examining the file and the directory of the new one. If the plan
    /// depends on it, or with `is_predicted`, it measures for at most 100 ms.
    ///
    /// # Errors
    /// As for [`Reader::plan`](crate::Reader::plan) and [`Writer::plan`](crate::Writer::plan).
    pub fn plan(
        from: impl AsFileRange,
        to: impl AsFileRange,
        durability: Durability,
        is_predicted: bool,
    ) -> Result<Plan> {
        let (source, target) = (from.as_file_range(), to.as_file_range());
        Self::plan_with(&source, &target, durability, is_predicted, Planner::default())
    }

    /// The same by a planner.
    ///
    /// # Errors
    /// As [`Copier::plan`].
    pub fn plan_with(
        source: &FileRange<'_>,
        target: &FileRange<'_>,
        durability: Durability,
        is_predicted: bool,
        planner: Planner<'_>,
    ) -> Result<Plan> {
        let (file, metadata) = source.open()?;
        let of_target = Facts::of_target(target)?;
        let mut facts = Facts {
            free_bytes: of_target.free_bytes,
            ..Facts::of_part(source, &file, &metadata).with(planner)
        };
        facts.files[1] = of_target.files[1];
        let range = source.within(metadata.len());
        let request = Task {
            files: 1,
            bytes: range.end - range.start,
            durability,
        };
        let new = target.only_path().filter(|_| range == (0..metadata.len()));
        facts.can_share =
            new.is_some_and(|new| plan::depends_on_sharing(&request, &facts) && shares_blocks(directory_of(new)));
        facts.ask(&source.path_to_measure(), request.bytes, durability);
        let plan = plan::copy(&request, &facts);
        if !is_predicted && (plan.is_certain || !facts.pays_measuring()) {
            return Ok(plan);
        }
        facts.measure_writing(target, durability);
        facts.measure_reading(&source.path_to_measure(), &file);
        Ok(plan::copy(&request, &facts))
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not copy,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the system lacks it, and the system's error if there is no
    /// memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to this many bytes, with buffers no larger than these need. Longer files can
    /// be copied, too; they need a second preparation.
    ///
    /// # Errors
    /// As [`Copier::prepare`].
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Copy(mechanism) => Some(body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Copy, make, longest_file_bytes).map(Self)
    }

    /// Opens the source, opens or makes the target, copies the bytes, and closes both. Mode, owner and times are not
    /// copied. The size is that of the source at opening. If the source is a [`FileRange`], only its range is
    /// copied; if the target is a part, all other bytes of its file stay as they are. Both may be parts of one file if
    /// they do not overlap.
    ///
    /// A method with `holes=skip` copies only the data ranges that the file system reports, and the target gets the
    /// same holes. In an overwritten target, the old data there is punched out, or overwritten with zeros if the file
    /// system cannot punch holes. Otherwise, holes are treated as by [`Reader::read`](crate::Reader::read).
    ///
    /// # Errors
    /// Every [`Error`](crate::Error). After an error, a new target is removed, and an overwritten one holds what was
    /// written until then. After a failed fsync, none of it may be assumed to be on the device. The name of a new file
    /// is durable only after its directory is synced, too, which is up to the caller.
    pub fn copy(&mut self, from: impl AsFileRange, to: impl AsFileRange, destination: Destination) -> Result<Transfer> {
        self.copy_told(&from.as_file_range(), &to.as_file_range(), destination, None)
    }

    pub(crate) fn copy_told(
        &mut self,
        from: &FileRange<'_>,
        to: &FileRange<'_>,
        destination: Destination,
        progress: Option<&dyn Progress>,
    ) -> Result<Transfer> {
        let method = self.0.setup.method;
        let mut source = OpenFile::open_source(from, &method)?;
        source.keep_to(from)?;
        // These copy everything in one call.
        let is_one_call = matches!(
            method.mechanism().id,
            MechanismId::Copy(CopyMechanism::Reflink | CopyMechanism::Fcopyfile | CopyMechanism::Clonefile)
        );
        source.progress = progress.filter(|_| !is_one_call);
        if method.mechanism().id == MechanismId::Copy(CopyMechanism::Clonefile) {
            return calls::clone_path(from, &source, to, destination);
        }
        let mechanism = self.0.for_bytes(source.bytes)?;
        if let Some(path) = to.only_path() {
            require_distinct(&source, path)?;
        }
        let range = source.range();
        let mut target = OpenFile::open_target(to, &method, destination, range.end - range.start)?;
        // The name may belong to another file by now.
        let is_apart = match to.only_path() {
            Some(path) => require_distinct(&source, path),
            None => require_apart(&source, &target),
        };
        target.shift = target.start().wrapping_sub(range.start);
        let copied = is_apart
            .and_then(|()| require_both_aligned(&source, &target))
            .and_then(|()| fill(mechanism, &source, &target, destination));
        if copied.is_err() && target.is_made {
            target.remove_failed();
        }
        Ok(Transfer {
            calls: source.calls() + target.calls(),
            ..copied?
        })
    }
}

/// Fails if the starts of the two are not aligned alike, so that direct I/O cannot be used for both.
fn require_both_aligned(source: &OpenFile<'_>, target: &OpenFile<'_>) -> Result<()> {
    if source.range().is_empty() {
        return Ok(());
    }
    source
        .require_aligned(target.start(), "start")
        .and_then(|()| target.require_aligned(source.start(), "start"))
}

fn fill(
    mechanism: &mut CopyBytes,
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    destination: Destination,
) -> Result<Transfer> {
    let options = source.method.options();
    let mut old_bytes = 0;
    if options.holes_skipped() && (destination == Destination::Overwrite || target.part.is_some()) {
        target.count_call();
        // Before preallocation makes it longer.
        old_bytes = target.metadata()?.len();
    }
    target.preallocate(0)?;
    let mut skipped = Skipped::default();
    if options.holes_skipped() {
        skipped = copy_data(mechanism, source, target, old_bytes)?;
    } else if !source.range().is_empty() {
        copy_range(mechanism, source, target, source.range())?;
    }
    let mut fsync = target.finish_target()?;
    if skipped.freed && options.durability() == Durability::WriteThrough && fsync.is_zero() {
        fsync = target.sync()?;
    }
    Ok(Transfer {
        bytes: source.range().end - source.start(),
        hole_bytes: skipped.hole_bytes,
        fsync,
        ..Transfer::default()
    })
}

fn copy_range(
    mechanism: &mut CopyBytes,
    source: &OpenFile<'_>,
    target: &OpenFile<'_>,
    range: Range<u64>,
) -> Result<()> {
    let copy = |piece| mechanism(source, target, piece).map(|()| false);
    source.in_pieces(range, copy).map(drop)
}
