//! The command `dupes`: what a search finds and prints.

#[path = "../common/mod.rs"]
mod common;

mod cached;
#[cfg(feature = "catalogue")]
mod catalogue;
mod disks;
mod faults;
mod forms;
mod like_jdupes;
