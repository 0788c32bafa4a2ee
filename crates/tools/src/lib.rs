//! The work of the commands, for other programs too: [`cache`] shows, drops and warms files in the page cache; [`cmp`] compares
//! two files; [`cp`] copies trees; [`dupes`] finds equal files; [`holes`] shows, makes and fills the holes of files; [`tree`]
//! compares two trees; [`update`] reads updates of a file.
//!
//! Not here: moving bytes (the engine), and printing results (the command).

pub mod cache;
pub mod cmp;
pub mod cp;
pub mod dupes;
pub mod holes;
pub mod json;
pub mod tree;
pub mod update;
pub mod visible;
pub mod walk;

mod handle;
mod place;
mod stop;
mod threads;

pub use stop::Stop;
