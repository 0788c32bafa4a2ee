//! What a simulated device stores: a file with the newest bytes, the faults that its requests meet, and power that can go.
//!
//! A medium has generations: a cut ends one, and whoever still uses the device of that generation gets errors.
//!
//! Not here: where requests come from, and how long they take.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate};
use rustix::io::Errno;
use seekless_sys::lock_mutex;
use serde::{Deserialize, Serialize};

use crate::faults::{DeviceFault, FaultKind, Faults};
use crate::power::{PowerLoss, WriteCache};
use crate::request::{BlockRequest, RequestKind};

/// So much stays free where the bytes are kept: a disk may be larger than that place.
pub const RESERVE_BYTES: u64 = 256 << 20;
/// How long a device that stalls answers nothing.
const STALL: Duration = Duration::from_millis(40);
/// After so many bytes written, what is free is looked at again.
const LOOK_AFTER_BYTES: u64 = 32 << 20;

/// The stored bytes of a simulated device.
#[derive(Debug)]
pub struct Medium {
    file: File,
    state: Mutex<MediumState>,
    cut: Condvar,
}

#[derive(Debug)]
struct MediumState {
    cache: WriteCache,
    faults: Faults,
    /// The first is 0.
    generation: u64,
    /// The power is gone, and the next generation has not begun.
    is_gone: bool,
    /// The next generation has begun, and its file system is not mounted yet: no faults happen.
    is_recovering: bool,
    /// Nothing is late or goes wrong any more.
    is_rushed: bool,
    /// Bytes that may be written before what is free is looked at.
    unwatched_bytes: u64,
}

