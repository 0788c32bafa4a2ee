//! Saved runs: `runs`, `report`, and where exports go.

#[path = "../common/mod.rs"]
mod common;

mod exports;
mod outputs;
mod pages;
mod saved;
