//! `seekless trial`: the child's side of a trial. Hidden: a parent starts it and talks to it over its pipes.

use std::process::ExitCode;

use super::Failure;

pub(super) fn run() -> Result<ExitCode, Failure> {
    seekless_lab::trial::child::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
