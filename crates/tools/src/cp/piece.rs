//! Large files go on from the last piece that was synced. What of an unfinished copy is on the device is in the journal; the copy has
//! a temporary name that follows from its own.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use seekless::files::FileState;
use seekless::walk::StatFacts;
use seekless_sys as sys;
use serde::{Deserialize, Serialize};

use super::journal::{CopyJournal, CopyJournalLine, SYNCED, is_private};
use super::queue::lock;
use super::staged::is_append_only;

/// What was copied of a large file is synced as often as all that a copy made.
pub(super) const PIECE_SYNCED: Duration = if cfg!(test) { Duration::ZERO } else { SYNCED };

/// What of an unfinished copy is on the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SyncedPiece {
    /// The inode of the copy.
    copy: u64,
    /// So many from its start.
    bytes: u64,
    /// What its source is called.
    name: Vec<u8>,
    source: FileState,
}

/// Adds a piece to those that are known: only the last one of a copy counts.
pub(super) fn add(pieces: &mut Vec<SyncedPiece>, piece: SyncedPiece) {
    pieces.retain(|known| known.copy != piece.copy);
    pieces.push(piece);
}

impl CopyJournal {
    /// Opens or makes the unfinished copy of a large file. Returns its name, and how many of its bytes are right; `None` if it cannot
    /// have one.
    pub fn unfinished(
        &self,
        directory: BorrowedFd<'_>,
        to: &CStr,
        source: &FileState,
    ) -> io::Result<Option<(File, CString, u64)>> {
        let name = self.unfinished_name(to);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = (!is_append_only(&directory)).then(|| openat(directory, &name, flags, Mode::RUSR | Mode::WUSR));
        let Some(Ok(file)) = opened else {
            return Ok(None);
        };
        let file = File::from(file);
        let found = StatFacts::of(&file)?;
        let is_own = found.is_file() && is_private(&found) && found.names == 1;
        // Until it is renamed, because what a killed process left is not locked.
        if !is_own || file.try_lock().is_err() {
            // A file system without modes made it open to all.
            if found.is_file() && found.bytes == 0 {
                let _ = unlinkat(directory, &name, AtFlags::empty());
            }
            return Ok(None);
        }
        let known = self.piece_of(&found);
        let right = known
            .as_ref()
            .filter(|piece| piece.is_of(source) && piece.bytes <= found.bytes)
            .map_or(0, |piece| piece.bytes);
        if right == 0 && found.bytes > 0 {
            // Truncated to nothing, ext4 would write it back when it is closed.
            unlinkat(directory, &name, AtFlags::empty())?;
            return self.unfinished(directory, to, source);
        }
        if let Some(piece) = known.filter(|_| right == 0) {
            // Of another file, whose number this one has now.
            self.save(SyncedPiece { bytes: 0, ..piece })?;
        }
        Ok(Some((file, name, right)))
    }

    /// Syncs an unfinished copy, and notes that so many bytes are right.
    pub fn save_piece(&self, copy: &File, name: &CStr, source: &FileState, bytes: u64) -> io::Result<()> {
        sys::sync_data(copy)?;
        self.save(SyncedPiece {
            copy: StatFacts::of(copy)?.inode,
            bytes,
            name: name.to_bytes().to_owned(),
            source: *source,
        })
    }

    fn save(&self, piece: SyncedPiece) -> io::Result<()> {
        add(&mut lock(&self.pieces), piece.clone());
        self.write(&CopyJournalLine::Piece(piece))?;
        sys::sync_data(&self.file)
    }

    /// Whether something of an unfinished copy with this name is known to be right.
    pub fn has_piece(&self, found: &StatFacts, name: &[u8]) -> bool {
        self.piece_of(found)
            .is_some_and(|piece| piece.bytes > 0 && self.temporary_of(&piece).to_bytes() == name)
    }

    fn piece_of(&self, copy: &StatFacts) -> Option<SyncedPiece> {
        let pieces = lock(&self.pieces);
        pieces.iter().find(|piece| piece.copy == copy.inode).cloned()
    }

    fn temporary_of(&self, piece: &SyncedPiece) -> CString {
        self.unfinished_name(&CString::new(piece.name.as_slice()).unwrap_or_default())
    }

    /// Removes from a directory that is complete the unfinished copies that nothing went on with.
    pub fn remove_pieces(&self, directory: BorrowedFd<'_>) {
        for piece in &*lock(&self.pieces) {
            let name = self.temporary_of(piece);
            if StatFacts::at(directory, &name).is_ok_and(|found| found.inode == piece.copy) {
                let _ = unlinkat(directory, &name, AtFlags::empty());
            }
        }
    }

    /// Whether an unfinished copy can go on: its source is in the directory, and did not change.
    pub fn goes_on_with(&self, found: &StatFacts, source: BorrowedFd<'_>) -> bool {
        let is_of = |piece: &SyncedPiece| {
            StatFacts::at(source, piece.name.as_slice()).is_ok_and(|source| piece.is_of(&source.state))
        };
        self.piece_of(found)
            .is_some_and(|piece| piece.bytes > 0 && is_of(&piece))
    }
}

impl SyncedPiece {
    /// The number of a device may change when it is mounted again.
    fn is_of(&self, source: &FileState) -> bool {
        self.source.inode == source.inode && self.source.version() == source.version()
    }
}
