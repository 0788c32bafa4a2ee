//! The journal: what will be written and what was there before, beside the file, on the device before the first byte of
//! the file changes. `docs/formats.md` has its layout.
//!
//! A journal that ends early was interrupted before the file was touched, and is removed. A whole one is written to the
//! file once more, however much of it was there: doing it twice gives the same. What a failing update wrote is undone
//! from it at once.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, FileSystemTrait, Support};

use super::batch::Updates;
use super::form::{ChangedPiece, Header, JournalReader, JournalWriter, journal_bytes, pieces_bytes};
use super::grown;
use super::target::UpdateState;
use super::writes::{Write, WriteLayout, Writes};
use crate::error::{Error, Result, SidecarKind, UpdateErrorKind};
use crate::files::{NameInDirectory, StepKind, Watch, read_full};
use crate::transfer::OpenFile;
use seekless_method::UpdateOrder;

/// Where the journal of a file is.
#[must_use]
pub fn journal_path(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    path.with_file_name(journal_name(path.file_name().unwrap_or_default()))
}

pub(super) fn journal_name(of: &OsStr) -> OsString {
    let mut name = OsString::from(".");
    name.push(of);
    name.push(".seekless-journal");
    name
}

/// Fails where an update was interrupted and nobody has recovered the file yet.
pub(super) fn refuse_left(place: &NameInDirectory) -> Result<()> {
    let name = journal_name(&place.name);
    let journal = place.beside(&name);
    match place.facts_of(&name) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(place.failed(UpdateErrorKind::Interrupted(journal))),
        Err(error) => Err(Error::system(&journal, "stat", error)),
    }
}

const WRITING: &str = "write the journal";
const UNDOING: &str = "undo the update";

/// A journal that is whole and on the device.
pub(super) struct Journal<'a> {
    place: &'a NameInDirectory,
    path: PathBuf,
    file: File,
    reserve: Option<File>,
    pub bytes: u64,
}

/// Writes the journal of an update, and brings it and its name to the device.
pub(super) fn write<'a>(
    place: &'a NameInDirectory,
    side: &OpenFile<'_>,
    bytes_before: u64,
    updates: &Updates,
    is_unsafe: bool,
    watch: &dyn Watch,
) -> Result<Journal<'a>> {
    if side.alignment > 1 {
        // What was there before is read from odd places, and opening the file once more would end our lease.
        return Err(side.unavailable("a journal does not support direct I/O"));
    }
    let metadata = side.metadata()?;
    place.require_findable(&side.file, SidecarKind::Journal)?;
    if metadata.nlink() > 1 && !is_unsafe {
        let (links, beside) = (metadata.nlink(), SidecarKind::Journal);
        return Err(place.failed(UpdateErrorKind::HardLinks { links, beside }));
    }
    let name = journal_name(&place.name);
    let path = place.beside(&name);
    let failed = |error| Error::system(&path, WRITING, error);
    watch.announce(StepKind::Make, &path).map_err(failed)?;
    let journal = place
        .directory
        .create_file(&name, 0o600)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidFilename => place.failed(UpdateErrorKind::NameTooLong),
            _ => failed(error),
        })?;
    let header = Header {
        inode: metadata.ino(),
        links: metadata.nlink(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        bytes_before,
        bytes_after: side.bytes,
    };
    let written = fill(journal, &path, &header, side, updates).and_then(|(journal, bytes)| {
        let reserve = reserve_for_undo(place, side, updates).map_err(failed)?;
        watch.step(StepKind::Sync, &path, WRITING, || sys::sync(&journal))?;
        place.sync_directory(&path, watch)?;
        Ok((journal, bytes, reserve))
    });
    let (file, bytes, reserve) = written.inspect_err(|_| {
        // Nothing of the file has changed: without a journal it is as if nothing had been asked.
        let _ = place.directory.remove_file(&name);
    })?;
    Ok(Journal {
        place,
        path,
        file,
        reserve,
        bytes,
    })
}

