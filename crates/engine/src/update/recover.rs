//! Recovering a file whose update was interrupted, from the journal that it left.
//!
//! A journal is bytes that will be written to somebody's file, so it is believed only where nobody else can have made it,
//! and where the file holds what was there before it or what it wanted.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Access};

use super::commit::{lock, refuse_second};
use super::form::{Header, Read, Record};
use super::journal::{can_have_none, journal_name, read_or_zeros, remove};
use super::left;
use super::place::Place;
use super::watch::{Step, StepKind, Unwatched, Watch};
use crate::error::{Doubt, Error, RecoverError, Result};

/// What recovering a file did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// There was no journal: no update was interrupted.
    Nothing,
    /// The journal was not whole, so the file had not been touched; the journal is gone.
    Undone,
    /// This many updates of the journal are in the file and on the device; the journal is gone.
    Finished(u64),
}

/// Finishes or undoes an update of a file that was interrupted.
///
/// # Errors
/// [`RecoverError`] for a journal that is not of this file, that another user may have made, that is of an older state of the
/// file or was damaged; the system's errors.
pub fn recover(path: impl AsRef<Path>) -> Result<Recovered> {
    let path = path.as_ref();
    recover_watched(path, &Unwatched)
}

/// The same, telling a watch of each step before it is made.
///
/// # Errors
/// As [`recover`], and those of the watch.
#[doc(hidden)]
pub fn recover_watched(path: &Path, watch: &dyn Watch) -> Result<Recovered> {
    let place = &Place::of(path)?;
    refuse_second(place)?;
    let file = place.open_for_writing()?;
    lock(&file, place)?;
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
    left::recover(place, &file, watch)?;
    Ok(recovered)
}

/// A file whose update was interrupted, and the journal of it.
struct Interrupted<'a> {
    place: &'a Place,
    file: &'a File,
    journal: File,
    journal_path: PathBuf,
}

