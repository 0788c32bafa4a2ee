//! What lies behind a path: its facts, what it supports, and what of it is in the page cache.

pub mod cache;
pub(crate) mod device;
pub(crate) mod direct;
pub(crate) mod extents;
pub(crate) mod facts;
pub(crate) mod features;
mod mount;
pub(crate) mod probe;
