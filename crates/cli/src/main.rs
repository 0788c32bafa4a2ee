//! The command `seekless`: words in, words and pictures out. The work is done in the libraries.

mod command;
mod output;
mod show;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use command::{Cli, Failure};

/// Bad input, or nothing could be done.
const EXIT_ERROR: u8 = 2;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("SEEKLESS_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    // This program owns its signals, so methods may map files.
    if let Err(error) = seekless::allow_mapping() {
        tracing::warn!(%error, "mmap methods are not available");
    }
    match command::run(Cli::parse()) {
        Ok(code) => code,
        Err(Failure::Stopped(signal)) => ExitCode::from(128 + signal),
        // Whoever read our output has seen enough.
        Err(Failure::Error(error)) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(Failure::Error(error)) => {
            anstream::eprintln!("seekless: {error:#}");
            ExitCode::from(EXIT_ERROR)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
