//! Files as they are, whatever the method: where they have data and holes, and reading them where no method was asked for.

mod extents;
mod holes;
mod read;

pub use extents::{ExtentSummary, allocated_bytes, extents};
pub use holes::data_ranges;
pub(crate) use holes::{Stretch, stretches};
pub use read::{read_full, read_some};
