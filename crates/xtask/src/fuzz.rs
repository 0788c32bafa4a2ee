//! `cargo xtask fuzz`: mutates untrusted input for a while, with the stable toolchain.
//!
//! The targets are a workspace of their own (`fuzz/`), because they are built with the compiler's coverage counters.
//! The flags for these work with stable compilers. Inputs found before are kept in `fuzz/corpus/`, inputs that broke
//! something in `fuzz/artifacts/`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::built::{cargo_command, root};
use crate::process::{capture, check_interrupt, is_installed, run as run_program};

/// The targets, each a file in `fuzz/targets/`. What some begin with is in `fuzz/seeds/`.
#[rustfmt::skip]
const TARGETS: [&str; 7] = ["run", "profile", "experiment", "method", "journal", "updates-binary", "updates-lines"];

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
    let targets = arguments
        .target
        .as_deref()
        .map_or(TARGETS.to_vec(), |target| vec![target]);
    for reason in fuzz(&targets, arguments.seconds)? {
        println!("skipped: {reason}");
    }
    Ok(())
}

/// Fuzzes all targets for this many seconds each; returns what is skipped and why.
pub fn briefly(seconds: u32) -> Result<Vec<String>> {
    fuzz(&TARGETS, seconds)
}

fn fuzz(targets: &[&str], seconds: u32) -> Result<Vec<String>> {
    let has_compiler = env::var_os("CXX").is_some() || ["c++", "g++", "clang++"].into_iter().any(is_installed);
    if !cfg!(target_os = "linux") || !has_compiler {
        return Ok(vec!["fuzzing: libFuzzer needs Linux and a C++ compiler".to_owned()]);
    }
    let directory = fs::canonicalize(root().join("fuzz"))?;
    let programs = build(&directory)?;
    let fuzz_one = |target: &str| {
        let corpus = directory.join("corpus").join(target);
        let artifacts = directory.join("artifacts").join(target);
        for directory in [&corpus, &artifacts] {
            let made = fs::create_dir_all(directory);
            made.with_context(|| format!("cannot make {}", directory.display()))?;
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
    Ok(Vec::new())
}

fn fuzz_one(program: &Path, target: &str, corpus: &Path, artifacts: &Path, seconds: u32) -> Result<()> {
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(artifacts);
    prefix.push("/");
    let log = artifacts.with_extension("log");
    let mut fuzzing = Command::new(program);
    fuzzing.args("-timeout=20 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1".split(' '));
    fuzzing.arg(format!("-max_total_time={seconds}"));
    fuzzing.arg(prefix).arg(corpus);
    let ended = run_program(fuzzing.stderr(fs::File::create(&log)?));
    let told = fs::read_to_string(&log).unwrap_or_default();
    if let Err(error) = ended {
        check_interrupt()?;
        eprintln!("{told}");
        let again = format!("{} with the file named above shows it again", program.display());
        return Err(error).context(format!("{target}: an input broke it; {again}"));
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
    let mut cargo = cargo_command();
    for variable in ["CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR"] {
        cargo.env_remove(variable);
    }
    cargo.env("RUSTFLAGS", FLAGS);
    cargo.args(["build", "--quiet", "--target", host]);
    run_program(cargo.current_dir(directory))?;
    Ok(directory.join("target").join(host).join("debug"))
}

/// Puts real documents into an empty corpus: mutations of these reach more code than noise.
fn seed(target: &str, corpus: &Path) -> Result<()> {
    if fs::read_dir(corpus)?.next().is_some() {
        return Ok(());
    }
    if target == "profile" {
        let run = fs::read(root().join("crates/record/testdata/full-run.json"))?;
        for profile in seekless_results::digest(&[seekless_record::from_json(&run)?]) {
            fs::write(corpus.join("seed"), profile.to_text()?)?;
        }
    }
    let documents: &[&str] = match target {
        "run" => &["crates/record/testdata", "crates/record/testdata/runs"],
        "experiment" => &["experiments", "experiments/peers"],
        _ => &[],
    };
    let own = format!("fuzz/seeds/{target}");
    for directory in documents.iter().chain([&&*own]) {
        for entry in fs::read_dir(root().join(directory)).into_iter().flatten() {
            let path = entry?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                fs::copy(&path, corpus.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
            }
        }
    }
    Ok(())
}
