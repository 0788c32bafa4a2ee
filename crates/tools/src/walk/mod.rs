//! Which files a job takes: those that the user named, and those below directories, by filters and rules.
//!
//! All files of many trees are listed by several threads (`Files`), or in the order of one tree (`Selection::walk`). How
//! directories are walked is the engine's ([`seekless_engine::walk`]).

mod all;
mod each;
mod files;
mod filter;
mod ignored;
mod pattern;
mod selection;

pub(crate) use all::{GONE, Unlisted, Visited, WalkFound};
pub(crate) use each::{FileClass, SmallFiles, each_file};
pub(crate) use files::{CHANGED, Files, Listed};
pub(crate) use filter::{ASIDE, Named, is_in_trash};
pub use filter::{Filter, Globs, expanded, plain_path};
pub use seekless_engine::walk::FileAt;
pub(crate) use seekless_engine::walk::StatFacts;
pub(crate) use selection::System;
pub use selection::{Left, Selection};
