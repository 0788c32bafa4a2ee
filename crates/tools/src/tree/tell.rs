//! The teller, which reports findings in the order of the names, depth first, while the threads work.
//!
//! The teller waits for the next result. If that is in a directory that nobody has started to list, the teller lists it
//! itself, so it never waits for a thread that waits for it, even if few directories may be listed ahead.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::directory::{Directory, Item, ListState, TICK, dismantle};
use super::list::list;
use super::shared::CompareJob;
use super::{TreeEvent, TreeFinding};
use crate::watch::JobWatch;

/// A directory on the path to the current one.
struct Level {
    directory: Arc<Directory>,
    /// The next entry.
    next: u32,
    /// The length of the path above.
    above: usize,
    entries: u64,
}

/// The next result of a directory.
enum Next {
    Item(Item),
    /// The next part is not listed yet.
    Rest,
    End,
}

/// Reports findings.
pub(super) struct Teller<'a> {
    job: &'a CompareJob<'a>,
    watch: &'a dyn for<'e> JobWatch<TreeEvent<'e>>,
    /// The path of the current directory, each name followed by a slash.
    path: Vec<u8>,
    last_tick: Instant,
}

impl<'a> Teller<'a> {
    pub fn new(job: &'a CompareJob<'a>, watch: &'a dyn for<'e> JobWatch<TreeEvent<'e>>) -> Self {
        Self {
            job,
            watch,
            path: Vec::new(),
            last_tick: Instant::now(),
        }
    }

    /// Reports everything, until the end or a stop.
    pub fn tell_all(&mut self, root: Arc<Directory>) {
        let mut levels = vec![self.enter(root, 0)];
        while let Some(level) = levels.last_mut() {
            let is_stopped = match self.next(level) {
                None => true,
                Some(Next::Item(Item::Found(name, what))) => self.tell(&name, &what).is_break(),
                Some(Next::Item(Item::Child(child))) => {
                    let above = self.path.len();
                    self.path.extend_from_slice(child.name().to_bytes());
                    self.path.push(b'/');
                    let level = self.enter(child, above);
                    levels.push(level);
                    false
                }
                Some(Next::Rest) => {
                    self.job.told(level.entries);
                    list(self.job, &level.directory);
                    level.next = 0;
                    false
                }
                Some(Next::End) => {
                    self.path.truncate(level.above);
                    self.job.told(level.entries);
                    levels.pop();
                    false
                }
            };
            if is_stopped {
                self.job.count(|done| done.is_stopped = true);
                break;
            }
        }
        dismantle(levels.into_iter().map(|level| level.directory).collect());
    }

    fn enter(&self, directory: Arc<Directory>, above: usize) -> Level {
        if directory.own.claim() {
            list(self.job, &directory);
        }
        Level {
            directory,
            next: 0,
            above,
            entries: 0,
        }
    }

    /// Waits for the next result; `None` if the job is stopped.
    fn next(&mut self, level: &mut Level) -> Option<Next> {
        let directory = &level.directory;
        let mut state = directory.own.lock();
        loop {
            if self.job.is_stopped() {
                return None;
            }
            if let Some(next) = ready(&mut state, &mut level.next) {
                level.entries = u64::from(state.last);
                return Some(next);
            }
            state = directory.own.wait(state);
            if self.last_tick.elapsed() >= TICK {
                drop(state);
                self.tick();
                state = directory.own.lock();
            }
        }
    }

    fn tick(&mut self) {
        self.last_tick = Instant::now();
        self.watch.progress(&self.job.progress());
    }

    /// Reports the findings for a name, or for the directory itself if the name is empty.
    pub fn tell(&mut self, name: &[u8], all: &[TreeFinding]) -> ControlFlow<()> {
        let mut path = self.path.clone();
        if name.is_empty() {
            path.pop();
        }
        path.extend_from_slice(name);
        let path = Path::new(OsStr::from_bytes(&path));
        for found in all {
            self.job.count(|done| match found {
                TreeFinding::Difference(_) => done.differences += 1,
                TreeFinding::Failed { .. } => done.failures += 1,
            });
            self.watch.event(TreeEvent { path, found })?;
        }
        if self.last_tick.elapsed() >= TICK {
            self.tick();
        }
        ControlFlow::Continue(())
    }
}

/// The next result, if it is known.
fn ready(state: &mut ListState, next: &mut u32) -> Option<Next> {
    if !state.is_listed {
        return None;
    }
    let item = state
        .items
        .first_key_value()
        .map_or(state.last + 1, |(entry, _)| *entry);
    while *next < item {
        if state.is_waited_for.get(*next as usize) == Some(&true) {
            return None;
        }
        *next += 1;
    }
    *next += 1;
    Some(match state.items.pop_first() {
        Some((_, item)) => Next::Item(item),
        None if state.rest.is_some() => Next::Rest,
        None => Next::End,
    })
}
