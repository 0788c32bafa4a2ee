//! What the lab is to measure: experiments by name or file, the same as an earlier run, or the rest of a run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seekless_engine::method::Operation;
use seekless_lab::Bench;
use seekless_lab::experiment::{ContestPlan, Experiment, Requests, filter};
use seekless_lab::store::Document;
use seekless_record::{Cache, Differ, DropScope, Run, Target};
use seekless_results::{Origin, visible};

use super::Arguments;
use crate::{call, config};

/// The bench that the arguments describe.
pub(super) fn bench(arguments: &Arguments, resumed: Option<&Run>) -> anyhow::Result<Bench> {
    let program = call::program()?;
    let seed = arguments.seed.unwrap_or_else(seed_from_clock);
    let bench = Bench {
        name: arguments.name.clone(),
        other: arguments.other.clone(),
        to: arguments.to.clone(),
        most_written: arguments.most_written,
        budget: arguments.budget,
        rounds: arguments.rounds,
        sizes: arguments.sizes.clone(),
        caches: arguments.cache.unwrap_or_default().to_vec(),
        work_ns_per_kib: arguments.work,
        drop: arguments.drop,
        file: arguments.file.clone(),
        checkpoint: arguments.checkpoint,
        ..Bench::new(Vec::new(), arguments.directories.clone(), program, seed)
    };
    let bench = match (resumed, &arguments.like) {
        (Some(run), _) => return resuming(bench, run),
        (None, Some(name)) => repeating(bench, name)?,
        (None, None) => beginning(bench, arguments)?,
    };
    refuse_unused(arguments, &bench)?;
    if bench.drop == Some(DropScope::System) {
        seekless_engine::cache::may_drop_system().context("--drop system needs root; without it, omit --drop")?;
    }
    Ok(bench)
}

/// Refuses options that have no effect on these experiments.
fn refuse_unused(arguments: &Arguments, bench: &Bench) -> anyhow::Result<()> {
    let plans = || bench.experiments.iter().flat_map(|experiment| &experiment.contests);
    let starts_cold = |plan: &ContestPlan| {
        let caches = match arguments.cache {
            Some(caches) if plan.common.operation != Operation::Write => caches,
            _ => &plan.caches,
        };
        let is_left = plan.common.target == Target::Overwrite && caches.contains(&Cache::None);
        is_left || caches.contains(&Cache::Cold) || caches.contains(&Cache::Over)
    };
    let compares_two = |plan: &ContestPlan| {
        plan.common.operation == Operation::Compare && plan.differs.iter().any(|differ| *differ != Differ::Itself)
    };
    let has_work = |plan: &ContestPlan| matches!(plan.common.operation, Operation::Read | Operation::Write);
    if bench.other.is_some() && !plans().any(compares_two) {
        bail!("--other: nothing in this run compares two files");
    }
    if bench.to.is_some() && !plans().any(|plan| plan.common.operation == Operation::Copy) {
        bail!("--to: nothing in this run copies");
    }
    if arguments.cache.is_some() && plans().all(|plan| plan.common.operation == Operation::Write) {
        bail!("--cache: nothing in this run reads a file");
    }
    if arguments.work.is_some() && !plans().any(has_work) {
        bail!("--work: nothing in this run reads or writes");
    }
    if arguments.drop.is_some() && !plans().any(starts_cold) {
        bail!("--drop: nothing in this run starts with a cold cache");
    }
    if arguments.export_columns.is_some() && bench.experiments.iter().all(|experiment| experiment.columns.is_empty()) {
        bail!("--export-columns: no experiment of this run names the columns of a document, as saving-2008 does");
    }
    Ok(())
}

/// Fails if a run that was not saved here names commands: somebody else may have written them.
pub(super) fn require_own_commands(document: &Document, run: &Run) -> anyhow::Result<()> {
    let mut entries = run.contests.iter().flat_map(|contest| &contest.entries);
    if document.origin != Origin::Own
        && let Some(command) = entries.find_map(|entry| entry.command())
    {
        let (id, command) = (visible(&document.id), visible(&command.name));
        bail!(
            "{id}: it runs the command {command}; only commands of your own saved runs are run again: name one by its ID (`seekless runs`)"
        );
    }
    Ok(())
}

