//! The cost of each method, as counts that do not depend on the state of the machine: system calls by kind, and instructions.
//!
//! `crates/engine/tests/cost.json` has them for some thirty methods on a warm file of 4 MiB on ext4. It is a failure if the
//! number of calls differs, or that of instructions by more than [`TOLERANCE`] and [`TOLERANCE_INSTRUCTIONS`]. After an
//! intended change, `cargo xtask cost --record` counts the methods of the file again; a new one is a key with an empty object.
//! The counts are those of the example `once` minus those of `once nothing`. Instructions are those in user space, counted
//! by valgrind, whose processor is the same everywhere; they are compared only with the compiler that the file names.
//!
//! Not here: seconds. They are compared in pairs (`experiments/peers/before.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::built::{beside, cargo_command, root};
use crate::filesystems::{Matrix, TestFileSystem};
use crate::process::{capture, check_interrupt, is_installed, run as run_program};

/// Whether to compare the counts with the file, or to write it.
#[derive(Args)]
pub struct Arguments {
    /// Write the counts to the file
    #[arg(long)]
    record: bool,
}

const FILE_BYTES: u64 = (4 << 20) + 123;
/// For methods that skip holes, every other piece of this many bytes is a hole.
const PIECE_BYTES: usize = 256 << 10;
/// How far instructions may differ.
const TOLERANCE: f64 = 0.02;
/// By how many they may always differ: the length of a path and addresses of memory change some hundred instructions.
const TOLERANCE_INSTRUCTIONS: u64 = 500;
/// Calls for starting and waiting for threads; their number depends on scheduling.
const OF_THREADS: &str = "exit futex gettid mprotect prctl restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn \
                          sched_getaffinity sched_yield set_robust_list";
/// The call that starts a thread. With threads, instructions and the calls below vary from run to run.
const STARTS_THREAD: &str = "clone3";
const UNSTEADY_WITH_THREADS: [&str; 5] = [INSTRUCTIONS, "madvise", "mmap", "munmap", "sigaltstack"];
/// A write through a ring may be done at once or by a thread of the kernel's, for which the program then waits.
const UNSTEADY_WHEN_WRITING: &str = "io_uring_enter";
/// How often calls are counted; counts that vary are written as `null`.
const COUNTS: usize = 3;

/// The kind of a count that is not one of calls.
const INSTRUCTIONS: &str = "instructions";

/// The cost of a method: counts by kind of call; `None` if the count differs from run to run.
type Cost = BTreeMap<String, Option<i64>>;

/// Counts, and compares the counts with the file or writes it.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.record {
        let now = measure()?.map_err(anyhow::Error::msg)?;
        let text = serde_json::to_string_pretty(&now)? + "\n";
        return fs::write(file(), text).context("cannot write the file of costs");
    }
    for reason in check()? {
        println!("skipped: {reason}");
    }
    Ok(())
}

/// Compares the counts with the file. Returns what was skipped.
pub fn check() -> Result<Vec<String>> {
    let now = match measure()? {
        Ok(now) => now,
        Err(reason) => return Ok(vec![format!("what methods cost: {reason}")]),
    };
    let before = RecordedCosts::read()?;
    if before.libc != now.libc {
        return Ok(vec![format!("what methods cost: it was recorded with {}", before.libc)]);
    }
    let mut skipped = Vec::new();
    let is_comparable = before.compiler == now.compiler;
    if !is_comparable {
        skipped.push(format!("instructions: they were recorded with {}", before.compiler));
    }
    if !now.costs.values().any(|cost| cost.contains_key(INSTRUCTIONS)) {
        skipped.push("instructions: valgrind is not installed".to_owned());
    }
    let mut changes = Vec::new();
    for (method, was) in &before.costs {
        let is = now.costs.get(method);
        let is = is.with_context(|| format!("{method} is not measured any more"))?;
        changes.extend(changed(method, was, is, is_comparable));
    }
    ensure!(
        changes.is_empty(),
        "methods cost more or less than before:\n{}\nwhere that is meant: cargo xtask cost --record",
        changes.join("\n")
    );
    println!("{} methods cost what they did", before.costs.len());
    Ok(skipped)
}

fn file() -> PathBuf {
    root().join("crates/engine/tests/cost.json")
}

