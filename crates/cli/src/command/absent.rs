//! Commands that this program was built without: they are listed, and say how to get them.

use std::ffi::OsString;

use clap::Args;

/// The arguments, which only a program with the command can read.
#[derive(Debug, Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Says that this program lacks a feature, and how to get one that has it.
pub fn without(feature: &str) -> String {
    format!(
        "this program was built without `{feature}`; install a package of seekless, or build the program with \
         `--features {feature}`"
    )
}
