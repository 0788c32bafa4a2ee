//! The work of the commands, for other programs too: [`cache`] shows, drops and warms files in the page cache; [`cmp`] compares
//! two files; [`cp`] copies trees; [`dupes`] finds equal files; [`holes`] shows, makes and fills the holes of files; [`tree`]
//! compares two trees; [`update`] reads updates of a file.
//!
//! Each has a feature of its name, all of which are on by default, except `catalogue` of [`dupes`]; `cmp` has [`tree`].
//!
//! A job takes a [`JobWatch`], which gets its progress and what it finds or cannot do, and has the [`Stop`] that ends it.
//!
//! Not here: moving bytes (the engine), and printing results (the command).

// Jobs share modules, of which a build with fewer jobs uses only a part. The lints run with all of them.
#![cfg_attr(
    not(all(
        feature = "cache",
        feature = "cp",
        feature = "holes",
        feature = "update",
        feature = "catalogue"
    )),
    allow(dead_code, unused_imports)
)]

#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "cmp")]
pub mod cmp;
#[cfg(feature = "cp")]
pub mod cp;
#[cfg(feature = "dupes")]
pub mod dupes;
#[cfg(feature = "holes")]
pub mod holes;
pub mod json;
#[cfg(feature = "cmp")]
pub mod tree;
#[cfg(feature = "update")]
pub mod update;
pub mod visible;
#[cfg(feature = "walk")]
pub mod walk;

mod disk_order;
mod handle;
mod open_pair;
#[cfg(test)]
mod testing;
mod threads;
mod volume;
mod watch;
mod work_queue;

pub use seekless::Stop;
pub use watch::{ClosureWatch, JobPhase, JobProgress, JobWatch, LargeFile, PathFailure};
