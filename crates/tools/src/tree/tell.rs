//! Telling what was found, in the order of the names, depth first, while the threads go on.
//!
//! The teller waits for what comes next. Where that is a directory that nobody has begun to list, it lists it itself: so it
//! can never wait for a thread that waits for it, however few directories may be listed ahead.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::{Directory, State, dismantle};
use super::queue::Shared;
use super::{Found, Summary, Watch, What};

/// How often progress is told, and looked whether to stop.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// A directory on the way to where the teller is.
struct Level {
    directory: Arc<Directory>,
    /// The entry that comes next.
    next: u32,
    /// The length of the path above.
    above: usize,
    entries: u64,
}

/// What comes next in a directory.
enum Next {
    /// These were found, at an entry of this name.
    Found(Box<[u8]>, Vec<What>),
    /// A directory in it.
    Child(Arc<Directory>),
    /// What is not listed yet.
    Rest,
    End,
}

/// Tells what was found.
pub(super) struct Teller<'a> {
    shared: &'a Shared<'a>,
    watch: &'a mut dyn Watch,
    /// The path of the directory where it is, each name followed by a slash.
    path: Vec<u8>,
    differences: u64,
    failures: u64,
    is_stopped: bool,
    last_tick: Instant,
}

impl<'a> Teller<'a> {
    pub fn new(shared: &'a Shared<'a>, watch: &'a mut dyn Watch) -> Self {
        Self {
            shared,
            watch,
            path: Vec::new(),
            differences: 0,
            failures: 0,
            is_stopped: false,
            last_tick: Instant::now(),
        }
    }

    /// Tells something of the roots themselves.
    pub fn tell_roots(&mut self, what: &What) {
        let _ = self.tell(b"", std::slice::from_ref(what));
    }

    /// Tells everything, until the end or until it is to stop.
    pub fn tell_all(&mut self, root: Arc<Directory>) {
        let mut levels = vec![self.enter(root, 0)];
        while let Some(level) = levels.last_mut() {
            match self.next(level) {
                None => {
                    self.is_stopped = true;
                    break;
                }
                Some(Next::Found(name, what)) => {
                    if self.tell(&name, &what).is_break() {
                        self.is_stopped = true;
                        break;
                    }
                }
                Some(Next::Child(child)) => {
                    let above = self.path.len();
                    self.path.extend_from_slice(child.name().to_bytes());
                    self.path.push(b'/');
                    let level = self.enter(child, above);
                    levels.push(level);
                }
                Some(Next::Rest) => {
                    self.shared.told(level.entries);
                    self.shared.list(&level.directory);
                    level.next = 0;
                }
                Some(Next::End) => {
                    self.path.truncate(level.above);
                    self.shared.told(level.entries);
                    levels.pop();
                }
            }
        }
        dismantle(levels.into_iter().map(|level| level.directory).collect());
    }

    /// What was done and told.
    pub fn into_summary(self) -> Summary {
        Summary {
            differences: self.differences,
            failures: self.failures,
            is_stopped: self.is_stopped,
            large: self.shared.large_used(),
            ..self.shared.summary()
        }
    }

    fn enter(&self, directory: Arc<Directory>, above: usize) -> Level {
        if directory.claim() {
            self.shared.list(&directory);
        }
        Level {
            directory,
            next: 0,
            above,
            entries: 0,
        }
    }

    /// What comes next, once it is known; `None` where all is to stop.
    fn next(&mut self, level: &mut Level) -> Option<Next> {
        let directory = &level.directory;
        let mut state = directory.lock_state();
        loop {
            if self.shared.is_stopped() {
                return None;
            }
            if let Some(next) = ready(&mut state, &mut level.next) {
                level.entries = u64::from(state.last);
                return Some(next);
            }
            state = directory.wait(state);
            if self.last_tick.elapsed() >= TICK {
                drop(state);
                self.tick();
                state = directory.lock_state();
            }
        }
    }

    fn tick(&mut self) {
        self.last_tick = Instant::now();
        let so_far = Summary {
            differences: self.differences,
            failures: self.failures,
            ..self.shared.summary()
        };
        self.watch.progress(&so_far);
    }

    fn tell(&mut self, name: &[u8], all: &[What]) -> ControlFlow<()> {
        let mut path = self.path.clone();
        if name.is_empty() {
            // The directory itself.
            path.pop();
        }
        path.extend_from_slice(name);
        for what in all {
            match what {
                What::Difference(_) => self.differences += 1,
                What::Failed { .. } => self.failures += 1,
            }
            let path = Path::new(OsStr::from_bytes(&path));
            self.watch.found(&Found { path, what })?;
        }
        if self.last_tick.elapsed() >= TICK {
            self.tick();
        }
        ControlFlow::Continue(())
    }
}

/// What comes next, if it is known yet.
fn ready(state: &mut State, next: &mut u32) -> Option<Next> {
    if !state.is_listed {
        return None;
    }
    loop {
        if state.waited_for == 0 {
            // Nothing more will be found: the rest of the files is passed over at once.
            let found = state.found.first_key_value().map(|(entry, _)| *entry);
            let child = state.children.front().map(|(entry, _)| *entry);
            let first = [found, child].into_iter().flatten().min();
            *next = first.unwrap_or(state.last + 1).max(*next);
        }
        if *next > state.last {
            return Some(if state.rest.is_some() { Next::Rest } else { Next::End });
        }
        if state.is_waited_for.get(*next as usize) == Some(&true) {
            return None;
        }
        if let Some((name, what)) = state.found.remove(next) {
            *next += 1;
            return Some(Next::Found(name, what));
        }
        if state.children.front().is_some_and(|(entry, _)| entry == next) {
            *next += 1;
            return state.children.pop_front().map(|(_, child)| Next::Child(child));
        }
        *next += 1;
    }
}
