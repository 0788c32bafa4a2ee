//! Seekless beside itself at an earlier revision: is a change of structure neutral in time?
//!
//! Whole processes, old and new in alternation, in an order that is drawn anew each round. A case is neutral where the
//! interval of the paired ratio, new over old, ends at [`NEUTRAL`] or below. One that does not fails. What runs cold is run
//! after `drop_caches`, which needs root.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use rustix::fs::syncfs;
use seekless_results::statistics::median;

use crate::built::{beside, cargo_command, root};
use crate::peers::cache::{make_file, prepare};
use crate::peers::cases::Start;
use crate::peers::report::in_words;
use crate::peers::statistics::median_interval;
use crate::peers::tree::make_trees;
use crate::peers::update::Workload;
use crate::process::{capture, check_interrupt, run as run_program};

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
    /// MiB of the file to read and copy; each file to compare has twice that
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(8..))]
    mib: u64,
    /// Files of the trees
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..))]
    files: u32,
    /// Rounds of each case
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(6..))]
    rounds: u16,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

/// The programs of one revision.
struct Programs {
    seekless: PathBuf,
    once: PathBuf,
}

/// What is timed: a program and its words, in a directory with `one`, `other`, and the trees `trees/one` and `trees/other`.
struct Case {
    name: &'static str,
    of: fn(&Programs) -> &Path,
    words: &'static [&'static str],
    before: Before,
}

/// What is brought about before each trial.
enum Before {
    /// These files are in the page cache.
    Warm(&'static [&'static str]),
    /// The trees are there, and whatever was read by the trial before is still in memory.
    Trees,
    /// The same, and nothing is in memory.
    ColdTrees,
    /// This file is a copy of that.
    Copied(&'static str, &'static str),
}

const CASES: [Case; 9] = [
    Case {
        name: "warm read, sync",
        of: once,
        words: &["read/sync,block=128K", "file"],
        before: Before::Warm(&["file"]),
    },
    Case {
        name: "warm read, mmap",
        of: once,
        words: &["read/mmap", "file"],
        before: Before::Warm(&["file"]),
    },
    Case {
        name: "warm copy, sync",
        of: once,
        words: &["copy/sync,block=128K", "file", "target"],
        before: Before::Warm(&["file"]),
    },
    Case {
        name: "compare",
        of: seekless,
        words: &["cmp", "-s", "one", "other"],
        before: Before::Warm(&["one", "other"]),
    },
    Case {
        name: "compare, single pages",
        of: seekless,
        words: &["cmp", "-s", "pages", "other-pages"],
        before: Before::Warm(&["pages", "other-pages"]),
    },
    Case {
        name: "tree",
        of: seekless,
        words: &["cmp", "-r", "trees/one", "trees/other"],
        before: Before::Trees,
    },
    Case {
        name: "tree, cold",
        of: seekless,
        words: &["cmp", "-r", "trees/one", "trees/other"],
        before: Before::ColdTrees,
    },
    Case {
        name: "update of 4 MB",
        of: seekless,
        words: &["update", "target", "--from", UPDATES, "--durability", "through"],
        before: Before::Copied("target", "1000000.integers"),
    },
    Case {
        name: "dig",
        of: seekless,
        words: &["holes", "dig", "target"],
        before: Before::Copied("target", "zeros"),
    },
];

/// Integers of the file that is updated, and the updates.
const INTEGERS: u32 = 1_000_000;
const UPDATES: &str = "1000000.updates";

impl Case {
    fn needs(&self, name: &str) -> bool {
        self.words.contains(&name) || matches!(self.before, Before::Copied(_, from) if from == name)
    }
}

fn once(programs: &Programs) -> &Path {
    &programs.once
}

fn seekless(programs: &Programs) -> &Path {
    &programs.seekless
}

