//! The engine of seekless: every method of moving bytes that the system offers, the planner that chooses one, and the
//! verbs that the tools are made of. Programs use the crate `seekless`, which is the front door of this one; what is here
//! changes with any version.
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
//! | to | by the plan, or a method | one method for many files |
//! |---|---|---|
//! | read a file into a consumer or memory | [`IoOptions::read`], [`IoOptions::read_into`] | [`Reader`] |
//! | write bytes to a file | [`IoOptions::write`], [`IoOptions::produce`] | [`Writer`] |
//! | copy a file | [`IoOptions::copy`] | [`Copier`] |
//! | find the first difference of two files | [`IoOptions::compare`] | [`Comparer`] |
//! | make many small changes in a file | [`IoOptions::update`] | [`update::Updater`] |
//!
//! All but updates take a [`FileRange`] instead of a path.
//!
//! A [`Method`] is data with one text form, `OPERATION/MECHANISM[,OPTION...]`; the module [`method`] lists them. [`Probe`] says
//! what works on a storage, [`StorageFacts`] what a storage reports about itself, and [`cache`] how much of a file is
//! in memory. Methods of the mechanism `mmap` need a signal handler, which a program installs by [`allow_mapping`].
//!
//! The verbs of the tools: [`files`] knows and holds a file and replaces it as a whole, [`walk`] goes through trees, [`batch`]
//! reads many small files at queue depth, [`facts`] measures for plans, and `profile` and `advice` say what earlier runs of
//! the lab measured.
//!
//! Every call that moves bytes blocks the calling thread. Sizes and offsets are in bytes, times are
//! [`Duration`](std::time::Duration)s. An [`Error`] names the file, the operation, the method and the system's reason;
//! [`full_text`] makes one line of it.
//!
//! # Not here
//! Measuring (the crate `seekless-lab`), and jobs on trees of files (`seekless-tools`). All system calls that need
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
mod caller_memory;
mod chunk;
mod compare;
mod consumer;
mod copy;
mod file_range;
mod io_options;
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

pub use caller_memory::CallerMemory;
pub use chunk::{Chunk, Mapped};
pub use compare::{Comparer, Comparison, Side, Verdict};
pub use consumer::{Consumer, Sequential, sequential};
pub use copy::Copier;
pub use error::{Error, Result, full_text};
pub use facts::Planner;
pub use file_range::{AsFileRange, FileRange};
#[doc(inline)]
pub use files::{ExtentSummary, extents};
pub use io_options::{IoOptions, Mechanisms};
#[doc(inline)]
pub use plan::outcome::Outcome;
pub use probe::{Availability, Feature, Probe, features};
pub use producer::Producer;
pub use read::{Block, BlockStream, Reader};
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
