//! `cargo xtask fuzz`: mutates untrusted input for a while, with the stable toolchain.
//!
//! The targets are a workspace of their own (`fuzz/`), because they are built with the compiler's coverage counters.
//! The flags for these work with stable compilers. Inputs found before are kept in `fuzz/corpus/`, inputs that broke
//! something in `fuzz/artifacts/`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use seekless::Method;
use seekless::method::{MECHANISMS, variants};
use seekless::update::{Batch, Commit, Safety, StepKind, Watch, WatchedStep, commit_watched, journal_path};

use crate::built::{cargo_command, root};
use crate::process::{capture, check_interrupt, is_installed, run as run_program};

/// The targets, each a file in `fuzz/targets/`.
const TARGETS: [&str; 7] = [
    "run",
    "profile",
    "experiment",
    "method",
    "journal",
    "updates-binary",
    "updates-lines",
];

/// Flags that show libFuzzer which code an input reaches.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
                     -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// How long to look, and where.
#[derive(Args)]
pub struct Arguments {
    /// Seconds for each target
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only this target
    #[arg(long, value_parser = TARGETS)]
    target: Option<String>,
}

/// Fuzzes the targets.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(reason) = why_not_here() {
        bail!("{reason}");
    }
    let targets = TARGETS.into_iter();
    let chosen = targets.filter(|name| arguments.target.as_ref().is_none_or(|target| target == name));
    fuzz(&chosen.collect::<Vec<_>>(), arguments.seconds)
}

/// Fuzzes all targets for this many seconds each; returns what is skipped and why.
pub fn briefly(seconds: u32) -> Result<Vec<String>> {
    if let Some(reason) = why_not_here() {
        return Ok(vec![format!("fuzzing: {reason}")]);
    }
    fuzz(&TARGETS, seconds)?;
    Ok(Vec::new())
}

fn why_not_here() -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        return Some("set up for Linux only");
    }
    let compiler = env::var_os("CXX").is_some() || ["c++", "g++", "clang++"].into_iter().any(is_installed);
    (!compiler).then_some("libFuzzer needs a C++ compiler")
}

