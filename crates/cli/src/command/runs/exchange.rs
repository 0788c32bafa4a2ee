//! `seekless runs export` and `import`: exchanging runs as files.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use seekless_lab::experiment::KNOWN;
use seekless_lab::store::{Store, split};
use seekless_record::Run;
use seekless_results::{anonymous, visible};

use super::read_named;
use crate::call;
use crate::command::{Failure, unless_failed};
use crate::output::Output;
use crate::show::{json_text, stderr, stdout};

/// Write runs to a file, to share them.
///
/// --anonymous removes what identifies you or the machine: host, paths, serial numbers, commands, error messages and the time of day.
/// It keeps figures, methods, kernel version, file system, kind of device, and the names of processors and disks if their makers are
/// known.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless runs export --anonymous latest -o run.json
  seekless runs export --anonymous 2026-11-20 2026-11-21 > runs.json")]
pub struct Export {
    /// The runs
    #[arg(value_name = "ID", required = true)]
    ids: Vec<OsString>,
    /// Remove what identifies you or the machine
    #[arg(long)]
    anonymous: bool,
    /// The file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Import runs of others, and keep them apart from your own.
///
/// The files are checked strictly. Imported runs are marked, and count in `seekless runs table`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless runs import theirs.json
  seekless runs import downloads/*.json")]
pub struct Import {
    /// Files written by `seekless runs export` or `seekless bench --export-json`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub fn export(store: &Store, arguments: &Export) -> anyhow::Result<()> {
    let runs = read_named(store, &arguments.ids)?;
    let inputs = runs.iter().map(|(document, _)| document.path.as_path());
    let output = arguments.output.as_deref();
    let output = output.map(|file| Output::prepare(file, inputs)).transpose()?;
    let mut text = String::new();
    for (_, run) in &runs {
        text += &if arguments.anonymous {
            json_text(&anonymous(run, &KNOWN))?
        } else {
            json_text(run)?
        };
    }
    match output {
        Some(output) => output.write(text.as_bytes())?,
        None => call::output().write_all(text.as_bytes())?,
    }
    if !arguments.anonymous {
        let advice = "The output contains the host name, paths and commands; --anonymous removes them.";
        // Standard error may be full.
        let _ = writeln!(stderr(), "{advice}");
    }
    Ok(())
}

pub fn import(store: &Store, arguments: &Import) -> Result<(), Failure> {
    let mut out = stdout();
    let mut failed: Vec<anyhow::Error> = Vec::new();
    for file in &arguments.files {
        let runs = read(file).map_err(|error| failed.push(error));
        for run in runs.iter().flatten() {
            match store.import(run) {
                Ok((document, is_new)) => {
                    let word = if is_new { "Imported" } else { "Exists  " };
                    writeln!(out, "{word}  {}", visible(&document.id))?;
                }
                Err(error) => failed.push(anyhow!(error).context(format!("{}: not imported", file.display()))),
            }
        }
    }
    out.flush()?;
    unless_failed(failed)
}

/// All runs of a file, or an error: a file with a damaged run is not imported in part.
fn read(file: &Path) -> anyhow::Result<Vec<Run>> {
    let documents = split(file)?;
    let mut runs = Vec::new();
    for (index, text) in documents.iter().enumerate() {
        let place = match documents.len() {
            1 => String::new(),
            _ => format!(", document {}", index + 1),
        };
        let run = seekless_record::from_json(text);
        runs.push(run.with_context(|| format!("{}{place}", file.display()))?);
    }
    Ok(runs)
}
