//! A directory, or one of the same name in each of several trees, from when it is met until nothing in it is needed.
//!
//! It is an open handle for each tree, closed as soon as nothing below needs it, and earlier where many are open: then it
//! is opened again, name by name from the nearest one above that is open. So neither the number of open files nor the
//! length of paths limits how deep trees may be, and nobody who renames a directory or plants a link leads the walk
//! elsewhere.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use seekless::files::Identity;

use super::Facts;

/// Directories of one name in so many trees, and what else their user keeps with them.
pub(crate) struct Directory<const TREES: usize, T = ()> {
    parent: Option<Arc<Self>>,
    name: CString,
    limit: Arc<Limit>,
    state: Mutex<State<TREES>>,
    pub own: T,
}

/// Open directories, one of each tree.
pub(crate) struct Handles<const TREES: usize> {
    directories: [OwnedFd; TREES],
    limit: Arc<Limit>,
}

/// How many handles are kept of directories that are not at work.
pub(crate) struct Limit {
    open: AtomicUsize,
    most: usize,
}

struct State<const TREES: usize> {
    kept: Option<Arc<Handles<TREES>>>,
    /// Those that somebody has, kept or opened again.
    open: Weak<Handles<TREES>>,
    /// What they were when they were first opened.
    ids: Option<[Identity; TREES]>,
    /// Directories to be opened in it, and files to be worked on.
    needed: usize,
}

impl Limit {
    pub fn new(most: usize) -> Arc<Self> {
        let open = AtomicUsize::new(0);
        Arc::new(Self { open, most })
    }

    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.most
    }
}

impl<const TREES: usize> Handles<TREES> {
    fn new(directories: [OwnedFd; TREES], limit: &Arc<Limit>) -> Arc<Self> {
        limit.open.fetch_add(1, Ordering::Relaxed);
        let limit = Arc::clone(limit);
        Arc::new(Self { directories, limit })
    }

    /// All, in the order of the trees.
    pub fn borrowed(&self) -> [BorrowedFd<'_>; TREES] {
        self.directories.each_ref().map(AsFd::as_fd)
    }
}