/// Allocates what undoing may take where the disk is full by then, in a file without a name: what such a file takes can be
/// given back even when a truncation finds no room. None where undoing takes nothing.
fn reserve_for_undo(place: &NameInDirectory, side: &OpenFile<'_>, updates: &Updates) -> io::Result<Option<File>> {
    if !sys::file_system(side.path)?.has(FileSystemTrait::CopiesOnWrite) {
        return Ok(None);
    }
    let Support::Available((file, _)) = sys::unnamed_file(&place.directory)? else {
        return Ok(None);
    };
    let block_bytes = file.metadata()?.blksize().max(1);
    let most = updates.requested_bytes() + 2 * updates.gaps.pieces * block_bytes;
    sys::allocate(&file, 0, most.min(side.bytes.next_multiple_of(block_bytes)))?;
    Ok(Some(file))
}

/// When the old bytes are read, updates with no larger gap between them are read in one piece.
const READ_GAP_BYTES: u64 = 16 << 10;
const READ_BYTES: usize = 1 << 20;

/// How the old bytes are read.
fn reading(end: u64) -> WriteLayout {
    WriteLayout {
        order: UpdateOrder::Coalesce(READ_GAP_BYTES),
        block_bytes: READ_BYTES as u64,
        alignment: 1,
        end,
    }
}

/// How long the journal of an update will be: counted once.
pub(super) fn bytes(updates: &Updates) -> u64 {
    if updates.is_empty() {
        return 0;
    }
    let count = || {
        let writes = Writes::new(updates, reading(updates.end()));
        let of_write = |write: Write| -> u64 { write.parts(updates).map(|(_, bytes)| pieces_bytes(bytes.len())).sum() };
        journal_bytes(writes.map(of_write).sum())
    };
    *updates.journal_bytes.get_or_init(count)
}

fn fill(journal: File, path: &Path, header: &Header, side: &OpenFile<'_>, updates: &Updates) -> Result<(File, u64)> {
    let failed = |error| Error::system(path, WRITING, error);
    let mut writer = JournalWriter::new(journal, header);
    let mut before = vec![0; READ_BYTES];
    for write in Writes::new(updates, reading(side.bytes)) {
        let before = &mut before[..write.length as usize];
        read_or_zeros(&side.file, before, write.offset)
            .map_err(|error| Error::system(side.path, "read the old bytes", error))?;
        for (at, bytes) in write.parts(updates) {
            let pushed = writer.push(write.offset + at as u64, bytes, &before[at..at + bytes.len()]);
            pushed.map_err(failed)?;
        }
    }
    writer.finish().map_err(failed)
}

pub(super) fn read_or_zeros(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let done = read_full(file, bytes, offset)?;
    bytes[done..].fill(0);
    Ok(())
}

