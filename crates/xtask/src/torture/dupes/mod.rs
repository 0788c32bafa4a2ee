//! Trials of `seekless dupes`, acting on duplicates and undoing that: the tree made, the commands run and disturbed, and what
//! is left judged.

mod contents;
mod others;
pub mod plan;
mod verdict;

use std::fmt::Write as _;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr};

use self::others::{Act, DECOYS, World, YARD};
use self::plan::{Attributes, MOVED, Made, Recovery, Route, Tree, TrialPlan};
use self::verdict::{Files, Found, FoundFile, Model, NOT_RESTORED};
use super::disturb::What;
use super::power::Stage;
use super::trial::{Ended, Ending, Fault, Site, TrialReport, check_ended, properties};
use crate::process::in_words;

/// What undo says where all journals are undone.
const NOTHING: &str = "there is nothing to undo";

struct Running<'a> {
    site: &'a Site<'a>,
    plan: &'a TrialPlan,
    /// What all commands said.
    told: String,
    faults: Vec<Fault>,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    site.begin()?;
    make_tree(&plan.tree, &site.directory).context("cannot make the tree")?;
    let world = World::new(site, &plan.tree);
    world.make_decoys().context("cannot make directories")?;
    let mut running = Running {
        site,
        plan,
        told: String::new(),
        faults: Vec::new(),
    };
    let before = files_in(&site.directory)?;
    running.search()?;
    let ended = running.run(&world, &before)?;
    let acts = world.into_acts();
    let others = acts.iter().filter(|act| act.answer.is_ok()).count();
    let mut report = TrialReport::of(&ended, &plan.disturbance, others);
    report.known_limit = running.judge(&before, &acts)?;
    report.story = running.told;
    report.faults.extend(running.faults);
    report.faults.dedup();
    if !report.faults.is_empty() {
        let _ = write!(report.story, "{}", ended.trace);
        for act in &acts {
            let _ = writeln!(report.story, "others: {} {act:?}", running.plan.named(act));
        }
        for (path, found) in files_in(&site.directory)? {
            let _ = writeln!(report.story, "now: {} {found:?}", path.display());
        }
    }
    Ok(report)
}

impl TrialPlan {
    /// What others acted on.
    fn named(&self, act: &Act) -> &str {
        match act.kind {
            others::Kind::RenameDirectory | others::Kind::ReplaceDirectory => &self.tree.directories[act.number],
            _ => &self.tree.entries[act.number].path,
        }
    }

    fn is_undisturbed(&self) -> bool {
        self.disturbance.is_none() && self.others.is_empty()
    }

    /// Nobody else is there, from beginning to end.
    fn is_calm(&self) -> bool {
        self.others.is_empty() && self.between.is_none()
    }

    /// Nothing but time was taken from the run.
    fn is_only_slowed(&self) -> bool {
        let are_delays = self
            .disturbance
            .injections
            .iter()
            .all(|one| matches!(one.what, What::Delay(_)));
        are_delays && self.others.is_empty() && self.disturbance.free_bytes.is_none()
    }
}

