//! A queue of work that several threads take from, and add to.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use seekless_sys::{into_unlocked, lock_mutex};

use crate::Stop;

/// The work of a job, in an order that the job knows.
#[derive(Default)]
pub(crate) struct WorkQueue<S> {
    state: Mutex<QueueState<S>>,
    changed: Condvar,
}

/// What a queue has while it is locked.
#[derive(Default)]
pub(crate) struct QueueState<S> {
    /// The work, and what else the job keeps under the same lock.
    pub own: S,
    /// Threads that took work and did not end it.
    at_work: usize,
    /// Threads that wait for work.
    asleep: usize,
}

/// What a thread gets that asks for work.
pub(crate) enum Taken<W> {
    Work(W),
    /// Nothing yet: another thread may add some.
    Nothing,
    End,
}

/// Wakes all threads that wait.
pub(crate) const ALL: usize = usize::MAX;

impl<S> WorkQueue<S> {
    pub fn new(own: S) -> Self {
        Self {
            state: Mutex::new(QueueState {
                own,
                at_work: 0,
                asleep: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, QueueState<S>> {
        lock_mutex(&self.state)
    }

    pub fn into_own(self) -> S {
        into_unlocked(self.state).own
    }

    /// Takes work by `take`, which is told how many threads are at work, and waits as long as there is none. Returns `None` at the
    /// end, or if the job is to stop.
    pub fn next<W>(&self, stop: &Stop, mut take: impl FnMut(&mut S, usize) -> Taken<W>) -> Option<W> {
        let mut state = self.lock();
        loop {
            let QueueState { own, at_work, .. } = &mut *state;
            let taken = if stop.is_stopped() {
                Taken::End
            } else {
                take(own, *at_work)
            };
            match taken {
                Taken::Work(work) => {
                    *at_work += 1;
                    return Some(work);
                }
                Taken::End => {
                    self.changed.notify_all();
                    return None;
                }
                Taken::Nothing => {}
            }
            state.asleep += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
    }

    /// Changes the work by `add`, which is told how many threads are at work and returns how many further ones may take some: waking
    /// more than that costs time.
    pub fn push(&self, add: impl FnOnce(&mut S, usize) -> usize) {
        self.change(self.lock(), add);
    }

    /// Ends work that was taken, and changes the rest as [`Self::push`] does.
    pub fn end_work(&self, add: impl FnOnce(&mut S, usize) -> usize) {
        let mut state = self.lock();
        state.at_work -= 1;
        self.change(state, add);
    }

    fn change(&self, mut state: MutexGuard<'_, QueueState<S>>, add: impl FnOnce(&mut S, usize) -> usize) {
        let QueueState { own, at_work, asleep } = &mut *state;
        let more = add(own, *at_work).min(*asleep);
        drop(state);
        for _ in 0..more {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::in_threads;

    #[test]
    fn work_queue_gives_each_work_once_and_ends_after_the_last() {
        // A number stands for as much work below it.
        let queue = WorkQueue::new(vec![6_u32]);
        let take = |own: &mut Vec<u32>, at_work| match own.pop() {
            Some(number) => Taken::Work(number),
            None if at_work == 0 => Taken::End,
            None => Taken::Nothing,
        };
        let done: usize = in_threads(4, || {
            let mut done = 0;
            while let Some(number) = queue.next(&Stop::default(), take) {
                done += 1;
                queue.end_work(|own, at_work| {
                    own.extend(0..number);
                    if at_work == 0 && own.is_empty() {
                        ALL
                    } else {
                        number as usize
                    }
                });
            }
            done
        })
        .into_iter()
        .sum();
        assert_eq!(done, 1 << 6);
    }

    #[test]
    fn work_queue_ends_for_waiting_threads_when_the_job_stops() {
        let (queue, stop) = (WorkQueue::new(()), Stop::default());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.next(&stop, |(), _| Taken::<()>::Nothing));
            while queue.lock().asleep == 0 {
                std::thread::yield_now();
            }
            stop.stop();
            queue.push(|(), _| ALL);
            assert_eq!(waiting.join().unwrap(), None);
        });
    }
}
