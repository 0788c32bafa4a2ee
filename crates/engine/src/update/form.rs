//! What records of an update's journal say: a header; a stream of pieces, each with the bytes after and before the update; an end
//! that counts them. Their framing and sums are those of all journals (`files::records`). A record has many small pieces, or a part
//! of a long one.

use std::fs::File;
use std::io::{self, Seek};

use crate::files::{RecordForm, RecordReader, RecordWriter, WrongRecord, record_bytes};

const FORM: RecordForm = RecordForm {
    program: "update",
    version: 2,
    payload_bytes_max: (1 + STREAM_BYTES) as u32,
    earlier: b"SKLSJRNL",
};
/// Bytes of [`Header`].
const HEADER_BYTES: usize = 48;
/// Bytes of the stream in a record.
const STREAM_BYTES: usize = 1 << 18;
/// Offset and length of a piece.
const PLACE_BYTES: usize = 8 + 4;
/// A longer update is cut into several pieces.
const PIECE_BYTES: usize = 1 << 18;
/// The first byte of records after the header: a part of the stream, or the end, which has the number of pieces.
const STREAM: u8 = b'p';
const END: u8 = b'e';
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
    /// The next record: its first byte, and what it has of the stream.
    record: Vec<u8>,
    pieces: u64,
    stream_bytes: u64,
}

impl JournalWriter {
    pub fn new(journal: File, header: &Header) -> Self {
        let out = RecordWriter::begin(journal, &FORM);
        out.add(&header.to_bytes());
        Self {
            out,
            record: vec![STREAM],
            pieces: 0,
            stream_bytes: 0,
        }
    }

    pub fn push(&mut self, offset: u64, bytes: &[u8], before: &[u8]) -> io::Result<()> {
        let cuts = bytes.chunks(PIECE_BYTES).zip(before.chunks(PIECE_BYTES));
        for (at, (bytes, before)) in (offset..).step_by(PIECE_BYTES).zip(cuts) {
            self.append(&at.to_le_bytes())?;
            self.append(&(bytes.len() as u32).to_le_bytes())?;
            self.append(bytes)?;
            self.append(before)?;
            self.pieces += 1;
        }
        Ok(())
    }

    /// Appends to the stream.
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.stream_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = 1 + STREAM_BYTES - self.record.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.record.extend_from_slice(now);
            bytes = later;
            if self.record.len() == 1 + STREAM_BYTES {
                let pending_bytes = self.out.add(&self.record);
                self.record.truncate(1);
                if pending_bytes >= BLOCK_BYTES {
                    self.out.write(|| Ok(()))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the end. Returns the journal, and its length in bytes.
    pub fn finish(self) -> io::Result<(File, u64)> {
        if self.record.len() > 1 {
            self.out.add(&self.record);
        }
        self.out.add(&[&[END][..], &self.pieces.to_le_bytes()].concat());
        self.out.write(|| Ok(()))?;
        Ok((self.out.file, journal_bytes(self.stream_bytes)))
    }
}

/// Bytes of a journal whose stream of pieces has this many.
pub(super) fn journal_bytes(stream_bytes: u64) -> u64 {
    let records = stream_bytes.div_ceil(STREAM_BYTES as u64);
    let around = FORM.header_bytes() + record_bytes(HEADER_BYTES) + record_bytes(1 + 8);
    around + records * record_bytes(1) + stream_bytes
}

/// Bytes of the stream that an update with this many bytes takes.
pub(super) fn pieces_bytes(bytes: usize) -> u64 {
    (bytes.div_ceil(PIECE_BYTES) * PLACE_BYTES + 2 * bytes) as u64
}

/// Reads the pieces of a journal that is whole. Recovery reads to the end before another reader gives it what it writes.
pub(super) struct JournalReader<R> {
    records: RecordReader<R>,
    /// What was read of the stream, and how much of that was given.
    stream: Vec<u8>,
    given: usize,
    pieces: u64,
}

impl<R: io::Read + Seek> JournalReader<R> {
    pub fn new(from: R) -> io::Result<(Header, Self)> {
        let records = RecordReader::new(&FORM, from)?;
        let mut reader = Self {
            records,
            stream: Vec::new(),
            given: 0,
            pieces: 0,
        };
        let header = Header::from_bytes(&reader.record()?)?;
        Ok((header, reader))
    }

    fn record(&mut self) -> io::Result<Vec<u8>> {
        let end = WrongRecord { at: 0, is_cut: true };
        Ok(self.records.next().unwrap_or(Ok(Err(end)))??)
    }

    /// Reads on until this many bytes of the stream are there that were not given. Returns whether they are, and not the end.
    fn reach(&mut self, bytes: usize) -> io::Result<bool> {
        while self.stream.len() - self.given < bytes {
            match self.record()?.split_first() {
                Some((&STREAM, part)) if !part.is_empty() => {
                    self.stream.drain(..self.given);
                    self.given = 0;
                    self.stream.extend_from_slice(part);
                }
                Some((&END, pieces)) => {
                    let is_end = self.given == self.stream.len() && *pieces == self.pieces.to_le_bytes();
                    return if is_end && self.records.next().is_none() {
                        Ok(false)
                    } else {
                        Err(damaged())
                    };
                }
                _ => return Err(damaged()),
            }
        }
        Ok(true)
    }

    /// The next piece; none behind the end.
    pub fn next_piece(&mut self) -> io::Result<Option<ChangedPiece>> {
        if !self.reach(PLACE_BYTES)? {
            return Ok(None);
        }
        let mut place = &self.stream[self.given..];
        let (offset, length) = (
            u64::from_le_bytes(read(&mut place)?),
            u32::from_le_bytes(read(&mut place)?) as usize,
        );
        if !(1..=PIECE_BYTES).contains(&length) || !self.reach(PLACE_BYTES + 2 * length)? {
            return Err(damaged());
        }
        let (bytes, rest) = self.stream[self.given + PLACE_BYTES..].split_at(length);
        let [bytes, before] = [bytes, &rest[..length]].map(<[u8]>::to_vec);
        self.given += PLACE_BYTES + 2 * length;
        self.pieces += 1;
        Ok(Some(ChangedPiece { offset, bytes, before }))
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "has a damaged piece")
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
        let length = journal_bytes(each.sum());
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
    fn pieces_of_all_lengths_are_read_across_records() {
        for length in [
            1,
            4,
            1000,
            STREAM_BYTES / 2 - PLACE_BYTES,
            STREAM_BYTES - 5,
            PIECE_BYTES,
        ] {
            let count = (3 * STREAM_BYTES / (PLACE_BYTES + 2 * length)).max(3);
            let records: Vec<_> = (0..count)
                .map(|number| (number as u64, vec![number as u8; length]))
                .collect();
            let journal = written(&records);
            assert_eq!(read(&journal).unwrap(), records, "{length}");
            for cut in [1, journal.len() / 3, journal.len() / 2, journal.len() - 1] {
                assert!(read(&journal[..cut]).is_err(), "{length}, cut at {cut}");
            }
        }
    }

    #[test]
    fn the_journals_that_fuzzing_begins_with_are_whole() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/journal");
        let read = |seed: io::Result<std::fs::DirEntry>| {
            let bytes = std::fs::read(seed.unwrap().path()).unwrap();
            let (_, mut read) = JournalReader::new(io::Cursor::new(bytes)).unwrap();
            std::iter::from_fn(|| read.next_piece().unwrap()).count()
        };
        let mut pieces: Vec<_> = std::fs::read_dir(seeds).unwrap().map(read).collect();
        pieces.sort_unstable();
        assert_eq!(pieces, [1, 2, 200]);
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
