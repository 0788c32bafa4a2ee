//! Jobs on files that people have, done with the engine: [`cache`] tells what of files and directories is in memory, and
//! brings them there or away; [`cmp`] compares two files; [`holes`] shows, makes and fills the holes of files; [`tree`] tells
//! what differs in two trees; [`update`] reads updates of a file.
//!
//! Here are walking, counting and deciding; how bytes move is the engine's business, and how results look that of the
//! command.

pub mod cache;
pub mod cmp;
pub mod holes;
pub mod tree;
pub mod update;
pub mod walk;

mod handle;
mod stop;

pub use stop::Stop;