impl Journal<'_> {
    /// Removes the journal of an update that is on the device.
    pub fn remove(self, watch: &dyn Watch) -> Result<()> {
        remove(self.place, watch)
    }

    /// Puts back what was there before an update that failed, and gives the error that says so.
    pub fn undo(mut self, side: &OpenFile<'_>, cause: Error, state: &UpdateState<'_>) -> Error {
        drop(self.reserve.take());
        let source = Box::new(cause);
        self.place.failed(match self.put_back(side, state) {
            Ok(longer_bytes) => UpdateErrorKind::Undone {
                longer_bytes,
                journal: remove(self.place, state.watch).err().map(Box::new),
                source,
            },
            Err(undoing) => UpdateErrorKind::NotUndone {
                undoing: Box::new(undoing),
                source,
            },
        })
    }

    /// Puts back each byte that the update changed and nobody changed since. Returns by how many bytes the file is
    /// longer than before.
    fn put_back(&self, side: &OpenFile<'_>, state: &UpdateState<'_>) -> Result<u64> {
        let failed = |error| Error::system(&self.path, UNDOING, error);
        // First, as it frees what the disk may be full of.
        self.cut(side, state)?;
        let (header, mut pieces) = self.pieces()?;
        let mut found = Vec::new();
        while let Some(piece) = pieces.next_piece().map_err(failed)? {
            found.resize(piece.bytes.len(), 0);
            read_or_zeros(&side.file, &mut found, piece.offset).map_err(failed)?;
            for (at, before) in changed(&found, &piece) {
                let written = side.file.write_all_at(before, piece.offset + at as u64);
                written.map_err(failed)?;
            }
        }
        sys::sync(&side.file).map_err(failed)?;
        Ok(side.metadata()?.len().saturating_sub(header.bytes_before))
    }

    /// Cuts the file to what it was, if all behind it is from the update.
    fn cut(&self, side: &OpenFile<'_>, state: &UpdateState<'_>) -> Result<bool> {
        let failed = |error| Error::system(&self.path, UNDOING, error);
        let (header, mut pieces) = self.pieces()?;
        let mut coming = pieces.next_piece().map_err(failed)?;
        let mut wanted = Vec::new();
        grown::cut(side, header.bytes_before, state, |offset, bytes| {
            let end = offset + bytes.len() as u64;
            wanted.clear();
            wanted.resize(bytes.len(), 0);
            while let Some(piece) = coming.as_ref().filter(|piece| piece.offset < end) {
                let piece_end = piece.offset + piece.bytes.len() as u64;
                let (from, until) = (piece.offset.max(offset), piece_end.min(end));
                if from < until {
                    let part = (from - piece.offset) as usize..(until - piece.offset) as usize;
                    wanted[(from - offset) as usize..(until - offset) as usize].copy_from_slice(&piece.bytes[part]);
                }
                if piece_end > end {
                    break;
                }
                coming = pieces.next_piece().map_err(failed)?;
            }
            // What was not written yet is zeros.
            Ok(wanted
                .iter()
                .zip(bytes)
                .all(|(wanted, &found)| found == *wanted || found == 0))
        })
    }

    /// Reads it from its start. One reader at a time: they share the place in the file.
    fn pieces(&self) -> Result<(Header, JournalReader<&File>)> {
        JournalReader::new(&self.file).map_err(|error| Error::system(&self.path, "read the journal", error))
    }
}

/// Stretches that lie closer are written together. Less than a block: so no hole lies between.
const NEAR_BYTES: usize = 256;

/// The stretches of a piece that hold what the update wanted: where each begins, and what was there before. What others
/// wrote since is in none of them.
fn changed<'a>(found: &'a [u8], piece: &'a ChangedPiece) -> impl Iterator<Item = (usize, &'a [u8])> {
    let is_changed = |at: usize| found[at] == piece.bytes[at] && found[at] != piece.before[at];
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = (at..found.len()).find(|&at| is_changed(at))?;
        let mut end = start + 1;
        at = end;
        while at < found.len() && at - end < NEAR_BYTES {
            if is_changed(at) {
                end = at + 1;
            } else if found[at] != piece.before[at] {
                break;
            }
            at += 1;
        }
        at = end;
        Some((start, &piece.before[start..end]))
    })
}

pub(super) fn remove(place: &NameInDirectory, watch: &dyn Watch) -> Result<()> {
    let name = journal_name(&place.name);
    let path = place.beside(&name);
    watch.step(StepKind::Remove, &path, "remove the journal", || {
        place.directory.remove_file(&name)
    })?;
    place.sync_directory(&path, watch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn undoing_puts_back_what_the_update_changed_and_touches_nothing_else(
            // Few values, so that they are often the same.
            bytes in proptest::collection::vec((0u8..3, 0u8..3, 0u8..3), 0..700),
        ) {
            let piece = ChangedPiece {
                offset: 0,
                bytes: bytes.iter().map(|byte| byte.0).collect(),
                before: bytes.iter().map(|byte| byte.1).collect(),
            };
            let found: Vec<u8> = bytes.iter().map(|byte| byte.2).collect();
            let mut undone = found.clone();
            for (at, before) in changed(&found, &piece) {
                undone[at..at + before.len()].copy_from_slice(before);
            }
            for (at, (after, before, found)) in bytes.into_iter().enumerate() {
                let expected = if found == after { before } else { found };
                prop_assert_eq!(undone[at], expected);
            }
        }
    }
}
