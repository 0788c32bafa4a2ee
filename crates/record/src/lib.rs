//! The documents that seekless writes, versioned, so that they can be read in ten years.
//!
//! This crate has the documents, their versions, and the check of their bounds, but computes nothing. Readers get the
//! newest form, checked. Units are in the names; an unknown figure is `None`, never 0.

#[macro_use]
mod visit;

mod check;
mod interval;
mod labels;
mod profile;
mod run;
mod uses;
mod verdict;
mod versions;

pub use check::Problem;
pub use interval::Interval;
pub use labels::{Cache, Differ, Draw, DropScope, Ended, ExitCode, FindingKind, Phase, Target};
pub use profile::{
    Conditions, Curve, CurvePoint, CurveTime, DEVIATION_BETWEEN_STORAGES, ERRORS_OF_BOUNDS, MAX_PROFILE_BYTES,
    PROFILE_VERSION, Profile, ProfileCosts, ProfileHead,
};
pub use run::{
    Column, Command, Conclusion, Contest, Device, DeviceCounters, DeviceId, Entry, Finding, LabCost, Latency, Machine,
    Mode, NoiseFloor, OptionEffect, Published, RandomAccess, Revision, Run, SIMULATED, Sittings, Storage, StorageCosts,
    StorageId, Subject, Summary, SystemUse, Trial, UpdateAccount, UpdatePattern, driver, is_same_memory,
};
pub use seekless_method::words;
pub use uses::{PlanFacts, PlanUse, UseSummary};
pub use verdict::{EntryVerdict, RelativeResult};
pub use versions::{CURRENT_VERSION, DocumentError, MAX_DOCUMENT_BYTES, from_json, to_json};
pub use visit::{Bounds, Text, Visitor};

/// Increased whenever trials are made, timed or checked in another way, so that times from before are no longer
/// comparable.
///
/// 2: the bytes of a write are no longer computed inside the clock, where they took half of the time, which overlapping
/// methods hid; and the first trial of a small warm round is discarded.
pub const PROTOCOL: u32 = 2;
