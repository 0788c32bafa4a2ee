//! Helpers of all test programs of the command.
//!
//! Every test has a directory and a data directory of its own. Without root, tests that need it print `skipped` and why.

#![allow(dead_code, reason = "each program uses some of them")]

pub mod disks;
pub mod groups;
pub mod place;
pub mod simulated;
pub mod terminal;
pub mod unprivileged;
