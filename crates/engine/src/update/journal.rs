//! The journal: what will be written and what was there before, beside the file, on the device before the first byte of
//! the file changes. `docs/formats.md` has its layout.
//!
//! A journal that ends early was interrupted before the file was touched, and is removed. A whole one is written to the
//! file once more, however much of it was there: doing it twice gives the same. What a failing update wrote is undone
//! from it at once.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seekless_sys as sys;

use super::form::{Header, Length, Read, Record, Writer};
use super::resolved::Updates;
use super::watch::{Step, StepKind, Watch};
use super::writes::{Layout, Writes};
use crate::error::{Error, Result};
use crate::method::UpdateOrder;
use crate::transfer::Side;

/// Where the journal of a file is.
#[must_use]
pub fn journal_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".seekless-journal");
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
        Err(error) if can_have_none(&error) => Ok(()),
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

/// Whether there is no journal by the error of looking for it: the name of the file may leave no room for that of one.
pub(super) fn can_have_none(error: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::InvalidFilename].contains(&error.kind())
}

/// A journal that is whole and on the device.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
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
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let journal = made.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidFilename => Error::refused(
            side.path,
            "its name is so long that its journal could have none beside it; replace it (--safety replace), update it in \
             place, or give it a shorter name",
        ),
        _ => failed(error),
    })?;
    let header = Header {
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        bytes_before,
        bytes_after: side.bytes,
    };
    let written = fill((&journal, &path), &header, side, updates).and_then(|bytes| {
        let watched = watch.before(&Step::of(StepKind::Sync, &path));
        watched.and_then(|()| sys::sync(&journal)).map_err(failed)?;
        sync_folder(&path, watch)?;
        Ok(bytes)
    });
    match written {
        Ok(bytes) => Ok(Journal {
            path,
            file: journal,
            bytes,
        }),
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

/// How what was there before is read.
fn reading(end: u64) -> Layout {
    Layout {
        order: UpdateOrder::Coalesce(READ_GAP_BYTES),
        block_bytes: READ_BYTES as u64,
        alignment: 1,
        end,
    }
}

/// How long the journal of an update will be: counted once.
pub(super) fn bytes(updates: &Updates) -> Result<u64> {
    if updates.is_empty() {
        return Ok(0);
    }
    if let Some(&known) = updates.journal_bytes.get() {
        return Ok(known);
    }
    let mut length = Length::default();
    updates.each_window(|window| {
        let writes = Writes::new(window, reading(updates.end()));
        writes.for_each(|write| window.parts(&write).for_each(|(_, bytes)| length.push(bytes.len())));
        Ok(())
    })?;
    Ok(*updates.journal_bytes.get_or_init(|| length.finish()))
}

fn fill((journal, path): (&File, &Path), header: &Header, side: &Side<'_>, updates: &Updates) -> Result<u64> {
    let failed = |error| Error::system(path, "writing the journal", error);
    let mut writer = Writer::new(BufWriter::new(journal), header).map_err(failed)?;
    let mut before = vec![0; READ_BYTES];
    updates.each_window(|window| {
        for write in Writes::new(window, reading(side.bytes)) {
            let before = &mut before[..write.length as usize];
            read_or_zeros(&side.file, before, write.offset)
                .map_err(|error| Error::system(side.path, "reading what was there before", error))?;
            for (at, bytes) in window.parts(&write) {
                let pushed = writer.push(write.offset + at as u64, bytes, &before[at..at + bytes.len()]);
                pushed.map_err(failed)?;
            }
        }
        Ok(())
    })?;
    writer.finish().map_err(failed)
}

pub(super) fn read_or_zeros(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
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
        let undone = self.put_back(file).map(|()| remove(&self.path, watch));
        let what = match undone {
            Ok(Ok(())) => "; all of it was undone, and the file is as before".to_owned(),
            Ok(Err(error)) => format!(
                "; all of it was undone, and the file is as before, but its journal may be there, by which --recover would \
                 make the update after all ({error}): remove {} if it is",
                self.path.display()
            ),
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
        let mut journal = &self.file;
        journal.rewind().map_err(failed)?;
        let (header, mut read) = Read::new(BufReader::new(journal)).map_err(failed)?;
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

pub(super) fn remove(journal: &Path, watch: &dyn Watch) -> Result<()> {
    watch
        .before(&Step::of(StepKind::Remove, journal))
        .and_then(|()| fs::remove_file(journal))
        .map_err(|error| Error::system(journal, "removing the journal", error))?;
    sync_folder(journal, watch)
}
