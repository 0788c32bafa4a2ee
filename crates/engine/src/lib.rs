//! Read, write, copy, compare and update files by any method that the system offers, and find out what a storage supports.
//!
//! A [`Method`] is data with one text form, `OPERATION/MECHANISM[,OPTION...]`. It is parsed, enumerated, tried on a
//! storage ([`Probe`]) and run; the same text stands in measurements, profiles and plans.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use seekless::{Method, Reader, sequential};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("file");
//! # std::fs::write(&path, b"one\ntwo\n")?;
//! let method: Method = "read/double-buffer,block=64K".parse()?;
//! let mut text = Vec::new();
//! let consumer = sequential(|_offset, bytes| {
//!     text.extend_from_slice(bytes);
//!     ControlFlow::Continue(())
//! });
//! let transfer = Reader::prepare(&method)?.read(&path, &consumer)?;
//! assert_eq!(transfer.bytes, 8);
//! assert_eq!(text, b"one\ntwo\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not here: measuring (the crate `seekless-lab`) and jobs such as comparing trees of files. All system calls that need unsafe
//! code are in `seekless-sys`.

pub mod batch;
pub mod error;
pub mod facts;
pub mod files;
pub mod plan;
pub mod update;

mod chunk;
mod compare;
mod consumer;
mod copy;
mod probe;
mod producer;
mod read;
mod setup;
mod storage;
mod transfer;
mod write;

pub use chunk::Chunk;
pub use compare::{Comparer, Comparison, Part, Verdict, Which};
pub use consumer::{Consumer, Sequential, sequential};
pub use copy::Copier;
pub use error::{Error, Result, full_text};
pub use files::{ExtentSummary, extents};
pub use probe::{Availability, Feature, Probe, features};
pub use producer::Producer;
pub use read::Reader;
pub use seekless_method as method;
pub use seekless_method::{Mechanism, Method, Operation, Options, ParseError};
pub use storage::cache;
pub use storage::device::{BlockDevice, DeviceKind};
pub use storage::direct::direct_alignment;
pub use storage::facts::StorageFacts;
pub use transfer::{Destination, Transfer, Visits};
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
