//! The command `bench`. Every test measures for seconds at most.

#[path = "../common/mod.rs"]
mod common;

mod commit;
mod compare;
mod copy_to;
mod experiments;
mod given_files;
mod interruption;
mod layouts;
mod one_at_a_time;
mod profiles;
mod random;
mod read_ahead;
mod resume;
mod sittings;
mod small_files;
mod sustained;
mod system_counters;
mod update;
