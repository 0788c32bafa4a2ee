//! Journals as files of records: the framing, the sums, the version and the torn ends of every journal.
//!
//! A record is the length of its payload and the CRC-32 (IEEE) of its payload, 8 hexadecimal digits and a space each, then the payload and a
//! line feed. A payload is JSON on one line, or raw bytes. The payload of the first record is `seekless PROGRAM journal VERSION`.
//!
//! A kill or a full disk cuts off the last record, and a power cut may also lose a record before others. A reader therefore finds each
//! wrong record and says where it begins. The owner stops there, or goes on at the next line if each record stands for itself. An
//! owner that goes on begins a new line, so that what follows a torn end is read.
//!
//! Owners keep this order, which `docs/reliability.md` has for each command:
//! 1. The records that undo or complete a change, and the name of the journal, are durable before the change.
//! 2. The change is durable before the record that says that it was made.
//! 3. All changes are durable before the journal is removed.
//!
//! A record that only saves work may be lost. Not here: what records say (`update::form`; `cp` and `dupes` in the tools).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

use seekless_sys as sys;

/// Bytes before the payload of a record.
const HEAD_BYTES: usize = 18;
/// A shorter file without a whole header is a journal that was cut off.
const HEADER_BYTES_MAX: u64 = 64;
/// A damaged length asks for no more memory than this before its bytes are there.
const RESERVED_BYTES: usize = 1 << 20;

/// Which journal a file is.
#[derive(Clone, Copy, Debug)]
pub struct RecordForm {
    /// The command that owns the journal.
    pub program: &'static str,
    /// The version of its records.
    pub version: u32,
    /// The longest payload.
    pub payload_bytes_max: u32,
    /// How journals begin that were written before records had sums. Lines of JSON, `{`, are read, also before records that were added
    /// since; others are refused.
    pub earlier: &'static [u8],
}

impl RecordForm {
    fn magic(&self) -> String {
        format!("seekless {} journal ", self.program)
    }

    fn header(&self) -> Vec<u8> {
        format!("{}{}", self.magic(), self.version).into_bytes()
    }

    /// Length of the first record, in bytes.
    #[must_use]
    pub fn header_bytes(&self) -> u64 {
        record_bytes(self.header().len())
    }

    fn require(&self, header: &[u8]) -> io::Result<()> {
        let version = header.strip_prefix(self.magic().as_bytes()).ok_or_else(no_journal)?;
        if version == self.version.to_string().as_bytes() {
            return Ok(());
        }
        Err(self.other_version(&String::from_utf8_lossy(version)))
    }

    /// The error for a journal of a version that is not read.
    #[must_use]
    pub fn other_version(&self, version: &str) -> io::Error {
        let own = self.version;
        let why = format!(
            "it has version {version}; this program reads version {own}. Use the version of seekless that wrote it"
        );
        io::Error::new(io::ErrorKind::Unsupported, why)
    }
}

fn no_journal() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "is not a seekless journal")
}

/// Length of a record with a payload of this length, in bytes.
#[must_use]
pub fn record_bytes(payload_bytes: usize) -> u64 {
    (HEAD_BYTES + payload_bytes + 1) as u64
}

fn head_of(payload: &[u8]) -> [u8; HEAD_BYTES] {
    // Not by `format!`: an update may have many small records.
    let numbers = [payload.len() as u32, crc32fast::hash(payload)];
    std::array::from_fn(|at| match at % 9 {
        8 => b' ',
        digit => b"0123456789abcdef"[(numbers[at / 9] >> (28 - 4 * digit)) as usize & 15],
    })
}

/// Adds records to a journal. Several threads may use it.
#[derive(Debug)]
pub struct RecordWriter {
    /// The journal.
    pub file: File,
    /// Records that are not written yet, and before them a line feed if the file may end within a record.
    pending: Mutex<Vec<u8>>,
}

