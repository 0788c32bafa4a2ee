//! The command `update`.

#[path = "../common/mod.rs"]
mod common;

mod changes;
mod file_systems;
mod full_disk;
mod reports;
