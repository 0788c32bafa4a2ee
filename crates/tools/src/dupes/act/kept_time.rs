//! Times of directories in which names change. They are put back after each call, so a time that another process gave a directory
//! between two calls stays. One that changes a name during a call goes unnoticed.
//!
//! Not here: the times of directories that are made again (`record`).

use std::cell::Cell;
use std::os::fd::AsFd;

use rustix::fs::FileType;
use seekless::files::{Exchange, FileRef, NotExchanged, Time};
use seekless_sys::Directory;

use crate::walk::StatFacts;

/// The mtime of a directory before one of our calls.
struct KeptTime(Option<Time>);

impl KeptTime {
    fn of(directory: &Directory) -> Self {
        Self(StatFacts::of(directory).ok().map(|facts| facts.modified))
    }

    /// Only its owner and root may set it. A time that cannot be set is no reason to undo what was done.
    fn put_back(self, directory: &Directory) {
        let now = Self::of(directory).0;
        if let Some(was) = self.0.filter(|was| now != Some(*was)) {
            let _ = FileRef::Handle(directory.as_fd(), FileType::Directory).set_times(None, was);
        }
    }
}

/// Makes a call that changes names in directories, and puts their times back.
pub(super) fn keeping_times<T>(directories: &[&Directory], call: impl FnOnce() -> T) -> T {
    let before: Vec<KeptTime> = directories.iter().map(|directory| KeptTime::of(directory)).collect();
    let done = call();
    for (time, directory) in before.into_iter().zip(directories) {
        time.put_back(directory);
    }
    done
}

/// Exchanges two names, and puts the time of their directory back.
pub(super) fn exchange<E>(exchange: &Exchange<'_, E>) -> Result<(), NotExchanged<E>> {
    let directory = exchange.directory;
    let before = Cell::new(None);
    let note = || before.set(Some(KeptTime::of(directory)));
    let put_back = || {
        if let Some(time) = before.take() {
            time.put_back(directory);
        }
    };
    let done = Exchange {
        is_ready: &|| (exchange.is_ready)().inspect(|()| note()),
        may_go: &|| {
            put_back();
            // The names may be exchanged back.
            (exchange.may_go)().inspect_err(|_| note())
        },
        ..*exchange
    }
    .run();
    put_back();
    done
}
