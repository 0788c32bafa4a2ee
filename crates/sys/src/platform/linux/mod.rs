//! Linux. One file for each thing that a caller wants to do; the same functions exist in `macos` and `fallback`.

mod cache;
mod copy;
mod directory;
mod extents;
mod file;
mod holes;
mod machine;
mod pipe;

pub use cache::{
    advise, drop_from_cache, drop_system_caches, enable_read_ahead, read_advice, readahead, residency, unwritten_bytes,
};
pub use copy::{clone_file, clone_path, copy_file_range, copy_path_data, sendfile};
pub use directory::{extended_attributes_at, list_entries};
pub use extents::{extents, extents_as_known, is_one_address_space};
pub use file::{
    allocate, copy_inode_flags, direct_alignment, extend, file_system_uuid, name_file, protection, read_at_dontcache,
    read_at_nowait, sync, sync_file_system, unnamed_file, write_at_dontcache,
};

pub use crate::attributes::{extended_attributes, remove_extended_attribute, set_extended_attribute};
pub use holes::{
    collapse_range, end_lease, has_capabilities, holds_lease, is_locked, next_data, next_hole, punch_hole, take_lease,
};
pub use machine::{
    die_with_parent, file_system, file_system_of, inodes_identify, leases_bind_all_writers, lower_priority, memory,
    process_io,
};
pub use pipe::Pipe;

pub(crate) use file::{exchange, open_at};
pub(crate) use machine::{
    MAP_NORESERVE, MAX_RSS_UNIT_BYTES, advise_map, errno_location, peak_memory_bytes, prefer_huge_pages,
};
