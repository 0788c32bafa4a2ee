//! Requests that are still on their way when an operation ends, by an error or by a panic of the consumer or producer: they
//! are waited for, so that nothing moves afterwards and the next file finds its buffers free.

use std::ops::{Deref, DerefMut};

use seekless_sys::{Aio, Ring};

/// What has requests on their way.
pub(crate) trait InFlight {
    /// Waits for all of them, whatever becomes of them.
    fn drain(&mut self);
}

/// Waits for all requests of a ring.
pub(crate) fn drain_ring(ring: &mut Ring) {
    while ring.in_flight() > 0 {
        // A ring that cannot be waited for is not used again: its next call fails too.
        if ring.wait().is_err() {
            return;
        }
    }
}

/// Waits for the requests of all slots.
pub(crate) fn drain_slots(slots: &mut [Aio]) {
    for slot in slots {
        // Waiting for one that has nothing on its way is refused, and harmless.
        let _ = slot.wait();
    }
}

/// Borrows what has requests on their way, and waits for them when the borrow ends.
pub(crate) struct Draining<'a, T: InFlight>(pub &'a mut T);

impl<T: InFlight> Drop for Draining<'_, T> {
    fn drop(&mut self) {
        self.0.drain();
    }
}

impl<T: InFlight> Deref for Draining<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: InFlight> DerefMut for Draining<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0
    }
}