impl<const TREES: usize> Drop for Handles<TREES> {
    fn drop(&mut self) {
        self.limit.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Not followed where it is a link: it was a directory when it was listed.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl<const TREES: usize, T> Directory<TREES, T> {
    /// The roots, which are open already and stay so.
    pub fn root(directories: [OwnedFd; TREES], limit: &Arc<Limit>, own: T) -> Arc<Self> {
        let root = Self::new(None, CString::default(), Arc::clone(limit), own);
        {
            let mut state = root.lock();
            let handles = Handles::new(directories, limit);
            state.open = Arc::downgrade(&handles);
            state.kept = Some(handles);
        }
        Arc::new(root)
    }

    /// The directory of a name in this one, which keeps this one's handles until it is opened.
    pub fn child(self: &Arc<Self>, name: &CStr, own: T) -> Arc<Self> {
        self.keep(1);
        let limit = Arc::clone(&self.limit);
        Arc::new(Self::new(Some(Arc::clone(self)), name.to_owned(), limit, own))
    }

    fn new(parent: Option<Arc<Self>>, name: CString, limit: Arc<Limit>, own: T) -> Self {
        let state = State {
            kept: None,
            open: Weak::new(),
            ids: None,
            needed: 0,
        };
        Self {
            parent,
            name,
            limit,
            state: Mutex::new(state),
            own,
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

    /// Opens it for the first time, for one who needs it until [`Self::release`]. `None` where that failed in a tree, which
    /// `failed` is told, with what was being done.
    pub fn open(
        &self,
        failed: &mut dyn FnMut(usize, &'static str, Errno),
    ) -> Option<(Arc<Handles<TREES>>, [Facts; TREES])> {
        let handles = match &self.parent {
            None => self.lock().kept.clone()?,
            Some(parent) => {
                let opened = match parent.handles() {
                    Err((tree, error)) => {
                        failed(tree, "opening it again", error);
                        None
                    }
                    Ok(above) => self.open_in(&above, failed),
                };
                parent.release(1);
                opened?
            }
        };
        let facts = in_each("looking at it", failed, |tree| Facts::of(&handles.directories[tree]))?;
        let mut state = self.lock();
        state.ids = Some(facts.each_ref().map(Facts::id));
        state.needed += 1;
        state.open = Arc::downgrade(&handles);
        state.kept = Some(Arc::clone(&handles));
        drop(state);
        Some((handles, facts))
    }

    /// Keeps the handles for `more` directories or files in it.
    pub fn keep(&self, more: usize) {
        self.lock().needed += more;
    }

    /// Says that `fewer` of those who needed the handles are done. They are closed where nobody needs them, or many are open:
    /// they are to be had back.
    pub fn release(&self, fewer: usize) {
        let mut state = self.lock();
        state.needed = state.needed.saturating_sub(fewer);
        if self.parent.is_some() && (state.needed == 0 || self.limit.is_exceeded()) {
            let kept = state.kept.take();
            // Closing is a system call that nobody need wait for.
            drop(state);
            drop(kept);
        }
    }

    /// The open directories, opened again where they were closed in between.
    ///
    /// # Errors
    /// The tree that failed; `STALE` where there is another directory now.
    pub fn handles(&self) -> Result<Arc<Handles<TREES>>, (usize, Errno)> {
        let mut closed = Vec::new();
        let mut at = self;
        let mut handles = loop {
            if let Some(handles) = at.lock().open.upgrade() {
                break handles;
            }
            closed.push(at);
            let Some(parent) = &at.parent else {
                return Err((0, Errno::BADF));
            };
            at = parent;
        };
        for directory in closed.into_iter().rev() {
            handles = directory.reopen(&handles)?;
        }
        Ok(handles)
    }

    fn open_in(
        &self,
        above: &Handles<TREES>,
        failed: &mut dyn FnMut(usize, &'static str, Errno),
    ) -> Option<Arc<Handles<TREES>>> {
        let above = above.borrowed();
        let one = |tree: usize| openat(above[tree], &self.name, DIRECTORY, Mode::empty());
        Some(Handles::new(in_each("opening", failed, one)?, &self.limit))
    }

    fn reopen(&self, above: &Handles<TREES>) -> Result<Arc<Handles<TREES>>, (usize, Errno)> {
        let mut failure = (0, Errno::BADF);
        let opened = self.open_in(above, &mut |tree, _, error| failure = (tree, error));
        let handles = opened.ok_or(failure)?;
        let mut state = self.lock();
        for (tree, directory) in handles.directories.iter().enumerate() {
            let facts = Facts::of(directory).map_err(|error| (tree, error))?;
            if state.ids.is_some_and(|ids| ids[tree] != facts.id()) {
                return Err((tree, Errno::STALE));
            }
        }
        state.open = Arc::downgrade(&handles);
        Ok(handles)
    }

    fn lock(&self) -> MutexGuard<'_, State<TREES>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is got in each tree, or the failures.
fn in_each<const TREES: usize, T>(
    action: &'static str,
    failed: &mut dyn FnMut(usize, &'static str, Errno),
    mut get: impl FnMut(usize) -> rustix::io::Result<T>,
) -> Option<[T; TREES]> {
    let mut got = Vec::with_capacity(TREES);
    for tree in 0..TREES {
        match get(tree) {
            Ok(one) => got.push(one),
            Err(error) => failed(tree, action, error),
        }
    }
    got.try_into().ok()
}

impl<const TREES: usize, T> Drop for Directory<TREES, T> {
    /// One after the other: of a deep tree each would drop the one above it, and the stack would not suffice.
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.parent.take();
        }
    }
}
