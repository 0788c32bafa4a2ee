//! A disk of your choice: [models] of disks in virtual time, and a simulated block device that behaves like one of them.
//!
//! A [`Drive`] is a model with its state: requests are submitted to it, and it says which one completes next, and when. It knows
//! no clock: the device lets its answers happen in real time, a replay adds them up.

#[cfg(target_os = "linux")]
pub mod device;
mod drive;
pub mod faults;
#[cfg(target_os = "linux")]
pub mod medium;
pub mod models;
pub mod picture;
pub mod power;
mod programs;
mod ranges;
pub mod replay;
mod request;
pub mod trace;

pub use drive::{Completion, Drive, DriveCounters};
pub use request::{BlockRequest, RequestKind};
