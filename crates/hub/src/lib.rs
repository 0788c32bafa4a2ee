//! A place for results: runs of many machines, and what follows from them.
//!
//! The client sends runs to a hub and brings profiles from it (feature `client`). The server keeps runs in a database and shows
//! which methods win where (feature `server`).
//!
//! Not here: conclusions (`seekless_results`), and the page of a run (`seekless_report`).

#[cfg(feature = "client")]
pub mod client;
