//! A hub as its users meet it: over HTTP, on `SQLite` and on `PostgreSQL`.

mod browser;
mod common;
mod generated;
mod hostile;
mod kills;
mod load;
mod server;
