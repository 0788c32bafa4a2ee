//! What commands print: help, errors, completions, JSON, pages, generated programs.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod code;
mod completions;
mod config;
mod documents;
mod golden;
mod help;
mod json;
mod methods;
mod terminal;
