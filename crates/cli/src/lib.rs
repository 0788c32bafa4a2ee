//! The command `seekless`, as a library: arguments, help and output. The work is done in the libraries below it.
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

/// Used by the fuzz targets.
#[doc(hidden)]
pub use show::{Page, RunParts, Width, show_comparison, show_rankings, show_run};

use command::{Cli, Failure};
use seekless_results::visible;

/// The exit code for bad input, and if something could not be done. 1 means that compared files differ.
const EXIT_ERROR: u8 = 2;

/// The commands and options that clap parses. Help, man pages and completions are made of them.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the program with its command line, and returns its exit code.
#[must_use]
pub fn run() -> ExitCode {
    // Comparing two small files takes less time than the rest of this function.
    let trees = match command::cmp::called() {
        ControlFlow::Break(code) => return code,
        ControlFlow::Continue(trees) => trees,
    };
    if seekless_sys::was_closed(1) {
        complain(&anyhow::anyhow!(
            "standard output is closed; open it, or redirect it to /dev/null"
        ));
        return ExitCode::from(EXIT_ERROR);
    }
    let configured = config::load();
    color::choose(std::env::args_os(), config::get().color);
    let asked = std::env::var("SEEKLESS_LOG")
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: Targets = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(show::stderr)
        .without_time()
        // A panic message would go to standard error, which may be closed.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
    // This program owns its signals, so methods may map files.
    if let Err(error) = seekless::allow_mapping() {
        tracing::warn!(%error, "mmap methods are not available");
    }
    // A write past the file size limit (`ulimit -f`) then fails like a write to a full disk.
    if let Err(error) = signals::survive(signal_hook::consts::SIGXFSZ) {
        tracing::warn!(%error, "a write past the file size limit will end the program");
    }
    let done = match trees {
        Some(words) => command::cmp::compare_trees(words, configured),
        None => command::run(command::parse().unwrap_or_else(|error| refuse(&error)), configured),
    };
    show::LINE.end();
    // If a signal is ending the program, wait: test directories are being removed.
    drop(signals::ending());
    match done {
        Ok(code) => code,
        Err(Failure::Stopped(signal)) => ExitCode::from(128 + signal),
        // The reader closed our output.
        Err(Failure::Errors(errors)) if matches!(errors.as_slice(), [error] if is_closed_pipe(error)) => {
            ExitCode::SUCCESS
        }
        Err(Failure::Errors(errors)) => {
            errors.iter().for_each(complain);
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Ends the program as clap does, but shows control characters of the command line as escapes, and fails if help cannot
/// be written.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let shown = show::visible_lines(&text);
    if shown != text {
        let _ = write!(show::stderr(), "{shown}");
        std::process::exit(error.exit_code())
    }
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    match printed {
        Err(reason) if !error.use_stderr() && reason.kind() != ErrorKind::BrokenPipe => {
            complain(&anyhow::Error::from(reason).context("cannot write the output"));
            std::process::exit(EXIT_ERROR.into())
        }
        _ => std::process::exit(error.exit_code()),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Prints the error to standard error, if that is open.
fn complain(error: &anyhow::Error) {
    // An error is one line, so a line break in it is part of a name.
    let sentence = format!("{error:#}");
    let _ = writeln!(show::stderr(), "seekless: {}", visible(&show::shortened(&sentence)));
    for hint in hint::hints(error) {
        let _ = writeln!(show::stderr(), "hint: {hint}");
    }
}
