//! Recovering a file from the journal of an interrupted update.
//!
//! A journal will be written to the file, so it is trusted only if no other user can have made it, and if each byte
//! that it names has the old or the new value in the file.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_sys::{self as sys, Access, FileSystemTrait};

use super::form::{ChangedPiece, Header, JournalReader};
use super::in_place::{hold, refuse_second};
use super::journal::{journal_name, read_or_zeros, remove};
use super::replace::{NewFileName, WatchedState};
use crate::error::{Error, RecoverError, RecoveryRefusal, ReplaceConflict, Result, SidecarKind, UpdateErrorKind};
use crate::files::{NameInDirectory, StepKind, Unwatched, Watch, WatchedStep, WritableByOthers, is_name_of_empty};

/// What recovering a file did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// There was no journal: no update was interrupted.
    Nothing,
    /// The journal was incomplete, so the update had not started; the journal is removed.
    Undone,
    /// All records of the journal, this many, are in the file and on the device; the journal is removed.
    Finished(u64),
}

/// Finishes or undoes an interrupted update of a file.
///
/// # Errors
/// [`RecoverError`] for a journal of another file, one that another user may have made, one that belongs to an older
/// state of the file, or a damaged one; the system's errors.
pub fn recover(path: impl AsRef<Path>) -> Result<Recovered> {
    let path = path.as_ref();
    recover_watched(path, &Unwatched)
}

/// The same, calling a watch before each step.
///
/// # Errors
/// As [`recover`], and those of the watch.
pub fn recover_watched(path: &Path, watch: &dyn Watch) -> Result<Recovered> {
    let place = &NameInDirectory::of(path)?;
    refuse_second(place)?;
    let file = Arc::new(place.open_for_writing()?);
    place.require_findable(&file, SidecarKind::Journal)?;
    hold(Arc::clone(&file), place)?;
    let recovered = match Interrupted::find(place, &file)? {
        None => Recovered::Nothing,
        Some(interrupted) => {
            let recovered = match interrupted.count_records()? {
                None => Recovered::Undone,
                Some(records) => {
                    interrupted.finish(watch)?;
                    Recovered::Finished(records)
                }
            };
            remove(place, watch)?;
            recovered
        }
    };
    recover_left(place, &file, watch)?;
    Ok(recovered)
}

/// A file with an interrupted update, and the journal.
struct Interrupted<'a> {
    place: &'a NameInDirectory,
    file: &'a File,
    journal: File,
    journal_path: PathBuf,
}

impl<'a> Interrupted<'a> {
    /// Opens the journal, if there is one; only this user, the file's owner or root can have written it.
    fn find(place: &'a NameInDirectory, file: &'a File) -> Result<Option<Self>> {
        let name = journal_name(&place.name);
        let journal_path = place.beside(&name);
        let failed = |error| Error::system(&journal_path, "open the journal", error);
        let refused = |refusal| Err(refused(&journal_path, place, refusal));
        match place.facts_of(&name).map_err(failed)? {
            None => return Ok(None),
            Some(found) if !found.is_file() => return refused(RecoveryRefusal::NotRegular),
            Some(_) => {}
        }
        let journal = place.directory.open_plain(&name, Access::Read).map_err(failed)?;
        let looked = journal.metadata().and_then(|found| Ok((found, file.metadata()?)));
        let (found, owned) = looked.map_err(failed)?;
        let trusted = [0, sys::effective_user(), owned.uid()];
        if !found.is_file() {
            return refused(RecoveryRefusal::NotRegular);
        }
        if !trusted.contains(&found.uid()) {
            return refused(RecoveryRefusal::Owner(found.uid()));
        }
        let is_listed = by_list(&journal_path, &journal, &found, file).map_err(failed)?;
        if is_listed || may_be_of_others(&found, &owned) || found.nlink() > 1 {
            let (mode, links) = (found.mode() & 0o7777, found.nlink());
            return refused(RecoveryRefusal::OpenToOthers { mode, links });
        }
        Ok(Some(Self {
            place,
            file,
            journal,
            journal_path,
        }))
    }

    fn refused<T>(&self, refusal: RecoveryRefusal) -> Result<T> {
        Err(refused(&self.journal_path, self.place, refusal))
    }

