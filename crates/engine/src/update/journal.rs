//! The journal: what will be written and what was there before, beside the file, on the device before the first byte of
//! the file changes. `docs/formats.md` has its layout.
//!
//! A journal that ends early was interrupted before the file was touched, and is removed. A whole one is written to the
//! file once more, however much of it was there: doing it twice gives the same. What a failing update wrote is undone
//! from it at once.

mod form;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seekless_sys as sys;

use super::batch::Updates;
use super::commit::{end_of_links, lock};
use super::watch::{Step, StepKind, Unwatched, Watch};
use super::writes::{Layout, Writes};
use crate::error::{Error, Result};
use crate::method::UpdateOrder;
use crate::transfer::Side;
use form::{Header, Read, Record, Writer};

/// What recovering a file did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// There was no journal: no update was interrupted.
    Nothing,
    /// The journal was not whole, so the file had not been touched; the journal is gone.
    Undone,
    /// So many updates of the journal are in the file and on the device; the journal is gone.
    Finished(u64),
}

/// Where the journal of a file is.
#[must_use]
pub fn journal_path(path: &Path) -> PathBuf {
    beside(path, "journal")
}

/// The name of a file of ours beside a file.
pub(super) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".seekless-{what}"));
    path.with_file_name(name)
}

/// Opens the folder that a file is in.
pub(super) fn folder_of(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
}

/// Brings the names in a file's folder to the device.
pub(super) fn sync_folder(path: &Path, watch: &dyn Watch) -> Result<()> {
    watch
        .before(&Step::of(StepKind::Sync, path))
        .and_then(|()| sys::sync(&folder_of(path)?))
        .map_err(|error| Error::system(path, "fsync of its folder", error))
}

/// Fails where an update was interrupted and nobody has recovered the file yet.
pub(super) fn refuse_left(path: &Path) -> Result<()> {
    let journal = journal_path(path);
    match fs::symlink_metadata(&journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::system(&journal, "looking at it", error)),
        Ok(_) => Err(Error::refused(
            path,
            &format!(
                "an update of it was interrupted and left {}; recover the file first (--recover)",
                journal.display()
            ),
        )),
    }
}

/// A journal that is whole and on the device.
pub(super) struct Journal {
    path: PathBuf,
    pub bytes: u64,
}

