//! The files that a run is written to: exports and reports.
//!
//! Not here: how a run looks in them (`report`).

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seekless_lab::regret::regrets_of;
use seekless_record::Run;
use seekless_report::{to_csv, to_html, to_markdown};
use seekless_results::{ContestRegret, pool};

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

impl Concluded {
    /// Concludes from a run and the earlier ones; `with_regrets` asks for what plans cost.
    pub fn of(run: Run, earlier: &[Run], with_regrets: bool) -> Self {
        let regrets = with_regrets.then(|| regrets_of(&run, earlier));
        Self {
            regrets: regrets.unwrap_or_default(),
            shown: pool(&run, earlier),
            alone: run,
        }
    }
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
    let named = |(path, form): (&'_ Option<PathBuf>, Form)| Some((path.clone()?, form));
    let wanted: Vec<(PathBuf, Form)> = wanted.into_iter().filter_map(named).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let inputs = inputs_of(arguments)?;
    let mut exports: Vec<(Output, Form)> = Vec::new();
    for (path, form) in wanted {
        let output = Output::prepare(&path, inputs.iter().map(PathBuf::as_path))?;
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

/// Writes the exports of a run, and its report beside the saved run if the arguments name no other place. Returns where the report is,
/// and what failed.
pub fn write_exports(
    arguments: &Arguments,
    exports: Vec<(Output, Form)>,
    run: &Concluded,
    saved: Option<&Path>,
) -> (Option<PathBuf>, Vec<anyhow::Error>) {
    // The report comes last; it may be a stream.
    let named = exports.last().and_then(|(output, _)| output.target());
    let mut failed = Vec::new();
    for (output, form) in exports {
        let written = form(run).and_then(|text| output.write(text.as_bytes()));
        failed.extend(written.err());
    }
    let report = match (saved, &arguments.report) {
        (Some(path), None) => report_beside(run, path).map_err(|error| failed.push(error)).ok(),
        (None, None) => None,
        (_, Some(_)) => named,
    };
    (report, failed)
}

/// Writes the page of a saved run beside it.
fn report_beside(run: &Concluded, saved: &Path) -> anyhow::Result<PathBuf> {
    let written =
        || -> anyhow::Result<()> { beside(saved)?.write(to_html(&run.shown, &run.alone, &run.regrets)?.as_bytes()) };
    written().context("cannot write the report")?;
    let path = saved.with_extension("html");
    Ok(std::fs::canonicalize(&path).unwrap_or(path))
}