/// The same as an earlier run; only the time, the seed and the number of rounds are new.
fn repeating(bench: Bench, name: &OsStr) -> anyhow::Result<Bench> {
    let document = config::store()?.find(name)?;
    let is_own = document.origin == Origin::Own;
    let run = if is_own { document.read_own()? } else { document.read()? };
    require_own_commands(&document, &run)?;
    let is_by_default = run.drop == DropScope::File && run.contests.iter().any(|contest| contest.cold_metadata);
    let mut bench = Bench {
        experiments: Experiment::like(&run)?,
        drop: (!is_by_default).then_some(run.drop),
        ..bench
    };
    // Directories of imported runs are on other machines.
    if is_own {
        bench = in_its_places(bench, &run)?;
    } else if bench.directories.is_empty() {
        bench.directories.push(PathBuf::from("."));
    }
    Ok(bench)
}

fn beginning(mut bench: Bench, arguments: &Arguments) -> anyhow::Result<Bench> {
    let names: Vec<OsString> = match (arguments.experiments.is_empty(), arguments.file.is_some()) {
        (false, _) => arguments.experiments.clone(),
        (true, true) => vec!["read".into()],
        (true, false) => ["read", "write", "copy", "tools"].map(OsString::from).to_vec(),
    };
    let experiments = names.iter().map(|name| find(name));
    bench.experiments = experiments.collect::<anyhow::Result<_>>()?;
    let requests = Requests {
        blocks: arguments.blocks.clone(),
        depths: arguments.depths.clone(),
        threads: arguments.threads.clone(),
        reads_percent: arguments.mix,
    };
    if !requests.is_empty() {
        let experiments = bench.experiments.iter().map(|experiment| requests.of(experiment));
        let experiments = experiments.filter(|experiment| !experiment.contests.is_empty());
        bench.experiments = experiments.collect();
        if bench.experiments.is_empty() {
            bail!(
                "no method of this run makes such requests: --block, --depth and --threads are for `random` and `commit`, \
                 --mix for `random`"
            );
        }
    }
    if !arguments.methods.is_empty() {
        bench.experiments = filter(&bench.experiments, &arguments.methods)?;
    }
    if bench.directories.is_empty() {
        bench.directories.push(PathBuf::from("."));
    }
    Ok(bench)
}

/// The rest of a run: everything but the time and the directories comes from the run.
fn resuming(bench: Bench, run: &Run) -> anyhow::Result<Bench> {
    Ok(Bench {
        seed: run.seed,
        drop: Some(run.drop),
        resume: Some(run.clone()),
        ..in_its_places(bench, run)?
    })
}

/// Uses the directories of the run, unless others are given.
fn in_its_places(bench: Bench, run: &Run) -> anyhow::Result<Bench> {
    let paths = run.storages.iter().map(|storage| PathBuf::from(&storage.path));
    let mut recorded: Vec<PathBuf> = paths.collect();
    // The storage of the second files, or of copies, comes last.
    let apart = run.contests.iter().find(|contest| contest.other_storage.is_some());
    let recorded_other = apart.and_then(|_| recorded.pop());
    let is_copied_to = apart.is_some_and(|contest| contest.operation == Operation::Copy);
    let (recorded_to, recorded_other) = match recorded_other {
        copies if is_copied_to => (copies, None),
        second_files => (None, second_files),
    };
    let directories = match (bench.directories.as_slice(), recorded.as_slice()) {
        ([], _) => recorded,
        ([..], [file]) if file.is_file() => bail!("{}: {} reads this file; omit --dir", file.display(), run.id),
        (given, _) => given.to_vec(),
    };
    let file = match directories.as_slice() {
        [only] if only.is_file() => Some(only.clone()),
        _ => None,
    };
    Ok(Bench {
        directories,
        other: bench.other.or(recorded_other),
        to: bench.to.or(recorded_to),
        file,
        ..bench
    })
}

/// An experiment by its name, or by the path of its file.
fn find(name: &OsStr) -> anyhow::Result<Experiment> {
    let path = Path::new(name);
    Ok(match name.to_str() {
        Some(word) if !word.contains('/') && path.extension().is_none_or(|extension| extension != "toml") => {
            Experiment::builtin(word)?
        }
        _ => Experiment::from_file(path)?,
    })
}

/// A seed that is short enough to type.
fn seed_from_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_micros() as u64 % 1_000_000_000)
}
