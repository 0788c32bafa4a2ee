//! A directory, or one of the same name in each of several trees, from when it is met until nothing in it is needed.
//!
//! It is an open handle for each tree, closed as soon as nothing below needs it, and earlier where many are open: the one
//! that was opened first is closed. A walk that comes up to a closed one opens it again by `..`, anybody else name by name
//! from the nearest one above that is open; both look whether it still is that directory. So neither the number of open
//! files nor the length of paths limits how deep trees may be, and nobody who renames a directory or plants a link leads
//! the walk elsewhere.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use seekless::files::Identity;

use super::Facts;

/// Directories of one name in this many trees, and what else their user keeps with them.
pub(crate) struct Directory<const TREES: usize, T = ()> {
    parent: Option<Arc<Self>>,
    name: CString,
    limit: Arc<Limit<TREES>>,
    state: Mutex<State<TREES>>,
    pub own: T,
}

/// Open directories, one of each tree.
pub(crate) struct Handles<const TREES: usize>([OwnedFd; TREES]);

/// Keeps handles of directories that are not at work: those that were opened last, by the number of their opening.
pub(crate) struct Limit<const TREES: usize> {
    kept: Mutex<(u64, BTreeMap<u64, Arc<Handles<TREES>>>)>,
    most: usize,
}

struct State<const TREES: usize> {
    /// Those that somebody has or the limit keeps, and their number there.
    open: Weak<Handles<TREES>>,
    number: u64,
    /// What they were when they were first opened.
    ids: Option<[Identity; TREES]>,
    /// Directories to be opened in it, and files to be worked on.
    needed: usize,
    /// Those of the roots, which stay open.
    roots: Option<Arc<Handles<TREES>>>,
}

impl<const TREES: usize> Limit<TREES> {
    pub fn new(most: usize) -> Arc<Self> {
        let kept = Mutex::default();
        Arc::new(Self { kept, most })
    }

    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.lock().1.len()
    }

    /// How many were opened.
    #[cfg(test)]
    pub fn opened(&self) -> u64 {
        self.lock().0
    }

    /// Keeps handles, and gives their number.
    fn keep(&self, handles: &Arc<Handles<TREES>>) -> u64 {
        let mut kept = self.lock();
        let (numbers, all) = &mut *kept;
        *numbers += 1;
        let number = *numbers;
        all.insert(number, Arc::clone(handles));
        let oldest = if all.len() > self.most { all.pop_first() } else { None };
        // Closing is a system call that nobody need wait for.
        drop(kept);
        drop(oldest);
        number
    }

    fn close(&self, number: u64) {
        let handles = self.lock().1.remove(&number);
        drop(handles);
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Handles<TREES>>>)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const TREES: usize> Handles<TREES> {
    /// All, in the order of the trees.
    pub fn borrowed(&self) -> [BorrowedFd<'_>; TREES] {
        self.0.each_ref().map(AsFd::as_fd)
    }

    /// Opens directories of a name in these.
    fn open(&self, name: &CStr, failed: Failures<'_>) -> Option<Arc<Self>> {
        let above = self.borrowed();
        let one = |tree: usize| Ok(openat(above[tree], name, DIRECTORY, Mode::empty())?);
        Some(Arc::new(Self(in_each("open", failed, one)?)))
    }
}

