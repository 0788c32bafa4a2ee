//! A pair of directories with one name, until all of its results are reported.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seekless_engine::walk;
use seekless_sys::lock_mutex;

use super::TreeFinding;

/// The time between two reports of progress, and checks whether to stop.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Two directories of one name.
pub(super) type Directory = walk::WalkDirectory<2, ListProgress>;

/// The progress of a pair of directories.
#[derive(Default)]
pub(super) struct ListProgress {
    is_claimed: AtomicBool,
    state: Mutex<ListState>,
    changed: Condvar,
}

/// The state of the entries, which are numbered from 1 in the order of names; 0 is the directory itself.
#[derive(Default)]
pub(super) struct ListState {
    /// Whether everything is listed; only entries that are waited for may be missing.
    pub is_listed: bool,
    /// The number of the last entry.
    pub last: u32,
    /// The name after which listing continues, once this part is reported: very large directories are processed in
    /// parts.
    pub rest: Option<Box<[u8]>>,
    /// Which entries are waited for; empty if none is.
    pub is_waited_for: Vec<bool>,
    /// The results to report.
    pub items: BTreeMap<u32, Item>,
}

/// The result of an entry.
pub(super) enum Item {
    /// Findings for the entry with this name.
    Found(Box<[u8]>, Vec<TreeFinding>),
    /// A directory on both sides.
    Child(Arc<Directory>),
}

impl ListProgress {
    /// Claims the listing; returns whether the caller must do it.
    pub fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Changes the state, and wakes those who wait for it.
    pub fn update(&self, change: impl FnOnce(&mut ListState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub fn lock(&self) -> MutexGuard<'_, ListState> {
        lock_mutex(&self.state)
    }

    /// Waits a short time for a change.
    pub fn wait<'a>(&'a self, state: MutexGuard<'a, ListState>) -> MutexGuard<'a, ListState> {
        let waited = self.changed.wait_timeout(state, TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl ListState {
    /// Adds the findings for an entry, if there are any.
    pub fn add(&mut self, entry: u32, name: &[u8], what: Vec<TreeFinding>) {
        if !what.is_empty() {
            self.items.insert(entry, Item::Found(name.into(), what));
        }
    }
}

/// Breaks the cycles of references between directories that were not reported and those above them.
pub(super) fn dismantle(mut directories: Vec<Arc<Directory>>) {
    while let Some(directory) = directories.pop() {
        let items = std::mem::take(&mut directory.own.lock().items);
        directories.extend(items.into_values().filter_map(|item| match item {
            Item::Child(child) => Some(child),
            Item::Found(..) => None,
        }));
    }
}
