//! The commands. The enum below is the only list of them.

mod bench;
mod cache;
pub mod cmp;
mod generate;
mod holes;
mod methods;
mod report;
mod runs;
mod storage;
mod trial;
mod update;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Finds out how this storage likes to be read, written, copied and compared.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, about, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  seekless bench                      measure the storage under this folder
  seekless bench read --file big.iso  find the fastest way to read a file
  seekless methods copy               what there is to copy with, here
  seekless storage                    what lies below this folder, what works
  seekless cache show .               what of its files is in memory
  seekless cmp one other              do two files differ, and where
  seekless cmp -r photos backup       what differs in two trees
  seekless holes show disk.img        what of a file takes no space
  seekless update numbers.bin         many small changes, in few writes
  seekless runs                       what was measured, and what came of it
  seekless report latest              the newest run as a page with plots

`seekless COMMAND --help` says more.
SEEKLESS_LOG=debug shows what happens inside.";

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Arguments>),
    Methods(methods::Arguments),
    Storage(storage::Arguments),
    Cache(cache::Arguments),
    Cmp(cmp::Arguments),
    Holes(holes::Arguments),
    Update(update::Arguments),
    Runs(runs::Arguments),
    Report(report::Arguments),
    Generate(generate::Arguments),
    /// Runs one trial that a parent describes on standard input.
    #[command(hide = true)]
    Trial,
}

/// How a command ends that does not end well.
pub enum Failure {
    /// A signal stopped it; what was done until then is kept.
    Stopped(u8),
    /// It could not do what it was asked to.
    Error(anyhow::Error),
    /// The most was done, and these failed.
    Partly(Vec<anyhow::Error>),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Runs a command.
pub fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Methods(arguments) => methods::run(&arguments),
        Command::Storage(arguments) => storage::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
        // Words behind `cmp` are taken before clap sees any.
        Command::Cmp(_) => Err(anyhow::anyhow!("cmp was not called as a command of its own").into()),
        Command::Holes(arguments) => holes::run(&arguments),
        Command::Update(arguments) => update::run(&arguments),
        Command::Runs(arguments) => runs::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Trial => trial::run(),
    }
}