impl<'a> Interrupted<'a> {
    /// Opens a journal that only this user, the file's owner or root can have written; none where there is none.
    fn find(place: &'a Place, file: &'a File) -> Result<Option<Self>> {
        let name = journal_name(&place.name);
        let journal_path = place.beside(&name);
        let failed = |error| Error::system(&journal_path, "open the journal", error);
        let doubted = |doubt| Err(doubted(&journal_path, place, doubt));
        match place.directory.entry(&name) {
            Err(error) if can_have_none(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_file => return doubted(Doubt::NotRegular),
            Ok(_) => {}
        }
        let journal = place.directory.open_plain(&name, Access::Read).map_err(failed)?;
        let looked = journal.metadata().and_then(|found| Ok((found, file.metadata()?)));
        let (found, owned) = looked.map_err(failed)?;
        let trusted = [0, sys::effective_user(), owned.uid()];
        if !found.is_file() {
            return doubted(Doubt::NotRegular);
        }
        if !trusted.contains(&found.uid()) {
            return doubted(Doubt::Owner(found.uid()));
        }
        if may_be_of_others(&found, &owned) || found.nlink() > 1 {
            let (mode, links) = (found.mode() & 0o7777, found.nlink());
            return doubted(Doubt::OpenToOthers { mode, links });
        }
        Ok(Some(Self {
            place,
            file,
            journal,
            journal_path,
        }))
    }

    fn doubted<T>(&self, doubt: Doubt) -> Result<T> {
        Err(doubted(&self.journal_path, self.place, doubt))
    }

    /// The updates of a whole journal of the file; none where it was interrupted before the file was touched.
    fn count_records(&self) -> Result<Option<u64>> {
        let metadata = self.place.metadata(self.file)?;
        let (header, mut read) = match Read::new(BufReader::new(&self.journal)) {
            Ok(read) => read,
            // Its first bytes come to the device with all others or not at all, before the file is touched.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return self.doubted(Doubt::NoJournal(error)),
        };
        if header.inode != metadata.ino() && has_lasting_inode(&self.place.path)? {
            return self.doubted(Doubt::OtherFile);
        }
        let (links, links_before) = (metadata.nlink(), header.links);
        if links > links_before {
            return self.doubted(Doubt::NewLinks { links, links_before });
        }
        // Others may have appended to it.
        let (bytes, bytes_before) = (metadata.len(), header.bytes_before);
        if bytes < bytes_before {
            return self.doubted(Doubt::Cut { bytes, bytes_before });
        }
        let (mut records, mut stale, mut found) = (0, None, Vec::new());
        loop {
            match read.next_record() {
                Ok(Some(record)) => {
                    records += 1;
                    found.resize(record.bytes.len(), 0);
                    let read = read_or_zeros(self.file, &mut found, record.offset);
                    read.map_err(|error| self.place.system("compare it with its journal", error))?;
                    if stale.is_none() {
                        stale = foreign_byte(&found, &record);
                    }
                }
                Ok(None) => break,
                Err(_) if self.is_untouched(&metadata, &header)? => return Ok(None),
                Err(error) => return self.doubted(Doubt::Damaged(error)),
            }
        }
        stale.map_or(Ok(Some(records)), |offset| self.doubted(Doubt::Stale(offset)))
    }

    /// Whether the file's time proves that nobody has written to it since its journal was begun.
    fn is_untouched(&self, file: &Metadata, header: &Header) -> Result<bool> {
        let begun = self.journal.metadata();
        let begun = begun.map_err(|error| Error::system(&self.journal_path, "stat", error))?;
        let is_fine = file.mtime_nsec() != 0 || begun.mtime() - file.mtime() > COARSEST_SECONDS;
        Ok(is_fine && header.modified == (file.mtime(), file.mtime_nsec()))
    }

    /// Writes what the journal holds, and brings it to the device.
    fn finish(&self, watch: &dyn Watch) -> Result<()> {
        const WRITING: &str = "write what its journal holds";
        let path = &self.place.path;
        let unread = |error| Error::system(&self.journal_path, "read the journal", error);
        let mut journal = &self.journal;
        journal.rewind().map_err(unread)?;
        let (_, mut read) = Read::new(BufReader::new(journal)).map_err(unread)?;
        while let Some(Record { offset, bytes, .. }) = read.next_record().map_err(unread)? {
            let step = Step {
                offset,
                bytes: bytes.len() as u64,
                ..Step::of(StepKind::Write, path)
            };
            let written = watch
                .before(&step)
                .and_then(|()| self.file.write_all_at(&bytes, offset));
            written.map_err(|error| self.place.system(WRITING, error))?;
        }
        watch.step(StepKind::Sync, path, WRITING, || sys::sync(self.file))
    }
}

fn doubted(journal: &Path, place: &Place, doubt: Doubt) -> Error {
    let (journal, file) = (journal.to_owned(), place.path.clone());
    RecoverError { journal, file, doubt }.into()
}

/// Whether somebody may write to the journal who may not write to the file itself. Where a mount gives all files one mode,
/// as those of FAT, exFAT and NTFS do, no journal keeps its own.
fn may_be_of_others(journal: &Metadata, file: &Metadata) -> bool {
    let shared = if journal.gid() == file.gid() { 0o022 } else { 0o002 };
    journal.mode() & 0o022 & !(file.mode() & shared) != 0
}

/// File systems that may give a file another inode each time they are mounted: FAT and exFAT store none, and a program
/// of FUSE makes them up unless it has better ones.
const WITHOUT_LASTING_INODES: [&str; 3] = ["vfat", "exfat", "fuse"];

fn has_lasting_inode(path: &Path) -> Result<bool> {
    let found = sys::file_system(path).map_err(|error| Error::system(path, "stat its file system", error))?;
    Ok(!WITHOUT_LASTING_INODES.contains(&found.type_name.as_str()))
}

/// Times in units as coarse as FAT's may be those of an earlier write.
const COARSEST_SECONDS: i64 = 2;

/// The first byte that comes neither from before the update nor from it. A write that was cut off may end anywhere.
fn foreign_byte(found: &[u8], record: &Record) -> Option<u64> {
    let wanted = record.before.iter().zip(&record.bytes);
    let foreign = found
        .iter()
        .zip(wanted)
        .position(|(found, (before, after))| found != before && found != after);
    foreign.map(|at| record.offset + at as u64)
}
