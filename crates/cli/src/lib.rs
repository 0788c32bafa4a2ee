//! The command `seekless`, as a library: arguments, help and output. The work is done in the libraries below it.
//!
//! `main` calls [`run`] with the arguments and streams of its process and does nothing else, so that tests and bindings reach
//! everything that the program does.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod budget;
mod call;
mod code;
mod color;
mod command;
mod config;
mod hint;
mod output;
mod show;
mod signals;
mod test_directory;

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;

use clap::CommandFactory;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[cfg(fuzzing)]
pub use show::{Page, RunParts, Width, show_comparison, show_rankings, show_run};

pub use call::{Call, Streams};

use call::Running;
use command::{Cli, Failure};
use seekless_results::visible;

/// The exit code for bad input, and if something could not be done. 1 means that compared files differ.
const EXIT_ERROR: u8 = 2;

/// The commands and options that clap parses. Help, man pages and completions are made of them.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs a command, and returns its exit code: 0 for success, 2 if something could not be done; others are in each command's help.
///
/// One call runs at a time in a process, and another one waits until it has ended. What one chooses (colors, configuration,
/// whether profiles are used) does not reach the next. What plans measured, and profiles that they read, are kept for the
/// lifetime of the process. Paths are relative to the directory of the process, and its environment counts.
///
/// Only with [`Streams::of_process`] does a call do what only a program may: handle SIGBUS, so that methods may map files
/// ([`seekless_engine::allow_mapping`]), and SIGXFSZ; wait for SIGINT, SIGTERM and SIGHUP, and end the process if they come twice; end it
/// by SIGPIPE if the reader of `cmp` is gone; raise the limit of open files; receive the log of all threads. With other streams,
/// the log is that of the calling thread, and SIGPIPE must be ignored, as Rust and Python do. A command that changes files under a
/// lease still installs a handler for SIGIO, which would end the process otherwise.
#[must_use]
pub fn run(call: Call) -> u8 {
    let running = Running::start(call);
    let arguments = running.arguments();
    // Comparing two small files takes less time than the rest of this function.
    let trees = match command::cmp::called(arguments) {
        ControlFlow::Break(code) => return code,
        ControlFlow::Continue(trees) => trees,
    };
    if call::output().was_closed() {
        print_error(&anyhow::anyhow!(
            "standard output is closed; open it, or redirect it to /dev/null"
        ));
        return EXIT_ERROR;
    }
    let configured = config::load();
    color::choose(arguments, config::get().color);
    let asked = std::env::var("SEEKLESS_LOG")
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: Targets = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(show::stderr)
        .without_time()
        // A panic message would go to standard error, which may be closed.
        .log_internal_errors(false);
    let log = tracing_subscriber::registry().with(log.with_filter(filter));
    let _logged = if call::is_process() {
        // It stays for further calls.
        let _ = log.try_init();
        own_process();
        None
    } else {
        Some(log.set_default())
    };
    let done = match trees {
        Some(words) => command::cmp::compare_trees(words, configured),
        None => match command::parse(arguments) {
            Ok(cli) => command::run(cli, configured),
            Err(error) => Err(refuse(&error)),
        },
    };
    show::PROGRESS.end();
    // If a signal is ending the program, wait: test directories are being removed.
    drop(signals::ending());
    match done {
        Ok(code) | Err(Failure::Refused(code)) => code,
        Err(Failure::Stopped(signal)) => 128 + signal,
        // The reader closed our output.
        Err(Failure::Errors(errors)) if matches!(errors.as_slice(), [error] if is_closed_pipe(error)) => 0,
        Err(Failure::Errors(errors)) => {
            errors.iter().for_each(print_error);
            EXIT_ERROR
        }
    }
}

/// Handles the signals that a program has to itself.
fn own_process() {
    // Methods may then map files.
    if let Err(error) = seekless_engine::allow_mapping() {
        tracing::warn!(%error, "mmap methods are not available");
    }
    // A write past the file size limit (`ulimit -f`) then fails like a write to a full disk.
    if let Err(error) = signals::survive(signal_hook::consts::SIGXFSZ) {
        tracing::warn!(%error, "a write past the file size limit will end the program");
    }
}

/// Prints an error or help as clap does, but shows control characters of the command line as escapes, and fails if help
/// cannot be written.
pub(crate) fn refuse(error: &clap::Error) -> Failure {
    let code = u8::try_from(error.exit_code()).unwrap_or(EXIT_ERROR);
    let text = error.render();
    let (plain, styled) = (text.to_string(), text.ansi().to_string());
    let shown = show::visible_lines(&plain);
    if error.use_stderr() {
        let shown = if shown == plain { styled } else { shown };
        let _ = write!(show::stderr(), "{shown}");
        return Failure::Refused(code);
    }
    let mut out = show::stdout();
    match write!(out, "{styled}").and_then(|()| out.flush()) {
        Err(error) => anyhow::Error::from(error).context("cannot write the output").into(),
        Ok(()) => Failure::Refused(code),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Prints the error to standard error, if that is open.
fn print_error(error: &anyhow::Error) {
    // An error is one line, so a line break in it is part of a name.
    let sentence = format!("{error:#}");
    let _ = writeln!(show::stderr(), "seekless: {}", visible(&show::shortened(&sentence)));
    for hint in hint::hints(error) {
        let _ = writeln!(show::stderr(), "hint: {hint}");
    }
}
