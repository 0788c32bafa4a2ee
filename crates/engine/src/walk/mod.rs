//! Walking trees by directory handles: one tree in order, many files by several threads, or two trees in step.
//!
//! Every name is resolved once, relative to the handle of its directory. So a rename or a new symbolic link does not
//! lead out of the tree, and trees may be deeper than the longest path. Types and inodes come with the names. If too
//! many handles are open, idle ones are closed, and opened again later with device and inode checked.
//!
//! [`Walk`] goes through one tree in the order of its directories, with the entries of one system call at a time, so that a
//! directory of any size takes bounded memory. Trees in step need sorted listings, which are split into parts if
//! they are very long.
//!
//! Symbolic links are followed if they are named, but not inside directories, unless a caller asks for that.
//!
//! Not here: which files are wanted, and what is done with them.

mod directory;
mod file;
mod listing;
mod ordered;

pub use crate::files::{StatFacts, is_sure};
pub use directory::{Closing, Failures, Handles, Limit, WalkDirectory, in_each};
pub use file::{FOUND_FILE, FileAt, NAMED_FILE};
pub use listing::{Listing, ListingEntry, MergedEntry, merge};
pub use ordered::{FoundFile, Walk, WalkRules, open_root, open_seen};

#[cfg(test)]
mod tests;
