//! Files left by replacements that were killed: a new file that did not get the name, or the old file that lost it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use seekless_sys as sys;

use super::state::WatchedState;
use crate::error::{Other, Result, UpdateErrorKind};
use crate::files::{NameInDirectory, StepKind, Watch, is_name_of_empty};

/// The prefix of the names of new files. Behind it are the inodes of the old and the new file, and the old one's mtime
/// in seconds and nanoseconds: these identify a file as one of ours.
pub(super) const PREFIX: &str = ".seekless-new-";

pub(super) fn name_of(old: &Metadata, new: &Metadata) -> OsString {
    let (seconds, nanoseconds) = (old.mtime(), old.mtime_nsec());
    format!("{PREFIX}{}-{}-{seconds}.{nanoseconds}", old.ino(), new.ino()).into()
}

/// The parts of a name by [`name_of`].
struct Told {
    old: u64,
    new: u64,
    modified: (i64, u32),
}

impl Told {
    fn by(name: &OsStr) -> Option<Self> {
        let (old, rest) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
        let (new, time) = rest.split_once('-')?;
        let (seconds, nanoseconds) = time.split_once('.')?;
        Some(Self {
            old: old.parse().ok()?,
            new: new.parse().ok()?,
            modified: (seconds.parse().ok()?, nanoseconds.parse().ok()?),
        })
    }
}

/// Removes files that killed replacements left in the directory, and reports those that only the user can decide on.
/// Files that another user than the file's owner, this user or root may have planted are not trusted.
///
/// # Errors
/// The system's; [`UpdateErrorKind::TwoFiles`] for a file under such a name that holds, or may hold, what other
/// processes wrote or saved.
pub(super) fn recover(place: &NameInDirectory, file: &File, watch: &dyn Watch) -> Result<()> {
    let found = &place.metadata(file)?;
    let failed = |error| place.system("search its directory for files of a killed update", error);
    let trusted = [0, sys::effective_user(), found.uid()];
    let mut undecided = None;
    for name in place.directory.names().map_err(failed)? {
        if !name.as_encoded_bytes().starts_with(b".seekless-") {
            continue;
        }
        let Some(left) = place.facts_of(&name).map_err(failed)? else {
            continue;
        };
        if !left.is_file() || !trusted.contains(&left.owner) {
            continue;
        }
        let is_ours = match Told::by(&name) {
            // The new file, which did not get the name, or not yet.
            Some(told) if left.inode == told.new => true,
            // The old file, whose name a new file took. Other processes may have opened it before that.
            Some(told) if left.inode == told.old => {
                let is_last = told.new == found.ino();
                let is_as_it_was = left.modified == told.modified && (!is_last || is_like(place, &name, file));
                if !is_as_it_was && is_last {
                    undecided = Some((place.beside(&name), Other::ChangedOld));
                }
                is_as_it_was
            }
            Some(told) => {
                if told.new == found.ino() {
                    undecided = Some((place.beside(&name), Other::PerhapsSaved));
                }
                false
            }
            None => left.bytes == 0 && is_name_of_empty(&name),
        };
        if is_ours && is_abandoned(place, &name) {
            let (path, action) = (place.beside(&name), "remove a file of a killed update");
            watch.step(StepKind::Remove, &path, action, || place.directory.remove_file(&name))?;
        }
    }
    match undecided {
        None => Ok(()),
        Some((other, what)) => Err(place.failed(UpdateErrorKind::TwoFiles { other, what })),
    }
}

/// Whether a file beside another has its owner, mode and attributes.
fn is_like(place: &NameInDirectory, name: &OsStr, file: &File) -> bool {
    let states = place
        .open_of(name)
        .and_then(|left| Ok((WatchedState::of(&left)?, WatchedState::of(file)?)));
    states.is_ok_and(|(left, file)| {
        let rights = |state: &WatchedState| (state.facts.mode, state.facts.owner, state.facts.group);
        rights(&left) == rights(&file) && left.attributes == file.attributes
    })
}

/// Whether no replacement is using a file: one that does has locked the old and the new file.
fn is_abandoned(place: &NameInDirectory, name: &OsStr) -> bool {
    place.open_of(name).is_ok_and(|file| file.try_lock().is_ok())
}
