//! Files as they are, whatever the method.

mod read;

pub use read::{read_full, read_some};
