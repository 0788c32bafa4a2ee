//! `seekless report`: the HTML page of a saved run, or of a run in a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use seekless_record::Run;
use seekless_report::{to_columns, to_html};
use seekless_results::{Origin, visible};

use super::sittings::over_sittings;
use crate::config;
use crate::output::Output;
use crate::show::stdout;

/// Write a run as one HTML page, with recommendations, plots, tables and the run itself.
///
/// The page loads nothing from the network and is readable without scripts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless report latest                   # the newest saved run
  seekless report 2026-11-20T14 -o r.html  # the run with this ID prefix
  seekless report sent.json                # a run that somebody sent")]
pub struct Arguments {
    /// The ID of a saved run, a unique prefix of it, `latest`, or the path of a run's JSON file
    #[arg(value_name = "RUN")]
    run: OsString,
    /// Where to write the page; `-` is standard output [default: beside the run, as .html]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Ignore earlier runs on this storage: conclude from this run alone
    #[arg(long)]
    alone: bool,
    /// Write times by file size instead, tab-separated, with the columns that the repeated document has, such as that of
    /// saving-2008
    #[arg(long, value_name = "FILE.tsv", conflicts_with = "output")]
    columns: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let document = config::store()?.find(&arguments.run)?;
    let run = document.read()?;
    let path = document.path;
    let output = match arguments.columns.as_ref().or(arguments.output.as_ref()) {
        Some(file) => Output::prepare(file, [path.as_path()])?,
        None => beside(&path)?,
    };
    if arguments.columns.is_some() {
        return output.write(columns(&run)?.as_bytes());
    }
    let concluded = over_sittings(&run, arguments.alone || document.origin == Origin::Imported);
    let url = output.target().map(|target| file_url(&target));
    let page = to_html(&concluded, &run, &[]).with_context(|| format!("{}: cannot make the page", path.display()))?;
    output.write(page.as_bytes())?;
    if let Some(url) = url {
        writeln!(stdout(), "Report  {url}")?;
    }
    Ok(())
}

/// The times of a run, with the columns that the document has which its experiment repeats.
pub(super) fn columns(run: &Run) -> anyhow::Result<String> {
    let text = to_columns(run)?;
    if text.is_empty() {
        let id = visible(&run.id);
        bail!("{id}: there are no times in the columns of a document");
    }
    Ok(text)
}

/// The first bytes of every report. Only a file that begins like this is replaced.
const MARK: &[u8] =
    b"<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\"";

/// The page beside a run. The user did not name that file, so it is replaced only if it is a report.
pub(super) fn beside(run: &Path) -> anyhow::Result<Output> {
    let path = run.with_extension("html");
    if let Ok(file) = File::open(&path).and_then(|file| Ok((file.metadata()?.is_file(), file)))
        && file.0
    {
        let mut beginning = Vec::new();
        let read = file.1.take(MARK.len() as u64).read_to_end(&mut beginning);
        if read.is_err() || beginning != MARK {
            bail!("{}: exists and is not a report; name another file", path.display());
        }
    }
    // It shows what the run holds.
    let mode = std::fs::metadata(run).map_or(0o600, |run| run.mode() & 0o666);
    Ok(Output::prepare(&path, [run])?.with_mode(mode))
}

/// The characters of a path that a URL keeps: the unreserved ones of RFC 3986, slashes, and the plus of the names of runs.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+');

/// The URL of a file, which terminals make clickable.
pub(super) fn file_url(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), KEPT))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    #[test]
    fn an_address_keeps_no_byte_that_has_a_meaning() {
        let path = Path::new(OsStr::from_bytes(b"/a b/%41#?\xff\x1b;~x+y.html"));
        assert_eq!(file_url(path), "file:///a%20b/%2541%23%3F%FF%1B%3B~x+y.html");
    }

    #[test]
    fn a_file_that_nobody_named_is_replaced_only_if_it_is_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run.json");
        let page = directory.path().join("run.html");
        beside(&run).unwrap();
        fs::write(&page, "a page of mine").unwrap();
        assert!(beside(&run).unwrap_err().to_string().contains("is not a report"));
        fs::write(&page, [MARK, b" and so on"].concat()).unwrap();
        beside(&run).unwrap();
    }
}
