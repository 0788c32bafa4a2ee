//! A sorted run: updates by offset in an unnamed file, in chunks.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::window::{PIECE_BYTES, Window, WindowPiece};
use crate::files::make_unnamed;

/// Offset and length of an update; the bytes of all updates follow the entries.
const ENTRY_BYTES: usize = 12;
/// The number of entries per read.
const ENTRIES: usize = 4096;

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortedChunk {
    /// No update of it starts before this.
    pub offset: u64,
    /// Its position in the run's file.
    at: u64,
    pieces: u32,
    bytes: u32,
}

impl SortedChunk {
    /// Its size in memory.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.pieces) * PIECE_BYTES + u64::from(self.bytes)
    }
}

#[derive(Debug)]
pub(super) struct SortedRun {
    file: File,
    pub chunks: Vec<SortedChunk>,
    /// The size of the run's file.
    pub bytes: u64,
}

impl SortedRun {
    pub fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            file: make_unnamed(directory)?,
            chunks: Vec::new(),
            bytes: 0,
        })
    }

    /// Appends pieces of a window, which start at or after an offset.
    pub fn append(&mut self, offset: u64, pieces: &[WindowPiece], window: &Window) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(256 << 10, &self.file);
        let mut bytes = 0;
        for piece in pieces {
            out.write_all(&piece.offset.to_le_bytes())?;
            out.write_all(&piece.length.to_le_bytes())?;
            bytes += piece.length;
        }
        for piece in pieces {
            out.write_all(window.bytes_of(piece))?;
        }
        out.flush()?;
        self.chunks.push(SortedChunk {
            offset,
            at: self.bytes,
            pieces: pieces.len() as u32,
            bytes,
        });
        self.bytes += (pieces.len() * ENTRY_BYTES) as u64 + u64::from(bytes);
        Ok(())
    }

    /// Loads a chunk, as the window from its offset to that of the next chunk.
    pub fn load(&self, index: usize) -> io::Result<Window> {
        let chunk = self.chunks[index];
        let next = self.chunks.get(index + 1);
        let (mut pieces, mut start) = (Vec::with_capacity(chunk.pieces as usize), 0);
        let mut entries = vec![0; ENTRIES.min(chunk.pieces as usize) * ENTRY_BYTES];
        let mut at = chunk.at;
        while pieces.len() < chunk.pieces as usize {
            let count = ENTRIES.min(chunk.pieces as usize - pieces.len());
            let entries = &mut entries[..count * ENTRY_BYTES];
            self.file.read_exact_at(entries, at)?;
            at += entries.len() as u64;
            let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
            for &[a, b, c, d, e, f, g, h, length @ ..] in entries {
                let length = u32::from_le_bytes(length);
                let offset = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                pieces.push(WindowPiece { offset, start, length });
                start += length;
            }
        }
        let mut bytes = vec![0; chunk.bytes as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(Window {
            range: chunk.offset..next.map_or(u64::MAX, |next| next.offset),
            pieces,
            bytes,
        })
    }
}
