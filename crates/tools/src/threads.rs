//! Running one job in several threads.

use std::iter;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// Runs `work` in several threads, including this one, and returns the results. Otherwise like
/// [`beside`].
pub(crate) fn in_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    let (own, others) = beside(threads.saturating_sub(1), &work, &work);
    iter::once(own).chain(others).collect()
}

/// Runs `own` in this thread and `work` in several others, and returns the results; in fewer
/// threads if the system has no more. If a thread panics, so does this one, because a result would
/// be missing.
pub(crate) fn beside<T: Send, O>(others: usize, work: impl Fn() -> T + Sync, own: impl FnOnce() -> O) -> (O, Vec<T>) {
    scope(|scope| {
        let spawn = |_| Builder::new().spawn_scoped(scope, &work).ok();
        let others: Vec<_> = (0..others).map_while(spawn).collect();
        let own = own();
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (own, others.collect())
    })
}

/// Runs `work` on parts of `count` items, and returns the results in order. Threads take the next `most` items in turn.
pub(crate) fn in_parts<T: Send>(
    threads: usize,
    count: usize,
    most: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> impl Iterator<Item = T> {
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(most, Ordering::Relaxed)).filter(|start| *start < count);
    let parts = in_threads(threads.min(count.div_ceil(most)), || {
        let taken = iter::from_fn(take);
        taken
            .map(|start| (start, work(start..count.min(start + most))))
            .collect::<Vec<_>>()
    });
    let mut parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.sort_unstable_by_key(|(start, _)| *start);
    parts.into_iter().map(|(_, part)| part)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn every_thread_gives_its_part_and_a_panic_is_not_lost() {
        let next = AtomicUsize::new(0);
        let mut parts = in_threads(4, || next.fetch_add(1, Ordering::Relaxed));
        parts.sort_unstable();
        assert_eq!(parts, (0..parts.len()).collect::<Vec<_>>());
        let here = std::thread::current().id();
        let ended = catch_unwind(|| in_threads(4, || assert_eq!(std::thread::current().id(), here)));
        assert!(parts.len() == 1 || ended.is_err());
    }

    #[test]
    fn parts_come_in_their_order_and_cover_all() {
        for (count, most) in [(0, 4), (1, 4), (100, 1), (100, 7), (100, 100), (100, 101)] {
            let parts: Vec<Vec<usize>> = in_parts(4, count, most, Iterator::collect).collect();
            assert!(parts.iter().all(|part| (1..=most).contains(&part.len())), "{parts:?}");
            assert_eq!(parts.concat(), (0..count).collect::<Vec<_>>());
        }
    }
}