/// Measures, prints, and fails where a case is not neutral.
pub fn run(arguments: &Arguments) -> Result<()> {
    let old = build(&checkout(&arguments.base)?)?;
    let new = build(&root())?;
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    let directory = directory.path();
    let mut random = fastrand::Rng::new();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "old, ms", "new, ms", "new / old", "neutral"]);
    let mut slower = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains(&arguments.only)) {
        let [old, new] = measure(case, directory, [&old, &new], arguments, &mut random)
            .with_context(|| format!("measuring {}", case.name))?;
        let ratios: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new / old).collect();
        let is_neutral = median_interval(&ratios).is_some_and(|interval| interval.high <= NEUTRAL);
        let ms = |seconds: &[f64]| median(seconds).map_or_else(String::new, |seconds| format!("{:.1}", seconds * 1e3));
        let verdict = if is_neutral { "yes" } else { "**no**" };
        table.add_row([case.name, &ms(&old), &ms(&new), &in_words(&ratios), verdict]);
        if !is_neutral {
            slower.push(case.name);
        }
        eprintln!("{} done", case.name);
    }
    println!("{table}");
    ensure!(slower.is_empty(), "not shown to be neutral: {}", slower.join(", "));
    Ok(())
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
    let is_ours = fs::canonicalize(checkout)? == fs::canonicalize(root())?;
    let release = if is_ours {
        beside("release")?
    } else {
        checkout.join("target/release")
    };
    let cargo = || {
        let mut cargo = cargo_command();
        cargo.current_dir(checkout).env_remove("CARGO_TARGET_DIR");
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

/// The seconds of the old and the new program, round by round.
fn measure(
    case: &Case,
    directory: &Path,
    programs: [&Programs; 2],
    arguments: &Arguments,
    random: &mut fastrand::Rng,
) -> Result<[Vec<f64>; 2]> {
    make(case, directory, arguments, random)?;
    let mut seconds = [Vec::new(), Vec::new()];
    let mut order = [0, 1];
    // The first round brings everything into memory and is not counted.
    for round in 0..=arguments.rounds {
        random.shuffle(&mut order);
        for which in order {
            check_interrupt()?;
            let _ = fs::remove_file(directory.join("target"));
            case.before.bring_about(directory)?;
            let taken = time(case, directory, programs[which])?;
            if round > 0 {
                seconds[which].push(taken);
            }
        }
    }
    Ok(seconds)
}

impl Before {
    fn bring_about(&self, directory: &Path) -> Result<()> {
        syncfs(File::open(directory)?)?;
        match self {
            Self::Warm(files) => files
                .iter()
                .try_for_each(|file| prepare(Start::Warm, &directory.join(file))),
            Self::Trees => Ok(()),
            Self::ColdTrees => {
                seekless::cache::drop_system().context("cannot drop the system's caches, which root may")
            }
            Self::Copied(target, from) => {
                let paths = [from, target].map(|name| directory.join(name));
                run_program(
                    Command::new("cp")
                        .args(["--reflink=never", "--sparse=never"])
                        .args(paths),
                )?;
                Ok(syncfs(File::open(directory)?)?)
            }
        }
    }
}

/// Makes what a case needs, unless another case has.
fn make(case: &Case, directory: &Path, arguments: &Arguments, random: &mut fastrand::Rng) -> Result<()> {
    let bytes = arguments.mib << 20;
    let file = |name: &str| Some(directory.join(name)).filter(|path| case.needs(name) && !path.exists());
    if let Some(path) = file("file") {
        make_file(&path, bytes)?;
    }
    for path in ["pages", "other-pages"].into_iter().filter_map(file) {
        // What is written in pieces of a page is in the page cache in single pages.
        let made = File::create_new(path)?;
        let page = vec![b'x'; rustix::param::page_size()];
        (0..2 * bytes)
            .step_by(page.len())
            .try_for_each(|at| made.write_all_at(&page, at))?;
    }
    if file(UPDATES).is_some() {
        Workload::make(directory, INTEGERS, random.u64(..))?;
    }
    if let Some(path) = file("zeros") {
        let zeros = vec![0; 64 << 10];
        make_file(&path, bytes)?;
        let file = File::options().write(true).open(path)?;
        (0..bytes)
            .step_by(2 * zeros.len())
            .try_for_each(|at| file.write_all_at(&zeros, at))?;
    }
    if let Some(path) = file("one") {
        make_file(&path, 2 * bytes)?;
        // Not a clone, which would be equal unread.
        run_program(
            Command::new("cp")
                .arg("--reflink=never")
                .args([path, directory.join("other")]),
        )?;
    }
    let trees = directory.join("trees");
    if matches!(case.before, Before::Trees | Before::ColdTrees) && !trees.exists() {
        make_trees(&trees, arguments.files, random)?;
    }
    Ok(())
}

fn time(case: &Case, directory: &Path, programs: &Programs) -> Result<f64> {
    let mut command = Command::new((case.of)(programs));
    command.current_dir(directory).args(case.words).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(seconds)
}
