//! Walking through trees by directory handles, for one tree or for two in step.
//!
//! Every name is resolved once, below the handle of the directory that it was listed in: so what is renamed or becomes a
//! symbolic link meanwhile leads nobody out of the tree, and trees may be deeper than a path may be long. Types and inodes
//! come with the names. Handles that wait are closed where many are open, and opened again with device and inode checked.
//!
//! One tree is walked in the order of its directories, by as many entries at a time as the system gives, so that a
//! directory of any size takes bounded memory. Two trees in step need the order of names: there a listing is sorted, in
//! parts where it is very long, and `tree` walks both.
//!
//! Symbolic links are followed where they are named, and never below.

mod directory;
mod each;
mod facts;
mod file;
mod listing;
mod one;
mod selection;

pub(crate) use directory::{Directory, Handles, Limit, in_each};
pub(crate) use each::{How, each_file};
pub(crate) use facts::{Facts, kind_of, with_article};
pub(crate) use file::FOUND_FILE;
pub use file::FileAt;
pub(crate) use listing::{Entry, Listing, merge};
pub use one::Left;
pub(crate) use one::{Walk, open_root};
pub use selection::Selection;
pub(crate) use selection::{Root, is_sure};

#[cfg(test)]
mod tests;
