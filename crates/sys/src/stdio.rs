//! Reading by the C library's stdio, byte by byte: getc(3) and `getc_unlocked(3)`.
//!
//! It is slow, but programs do it, so it is here to be measured. The unlocked form is the function, called for each
//! byte, not the macro of some C libraries.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::ptr::NonNull;

use crate::support::checked;

/// Whether each call takes the stream's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// getc(3).
    Locked,
    /// `getc_unlocked(3)`.
    Unlocked,
}

/// The result of comparing two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdioEnd {
    /// All bytes asked for are equal.
    Equal,
    /// They differ after this many equal bytes.
    Differ(u64),
    /// The first stream ended after this many equal bytes.
    FirstEnded(u64),
    /// The second stream ended after this many equal bytes.
    SecondEnded(u64),
}

/// Why comparing two streams failed.
#[derive(Debug)]
pub struct StdioFailure {
    /// Whether it was the second stream that could not be read.
    pub is_second: bool,
    /// How many bytes of each are equal before.
    pub done: u64,
    /// That of read(2).
    pub source: io::Error,
}

/// A stream over a file: fdopen(3), with the buffer that the C library chooses.
#[derive(Debug)]
pub struct Stdio(NonNull<libc::FILE>);

// SAFETY: a stream belongs to the process, not to a thread; this value is its only owner, and every use is through `&mut`.
unsafe impl Send for Stdio {}

unsafe extern "C" {
    fn getc(stream: *mut libc::FILE) -> libc::c_int;
    fn getc_unlocked(stream: *mut libc::FILE) -> libc::c_int;
}

impl Stdio {
    /// Makes a stream that begins at `offset` of the file, on a duplicate of its descriptor; the two share the position.
    ///
    /// # Errors
    /// Those of dup(2), fdopen(3) and fseeko(3).
    pub fn new(file: &File, offset: u64) -> io::Result<Self> {
        let descriptor = file.try_clone()?.into_raw_fd();
        // SAFETY: the descriptor is open and ours to give away; the mode is a C string.
        let Some(stream) = NonNull::new(unsafe { libc::fdopen(descriptor, c"rb".as_ptr()) }) else {
            let error = io::Error::last_os_error();
            // SAFETY: fdopen(3) failed and so has not taken the descriptor, which nobody else knows.
            unsafe { libc::close(descriptor) };
            return Err(error);
        };
        let stream = Self(stream);
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the stream is open until it is dropped.
        checked(unsafe { libc::fseeko(stream.0.as_ptr(), offset, libc::SEEK_SET) })?;
        Ok(stream)
    }

    /// Gets up to `length` bytes and does nothing with them. Gives how many there were.
    ///
    /// # Errors
    /// That of read(2), where the stream has one.
    pub fn skip(&mut self, locking: Locking, length: u64) -> io::Result<u64> {
        let get = getter(locking);
        for done in 0..length {
            // SAFETY: the stream is open until it is dropped, and used by this thread alone.
            if unsafe { get(self.0.as_ptr()) } == libc::EOF {
                self.check()?;
                return Ok(done);
            }
        }
        Ok(length)
    }

    /// Compares up to `length` bytes of the two, and counts the newlines in the equal part.
    ///
    /// # Errors
    /// That of read(2) in either, with how far it went.
    pub fn compare(
        &mut self,
        other: &mut Self,
        locking: Locking,
        length: u64,
        mut newlines: Option<&mut u64>,
    ) -> Result<StdioEnd, StdioFailure> {
        let get = getter(locking);
        for done in 0..length {
            // SAFETY: both streams are open until they are dropped, and used by this thread alone.
            let (one, two) = unsafe { (get(self.0.as_ptr()), get(other.0.as_ptr())) };
            if one != two || one == libc::EOF {
                for (is_second, stream) in [(false, &*self), (true, &*other)] {
                    let failed = |source| StdioFailure {
                        is_second,
                        done,
                        source,
                    };
                    stream.check().map_err(failed)?;
                }
                return Ok(match (one, two) {
                    (libc::EOF, _) => StdioEnd::FirstEnded(done),
                    (_, libc::EOF) => StdioEnd::SecondEnded(done),
                    _ => StdioEnd::Differ(done),
                });
            }
            if let Some(newlines) = newlines.as_deref_mut() {
                *newlines += u64::from(one == libc::c_int::from(b'\n'));
            }
        }
        Ok(StdioEnd::Equal)
    }

    /// The error that stopped the stream, if one did.
    fn check(&self) -> io::Result<()> {
        let error = io::Error::last_os_error();
        // SAFETY: the stream is open until it is dropped.
        if unsafe { libc::ferror(self.0.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(error)
        }
    }
}

fn getter(locking: Locking) -> unsafe extern "C" fn(*mut libc::FILE) -> libc::c_int {
    match locking {
        Locking::Locked => getc,
        Locking::Unlocked => getc_unlocked,
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // SAFETY: open, and not used again; it was only read, so there is nothing that closing could lose.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn stream(bytes: &[u8], offset: u64) -> Stdio {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Stdio::new(&file, offset).unwrap()
    }

    #[test]
    fn streams_end_where_they_differ_or_end() {
        for locking in [Locking::Locked, Locking::Unlocked] {
            let compare = |one: &[u8], other: &[u8], length| {
                let mut newlines = 0;
                let end = stream(one, 0).compare(&mut stream(other, 0), locking, length, Some(&mut newlines));
                (end.unwrap(), newlines)
            };
            assert_eq!(compare(b"a\nb\nc", b"a\nb\nd", 5), (StdioEnd::Differ(4), 2));
            assert_eq!(compare(b"a\nb\nc", b"a\nb\nd", 4), (StdioEnd::Equal, 2));
            assert_eq!(compare(b"a\n", b"a\nb", 9), (StdioEnd::FirstEnded(2), 1));
            assert_eq!(compare(b"a\nb", b"a\n", 9), (StdioEnd::SecondEnded(2), 1));
            // 0xff is not the end.
            assert_eq!(compare(b"\xff", b"\xff", 1), (StdioEnd::Equal, 0));
        }
    }

    #[test]
    fn stdio_stream_begins_at_its_offset_and_skips() {
        let mut one = stream(b"0123456789", 4);
        assert_eq!(one.skip(Locking::Unlocked, 2).unwrap(), 2);
        let end = one.compare(&mut stream(b"6789", 0), Locking::Locked, 4, None);
        assert_eq!(end.unwrap(), StdioEnd::Equal);
        assert_eq!(one.skip(Locking::Locked, 1).unwrap(), 0);
        let mut directory = Stdio::new(&File::open("/").unwrap(), 0).unwrap();
        let error = directory.skip(Locking::Locked, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));
    }
}
