//! Updating a file in place, with or without a journal, by a method that is prepared once for many files; and what all
//! ways of updating share: locking the file, filling and syncing it, and the account of what was done.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, Access};

use super::batch::Updates;
use super::grown::{cut_padding, cut_zeros, extend};
use super::target::{Exclusion, Target, UpdateState, exclude_others, not_exclusive, sync};
use super::writes::reach;
use super::{UpdateTarget, journal};
use crate::error::{Error, Result, UpdateErrorKind, full_text};
use crate::files::{FileId, Held, NameInDirectory, Unwatched, Watch, with_protection};
use crate::log;
use crate::plan::Safety;
use crate::setup::Prepared;
use crate::transfer::OpenFile;
use seekless_method::{Choice, Durability, MechanismId, Method, Operation};

/// How to apply updates to a file: by a method or by the plan, and with which safety.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// The method, or the plan.
    pub method: Choice,
    /// The state of the file after an update that ends early.
    pub safety: Safety,
    /// Whether updates may make the file longer.
    pub grows: bool,
    /// Whether gaps between updates may be written back even if other processes cannot be kept out. What these write to
    /// a gap meanwhile is lost.
    pub is_unsafe: bool,
}

impl Commit {
    /// By a method, or by a plan, as in `"update/planned,fsync".parse::<Choice>()`; in place, without growing the file.
    #[must_use]
    pub fn by(method: impl Into<Choice>) -> Self {
        Self {
            method: method.into(),
            safety: Safety::InPlace,
            grows: false,
            is_unsafe: false,
        }
    }

    /// Sets the state of the file after an update that ends early.
    #[must_use]
    pub fn safety(self, safety: Safety) -> Self {
        Self { safety, ..self }
    }

    /// Allows updates past the end of the file.
    #[must_use]
    pub fn growing(self) -> Self {
        Self { grows: true, ..self }
    }

    /// Allows writing back gaps even if other processes cannot be kept out: see [`Commit::is_unsafe`].
    #[must_use]
    pub fn unsafely(self) -> Self {
        Self {
            is_unsafe: true,
            ..self
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// System calls of all kinds.
    pub calls: u64,
    /// Writes to the file, and their bytes.
    pub writes: u64,
    /// Bytes that change, each counted once.
    pub requested_bytes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes that were copied to the new file, because blocks could not be shared.
    pub copied_bytes: u64,
    /// Time spent in the fsync at the end.
    pub fsync: Duration,
}

impl Updated {
    /// Write amplification: bytes written, including those for safety, for each byte that changes.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        (self.written_bytes + self.safety_bytes()) as f64 / self.requested_bytes.max(1) as f64
    }

    /// Bytes written for safety.
    #[must_use]
    pub fn safety_bytes(&self) -> u64 {
        self.journal_bytes + self.copied_bytes
    }
}

/// A method of updating in place, prepared.
pub struct Updater(pub(super) Prepared<UpdateTarget>);

impl Updater {
    /// Prepares buffers and rings for files up to this size in bytes. Updates past it are written in smaller pieces
    /// than the method's block.
    ///
    /// # Errors
    /// [`Error::WrongOperation`](crate::Error::WrongOperation) for a method that does not update;
    /// [`Error::Unavailable`](crate::Error::Unavailable) where it is not available.
    pub fn prepare_for(method: &Method, longest_file_bytes: u64) -> Result<Self> {
        let make = match method.mechanism().id {
            MechanismId::Update(mechanism) => Some(super::body(mechanism)),
            _ => None,
        };
        Prepared::new(method, Operation::Update, make, longest_file_bytes).map(Self)
    }

    /// Applies updates to a file in place, as [`super::commit`] does. The file does not grow.
    ///
    /// # Errors
    /// As for [`super::commit`].
    pub fn update(&mut self, path: impl AsRef<Path>, updates: &Updates) -> Result<Updated> {
        let method = self.0.setup.method;
        let commit = Commit::by(Choice::Method(method));
        in_place(
            &NameInDirectory::of(path.as_ref())?,
            updates,
            &method,
            &commit,
            Some(self),
            &Unwatched,
        )
    }
}

/// Updates the file in place, by a prepared mechanism or one that is prepared here.
pub(super) fn in_place(
    place: &NameInDirectory,
    updates: &Updates,
    method: &Method,
    commit: &Commit,
    prepared: Option<&mut Updater>,
    watch: &dyn Watch,
) -> Result<Updated> {
    let (side, exclusion, bytes_before) = open_held(place, updates, method, commit)?;
    let mut made;
    let prepared = if let Some(prepared) = prepared {
        prepared
    } else {
        made = Updater::prepare_for(method, reach(method, updates.end(), bytes_before))?;
        &mut made
    };
    let journal = match commit.safety {
        Safety::Journal if !updates.is_empty() => Some(journal::write(
            place,
            &side,
            bytes_before,
            updates,
            commit.is_unsafe,
            watch,
        )?),
        _ => None,
    };
    let state = UpdateState::new(watch, exclusion, bytes_before);
    let result = fill(&mut *prepared.0.mechanism, &side, updates, &state);
    let result = result.and_then(|()| harden(&side, updates, &state, journal.is_some()));
    let done = Updated {
        journal_bytes: journal.as_ref().map_or(0, |journal| journal.bytes),
        ..written(&side, updates, &state)
    };
    match (result, journal) {
        (Ok(fsync), journal) => {
            if let Some(journal) = journal {
                let left = |error| place.failed(UpdateErrorKind::JournalLeft(Box::new(error)));
                journal.remove(watch).map_err(left)?;
            }
            place.require_is(FileId::of(&side.metadata()?))?;
            Ok(Updated { fsync, ..done })
        }
        (Err(source), Some(journal)) => Err(journal.undo(&side, source, &state)),
        (Err(source), None) => Err(ended_early(
            place,
            &side,
            updates,
            &state,
            prepared.0.setup.block_bytes,
            source,
        )),
    }
}

/// Opens the file and locks it, and keeps other processes out if gaps are written back. Returns its
/// size, too.
fn open_held<'a>(
    place: &'a NameInDirectory,
    updates: &Updates,
    method: &'a Method,
    commit: &Commit,
) -> Result<(OpenFile<'a>, Exclusion, u64)> {
    refuse_second(place)?;
    let opened = OpenFile::open_by(&place.path, method, Access::Overwrite, |how| place.open_as(how));
    let mut side = opened.map_err(|error| with_protection(place, error))?;
    hold(Arc::clone(&side.file), place)?;
    journal::refuse_left(place)?;
    let exclusion = keep_others_out(&side, method, commit)?;
    // The size is read under the lease, because others may have appended before.
    let bytes_before = side.metadata()?.len();
    if !commit.grows {
        updates.require_inside(&place.path, bytes_before)?;
    }
    side.bytes = updates.end().max(bytes_before);
    Ok((side, exclusion, bytes_before))
}

