//! The storage of a path: its claims, and the page cache.

pub mod cache;
pub(crate) mod device;
pub(crate) mod direct;
pub(crate) mod facts;
#[cfg(feature = "profile")]
pub(crate) mod identity;
mod memory_groups;
pub(crate) mod mount;
