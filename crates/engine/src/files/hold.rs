//! Holding a file while it is changed: a lock, which other seekless jobs respect, and a lease, by which the kernel
//! keeps other processes out.
//!
//! A job locks the file first, then takes the lease if it needs one, and checks the lease before each step that relies
//! on it. The job decides what to do without a lease.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, LeaseKind, Support};

use crate::error::NotAlone;

/// Locks a file against other seekless jobs until it is closed: flock(2). Waits for at most `patience`; returns `false`
/// if another job still holds the lock.
///
/// # Errors
/// The system's.
pub fn lock(file: &File, patience: Duration) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => std::thread::sleep(patience / 50),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// A lease on an open file: fcntl(2) `F_SETLEASE`. A process that opens the file waits until the lease ends, at most
/// for `/proc/sys/fs/lease-break-time`. The lease ends by [`Lease::end`], or when the file is closed.
#[derive(Debug)]
pub struct Lease {
    file: Arc<File>,
    kind: LeaseKind,
    has_ended: AtomicBool,
}

impl Lease {
    /// Takes a lease that keeps all other processes from opening the file, on other machines, too. The file is open for
    /// writing.
    ///
    /// # Errors
    /// Why no lease is granted.
    pub fn exclusive(file: &Arc<File>) -> Result<Self, NotAlone> {
        let lease = Self::take(file, LeaseKind::Exclusive)?;
        match sys::leases_bind_all_writers(file) {
            Ok(true) => Ok(lease),
            other => {
                lease.end();
                Err(other.map_or_else(NotAlone::from, |_| NotAlone::Elsewhere))
            }
        }
    }

    /// Takes a lease that keeps processes on this machine from opening the file for writing. The file is open for
    /// reading only.
    ///
    /// # Errors
    /// Why no lease is granted.
    pub fn against_writers(file: &Arc<File>) -> Result<Self, NotAlone> {
        Self::take(file, LeaseKind::AgainstWriters)
    }

    fn take(file: &Arc<File>, kind: LeaseKind) -> Result<Self, NotAlone> {
        match (sys::take_lease(file, kind), kind) {
            (Ok(Support::Available(())), _) => Ok(Self {
                file: Arc::clone(file),
                kind,
                has_ended: AtomicBool::new(false),
            }),
            (Ok(Support::Unavailable(reason)), _) => Err(NotAlone::Unavailable(reason)),
            (Err(error), _) if error.kind() != io::ErrorKind::WouldBlock => Err(error.into()),
            (Err(_), LeaseKind::Exclusive) => Err(NotAlone::Open),
            (Err(_), LeaseKind::AgainstWriters) => Err(NotAlone::OpenForWriting),
        }
    }

    /// Whether it still holds: it was not given up, and no process is waiting for it.
    #[must_use]
    pub fn stands(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && sys::holds_lease(&self.file, self.kind)
    }

    /// Gives it up, so that waiting processes continue.
    pub fn end(&self) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            sys::end_lease(&self.file);
        }
    }
}
