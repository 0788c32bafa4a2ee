//! POSIX AIO (aio(7)) made safe by ownership: [`Aio`] owns the memory and the control block that the system writes to.
//!
//! glibc runs the requests in threads of its own, one at a time per descriptor; macOS runs them in the kernel, a few at
//! a time. On other systems, making the type fails with `Unavailable`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use libc::aiocb;

use crate::{Buffer, Support};

/// One request at a time, with the buffer that it reads into or writes from.
///
/// Dropping it cancels the request or waits for its end.
#[derive(Debug)]
pub struct Aio {
    /// Owned, from `Box`. A raw pointer because the system writes to it while a request is in flight, which a `Box` or a
    /// reference would deny.
    control: NonNull<aiocb>,
    buffer: Buffer,
    /// Present exactly while a request is in flight, and keeps its descriptor open.
    in_flight: Option<Arc<File>>,
}

// SAFETY: the control block and the buffer are owned; the system's calls may be made from any thread.
unsafe impl Send for Aio {}
// SAFETY: `&Aio` gives out only the buffer, and only while the system does not write to it.
unsafe impl Sync for Aio {}

impl Aio {
    /// An idle request around `buffer`.
    #[must_use]
    pub fn new(buffer: Buffer) -> Support<Self> {
        // SAFETY: all-zero is a valid `aiocb`: integers and null pointers (aio(7) tells to zero it).
        let control: Box<aiocb> = Box::new(unsafe { std::mem::zeroed() });
        let control = NonNull::from(Box::leak(control));
        Support::Available(Self {
            control,
            buffer,
            in_flight: None,
        })
    }

    /// Starts reading `len` bytes from `offset` to the start of the buffer: `aio_read(3)`.
    ///
    /// # Errors
    /// `InvalidInput` where a request is in flight or `len` is more than the buffer holds; `WouldBlock` (EAGAIN) where the
    /// system has too many requests.
    pub fn start_read(&mut self, file: &Arc<File>, offset: u64, len: usize) -> io::Result<()> {
        self.prepare(file, offset, len)?;
        // SAFETY: the control block was just prepared, describes memory of `self.buffer`, and both stay where they are and
        // untouched until `wait` or `drop` saw the request's end.
        self.started(file, unsafe { libc::aio_read(self.control.as_ptr()) })
    }

    /// Starts writing the first `len` bytes of the buffer to `offset`: `aio_write(3)`.
    ///
    /// # Errors
    /// As for [`Aio::start_read`].
    pub fn start_write(&mut self, file: &Arc<File>, offset: u64, len: usize) -> io::Result<()> {
        self.prepare(file, offset, len)?;
        // SAFETY: as in `start_read`.
        self.started(file, unsafe { libc::aio_write(self.control.as_ptr()) })
    }

    /// Waits for the request's end (`aio_suspend(3)`) and gives the bytes moved.
    ///
    /// # Errors
    /// `InvalidInput` where none is in flight; else the request's own.
    pub fn wait(&mut self) -> io::Result<usize> {
        if self.in_flight.is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no request is in flight"));
        }
        let control = self.control.as_ptr();
        let errno = self.wait_for_end()?;
        self.in_flight = None;
        // SAFETY: the request has ended, and its result is fetched once, as aio_return(3) demands.
        let result = unsafe { libc::aio_return(control) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        usize::try_from(result).map_err(|_| io::Error::other("the request ended without a result"))
    }

