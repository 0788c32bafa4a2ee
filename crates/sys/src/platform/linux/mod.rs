//! Linux: one file per task, and from `absent` the functions that only other systems have.

mod cache;
mod copy;
mod descriptors;
mod directory;
mod extents;
mod file;
mod holes;
mod loops;
mod machine;
mod mappings;
mod pipe;

pub(crate) use crate::absent::{MAX_RSS_UNIT_BYTES, bypass_cache};
pub use crate::absent::{clone_path, copy_path_data, enable_read_ahead, read_advice, sync};
pub use crate::advice::advise;
pub use crate::handle::{open_entry, set_owner_of, set_times_of};
pub use crate::head_ring::HeadRing;
pub use crate::ring::Ring;
pub(crate) use crate::shared::{exchange, rename_new};
pub use crate::shared::{extended_attributes, remove_extended_attribute, set_extended_attribute};
pub use cache::*;
pub use copy::*;
pub use descriptors::*;
pub use directory::*;
pub use extents::*;
pub use file::*;
pub use holes::*;
pub use loops::*;
pub use machine::*;
pub use mappings::*;
pub use pipe::*;
