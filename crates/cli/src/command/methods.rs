//! `seekless methods`: what there is, and what of it works here.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use seekless::method::Operation;
use seekless::{Method, Probe};

use super::Failure;
use crate::read_ahead;
use crate::show::{Width, list_methods, methods_json};
use crate::test_folder::TestFolder;

/// Lists the methods, and tries on this storage which are available.
///
/// Trying writes two files of a megabyte into the folder and removes them again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless methods                      # all of them, tried in this folder
  seekless methods copy --dir /mnt/nas  # only copying, on another storage
  seekless methods read_async_fadvise   # one method, or an old name of one
  seekless methods --json               # for programs")]
pub struct Arguments {
    /// Only this operation (read, write, copy, compare, update), or one method
    #[arg(value_name = "OPERATION|METHOD")]
    what: Option<String>,
    /// The folder to try them in
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The operations by their words.
#[derive(Clone, Copy, ValueEnum)]
enum OperationName {
    Read,
    Write,
    Copy,
    Compare,
    Update,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let metadata = std::fs::metadata(&arguments.folder);
    let metadata = metadata.with_context(|| format!("{}: looking at it failed", arguments.folder.display()))?;
    if !metadata.is_dir() {
        return Err(anyhow::anyhow!("{}: is no folder to try methods in", arguments.folder.display()).into());
    }
    let operation = arguments
        .what
        .as_deref()
        .map(|what| OperationName::from_str(what, false));
    let one = match (&operation, &arguments.what) {
        (Some(Err(_)), Some(what)) => Some(method(what)?),
        _ => None,
    };
    read_ahead::put_back([&arguments.folder]);
    let test_folder = TestFolder::new()?;
    let folder = test_folder.make(&arguments.folder)?;
    // Dropped before the folder: it removes its files itself.
    let mut probe = Probe::new(&folder).context("methods are tried on test files")?;
    let mut out = anstream::stdout().lock();
    if let Some(method) = one {
        return show_one(&mut out, &method, &mut probe, arguments.json);
    }
    let operations = match operation {
        Some(Ok(OperationName::Read)) => vec![Operation::Read],
        Some(Ok(OperationName::Write)) => vec![Operation::Write],
        Some(Ok(OperationName::Copy)) => vec![Operation::Copy],
        Some(Ok(OperationName::Compare)) => vec![Operation::Compare],
        Some(Ok(OperationName::Update)) => vec![Operation::Update],
        _ => Operation::ALL.to_vec(),
    };
    if arguments.json {
        print_json(&mut out, methods_json(&operations, &mut probe))?;
    } else {
        list_methods(&mut out, &operations, &mut probe, Width::of_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A method by its text; a misspelt operation is answered with the words there are.
fn method(text: &str) -> anyhow::Result<Method> {
    text.parse().map_err(|error| {
        let error = anyhow::Error::new(error);
        if text.contains(['/', '_', ',']) {
            return error;
        }
        let words = Operation::ALL.map(Operation::name).join(", ");
        anyhow::anyhow!("{error}; the operations are {words}")
    })
}

fn print_json(out: &mut dyn std::io::Write, value: serde_json::Value) -> anyhow::Result<()> {
    Ok(writeln!(out, "{:#}", crate::show::Json(value))?)
}

fn show_one(out: &mut dyn std::io::Write, method: &Method, probe: &mut Probe, json: bool) -> Result<ExitCode, Failure> {
    let availability = probe.availability(method);
    let reason = availability.reason();
    if json {
        let value = serde_json::json!({
            "method": method.to_string(), "available": reason.is_none(), "reason": reason,
        });
        print_json(out, value)?;
    } else {
        writeln!(out, "{method}\n  {}", method.mechanism().about)?;
        match reason {
            None => writeln!(out, "  available here")?,
            Some(reason) => writeln!(out, "  not available here: {reason}")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
