//! System calls, aligned memory, maps and rings for seekless: its only unsafe code.
//!
//! Everything here is safe to call, means the same on every platform, and says so when a platform lacks it
//! ([`Support::Unavailable`]). rustix is used wherever it has the call. Nothing here decides, falls back or measures: what
//! to do with a call is the engine's business.
//!
//! - `platform`: one directory for each system, all with the same functions;
//! - [`Buffer`], [`MappedBytes`], [`Map`], [`install_guard`]: memory, and files as memory;
//! - [`Aio`], [`Ring`]: requests that go on while the caller does something else, safe because they own their memory.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("seekless needs 64-bit addresses: it maps whole files and keeps lengths of files in memory as usize");

mod aio;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod attributes;
mod buffer;
mod bytes;
mod difference;
mod directory;
mod guard;
mod machine;
mod map;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod mincore;
mod ring;
mod stdio;
mod support;
mod types;

#[cfg(not(target_os = "linux"))]
#[path = "platform/linux_only.rs"]
mod linux_only;
#[cfg(target_os = "linux")]
#[path = "platform/linux/mod.rs"]
mod platform;
#[cfg(target_os = "macos")]
#[path = "platform/macos/mod.rs"]
mod platform;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[path = "platform/fallback.rs"]
mod platform;

pub use aio::Aio;
pub use buffer::Buffer;
pub use bytes::{MappedBytes, MappedBytesMut};
pub use difference::first_difference;
pub use directory::{Directory, Entry, open};
pub use guard::{guard_installed, install_guard};
pub use machine::{
    effective_user, host_name, kernel_release, kill_group, open_files_max, page_bytes, system_name, usage,
};
pub use map::Map;
pub use platform::{
    Pipe, advise, allocate, clone_file, clone_path, collapse_range, copy_file_range, copy_inode_flags, copy_path_data,
    die_with_parent, direct_alignment, drop_from_cache, drop_system_caches, enable_read_ahead, end_lease, extend,
    extended_attributes, extended_attributes_at, extents, extents_as_known, file_system, file_system_of,
    file_system_uuid, has_capabilities, holds_lease, inodes_identify, is_locked, is_one_address_space,
    leases_bind_all_writers, list_entries, lower_priority, memory, name_file, next_data, next_hole, process_io,
    protection, punch_hole, read_advice, read_at_dontcache, read_at_nowait, readahead, remove_extended_attribute,
    residency, sendfile, set_extended_attribute, sync, sync_file_system, take_lease, unnamed_file, unwritten_bytes,
    write_at_dontcache,
};
pub use ring::Ring;
pub use stdio::{Locking, Stdio, StdioEnd, StdioFailure};
pub use support::Support;
pub use types::{
    Access, Advice, Alignment, Completed, ExtendedAttributes, Extent, ExtentFlags, FileSystem, LeaseKind, MapAdvice,
    MapMode, Memory, Opening, ProcessIo, Residency, ResidencySource, RingFlags, Usage, Whose,
};
