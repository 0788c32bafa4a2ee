//! What the tests of updates share: updates and how to commit them in a line, and watches that act before a step.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_engine::method::{Choice, Durability};
use seekless_engine::update::{Batch, Commit, PlanLimits, Safety, StepKind, Updates, Watch, WatchedStep};

pub const LIMITS: PlanLimits = PlanLimits {
    durability: Durability::Fsync,
    amplification_max: None,
    is_exact: false,
    safety: Safety::InPlace,
};

/// The updates that write these bytes at these offsets, in this order.
pub fn updates_of<B: AsRef<[u8]>>(list: impl IntoIterator<Item = (u64, B)>) -> Updates {
    let mut batch = Batch::new();
    for (offset, bytes) in list {
        batch.push(offset, bytes.as_ref()).unwrap();
    }
    batch.resolve()
}

/// Commits by a method or a plan, also past the end of the file.
pub fn how(method: impl Into<Choice>, safety: Safety) -> Commit {
    Commit::by(method).safety(safety).growing()
}

/// Like [`how`], by the text of a method or a plan.
pub fn by(text: &str, safety: Safety) -> Commit {
    how(text.parse::<Choice>().unwrap(), safety)
}

/// Calls a function before each step.
pub struct Before<F>(pub F);

impl<F: Fn(&WatchedStep<'_>) -> io::Result<()> + Sync> Watch for Before<F> {
    fn before(&self, step: &WatchedStep<'_>) -> io::Result<()> {
        (self.0)(step)
    }
}

/// Acts before the nth of the steps that are meant, from 1, and returns its result for the step.
pub fn before_nth(
    is_meant: impl Fn(&WatchedStep<'_>) -> bool + Sync,
    nth: u64,
    act: impl Fn() -> io::Result<()> + Sync,
) -> impl Watch {
    let seen = AtomicU64::new(0);
    Before(move |step: &WatchedStep<'_>| {
        let is_it = is_meant(step) && seen.fetch_add(1, Ordering::Relaxed) + 1 == nth;
        if is_it { act() } else { Ok(()) }
    })
}

/// Acts before the nth step of a kind.
pub fn at(kind: StepKind, nth: u64, act: impl Fn() -> io::Result<()> + Sync) -> impl Watch {
    before_nth(move |step| step.kind == kind, nth, act)
}

/// Fails the nth step of a kind at a path.
pub fn failing(path: &Path, kind: StepKind, nth: u64) -> impl Watch {
    before_nth(move |step| step.kind == kind && step.path == path, nth, full)
}

/// Two watches, one after the other.
pub fn both(first: impl Watch, second: impl Watch) -> impl Watch {
    Before(move |step: &WatchedStep<'_>| first.before(step).and_then(|()| second.before(step)))
}

/// Fails as a full disk does.
pub fn full() -> io::Result<()> {
    Err(io::ErrorKind::StorageFull.into())
}

/// The paths in a directory, sorted.
pub fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// Fails if there is another file beside a file.
pub fn assert_alone(path: &Path) {
    assert_eq!(names(path.parent().unwrap()), [path]);
}
