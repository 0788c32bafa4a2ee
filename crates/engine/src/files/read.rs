//! Reading a file without a method.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What was tried with a file, and the system's reason why it failed.
pub type IoFailure = (&'static str, io::Error);

/// Reads once: pread(2), repeated if a signal interrupts it.
///
/// # Errors
/// The system's.
pub fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    // Reading past the largest offset is an error, also at the end of a file.
    let most = (i64::MAX as u64).saturating_sub(offset).min(buffer.len() as u64);
    let buffer = &mut buffer[..most as usize];
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
///
/// # Errors
/// The system's.
pub fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read_some(file, &mut buffer[done..], offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}
