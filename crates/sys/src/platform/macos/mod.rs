//! macOS. The same functions as in `linux`, with what this system has instead.
//!
//! Type-checked from Linux; not run on macOS yet.

mod cache;
mod copy;
mod directory;
mod file;
mod machine;

pub use cache::{advise, drop_from_cache, drop_system_caches, enable_read_ahead, read_advice, residency};
pub use copy::{Pipe, clone_file, clone_path, copy_path_data, sendfile};
pub use directory::list_entries;
pub use file::{allocate, direct_alignment, protection, sync};

/// Nothing to copy: flags of inodes are known on Linux only.
pub fn copy_inode_flags(_from: &std::fs::File, _to: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

pub use crate::attributes::{extended_attributes, remove_extended_attribute, set_extended_attribute};
pub(crate) use crate::linux_only::peak_memory_bytes;
pub use crate::linux_only::{
    collapse_range, copy_file_range, die_with_parent, end_lease, extend, extended_attributes_at, extents,
    extents_as_known, file_system_uuid, has_capabilities, holds_lease, is_locked, is_one_address_space,
    leases_bind_all_writers, name_file, next_data, next_hole, punch_hole, read_at_dontcache, read_at_nowait, readahead,
    sync_file_system, take_lease, unnamed_file, unwritten_bytes, write_at_dontcache,
};
pub use machine::{file_system, file_system_of, inodes_identify, lower_priority, memory, process_io};

pub(crate) use file::{exchange, open_at};
pub(crate) use machine::{MAP_NORESERVE, MAX_RSS_UNIT_BYTES, advise_map, errno_location, prefer_huge_pages};
