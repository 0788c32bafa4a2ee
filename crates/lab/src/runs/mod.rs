//! Runs that were kept: found, compared, made anonymous, ranked across machines.
//!
//! Nothing here measures, and nothing is sent anywhere: a run that is passed on is a file. Runs of others are kept apart
//! from one's own ([`Origin`]).

mod anonymous;
mod compare;
mod error;
mod kept;
mod kind;
mod same;
mod store;
mod table;
#[cfg(test)]
pub(crate) mod walk;

pub use anonymous::anonymous;
pub use compare::{Availability, Change, Comparison, ContestChange, MethodChange, compare};
pub use error::StoreError;
pub use kept::Kept;
pub use kind::DeviceKind;
pub use same::{NotComparable, objections};
pub use store::{Document, LIMIT_BYTES, MAX_IMPORT_BYTES, Origin, Store, split};
pub use table::{Place, Ranked, Ranking, size_class, table};

use std::hash::{DefaultHasher, Hasher};

use seekless_record::Run;

/// A number that two documents share where they hold the same measurements, whatever names were taken out of one.
fn fingerprint(run: &Run) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(run.seed);
    for trial in &run.trials {
        hasher.write_u64(trial.seconds.to_bits());
        hasher.write_u64(trial.at_seconds.to_bits());
    }
    hasher.finish() as u32
}
