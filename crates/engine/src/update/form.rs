//! What records of an update's journal say: a header; pieces, each with the bytes after and before the update; an end that counts
//! them. Their framing and sums are those of all journals (`files::records`).

use std::fs::File;
use std::io::{self, Seek};

use crate::files::{RecordForm, RecordReader, RecordWriter, WrongRecord, record_bytes};

const FORM: RecordForm = RecordForm {
    program: "update",
    version: 2,
    payload_bytes_max: (OFFSET_BYTES + 2 * PIECE_BYTES) as u32,
    earlier: b"SKLSJRNL",
};
/// Bytes of [`Header`].
const HEADER_BYTES: usize = 48;
/// Offset of a piece; in the end, the number of pieces.
const OFFSET_BYTES: usize = 8;
/// A longer update is cut into several pieces.
const PIECE_BYTES: usize = 1 << 18;
/// Bytes of one write.
const BLOCK_BYTES: usize = 1 << 20;

/// Whose journal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub inode: u64,
    /// How many names the file had.
    pub links: u64,
    /// When the file was last written to, in seconds and nanoseconds.
    pub modified: (i64, i64),
    pub bytes_before: u64,
    pub bytes_after: u64,
}

impl Header {
    fn to_bytes(self) -> Vec<u8> {
        let (seconds, nanoseconds) = self.modified;
        let numbers = [
            self.inode,
            seconds.cast_unsigned(),
            nanoseconds.cast_unsigned(),
            self.bytes_before,
            self.bytes_after,
            self.links,
        ];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn from_bytes(mut bytes: &[u8]) -> io::Result<Self> {
        let mut number = || read(&mut bytes).map(u64::from_le_bytes);
        Ok(Self {
            inode: number()?,
            modified: (number()?.cast_signed(), number()?.cast_signed()),
            bytes_before: number()?,
            bytes_after: number()?,
            links: number()?,
        })
    }
}

/// What belongs to an offset, and what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedPiece {
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub before: Vec<u8>,
}

pub(super) struct JournalWriter {
    out: RecordWriter,
    piece: Vec<u8>,
    pieces: u64,
    written_bytes: u64,
}

impl JournalWriter {
    pub fn new(journal: File, header: &Header) -> Self {
        let out = RecordWriter::begin(journal, &FORM);
        out.add(&header.to_bytes());
        Self {
            out,
            piece: Vec::new(),
            pieces: 0,
            written_bytes: empty_bytes(),
        }
    }

    pub fn push(&mut self, offset: u64, bytes: &[u8], before: &[u8]) -> io::Result<()> {
        let cuts = bytes.chunks(PIECE_BYTES).zip(before.chunks(PIECE_BYTES));
        for (at, (bytes, before)) in (offset..).step_by(PIECE_BYTES).zip(cuts) {
            self.piece.clear();
            self.piece.extend_from_slice(&at.to_le_bytes());
            self.piece.extend_from_slice(bytes);
            self.piece.extend_from_slice(before);
            self.pieces += 1;
            if self.out.add(&self.piece) >= BLOCK_BYTES {
                self.out.write(|| Ok(()))?;
            }
        }
        self.written_bytes += pieces_bytes(bytes.len());
        Ok(())
    }

    /// Writes the end. Returns the journal, and its length in bytes.
    pub fn finish(self) -> io::Result<(File, u64)> {
        self.out.add(&self.pieces.to_le_bytes());
        self.out.write(|| Ok(()))?;
        Ok((self.out.file, self.written_bytes))
    }
}

/// Bytes of a journal without pieces.
pub(super) fn empty_bytes() -> u64 {
    FORM.header_bytes() + record_bytes(HEADER_BYTES) + record_bytes(OFFSET_BYTES)
}

/// Bytes of the pieces of an update with this many bytes.
pub(super) fn pieces_bytes(bytes: usize) -> u64 {
    bytes.div_ceil(PIECE_BYTES) as u64 * record_bytes(OFFSET_BYTES) + 2 * bytes as u64
}