/// Writes the journal of an update, and brings it and its name to the device.
pub(super) fn write(side: &Side<'_>, bytes_before: u64, updates: &Updates, watch: &dyn Watch) -> Result<Journal> {
    if side.alignment > 1 {
        // What was there before is read from odd places, and opening the file once more would end our lease.
        return Err(side.unavailable("a journal takes no direct I/O"));
    }
    let path = journal_path(side.path);
    let metadata = side.metadata()?;
    let failed = |error| Error::system(&path, "writing the journal", error);
    watch.before(&Step::of(StepKind::Make, &path)).map_err(failed)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let journal = made.map_err(failed)?;
    let header = Header {
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        bytes_before,
        bytes_after: side.bytes,
    };
    let written = fill(&journal, &header, side, updates)
        .and_then(|bytes| {
            watch.before(&Step::of(StepKind::Sync, &path))?;
            sys::sync(&journal)?;
            Ok(bytes)
        })
        .map_err(failed)
        .and_then(|bytes| sync_folder(&path, watch).map(|()| bytes));
    match written {
        Ok(bytes) => Ok(Journal { path, bytes }),
        Err(error) => {
            // Nothing of the file has changed: without a journal it is as if nothing had been asked.
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}

/// What lies between updates no further apart is read along, when what was there before is.
const READ_GAP_BYTES: u64 = 16 << 10;
const READ_BYTES: usize = 1 << 20;

fn fill(journal: &File, header: &Header, side: &Side<'_>, updates: &Updates) -> io::Result<u64> {
    let mut writer = Writer::new(BufWriter::new(journal), header)?;
    let layout = Layout {
        order: UpdateOrder::Coalesce(READ_GAP_BYTES),
        block_bytes: READ_BYTES as u64,
        alignment: 1,
        end: side.bytes,
    };
    let mut before = vec![0; READ_BYTES];
    for write in Writes::new(updates, layout) {
        let before = &mut before[..write.length as usize];
        read_or_zeros(&side.file, before, write.offset)?;
        for (at, bytes) in updates.parts(&write) {
            writer.push(write.offset + at as u64, bytes, &before[at..at + bytes.len()])?;
        }
    }
    writer.finish()
}

fn read_or_zeros(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes[done..].fill(0);
    Ok(())
}

impl Journal {
    /// Removes the journal of an update that is on the device.
    pub fn remove(self, watch: &dyn Watch) -> Result<()> {
        remove(&self.path, watch)
    }

    /// Puts back what was there before an update that failed, and gives the error that says so.
    pub fn undo(self, file: &File, cause: Error, watch: &dyn Watch) -> Error {
        let undone = self.put_back(file).and_then(|()| remove(&self.path, watch));
        let what = match undone {
            Ok(()) => "; all of it was undone, and the file is as before".to_owned(),
            Err(error) => format!(
                "; undoing it failed too ({error}), so the file is partly updated: recover it when the reason is gone \
                 (--recover)"
            ),
        };
        Error::Undone {
            what,
            cause: Box::new(cause),
        }
    }

    fn put_back(&self, file: &File) -> Result<()> {
        let failed = |error| Error::system(&self.path, "undoing what it holds", error);
        let (header, mut read) = open(&self.path)?;
        // First, as it frees what the disk may be full of.
        file.set_len(header.bytes_before).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(Record { offset, before, .. }) = read.next_record().map_err(failed)? {
            let inside = header.bytes_before.saturating_sub(offset).min(before.len() as u64);
            let before = &before[..inside as usize];
            found.resize(before.len(), 0);
            read_or_zeros(file, &mut found, offset).map_err(failed)?;
            // What was not written is left alone: a full disk has no room for the zeros of a hole.
            if found != before {
                file.write_all_at(before, offset).map_err(failed)?;
            }
        }
        sys::sync(file).map_err(failed)
    }
}

fn remove(journal: &Path, watch: &dyn Watch) -> Result<()> {
    watch
        .before(&Step::of(StepKind::Remove, journal))
        .and_then(|()| fs::remove_file(journal))
        .map_err(|error| Error::system(journal, "removing the journal", error))?;
    sync_folder(journal, watch)
}

type Reading = Read<BufReader<File>>;

fn open(path: &Path) -> Result<(Header, Reading)> {
    let file = File::open(path).map_err(|error| Error::system(path, "opening the journal", error))?;
    Read::new(BufReader::new(file)).map_err(|error| Error::system(path, "reading the journal", error))
}

/// Finishes or undoes an update of a file that was interrupted.
///
/// # Errors
/// [`Error::Refused`] for a journal that is not of this file or was damaged, with what to do; the system's errors.
pub fn recover(path: &Path) -> Result<Recovered> {
    recover_watched(path, &Unwatched)
}

/// The same, telling a watch of each step before it is made.
///
/// # Errors
/// As [`recover`], and those of the watch.
#[doc(hidden)]
pub fn recover_watched(path: &Path, watch: &dyn Watch) -> Result<Recovered> {
    let path = &end_of_links(path)?;
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let file = opened.map_err(|error| Error::system(path, "opening it for writing", error))?;
    lock(&file, path)?;
    // That of a replacement that was killed: the file is as before.
    let _ = fs::remove_file(beside(path, "new"));
    let journal = journal_path(path);
    match fs::symlink_metadata(&journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Recovered::Nothing),
        Err(error) => return Err(Error::system(&journal, "looking at it", error)),
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(Error::refused(&journal, "is no regular file, so no journal of ours")),
    }
    match count_records(&journal, path, &file)? {
        None => {
            remove(&journal, watch)?;
            Ok(Recovered::Undone)
        }
        Some(records) => {
            finish(&journal, path, &file, watch)?;
            remove(&journal, watch)?;
            Ok(Recovered::Finished(records))
        }
    }
}

/// The updates of a whole journal of the file; none where it was interrupted before the file was touched.
fn count_records(journal: &Path, path: &Path, file: &File) -> Result<Option<u64>> {
    let metadata = file
        .metadata()
        .map_err(|error| Error::system(path, "looking at it", error))?;
    let opened = File::open(journal).map_err(|error| Error::system(journal, "opening the journal", error))?;
    let (header, mut read) = match Read::new(BufReader::new(opened)) {
        Ok(read) => read,
        // Its first bytes come to the device with all others or not at all, before the file is touched.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => {
            let what = format!("{error}; if it is none of yours, move it away");
            return Err(Error::refused(journal, &what));
        }
    };
    let sizes = header.bytes_before..=header.bytes_after;
    if header.inode != metadata.ino() || !sizes.contains(&metadata.len()) {
        let what = format!(
            "is the journal of another file than {} is now, which was replaced or cut; nothing was changed: move the \
             journal away if that was meant",
            path.display()
        );
        return Err(Error::refused(journal, &what));
    }
    let mut records = 0;
    loop {
        match read.next_record() {
            Ok(Some(_)) => records += 1,
            Ok(None) => return Ok(Some(records)),
            Err(_) if header.modified == (metadata.mtime(), metadata.mtime_nsec()) => return Ok(None),
            Err(error) => {
                let what = format!(
                    "{error}, but {} has been written to since; nothing was changed: move the journal away if the file \
                     is good as it is",
                    path.display()
                );
                return Err(Error::refused(journal, &what));
            }
        }
    }
}

fn finish(journal: &Path, path: &Path, file: &File, watch: &dyn Watch) -> Result<()> {
    let failed = |error| Error::system(path, "writing what its journal holds", error);
    let (_, mut read) = open(journal)?;
    while let Some(Record { offset, bytes, .. }) = read.next_record().map_err(failed)? {
        let step = Step {
            offset,
            bytes: bytes.len() as u64,
            ..Step::of(StepKind::Write, path)
        };
        watch.before(&step).map_err(failed)?;
        file.write_all_at(&bytes, offset).map_err(failed)?;
    }
    watch.before(&Step::of(StepKind::Sync, path)).map_err(failed)?;
    sys::sync(file).map_err(failed)
}
