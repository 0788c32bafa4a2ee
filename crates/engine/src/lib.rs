//! Read, write, copy, compare and update files by any method that the system offers: by the one that a planner chooses
//! for the file and its storage, or by one that you name.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::write(&from, b"bytes")?;
//! let done = seekless_engine::copy(&from, &to)?;
//! println!("{} bytes by {}: {}", done.bytes, done.method, done.why);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A method that you name does what its name says, or fails:
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::write(&from, b"bytes")?;
//! use seekless_engine::{IoOptions, Method};
//! let method: Method = "copy/double-buffer,block=1M,fsync".parse()?;
//! let done = IoOptions::method(method).copy(&from, &to)?;
//! # assert_eq!((done.bytes, done.method), (5, method));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An open file, and a range of its bytes:
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, vec![b'\n'; 10_000])?;
//! use seekless_engine::FileRange;
//! let file = std::fs::File::open(&path)?;
//! let mut lines = 0;
//! seekless_engine::read(FileRange::of_file(&file).range(4096..8192), |_offset, bytes| {
//!     lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! # assert_eq!(lines, 4096);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Only the plan, with the predicted time:
//!
//! ```
//! # let file = tempfile::NamedTempFile::new()?;
//! # let path = file.path();
//! let plan = seekless_engine::plan(&seekless_engine::Request::read(path))?;
//! println!("{} in {:?}: {}", plan.method, plan.predicted.value, plan.why);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | by the plan | by a method, or a plan with a durability |
//! |---|---|---|
//! | read a file into a closure | [`read`] | [`IoOptions::read`] |
//! | read a file into memory | [`read_into`] | [`IoOptions::read_into`] |
//! | write bytes to a file | [`write`](write()) | [`IoOptions::write`], [`IoOptions::produce`] |
//! | copy a file | [`copy`] | [`IoOptions::copy`] |
//! | find the first difference of two files | [`compare`] | [`IoOptions::compare`] |
//! | make many small changes in a file | [`update`](update()) | [`IoOptions::update`] |
//! | learn the method and the predicted time | [`plan`](plan()) | |
//! | do the same with many files | | [`Reader`], [`Writer`], [`Copier`], [`Comparer`], [`update::Updater`] |
//!
//! All but updates take a [`FileRange`] instead of a path. [`IoOptions::progress`] reports progress
//! and can cancel.
//!
//! A [`Method`] is data with one text form, `OPERATION/MECHANISM[,OPTION...]`; the module [`method`] lists them. [`Probe`] says
//! what works on a storage, [`StorageFacts`] what a storage reports about itself, and [`cache`] how much of a file is
//! in memory. Methods of the mechanism `mmap` need a signal handler, which a program installs by [`allow_mapping`].
//!
//! Below these calls lie the verbs that the tools of this project are made of: [`files`] knows and holds a file and replaces it as a
//! whole, [`walk`] goes through trees, [`batch`] reads many small files at queue depth, [`facts`] measures for plans, and
//! [`profile`] and [`advice`] say what earlier runs of the lab measured. Until version 1.0, they change more often than the calls.
//!
//! Every call that moves bytes blocks the calling thread. Sizes and offsets are in bytes, times are
//! [`Duration`](std::time::Duration)s. An [`Error`] names the file, the operation, the method and the system's reason;
//! [`full_text`] makes one line of it.
//!
//! # Features
//! On by default: `profile` (plans rest on what `seekless bench` measured on the storage, if anything), `threads` (threads are
//! started before the first file, by rayon), `suggestions` (errors about misspelt names suggest similar ones) and `tracing`
//! (logs internal steps). Without them, the crate needs crc32fast, fastrand,
//! io-uring, libc, memchr, rustix, serde and thiserror.
//!
//! # Not here
//! Measuring (the crate `seekless-lab`), and jobs on trees of files, such as comparing and copying them (`seekless-tools`; its function
//! `cp::copy_trees` reports progress and can be cancelled). All system calls that need
//! unsafe code are in `seekless-sys`. On other unixes than Linux and macOS, only POSIX calls are available. 64-bit
//! only.

#![allow(
    clippy::needless_pass_by_value,
    reason = "parts of files are taken as std takes paths, by value or by reference"
)]
#![cfg_attr(
    not(feature = "tracing"),
    allow(
        unused_variables,
        unused_imports,
        reason = "without tracing, values for logs are unused"
    )
)]

pub mod error;
pub mod plan;
pub mod update;

pub mod batch;
pub mod facts;
pub mod files;
pub mod walk;

#[cfg(feature = "profile")]
pub mod advice;
mod api;
mod chunk;
mod compare;
mod consumer;
mod copy;
mod file_range;
mod log;
mod memory;
mod probe;
mod producer;
#[cfg(feature = "profile")]
pub mod profile;
mod read;
mod scan;
mod setup;
mod storage;
mod threads;
mod transfer;
mod write;

pub use api::{IoOptions, Request, compare, copy, plan, read, read_into, update, write};
pub use chunk::{Chunk, Mapped};
pub use compare::{Comparer, Comparison, Side, Verdict};
pub use consumer::{Consumer, Sequential, sequential};
pub use copy::Copier;
pub use error::{Error, Result, full_text};
pub use file_range::{AsFileRange, FileRange};
#[doc(inline)]
pub use files::{ExtentSummary, extents};
#[doc(inline)]
pub use plan::outcome::Outcome;
pub use probe::{Availability, Feature, Probe, features};
pub use producer::Producer;
pub use read::Reader;
pub use scan::{ScanFile, Scanner};
pub use seekless_method as method;
pub use seekless_method::{Choice, Mechanism, Method, Operation, Options, ParseError};
pub use storage::cache;
pub use storage::device::{BlockDevice, BlockLayer, DeviceMount, DeviceUse};
pub use storage::direct::direct_alignment;
pub use storage::facts::StorageFacts;
#[cfg(feature = "profile")]
pub use storage::identity::identity;
pub use storage::mount::{Mount, Mounts};
pub use transfer::Visits;
pub use transfer::{Destination, Progress, Transfer};
pub use write::Writer;

/// Allows methods that map files in this process. If a mapped file shrinks, the system sends SIGBUS; this installs a
/// handler that turns the signal into an error naming the file.
///
/// A library must not handle a signal unasked, so the program calls this, once and early. Without it, the `mmap`
/// mechanisms are unavailable.
///
/// # Errors
/// The system's, if the handler cannot be installed.
pub fn allow_mapping() -> std::io::Result<()> {
    seekless_sys::install_guard()
}

/// Whether tests try everything, however long it takes.
#[cfg(test)]
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}
