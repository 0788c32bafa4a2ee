//! Holding a file while it is changed: a lock, which other seekless jobs respect, and a lease, by which the kernel
//! keeps other processes out.
//!
//! A job locks the file first, then takes the lease if it needs one, and checks the lease before each step that relies
//! on it. The job decides what to do without a lease.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, LeaseKind, LeaseScope, SharedMappings, Support};

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
    scope: LeaseScope,
    has_ended: AtomicBool,
}

impl Lease {
    /// Takes a lease that keeps all other processes from opening the file. The file is open for writing. No process has it
    /// mapped.
    ///
    /// # Errors
    /// Why no lease is granted, or what it would not prove.
    pub fn exclusive(file: &Arc<File>) -> Result<Self, NotAlone> {
        Self::take(file, LeaseKind::Exclusive, Self::scope(file)?)?.unmapped()
    }

    /// Takes a lease that keeps processes from opening the file for writing. The file is open for reading only. No process
    /// has it mapped for writing.
    ///
    /// # Errors
    /// As [`Lease::exclusive`].
    pub fn against_writers(file: &Arc<File>) -> Result<Self, NotAlone> {
        Self::take(file, LeaseKind::AgainstWriters, Self::scope(file)?)?.unmapped()
    }

    /// The same for one of many files of a file system on which leases prove this: the caller asks [`Lease::require_unmapped`] when
    /// all leases are taken, before it reads the files.
    ///
    /// # Errors
    /// As [`Lease::exclusive`].
    pub fn against_openers(file: &Arc<File>, scope: LeaseScope) -> Result<Self, NotAlone> {
        Self::take(file, LeaseKind::AgainstWriters, scope)
    }

    /// What a lease proves on the file system of an open file.
    ///
    /// # Errors
    /// Why it proves nothing.
    pub fn scope(file: impl AsFd) -> Result<LeaseScope, NotAlone> {
        match sys::lease_scope(file)? {
            Support::Available(LeaseScope::Unknown) => Err(NotAlone::Elsewhere),
            Support::Available(scope) => Ok(scope),
            Support::Unavailable(reason) => Err(NotAlone::Unavailable(reason)),
        }
    }

    /// The same, also if mappings must be seen to know that no process has a file mapped.
    ///
    /// # Errors
    /// As [`Lease::scope`], and that they cannot be seen.
    pub fn scope_with_mappings(file: impl AsFd) -> Result<LeaseScope, NotAlone> {
        let scope = Self::scope(file)?;
        match (scope == LeaseScope::Descriptors)
            .then(sys::shared_mappings)
            .transpose()?
        {
            Some(Support::Unavailable(reason)) => Err(NotAlone::Unseen(reason)),
            _ => Ok(scope),
        }
    }

    /// Whether a process may have the file mapped, although the lease was granted.
    #[must_use]
    pub fn may_be_mapped(&self) -> bool {
        self.scope == LeaseScope::Descriptors
    }

    /// Fails if a process may have the file mapped. The mappings of all processes are read if that was not done since the lease
    /// was taken. A mapping that is made later needs a descriptor, which the lease prevents.
    ///
    /// # Errors
    /// That it is mapped, or why this is not known.
    pub fn require_unmapped(&self, mappings: &mut Option<SharedMappings>) -> Result<(), NotAlone> {
        if !self.may_be_mapped() {
            return Ok(());
        }
        let mappings = match mappings {
            Some(mappings) => mappings,
            none => none.insert(match sys::shared_mappings()? {
                Support::Available(mappings) => mappings,
                Support::Unavailable(reason) => return Err(NotAlone::Unseen(reason)),
            }),
        };
        if mappings.has(&self.file)? {
            return Err(NotAlone::Mapped);
        }
        Ok(())
    }

    fn unmapped(self) -> Result<Self, NotAlone> {
        let unmapped = self.require_unmapped(&mut None);
        if unmapped.is_err() {
            self.end();
        }
        unmapped.map(|()| self)
    }

    fn take(file: &Arc<File>, kind: LeaseKind, scope: LeaseScope) -> Result<Self, NotAlone> {
        match (sys::take_lease(file, kind), kind) {
            (Ok(Support::Available(())), _) => Ok(Self {
                file: Arc::clone(file),
                kind,
                scope,
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
