//! A pair of folders of one name, from when it is met until all in it has been told.
//!
//! It is an open handle on each side, closed as soon as nothing below needs it, and earlier where many are open: then it
//! is opened again, name by name from the nearest one above that is open. So neither the number of open files nor the
//! length of paths limits how deep trees may be.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::look::{Facts, both, failed};
use super::{Side, What};

/// Two folders of one name.
pub(super) struct Folder {
    parent: Option<Arc<Self>>,
    name: CString,
    is_claimed: AtomicBool,
    handles: Mutex<Handles>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The open folders, one of each side.
pub(super) struct Pair {
    folders: [OwnedFd; 2],
    open: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Handles {
    pair: Option<Arc<Pair>>,
    /// What they were when they were first opened: device and inode.
    ids: Option<[(u64, u64); 2]>,
    /// Children to be opened, and files to be compared.
    needed: usize,
}

/// What is known of the entries, which are counted from 1 in the order of their names; 0 stands for the folder itself.
#[derive(Default)]
pub(super) struct State {
    /// Whether all below is complete but for what is waited for.
    pub is_listed: bool,
    /// The number of the last entry.
    pub last: u32,
    /// Which entries are waited for; empty where none is.
    pub is_waited_for: Vec<bool>,
    pub waited_for: usize,
    /// What was found, and the entry's name.
    pub found: BTreeMap<u32, (Box<[u8]>, Vec<What>)>,
    /// Folders on both sides.
    pub children: VecDeque<(u32, Arc<Folder>)>,
}

impl Pair {
    pub fn new(folders: [OwnedFd; 2], open: &Arc<AtomicUsize>) -> Arc<Self> {
        open.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            folders,
            open: Arc::clone(open),
        })
    }

    /// Both, in the order of the sides.
    pub fn borrowed(&self) -> [BorrowedFd<'_>; 2] {
        [self.folders[0].as_fd(), self.folders[1].as_fd()]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Not followed where it is a link: it was a folder when it was listed.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// The two roots, which are open already and stay so.
    pub fn root(pair: Arc<Pair>) -> Arc<Self> {
        let root = Self::new(None, CString::default());
        {
            let mut handles = root.lock_handles();
            handles.pair = Some(pair);
            handles.needed = 1;
        }
        Arc::new(root)
    }

    /// A pair of folders in this one, which keeps this one's handles until it is opened.
    pub fn child(self: &Arc<Self>, name: &CStr) -> Arc<Self> {
        self.lock_handles().needed += 1;
        Arc::new(Self::new(Some(Arc::clone(self)), name.to_owned()))
    }

    fn new(parent: Option<Arc<Self>>, name: CString) -> Self {
        Self {
            parent,
            name,
            is_claimed: AtomicBool::new(false),
            handles: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Adds its path below the roots, each name followed by a slash.
    pub fn path_to(&self, path: &mut Vec<u8>) {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(at.name.to_bytes());
            at = parent;
        }
        for name in names.into_iter().rev() {
            path.extend_from_slice(name);
            path.push(b'/');
        }
    }

    /// Whether the caller is the one who is to list it.
    pub fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Opens both sides for the first time. `None` where that failed, which is put into `found`.
    pub fn open(&self, open: &Arc<AtomicUsize>, found: &mut Vec<What>) -> Option<(Arc<Pair>, [Facts; 2])> {
        let pair = match &self.parent {
            None => self.lock_handles().pair.clone()?,
            Some(parent) => {
                let above = parent.pair(open);
                let opened = match &above {
                    Err((side, error)) => {
                        found.push(failed(*side, "opening it again", *error));
                        None
                    }
                    Ok(above) => {
                        let folders = above.borrowed();
                        both("opening", found, |side| {
                            openat(folders[side as usize], &self.name, FOLDER, Mode::empty())
                        })
                    }
                };
                parent.release(1, false);
                Pair::new(opened?, open)
            }
        };
        let folders = pair.borrowed();
        let facts = both("looking at it", found, |side| Facts::of(folders[side as usize]))?;
        let mut handles = self.lock_handles();
        handles.ids = Some([0, 1].map(|side: usize| (facts[side].device, facts[side].inode)));
        handles.needed += 1;
        handles.pair = Some(Arc::clone(&pair));
        drop(handles);
        Some((pair, facts))
    }

    /// Keeps the handles for `more` children or files.
    pub fn keep(&self, more: usize) {
        self.lock_handles().needed += more;
    }

    /// Says that `fewer` of those who needed the handles are done; nobody keeps them where they are to be had back.
    pub fn release(&self, fewer: usize, is_crowded: bool) {
        let mut handles = self.lock_handles();
        handles.needed = handles.needed.saturating_sub(fewer);
        if handles.needed == 0 || (is_crowded && self.parent.is_some()) {
            let pair = handles.pair.take();
            // Closing is a system call that nobody need wait for.
            drop(handles);
            drop(pair);
        }
    }

    /// The open folders, opened again where they were closed in between.
    ///
    /// # Errors
    /// The side that failed; `STALE` where there is another folder now.
    pub fn pair(&self, open: &Arc<AtomicUsize>) -> Result<Arc<Pair>, (Side, Errno)> {
        let mut closed = Vec::new();
        let mut at = self;
        let mut pair = loop {
            if let Some(pair) = at.lock_handles().pair.clone() {
                break pair;
            }
            closed.push(at);
            let Some(parent) = &at.parent else {
                return Err((Side::One, Errno::BADF));
            };
            at = parent;
        };
        for folder in closed.into_iter().rev() {
            pair = folder.reopen(&pair, open)?;
        }
        Ok(pair)
    }

    fn reopen(&self, above: &Pair, open: &Arc<AtomicUsize>) -> Result<Arc<Pair>, (Side, Errno)> {
        let folders = above.borrowed();
        let one = |side: Side| {
            let opened = openat(folders[side as usize], &self.name, FOLDER, Mode::empty());
            opened.map_err(|error| (side, error))
        };
        let pair = Pair::new([one(Side::One)?, one(Side::Other)?], open);
        let ids = self.lock_handles().ids;
        for side in Side::BOTH {
            let facts = Facts::of(pair.borrowed()[side as usize]).map_err(|error| (side, error))?;
            if ids.is_some_and(|ids| ids[side as usize] != (facts.device, facts.inode)) {
                return Err((side, Errno::STALE));
            }
        }
        Ok(pair)
    }

    /// Changes what is known of the entries, and wakes who waits for it.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock_state());
        self.changed.notify_all();
    }

    pub fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little for a change.
    pub fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, super::tell::TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock_handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds what was found at an entry, if anything was.
    pub fn add(&mut self, entry: u32, name: &[u8], what: Vec<What>) {
        if !what.is_empty() {
            self.found.insert(entry, (name.into(), what));
        }
    }
}

impl Drop for Folder {
    /// One after the other: of a deep tree each would drop the one above it, and the stack would not suffice.
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(mut folder) = above.and_then(Arc::into_inner) {
            above = folder.parent.take();
        }
    }
}

/// Lets go of folders that were never told: they and what is above them keep each other.
pub(super) fn dismantle(mut folders: Vec<Arc<Folder>>) {
    while let Some(folder) = folders.pop() {
        let children = std::mem::take(&mut folder.lock_state().children);
        folders.extend(children.into_iter().map(|(_, child)| child));
    }
}
