//! macOS. The same functions as in `linux`, with what this system has instead.
//!
//! Type-checked from Linux; not run on macOS yet.

mod cache;
mod copy;
mod file;
mod folder;
mod machine;

pub use cache::{
    advise, drop_from_cache, drop_system_caches, enable_read_ahead, read_advice, readahead, residency, unwritten_bytes,
};
pub use copy::{
    Pipe, clone_file, clone_path, copy_file_range, copy_path_data, extents, extents_as_known, is_one_address_space,
    sendfile,
};
pub use file::{
    allocate, collapse_range, direct_alignment, end_lease, extend, file_system_uuid, has_capabilities, holds_lease,
    is_locked, name_file, next_data, next_hole, protection, punch_hole, read_at_dontcache, sync, sync_file_system,
    take_lease, unnamed_file, write_at_dontcache,
};
pub use folder::{extended_attributes_at, list_folder};

/// Nothing to copy: flags of inodes are known on Linux only.
pub fn copy_inode_flags(_from: &std::fs::File, _to: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

pub use crate::attributes::{extended_attributes, remove_extended_attribute, set_extended_attribute};
pub use machine::{
    die_with_parent, file_system, inodes_identify, leases_bind_all_writers, lower_priority, memory, process_io,
};

pub(crate) use file::{exchange, open_at};
pub(crate) use machine::{
    MAP_NORESERVE, MAX_RSS_UNIT_BYTES, advise_map, errno_location, peak_memory_bytes, prefer_huge_pages,
};