impl Running<'_> {
    fn dupes(&self, words: &[&str]) -> Command {
        let mut command = self.site.seekless();
        command.arg("dupes").args(words).current_dir(&self.site.directory);
        command.env("XDG_STATE_HOME", &self.site.state);
        command
    }

    /// Searches and acts at once.
    fn at_once(&self) -> Command {
        let mut command = self.dupes(&["--action", self.plan.command.action.word()]);
        command
            .args(self.rules())
            .args(&self.plan.command.options)
            .args(["--quiet", "--yes"]);
        command.args(&self.plan.command.search);
        command
    }

    fn rules(&self) -> Vec<String> {
        let rules = self.plan.command.rules.iter();
        rules.flat_map(|rule| ["--keep".to_owned(), rule.word()]).collect()
    }

    /// The report or plan of the search. Other trials left theirs there, and a plan replaces no report.
    fn found(&self) -> PathBuf {
        let is_plan = matches!(self.plan.command.route, Route::Plan);
        self.site.aside.join(if is_plan { "plan" } else { "report" })
    }

    /// Searches, where that is a command of its own: what changes from now on is found when acting.
    fn search(&mut self) -> Result<()> {
        let command = &self.plan.command;
        let file = self.found();
        let mut search = match command.route {
            Route::AtOnce => return Ok(()),
            Route::Report => {
                let mut search = self.dupes(&["--json"]);
                search.stdout(File::create(&file)?);
                search
            }
            Route::Plan => {
                let mut search = self.dupes(&["--action", command.action.word(), "--plan-file"]);
                search.arg(&file).args(self.rules()).args(&command.options);
                search
            }
        };
        search.args(&command.search);
        let ended = self.site.run(search, None)?;
        self.note("searched", &ended);
        Ok(())
    }

    fn act(&self) -> Command {
        let command = &self.plan.command;
        let file = self.found();
        match command.route {
            Route::AtOnce => self.at_once(),
            Route::Report => {
                let mut act = self.dupes(&["act", command.action.word(), "--quiet", "--yes", "--from"]);
                act.arg(file).args(self.rules()).args(&command.options);
                act
            }
            Route::Plan => {
                let mut act = self.dupes(&["act", "--quiet", "--yes", "--plan"]);
                // The plan says the others.
                let options = ["--busy", "--unsafe-owner", "--ignore-metadata"];
                act.arg(file)
                    .args(command.options.iter().filter(|option| options.contains(option)));
                act
            }
        }
    }

    /// Runs the command, with all that disturbs it, and what follows.
    fn run(&mut self, world: &World<'_>, before: &Files) -> Result<Ended> {
        let disturbance = &self.plan.disturbance;
        let ended = thread::scope(|scope| {
            let started = Instant::now();
            let disturb = |other| scope.spawn(move || world.disturb(other, disturbance.delayed_call(), started));
            let others: Vec<_> = self.plan.others.iter().map(disturb).collect();
            let ended = (|| {
                let command = self.site.traced(&disturbance.injections, self.act());
                let ended = self
                    .site
                    .filled(disturbance, || self.site.run_at(Stage::Run, command, disturbance.timed))?;
                self.note("ran", &ended);
                if !self.plan.others_stay {
                    world.end(true);
                    for other in others {
                        other.join().unwrap_or_else(|panic| resume_unwind(panic));
                    }
                    world.repair()?;
                    world.end(false);
                }
                self.check_run(before, &ended)?;
                if let Some(other) = &self.plan.between {
                    world.act_often(other);
                }
                self.recover()?;
                anyhow::Ok(ended)
            })();
            world.end(true);
            ended
        });
        world.repair().context("cannot give a directory its name")?;
        ended
    }

    /// Checks how a command ended, and notes what it said.
    fn note(&mut self, did: &str, ended: &Ended) {
        let _ = writeln!(self.told, "{did}: {}: {}", ended.status, ended.stderr.trim_end());
        self.faults.extend(check_ended(ended));
        // 143: SIGTERM. An error may be injected before the program is loaded.
        let is_loaded = !ended.stderr.contains("error while loading shared libraries");
        let is_known = |code: &i32| [0, 1, 2, 143].contains(code);
        if let Some(code) = ended.status.code().filter(|code| is_loaded && !is_known(code)) {
            self.faults.push(Fault::new("exit code", code.to_string()));
        }
    }

    /// Checks what the run did, where nothing but time was taken from it.
    fn check_run(&mut self, before: &Files, ended: &Ended) -> Result<()> {
        if self.plan.is_undisturbed() && ended.ending() != Ending::Success && ended.status.code() != Some(1) {
            self.faults.push(Fault::new("needless failure", ""));
        }
        if self.plan.is_only_slowed() && self.plan.disturbance.timed.is_none() {
            let now = files_in(&self.site.directory)?;
            let faults = self.model(before, &[]).check_acted(&now);
            self.faults.extend(faults);
        }
        Ok(())
    }

    /// Judges what is left in the end. Whether something was lost that is lost by nature.
    fn judge(&mut self, before: &Files, acts: &[Act]) -> Result<bool> {
        let now = files_in(&self.site.directory)?;
        let model = self.model(before, acts);
        let (mut faults, is_known) = model.check(&now);
        if self.plan.is_calm() {
            faults.extend(match self.plan.recovery {
                Recovery::Again => model.check_acted(&now),
                Recovery::Undo | Recovery::UndoTwice => model.check_restored(&now),
            });
        }
        if faults.iter().any(|fault| fault.kind == NOT_RESTORED) && self.told.contains(NOTHING) {
            faults.push(Fault::new("said to be undone", ""));
        }
        self.faults.extend(faults);
        Ok(is_known)
    }

    fn model<'m>(&'m self, before: &'m Files, acts: &'m [Act]) -> Model<'m> {
        Model {
            plan: self.plan,
            before,
            acts,
            told: &self.told,
            directory: &self.site.directory,
        }
    }

    /// Runs what follows.
    fn recover(&mut self) -> Result<()> {
        let recovering = |running: &Self| match running.plan.recovery {
            Recovery::Again => running.at_once(),
            Recovery::Undo | Recovery::UndoTwice => running.dupes(&["undo"]),
        };
        let injection = self.plan.recovery_injection;
        if injection.is_some() || self.site.power.is_some() {
            let command = self.site.traced(injection.as_slice(), recovering(self));
            let ended = self.site.run_at(Stage::Recovery, command, None)?;
            self.note("recovering, disturbed", &ended);
        }
        for _ in 0..if self.plan.recovery == Recovery::UndoTwice {
            2
        } else {
            1
        } {
            let command = recovering(self);
            let words = in_words(&command);
            let ended = self.site.run(command, None)?;
            self.note(&words, &ended);
            let may_fail = ended.stderr.contains(NOTHING);
            if self.plan.is_calm() && ended.status.code() == Some(2) && !may_fail {
                self.faults.push(Fault::new("cannot recover", words));
            }
        }
        Ok(())
    }
}

