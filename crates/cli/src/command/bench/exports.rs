//! The files that a run is written to: exports and reports.
//!
//! Not here: how a run looks in them (`report`).

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seekless_record::Run;
use seekless_report::{to_csv, to_html, to_markdown};
use seekless_results::ContestRegret;

use super::super::report::{beside, columns};
use super::Arguments;
use crate::config;
use crate::output::Output;
use crate::show::json_text;

/// A run as it is saved, and the same run with conclusions from all sittings.
pub struct Concluded {
    pub alone: Run,
    pub shown: Run,
    /// What plans by the profile of earlier sittings cost, if that was asked for.
    pub regrets: Vec<ContestRegret>,
}

/// Renders a run for export: samples come from the run alone, conclusions from all sittings.
pub type Form = fn(&Concluded) -> anyhow::Result<String>;

/// The exports of the run; all paths are checked before anything is measured.
pub fn exports(arguments: &Arguments) -> anyhow::Result<Vec<(Output, Form)>> {
    let stdout = arguments.json.then(|| PathBuf::from("-"));
    let wanted: [(&Option<PathBuf>, Form); 6] = [
        (&stdout, |run| Ok(json_text(&run.shown)?)),
        (&arguments.export_json, |run| Ok(seekless_record::to_json(&run.alone)?)),
        (&arguments.export_csv, |run| Ok(to_csv(&run.alone)?)),
        (&arguments.export_columns, |run| columns(&run.alone)),
        (&arguments.export_markdown, |run| Ok(to_markdown(&run.shown))),
        (&arguments.report, |run| {
            Ok(to_html(&run.shown, &run.alone, &run.regrets)?)
        }),
    ];
    let wanted = wanted
        .into_iter()
        .filter_map(|(path, form)| Some((path.as_ref()?, form)));
    let wanted: Vec<(&PathBuf, Form)> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let inputs = inputs_of(arguments)?;
    let mut exports: Vec<(Output, Form)> = Vec::new();
    for (path, form) in wanted {
        let output = Output::prepare(path, inputs.iter().map(PathBuf::as_path))?;
        if exports.iter().any(|(other, _)| other.is_same(&output)) {
            bail!("{}: is named twice; each export needs a file of its own", output.name());
        }
        exports.push((output, form));
    }
    Ok(exports)
}

/// The files that a run reads.
fn inputs_of(arguments: &Arguments) -> anyhow::Result<Vec<PathBuf>> {
    let mut inputs: Vec<PathBuf> = arguments.experiments.iter().map(PathBuf::from).collect();
    inputs.extend(arguments.file.clone());
    for name in arguments.like.iter().chain(&arguments.resume) {
        inputs.push(config::store()?.find(name)?.path);
    }
    Ok(inputs)
}

/// Writes the page of a saved run beside it.
pub fn report_beside(run: &Concluded, saved: &Path) -> anyhow::Result<PathBuf> {
    let written =
        || -> anyhow::Result<()> { beside(saved)?.write(to_html(&run.shown, &run.alone, &run.regrets)?.as_bytes()) };
    written().context("cannot write the report")?;
    let path = saved.with_extension("html");
    Ok(std::fs::canonicalize(&path).unwrap_or(path))
}
