//! A hub as its users meet it: by the program `seekless-hub`, and over HTTP, on `SQLite` and on `PostgreSQL`.

mod browser;
mod common;
mod generated;
mod hostile;
mod kills;
mod load;
mod place;
mod program;
mod server;
mod sharing;
