//! Commands among other processes, other users, and without privileges.

#[path = "../common/mod.rs"]
mod common;

mod hostile;
mod other_users;
mod outputs;
mod stopped;
mod unprivileged;
