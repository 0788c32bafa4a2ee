//! A trial of the store of runs: the power fails while a run is imported or removed. A run is there as a whole or not at all; none is
//! lost that was there before, or whose import ended with success; and the store can be used.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use seekless_results::simulation;

use super::command::TrialCommand;
use super::plan::TrialPlan;
use super::power::Stage;
use super::site::{Fault, Site, TrialReport, check_ended};

/// The documents of a store, by name.
type Documents = BTreeMap<OsString, Vec<u8>>;

/// Importing beside another run, or as the first one; removing.
pub fn draw(rng: &mut fastrand::Rng) -> TrialCommand {
    let (label, words) = [
        ("runs import", "runs import ASIDE/second.json"),
        ("runs import first", "runs import ASIDE/second.json"),
        ("runs remove", "runs remove first"),
    ][rng.usize(..3)];
    TrialCommand::of_file(label, words.to_owned())
}

pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    site.begin()?;
    let (data, ready) = (site.directory.join("data"), site.aside.join("ready"));
    for id in ["first", "second"] {
        let mut run: serde_json::Value = serde_json::from_str(simulation::FULL)?;
        run["id"] = id.into();
        fs::write(site.aside.join(format!("{id}.json")), run.to_string())?;
        import(site, &ready, id)?;
    }
    let whole = documents(&ready)?;
    let is_alone = plan.command.label.ends_with("first");
    if !is_alone {
        import(site, &data, "first")?;
    }
    let before = documents(&data)?;

    let words = plan.command.run.replace("ASIDE", &site.aside.display().to_string());
    let ended = site.run_at(Stage::Run, seekless(site, &data, &words), None)?;
    let mut faults = check_ended(&ended);
    let after = documents(&data)?;
    let is_done = ended.status.success();
    for (name, bytes) in &whole {
        let must_be = match &plan.command.label[..] {
            "runs remove" => false,
            _ => before.contains_key(name) || is_done && is_second(name),
        };
        match after.get(name) {
            None if must_be => faults.push(Fault::new("lost run", name.to_string_lossy())),
            Some(found) if found != bytes => faults.push(Fault::new("torn run", name.to_string_lossy())),
            _ => {}
        }
    }
    if let Some(other) = after.keys().find(|name| !whole.contains_key(*name)) {
        faults.push(Fault::new("unknown run", other.to_string_lossy()));
    }
    for words in [
        "runs --json".to_owned(),
        format!("runs import {}", site.aside.join("second.json").display()),
    ] {
        let used = site.run(seekless(site, &data, &words), None)?;
        if !used.status.success() || !used.stderr.is_empty() {
            faults.push(Fault::new("store cannot be used", format!("{words}: {}", used.stderr)));
        }
    }
    let now = documents(&data)?;
    if whole
        .iter()
        .any(|(name, bytes)| is_second(name) && now.get(name) != Some(bytes))
    {
        faults.push(Fault::new("lost run", "imported again"));
    }
    let counts = [
        1,
        usize::from(is_done),
        usize::from(ended.status.signal() == Some(Signal::KILL.as_raw())),
        0,
        0,
        0,
        0,
        usize::from(!faults.is_empty()),
    ];
    let names = |documents: &Documents| documents.keys().cloned().collect::<Vec<_>>();
    let story = format!(
        "{words}: {}\n{}before {:?}, after {:?}",
        ended.status,
        ended.stderr,
        names(&before),
        names(&after)
    );
    Ok(TrialReport { counts, faults, story })
}

fn is_second(name: &OsStr) -> bool {
    name.to_string_lossy().contains("second")
}

fn import(site: &Site<'_>, data: &Path, id: &str) -> Result<()> {
    let words = format!("runs import {}", site.aside.join(format!("{id}.json")).display());
    let ended = site.run(seekless(site, data, &words), None)?;
    ensure!(ended.status.success(), "cannot import: {}", ended.stderr);
    Ok(())
}

fn seekless(site: &Site<'_>, data: &Path, words: &str) -> Command {
    let mut command = site.seekless(&[]);
    command.args(words.split(' ')).env("XDG_DATA_HOME", data);
    command
}

/// The imported runs of a store.
fn documents(data: &Path) -> Result<Documents> {
    let entries = match fs::read_dir(data.join("seekless/imported")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Documents::new()),
        other => other.context("cannot list the runs")?,
    };
    let mut documents = Documents::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "json") {
            documents.insert(entry.file_name(), fs::read(entry.path())?);
        }
    }
    Ok(documents)
}