/// Not followed where it is a link: it was a directory when it was listed.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl<const TREES: usize, T> Directory<TREES, T> {
    /// The roots, which are open already and stay so.
    pub fn root(directories: [OwnedFd; TREES], limit: &Arc<Limit<TREES>>, own: T) -> Arc<Self> {
        let root = Self::new(None, CString::default(), Arc::clone(limit), own);
        let handles = Arc::new(Handles(directories));
        root.lock().open = Arc::downgrade(&handles);
        root.lock().roots = Some(handles);
        Arc::new(root)
    }

    /// The directory of a name in this one, which keeps this one's handles until it is opened.
    pub fn child(self: &Arc<Self>, name: &CStr, own: T) -> Arc<Self> {
        self.keep(1);
        let limit = Arc::clone(&self.limit);
        Arc::new(Self::new(Some(Arc::clone(self)), name.to_owned(), limit, own))
    }

    fn new(parent: Option<Arc<Self>>, name: CString, limit: Arc<Limit<TREES>>, own: T) -> Self {
        let state = State {
            open: Weak::new(),
            number: 0,
            ids: None,
            needed: 0,
            roots: None,
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

    /// Opens it for the first time, for one who needs it until [`Self::release`]. `None` where that failed in a tree, which
    /// `failed` is told, with what was tried.
    pub fn open(&self, failed: Failures<'_>) -> Option<(Arc<Handles<TREES>>, [Facts; TREES])> {
        let handles = match &self.parent {
            None => self.lock().open.upgrade()?,
            Some(parent) => {
                let opened = match parent.handles() {
                    Ok(above) => above.open(&self.name, failed),
                    Err((tree, error)) => {
                        failed(tree, "open again", error);
                        None
                    }
                };
                parent.release(1);
                opened?
            }
        };
        let facts = in_each("stat", failed, |tree| Ok(Facts::of(&handles.0[tree])?))?;
        self.lock().ids = Some(facts.each_ref().map(Facts::id));
        self.keep(1);
        self.have(&handles);
        Some((handles, facts))
    }

    /// Keeps the handles for `more` directories or files in it.
    pub fn keep(&self, more: usize) {
        self.lock().needed += more;
    }

    /// Says that `fewer` of those who needed the handles are done. They are closed where nobody needs them.
    pub fn release(&self, fewer: usize) {
        let mut state = self.lock();
        state.needed = state.needed.saturating_sub(fewer);
        let is_needed = state.needed > 0;
        drop(state);
        if !is_needed {
            self.go_up();
            self.limit.close(self.lock().number);
        }
    }

    /// Opens the one above again where it was closed and is needed, by `..`: what is far below the roots is opened in one step.
    /// Where that leads elsewhere, because this one was moved, it stays closed until somebody asks for it.
    pub fn go_up(&self) {
        if let Some(parent) = &self.parent
            && parent.is_missed()
            && let Some(handles) = self.lock().open.upgrade()
        {
            let _ = parent.reopen(&handles, c"..");
        }
    }

    /// Whether it is closed and needed.
    fn is_missed(&self) -> bool {
        let state = self.lock();
        state.needed > 0 && state.open.strong_count() == 0
    }

    /// The open directories, opened again where they were closed in between.
    ///
    /// # Errors
    /// The tree that failed; [`moved`] where there is another directory now.
    pub fn handles(&self) -> Result<Arc<Handles<TREES>>, (usize, io::Error)> {
        let mut closed = Vec::new();
        let mut at = self;
        let mut handles = loop {
            if let Some(handles) = at.lock().open.upgrade() {
                break handles;
            }
            closed.push(at);
            let Some(parent) = &at.parent else {
                return Err((0, Errno::BADF.into()));
            };
            at = parent;
        };
        for directory in closed.into_iter().rev() {
            handles = directory.reopen(&handles, &directory.name)?;
        }
        Ok(handles)
    }

    /// Opens it by its name in those above, or by `..` in those below.
    fn reopen(&self, from: &Handles<TREES>, name: &CStr) -> Result<Arc<Handles<TREES>>, (usize, io::Error)> {
        let mut failure = (0, moved());
        let opened = from.open(name, &mut |tree, _, error| {
            let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].map(Errno::raw_os_error);
            let is_gone = error.raw_os_error().is_some_and(|number| gone.contains(&number));
            failure = (tree, if is_gone { moved() } else { error });
        });
        let handles = opened.ok_or(failure)?;
        let ids = self.lock().ids;
        for (tree, directory) in handles.0.iter().enumerate() {
            let facts = Facts::of(directory).map_err(|error| (tree, error.into()))?;
            if ids.is_none_or(|ids| ids[tree] != facts.id()) {
                return Err((tree, moved()));
            }
        }
        self.have(&handles);
        Ok(handles)
    }

    /// Takes handles as its own, for as long as the limit keeps them.
    fn have(&self, handles: &Arc<Handles<TREES>>) {
        if self.parent.is_some() {
            let mut state = self.lock();
            state.open = Arc::downgrade(handles);
            let number = std::mem::replace(&mut state.number, self.limit.keep(handles));
            drop(state);
            self.limit.close(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<TREES>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a directory cannot be opened again: it is not where it was.
fn moved() -> io::Error {
    io::Error::other("it was moved or removed meanwhile")
}

/// Receives what failed: the tree, what was tried, the system's reason.
pub(crate) type Failures<'a> = &'a mut dyn FnMut(usize, &'static str, io::Error);

/// What is got in each tree, or the failures.
pub(crate) fn in_each<const TREES: usize, T>(
    action: &'static str,
    failed: Failures<'_>,
    mut get: impl FnMut(usize) -> io::Result<T>,
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
        self.limit.close(self.state.get_mut().map_or(0, |state| state.number));
        let mut above = self.parent.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.parent.take();
        }
    }
}
