//! `io_uring` (`io_uring(7)`) made safe by ownership: [`Ring`] owns its buffers, and holds on to files in flight.
//!
//! Linux only; elsewhere the same type says so when made.

#[cfg(target_os = "linux")]
#[path = "ring/linux.rs"]
mod implementation;
#[cfg(not(target_os = "linux"))]
#[path = "ring/absent.rs"]
mod implementation;

pub use implementation::Ring;