/// The bytes of a request.
#[derive(Debug)]
pub enum RequestBytes<'a> {
    /// To be read into.
    Read(&'a mut [u8]),
    /// To be written.
    Write(&'a [u8]),
    /// A flush, or a discard.
    None,
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutReport {
    /// The generation that began.
    pub generation: u64,
    /// Bytes that had been written since the last flush.
    pub unflushed_bytes: u64,
    /// Bytes of them that are lost.
    pub lost_bytes: u64,
}

impl Medium {
    /// One that keeps its bytes in a file, with a write cache.
    #[must_use]
    pub fn new(file: File, cache: WriteCache) -> Self {
        let state = MediumState {
            cache,
            faults: Faults::default(),
            generation: 0,
            is_gone: false,
            is_recovering: false,
            is_rushed: false,
            unwatched_bytes: 0,
        };
        Self {
            file,
            state: Mutex::new(state),
            cut: Condvar::new(),
        }
    }

    /// Serves a request of the device of a generation. While the power is gone, this waits for the cut, so that nothing happens as a consequence of an error that a
    /// computer without power could not have seen.
    ///
    /// # Errors
    /// EIO where the generation is over; ENOSPC where little is free for its bytes; what the fault says; those of the file.
    pub fn serve(&self, generation: u64, request: &BlockRequest, bytes: RequestBytes<'_>) -> io::Result<()> {
        let mut state = self.state();
        let has_none = state.is_gone || state.is_recovering || state.is_rushed || state.generation != generation;
        let fault = if has_none { None } else { state.faults.meets(request) };
        state.is_gone |= fault == Some(FaultKind::PowerCut);
        let is_gone = |state: &mut MediumState| state.is_gone && state.generation == generation;
        let mut state = self
            .cut
            .wait_while(state, is_gone)
            .unwrap_or_else(PoisonError::into_inner);
        if state.generation != generation {
            return Err(Errno::IO.into());
        }
        match fault {
            Some(FaultKind::Eio) => return Err(Errno::IO.into()),
            Some(FaultKind::Enospc) => return Err(Errno::NOSPC.into()),
            // With the lock: nobody is served.
            Some(FaultKind::Stall) => thread::sleep(STALL),
            Some(FaultKind::LyingFlush) => return Ok(()),
            Some(FaultKind::PowerCut) | None => {}
        }
        let BlockRequest {
            offset_bytes,
            length_bytes,
            ..
        } = *request;
        match (request.kind, bytes) {
            (RequestKind::Read, RequestBytes::Read(bytes)) => {
                // Reads are not in each other's way.
                drop(state);
                self.file.read_exact_at(bytes, offset_bytes)?;
            }
            (RequestKind::Write, RequestBytes::Write(bytes)) => {
                self.watch_room(&mut state, offset_bytes, length_bytes)?;
                self.record(&mut state, offset_bytes, length_bytes)?;
                self.file.write_all_at(bytes, offset_bytes)?;
            }
            (RequestKind::Discard, _) => {
                self.record(&mut state, offset_bytes, length_bytes)?;
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.file, flags, offset_bytes, length_bytes)?;
            }
            _ => state.cache.flush(),
        }
        Ok(())
    }

    /// Keeps what a range holds until the next flush.
    fn record(&self, state: &mut MediumState, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        let read = |bytes: &mut [u8]| self.file.read_exact_at(bytes, offset_bytes);
        state.cache.record(offset_bytes, length_bytes, read)
    }

    /// Fails with ENOSPC before a write to a hole would leave less than the reserve to others.
    fn watch_room(&self, state: &mut MediumState, offset_bytes: u64, length_bytes: u64) -> io::Result<()> {
        if state.unwatched_bytes < length_bytes {
            let space = rustix::fs::fstatvfs(&self.file)?;
            let needed_bytes = RESERVE_BYTES + LOOK_AFTER_BYTES;
            if space.f_bavail.saturating_mul(space.f_frsize) < needed_bytes {
                let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(offset_bytes))?;
                let has_space = hole >= offset_bytes + length_bytes;
                return if has_space { Ok(()) } else { Err(Errno::NOSPC.into()) };
            }
            state.unwatched_bytes = LOOK_AFTER_BYTES.max(length_bytes);
        }
        state.unwatched_bytes -= length_bytes;
        Ok(())
    }

    /// Sets another fault, which counts from now on.
    pub fn set_fault(&self, fault: Option<DeviceFault>) {
        self.state().faults = Faults::new(fault);
    }

    /// How often the fault happened so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.state().faults.injected()
    }

    /// The power goes: requests wait for [`Self::cut`].
    pub fn lose_power(&self) {
        self.state().is_gone = true;
    }

    /// Whether the power is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.state().is_gone
    }

    /// Nothing is late or goes wrong from now on.
    pub fn rush(&self) {
        self.state().is_rushed = true;
    }

    /// The generation that is served.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Ends a power cut, which begins now if the power is still there: what is lost is undone, the next generation begins, and
    /// requests of the last one fail. Faults pause until [`Self::go_on`]. What is lost is as given, or drawn.
    ///
    /// # Errors
    /// Those of the file.
    pub fn cut(&self, loss: Option<PowerLoss>, seed: u64) -> io::Result<CutReport> {
        let mut state = self.state();
        let backs = state.cache.cut(loss, seed);
        for back in &backs {
            self.file.write_all_at(&back.bytes, back.offset_bytes)?;
        }
        state.generation += 1;
        (state.is_gone, state.is_recovering) = (false, true);
        let report = CutReport {
            generation: state.generation,
            unflushed_bytes: state.cache.bytes(),
            lost_bytes: backs.iter().map(|back| back.bytes.len() as u64).sum(),
        };
        state.cache.flush();
        self.cut.notify_all();
        Ok(report)
    }

    /// The file system has recovered: faults go on.
    pub fn go_on(&self) {
        self.state().is_recovering = false;
    }

    fn state(&self) -> MutexGuard<'_, MediumState> {
        lock_mutex(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 512;

    fn medium() -> Medium {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        Medium::new(file, WriteCache::new(1 << 20, 512))
    }

    /// One with a fault that happens once.
    fn faulty(kind: FaultKind, on: RequestKind, nth: u64) -> Medium {
        let medium = medium();
        let (on, times) = (vec![on], 1);
        medium.set_fault(Some(DeviceFault { kind, on, nth, times }));
        medium
    }

    fn request(kind: RequestKind, sector: u64, sectors: u64) -> BlockRequest {
        BlockRequest::new(kind, sector * SECTOR, sectors * SECTOR)
    }

    fn write(medium: &Medium, generation: u64, sector: u64, value: u8) -> io::Result<()> {
        let request = request(RequestKind::Write, sector, 4);
        medium.serve(generation, &request, RequestBytes::Write(&[value; 2048]))
    }

    fn flush(medium: &Medium, generation: u64) -> io::Result<()> {
        medium.serve(generation, &request(RequestKind::Flush, 0, 0), RequestBytes::None)
    }

    /// The first bytes of the first sectors.
    fn read(medium: &Medium, generation: u64) -> Vec<u8> {
        let mut bytes = [0; 4096];
        let request = request(RequestKind::Read, 0, 8);
        let served = medium.serve(generation, &request, RequestBytes::Read(&mut bytes));
        served.unwrap();
        bytes.chunks(512).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_cut_takes_what_was_not_flushed_and_begins_a_generation() {
        let medium = medium();
        write(&medium, 0, 0, 1).unwrap();
        flush(&medium, 0).unwrap();
        write(&medium, 0, 2, 2).unwrap();
        let discard = request(RequestKind::Discard, 0, 1);
        medium.serve(0, &discard, RequestBytes::None).unwrap();
        assert_eq!(read(&medium, 0), [0, 1, 2, 2, 2, 2, 0, 0]);
        let report = medium.cut(Some(PowerLoss::Lost), 0).unwrap();
        let expected = CutReport {
            generation: 1,
            unflushed_bytes: 5 * SECTOR,
            lost_bytes: 5 * SECTOR,
        };
        assert_eq!(report, expected);
        assert_eq!(read(&medium, 1), [1, 1, 1, 1, 0, 0, 0, 0]);
        let error = write(&medium, 0, 0, 3).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
        assert_eq!(read(&medium, 1)[0], 1);
    }

    #[test]
    fn flushes_that_lie_or_fail_keep_nothing() {
        for kind in [FaultKind::LyingFlush, FaultKind::Eio] {
            let medium = faulty(kind, RequestKind::Flush, 1);
            write(&medium, 0, 0, 1).unwrap();
            assert_eq!(flush(&medium, 0).is_ok(), kind == FaultKind::LyingFlush);
            medium.cut(Some(PowerLoss::Lost), 0).unwrap();
            medium.go_on();
            assert_eq!(read(&medium, 1)[0], 0);
            write(&medium, 1, 0, 1).unwrap();
            flush(&medium, 1).unwrap();
            medium.cut(Some(PowerLoss::Lost), 0).unwrap();
            assert_eq!(read(&medium, 2)[0], 1);
        }
    }

    #[test]
    fn requests_wait_from_a_planned_cut_until_it_is_done() {
        let medium = faulty(FaultKind::PowerCut, RequestKind::Write, 2);
        write(&medium, 0, 0, 1).unwrap();
        thread::scope(|scope| {
            let [second, third] = [2, 3].map(|value| {
                scope.spawn({
                    let medium = &medium;
                    move || write(medium, 0, 0, value)
                })
            });
            while !medium.is_gone() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            assert!(!second.is_finished() && !third.is_finished());
            medium.cut(Some(PowerLoss::Kept), 0).unwrap();
            assert!(second.join().unwrap().is_err() && third.join().unwrap().is_err());
        });
        assert_eq!(read(&medium, 1)[0], 1);
    }

    #[test]
    fn a_cut_that_cannot_be_written_can_be_tried_again() {
        let mut medium = medium();
        write(&medium, 0, 0, 1).unwrap();
        medium.lose_power();
        let file = std::mem::replace(&mut medium.file, File::open("/dev/null").unwrap());
        assert!(medium.cut(Some(PowerLoss::Lost), 0).is_err());
        assert!(medium.is_gone());
        medium.file = file;
        assert_eq!(medium.cut(Some(PowerLoss::Lost), 0).unwrap().lost_bytes, 2048);
        assert_eq!(read(&medium, 1)[0], 0);
    }
}
