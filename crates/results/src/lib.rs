//! What follows from runs: statistics, verdicts, words, comparisons. No I/O and no clock.
//!
//! From a run, this crate computes what to measure next ([`Decider`]), which method is recommended ([`ranking`]), what
//! changed from one run to another ([`compare`]), how methods do across machines ([`table`]), caveats ([`warnings`]),
//! and the [`View`] that all renderers read.
//!
//! Not here: measuring (the lab), and rendering.

pub mod digest;
pub mod ranking;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
pub mod statistics;

mod anonymous;
mod answer;
mod between;
mod columns;
mod compare;
mod decider;
mod kind;
mod labels;
mod model;
mod pool;
mod prediction;
mod regret;
mod same;
mod samples;
mod setup;
mod sheet;
mod sustained;
mod table;
mod throttle;
mod units;
mod verdict;
mod view;
mod warnings;
mod windows;

pub use anonymous::{Given, Known, PSEUDONYM, anonymous};
pub use answer::{Certainty, ContestAnswer, NOT_MEASURED, SingleUse, VS_PLAIN};
pub use columns::{Cell, Line, Table, document_size};
pub use compare::{
    Change, ComparisonAnswer, ContestChange, MethodChange, MissingMethod, RunComparison, compare, short,
};
pub use decider::{
    CONFIRMING_ROUNDS, Decider, Group, Next, Turn, conclude_now, contending_time, deciding_trials, planned_trials,
};
pub use digest::digest;
pub use kind::{DeviceKind, NoSuchKind};
pub use labels::{
    description, ends_early, family, has_small_files, has_target, is_told_in_times, may_read_less, operations, rate_in,
    series_title, short_name, state_words, task, title,
};
pub use pool::{HALF_LIFE_DAYS, ONE_SITTING, is_alike, is_one_sitting, pool, pool_newest};
pub use regret::{ContestRegret, Regrets, regret_in_words, regret_row};
pub use same::{NotComparable, fingerprint, objections};
pub use setup::storage_setup;
pub use sheet::{ColumnKind, Sheet, SheetCell, SheetColumn, SheetRow};
pub use sustained::{RateStretch, Sustained, has_settled};
pub use table::{
    ContestStandings, Observation, Origin, Place, Ranked, Ranking, identity, rank, rank_methods, size_class, standings,
    table,
};
pub use throttle::{throttle, throttled};
pub use units::{
    RATES, Unit, bytes, chosen_size, counted, duration, files, part, percent, plural, rate, request_units, seconds,
    size, sound, thousands, three_digits, times, times_with_bounds, unit,
};
pub use verdict::{ShownVerdict, is_failed, why_missing};
pub use view::{
    ContestView, Detail, Row, View, Visible, mode_words, rate_of, rotation_claim, series, sittings, storage_words,
    visible,
};
pub use warnings::{busy, caution, other_io, warnings};
pub use windows::{WindowGain, window_gain};

/// Whether tests try everything, however long it takes.
#[cfg(test)]
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEEKLESS_TEST_LONG").is_some()
}
