//! `seekless methods`: all methods, and which work here.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use seekless::method::Operation;
use seekless::{Availability, Method, Probe, StorageFacts};

use super::values::{Word, one_of};
use crate::code::{LANGUAGES, Language};
use crate::read_ahead;
use crate::show::{Page, json_text, list_methods, method_json, methods_json};
use crate::test_directory::TestDirectory;

/// List the methods, and test which are available on this storage.
///
/// The test writes two files of 1 MiB to the directory and removes them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless methods                      # all of them, tested in this directory
  seekless methods copy --dir /mnt/nas  # only copying, on another storage
  seekless methods read_async_fadvise   # one method, or an old name of one
  seekless methods read/sync,direct --code python # a program that does it
  seekless methods --json               # for programs")]
pub struct Arguments {
    /// Only this operation (read, write, copy, compare, update), or one method
    #[arg(value_name = "OPERATION|METHOD")]
    what: Option<String>,
    /// The directory to test them in
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print a complete program that does what the METHOD does, with its open flags, alignment and calls in a comment
    #[arg(long, value_name = "LANGUAGE", value_parser = one_of(languages()), conflicts_with = "json", requires = "what")]
    code: Option<&'static Language>,
}

fn languages() -> impl Iterator<Item = Word<&'static Language>> {
    LANGUAGES
        .iter()
        .map(|language| (language.word, language.name, language))
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let (Some(language), Some(what)) = (arguments.code, &arguments.what) {
        let program = language.program(&method(what)?)?;
        write!(Page::stdout(), "{program}")?;
        return Ok(());
    }
    let metadata = std::fs::metadata(&arguments.directory);
    let metadata = metadata.with_context(|| format!("{}: cannot stat", arguments.directory.display()))?;
    if !metadata.is_dir() {
        bail!("{}: not a directory", arguments.directory.display());
    }
    // Refuses file systems that store nothing, such as /proc.
    StorageFacts::of(&arguments.directory)?;
    let what = arguments.what.as_deref();
    let is_meant = |operation: &Operation| what.is_none_or(|what| operation.name() == what);
    let operations: Vec<Operation> = Operation::ALL.into_iter().filter(is_meant).collect();
    let one = what.filter(|_| operations.is_empty()).map(method).transpose()?;
    read_ahead::put_back([&arguments.directory]);
    let test_directory = TestDirectory::new()?;
    let directory = test_directory.make(&arguments.directory)?;
    // Dropped before the directory, because it removes its own files.
    let mut probe = Probe::new(&directory).context("cannot test the methods")?;
    let mut page = Page::stdout();
    if let Some(method) = one {
        show_one(&mut page, &method, &probe.availability(&method), arguments.json)?;
        return Ok(());
    }
    if arguments.json {
        write!(page, "{}", json_text(&methods_json(&operations, &mut probe))?)?;
    } else {
        list_methods(&mut page, &operations, &mut probe)?;
    }
    Ok(())
}

/// Parses a method; the error lists the operations if the operation is unknown.
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

fn show_one(page: &mut Page<'_>, method: &Method, availability: &Availability, json: bool) -> std::io::Result<()> {
    if json {
        return write!(page, "{}", json_text(&method_json(method, availability))?);
    }
    writeln!(page, "{method}\n  {}", method.mechanism().about)?;
    match availability.reason() {
        None => writeln!(page, "  available here"),
        Some(reason) => writeln!(page, "  not available here: {reason}"),
    }
}
