//! Read, write, copy, compare and update files by any method that the system offers: by the one that a planner chooses for this
//! file and this storage, or by one that you name.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let (from, to) = (directory.path().join("from"), directory.path().join("to"));
//! # std::fs::write(&from, b"bytes")?;
//! let done = seekless::copy(&from, &to)?;
//! println!("{} bytes by {}: {}", done.bytes, done.method, done.why);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | by the plan | by a method, or a plan with a durability |
//! |---|---|---|
//! | read a file into a closure | [`read`] | [`Job::read`] |
//! | write bytes to a file | [`write`](write()) | [`Job::write`], [`Job::produce`] |
//! | copy a file | [`copy`] | [`Job::copy`] |
//! | find the first difference of two files | [`compare`] | [`Job::compare`] |
//! | make many small changes in a file | [`update`](update()) | [`Job::update`] |
//! | only learn how, and how long it would take | [`plan`](plan()) | |
//! | do the same with many files | | [`Reader`], [`Writer`], [`Copier`], [`Comparer`], [`update::Updater`] |
//!
//! A [`Method`] is data with one text form, `OPERATION/MECHANISM[,OPTION...]`. It does what its name says or fails. [`Probe`] says
//! what works on a storage, [`StorageFacts`] what the storage claims to be, [`cache`] what part of a file is in memory.
//!
//! ```
//! use seekless::{Job, Method};
//! # let path = tempfile::NamedTempFile::new()?;
//! # std::fs::write(&path, b"one\ntwo\n")?;
//! let method: Method = "read/double-buffer,block=64K".parse()?;
//! let mut text = Vec::new();
//! Job::by(method).read(&path, |_offset, bytes| {
//!     text.extend_from_slice(bytes);
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! assert_eq!(text, b"one\ntwo\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Methods of the mechanism `mmap` need a signal handler, which only the program may install: [`allow_mapping`].
//!
//! Not here: measuring (the crate `seekless-lab`) and jobs such as comparing trees of files (`seekless-tools`). All system calls
//! that need unsafe code are in `seekless-sys`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "what is a part of a file is taken as std takes paths, by value or by reference"
)]
#![cfg_attr(
    not(feature = "tracing"),
    allow(unused_variables, unused_imports, reason = "nobody is told")
)]

pub mod error;
pub mod plan;
pub mod update;

// What is hidden here and below is for the crates of this project only, and may change with every release.
#[doc(hidden)]
pub mod batch;
#[doc(hidden)]
pub mod facts;
#[doc(hidden)]
pub mod files;

mod chunk;
mod compare;
mod consumer;
mod copy;
mod door;
mod log;
mod part;
mod probe;
mod producer;
mod read;
mod setup;
mod storage;
mod threads;
mod transfer;
mod write;

pub use chunk::{Chunk, Mapped};
pub use compare::{Comparer, Comparison, Verdict, Which};
pub use consumer::{Consumer, Sequential, sequential};
pub use copy::Copier;
pub use door::{Done, Job, Request, compare, copy, plan, read, update, write};
pub use error::{Error, Result, full_text};
#[doc(inline)]
pub use files::{ExtentSummary, extents};
pub use part::{AsPart, Part};
pub use probe::{Availability, Feature, Probe, features};
pub use producer::Producer;
pub use read::Reader;
pub use seekless_method as method;
pub use seekless_method::{Choice, Mechanism, Method, Operation, Options, ParseError};
pub use storage::cache;
pub use storage::device::{BlockDevice, DeviceKind, DeviceMount, DeviceUse};
pub use storage::direct::direct_alignment;
pub use storage::facts::StorageFacts;
#[doc(hidden)]
pub use transfer::Visits;
pub use transfer::{Destination, Progress, Transfer};
pub use write::Writer;

/// Makes methods that map files usable in this process: installs the handler that turns the signal of a mapped file
/// that shrinks into an error naming the file.
///
/// A library must not take a signal of its program unasked, so this is the program's to call, once, early. Without it
/// the `mmap` mechanisms are unavailable.
///
/// # Errors
/// The system's, where the handler cannot be installed.
pub fn allow_mapping() -> std::io::Result<()> {
    seekless_sys::install_guard()
}
