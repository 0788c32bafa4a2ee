//! Reading and writing whole blocks.

use std::io;
use std::os::unix::fs::FileExt;

use seekless_sys::{self as sys, Support};

use super::Side;
use crate::error::Result;
use seekless_method::{CachePolicy, Durability};

impl Side<'_> {
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
    pub fn read_rest(&self, buffer: &mut [u8], offset: u64, mut done: usize, length: usize) -> Result<()> {
        let asked = self.request_bytes(length);
        while done < length {
            let at = offset + done as u64;
            self.check_can_continue(at)?;
            let read = match self.read_once(&mut buffer[done..asked], at) {
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
    /// each call. Direct I/O also writes padding, which [`Side::finish_target`] cuts off.
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
