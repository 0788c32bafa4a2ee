//! A place for results: runs of many machines, and what follows from them.
//!
//! The client sends runs to a hub and brings profiles from it. The server keeps runs in a database and shows which methods win where.
//! The program `seekless-hub` runs both, and does what an administrator needs.
//!
//! Not here: conclusions (`seekless_results`), and the page of a run (`seekless_report`).

mod accept;
mod admin;
mod api;
mod app;
mod cached;
pub mod client;
pub mod command;
mod dump;
mod figure;
mod gzip;
mod index;
mod machines;
mod pages;
mod problem;
mod receipt;
mod serve;
mod store;
mod trends;

pub use admin::{Admin, AdminError, Verified};
pub use serve::{Options, ServeError, serve};
pub use store::StoreError;