impl RecordWriter {
    /// Begins a journal in an empty file. The header is written with the first records.
    #[must_use]
    pub fn begin(file: File, form: &RecordForm) -> Self {
        let pending = Mutex::default();
        let writer = Self { file, pending };
        writer.add(&form.header());
        writer
    }

    /// Goes on with a journal that is open for appending.
    #[must_use]
    pub fn go_on(file: File) -> Self {
        // An empty line is no record.
        let pending = Mutex::new(b"\n".to_vec());
        Self { file, pending }
    }

    /// Adds a record, which is written by the next call of [`Self::write`]. Returns how many bytes that has to write.
    pub fn add(&self, payload: &[u8]) -> usize {
        let mut pending = sys::lock_mutex(&self.pending);
        pending.extend_from_slice(&head_of(payload));
        pending.extend_from_slice(payload);
        pending.push(b'\n');
        pending.len()
    }

    /// Writes the records that were added, with one write. Calls `announce` before, if there are any.
    ///
    /// # Errors
    /// The system's, and those of `announce`. The records are dropped, and what follows begins a new line.
    pub fn write(&self, announce: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut pending = sys::lock_mutex(&self.pending);
        if pending.len() <= 1 {
            return Ok(());
        }
        let written = announce().and_then(|()| (&self.file).write_all(&pending));
        pending.clear();
        if written.is_err() {
            pending.push(b'\n');
        }
        written
    }
}

/// A record that is cut off or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongRecord {
    /// Where it begins, in bytes.
    pub at: u64,
    /// Whether the journal ends within it.
    pub is_cut: bool,
}

impl From<WrongRecord> for io::Error {
    fn from(WrongRecord { at, is_cut }: WrongRecord) -> Self {
        let (kind, what) = if is_cut {
            (io::ErrorKind::UnexpectedEof, "incomplete")
        } else {
            (io::ErrorKind::InvalidData, "damaged")
        };
        Self::new(kind, format!("is {what} at byte {at}"))
    }
}

/// Reads the payloads of a journal after its header. After a wrong record, it goes on at the next line.
#[derive(Debug)]
pub struct RecordReader<R> {
    from: BufReader<R>,
    payload_bytes_max: u32,
    /// Where the next record begins.
    at: u64,
    has_lines: bool,
}

impl<R: Read + Seek> RecordReader<R> {
    /// Reads the header of a journal, from its start.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` if the journal ends within its header; `Unsupported` if another version of seekless wrote it;
    /// `InvalidData` if it is not such a journal.
    pub fn new(form: &RecordForm, mut from: R) -> io::Result<Self> {
        from.rewind()?;
        let mut reader = Self::within(form, from);
        let first = reader.from.fill_buf()?;
        if first.starts_with(form.earlier) {
            let why = "was written by an earlier version of seekless: use that version";
            let refused = || Err(io::Error::new(io::ErrorKind::Unsupported, why));
            return if reader.has_lines { Ok(reader) } else { refused() };
        }
        reader.has_lines = false;
        let header = reader.record()?.unwrap_or(Err(WrongRecord { at: 0, is_cut: true }));
        let Ok(header) = header else {
            let is_short = reader.from.seek(SeekFrom::End(0))? < HEADER_BYTES_MAX;
            let cut = || WrongRecord { at: 0, is_cut: true }.into();
            return Err(if is_short { cut() } else { no_journal() });
        };
        form.require(&header)?;
        Ok(reader)
    }

    /// Reads from anywhere in a journal; the rest of a record is a wrong one.
    pub fn within(form: &RecordForm, from: R) -> Self {
        Self {
            from: BufReader::with_capacity(1 << 16, from),
            payload_bytes_max: form.payload_bytes_max,
            at: 0,
            has_lines: form.earlier == b"{",
        }
    }

    /// Whether the journal was begun before records had sums.
    pub fn has_lines(&self) -> bool {
        self.has_lines
    }

