//! The bytes of a journal: a header, frames of records with checksums, and an end that counts and sums up all of it.

use std::io::{self, Write};

/// What a journal begins with.
const MAGIC: &[u8; 8] = b"SKLSJRNL";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 64;
/// A frame is closed when it holds so much, and a longer update is cut into several records.
const FRAME_BYTES: usize = 1 << 20;
const RECORD_BYTES: usize = FRAME_BYTES / 4;
/// No frame of ours is longer: a length that was damaged asks for no memory.
const FRAME_BYTES_MAX: usize = 2 * FRAME_BYTES;

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
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> io::Result<Self> {
        let (summed, sum) = bytes.split_last_chunk().unwrap_or((&[], &[0; 4]));
        let mut rest = &bytes[..];
        if take(&mut rest) != Some(*MAGIC) {
            return Err(damaged("is not a seekless journal"));
        }
        if take(&mut rest) != Some(VERSION.to_le_bytes()) {
            return Err(damaged("was written by another version of seekless"));
        }
        if !is_intact(summed, u32::from_le_bytes(*sum)) {
            return Err(damaged("has a damaged header"));
        }
        let mut number = || take(&mut rest).map_or(0, u64::from_le_bytes);
        Ok(Self {
            inode: number(),
            modified: (number().cast_signed(), number().cast_signed()),
            bytes_before: number(),
            bytes_after: number(),
            links: number(),
        })
    }
}

/// What belongs to an offset, and what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub before: Vec<u8>,
}

pub(super) struct JournalWriter<W> {
    out: W,
    frame: Vec<u8>,
    records: u64,
    written_bytes: u64,
    sum: crc32fast::Hasher,
}

impl<W: Write> JournalWriter<W> {
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self {
            out,
            frame: Vec::new(),
            records: 0,
            written_bytes: 0,
            sum: crc32fast::Hasher::new(),
        };
        writer.put(&header.to_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.written_bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    pub fn push(&mut self, offset: u64, bytes: &[u8], before: &[u8]) -> io::Result<()> {
        let cuts = bytes.chunks(RECORD_BYTES).zip(before.chunks(RECORD_BYTES));
        for (at, (bytes, before)) in (offset..).step_by(RECORD_BYTES).zip(cuts) {
            self.frame.extend_from_slice(&at.to_le_bytes());
            self.frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            self.frame.extend_from_slice(bytes);
            self.frame.extend_from_slice(before);
            self.records += 1;
            if self.frame.len() >= FRAME_BYTES {
                self.close_frame()?;
            }
        }
        Ok(())
    }

    fn close_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let frame = std::mem::take(&mut self.frame);
        self.put(&(frame.len() as u32).to_le_bytes())?;
        self.put(&crc32fast::hash(&frame).to_le_bytes())?;
        self.put(&frame)?;
        self.frame = frame;
        self.frame.clear();
        Ok(())
    }

    /// Writes the end, and gives the bytes of all.
    pub fn finish(mut self) -> io::Result<u64> {
        self.close_frame()?;
        let records = self.records;
        self.put(&0_u32.to_le_bytes())?;
        self.put(&records.to_le_bytes())?;
        let sum = self.sum.clone().finalize();
        self.put(&sum.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.written_bytes)
    }
}

/// How long a journal will be, from the lengths of what will be pushed.
#[derive(Default)]
pub(super) struct Length {
    frame_bytes: usize,
    closed_bytes: u64,
}

impl Length {
    pub fn push(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let record = left.min(RECORD_BYTES);
            self.frame_bytes += 12 + 2 * record;
            left -= record;
            if self.frame_bytes >= FRAME_BYTES {
                self.close_frame();
            }
        }
    }

    fn close_frame(&mut self) {
        if self.frame_bytes > 0 {
            self.closed_bytes += 8 + self.frame_bytes as u64;
            self.frame_bytes = 0;
        }
    }

    pub fn finish(mut self) -> u64 {
        self.close_frame();
        HEADER_BYTES as u64 + self.closed_bytes + 16
    }
}

