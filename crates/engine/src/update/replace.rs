//! Updating a new file that takes the name of the old one, so that the name always leads to one complete file or the
//! other.
//!
//! The two files exchange their names (renameat2(2) `RENAME_EXCHANGE`), so that no file is overwritten unseen. If the
//! file that lost the name is the old one, unchanged, it is removed. If it is another, because a program saved the file
//! by renaming at that moment, the names are exchanged back.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use seekless_sys::{self as sys, Access, LeaseKind, Support};

use super::batch::Updates;
use super::in_place::{Commit, Updated, Updater, fill, harden, hold, refuse_second, written};
use super::journal::refuse_left;
use super::target::{Exclusion, UpdateState};
use super::writes::reach;
use crate::copy::Copier;
use crate::error::{Error, ReplaceConflict, Result, SidecarKind, UpdateErrorKind};
use crate::file_range::FileRange;
use crate::files::{Attributes, Exchange, NameInDirectory, NotExchanged, StatFacts, StepKind, UnfinishedFile, Watch};
use crate::plan::outcome::Outcome;
use crate::transfer::{Destination, OpenFile};
use seekless_method::{self as method, Choice, Durability, Method, Operation};

pub(super) fn replace(
    place: &NameInDirectory,
    updates: &Updates,
    method: &Method,
    commit: &Commit,
    watch: &dyn Watch,
) -> Result<Updated> {
    refuse_second(place)?;
    let old = place.open_with(Access::Read).map(Arc::new);
    let old = old.map_err(|error| place.system("open", error))?;
    let mut held = hold(Arc::clone(&old), place)?;
    // A user who may not write to the file may not replace it either. This is checked after locking, because opening
    // for writing would end the lease of another replacement, and closed again, because it would prevent our own lease.
    drop(place.open_for_writing()?);
    refuse_left(place)?;
    let stat = |error| place.system("stat", error);
    let before = WatchedState::of(&old).map_err(stat)?;
    let found = place.metadata(&old)?;
    place.require_findable(&old, SidecarKind::NewFile)?;
    let (links, beside) = (before.facts.names, SidecarKind::NewFile);
    if links > 1 {
        return Err(place.failed(UpdateErrorKind::HardLinks { links, beside }));
    }
    if !commit.grows {
        updates.require_inside(&place.path, found.len())?;
    }
    // Keeps writers out while the new file is made, because their writes would be lost; readers keep the old file. A writer that has
    // the file mapped changes neither its times nor its size at once.
    match held.keep_out(LeaseKind::AgainstWriters, None) {
        Err(why) if !commit.is_unsafe => return Err(place.failed(UpdateErrorKind::HasWriters(why))),
        _ => {}
    }
    let new = make(place, &found, watch)?;
    let made = complete(&new, place, &old, found.len(), updates, method, watch);
    let done = made.map_err(|cause| unmade(place, cause))?;
    if !held.is_alone() {
        return Err(place.failed(UpdateErrorKind::Opened));
    }
    // The ctime also shows changes of owner, mode, attributes and links.
    if !held.is_unchanged().map_err(stat)? {
        return Err(place.failed(UpdateErrorKind::Changed));
    }
    // A chmod or chown that waited for the exchange has changed the old file by now. Its ctime does not show that,
    // because the exchange set it.
    let is_unchanged = || WatchedState::of(&old).is_ok_and(|after| after.is_but_for_ctime(&before)) && held.is_alone();
    let synced = exchange_names(place, &new, &found, &is_unchanged, watch)?;
    synced.map_err(|error| {
        let (old, source) = (new.path.clone(), Box::new(error));
        place.failed(UpdateErrorKind::NotLasting { old, source })
    })?;
    let removed = watch.announce(StepKind::Remove, &new.path);
    removed.and_then(|()| new.remove(&found)).map_err(|source| {
        let old = new.path.clone();
        place.failed(UpdateErrorKind::OldFileLeft { old, source })
    })?;
    Ok(done)
}

