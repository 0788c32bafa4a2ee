//! Counting the lines of the equal part, in streams as they are read and in files afterwards.

use std::fs::File;
use std::io;

use memchr::memchr_iter;
use seekless_engine::files::{allocated_bytes, data_ranges, read_some};

const BLOCK_BYTES: usize = 128 << 10;

/// The lines of an equal part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCount {
    pub newlines: u64,
    pub last_byte: Option<u8>,
}

impl LineCount {
    pub fn is_within_line(&self) -> bool {
        self.last_byte.is_some_and(|byte| byte != b'\n')
    }

    /// Adds these bytes to the part.
    pub fn pass(&mut self, equal: &[u8]) {
        self.newlines += memchr_iter(b'\n', equal).count() as u64;
        self.last_byte = equal.last().copied().or(self.last_byte);
    }

    /// Adds `len` bytes of a file from `start`, or fewer if it is shorter by now. Holes are not read, except for their
    /// last byte.
    pub fn pass_file(&mut self, file: &File, start: u64, len: u64) -> io::Result<()> {
        let mut buffer = vec![0; BLOCK_BYTES];
        let (mut offset, end) = (start, start + len);
        let is_sparse = allocated_bytes(&file.metadata()?) < len;
        let known_data = is_sparse.then(|| data_ranges(file, start..end)).into_iter().flatten();
        let last = if is_sparse { end.saturating_sub(1) } else { start };
        for data in known_data.chain([Ok(last..end)]) {
            // If the file system does not report holes, everything counts as data.
            let data = data.unwrap_or(offset..end);
            offset = offset.max(data.start);
            while offset < data.end {
                let wanted = (data.end - offset).min(BLOCK_BYTES as u64) as usize;
                let read = read_some(file, &mut buffer[..wanted], offset)?;
                if read == 0 {
                    return Ok(());
                }
                self.pass(&buffer[..read]);
                offset += read as u64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;

    fn count_newlines(file: &File, start: u64, len: u64) -> io::Result<(u64, Option<u8>)> {
        let mut lines = LineCount::default();
        lines.pass_file(file, start, len)?;
        Ok((lines.newlines, lines.last_byte))
    }

    #[test]
    fn holes_are_passed_over_and_end_with_a_zero() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(count_newlines(&file, 0, 1 << 40).unwrap(), (0, Some(0)));
        file.write_all(b"a\nb\n").unwrap();
        file.write_all_at(b"\n\n", 1 << 39).unwrap();
        assert_eq!(count_newlines(&file, 0, 1 << 40).unwrap(), (4, Some(0)));
        assert_eq!(count_newlines(&file, 3, (1 << 39) - 2).unwrap(), (2, Some(b'\n')));
    }

    proptest! {
        #![proptest_config(crate::testing::cases(256))]
        #[test]
        fn agrees_with_a_plain_loop(
            len in prop_oneof![0..100_usize, BLOCK_BYTES - 2..BLOCK_BYTES + 3],
            start in 0..50_usize,
            every in 1..9_usize,
        ) {
            let content: Vec<u8> = (0..len).map(|n| if n % every == 0 { b'\n' } else { b'x' }).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&content).unwrap();
            let part = content.get(start..).unwrap_or_default();
            let naive = part.iter().fold(0, |count, &byte| count + u64::from(byte == b'\n'));
            let (newlines, last) = count_newlines(&file, start as u64, part.len() as u64).unwrap();
            prop_assert_eq!((newlines, last), (naive, part.last().copied()));
        }
    }
}
