//! Every method of the 2014 document's Linux lists runs in the lab, cold and warm, or the reason is given; methods of
//! reading also read files with holes.
//!
//! In a temporary directory, or in each of the directories of `SEEKLESS_TEST_DIRS` (separated by colons). The methods
//! that ran, and why others did not, are printed: `--nocapture` shows them.

#![cfg(target_os = "linux")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use seekless_engine::method::ALIASES;
use seekless_engine::{Method, Operation};
use seekless_lab::experiment::{ContestPlan, Experiment, Size};
use seekless_lab::trial::LaunchStop;
use seekless_lab::{Bench, Event, Kernel, RunWatch};
use seekless_record::{Cache, DropScope, EntryVerdict, Run, Target};
use seekless_results::title;

use common::disks::directories;

const SIZE_BYTES: u64 = 1 << 20;

/// The system may page something out between a trial's preparation and its clock. Such a trial is marked invalid, and
/// the lab measures again; a method that is never valid is an error.
const ATTEMPTS: usize = 3;

struct Silent;

impl RunWatch for Silent {
    fn event(&mut self, _: &Event<'_>) {}
}

/// The methods of the lists for Linux.
fn listed(operation: Operation) -> Vec<Method> {
    let mut methods = Vec::new();
    for alias in ALIASES
        .iter()
        .filter(|alias| alias.document == 2014 && alias.listed != "OS X")
    {
        let method: Method = alias.method.parse().expect("aliases name methods");
        if method.operation() == operation && !methods.contains(&method) {
            methods.push(method);
        }
    }
    assert!(!methods.is_empty(), "the lists have nothing to {operation}");
    methods
}

fn plan(operation: Operation, caches: &[Cache], target: Target) -> ContestPlan {
    let methods = listed(operation).into_iter().map(Into::into).collect();
    let mut plan = ContestPlan::of(operation, methods, Size::Bytes(SIZE_BYTES));
    plan.caches = caches.to_vec();
    plan.common.target = target;
    plan
}

fn run(directory: &Path, seed: u64) -> Run {
    let states = [Cache::Cold, Cache::Warm];
    let mut holes = plan(Operation::Read, &states, Target::Fresh);
    holes.layouts = vec!["832K hole, 64K data, 64K hole, 64K zeros".parse().expect("a layout")];
    holes.common.kernel = Kernel::Histogram.to_string();
    let experiment = Experiment {
        name: "lists-2014".to_owned(),
        about: "The Linux lists of the 2014 document".to_owned(),
        contests: vec![
            plan(Operation::Read, &states, Target::Fresh),
            plan(Operation::Write, &[Cache::None], Target::Fresh),
            plan(Operation::Write, &states, Target::Overwrite),
            plan(Operation::Copy, &states, Target::Fresh),
            holes,
        ],
        published: Vec::new(),
        columns: Vec::new(),
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_seekless"));
    let bench = Bench {
        rounds: Some(1),
        drop: Some(DropScope::File),
        ..Bench::new(vec![experiment], vec![directory.to_owned()], program, seed)
    };
    seekless_lab::run(&bench, &LaunchStop::default(), &mut Silent)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
}

/// The results of the entries in all attempts, by contest and method.
#[derive(Default)]
struct Found {
    measured: BTreeSet<String>,
    unavailable: BTreeMap<String, String>,
    wrong: BTreeMap<String, String>,
}

impl Found {
    fn add(&mut self, run: &Run) {
        for (index, contest) in run.contests.iter().enumerate() {
            for (entry, description) in contest.entries.iter().enumerate() {
                let name = format!("{}: {}", title(contest), description.name());
                let mut trials = run
                    .trials
                    .iter()
                    .filter(|trial| (trial.contest, trial.entry) == (index, entry));
                match &description.verdict {
                    EntryVerdict::Unavailable { why } => {
                        self.unavailable.insert(name, why.clone());
                    }
                    verdict if verdict.is_measured() && trials.clone().any(|trial| trial.valid) => {
                        self.measured.insert(name);
                    }
                    verdict if verdict.is_measured() => {
                        let why = trials.find_map(|trial| trial.invalid.clone());
                        self.wrong.insert(name, why.unwrap_or_else(|| "no trial".to_owned()));
                    }
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
        self.wrong.retain(|name, _| !self.measured.contains(name));
    }

    fn print(&self, file_system: &str) {
        println!("{file_system}: {} measured", self.measured.len());
        let mut reasons = BTreeMap::<&str, Vec<&str>>::new();
        for (name, why) in &self.unavailable {
            reasons.entry(why).or_default().push(name);
        }
        for (why, names) in reasons {
            println!("{file_system}: {} not: {why}", names.len());
            for name in names {
                println!("    {name}");
            }
        }
    }
}

/// A storage is identified by what blkid(8) reads from its device.
fn check_identity(run: &Run) {
    let id = run.storages[0].id.as_ref().expect("a new run knows its storage");
    let (Some(uuid), Some(device)) = (&id.uuid, id.devices.first()) else {
        println!("{}: skipped: it tells no UUID, or has no device", id.file_system);
        return;
    };
    let mut blkid = Command::new("blkid");
    let asked = blkid.args(["-s", "UUID", "-o", "value"]);
    match asked.arg(format!("/dev/{}", device.name)).output() {
        Ok(answer) if answer.status.success() => {
            assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), uuid, "{id:?}");
            println!("{}: UUID {uuid}", id.file_system);
        }
        other => println!("{}: skipped: blkid: {other:?}", id.file_system),
    }
}

#[test]
fn methods_2014_run_on_each_file_system_or_say_why_not() {
    for directory in directories() {
        let mut found = Found::default();
        let mut file_system = String::new();
        for attempt in 0..ATTEMPTS {
            let run = run(directory.path(), attempt as u64);
            file_system.clone_from(&run.storages[0].file_system);
            check_identity(&run);
            found.add(&run);
            if found.wrong.is_empty() {
                break;
            }
        }
        found.print(&file_system);
        assert!(!found.measured.is_empty(), "{file_system}: nothing was measured");
        assert!(
            found.wrong.is_empty(),
            "{file_system}: never valid in {ATTEMPTS} attempts: {:#?}",
            found.wrong
        );
    }
}