/// Makes the new file the updated old one, brings it to the device, and gives it its temporary
/// name.
fn complete(
    new: &UnfinishedFile<'_>,
    place: &NameInDirectory,
    old: &File,
    old_bytes: u64,
    updates: &Updates,
    method: &Method,
    watch: &dyn Watch,
) -> Result<Updated> {
    keep_flags(old, &new.file, &place.path)?;
    let copied_bytes = copy(old, &place.path, new, watch)?;
    let done = update(new, old_bytes, updates, method, watch)?;
    keep_attributes(old, &new.file, &place.path)?;
    let failed = |action| move |error| Error::system(&new.path, action, error);
    new.sync(watch).map_err(failed("fsync"))?;
    new.name(watch).map_err(failed("name the new file"))?;
    Ok(Updated { copied_bytes, ..done })
}

/// The error of a call on the new file: the update was undone, and the old file is unchanged.
fn unmade(place: &NameInDirectory, cause: Error) -> Error {
    let is_lost = matches!(cause.update_kind(), Some(UpdateErrorKind::NotKept { .. }));
    if !is_lost && !matches!(cause, Error::System { .. }) {
        return cause;
    }
    place.failed(UpdateErrorKind::Undone {
        longer_bytes: 0,
        journal: None,
        source: Box::new(cause),
    })
}

fn update(
    new: &UnfinishedFile<'_>,
    bytes_before: u64,
    updates: &Updates,
    method: &Method,
    watch: &dyn Watch,
) -> Result<Updated> {
    let mut prepared = Updater::prepare_for(method, reach(method, updates.end(), bytes_before))?;
    let mut side = OpenFile::open_by(&new.path, method, Access::Overwrite, |how| new.open(how))?;
    side.bytes = updates.end().max(bytes_before);
    let state = UpdateState::new(watch, Exclusion::Nobody, bytes_before);
    fill(&mut *prepared.0.mechanism, &side, updates, &state)?;
    let fsync = harden(&side, updates, &state, false)?;
    Ok(Updated {
        fsync,
        ..written(&side, updates, &state)
    })
}

/// Shares the blocks if the file system can, otherwise copies them; returns the bytes copied.
fn copy(from: &File, old_path: &Path, new: &UnfinishedFile<'_>, watch: &dyn Watch) -> Result<u64> {
    let failed = |error: io::Error| Error::system(&new.path, "copy the file into it", error);
    match sys::clone_file(from, &new.file).map_err(failed)? {
        Support::Available(()) => Ok(0),
        Support::Unavailable(_) => {
            let (source, target) = (
                FileRange::of_file(from).named(old_path),
                FileRange::of_file(&new.file).named(&new.path),
            );
            let by_plan = Choice::Plan(method::PlannedChoice {
                operation: Operation::Copy,
                durability: Durability::None,
            });
            let (ended, path) = (OnceLock::new(), &new.path);
            let go_on = |_done, _of| match watch.announce(StepKind::Copy, path).map_err(|error| ended.set(error)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let written = Outcome::by_choice(
                by_plan,
                Operation::Copy,
                |durability| Copier::plan(&source, &target, durability, false),
                |method| Copier::prepare(method)?.copy_told(&source, &target, Destination::Overwrite, Some(&go_on)),
                None,
            );
            ended.into_inner().map_or(Ok(()), |error| Err(failed(error)))?;
            written.map(|written| written.bytes - written.hole_bytes)
        }
    }
}

/// Creates the file that will replace another.
fn make<'a>(place: &'a NameInDirectory, old: &Metadata, watch: &dyn Watch) -> Result<UnfinishedFile<'a>> {
    let announced = watch.announce(StepKind::Make, &place.path);
    // Syncs the directory first, so that an error of that is found before anything is done.
    let synced = announced.and_then(|()| place.directory.sync());
    let made = synced.and_then(|()| UnfinishedFile::make(place, |new| name_of(old, new)));
    made.map_err(|error| place.system("create a new file in its directory", error))
}

