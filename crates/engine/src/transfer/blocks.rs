//! Reading and writing whole blocks, also in an order that was drawn.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use seekless_sys::{self as sys, Support};

use super::{Blocks, Destination, OpenFile, Visits};
use crate::caller_memory::CallerMemory;
use crate::error::Result;
use seekless_method::{CachePolicy, Durability};

impl<'a> OpenFile<'a> {
    /// Prepares for the requests of a file. Fails if its size or the method is not that for which the blocks were
    /// drawn.
    pub fn begin(&self, visits: &Visits) -> Result<()> {
        let options = self.method.options();
        if options.access() != visits.access || options.block_bytes() != Some(visits.block_bytes) {
            return Err(self.unavailable("the visits were drawn for another access or block size"));
        }
        if visits.destination() == Destination::Overwrite && self.metadata()?.len() != visits.file_bytes {
            return Err(self.resized(self.metadata()?.len()));
        }
        visits.restart();
        Ok(())
    }

    /// The blocks of a range, from its start to its end or as they were drawn.
    pub fn blocks(&self, block_bytes: usize, range: Range<u64>) -> Blocks<'a> {
        Blocks::new(self.visits, self.method.options().access(), block_bytes, range)
    }

    /// The start of a request, if requests are timed.
    #[inline]
    pub fn request_start(&self) -> Option<Instant> {
        self.visits.map(|_| Instant::now())
    }

    /// Records the latency of a finished request.
    #[inline]
    pub fn request_done(&self, offset: u64, started: Option<Instant>) {
        if let Some((visits, started)) = self.visits.zip(started) {
            visits.took(offset, started);
        }
    }

    /// Whether the block at an offset is read where others are written.
    #[inline]
    pub fn is_read(&self, offset: u64) -> bool {
        self.visits.is_some_and(|visits| visits.is_read(offset))
    }

    /// Writes a block, whose bytes `produce` made, or reads it.
    pub fn visit_block(&self, buffer: &mut [u8], offset: u64, length: usize) -> Result<()> {
        let started = self.request_start();
        if self.is_read(offset) {
            self.read_block(buffer, offset, length)?;
        } else {
            self.write_block(buffer, offset, length)?;
        }
        self.request_done(offset, started);
        Ok(())
    }

    /// The length to request, aligned for direct I/O. A read then ends early, and the padding of a write is cut off
    /// later.
    pub fn request_bytes(&self, length: usize) -> usize {
        (length as u64).next_multiple_of(self.alignment) as usize
    }

    /// Reads all `length` bytes at `offset`, repeating short and interrupted calls.
    pub fn read_block(&self, buffer: &mut [u8], offset: u64, length: usize) -> Result<()> {
        self.read_rest(buffer, offset, 0, length)
    }

    /// The same, if `done` bytes of the block are already in the buffer.
    pub fn read_rest(&self, buffer: &mut [u8], offset: u64, done: usize, length: usize) -> Result<()> {
        let asked = self.request_bytes(length);
        self.read_parts(offset, done, length, |done, at| {
            self.read_once(&mut buffer[done..asked], at)
        })
    }

    /// The same, to where the bytes belong: through the page cache, and by one call or more.
    pub fn read_place(&self, place: CallerMemory<'_>, offset: u64) -> Result<()> {
        match place {
            CallerMemory::Initialised(memory) => self.read_block(memory, offset, memory.len()),
            CallerMemory::Uninitialised(memory) => self.read_parts(offset, 0, memory.len(), |done, at| {
                self.count_call();
                let (read, _) = rustix::io::pread(&self.file, &mut memory[done..], at)?;
                Ok(Support::Available(read.len()))
            }),
        }
    }

    fn read_parts(
        &self,
        offset: u64,
        mut done: usize,
        length: usize,
        mut read_once: impl FnMut(usize, u64) -> io::Result<Support<usize>>,
    ) -> Result<()> {
        while done < length {
            let at = offset + done as u64;
            self.check_can_continue(at)?;
            let read = match read_once(done, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => self.support(("read", at), other)?,
            };
            if read == 0 {
                return Err(self.resized(at));
            }
            done += read;
        }
        Ok(())
    }

    /// A direct read has an unaligned length only at the end of the file, so nothing can be read after it.
    pub fn check_can_continue(&self, at: u64) -> Result<()> {
        if at.is_multiple_of(self.alignment) {
            Ok(())
        } else {
            Err(self.resized(at))
        }
    }

    /// How many of the bytes one call moves, if reading and writing have blocks of their own.
    fn at_most(&self, bytes: usize, block: u64) -> usize {
        (bytes as u64).min(block.next_multiple_of(self.alignment)) as usize
    }

    fn read_once(&self, buffer: &mut [u8], at: u64) -> io::Result<Support<usize>> {
        let buffer = match self.call_bytes {
            None => buffer,
            Some([block, _]) => {
                let most = self.at_most(buffer.len(), block);
                &mut buffer[..most]
            }
        };
        self.count_call();
        match self.method.options().cache() {
            CachePolicy::DontCache => sys::read_at_dontcache(&self.file, buffer, at),
            _ => self.file.read_at(buffer, at).map(Support::Available),
        }
    }

    /// Writes all of the first `length` bytes of `buffer` at `offset`, with the fdatasync of a method that has one for
    /// each call. Direct I/O also writes padding, which [`OpenFile::finish_target`] cuts off.
    pub fn write_block(&self, buffer: &[u8], offset: u64, length: usize) -> Result<()> {
        self.write_rest(buffer, offset, 0, length)
    }

    /// The same, if `done` bytes of the block are already written.
    pub fn write_rest(&self, buffer: &[u8], offset: u64, mut done: usize, length: usize) -> Result<()> {
        let asked = self.request_bytes(length);
        while done < asked {
            let at = offset + done as u64;
            let written = match self.write_once(&buffer[done..asked], at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => self.support(("write", at), other)?,
            };
            if written == 0 {
                return Err(self.failed(("write", at), io::ErrorKind::WriteZero.into()));
            }
            done += written;
        }
        if self.method.options().durability() == Durability::FdatasyncEach {
            self.count_call();
            sys::sync_data(&self.file).map_err(|error| self.failed(("fdatasync", offset), error))?;
        }
        Ok(())
    }

    fn write_once(&self, buffer: &[u8], at: u64) -> io::Result<Support<usize>> {
        let buffer = match self.call_bytes {
            None => buffer,
            Some([_, block]) => &buffer[..self.at_most(buffer.len(), block)],
        };
        self.count_call();
        match self.method.options().cache() {
            CachePolicy::DontCache => sys::write_at_dontcache(&self.file, buffer, at),
            _ => self.file.write_at(buffer, at).map(Support::Available),
        }
    }
}