    /// The buffer.
    ///
    /// # Panics
    /// While a request is in flight.
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        assert!(self.in_flight.is_none(), "the buffer belongs to the request in flight");
        &self.buffer
    }

    /// The buffer, to change it.
    ///
    /// # Panics
    /// While a request is in flight.
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        assert!(self.in_flight.is_none(), "the buffer belongs to the request in flight");
        &mut self.buffer
    }

    fn prepare(&mut self, file: &Arc<File>, offset: u64, len: usize) -> io::Result<()> {
        let invalid = |message| io::Error::new(io::ErrorKind::InvalidInput, message);
        if self.in_flight.is_some() {
            return Err(invalid("a request is in flight"));
        }
        if len > self.buffer.len() {
            return Err(invalid("the request is longer than its buffer"));
        }
        let offset = i64::try_from(offset).map_err(|_| invalid("the offset exceeds the largest file offset"))?;
        // SAFETY: all-zero is a valid `aiocb`, as in `new`.
        let mut request: aiocb = unsafe { std::mem::zeroed() };
        request.aio_fildes = file.as_raw_fd();
        request.aio_offset = offset;
        request.aio_buf = self.buffer.as_mut_ptr().cast();
        request.aio_nbytes = len;
        request.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        // SAFETY: the control block is owned and, with no request in flight, the system does not use it.
        unsafe { self.control.write(request) };
        Ok(())
    }

    fn started(&mut self, file: &Arc<File>, result: libc::c_int) -> io::Result<()> {
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
        self.in_flight = Some(Arc::clone(file));
        Ok(())
    }

    /// Waits until the request is no longer in progress and gives its errno, 0 for none.
    fn wait_for_end(&self) -> io::Result<libc::c_int> {
        let control = self.control.as_ptr().cast_const();
        loop {
            // SAFETY: the control block of a request that was started and whose result was not yet fetched.
            match unsafe { libc::aio_error(control) } {
                libc::EINPROGRESS => {}
                -1 => return Err(io::Error::last_os_error()),
                errno => return Ok(errno),
            }
            // SAFETY: a list of one valid control block, no time limit.
            if unsafe { libc::aio_suspend(&raw const control, 1, ptr::null()) } == -1 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        if let Some(file) = &self.in_flight {
            // SAFETY: the request in flight, on the descriptor that it was started with. Where it cannot be cancelled, or
            // the call fails, waiting is what is left.
            unsafe { libc::aio_cancel(file.as_raw_fd(), self.control.as_ptr()) };
            if self.wait_for_end().is_err() {
                // The system may still write to the buffer, so the process must end before the memory is used again.
                std::process::abort();
            }
            // SAFETY: as in `wait`.
            unsafe { libc::aio_return(self.control.as_ptr()) };
        }
        // SAFETY: from `Box::leak` in `new`, freed once, and no request uses it any more.
        drop(unsafe { Box::from_raw(self.control.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;

    fn aio() -> Aio {
        Aio::new(Buffer::new(BLOCK, 4096).unwrap()).available().unwrap()
    }

    fn sample_file() -> (Arc<File>, Vec<u8>) {
        let content: Vec<u8> = (0..5 * BLOCK + 123).map(|n| (n % 253) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).unwrap();
        (Arc::new(file), content)
    }

    #[test]
    fn two_requests_in_turn_read_the_whole_file() {
        let (file, content) = sample_file();
        let mut slots = [aio(), aio()];
        let mut seen = Vec::new();
        slots[0].start_read(&file, 0, BLOCK).unwrap();
        for turn in 0.. {
            let next = (turn + 1) as u64 * BLOCK as u64;
            slots[(turn + 1) % 2].start_read(&file, next, BLOCK).unwrap();
            let read = slots[turn % 2].wait().unwrap();
            if read == 0 {
                break;
            }
            seen.extend_from_slice(&slots[turn % 2].buffer()[..read]);
        }
        assert_eq!(seen, content);
    }

    #[test]
    fn aio_writes_to_the_file_or_gives_the_error() {
        let (file, content) = sample_file();
        let mut slot = aio();
        slot.buffer_mut()[..5].copy_from_slice(b"hello");
        slot.start_write(&file, 7, 5).unwrap();
        assert_eq!(slot.wait().unwrap(), 5);
        let mut bytes = [0; 13];
        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, 0).unwrap();
        assert_eq!(bytes[..], [&content[..7], b"hello", &content[12..13]].concat());
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = Arc::new(File::open(named.path()).unwrap());
        slot.start_write(&file, 0, 10).unwrap();
        assert_eq!(slot.wait().unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn misuse_is_an_error_and_leaves_the_request_alone() {
        let (file, _) = sample_file();
        let mut slot = aio();
        let invalid = io::ErrorKind::InvalidInput;
        assert_eq!(slot.wait().unwrap_err().kind(), invalid);
        assert_eq!(slot.start_read(&file, 0, BLOCK + 1).unwrap_err().kind(), invalid);
        slot.start_read(&file, 0, BLOCK).unwrap();
        assert_eq!(slot.start_read(&file, 0, BLOCK).unwrap_err().kind(), invalid);
        assert_eq!(slot.wait().unwrap(), BLOCK);
    }

    #[test]
    fn dropping_in_flight_waits_and_keeps_the_file_open() {
        let (file, _) = sample_file();
        for _ in 0..50 {
            let mut slot = aio();
            slot.start_read(&file, 0, BLOCK).unwrap();
        }
        let mut slot = aio();
        slot.start_read(&file, 0, BLOCK).unwrap();
        drop(file);
        assert_eq!(slot.wait().unwrap(), BLOCK);
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn the_buffer_is_out_of_reach_in_flight() {
        let (file, _) = sample_file();
        let mut slot = aio();
        slot.start_read(&file, 0, BLOCK).unwrap();
        let _ = slot.buffer();
    }
}