/// Exchanges names with the old file, if it is the unchanged old file. Returns how syncing their directory ended.
fn exchange_names(
    place: &NameInDirectory,
    new: &UnfinishedFile<'_>,
    old: &Metadata,
    is_unchanged: &dyn Fn() -> bool,
    watch: &dyn Watch,
) -> Result<Result<()>> {
    let ours = WatchedState::of(&new.file).map_err(|error| place.system("stat", error))?;
    let synced = OnceCell::new();
    let is = |name: &OsStr, file: &Metadata| matches!(place.facts_of(name), Ok(Some(entry)) if entry.is(file));
    let exchanged = Exchange {
        directory: &place.directory,
        name: &place.name,
        path: &place.path,
        temporary: &new.name,
        watch,
        is_ready: &|| Ok(()),
        may_go: &|| {
            let _ = synced.set(place.sync_directory(&place.path, watch));
            (is(&new.name, old) && is_unchanged()).then_some(()).ok_or(())
        },
        is_new: &|name| matches!(place.facts_of(name), Ok(Some(entry)) if entry.id() == ours.facts.id()),
    }
    .run();
    let two = |what| {
        let other = new.path.clone();
        place.failed(UpdateErrorKind::TwoFiles { other, what })
    };
    // Whoever opened it by the name in that moment may have written to it.
    let exchanged = match exchanged {
        Err(NotExchanged::GivenBack(())) if is_touched(&new.file, &ours) => Err(NotExchanged::Saved(())),
        other => other,
    };
    let keeps_name = matches!(
        exchanged,
        Err(NotExchanged::Refused(_)
            | NotExchanged::Unavailable(_)
            | NotExchanged::NotReady(())
            | NotExchanged::GivenBack(()))
    );
    new.has_name.set(keeps_name);
    match exchanged {
        Ok(()) => Ok(synced.into_inner().unwrap_or(Ok(()))),
        Err(NotExchanged::Unavailable(reason)) => Err(place.failed(UpdateErrorKind::NoExchange(reason))),
        Err(NotExchanged::Refused(error)) => Err(place.system("exchange names with the new file", error)),
        Err(NotExchanged::Saved(())) => {
            // Under the old name, `recover` would take it for what a killed replacement left.
            let kept = kept_name(&new.name);
            let other = match place.directory.rename_new(&new.name, &place.directory, &kept) {
                Ok(Support::Available(())) => place.beside(&kept),
                _ => new.path.clone(),
            };
            let what = ReplaceConflict::SavedBefore;
            Err(place.failed(UpdateErrorKind::TwoFiles { other, what }))
        }
        Err(NotExchanged::Aside((), error)) => Err(two(ReplaceConflict::NotGivenBack(error))),
        Err(NotExchanged::NotReady(()) | NotExchanged::GivenBack(()) | NotExchanged::Removed(())) => {
            Err(place.failed(UpdateErrorKind::Changed))
        }
    }
}

/// Whether another process has the file open, or has changed it since it was in this state; its ctime does not show that, because
/// renaming sets it.
fn is_touched(file: &File, before: &WatchedState) -> bool {
    let lease = sys::take_lease(file, LeaseKind::Exclusive);
    let is_open = lease.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    is_open || WatchedState::of(file).is_ok_and(|now| !now.is_but_for_ctime(before))
}

/// Copies the flags of `from` to `to`, which is still empty, because some can only be set on an empty file.
///
/// # Errors
/// The system's, if one cannot be copied.
fn keep_flags(from: &File, to: &File, path: &Path) -> Result<()> {
    let kept = sys::copy_inode_flags(from, to);
    kept.map_err(not_kept(path, "flags (lsattr)"))
}

fn not_kept(path: &Path, attribute: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| UpdateErrorKind::NotKept { attribute, source }.at(path)
}

/// Copies owner, mode and extended attributes, including access control lists, from `from` to `to`.
///
/// # Errors
/// The system's, if one cannot be copied.
fn keep_attributes(from: &File, to: &File, path: &Path) -> Result<()> {
    let wanted = Attributes::of(from).map_err(|error| Error::system(path, "read its attributes", error))?;
    wanted
        .give(to)
        .map_err(|(attribute, error)| not_kept(path, attribute)(error))
}

