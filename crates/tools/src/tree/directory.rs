//! A pair of directories of one name, from when it is met until all in it has been told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::What;
use crate::walk;

/// Two directories of one name.
pub(super) type Directory = walk::Directory<2, Progress>;

/// How far the work on them is.
#[derive(Default)]
pub(super) struct Progress {
    is_claimed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

/// What is known of the entries, which are counted from 1 in the order of their names; 0 stands for the directory itself.
#[derive(Default)]
pub(super) struct State {
    /// Whether all below is complete but for what is waited for.
    pub is_listed: bool,
    /// The number of the last entry.
    pub last: u32,
    /// The name behind which the rest is to be listed, once all this is told: very large directories are taken in parts.
    pub rest: Option<Box<[u8]>>,
    /// Which entries are waited for; empty where none is.
    pub is_waited_for: Vec<bool>,
    /// What is to be told.
    pub items: BTreeMap<u32, Item>,
}

/// What is to be told of an entry.
pub(super) enum Item {
    /// These were found, at an entry of this name.
    Found(Box<[u8]>, Vec<What>),
    /// A directory on both sides.
    Child(Arc<Directory>),
}

impl Directory {
    /// Whether the caller is the one who is to list it.
    pub fn claim(&self) -> bool {
        !self.own.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Changes what is known of the entries, and wakes who waits for it.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock_state());
        self.own.changed.notify_all();
    }

    pub fn lock_state(&self) -> MutexGuard<'_, State> {
        self.own.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little for a change.
    pub fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.own.changed.wait_timeout(state, super::tell::TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    /// Adds what was found at an entry, if anything was.
    pub fn add(&mut self, entry: u32, name: &[u8], what: Vec<What>) {
        if !what.is_empty() {
            self.items.insert(entry, Item::Found(name.into(), what));
        }
    }
}

/// Lets go of directories that were never told: they and what is above them keep each other.
pub(super) fn dismantle(mut directories: Vec<Arc<Directory>>) {
    while let Some(directory) = directories.pop() {
        let items = std::mem::take(&mut directory.lock_state().items);
        directories.extend(items.into_values().filter_map(|item| match item {
            Item::Child(child) => Some(child),
            Item::Found(..) => None,
        }));
    }
}