fn fuzz(targets: &[&str], seconds: u32) -> Result<()> {
    let directory = fs::canonicalize(root().join("fuzz"))?;
    let programs = build(&directory)?;
    let fuzz_one = |target: &str| {
        let corpus = directory.join("corpus").join(target);
        let artifacts = directory.join("artifacts").join(target);
        for directory in [&corpus, &artifacts] {
            fs::create_dir_all(directory)
                .with_context(|| format!("{}: making the directory failed", directory.display()))?;
        }
        seed(target, &corpus)?;
        fuzz_one(&programs.join(target), target, &corpus, &artifacts, seconds)
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for together in targets.chunks(processors) {
        std::thread::scope(|scope| {
            let running: Vec<_> = together.iter().map(|target| scope.spawn(|| fuzz_one(target))).collect();
            let mut running = running.into_iter();
            running.try_for_each(|one| one.join().map_err(|_| anyhow!("a thread panicked"))?)
        })?;
    }
    Ok(())
}

fn fuzz_one(program: &Path, target: &str, corpus: &Path, artifacts: &Path, seconds: u32) -> Result<()> {
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(artifacts);
    prefix.push("/");
    let log = artifacts.with_extension("log");
    let mut fuzzing = Command::new(program);
    fuzzing
        .args([
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-verbosity=0",
            "-print_final_stats=1",
        ])
        .arg(format!("-max_total_time={seconds}"))
        .arg(prefix)
        .arg(corpus);
    let ended = run_program(fuzzing.stderr(fs::File::create(&log)?));
    let told = fs::read_to_string(&log).unwrap_or_default();
    if let Err(error) = ended {
        check_interrupt()?;
        eprintln!("{told}");
        return Err(error).context(format!(
            "{target}: an input broke it; {} with the file named above shows it again",
            program.display()
        ));
    }
    let mut lines = told.lines();
    let inputs = lines.find_map(|line| line.strip_prefix("stat::number_of_executed_units: "));
    let inputs = inputs.unwrap_or("some").trim();
    println!("{target}: {inputs} inputs in {seconds} s, none broke it");
    Ok(())
}

/// Builds the targets, and returns their directory.
fn build(directory: &Path) -> Result<PathBuf> {
    let version = capture(Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    // With an explicit target, the flags do not apply to build scripts.
    run_program(
        cargo_command()
            .current_dir(directory)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_TARGET_DIR")
            .env("RUSTFLAGS", FLAGS)
            .args(["build", "--quiet", "--target", host]),
    )?;
    Ok(directory.join("target").join(host).join("debug"))
}

/// Puts real documents into an empty corpus: mutations of these reach more code than noise.
fn seed(target: &str, corpus: &Path) -> Result<()> {
    if fs::read_dir(corpus)?.next().is_some() {
        return Ok(());
    }
    let root = root();
    let seeds: Vec<Vec<u8>> = match target {
        "run" => runs(&root.join("crates/record/testdata"))?,
        "profile" => {
            let run = fs::read(root.join("crates/record/testdata/full-run.json"))?;
            let profiles = seekless_results::digest(&[seekless_record::from_json(&run)?]);
            let texts = profiles.iter().map(|profile| profile.to_text().map(String::into_bytes));
            texts.collect::<std::result::Result<_, _>>()?
        }
        "experiment" => {
            let [own, peers] = ["experiments", "experiments/peers"].map(|directory| files(&root.join(directory)));
            [own?, peers?].concat()
        }
        "journal" => journals()?,
        "updates-binary" => {
            let (one, none) = ([4_u32.to_le_bytes(), *b"four"].concat(), 0_u32.to_le_bytes());
            let two = [&7_u64.to_le_bytes()[..], &one, &9_u64.to_le_bytes(), &none].concat();
            vec![Vec::new(), two]
        }
        "updates-lines" => ["text", "hex", "base64"]
            .map(|form| {
                format!("{{\"offset\": 4000, \"{form}\": \"2a2b\"}}\n\n{{\"{form}\": \"\", \"offset\":0}}").into()
            })
            .to_vec(),
        _ => {
            // One of each mechanism with no option, and one with all it takes.
            let ends = MECHANISMS
                .iter()
                .flat_map(|mechanism| [variants(mechanism).next(), variants(mechanism).last()]);
            ends.flatten().map(|method| method.to_string().into_bytes()).collect()
        }
    };
    for (index, seed) in seeds.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{index}")), seed)?;
    }
    Ok(())
}

/// Copies the journal of an update to this path when the updated file is written to.
struct CopiedJournal(PathBuf);

impl Watch for CopiedJournal {
    fn before(&self, step: &WatchedStep<'_>) -> std::io::Result<()> {
        if step.kind == StepKind::Write {
            fs::copy(journal_path(step.path), &self.0)?;
        }
        Ok(())
    }
}

fn journals() -> Result<Vec<Vec<u8>>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("file");
    let how = Commit::by(Method::known("update/sync"))
        .safety(Safety::Journal)
        .growing();
    let copied = CopiedJournal(directory.path().join("journal"));
    let mut journals = Vec::new();
    for lengths in [&[1][..], &[4, 0, 100], &[300_000]] {
        fs::write(&path, vec![0; 400_000])?;
        let mut batch = Batch::new();
        for (at, &length) in lengths.iter().enumerate() {
            batch.push(at as u64 * 1000, &vec![1; length])?;
        }
        commit_watched(&path, &batch.resolve(), &how, &copied)?;
        journals.push(fs::read(&copied.0)?);
    }
    Ok(journals)
}

/// Whole runs, a small one, and lists of changes to the first.
fn runs(directory: &Path) -> Result<Vec<Vec<u8>>> {
    let full = fs::read(directory.join("full-run.json"))?;
    let mut run = seekless_record::from_json(&full)?;
    run.trials.clear();
    run.contests.truncate(1);
    let mut runs = [vec![serde_json::to_vec(&run)?, full], files(&directory.join("runs"))?].concat();
    runs.extend((0..16_u8).map(|what| [what; 8].to_vec()));
    Ok(runs)
}

/// The files in a directory.
fn files(directory: &Path) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            found.push(fs::read(path)?);
        }
    }
    Ok(found)
}
