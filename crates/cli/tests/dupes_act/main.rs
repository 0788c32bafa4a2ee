//! The commands that act on what `dupes` found.

#[path = "../common/mod.rs"]
mod common;

mod act;
mod by_hand;
mod directories;
mod file_systems;
mod refused_in_plans;
mod trash;
mod without_leases;
