//! What lies behind a path: what its system claims, and what of it is in the page cache.

pub mod cache;
pub(crate) mod device;
pub(crate) mod direct;
pub(crate) mod facts;
mod mount;