/// The properties of a file that other processes may change.
pub(super) struct WatchedState {
    pub facts: StatFacts,
    pub attributes: Support<sys::ExtendedAttributes>,
}

impl WatchedState {
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self {
            facts: StatFacts::of(file)?,
            attributes: sys::extended_attributes(file.as_fd())?,
        })
    }

    /// Whether nothing but the ctime differs.
    pub fn is_but_for_ctime(&self, other: &Self) -> bool {
        let has_same_names = self.facts.names == other.facts.names && self.facts.is_but_for_names(&other.facts);
        has_same_names && self.attributes == other.attributes
    }
}

/// The prefix of the names of new files. Behind it are the inodes of the old and the new file, and the old one's mtime
/// in seconds and nanoseconds: these identify a file as one of ours.
const PREFIX: &str = ".seekless-new-";

fn name_of(old: &Metadata, new: &Metadata) -> OsString {
    let (seconds, nanoseconds) = (old.mtime(), old.mtime_nsec());
    format!("{PREFIX}{}-{}-{seconds}.{nanoseconds}", old.ino(), new.ino()).into()
}

/// The name of a new file that another process has written to, by its name as a new one.
fn kept_name(new: &OsStr) -> OsString {
    let mut name = OsString::from(".seekless-kept-");
    name.push(new.to_string_lossy().strip_prefix(PREFIX).unwrap_or_default());
    name
}

/// The parts of a name by [`name_of`].
pub(super) struct NewFileName {
    pub old_inode: u64,
    pub new_inode: u64,
    pub old_modified: (i64, u32),
}

impl NewFileName {
    pub fn parse(name: &OsStr) -> Option<Self> {
        let (old, rest) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
        let (new, time) = rest.split_once('-')?;
        let (seconds, nanoseconds) = time.split_once('.')?;
        Some(Self {
            old_inode: old.parse().ok()?,
            new_inode: new.parse().ok()?,
            old_modified: (seconds.parse().ok()?, nanoseconds.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Unwatched;
    use crate::update::recover::recover_left;
    use std::fs;

    fn place() -> (tempfile::TempDir, NameInDirectory) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "old").unwrap();
        let place = NameInDirectory::of(&path).unwrap();
        (directory, place)
    }

    #[test]
    fn what_is_left_of_a_new_file_is_known_by_the_inodes_in_its_name() {
        let (directory, place) = place();
        let old = fs::metadata(&place.path).unwrap();
        let named = UnfinishedFile::make_named(&place, |new| name_of(&old, new)).unwrap();
        let path = named.path.clone();
        named.has_name.set(false);
        drop(named);
        let mut theirs = vec![
            path.with_file_name(format!("{}{}-1-1.1", PREFIX, old.ino())),
            path.with_file_name(PREFIX),
            directory.path().join(".file.seekless-new"),
        ];
        for path in &theirs {
            fs::write(path, "precious").unwrap();
        }
        // A copy has another inode.
        let copied = path.with_extension("copy");
        fs::copy(&path, &copied).unwrap();
        let other = directory.path().join(name_of(
            &fs::metadata(&path).unwrap(),
            &fs::metadata(&theirs[0]).unwrap(),
        ));
        fs::rename(&copied, &other).unwrap();
        theirs.push(other);
        recover_left(&place, &File::open(&place.path).unwrap(), &Unwatched).unwrap();
        assert!(!path.exists());
        for path in &theirs {
            assert!(path.exists(), "{}", path.display());
        }
    }

    #[test]
    fn a_new_file_that_has_a_name_from_the_start_is_removed_unless_it_takes_the_old_ones() {
        let (directory, place) = place();
        let new = UnfinishedFile::make_named(&place, |new| name_of(&fs::metadata(&place.path).unwrap(), new)).unwrap();
        assert!(new.path.exists());
        drop(new);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
