//! Which standard descriptors this process was started with.

use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each that is closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before std opens `/dev/null` in the place of closed descriptors.
#[used]
// SAFETY: the loader calls the functions of this section once, before `main`; this one calls nothing that needs std's set-up.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes nothing, and fails for a descriptor that is closed.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

/// Whether standard input (0), output (1) or error (2) was closed when the process started. std hides that: reads give nothing, and
/// what is written is lost.
#[must_use]
pub fn was_closed(descriptor: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << descriptor != 0
}
