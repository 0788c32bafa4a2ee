//! The command `seekless`, as a library: words in, words and pictures out. The work is done in the libraries below it.
//!
//! `main` calls [`run`] and nothing else, so that tests and bindings reach everything that the program does.

mod budget;
mod code;
mod color;
mod command;
mod config;
mod hint;
mod output;
mod read_ahead;
mod show;
mod signals;
mod test_directory;

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::CommandFactory;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// For the fuzz targets.
#[doc(hidden)]
pub use show::{Page, Width, show_comparison, show_rankings, show_run};

use command::{Cli, Failure};

/// Bad input, or something could not be done. 1 is for comparisons: the files differ.
const EXIT_ERROR: u8 = 2;

/// The commands and options that clap parses: what help, man pages and completions are made of.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the program with the words of its command line, to its exit code.
#[must_use]
pub fn run() -> ExitCode {
    // Two small files are compared in less time than the rest here takes.
    let trees = match command::cmp::called() {
        ControlFlow::Break(code) => return code,
        ControlFlow::Continue(trees) => trees,
    };
    let configured = config::load();
    color::choose(std::env::args_os(), config::get().color);
    let asked = std::env::var("SEEKLESS_LOG")
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: Targets = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(show::stderr)
        .without_time()
        // They would go to standard error, which is what may be gone.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
    // This program owns its signals, so methods may map files.
    if let Err(error) = seekless::allow_mapping() {
        tracing::warn!(%error, "mmap methods are not available");
    }
    // A write beyond that limit (`ulimit -f`) fails as one on a full disk does.
    if let Err(error) = signals::survive(signal_hook::consts::SIGXFSZ) {
        tracing::warn!(%error, "a write beyond the limit of file sizes will end the program");
    }
    let done = match trees {
        Some(words) => command::cmp::compare_trees(words, configured),
        None => command::run(command::parse().unwrap_or_else(|error| refuse(&error)), configured),
    };
    show::LINE.end();
    // Where a signal ends the program, that is waited for: test directories are being removed.
    drop(signals::ending());
    match done {
        Ok(code) => code,
        Err(Failure::Stopped(signal)) => ExitCode::from(128 + signal),
        // Whoever read our output has seen enough.
        Err(Failure::Errors(errors)) if matches!(errors.as_slice(), [error] if is_closed_pipe(error)) => {
            ExitCode::SUCCESS
        }
        Err(Failure::Errors(errors)) => {
            errors.iter().for_each(complain);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Ends the program as clap does, but for words of the command line that a terminal would obey: they are shown as escapes.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let shown = show::visible_lines(&text);
    if shown == text {
        error.exit();
    }
    let _ = write!(show::stderr(), "{shown}");
    std::process::exit(error.exit_code())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Says what went wrong, on standard error where there is one.
fn complain(error: &anyhow::Error) {
    let sentence = format!("{error:#}");
    let _ = writeln!(show::stderr(), "seekless: {}", show::visible_lines(&sentence));
    for hint in hint::hints(error) {
        let _ = writeln!(show::stderr(), "hint: {hint}");
    }
}
