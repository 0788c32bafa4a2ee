//! A directory, or directories of one name in several trees, while it is needed.
//!
//! It has an open handle for each tree, which is closed when nothing below needs it, or earlier if too many are open
//! (the one opened first). A walk that returns to a closed directory opens it again by `..`; others open it name by
//! name from the nearest open directory above. Both check that it is still the same directory. So neither the number of
//! open files nor the length of paths limits the depth of trees, and renaming a directory or planting a link does not
//! redirect the walk.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use seekless_sys::{lock_mutex, without_atime};

use super::StatFacts;
use crate::files::FileId;

/// Directories of one name in this many trees, with data of the caller.
pub struct WalkDirectory<const TREES: usize, T = ()> {
    parent: Option<Arc<Self>>,
    name: CString,
    /// The only tree that has it; its handle stands for those of all trees.
    only: Option<usize>,
    /// How it is opened in the first tree: a link is followed if the walk follows links.
    flags: OFlags,
    limit: Arc<Limit<TREES>>,
    state: Mutex<DirectoryState<TREES>>,
    /// What the caller adds.
    pub own: T,
}

/// Open directories, one of each tree.
pub struct Handles<const TREES: usize>([OwnedFd; TREES]);

/// Closes directories in another thread. Dropping it waits until all are closed.
pub struct Closing(Option<JoinHandle<()>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the handles of idle directories open: those opened last, by a serial number.
pub struct Limit<const TREES: usize> {
    kept: Mutex<(u64, BTreeMap<u64, Arc<Handles<TREES>>>)>,
    most: usize,
}

struct DirectoryState<const TREES: usize> {
    /// The handles, while someone uses them or the limit keeps them, and their serial number.
    open: Weak<Handles<TREES>>,
    number: u64,
    /// The identities at the first opening.
    ids: Option<[FileId; TREES]>,
    /// The number of directories to open in it, and files to process.
    needed: usize,
    /// The handles of the roots, which stay open.
    roots: Option<Arc<Handles<TREES>>>,
}

impl<const TREES: usize> Limit<TREES> {
    /// Keeps at most this many open.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let kept = Mutex::default();
        Arc::new(Self { kept, most })
    }

    /// Closes all idle directories in another thread: ext4 takes 2 microseconds for each.
    pub fn close_all(&self) -> Closing {
        let kept = std::mem::take(&mut self.lock().1);
        Closing(std::thread::Builder::new().spawn(move || drop(kept)).ok())
    }

    /// The number of directories that it keeps open.
    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.lock().1.len()
    }

    /// The number of openings.
    #[cfg(test)]
    pub fn opened(&self) -> u64 {
        self.lock().0
    }

    /// Keeps handles, and returns their serial number.
    fn keep(&self, handles: &Arc<Handles<TREES>>) -> u64 {
        let mut kept = self.lock();
        let (numbers, all) = &mut *kept;
        *numbers += 1;
        let number = *numbers;
        all.insert(number, Arc::clone(handles));
        let oldest = if all.len() > self.most { all.pop_first() } else { None };
        // Close outside the lock, because closing is a system call.
        drop(kept);
        drop(oldest);
        number
    }

    fn close(&self, number: u64) {
        let handles = self.lock().1.remove(&number);
        drop(handles);
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Handles<TREES>>>)> {
        lock_mutex(&self.kept)
    }
}

impl<const TREES: usize> Handles<TREES> {
    /// All handles, in the order of the trees.
    pub fn borrowed(&self) -> [BorrowedFd<'_>; TREES] {
        self.0.each_ref().map(AsFd::as_fd)
    }

