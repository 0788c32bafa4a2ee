//! Mutexes whose values stay right when a thread that holds them panics: the panic ends the process, or is reported where that thread
//! is joined.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one that a thread held when it panicked.
pub fn lock_mutex<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what a mutex has that no thread uses any more.
pub fn into_unlocked<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
