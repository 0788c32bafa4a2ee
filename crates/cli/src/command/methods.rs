//! `seekless methods`: all methods, and which work here.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use seekless_engine::method::Operation;
use seekless_engine::{Availability, Method, Probe, StorageFacts};
use seekless_lab::experiment::glob;
use serde_json::Value;

use super::stat;
use super::values::{Word, one_of};
use crate::code::{LANGUAGES, Language};
use crate::show::{Page, list_method, list_methods, method_json, methods_json, summarize_methods, tried_methods};
use crate::test_directory::TestDirectory;

/// List the methods, and test which are available on this storage.
///
/// The test writes two files of 1 MiB to the directory and removes them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless methods                      # what works in this directory
  seekless methods --all                # with defaults, reasons and old names
  seekless methods copy --dir /mnt/nas  # only copying, on another storage
  seekless methods --direct             # the methods with an option
  seekless methods read_async_fadvise   # one method, or an old name of one
  seekless methods read/sync,direct --code python # a program that does it
  seekless methods --json               # for programs")]
pub struct Arguments {
    /// One operation (read, write, copy, compare, update, scan), one method, or all methods that match a glob or a part of a name
    #[arg(value_name = "OPERATION|METHOD|PATTERN", allow_hyphen_values = true)]
    what: Option<String>,
    /// List every mechanism, with its default, its options, what is unavailable and why, and the names of 2014
    #[arg(long, conflicts_with_all = ["json", "code"])]
    all: bool,
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

/// The words of `--code`.
pub(super) fn languages() -> impl Iterator<Item = Word<&'static Language>> {
    let languages = LANGUAGES.iter();
    languages.map(|language| (language.word, language.name, language))
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let (Some(language), Some(what)) = (arguments.code, &arguments.what) {
        let program = language.program(&method(what)?)?;
        write!(Page::stdout(), "{program}")?;
        return Ok(());
    }
    if !stat(&arguments.directory)?.is_dir() {
        bail!("{}: not a directory", arguments.directory.display());
    }
    // Refuses file systems that store nothing, such as /proc.
    StorageFacts::of(&arguments.directory)?;
    let what = arguments.what.as_deref();
    let is_meant = |operation: &Operation| what.is_none_or(|what| operation.name() == what);
    let operations: Vec<Operation> = Operation::ALL.into_iter().filter(is_meant).collect();
    let chosen = what.filter(|_| operations.is_empty()).map(chosen).transpose()?;
    let test_directory = TestDirectory::new()?;
    let directory = test_directory.make(&arguments.directory)?;
    // Dropped before the directory, because it removes its own files.
    let mut probe = Probe::new(&directory).context("cannot test the methods")?;
    let mut page = Page::stdout();
    match chosen {
        Some(MethodArgument::One(method)) => {
            show_one(&mut page, &method, &probe.availability(&method), arguments.json)?;
        }
        Some(MethodArgument::Matching(methods)) => show_matching(&mut page, &methods, &mut probe, arguments.json)?,
        None if arguments.json => page.json(&methods_json(&operations, &mut probe))?,
        None if what.is_some() || arguments.all => list_methods(&mut page, &operations, &mut probe)?,
        None => summarize_methods(&mut page, &mut probe)?,
    }
    Ok(())
}

/// What an argument chooses that is not an operation.
enum MethodArgument {
    One(Method),
    /// Each with the name by which it was found.
    Matching(Vec<(String, Method)>),
}

/// A method by its name, or else all that match a pattern.
fn chosen(text: &str) -> anyhow::Result<MethodArgument> {
    let error = match method(text) {
        Ok(method) => return Ok(MethodArgument::One(method)),
        Err(error) => error,
    };
    // A part of a name is a pattern, too.
    for pattern in [text, &format!("*{text}*")] {
        let glob = glob(pattern).map_err(|message| anyhow!("`{text}` is not a valid glob: {message}"))?;
        let found: Vec<_> = tried_methods().filter(|(name, _)| glob.is_match(name)).collect();
        if !found.is_empty() {
            return Ok(MethodArgument::Matching(found));
        }
    }
    if text.starts_with('-') {
        bail!("`{text}` is not an option of this command, and no method has it; see `seekless methods --help`");
    }
    Err(error)
}

/// Parses a method; the error lists the operations if the operation is unknown.
fn method(text: &str) -> anyhow::Result<Method> {
    text.parse().map_err(|error| {
        let error = anyhow::Error::new(error);
        if text.contains(['/', '_', ',']) {
            return error;
        }
        let words = Operation::ALL.map(Operation::name).join(", ");
        anyhow!("{error}; the operations are {words}")
    })
}

fn show_matching(
    page: &mut Page<'_>,
    methods: &[(String, Method)],
    probe: &mut Probe,
    json: bool,
) -> std::io::Result<()> {
    let available = methods.iter().map(|(_, method)| probe.availability(method));
    let rows: Vec<_> = methods.iter().zip(available.collect::<Vec<_>>()).collect();
    if json {
        let rows = rows.iter().map(|((_, method), tried)| method_json(method, tried));
        return page.json(&rows.collect::<Value>());
    }
    let mut rows = rows.iter();
    rows.try_for_each(|((name, method), tried)| list_method(page, name, method, tried))
}

fn show_one(page: &mut Page<'_>, method: &Method, availability: &Availability, json: bool) -> std::io::Result<()> {
    if json {
        return page.json(&method_json(method, availability));
    }
    writeln!(page, "{method}\n  {}", method.mechanism().about)?;
    match availability.reason() {
        None => writeln!(page, "  available here"),
        Some(reason) => writeln!(page, "  not available here: {reason}"),
    }
}
