//! Runs that were kept: saved, found, imported and removed.
//!
//! Nothing here measures, and nothing is sent anywhere: a run that is passed on is a file. Runs of others are kept apart
//! from one's own ([`Origin`](seekless_results::Origin)).

mod error;
mod kept;
mod store;

pub use error::StoreError;
pub use kept::Kept;
pub use store::{Document, LIMIT_BYTES, MAX_IMPORT_BYTES, Store, split};
