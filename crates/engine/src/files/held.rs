//! Holding a file while it is changed: a lock, which other seekless jobs respect; a lease, by which the kernel keeps other
//! processes out; and what was true of the file, so that a job can ask whether others have changed it.
//!
//! A job locks the file first, then takes the lease if it needs one, and checks the lease before each step that relies
//! on it. The job decides what to do without a lease. What a lease proves on which file system: [`seekless_sys::lease_scope`].

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use seekless_sys::{self as sys, LeaseKind, LeaseScope, SharedMappings, Support};

use super::StatFacts;
use crate::error::NotAlone;

/// A file that is open and locked: flock(2).
#[derive(Debug)]
pub struct Held {
    /// The open file.
    pub file: Arc<File>,
    lease: Option<Lease>,
    /// What it is expected to be, unless others changed it.
    facts: Mutex<StatFacts>,
    is_disturbed: AtomicBool,
}

impl Held {
    /// Locks a file against other seekless jobs until it is closed. Waits for at most `patience`; `None` if another job still holds
    /// the lock.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(file: Arc<File>, patience: Duration) -> io::Result<Option<Self>> {
        let is_locked = lock(&file, patience)?;
        is_locked.then(|| Self::unlocked(file)).transpose()
    }

    /// A file that is not locked, where the file system has no locks.
    ///
    /// # Errors
    /// The system's.
    pub fn unlocked(file: Arc<File>) -> io::Result<Self> {
        let facts = Mutex::new(StatFacts::of(&file)?);
        Ok(Self {
            file,
            lease: None,
            facts,
            is_disturbed: AtomicBool::new(false),
        })
    }

    /// Keeps other processes out by a lease: see [`Lease::take`]. What is true of the file is asked again.
    ///
    /// # Errors
    /// As [`Lease::take`].
    pub fn keep_out(&mut self, kind: LeaseKind, scope: Option<LeaseScope>) -> Result<(), NotAlone> {
        self.lease = Some(Lease::take(&self.file, kind, scope)?);
        *self.known() = StatFacts::of(&self.file).map_err(io::Error::from)?;
        Ok(())
    }

    /// What the file is expected to be.
    #[must_use]
    pub fn facts(&self) -> StatFacts {
        *self.known()
    }

    /// The lease, if there is one.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Whether no other process has tried to open the file since the lease was taken; true without one.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::stands)
    }

    /// Whether nobody else has changed the file, or anything that stat(2) tells of it.
    ///
    /// # Errors
    /// The system's.
    pub fn is_unchanged(&self) -> io::Result<bool> {
        let now = StatFacts::of(&self.file)?;
        Ok(!self.is_disturbed.load(Ordering::Relaxed) && now.is_same(&self.known()))
    }

    /// Makes a call that changes the file, its names excepted, if `check` agrees with what is true of the file before. What is true of
    /// it afterwards must stay, unless others had changed it before, or change its rights meanwhile: then it counts as changed from now
    /// on.
    ///
    /// # Errors
    /// The system's, of stat(2); the inner one is that of `check`.
    pub fn change<T, E>(
        &self,
        check: impl FnOnce(&StatFacts) -> Result<(), E>,
        call: impl FnOnce(&File) -> T,
    ) -> io::Result<Result<T, E>> {
        let rights = |facts: &StatFacts| (facts.mode, facts.owner, facts.group, facts.names);
        let before = StatFacts::of(&self.file)?;
        if let Err(why) = check(&before) {
            return Ok(Err(why));
        }
        let mut known = self.known();
        let was_ours = before.is_same(&known);
        let done = call(&self.file);
        *known = StatFacts::of(&self.file)?;
        if !was_ours || rights(&known) != rights(&before) {
            self.is_disturbed.store(true, Ordering::Relaxed);
        }
        Ok(Ok(done))
    }

    /// Notes that our own calls changed the names of the file. Returns whether nothing else was changed.
    ///
    /// # Errors
    /// The system's.
    pub fn renew(&self) -> io::Result<bool> {
        let now = StatFacts::of(&self.file)?;
        let mut known = self.known();
        let is_ours = now.is_but_for_names(&known);
        if is_ours {
            *known = now;
        }
        Ok(is_ours)
    }

    fn known(&self) -> MutexGuard<'_, StatFacts> {
        sys::lock_mutex(&self.facts)
    }
}

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
    /// Takes a lease. An exclusive one keeps all other processes from opening the file, which is open for writing; the other one keeps
    /// processes from opening it for writing, and it is open for reading only. No process has the file mapped, or with the other
    /// one, mapped for writing.
    ///
    /// Given what leases prove on its file system ([`Lease::scope_with_mappings`]), mappings are not asked for: the caller asks
    /// [`Lease::require_unmapped`] for many files at once when all leases are taken, before it reads the files.
    ///
    /// # Errors
    /// Why no lease is granted, or what it would not prove.
    pub fn take(file: &Arc<File>, kind: LeaseKind, scope: Option<LeaseScope>) -> Result<Self, NotAlone> {
        let lease = Self {
            file: Arc::clone(file),
            kind,
            scope: scope.map_or_else(|| Self::scope(file), Ok)?,
            has_ended: AtomicBool::new(false),
        };
        match (sys::take_lease(file, kind), kind) {
            (Ok(Support::Available(())), _) => {}
            (Ok(Support::Unavailable(reason)), _) => return Err(NotAlone::Unavailable(reason)),
            (Err(error), _) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
            (Err(_), LeaseKind::Exclusive) => return Err(NotAlone::Open),
            (Err(_), LeaseKind::AgainstWriters) => return Err(NotAlone::OpenForWriting),
        }
        if scope.is_none() {
            lease.require_unmapped(&mut None).inspect_err(|_| lease.end())?;
        }
        Ok(lease)
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
        if scope == LeaseScope::Descriptors {
            seen_mappings()?;
        }
        Ok(scope)
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
            none => none.insert(seen_mappings()?),
        };
        if mappings.has(&self.file)? {
            return Err(NotAlone::Mapped);
        }
        Ok(())
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

fn seen_mappings() -> Result<SharedMappings, NotAlone> {
    match sys::shared_mappings()? {
        Support::Available(mappings) => Ok(mappings),
        Support::Unavailable(reason) => Err(NotAlone::Unseen(reason)),
    }
}
