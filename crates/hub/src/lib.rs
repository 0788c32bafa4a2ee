//! A place for results: runs of many machines, and what follows from them.
//!
//! The client sends runs to a hub and brings profiles from it (feature `client`). The server keeps runs in a database and shows
//! which methods win where (feature `server`).
//!
//! Not here: conclusions (`seekless_results`), and the page of a run (`seekless_report`).

#[cfg(feature = "server")]
mod accept;
#[cfg(feature = "server")]
mod admin;
#[cfg(feature = "server")]
mod api;
#[cfg(feature = "server")]
mod app;
#[cfg(feature = "server")]
mod cached;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod dump;
#[cfg(feature = "server")]
mod figure;
#[cfg(any(feature = "client", feature = "server"))]
mod gzip;
#[cfg(feature = "server")]
mod index;
#[cfg(feature = "server")]
mod pages;
#[cfg(feature = "server")]
mod problem;
#[cfg(any(feature = "client", feature = "server"))]
mod receipt;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod store;
#[cfg(feature = "server")]
mod trends;

#[cfg(feature = "server")]
pub use admin::{Admin, AdminError, Verified};
#[cfg(feature = "server")]
pub use serve::{Options, ServeError, serve};
#[cfg(feature = "server")]
pub use store::StoreError;
