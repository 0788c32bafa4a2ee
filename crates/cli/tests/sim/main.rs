//! The command `sim`: models, simulated disks, losses of power.

#[path = "../common/mod.rs"]
mod common;

mod disks;
mod disturbed;
mod fetched;
mod power_cut;
mod show;