    fn record(&mut self) -> io::Result<Option<Result<Vec<u8>, WrongRecord>>> {
        let first = loop {
            match self.from.fill_buf()?.first() {
                None => return Ok(None),
                Some(b'\n') => self.from.consume(1),
                Some(first) => break *first,
            }
            self.at += 1;
        };
        let start = self.at;
        if self.has_lines && first == b'{' {
            let mut line = Vec::new();
            let limit = self.payload_bytes_max.into();
            self.at += Read::by_ref(&mut self.from).take(limit).read_until(b'\n', &mut line)? as u64;
            line.pop_if(|byte| *byte == b'\n');
            return Ok(Some(Ok(line)));
        }
        let head = self.taken(HEAD_BYTES as u64)?;
        let digits = head.get(..8).and_then(|digits| str::from_utf8(digits).ok());
        let length = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let length = length.filter(|length| *length <= self.payload_bytes_max);
        let mut payload = self.taken(length.map_or(0, |length| u64::from(length) + 1))?;
        let is_cut = head.len() < HEAD_BYTES || length.is_some_and(|length| payload.len() <= length as usize);
        let is_ended = payload.pop() == Some(b'\n') && !is_cut;
        // When fuzzing, hardly any input would have the right sum.
        if is_ended && (cfg!(fuzzing) || head == head_of(&payload)) {
            self.at += record_bytes(payload.len());
            return Ok(Some(Ok(payload)));
        }
        self.from.seek(SeekFrom::Start(start))?;
        self.at += self.from.skip_until(b'\n')? as u64;
        Ok(Some(Err(WrongRecord { at: start, is_cut })))
    }

    fn taken(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut taken = Vec::with_capacity(usize::try_from(bytes).unwrap_or(usize::MAX).min(RESERVED_BYTES));
        Read::by_ref(&mut self.from).take(bytes).read_to_end(&mut taken)?;
        Ok(taken)
    }
}

impl<R: Read + Seek> Iterator for RecordReader<R> {
    type Item = io::Result<Result<Vec<u8>, WrongRecord>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.record().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const FORM: RecordForm = RecordForm {
        program: "test",
        version: 12,
        payload_bytes_max: 1 << 10,
        earlier: b"{",
    };
    const PAYLOADS: [&[u8]; 4] = [b"{\"step\":1}", b"", b"raw\nbytes\0\xff", b"{\"end\":true}"];

