//! System calls, aligned memory, maps and rings for seekless: nearly all of its unsafe code.
//!
//! Everything here is safe to call, and means the same on every platform. If a platform lacks a call, the result says so
//! ([`Support::Unavailable`]). rustix is used wherever it has the call. Nothing here decides, falls back or measures:
//! that is the engine's task.
//!
//! - `platform`: one module for each system, all with the same functions, those of `absent` for what it lacks;
//! - [`Buffer`], [`MappedBytes`], [`Map`], [`install_guard`]: memory, and files as memory;
//! - [`Aio`], [`Ring`], [`HeadRing`]: requests that the kernel works on beside the caller, safe because they own their memory.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("seekless needs 64-bit addresses: it maps whole files and keeps lengths of files in memory as usize");

#[path = "platform/absent.rs"]
mod absent;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
#[path = "platform/advice.rs"]
mod advice;
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
mod aio;
mod buffer;
mod bytes;
mod difference;
mod directory;
mod guard;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
#[path = "platform/handle.rs"]
mod handle;
#[cfg(target_os = "linux")]
mod head_ring;
mod lock;
mod machine;
mod map;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod mincore;
mod mutex;
mod path_walk;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[path = "platform/shared.rs"]
mod shared;
mod stdio;
mod support;
mod types;

#[cfg(target_os = "linux")]
#[path = "platform/linux/mod.rs"]
mod platform;
#[cfg(target_os = "macos")]
#[path = "platform/macos.rs"]
mod platform;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
#[path = "platform/fallback.rs"]
mod platform;

#[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos")))]
pub use absent::Aio;
#[cfg(any(all(target_os = "linux", target_env = "gnu"), target_os = "macos"))]
pub use aio::Aio;
pub use buffer::{Buffer, zeros};
pub use bytes::{MappedBytes, MappedBytesMut};
pub use difference::first_difference;
pub use directory::{Directory, await_writer, is_just_made, open, opened_as, without_atime};
pub use guard::{guard_installed, install_guard};
pub use lock::LockedFile;
pub use machine::{
    effective_groups, effective_user, file_bytes_max, hold_little_free_memory, host_name, is_ignored, kernel_release,
    kill_group, lockable_bytes, open_files_max, page_bytes, processors, system_name, usage,
};
pub use map::Map;
pub use mutex::{into_unlocked, lock_mutex};
pub use path_walk::{PathStep, PathWalk, refuse_planted};
pub use platform::*;
pub use stdio::{Locking, Stdio, StdioEnd, StdioFailure};
pub use support::Support;
pub use types::*;