/// A line for each kind of call that changed, and for the instructions.
fn changed(method: &str, was: &Cost, is: &Cost, compare_instructions: bool) -> Vec<String> {
    let mut changes = Vec::new();
    let kinds: BTreeSet<_> = was.keys().chain(is.keys()).collect();
    for kind in kinds {
        let is_call = kind != INSTRUCTIONS;
        let count = |cost: &Cost| cost.get(kind).copied().unwrap_or(is_call.then_some(0));
        let (Some(was), Some(is)) = (count(was), count(is)) else {
            continue;
        };
        let ratio = is as f64 / was as f64;
        let is_beyond = (ratio - 1.0).abs() > TOLERANCE && was.abs_diff(is) > TOLERANCE_INSTRUCTIONS;
        if is_call && was != is {
            changes.push(format!("{method}: {kind}: {is} instead of {was}"));
        } else if !is_call && compare_instructions && is_beyond {
            changes.push(format!("{method}: {is} instructions instead of {was} ({ratio:.3}x)"));
        }
    }
    changes
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct RecordedCosts {
    compiler: String,
    libc: String,
    costs: BTreeMap<String, Cost>,
}

impl RecordedCosts {
    fn read() -> Result<Self> {
        serde_json::from_slice(&fs::read(file())?).context("cannot read the file of costs")
    }
}

/// Measures all methods of the file; or the reason why they cannot be.
fn measure() -> Result<Result<RecordedCosts, String>> {
    if !is_installed("strace") {
        return Ok(Err("strace is not installed".to_owned()));
    }
    let matrix = Matrix::mount(&[TestFileSystem::Ext4])?;
    let Some(mounted) = matrix.mounted.first() else {
        return Ok(Err(matrix.skipped.join("; ")));
    };
    run_program(cargo_command().args(["build", "--release", "-p", "seekless-engine", "--example", "once"]))?;
    let once = Once {
        program: beside("release/examples/once")?,
        directory: mounted.point.clone(),
        has_valgrind: is_installed("valgrind"),
        bytes: (0..FILE_BYTES).map(|at| (at / 7 + at / 65_521) as u8 | 1).collect(),
    };
    let compiler = capture(Command::new("rustc").arg("--version"))?;
    let libc = capture(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let nothing = once.cost("nothing")?;
    let mut costs = BTreeMap::new();
    for method in RecordedCosts::read()?.costs.into_keys() {
        check_interrupt()?;
        let cost = once.cost(&method).with_context(|| format!("measuring {method}"))?;
        let cost = beyond(&method, cost, &nothing);
        costs.insert(method, cost);
    }
    Ok(Ok(RecordedCosts {
        compiler: compiler.trim().to_owned(),
        libc: libc.trim().to_owned(),
        costs,
    }))
}

/// The cost of a method beyond that of `nothing`.
fn beyond(method: &str, cost: Cost, nothing: &Cost) -> Cost {
    let has_threads = cost.contains_key(STARTS_THREAD);
    let writes = !method.starts_with("read/") && !method.starts_with("compare/");
    let more = cost.into_iter().map(|(kind, count)| {
        let is_unsteady = (has_threads && UNSTEADY_WITH_THREADS.contains(&kind.as_str()))
            || (writes && kind == UNSTEADY_WHEN_WRITING);
        let of_nothing = nothing.get(&kind).copied().unwrap_or(Some(0));
        let steady = count.zip(of_nothing).filter(|_| !is_unsteady);
        (kind, steady.map(|(all, of_nothing)| all - of_nothing))
    });
    more.filter(|(_, count)| *count != Some(0)).collect()
}

/// The program whose calls and instructions are counted.
struct Once {
    program: PathBuf,
    directory: PathBuf,
    has_valgrind: bool,
    /// The content of the files.
    bytes: Vec<u8>,
}

impl Once {
    fn cost(&self, method: &str) -> Result<Cost> {
        let counts = (0..COUNTS).map(|_| self.calls(method)).collect::<Result<Vec<_>>>()?;
        let kinds: BTreeSet<_> = counts.iter().flat_map(BTreeMap::keys).collect();
        let steady = |kind: &String| {
            let first = counts[0].get(kind).copied();
            first.filter(|_| counts.iter().all(|other| other.get(kind).copied() == first))
        };
        let mut cost: Cost = kinds.into_iter().map(|kind| (kind.clone(), steady(kind))).collect();
        if self.has_valgrind {
            cost.insert(INSTRUCTIONS.to_owned(), Some(self.instructions(method)?));
        }
        Ok(cost)
    }

    /// The files that the method needs, and the arguments that name them.
    fn prepare(&self, method: &str) -> Result<Vec<PathBuf>> {
        let [one, other] = ["one", "other"].map(|name| self.directory.join(name));
        for path in [&one, &other] {
            let _ = fs::remove_file(path);
        }
        if method.starts_with("write") {
            return Ok(vec![one]);
        }
        let file = File::create(&one)?;
        file.set_len(FILE_BYTES)?;
        for (at, piece) in self.bytes.chunks(PIECE_BYTES).enumerate() {
            let is_hole = at % 2 == 0 && method.contains("holes=skip");
            if !is_hole {
                file.write_all_at(piece, (at * PIECE_BYTES) as u64)?;
            }
        }
        file.sync_all()?;
        if method.starts_with("compare") {
            fs::write(&other, &self.bytes)?;
            File::open(&other)?.sync_all()?;
        }
        Ok(vec![one, other])
    }

    fn calls(&self, method: &str) -> Result<BTreeMap<String, i64>> {
        let table = self.directory.join("calls");
        let paths = self.prepare(method)?;
        let mut strace = Command::new("strace");
        strace.args(["-f", "-c", "-U", "name,calls", "-o"]).arg(&table);
        capture(strace.arg(&self.program).arg(method).args(paths))?;
        let mut calls = BTreeMap::new();
        for line in fs::read_to_string(&table)?.lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(Ok(count))) = (words.next(), words.next().map(str::parse::<i64>))
                && name != "total"
                && OF_THREADS.split(' ').all(|of_threads| of_threads != name)
            {
                calls.insert(name.to_owned(), count);
            }
        }
        Ok(calls)
    }

    fn instructions(&self, method: &str) -> Result<i64> {
        let log = self.directory.join("instructions");
        let log_file = format!("--log-file={}", log.display());
        let out_file = format!("--cachegrind-out-file={}.counts", log.display());
        let paths = self.prepare(method)?;
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=cachegrind", "--cache-sim=no", &log_file, &out_file]);
        capture(valgrind.arg(&self.program).arg(method).args(paths))?;
        let log = fs::read_to_string(&log)?;
        let (_, count) = log
            .lines()
            .find_map(|line| line.split_once("refs:"))
            .unwrap_or_default();
        let digits: String = count.chars().filter(char::is_ascii_digit).collect();
        digits.parse().with_context(|| format!("valgrind told no count: {log}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(counts: &[(&str, Option<i64>)], instructions: Option<i64>) -> Cost {
        let all = counts.iter().copied().chain([("instructions", instructions)]);
        all.map(|(kind, count)| (kind.to_owned(), count)).collect()
    }

    #[test]
    fn a_call_more_and_instructions_beyond_the_tolerance_are_told() {
        let with = |instructions, reads| {
            let calls = [("mmap", None), ("openat", Some(1)), ("read", Some(reads))];
            cost(&calls, Some(instructions))
        };
        let was = &with(100_000, 3);
        let few = |instructions| cost(&[], Some(instructions));
        assert_eq!(changed("a", &few(1000), &few(1500), true), [""; 0]);
        assert_eq!(changed("a", &few(1000), &few(499), true).len(), 1);
        assert_eq!(changed("a", was, &with(101_900, 3), true), [""; 0]);
        let more = "a: 102100 instructions instead of 100000 (1.021x)";
        assert_eq!(changed("a", was, &with(102_100, 3), true), [more]);
        assert_eq!(changed("a", was, &with(500_000, 3), false), [""; 0]);
        assert_eq!(changed("a", was, &with(100_000, 4), true), ["a: read: 4 instead of 3"]);
        assert_eq!(changed("a", was, &Cost::default(), true).len(), 2);
    }

    #[test]
    fn what_a_method_costs_beyond_nothing_is_steady_or_null() {
        let nothing = cost(&[("brk", Some(3)), ("mmap", Some(10))], Some(500));
        let counts = [("brk", Some(3)), ("mmap", Some(12)), ("poll", None), ("read", Some(2))];
        let counted = cost(&counts, Some(700));
        let more = cost(&[("mmap", Some(2)), ("poll", None), ("read", Some(2))], Some(200));
        assert_eq!(beyond("m", counted, &nothing), more);
        let threaded = cost(&[("clone3", Some(1)), ("mmap", Some(12))], Some(700));
        let more = cost(&[("clone3", Some(1)), ("mmap", None)], None);
        assert_eq!(beyond("m", threaded, &nothing), more);
    }

    #[test]
    fn every_key_of_the_file_is_a_method() {
        let recorded = RecordedCosts::read().unwrap();
        assert!(recorded.costs.len() > 30);
        for method in recorded.costs.keys() {
            assert!(method.parse::<seekless_engine::Method>().is_ok(), "{method}");
        }
    }
}
