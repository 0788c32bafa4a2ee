//! Seekless beside itself at an earlier revision: is a change of structure neutral in time?
//!
//! The commands of `before.toml`, each with the programs of both revisions, as the lab compares commands. One is neutral where
//! the interval of the paired ratio, new over old, ends at [`NEUTRAL`] or below. One that does not fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless_lab::Bench;
use seekless_lab::experiment::Experiment;
use seekless_record::{Entry, Status, Subject};
use seekless_results::ranking::Samples;
use seekless_results::statistics::median;
use seekless_results::title;

use super::in_words;
use super::ours::bench;
use crate::built::{beside, cargo_command, root};
use crate::process::{capture, run as run_program};

/// The largest ratio, new over old, that counts as no change.
const NEUTRAL: f64 = 1.05;

/// What to compare with, where, and how often.
#[derive(Args)]
pub struct Arguments {
    /// The earlier revision, or the directory of a checkout
    base: String,
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Rounds of each case
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(6..))]
    rounds: u32,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

/// The programs of one revision.
struct Programs {
    seekless: PathBuf,
    once: PathBuf,
}

/// Measures, prints, and fails where a case is not neutral.
pub fn run(arguments: &Arguments) -> Result<()> {
    let old = build(&checkout(&arguments.base)?)?;
    let new = build(&root())?;
    let mut experiment = cases()?;
    for contest in &mut experiment.contests {
        let entries = &mut contest.common.entries;
        entries.retain(|entry| entry.name().contains(&arguments.only));
        *entries = entries
            .iter()
            .flat_map(|entry| [of_revision(entry, "old", &old), of_revision(entry, "new", &new)])
            .collect();
    }
    experiment.contests.retain(|contest| !contest.common.entries.is_empty());
    let run = bench(&Bench {
        rounds: Some(arguments.rounds),
        ..Bench::new(
            vec![experiment],
            vec![arguments.dir.clone()],
            new.seekless,
            fastrand::u64(..),
        )
    })?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "old, ms", "new, ms", "new / old", "neutral"]);
    let mut slower = Vec::new();
    for (index, contest) in run.contests.iter().enumerate() {
        let [old, new] = [0, 1].map(|entry| {
            let trials = run.trials.iter();
            Samples::of(trials.filter(|trial| (trial.contest, trial.entry) == (index, entry)))
        });
        let ratio = new.over(&old).map(|paired| paired.ratio);
        let is_neutral = ratio.is_some_and(|ratio| ratio.coverage.is_some() && ratio.high <= NEUTRAL);
        let ms = |samples: &Samples| {
            let seconds: Vec<f64> = samples.by_round.values().copied().collect();
            median(&seconds).map_or_else(String::new, |seconds| format!("{:.1}", seconds * 1e3))
        };
        let verdict = if is_neutral { "yes" } else { "**no**" };
        let name = contest.entries[0].name().replace("command/old: ", "");
        let case = format!("{name} ({})", title(contest));
        table.add_row([&case, &ms(&old), &ms(&new), &in_words(ratio), verdict]);
        if !is_neutral {
            slower.push(case);
        }
    }
    println!("{table}");
    for entry in run.contests.iter().flat_map(|contest| &contest.entries) {
        if entry.status != Status::Measured {
            println!("{}: {:?}", entry.name(), entry.status);
        }
    }
    ensure!(slower.is_empty(), "not shown to be neutral: {}", slower.join(", "));
    Ok(())
}

/// What is timed, with words for the programs of a revision.
fn cases() -> Result<Experiment> {
    Ok(Experiment::from_toml(include_str!("before.toml"), "before.toml")?)
}

fn of_revision(entry: &Entry, revision: &str, programs: &Programs) -> Entry {
    let mut entry = entry.clone();
    if let Subject::Command(command) = &mut entry.subject {
        command.name = format!("{revision}: {}", command.name);
        for argument in &mut command.argv {
            let program = match argument.as_str() {
                "SEEKLESS" => &programs.seekless,
                "ONCE" => &programs.once,
                _ => continue,
            };
            *argument = program.to_string_lossy().into_owned();
        }
    }
    entry
}

/// The directory of the earlier revision; one that git knows gets a work tree below `target`.
fn checkout(base: &str) -> Result<PathBuf> {
    if Path::new(base).join("Cargo.toml").is_file() {
        return Ok(PathBuf::from(base));
    }
    let mut parse = Command::new("git");
    parse.current_dir(root()).args(["rev-parse", "--short", "--verify"]);
    let commit = capture(parse.arg(format!("{base}^{{commit}}")))?;
    let directory = root().join("target/before").join(commit.trim());
    if !directory.join("Cargo.toml").is_file() {
        let mut add = Command::new("git");
        add.current_dir(root()).args(["worktree", "add", "--force", "--detach"]);
        capture(add.arg(&directory).arg(commit.trim()))?;
    }
    Ok(directory)
}

/// Builds the programs of a checkout. Each has a target directory of its own: cargo takes the files of one checkout for
/// those of another where they share it.
fn build(checkout: &Path) -> Result<Programs> {
    let checkout = fs::canonicalize(checkout)?;
    let is_ours = checkout == fs::canonicalize(root())?;
    let release = if is_ours {
        beside("release")?
    } else {
        checkout.join("target/release")
    };
    let cargo = || {
        let mut cargo = cargo_command();
        cargo.current_dir(&checkout).env_remove("CARGO_TARGET_DIR");
        if let (true, Some(target)) = (is_ours, release.parent()) {
            cargo.env("CARGO_TARGET_DIR", target);
        }
        cargo
    };
    run_program(cargo().args(["build", "--release", "-p", "seekless-cli"]))?;
    run_program(cargo().args(["build", "--release", "-p", "seekless", "--example", "once"]))
        .context("the revision has no example `once`: choose a later one")?;
    Ok(Programs {
        seekless: release.join("seekless"),
        once: release.join("examples/once"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_run_with_the_programs_of_both_revisions() {
        let programs = |name: &str| Programs {
            seekless: Path::new(name).join("seekless"),
            once: Path::new(name).join("once"),
        };
        for contest in cases().unwrap().contests {
            assert_eq!(contest.common.entries.len(), 1);
            let of_old = of_revision(&contest.common.entries[0], "old", &programs("/old"));
            let command = of_old.command().unwrap();
            assert!(command.name.starts_with("old: "), "{}", command.name);
            assert!(command.argv[0].starts_with("/old/"), "{:?}", command.argv);
        }
    }
}
