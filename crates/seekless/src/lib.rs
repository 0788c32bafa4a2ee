//! The front door.

pub use seekless_engine::*;