    /// The number of records of a complete journal; `None` if the update was interrupted before it changed the file.
    fn count_records(&self) -> Result<Option<u64>> {
        let metadata = self.place.metadata(self.file)?;
        let (header, mut read) = match JournalReader::new(&self.journal) {
            Ok(read) => read,
            // All of the journal is on the device before the file is changed, unless it was cut since.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return if self.is_older(&metadata)? {
                    Ok(None)
                } else {
                    self.refused(RecoveryRefusal::Damaged(error))
                };
            }
            Err(error) if error.raw_os_error().is_some() => {
                return Err(Error::system(&self.journal_path, "read the journal", error));
            }
            Err(error) => return self.refused(RecoveryRefusal::NoJournal(error)),
        };
        if header.inode != metadata.ino() && has_lasting_inode(&self.place.path)? {
            return self.refused(RecoveryRefusal::OtherFile);
        }
        let (links, links_before) = (metadata.nlink(), header.links);
        if links > links_before {
            return self.refused(RecoveryRefusal::NewLinks { links, links_before });
        }
        // Other processes may have appended to the file.
        let (bytes, bytes_before) = (metadata.len(), header.bytes_before);
        if bytes < bytes_before {
            return self.refused(RecoveryRefusal::Cut { bytes, bytes_before });
        }
        let (mut records, mut stale, mut found) = (0, None, Vec::new());
        loop {
            match read.next_piece() {
                Ok(Some(piece)) => {
                    records += 1;
                    found.resize(piece.bytes.len(), 0);
                    let read = read_or_zeros(self.file, &mut found, piece.offset);
                    read.map_err(|error| self.place.system("compare it with its journal", error))?;
                    if stale.is_none() {
                        stale = foreign_byte(&found, &piece);
                    }
                }
                Ok(None) => break,
                Err(_) if self.is_untouched(&metadata, &header)? => return Ok(None),
                Err(error) => return self.refused(RecoveryRefusal::Damaged(error)),
            }
        }
        stale.map_or(Ok(Some(records)), |offset| self.refused(RecoveryRefusal::Stale(offset)))
    }

    /// Whether the file was last written to before the journal was made.
    fn is_older(&self, file: &Metadata) -> Result<bool> {
        let journal = self.journal.metadata();
        let journal = journal.map_err(|error| Error::system(&self.journal_path, "stat", error))?;
        let made = journal.created().or_else(|_| journal.modified());
        let times = made.and_then(|made| Ok((file.modified()?, made)));
        let (modified, made) = times.map_err(|error| Error::system(&self.journal_path, "stat", error))?;
        // Both may have been written within one tick of the clock.
        Ok(modified < made)
    }

    /// Whether the file's mtime shows that nobody has written to it since the journal was started.
    fn is_untouched(&self, file: &Metadata, header: &Header) -> Result<bool> {
        let begun = self.journal.metadata();
        let begun = begun.map_err(|error| Error::system(&self.journal_path, "stat", error))?;
        let is_fine = file.mtime_nsec() != 0 || begun.mtime() - file.mtime() > COARSEST_SECONDS;
        Ok(is_fine && header.modified == (file.mtime(), file.mtime_nsec()))
    }

    /// Writes the records of the journal to the file, and syncs it.
    fn finish(&self, watch: &dyn Watch) -> Result<()> {
        const WRITING: &str = "write what its journal holds";
        let path = &self.place.path;
        let unread = |error| Error::system(&self.journal_path, "read the journal", error);
        let (_, mut read) = JournalReader::new(&self.journal).map_err(unread)?;
        while let Some(ChangedPiece { offset, bytes, .. }) = read.next_piece().map_err(unread)? {
            let step = WatchedStep {
                offset,
                bytes: bytes.len() as u64,
                ..WatchedStep::of(StepKind::Write, path)
            };
            let written = watch
                .before(&step)
                .and_then(|()| self.file.write_all_at(&bytes, offset));
            written.map_err(|error| self.place.system(WRITING, error))?;
        }
        watch.step(StepKind::Sync, path, WRITING, || sys::sync(self.file))
    }
}

fn refused(journal: &Path, place: &NameInDirectory, refusal: RecoveryRefusal) -> Error {
    let (journal, file) = (journal.to_owned(), place.path.clone());
    RecoverError { journal, file, refusal }.into()
}

/// Whether a user who may not write to the file may write to the journal. Compared with the file's mode, because mounts
/// of FAT, exFAT and NTFS give all files one mode.
fn may_be_of_others(journal: &Metadata, file: &Metadata) -> bool {
    let shared = if journal.gid() == file.gid() { 0o022 } else { 0o002 };
    journal.mode() & 0o022 & !(file.mode() & shared) != 0
}

/// Whether an access control list lets others write to the journal, but not the same one to the file.
fn by_list(path: &Path, journal: &File, found: &Metadata, file: &File) -> io::Result<bool> {
    let is_listed = WritableByOthers::of(path, journal, found)?.is_some_and(|exposed| exposed.has_list());
    Ok(is_listed && sys::access_list(journal)?.available() != sys::access_list(file)?.available())
}

fn has_lasting_inode(path: &Path) -> Result<bool> {
    let found = sys::file_system(path).map_err(|error| Error::system(path, "stat its file system", error))?;
    Ok(!found.has(FileSystemTrait::ChangingInodes))
}

/// FAT stores times in units of 2 seconds, so equal times may be those of an earlier write.
const COARSEST_SECONDS: i64 = 2;

/// The first byte that is neither the old nor the new one. An interrupted write may end anywhere.
fn foreign_byte(found: &[u8], piece: &ChangedPiece) -> Option<u64> {
    let wanted = piece.before.iter().zip(&piece.bytes);
    let foreign = found
        .iter()
        .zip(wanted)
        .position(|(found, (before, after))| found != before && found != after);
    foreign.map(|at| piece.offset + at as u64)
}

/// Removes files that killed replacements left in the directory, and reports those that only the user can decide on.
/// Files that another user than the file's owner, this user or root may have planted are not trusted.
///
/// # Errors
/// The system's; [`UpdateErrorKind::TwoFiles`] for a file under such a name that holds, or may hold, what other
/// processes wrote or saved.
pub(super) fn recover_left(place: &NameInDirectory, file: &File, watch: &dyn Watch) -> Result<()> {
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
        let is_ours = match NewFileName::parse(&name) {
            // The new file, which did not get the name, or not yet.
            Some(told) if left.inode == told.new_inode => true,
            // The old file, whose name a new file took. Other processes may have opened it before that.
            Some(told) if left.inode == told.old_inode => {
                let is_last = told.new_inode == found.ino();
                let is_as_it_was = left.modified == told.old_modified && (!is_last || is_like(place, &name, file));
                if !is_as_it_was && is_last {
                    undecided = Some((place.beside(&name), ReplaceConflict::ChangedOld));
                }
                is_as_it_was
            }
            Some(told) => {
                if told.new_inode == found.ino() {
                    undecided = Some((place.beside(&name), ReplaceConflict::PerhapsSaved));
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
