//! Walking trees by directory handles: one tree, or two in step.
//!
//! Every name is resolved once, relative to the handle of its directory. So a rename or a new symbolic link does not
//! lead out of the tree, and trees may be deeper than the longest path. Types and inodes come with the names. If too
//! many handles are open, idle ones are closed, and opened again later with device and inode checked.
//!
//! One tree is walked in the order of its directories, with the entries of one system call at a time, so that a
//! directory of any size takes bounded memory. Two trees in step need sorted listings, which are split into parts if
//! they are very long; `tree` walks both.
//!
//! Symbolic links are followed if they are named, but not inside directories.

mod all;
mod directory;
mod each;
mod facts;
mod file;
mod files;
mod filter;
mod ignored;
mod listing;
mod one;
mod selection;

pub(crate) use all::{GONE, Unlisted, Visited, WalkFound};
pub(crate) use directory::{Closing, Directory, Handles, Limit, in_each};
pub(crate) use each::{FileClass, each_file};
pub(crate) use facts::{StatFacts, kind_of, nanoseconds, with_article};
pub(crate) use file::FOUND_FILE;
pub use file::FileAt;
pub(crate) use files::{CHANGED, Files, Listed};
pub(crate) use filter::is_in_trash;
pub use filter::{Filter, Globs, expanded, plain_path};
pub(crate) use listing::{Listing, ListingEntry, merge};
pub use one::Left;
pub(crate) use one::{Walk, open_root};
pub use selection::Selection;
pub(crate) use selection::{Root, System, is_sure};

#[cfg(test)]
mod tests;
