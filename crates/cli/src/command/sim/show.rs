//! `seekless sim show`: models with their parameters and published figures, and what a list of requests takes on them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use seekless_sim::models::{DiskModel, MODELS};
use seekless_sim::picture::picture;
use seekless_sim::replay::{Replayed, replay, steps_of};
use seekless_sim::trace::{TracedRequest, read_trace};

use super::models;
use crate::command::values::one_of;
use crate::output::Output;
use crate::show::{Page, list_models, models_json, show_model, show_replays, visible_path};

/// Show the models: their parameters, and the published figures that they reproduce.
///
/// Each figure is shown beside the time that the same requests take on the model. With --virtual, a trace of requests is
/// replayed on models instead, in virtual time, so nothing waits. In a replay, a request starts as long after an answer
/// as when it was recorded; without a time of completion, it starts at its time of arrival. Neither needs root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless sim show                               # the models
  seekless sim show hdd-2009                      # one of them
  seekless sim show --json | jq '.models[].parameters'
  seekless sim show --virtual trace               # a trace, on all models
  seekless sim show --virtual trace hdd-nas       # on one model
  seekless sim show --virtual trace hdd-2009 --picture head.svg")]
pub(super) struct Arguments {
    /// Models to show; all if none is named
    #[arg(value_name = "MODEL", value_parser = one_of(models()))]
    models: Vec<&'static DiskModel>,
    /// Replay a trace in virtual time: a line per request, with arrival (ns), kind, offset, length (bytes), and completion (ns)
    #[arg(long = "virtual", value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw the address of each request over time, as recorded or on the model: how the head moves
    #[arg(long, value_name = "FILE.svg", requires = "trace")]
    picture: Option<PathBuf>,
    /// Draw only the requests of the first N seconds
    #[arg(long, value_name = "N", requires = "picture", value_parser = seconds)]
    seconds: Option<f64>,
    /// Seed for the first angle of the platter, and everything else random
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace")]
    seed: u64,
    /// Print one JSON document
    #[arg(long, conflicts_with = "trace")]
    json: bool,
}

fn seconds(text: &str) -> anyhow::Result<f64> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
    seconds.context("must be a number of seconds greater than 0")
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut page = Page::stdout();
    if let Some(path) = &arguments.trace {
        return run_virtual(&mut page, path, arguments);
    }
    if arguments.json {
        return Ok(page.json(&models_json(&arguments.models()))?);
    }
    if arguments.models.is_empty() {
        return Ok(list_models(&mut page)?);
    }
    for model in &arguments.models {
        show_model(&mut page, model)?;
    }
    Ok(())
}

/// Replays a trace on models, and draws it.
fn run_virtual(page: &mut Page<'_>, path: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.picture.is_some() && arguments.models.len() > 1 {
        bail!("a picture shows one disk; name one model, or none to draw the times that were recorded");
    }
    let output = arguments.picture.as_deref();
    let output = output.map(|file| Output::prepare(file, [path])).transpose()?;
    let trace = read(path).with_context(|| format!("{}: cannot read the trace", path.display()))?;
    if trace.is_empty() {
        bail!("{}: has no requests", path.display());
    }
    let steps = steps_of(&trace);
    let replayed = |model| (model, replay(model, 0, arguments.seed, &steps));
    let replays: Vec<(&DiskModel, Replayed)> = arguments.models().into_iter().map(replayed).collect();
    if !output.as_ref().is_some_and(Output::is_stdout) {
        show_replays(page, &trace, &replays)?;
    }
    if let Some(output) = output {
        let (drawn, disk) = match &arguments.models[..] {
            [model] => (&replays[0].1.requests, model.name),
            _ => (&trace, "as recorded"),
        };
        let until = arguments.seconds.map(std::time::Duration::from_secs_f64);
        let until_ns = until.map_or(u64::MAX, |until| until.as_nanos() as u64);
        output.write(picture(drawn, &format!("{}, {disk}", visible_path(path)), until_ns).as_bytes())?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<TracedRequest>> {
    Ok(read_trace(BufReader::new(File::open(path)?))?)
}

impl Arguments {
    /// The models that are named, or all.
    fn models(&self) -> Vec<&'static DiskModel> {
        if self.models.is_empty() {
            return MODELS.iter().collect();
        }
        self.models.clone()
    }
}