pub(super) struct Read<R> {
    from: R,
    frame: Vec<u8>,
    at: usize,
    records: u64,
    sum: crc32fast::Hasher,
}

impl<R: io::Read> Read<R> {
    pub fn new(mut from: R) -> io::Result<(Header, Self)> {
        let mut bytes = [0; HEADER_BYTES];
        from.read_exact(&mut bytes)?;
        let header = Header::from_bytes(&bytes)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        let read = Self {
            from,
            frame: Vec::new(),
            at: 0,
            records: 0,
            sum,
        };
        Ok((header, read))
    }

    fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// The next record; none behind an end that agrees with all that was read.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        if self.at == self.frame.len() && !self.next_frame()? {
            return Ok(None);
        }
        let mut rest = &self.frame[self.at..];
        let record = take_record(&mut rest).ok_or_else(|| damaged("has a damaged record"))?;
        self.at = self.frame.len() - rest.len();
        self.records += 1;
        Ok(Some(record))
    }

    fn next_frame(&mut self) -> io::Result<bool> {
        let length = u32::from_le_bytes(self.read()?) as usize;
        if length == 0 {
            let records = u64::from_le_bytes(self.read()?);
            let expected = self.sum.clone().finalize();
            let is_intact = u32::from_le_bytes(self.read()?) == expected || cfg!(fuzzing);
            let is_whole = is_intact && records == self.records;
            return is_whole.then_some(false).ok_or_else(|| damaged("has a damaged end"));
        }
        let sum = u32::from_le_bytes(self.read()?);
        if length > FRAME_BYTES_MAX {
            return Err(damaged("has a damaged frame"));
        }
        self.frame.resize(length, 0);
        self.from.read_exact(&mut self.frame)?;
        self.sum.update(&self.frame);
        if !is_intact(&self.frame, sum) {
            return Err(damaged("has a damaged frame"));
        }
        self.at = 0;
        Ok(true)
    }
}

/// Whether bytes have the sum that was written down. When fuzzing they have: hardly any input would get further.
fn is_intact(bytes: &[u8], sum: u32) -> bool {
    cfg!(fuzzing) || crc32fast::hash(bytes) == sum
}

/// Reads a whole journal, for the fuzz target. Gives the offset of each record with the bytes after and before the update.
#[cfg(fuzzing)]
pub fn read_journal(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>, Vec<u8>)>> {
    let (_, mut read) = Read::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = read.next_record()? {
        records.push((record.offset, record.bytes, record.before));
    }
    Ok(records)
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Takes this many bytes from the front.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

fn take_record(from: &mut &[u8]) -> Option<Record> {
    let offset = u64::from_le_bytes(take(from)?);
    let length = u32::from_le_bytes(take(from)?) as usize;
    let (bytes, rest) = from.split_at_checked(length)?;
    let (before, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some(Record {
        offset,
        bytes: bytes.to_vec(),
        before: before.to_vec(),
    })
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
        let mut out = Vec::new();
        let mut writer = JournalWriter::new(&mut out, &HEADER).unwrap();
        for (offset, bytes) in records {
            writer.push(*offset, bytes, &vec![9; bytes.len()]).unwrap();
        }
        writer.finish().unwrap();
        let mut length = Length::default();
        for (_, bytes) in records {
            length.push(bytes.len());
        }
        assert_eq!(length.finish(), out.len() as u64, "the length is known beforehand");
        out
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let (header, mut read) = Read::new(bytes)?;
        assert_eq!(header, HEADER);
        let mut records = Vec::new();
        while let Some(record) = read.next_record()? {
            assert!(record.before.len() == record.bytes.len());
            records.push((record.offset, record.bytes));
        }
        Ok(records)
    }

    #[test]
    fn a_long_update_is_several_records() {
        let long = vec![3; RECORD_BYTES + 1];
        let records = read(&written(&[(10, long)])).unwrap();
        let offsets: Vec<_> = records.iter().map(|record| record.0).collect();
        assert_eq!(offsets, [10, 10 + RECORD_BYTES as u64]);
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