/// The error of an update without a journal that ended early. The file is cut to what was written
/// to it.
fn ended_early(
    place: &NameInDirectory,
    side: &OpenFile<'_>,
    updates: &Updates,
    state: &UpdateState<'_>,
    block_bytes: usize,
    source: Error,
) -> Error {
    let (far, reached) = state.how_far(side, updates, block_bytes);
    if let Err(error) = cut_zeros(side, state.bytes_before.max(reached), state) {
        log::warn!(
            error = full_text(&error),
            "the file may be longer than what was written to it"
        );
    }
    if !state.has_begun() {
        return source;
    }
    let source = Box::new(source);
    place.failed(UpdateErrorKind::PartlyUpdated { far, source })
}

/// The account so far, without the fsync and the journal.
pub(super) fn written(side: &OpenFile<'_>, updates: &Updates, state: &UpdateState<'_>) -> Updated {
    let (writes, written_bytes) = state.progress();
    Updated {
        calls: side.calls(),
        writes,
        requested_bytes: updates.requested_bytes(),
        written_bytes,
        ..Updated::default()
    }
}

/// Sets the size of a file and writes its updates.
pub(super) fn fill(
    mechanism: &mut UpdateTarget,
    side: &OpenFile<'_>,
    updates: &Updates,
    state: &UpdateState<'_>,
) -> Result<()> {
    if updates.is_empty() {
        return Ok(());
    }
    if side.bytes > state.bytes_before {
        extend(side, state)?;
    }
    mechanism(&Target { side, updates, state })
}

/// Makes a written file durable as the method says, or syncs it if it must be on the device; returns the time of the
/// fsync.
pub(super) fn harden(
    side: &OpenFile<'_>,
    updates: &Updates,
    state: &UpdateState<'_>,
    must_sync: bool,
) -> Result<Duration> {
    if updates.is_empty() {
        return Ok(Duration::ZERO);
    }
    let was_padded = cut_padding(side, state)?;
    match side.method.options().durability() {
        Durability::Fsync => sync(side, state.watch),
        // The padding may be on the device already, where a crash would find it.
        _ if must_sync || was_padded => sync(side, state.watch),
        _ => Ok(Duration::ZERO),
    }
}

/// How long to wait for a lock: requests in the ring of a killed process hold the file for a moment after its death.
const LINGERING: Duration = Duration::from_millis(500);

/// Fails if another update of the file is running, before the file is opened for writing, which would end the lease of
/// a replacement. An update in place may lose its lease here, and then writes only the bytes of its updates. Reading
/// `/proc/locks` each time would take longer than a small update, because the kernel waits for all processors.
pub(super) fn refuse_second(place: &NameInDirectory) -> Result<()> {
    let started = Instant::now();
    loop {
        match place.open_with(Access::Read) {
            Ok(file) => return hold(Arc::new(file), place).map(drop),
            // Another process has a lease.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let found = std::fs::metadata(&place.path);
                if !found.is_ok_and(|found| sys::is_locked(found.dev(), found.ino())) {
                    return Ok(());
                }
                if started.elapsed() > LINGERING {
                    return Err(running(place));
                }
                std::thread::sleep(LINGERING / 50);
            }
            // A user may have permission to write the file, but not to read it.
            Err(_) => return Ok(()),
        }
    }
}

fn running(place: &NameInDirectory) -> Error {
    place.failed(UpdateErrorKind::Running)
}

/// Locks the file. Fails if another update of the file is running, or the name belongs to another file by now.
pub(super) fn hold(file: Arc<File>, place: &NameInDirectory) -> Result<Held> {
    let held = Held::lock(file, LINGERING).map_err(|error| place.system("lock", error))?;
    let held = held.ok_or_else(|| running(place))?;
    place.require_is(held.facts().id())?;
    Ok(held)
}

/// Keeps other processes out, if gaps between updates are written back.
fn keep_others_out(side: &OpenFile<'_>, method: &Method, commit: &Commit) -> Result<Exclusion> {
    let fills_gaps = method.options().update_order().fills_gaps() || side.alignment > 1;
    if !fills_gaps {
        return Ok(Exclusion::Anybody);
    }
    if commit.is_unsafe {
        return Ok(Exclusion::Nobody);
    }
    let lease = exclude_others(side).map_err(|why| not_exclusive(side, why))?;
    Ok(Exclusion::UntilLeaseEnds(lease))
}