fn make_tree(tree: &Tree, directory: &Path) -> Result<()> {
    for name in [YARD, DECOYS, MOVED]
        .into_iter()
        .chain(tree.directories.iter().map(String::as_str))
    {
        fs::create_dir(directory.join(name))?;
    }
    for entry in &tree.entries {
        let path = directory.join(&entry.path);
        match &entry.made {
            Made::File { content, attributes } => {
                fs::write(&path, &tree.contents[*content].0)?;
                give(attributes, &path)?;
            }
            Made::Name(first) => fs::hard_link(directory.join(&tree.entries[*first].path), path)?,
            Made::Symlink(target) => symlink(target, path)?,
        }
    }
    Ok(())
}

fn give(attributes: &Attributes, path: &Path) -> Result<()> {
    if let Some(value) = attributes.extended {
        setxattr(path, "user.ours", &[value], XattrFlags::empty())?;
    }
    if attributes.owner != 0 {
        chown(path, Some(attributes.owner), None)?;
    }
    fs::set_permissions(path, Permissions::from_mode(attributes.mode))?;
    if let Some((seconds, more)) = attributes.modified {
        let since = Duration::from_secs(seconds.unsigned_abs());
        let whole = if seconds < 0 {
            UNIX_EPOCH - since
        } else {
            UNIX_EPOCH + since
        };
        let times = FileTimes::new().set_modified(whole + Duration::from_nanos(more.into()));
        File::open(path)?.set_times(times)?;
    }
    Ok(())
}

/// All that is in the directory of a trial, its journals apart.
fn files_in(directory: &Path) -> Result<Files> {
    let mut found = Files::new();
    for name in ["tree", MOVED, YARD, DECOYS] {
        read_into(&mut found, directory, &directory.join(name))?;
    }
    Ok(found)
}

fn read_into(found: &mut Files, base: &Path, directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        let one = if metadata.is_dir() {
            read_into(found, base, &path)?;
            Found::Directory
        } else if metadata.is_symlink() {
            let leads_to = match fs::canonicalize(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                leads_to => leads_to.ok(),
            };
            Found::Symlink {
                target: fs::read_link(&path)?,
                leads_to: leads_to.and_then(|path| Some(path.strip_prefix(base).ok()?.to_owned())),
            }
        } else {
            Found::File(FoundFile {
                inode: metadata.ino(),
                bytes: fs::read(&path)?,
                properties: properties(&path)?,
                modified: (metadata.mtime(), metadata.mtime_nsec()),
            })
        };
        found.insert(path.strip_prefix(base)?.to_owned(), one);
    }
    Ok(())
}
