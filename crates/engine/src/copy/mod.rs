//! Copying: one file's bytes reach another. One file a mechanism, but for those that are a system call by themselves, which
//! are in `calls`; `body` ties them to their rows.

mod calls;
mod double_buffer;
mod io_uring;
mod mmap;
mod sparse;
mod splice;
mod sync;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::facts::{Facts, shares_blocks};
use crate::files::{directory_of, open_regular};
use crate::plan::{self, Plan, Request};
use crate::setup::{Prepare, Prepared};
use crate::transfer::{Destination, Progress, Side, Transfer, require_distinct};
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

/// A prepared mechanism of copying: copies a stretch of the source, which is not empty, to its place in the target; a
/// mechanism without options copies all. The exact size and the fsync at the end are not its business.
type CopyBytes = dyn FnMut(&Side<'_>, &Side<'_>, Range<u64>) -> Result<()> + Send;
type PreparedCopy = Result<Box<CopyBytes>>;

/// Copies files by one method. Buffers, rings and threads are made once, before the first copy.
///
/// ```
/// use seekless::{Copier, Destination, Method};
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
    /// The plan for copying a file to a new one, after a look at it and at the directory of the new one, and at most
    /// 100 ms of measuring both where that decides, or where a time is to be predicted.
    ///
    /// # Errors
    /// As of [`Reader::plan`](crate::Reader::plan) and [`Writer::plan`](crate::Writer::plan).
    pub fn plan(source: &Path, target: &Path, durability: Durability, is_predicted: bool) -> Result<Plan> {
        let (file, metadata) = open_regular(source)?;
        let directory = directory_of(target);
        let of_target = Facts::of_new_file(directory)?;
        let mut facts = Facts {
            free_bytes: of_target.free_bytes,
            ..Facts::of(source, &file, &metadata)
        };
        facts.files[1] = of_target.files[1];
        let request = Request {
            bytes: facts.files[0].bytes,
            durability,
        };
        facts.can_share = plan::depends_on_sharing(&request, &facts) && shares_blocks(directory);
        let plan = plan::copy(&request, &facts);
        if plan.is_certain && !is_predicted {
            return Ok(plan);
        }
        facts.measure_writing(directory);
        facts.measure_reading(source, &file);
        Ok(plan::copy(&request, &facts))
    }

    /// Prepares a method for files of any size.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not copy, [`Error::Unavailable`](crate::Error::Unavailable) where the system lacks it, and
    /// the system's error where there is no memory.
    pub fn prepare(method: &Method) -> Result<Self> {
        Self::prepare_for(method, u64::MAX >> 1)
    }

    /// Prepares a method for files of up to so many bytes, with buffers no longer than these need. A longer file is
    /// copied all the same, after preparing again.
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
    /// copied. The size is the one that the source has when it is opened.
    ///
    /// A method with `holes=skip` copies the stretches of data that the file system tells of. The target has holes where the
    /// source has them; where it is written over, what it held there is punched out, or written over with zeros where the
    /// file system cannot punch. Else it is as with [`Reader::read`](crate::Reader::read).
    ///
    /// # Errors
    /// Every [`Error`](crate::Error). After an error a new target is gone, and one that was written over holds whatever was written
    /// until then; after a failed fsync nothing may be assumed written. The name of a new file is durable only when its
    /// directory has been synced as well, which is the caller's business.
    pub fn copy(&mut self, source: &Path, target: &Path, destination: Destination) -> Result<Transfer> {
        self.copy_told(source, target, destination, None)
    }

    pub(crate) fn copy_told(
        &mut self,
        source: &Path,
        target: &Path,
        destination: Destination,
        progress: Option<&dyn Progress>,
    ) -> Result<Transfer> {
        let method = self.0.method;
        let mut source = Side::open_source(source, &method)?;
        // These copy all in one call.
        let is_one_call = matches!(
            method.mechanism().id,
            MechanismId::Copy(CopyMechanism::Reflink | CopyMechanism::Fcopyfile | CopyMechanism::Clonefile)
        );
        source.progress = progress.filter(|_| !is_one_call);
        if method.mechanism().id == MechanismId::Copy(CopyMechanism::Clonefile) {
            return calls::clone_path(&source, target, destination);
        }
        let mechanism = self.0.for_bytes(source.bytes)?;
        require_distinct(&source, target)?;
        let target = Side::open_target(target, &method, destination, source.bytes)?;
        // Again: the name may stand for another file by now.
        let copied =
            require_distinct(&source, target.path).and_then(|()| fill(mechanism, &source, &target, destination));
        if copied.is_err() && destination == Destination::New {
            target.remove_failed();
        }
        Ok(Transfer {
            calls: source.calls() + target.calls(),
            ..copied?
        })
    }

    /// Copies an open file into a new one that is open as well, by a method that reads and writes through the page cache.
    pub(crate) fn copy_open(&mut self, source: (File, &Path), target: (File, &Path)) -> Result<Transfer> {
        let method = self.0.method;
        let source = Side::of_open_source(Arc::new(source.0), source.1, &method)?;
        let mut target = Side::of_open_source(Arc::new(target.0), target.1, &method)?;
        target.bytes = source.bytes;
        fill(self.0.for_bytes(source.bytes)?, &source, &target, Destination::New)
    }
}

fn fill(mechanism: &mut CopyBytes, source: &Side<'_>, target: &Side<'_>, destination: Destination) -> Result<Transfer> {
    let options = source.method.options();
    let mut old_bytes = 0;
    if options.holes_skipped() && destination == Destination::Overwrite {
        target.count_call();
        // Before preallocation makes it longer.
        old_bytes = target.metadata()?.len();
    }
    target.preallocate(0)?;
    let mut skipped = Skipped::default();
    if options.holes_skipped() {
        skipped = copy_data(mechanism, source, target, old_bytes)?;
    } else if source.bytes > 0 {
        copy_range(mechanism, source, target, 0..source.bytes)?;
    }
    let mut fsync = target.finish_target()?;
    if skipped.freed && options.durability() == Durability::WriteThrough && fsync.is_zero() {
        fsync = target.sync()?;
    }
    Ok(Transfer {
        bytes: source.bytes,
        hole_bytes: skipped.hole_bytes,
        fsync,
        ..Transfer::default()
    })
}

fn copy_range(mechanism: &mut CopyBytes, source: &Side<'_>, target: &Side<'_>, range: Range<u64>) -> Result<()> {
    let copy = |piece| mechanism(source, target, piece).map(|()| false);
    source.in_pieces(range, copy).map(drop)
}