    /// Opens the directories with a name in these, or in `only` one.
    fn open(&self, name: &CStr, flags: OFlags, only: Option<usize>, failed: Failures<'_>) -> Option<Arc<Self>> {
        let above = self.borrowed();
        let open = |tree: usize, flags| openat(above[tree], name, flags, Mode::empty());
        // Links that are followed are those of the first tree.
        let flags = |tree: usize| if tree == 0 { flags } else { flags | OFlags::NOFOLLOW };
        let one = |tree: usize| -> io::Result<OwnedFd> { Ok(without_atime(|more| open(tree, flags(tree) | more))?) };
        let opened = match only {
            None => in_each("open", failed, one)?,
            Some(tree) => {
                let opened = one(tree).map_err(|error| failed(tree, "open", error)).ok()?;
                in_each("open", failed, |_| opened.try_clone())?
            }
        };
        Some(Arc::new(Self(opened)))
    }
}

/// Links are not followed, because it was a directory when it was listed.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl<const TREES: usize, T> WalkDirectory<TREES, T> {
    /// The roots, which are already open and stay open. Paths of what is in them begin with `path`.
    pub fn root(directories: [OwnedFd; TREES], path: &Path, limit: &Arc<Limit<TREES>>, own: T) -> Arc<Self> {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let root = Self::new(None, name, Arc::clone(limit), own);
        let handles = Arc::new(Handles(directories));
        root.lock().open = Arc::downgrade(&handles);
        root.lock().roots = Some(handles);
        Arc::new(root)
    }

    /// The directory with a name in this one. It keeps this one's handles until it is opened.
    pub fn child(self: &Arc<Self>, name: &CStr, own: T) -> Arc<Self> {
        self.keep(1);
        let limit = Arc::clone(&self.limit);
        Arc::new(Self::new(Some(Arc::clone(self)), name.to_owned(), limit, own))
    }

    /// The same for a symbolic link to a directory in the first tree.
    pub fn linked_child(self: &Arc<Self>, name: &CStr, own: T) -> Arc<Self> {
        let mut child = self.child(name, own);
        if let Some(child) = Arc::get_mut(&mut child) {
            child.flags.remove(OFlags::NOFOLLOW);
        }
        child
    }

    /// The same directory, which only this tree has, as all below it.
    #[must_use]
    pub fn only_in(mut self: Arc<Self>, tree: usize) -> Arc<Self> {
        if let Some(directory) = Arc::get_mut(&mut self) {
            directory.only = Some(tree);
        }
        self
    }

    fn new(parent: Option<Arc<Self>>, name: CString, limit: Arc<Limit<TREES>>, own: T) -> Self {
        let state = DirectoryState {
            open: Weak::new(),
            number: 0,
            ids: None,
            needed: 0,
            roots: None,
        };
        Self {
            only: parent.as_ref().and_then(|parent| parent.only),
            parent,
            name,
            flags: DIRECTORY,
            limit,
            state: Mutex::new(state),
            own,
        }
    }

    /// Its name in the directory above.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// The only tree that has it.
    pub fn only(&self) -> Option<usize> {
        self.only
    }

    /// What closes it if too many are open.
    pub fn limit(&self) -> &Limit<TREES> {
        &self.limit
    }

    /// Whether it is a symbolic link that is followed.
    pub fn is_link(&self) -> bool {
        !self.flags.contains(OFlags::NOFOLLOW)
    }

    /// The directory above, unless this is a root.
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// The path of a name in it, which begins with that of the root.
    pub fn path_of(&self, name: &[u8]) -> PathBuf {
        let above = std::iter::successors(Some(self), |directory| directory.parent.as_deref());
        join(above, name)
    }

    /// The path of a name in it, relative to the root.
    pub fn path_below_root(&self, name: &[u8]) -> PathBuf {
        let above = std::iter::successors(Some(self), |directory| directory.parent.as_deref());
        join(above.filter(|directory| directory.parent.is_some()), name)
    }

    /// Opens it for the first time, for a user until [`Self::release`]. `None` if that failed in a tree; `failed` then
    /// gets the action and the error.
    pub fn open(&self, failed: Failures<'_>) -> Option<(Arc<Handles<TREES>>, [StatFacts; TREES])> {
        let handles = match &self.parent {
            None => self.lock().open.upgrade()?,
            Some(parent) => {
                let opened = match parent.handles() {
                    Ok(above) => above.open(&self.name, self.flags, self.only, failed),
                    Err((tree, error)) => {
                        failed(tree, "open again", error);
                        None
                    }
                };
                parent.release(1);
                opened?
            }
        };
        let facts = in_each("stat", failed, |tree| Ok(StatFacts::of(&handles.0[tree])?))?;
        self.lock().ids = Some(facts.map(|facts| facts.id()));
        self.keep(1);
        self.have(&handles);
        Some((handles, facts))
    }

    /// Adds `more` users of the handles: directories or files in it.
    pub fn keep(&self, more: usize) {
        self.lock().needed += more;
    }

    /// Removes users of the handles, which are closed when nobody needs them.
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

    /// Opens the directory above again by `..`, in one step, if it was closed and is needed. If that leads elsewhere,
    /// because this one was moved, it stays closed until it is requested.
    pub fn go_up(&self) {
        if let Some(parent) = &self.parent
            && parent.is_missed()
            && let Some(handles) = self.lock().open.upgrade()
        {
            let _ = parent.reopen(&handles, c"..");
        }
    }

    /// Whether it is closed but needed.
    fn is_missed(&self) -> bool {
        let state = self.lock();
        state.needed > 0 && state.open.strong_count() == 0
    }

    /// The open directories, opened again if they were closed.
    ///
    /// # Errors
    /// The tree that failed, and why: also that it is another directory now.
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

    /// Opens it by its name from above, or by `..` from below.
    fn reopen(&self, from: &Handles<TREES>, name: &CStr) -> Result<Arc<Handles<TREES>>, (usize, io::Error)> {
        let mut failure = (0, moved());
        let opened = from.open(name, self.flags, self.only, &mut |tree, _, error| {
            let errno = Errno::from_io_error(&error);
            let is_gone = matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP));
            failure = (tree, if is_gone { moved() } else { error });
        });
        let handles = opened.ok_or(failure)?;
        let ids = self.lock().ids;
        for (tree, directory) in handles.0.iter().enumerate() {
            let facts = StatFacts::of(directory).map_err(|error| (tree, error.into()))?;
            if ids.is_none_or(|ids| ids[tree] != facts.id()) {
                return Err((tree, moved()));
            }
        }
        self.have(&handles);
        Ok(handles)
    }

    /// Stores handles, for as long as the limit keeps them.
    fn have(&self, handles: &Arc<Handles<TREES>>) {
        if self.parent.is_some() {
            let mut state = self.lock();
            state.open = Arc::downgrade(handles);
            let number = std::mem::replace(&mut state.number, self.limit.keep(handles));
            drop(state);
            self.limit.close(number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, DirectoryState<TREES>> {
        lock_mutex(&self.state)
    }
}

/// Joins the names of directories, innermost first, and a name in the innermost.
fn join<'a, const TREES: usize, T: 'a>(
    above: impl Iterator<Item = &'a WalkDirectory<TREES, T>>,
    name: &'a [u8],
) -> PathBuf {
    let names = std::iter::once(name).chain(above.map(|directory| directory.name.to_bytes()));
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    // Pushing one name after the other onto a path would allocate several times: paths are most of what a search writes.
    let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
    for name in names.into_iter().rev() {
        if path.last().is_some_and(|last| *last != b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    OsString::from_vec(path).into()
}

/// The error if a directory is no longer where it was.
pub(super) fn moved() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "it was moved or removed meanwhile")
}

/// Receives failures: the tree, the action, the system's reason.
pub type Failures<'a> = &'a mut dyn FnMut(usize, &'static str, io::Error);

/// The results in all trees, or `None` after reporting failures.
pub fn in_each<const TREES: usize, T>(
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

impl<const TREES: usize, T> Drop for WalkDirectory<TREES, T> {
    /// Drops the directories above in a loop, because recursion would overflow the stack in a deep tree.
    fn drop(&mut self) {
        self.limit.close(self.state.get_mut().map_or(0, |state| state.number));
        let mut above = self.parent.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.parent.take();
        }
    }
}