/// Reads the pieces of a journal that are whole. Recovery reads to the end before another reader gives it what it writes.
pub(super) struct JournalReader<R> {
    records: RecordReader<R>,
    pieces: u64,
}

impl<R: io::Read + Seek> JournalReader<R> {
    pub fn new(from: R) -> io::Result<(Header, Self)> {
        let records = RecordReader::new(&FORM, from)?;
        let mut reader = Self { records, pieces: 0 };
        let header = Header::from_bytes(&reader.record()?)?;
        Ok((header, reader))
    }

    fn record(&mut self) -> io::Result<Vec<u8>> {
        let end = WrongRecord { at: 0, is_cut: true };
        Ok(self.records.next().unwrap_or(Ok(Err(end)))??)
    }

    /// The next piece; none behind the end.
    pub fn next_piece(&mut self) -> io::Result<Option<ChangedPiece>> {
        let record = self.record()?;
        let mut rest = &record[..];
        let offset = u64::from_le_bytes(read(&mut rest)?);
        let (bytes, before) = rest.split_at(rest.len() / 2);
        if rest.is_empty() && offset == self.pieces && self.records.next().is_none() {
            return Ok(None);
        }
        if rest.is_empty() || bytes.len() != before.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "has a damaged piece"));
        }
        self.pieces += 1;
        let [bytes, before] = [bytes, before].map(<[u8]>::to_vec);
        Ok(Some(ChangedPiece { offset, bytes, before }))
    }
}

fn read<const N: usize>(from: &mut &[u8]) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    io::Read::read_exact(from, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole journal, for the fuzz target. Gives the offset of each piece with the bytes after and before the update.
#[cfg(fuzzing)]
pub fn read_journal(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>, Vec<u8>)>> {
    let (_, mut read) = JournalReader::new(io::Cursor::new(bytes))?;
    let mut pieces = Vec::new();
    while let Some(piece) = read.next_piece()? {
        pieces.push((piece.offset, piece.bytes, piece.before));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        links: 1,
        inode: 7,
        modified: (-1, 5),
        bytes_before: 100,
        bytes_after: 200,
    };

    fn written(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut writer = JournalWriter::new(tempfile::tempfile().unwrap(), &HEADER);
        for (offset, bytes) in records {
            writer.push(*offset, bytes, &vec![9; bytes.len()]).unwrap();
        }
        let (mut journal, told) = writer.finish().unwrap();
        let mut bytes = Vec::new();
        journal.rewind().unwrap();
        io::Read::read_to_end(&mut journal, &mut bytes).unwrap();
        let each = records.iter().map(|(_, bytes)| pieces_bytes(bytes.len()));
        let length = empty_bytes() + each.sum::<u64>();
        assert_eq!([told, length], [bytes.len() as u64; 2], "known beforehand");
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let (header, mut read) = JournalReader::new(io::Cursor::new(bytes))?;
        assert_eq!(header, HEADER);
        let mut records = Vec::new();
        while let Some(record) = read.next_piece()? {
            assert!(record.before.len() == record.bytes.len());
            records.push((record.offset, record.bytes));
        }
        Ok(records)
    }

    #[test]
    fn a_long_update_is_several_pieces() {
        // More than one write.
        let long = vec![3; 3 * PIECE_BYTES + 1];
        let records = read(&written(&[(10, long)])).unwrap();
        let offsets: Vec<_> = records.iter().map(|record| record.0).collect();
        assert_eq!(offsets, [0, 1, 2, 3].map(|piece| 10 + piece * PIECE_BYTES as u64));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_that_was_cut_or_damaged(
            records in proptest::collection::vec((any::<u64>(), proptest::collection::vec(any::<u8>(), 1..50)), 0..20),
            place in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let bytes = written(&records);
            prop_assert_eq!(read(&bytes).unwrap(), records);
            let place = place.index(bytes.len());
            prop_assert!(read(&bytes[..place]).is_err());
            let mut damaged = bytes;
            damaged[place] ^= change;
            prop_assert!(read(&damaged).is_err());
        }
    }
}
