//! A trial of copying a tree: the copy is killed, meets errors or a full disk, or the power fails; then it goes on. rsync(1) finds no
//! difference at the end, no file under its own name was ever torn by a kill, and nothing is left beside the copy.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::command::TrialCommand;
use super::plan::TrialPlan;
use super::power::Stage;
use super::site::{Fault, Site, TrialReport, check_ended};
use super::tree::{FileTree, TreeEntry, make_tree, read_tree};
use crate::process::capture;

/// Calls of a copy, and how many of each.
pub const CALLS: [(&str, u32); 10] = [
    ("openat", 120),
    ("linkat", 40),
    ("copy_file_range", 30),
    ("pwrite64", 40),
    ("mkdirat", 8),
    ("fchmod", 20),
    ("utimensat", 40),
    ("symlinkat", 4),
    ("renameat", 4),
    ("unlinkat", 2),
];

/// Copying to a new place or over an older copy.
pub fn draw(rng: &mut Rng) -> TrialCommand {
    let words = [
        "cp -T SOURCE copy",
        "cp -T --durable SOURCE copy",
        "cp -T --fsync SOURCE copy",
        "cp -T --verify SOURCE copy",
    ][rng.usize(..4)];
    let label = format!(
        "{}{}",
        words.replace(" SOURCE copy", ""),
        [", new", ", over"][rng.usize(..2)]
    );
    TrialCommand::of_file(&label, words.to_owned())
}

pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    site.begin()?;
    let (source, copy) = (site.aside.join("source"), site.directory.join("copy"));
    // btrfs has room for new files only after it wrote what the last trial removed.
    rustix::fs::syncfs(File::open(&site.directory)?)?;
    fs::create_dir(&source)?;
    make_tree(&plan.tree, plan.is_sparse, &source).context("cannot make the source")?;
    let words = plan.command.run.replace("SOURCE", &source.display().to_string());
    let command = |injections: &[_]| {
        let mut command = site.seekless(injections);
        command.args(words.split(' '));
        command
    };
    let wanted = read_tree(&source)?;
    if plan.command.label.ends_with("over") {
        // An older copy, whose files are shorter.
        let ended = site.run(command(&[]), None)?;
        ensure!(ended.status.success(), "cannot copy: {}", ended.stderr);
        for (path, entry) in &wanted {
            if matches!(entry, TreeEntry::File(_)) && fastrand::bool() {
                fs::write(copy.join(path), b"older")?;
            }
        }
    }

    let disturbance = &plan.disturbance;
    let ended = site.filled(disturbance.free_bytes, || {
        site.run_at(Stage::Run, command(&disturbance.injections), disturbance.timed)
    })?;
    let mut faults = check_ended(&ended);
    let is_done = ended.status.success();
    if plan.power.is_none() {
        faults.extend(torn(&wanted, &copy));
    }
    let is_durable = plan.power.is_none() || plan.command.has("--durable") || plan.command.has("--fsync");
    if is_done && is_durable {
        let differences = differences(&source, &copy)?;
        if !differences.is_empty() {
            faults.push(Fault::new("done, but differs", differences));
        }
    }
    let again = site.run(command(&[]), None)?;
    let story = format!(
        "{words}: {}\n{}again: {}\n{}",
        ended.status, ended.stderr, again.status, again.stderr
    );
    faults.extend(check_ended(&again));
    if !again.status.success() {
        faults.push(Fault::new("does not go on", again.stderr.clone()));
    }
    let differences = differences(&source, &copy)?;
    if !differences.is_empty() {
        faults.push(Fault::new("went on, but differs", differences));
    }
    let expected = ["copy", super::tree::STATE].map(Into::into);
    for entry in fs::read_dir(&site.directory)? {
        let name = entry?.file_name();
        if !expected.contains(&name) {
            faults.push(Fault::new("left behind", name.to_string_lossy()));
        }
    }
    let counts = [
        1,
        usize::from(is_done),
        usize::from(disturbance.timed.is_some()),
        0,
        0,
        disturbance.injections.len(),
        usize::from(disturbance.free_bytes.is_some()),
        usize::from(!faults.is_empty()),
    ];
    Ok(TrialReport { counts, faults, story })
}

/// Files of the copy that are neither whole nor older.
fn torn(wanted: &FileTree, copy: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, entry) in wanted {
        if let TreeEntry::File(file) = entry
            && let Ok(bytes) = fs::read(copy.join(path))
            && bytes[..] != file.bytes[..]
            && bytes != b"older"
        {
            faults.push(Fault::new("torn", path.display().to_string()));
        }
    }
    faults
}

/// What rsync(1) would change, by all bytes and all metadata.
fn differences(source: &Path, copy: &Path) -> Result<String> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXcn", "--delete", "--itemize-changes"]);
    rsync.arg(source.join("")).arg(copy.join(""));
    capture(&mut rsync)
}
