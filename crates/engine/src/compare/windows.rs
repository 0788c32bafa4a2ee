//! Several threads compare one range: each takes the next window, and the first difference in the file wins.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_sys::{into_unlocked, lock_mutex};

use crate::error::Result;
use crate::threads::ThreadPool;

/// Workers take windows of `window_bytes` until none is left, or all windows before a difference are done. Returns the
/// first difference, or the error of a window before it.
pub(super) fn first_difference<W: Send>(
    pool: &ThreadPool,
    range: Range<u64>,
    window_bytes: u64,
    workers: &mut [W],
    look: impl Fn(&mut W, Range<u64>) -> Result<Option<u64>> + Sync,
) -> Result<Option<u64>> {
    let next = AtomicU64::new(range.start);
    // Windows from here on are skipped, because something was found before them.
    let needed_until = AtomicU64::new(range.end);
    let first: Mutex<Option<(u64, Result<u64>)>> = Mutex::new(None);
    let work = |worker: &mut W| {
        loop {
            let start = next.fetch_add(window_bytes, Ordering::Relaxed);
            if start >= needed_until.load(Ordering::Relaxed) {
                return;
            }
            let (at, outcome) = match look(worker, start..(start + window_bytes).min(range.end)) {
                Ok(None) => continue,
                Ok(Some(at)) => (at, Ok(at)),
                Err(error) => (start, Err(error)),
            };
            needed_until.fetch_min(at, Ordering::Relaxed);
            let mut first = lock_mutex(&first);
            if first.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
                *first = Some((at, outcome));
            }
        }
    };
    pool.in_place_scope(|scope| {
        for worker in workers {
            let work = &work;
            scope.spawn(move |_| work(worker));
        }
    });
    let first = into_unlocked(first);
    first.map(|(_, outcome)| outcome).transpose()
}
