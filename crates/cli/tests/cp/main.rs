//! The command `cp`.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod copies;
mod disks;
mod like_gnu;
