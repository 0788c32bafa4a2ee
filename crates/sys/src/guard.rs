//! The SIGBUS guard: reading a mapped file that was truncated gives zeros and sets a flag, instead of killing the
//! process.
//!
//! A process that reads or writes a mapped page which the file no longer has (or whose device failed) gets SIGBUS. The
//! handler here looks the address up in a table of live maps. If it is one of ours it replaces the rest of that mapping by
//! zero pages, sets the map's flag and returns, and the access is made again and succeeds. Any other SIGBUS goes to the
//! handler that was installed before; Rust's own, for one, reports stack overflows.
//!
//! The handler uses only prepared data: it takes no lock, allocates nothing, and makes one system call, mmap(2).
//! Because it is process-wide, it is installed only on request. Truncation within the file's last page raises no
//! signal, so the caller must check the size by fstat(2) before every verdict.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock};

// The address of this thread's errno, which a signal handler must preserve.
#[cfg(any(target_os = "illumos", target_os = "solaris"))]
use libc::___errno as errno_location;
#[cfg(any(target_os = "netbsd", target_os = "openbsd"))]
use libc::__errno as errno_location;
#[cfg(any(target_os = "linux", target_os = "dragonfly"))]
use libc::__errno_location as errno_location;
#[cfg(any(target_os = "macos", target_os = "freebsd"))]
use libc::__error as errno_location;
use libc::{c_int, c_void, siginfo_t};

use crate::machine::current_action;
use crate::support::checked;

/// Maps that can live at one time; the handler looks through all of them.
const SLOTS: usize = 128;

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static INSTALLED: OnceLock<Installed> = OnceLock::new();
/// Set after the handler is in place; `INSTALLED` is filled before.
static READY: AtomicBool = AtomicBool::new(false);

/// Data that the handler needs and cannot query.
struct Installed {
    previous: libc::sigaction,
    page_bytes: usize,
}

/// Installs the guard for the whole process: a SIGBUS handler, once. Later calls do nothing.
///
/// A library must not do this unasked. A handler that someone installs afterwards disables the guard.
///
/// # Errors
/// Those of sigaction(2).
pub fn install_guard() -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = crate::lock_mutex(&ONE_AT_A_TIME);
    if guard_installed() {
        return Ok(());
    }
    // The handler may run as soon as it is installed, so the previous handler is stored first.
    let previous = current_action(libc::SIGBUS)?;
    INSTALLED.get_or_init(|| Installed {
        previous,
        page_bytes: crate::page_bytes(),
    });
    // SAFETY: all-zero is a valid `sigaction`: integers, an empty mask, no function.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigbus;
    action.sa_sigaction = handler as usize;
    // The handler's own stack, since the access may have been made by a thread at the end of its stack. Not SA_NODEFER: a
    // SIGBUS within the handler is a bug, and dying of it is right.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    set_action(&action)?;
    READY.store(true, Ordering::Release);
    Ok(())
}

/// Whether [`install_guard`] has succeeded in this process.
#[must_use]
pub fn guard_installed() -> bool {
    READY.load(Ordering::Acquire)
}

fn set_action(action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: `action` is a valid `sigaction` whose handler, if it is ours, is safe to run at any moment (`on_sigbus`).
    Ok(checked(unsafe {
        libc::sigaction(libc::SIGBUS, action, ptr::null_mut())
    })?)
}

/// One live map as the handler sees it.
///
/// `version` is odd while the other fields change. The handler takes a slot whose version is even and the same before and
/// after it read the fields; it may pass over all others, because the map in which its own thread just faulted is borrowed
/// by that thread and so neither appears nor disappears meanwhile.
#[derive(Debug)]
struct Slot {
    claimed: AtomicBool,
    version: AtomicUsize,
    start: AtomicUsize,
    /// 0 where there is no live map.
    len: AtomicUsize,
    protection: AtomicI32,
    faulted: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            claimed: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            protection: AtomicI32::new(0),
            faulted: AtomicBool::new(false),
        }
    }

    /// Stores the fields; only the owner of the claim calls it, so versions are never written by two.
    fn set(&self, start: usize, len: usize, protection: c_int) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.protection.store(protection, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The end and protection of the mapping, if it is live and holds `address`.
    fn holding(&self, address: usize) -> Option<(usize, c_int)> {
        let before = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        let protection = self.protection.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let steady = before.is_multiple_of(2) && before == self.version.load(Ordering::Relaxed);
        (steady && address.wrapping_sub(start) < len).then(|| (start + len, protection))
    }
}

/// A claim to one slot of the table, held by a map for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration(&'static Slot);

