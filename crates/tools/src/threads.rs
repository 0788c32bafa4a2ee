//! Threads that do one work together.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// What comes of a work that several threads do, this one among them: fewer where the system has no more. If one panics, so
/// does this, since its part would be missing.
pub(crate) fn in_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    scope(|scope| {
        let spawn = |_| Builder::new().spawn_scoped(scope, &work).ok();
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let own = work();
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
}