    /// Bytes of a journal with these payloads.
    fn written(payloads: &[&[u8]]) -> Vec<u8> {
        let writer = RecordWriter::begin(tempfile::tempfile().unwrap(), &FORM);
        for payload in payloads {
            writer.add(payload);
        }
        writer.write(|| Ok(())).unwrap();
        let mut bytes = Vec::new();
        (&writer.file).rewind().unwrap();
        (&writer.file).read_to_end(&mut bytes).unwrap();
        let each = payloads.iter().map(|payload| record_bytes(payload.len()));
        assert_eq!(bytes.len() as u64, FORM.header_bytes() + each.sum::<u64>());
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<Result<Vec<u8>, WrongRecord>>> {
        RecordReader::new(&FORM, Cursor::new(bytes))?.collect()
    }

    fn whole(payloads: &[&[u8]]) -> Vec<Result<Vec<u8>, WrongRecord>> {
        payloads.iter().map(|payload| Ok(payload.to_vec())).collect()
    }

    #[test]
    fn a_journal_torn_at_any_byte_has_the_records_before_and_takes_more() {
        let bytes = written(&PAYLOADS);
        assert_eq!(read(&bytes).unwrap(), whole(&PAYLOADS));
        let mut ends = vec![FORM.header_bytes()];
        ends.extend(PAYLOADS.map(|payload| record_bytes(payload.len())));
        let ends: Vec<u64> = ends
            .iter()
            .scan(0, |end, bytes| {
                *end += bytes;
                Some(*end)
            })
            .collect();
        for cut in 0..bytes.len() {
            let torn = &bytes[..cut];
            let Some(before) = ends.iter().rposition(|end| *end <= cut as u64) else {
                assert_eq!(read(torn).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{cut}");
                continue;
            };
            let mut expected = whole(&PAYLOADS[..before]);
            if ends[before] < cut as u64 {
                expected.push(Err(WrongRecord {
                    at: ends[before],
                    is_cut: true,
                }));
            }
            // Raw bytes have lines, too.
            let mut found = read(torn).unwrap();
            assert!(found.drain(expected.len()..).all(|record| record.is_err()), "{cut}");
            assert_eq!(found, expected, "{cut}");
            let writer = RecordWriter::go_on(tempfile::tempfile().unwrap());
            (&writer.file).write_all(torn).unwrap();
            writer.add(b"more");
            writer.write(|| Ok(())).unwrap();
            let read: Vec<_> = RecordReader::new(&FORM, &writer.file)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(read[..before], whole(&PAYLOADS[..before]), "{cut}");
            assert_eq!(read.last(), Some(&Ok(b"more".to_vec())), "{cut}");
        }
    }

    #[test]
    fn one_flipped_bit_anywhere_is_noticed_and_records_after_it_are_read() {
        let text = [PAYLOADS[0], PAYLOADS[1], PAYLOADS[3]];
        let bytes = written(&text);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let Ok(found) = read(&flipped) else {
                assert!(bit / 8 < FORM.header_bytes() as usize, "{bit}");
                continue;
            };
            let wrong = found.iter().filter(|record| record.is_err()).count();
            assert!(wrong > 0, "{bit}: {found:?}");
            let right = found.iter().filter(|record| record.is_ok());
            // The line feed between two records belongs to both.
            assert!(right.clone().count() >= text.len() - 2, "{bit}: {found:?}");
            assert!(right.clone().all(|record| whole(&text).contains(record)), "{bit}");
        }
    }

    #[test]
    fn a_journal_of_another_version_or_program_is_refused() {
        for (header, kind) in [
            ("seekless test journal 13", io::ErrorKind::Unsupported),
            ("seekless test journal 11", io::ErrorKind::Unsupported),
            ("seekless other journal 12", io::ErrorKind::InvalidData),
        ] {
            let record = [&head_of(header.as_bytes()), header.as_bytes(), b"\n"].concat();
            assert_eq!(read(&record).unwrap_err().kind(), kind, "{header}");
        }
        assert_eq!(read(&[b'x'; 64]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let form = RecordForm {
            earlier: b"OLD",
            ..FORM
        };
        let earlier = RecordReader::new(&form, Cursor::new(b"OLD journal")).unwrap_err();
        assert_eq!(earlier.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn lines_of_an_earlier_version_are_read_with_the_records_added_since_and_nowhere_else() {
        let lines = b"{\"one\":1}\n{\"two\":2}\n{\"cut".to_vec();
        let writer = RecordWriter::go_on(tempfile::tempfile().unwrap());
        (&writer.file).write_all(&lines).unwrap();
        writer.add(b"{\"three\":3}");
        writer.write(|| Ok(())).unwrap();
        let reader = RecordReader::new(&FORM, &writer.file).unwrap();
        assert!(reader.has_lines());
        let read: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(
            read,
            whole(&[b"{\"one\":1}", b"{\"two\":2}", b"{\"cut", b"{\"three\":3}"])
        );
        let without_sum = [written(&PAYLOADS), b"{\"four\":4}\n".to_vec()].concat();
        assert!(tests::read(&without_sum).unwrap().last().unwrap().is_err());
    }

    #[test]
    fn records_of_a_failed_write_are_dropped_and_a_new_line_follows() {
        let writer = RecordWriter::begin(tempfile::tempfile().unwrap(), &FORM);
        writer.write(|| Ok(())).unwrap();
        writer.add(b"lost");
        writer.write(|| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        (&writer.file).write_all(b"00000004 torn").unwrap();
        writer.write(|| panic!("there is nothing to write")).unwrap();
        writer.add(b"kept");
        writer.write(|| Ok(())).unwrap();
        let read: Vec<_> = RecordReader::new(&FORM, &writer.file)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!((read.len(), &read[1]), (2, &Ok(b"kept".to_vec())));
    }
}