impl Registration {
    /// Claims a slot.
    ///
    /// # Errors
    /// `Unsupported` where the guard is not installed, or all slots are in use.
    pub(crate) fn claim() -> io::Result<Self> {
        if !guard_installed() {
            return Err(unsupported(
                "mapped files need the SIGBUS guard, which is not installed",
            ));
        }
        let free = TABLE.iter().find(|slot| {
            slot.claimed
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        });
        let slot = free.ok_or_else(|| unsupported("too many files are mapped at one time"))?;
        slot.faulted.store(false, Ordering::Relaxed);
        Ok(Self(slot))
    }

    /// Starts guarding a mapping.
    ///
    /// # Safety
    /// The range must be a mapping of the caller's own, and stay so until [`Registration::stop`] or the drop: a fault in it
    /// replaces its pages.
    pub(crate) unsafe fn guard(&self, start: *mut c_void, len: usize, protection: c_int) {
        self.0.set(start as usize, len, protection);
    }

    /// Ends the guarding. Call this before munmap(2), never after it.
    ///
    /// Between an munmap and a later stop the kernel may give the addresses to somebody else's mapping, whose faults the
    /// handler would then hide, replacing that memory. The other order leaves no gap either: between the stop and the
    /// munmap nobody can fault in the range, since whoever has access to it borrows the map that is being dropped.
    pub(crate) fn stop(&self) {
        self.0.set(0, 0, 0);
    }

    /// Whether an access to the mapping has faulted.
    pub(crate) fn faulted(&self) -> bool {
        // The handler runs in the middle of an access that the compiler takes for an ordinary read: no such access made
        // before may be moved past the load.
        fence(Ordering::SeqCst);
        self.0.faulted.load(Ordering::SeqCst)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stop();
        self.0.claimed.store(false, Ordering::Release);
    }
}

fn unsupported(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, message)
}

/// Runs on the thread whose access faulted, in the middle of that access.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: always safe to call; the C library gives the address of the calling thread's own variable.
    let errno = unsafe { errno_location() };
    // SAFETY: this thread's own errno, valid while the thread runs.
    let saved = unsafe { *errno };
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler installed with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // The codes of faults: BUS_ADRALN, BUS_ADRERR, BUS_OBJERR. Sent by kill(2) the signal has no address; of broken memory
    // (BUS_MCEERR_AR) the process should die.
    let is_fault = (1..=3).contains(&code);
    if !(is_fault && replace_by_zeros(address)) {
        chain(signal, info, context, is_fault);
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Whether `address` was in a guarded mapping, which from its page on now is zeros.
///
/// Two threads may come here with one page: both map zeros over it and both go on, which is all that either needs.
fn replace_by_zeros(address: usize) -> bool {
    let Some(installed) = INSTALLED.get() else { return false };
    let found = TABLE
        .iter()
        .find_map(|slot| slot.holding(address).map(|(end, protection)| (slot, end, protection)));
    let Some((slot, end, protection)) = found else {
        return false;
    };
    // Before the pages: whoever sees a zero must be able to see the flag.
    slot.faulted.store(true, Ordering::SeqCst);
    let page = address & !(installed.page_bytes - 1);
    // SAFETY: `page..end` is part of a mapping that `guard`'s caller gave to us to replace, and that stays mapped while this
    // thread is in the middle of accessing it (see `Slot`). Nothing refers to it but raw pointers.
    let zeros = unsafe {
        libc::mmap(
            page as *mut c_void,
            end - page,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED | crate::platform::MAP_NORESERVE,
            -1,
            0,
        )
    };
    zeros != libc::MAP_FAILED
}

/// Passes the signal to the previous handler.
fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
    let previous = INSTALLED.get().map(|installed| &installed.previous);
    match previous {
        Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
            if action.sa_flags & libc::SA_SIGINFO == 0 {
                // SAFETY: an action without SA_SIGINFO that is neither default nor ignore is a function of this type.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(action.sa_sigaction) };
                handler(signal);
            } else {
                // SAFETY: an action with SA_SIGINFO is a function of this type.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(action.sa_sigaction) };
                handler(signal, info, context);
            }
        }
        Some(action) if action.sa_sigaction == libc::SIG_IGN && !is_fault => {}
        _ => die(signal, is_fault),
    }
}

/// Lets the default action end the process: by the same access made again, or, where somebody sent the signal, by sending it
/// again.
fn die(signal: c_int, is_fault: bool) {
    // SAFETY: all-zero is a valid `sigaction`; SIG_DFL is 0.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    // SAFETY: sigaction(2) and raise(3) are async-signal-safe; the action is valid and runs none of our code.
    unsafe {
        libc::sigaction(signal, &raw const action, ptr::null_mut());
        if !is_fault {
            libc::raise(signal);
        }
    }
}
