//! The bytes of a journal: a header, records, and an end that counts and sums up all of it. What is read from a journal is used only
//! after all of it was found to be whole.

use std::io::{self, BufReader, Seek, SeekFrom, Write};

/// What a journal begins with.
const MAGIC: &[u8; 8] = b"SKLSJRNL";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
/// Offset and length of a record; in the end, the number of records, and 0.
const HEAD_BYTES: usize = 12;
const SUM_BYTES: usize = 4;
/// A longer update is cut into several records.
const RECORD_BYTES: usize = 1 << 18;
/// Bytes of one read or write.
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
        let mut own = crc32fast::Hasher::new();
        own.update(summed);
        if !is_sum(u32::from_le_bytes(*sum), &own) {
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
    /// What is not written yet.
    block: Vec<u8>,
    records: u64,
    written_bytes: u64,
    sum: crc32fast::Hasher,
}

impl<W: Write> JournalWriter<W> {
    pub fn new(out: W, header: &Header) -> Self {
        Self {
            out,
            block: header.to_bytes(),
            records: 0,
            written_bytes: 0,
            sum: crc32fast::Hasher::new(),
        }
    }

    pub fn push(&mut self, offset: u64, bytes: &[u8], before: &[u8]) -> io::Result<()> {
        let cuts = bytes.chunks(RECORD_BYTES).zip(before.chunks(RECORD_BYTES));
        for (at, (bytes, before)) in (offset..).step_by(RECORD_BYTES).zip(cuts) {
            self.push_head(at, bytes.len());
            self.block.extend_from_slice(bytes);
            self.block.extend_from_slice(before);
            self.records += 1;
            if self.block.len() >= BLOCK_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    fn push_head(&mut self, offset: u64, length: usize) {
        self.block.extend_from_slice(&offset.to_le_bytes());
        self.block.extend_from_slice(&(length as u32).to_le_bytes());
    }

    fn write(&mut self) -> io::Result<()> {
        self.sum.update(&self.block);
        self.written_bytes += self.block.len() as u64;
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Writes the end, and gives the bytes of all.
    pub fn finish(mut self) -> io::Result<u64> {
        self.push_head(self.records, 0);
        self.write()?;
        self.out.write_all(&self.sum.finalize().to_le_bytes())?;
        Ok(self.written_bytes + SUM_BYTES as u64)
    }
}

/// Bytes of a journal without records.
pub(super) const EMPTY_BYTES: u64 = (HEADER_BYTES + HEAD_BYTES + SUM_BYTES) as u64;

/// Bytes of the records of an update with this many bytes.
pub(super) fn records_bytes(bytes: usize) -> u64 {
    (bytes.div_ceil(RECORD_BYTES) * HEAD_BYTES + 2 * bytes) as u64
}

pub(super) struct Read<R> {
    from: BufReader<R>,
    /// The records that were read; `None` until all of the journal was found to be whole.
    records: Option<u64>,
}

impl<R: io::Read + Seek> Read<R> {
    pub fn new(from: R) -> io::Result<(Header, Self)> {
        let mut from = BufReader::with_capacity(BLOCK_BYTES, from);
        let header = Header::from_bytes(&read(&mut from)?)?;
        Ok((header, Self { from, records: None }))
    }

    /// Fails unless the journal ends with the sum of all before.
    fn require_whole(&mut self) -> io::Result<()> {
        let end = self.from.seek(SeekFrom::End(0))?.saturating_sub(SUM_BYTES as u64);
        self.from.rewind()?;
        let mut sum = crc32fast::Hasher::new();
        let mut left = end;
        while left > 0 {
            let block = io::BufRead::fill_buf(&mut self.from)?;
            let taken = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if taken == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sum.update(&block[..taken]);
            io::BufRead::consume(&mut self.from, taken);
            left -= taken as u64;
        }
        if !is_sum(u32::from_le_bytes(read(&mut self.from)?), &sum) {
            return Err(damaged("is incomplete or damaged"));
        }
        self.from.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        self.records = Some(0);
        Ok(())
    }

    /// The next record; none behind the end.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        let Some(records) = &mut self.records else {
            self.require_whole()?;
            return self.next_record();
        };
        let offset = u64::from_le_bytes(read(&mut self.from)?);
        let length = u32::from_le_bytes(read(&mut self.from)?) as usize;
        if length == 0 && offset == *records {
            return Ok(None);
        }
        // A length that was damaged asks for no memory.
        if length == 0 || length > RECORD_BYTES {
            return Err(damaged("has a damaged record"));
        }
        *records += 1;
        let (mut bytes, mut before) = (vec![0; length], vec![0; length]);
        io::Read::read_exact(&mut self.from, &mut bytes)?;
        io::Read::read_exact(&mut self.from, &mut before)?;
        Ok(Some(Record { offset, bytes, before }))
    }
}

fn read<const N: usize>(from: &mut impl io::Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether bytes have the sum that was written down. When fuzzing they have: hardly any input would get further.
fn is_sum(told: u32, of: &crc32fast::Hasher) -> bool {
    cfg!(fuzzing) || told == of.clone().finalize()
}

/// Reads a whole journal, for the fuzz target. Gives the offset of each record with the bytes after and before the update.
#[cfg(fuzzing)]
pub fn read_journal(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>, Vec<u8>)>> {
    let (_, mut read) = Read::new(io::Cursor::new(bytes))?;
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
        let mut writer = JournalWriter::new(&mut out, &HEADER);
        for (offset, bytes) in records {
            writer.push(*offset, bytes, &vec![9; bytes.len()]).unwrap();
        }
        writer.finish().unwrap();
        let each = records.iter().map(|(_, bytes)| records_bytes(bytes.len()));
        let expected = EMPTY_BYTES + each.sum::<u64>();
        assert_eq!(expected, out.len() as u64, "the length is known beforehand");
        out
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let (header, mut read) = Read::new(io::Cursor::new(bytes))?;
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
