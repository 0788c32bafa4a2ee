//! One trial: the files made, the commands run and disturbed, what follows, and what is left judged.
//!
//! Not here: what must hold (`verdict`).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::mem::take;
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::copy;
use super::disturb::{Act, Injection};
use super::draw::Patch;
use super::origins::UpdatesPresent;
use super::plan::{Recovery, TrialPlan};
use super::power::Stage;
use super::site::{Ended, Fault, Site, TrialReport, check_ended};
use super::store;
use super::tree::{FileTree, TREE, file, files, make_tree, read_tree};
use super::verdict::{Evidence, KEPT_BOTH, KNOWN_LIMIT, NOT_RESTORED, check_left};
use super::world::{World, update_line};
use crate::filesystems::TestFileSystem;

/// What undo says where all journals are undone.
const NOTHING: &str = "there is nothing to undo";

struct Trial<'a> {
    site: &'a Site<'a>,
    plan: &'a TrialPlan,
    world: &'a World<'a>,
    evidence: Evidence<'a>,
    faults: Vec<Fault>,
    /// A journal was refused because others wrote to the file: neither all nor nothing is promised.
    is_unrecovered: bool,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    if plan.command.is_of_runs() {
        return store::run(plan, site);
    }
    if plan.command.is_copy() {
        return copy::run(plan, site);
    }
    site.begin()?;
    make_tree(&plan.tree, plan.is_sparse, &site.directory).context("cannot make the tree")?;
    let world = World::new(site, plan);
    let mut trial = Trial {
        site,
        plan,
        world: &world,
        evidence: Evidence {
            plan,
            directory: &site.directory,
            before: read_tree(&site.directory)?,
            acts: Vec::new(),
            told: String::new(),
            is_done: false,
            updated: UpdatesPresent::All,
            slack: 0,
        },
        faults: Vec::new(),
        is_unrecovered: false,
    };
    trial.search()?;
    let ended = trial.run_disturbed()?;
    let now = read_tree(&site.directory)?;
    trial.judge(&now, &ended);
    let Evidence {
        acts, told: mut story, ..
    } = trial.evidence;
    let mut faults = trial.faults;
    faults.dedup();
    if !faults.is_empty() {
        story.push_str(&ended.trace);
        for act in &acts {
            let _ = writeln!(story, "others: {act:?}");
        }
        for (path, entry) in now {
            let _ = writeln!(story, "now: {} {entry:?}", path.display());
        }
    }
    let counts = [
        1,
        usize::from(ended.status.success()),
        usize::from(ended.status.signal() == Some(Signal::KILL.as_raw())),
        usize::from(plan.disturbance.is_stopped() || ended.trace.contains("(DELAYED)")),
        acts.iter().filter(|act| act.answer.is_ok()).count(),
        ended.trace.matches("(INJECTED)").count(),
        usize::from(plan.disturbance.free_bytes.is_some()),
        usize::from(faults.iter().any(|fault| fault.kind != KNOWN_LIMIT)),
    ];
    Ok(TrialReport { counts, faults, story })
}

impl Trial<'_> {
    /// Searches for duplicates, where that is a command of its own: what changes from now on is found when acting.
    fn search(&mut self) -> Result<()> {
        let Some(words) = &self.plan.command.search else {
            return Ok(());
        };
        let mut search = self.command(words, &[])?;
        if !words.contains("FOUND") {
            search.stdout(File::create(self.site.found())?);
        }
        let ended = self.site.run(search, None)?;
        self.note("searched", &ended);
        if let Some(disturber) = &self.plan.early {
            self.world.act_often(disturber, None);
            self.world.repair()?;
        }
        Ok(())
    }

    /// A command from its words.
    fn command(&self, words: &str, injections: &[Injection]) -> Result<Command> {
        let mut command = self.site.seekless(injections);
        for word in words.split_whitespace() {
            match word {
                "FILE" => command.arg(self.target()),
                "OTHER" => command.args(self.plan.files.get(1)),
                "UPDATES" => command.arg(self.updates(&self.plan.patches)?),
                "FOUND" => command.arg(self.site.found()),
                word => command.arg(word),
            };
        }
        Ok(command)
    }

    /// The file that seekless is called for.
    fn target(&self) -> PathBuf {
        let path = self.plan.files.first().cloned().unwrap_or_default();
        self.site.directory.join(path)
    }

    fn updates(&self, patches: &[Patch]) -> Result<PathBuf> {
        let path = self.site.aside.join("updates");
        let lines = patches.iter().map(|patch| update_line(patch.offset, &patch.bytes));
        fs::write(&path, lines.collect::<String>()).context("cannot write the updates")?;
        Ok(path)
    }

    /// Runs the command, with all that disturbs it, and what follows.
    fn run_disturbed(&mut self) -> Result<Ended> {
        let (world, plan) = (self.world, self.plan);
        let disturbance = &plan.disturbance;
        let command = self.command(&plan.command.run, &disturbance.injections)?;
        let ended = thread::scope(|scope| {
            let started = Instant::now();
            let disturb = |one| scope.spawn(move || world.disturb(one, disturbance.delay(), started));
            let disturbers: Vec<_> = plan.disturbers.iter().map(disturb).collect();
            let ended = (|| {
                let ended = self.site.filled(disturbance.free_bytes, || {
                    self.site.run_at(Stage::Run, command, disturbance.timed)
                })?;
                self.note("ran", &ended);
                if !plan.disturbers_stay {
                    world.end(true);
                    for disturber in disturbers {
                        disturber.join().unwrap_or_else(|panic| resume_unwind(panic));
                    }
                    world.repair()?;
                    world.end(false);
                }
                self.check_run(&ended)?;
                if let Some(disturber) = &plan.between {
                    world.act_often(disturber, None);
                }
                self.recover(&ended)?;
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
        let Ended { status, stderr, .. } = ended;
        let _ = writeln!(self.evidence.told, "{did}: {status}: {}", stderr.trim_end());
        self.faults.extend(check_ended(ended));
    }

    fn fault(&mut self, kind: &'static str, details: impl Into<String>) {
        self.faults.push(Fault::new(kind, details));
    }

    /// Checks how the run ended, and what it did where nothing but time was taken from it.
    fn check_run(&mut self, ended: &Ended) -> Result<()> {
        let plan = self.plan;
        let (code, is_undisturbed) = (ended.status.code(), plan.is_undisturbed());
        if plan.command.action().is_some() {
            if is_undisturbed && !matches!(code, Some(0 | 1)) {
                self.fault("needless failure", "");
            }
            if plan.is_only_slowed() {
                let now = read_tree(&self.site.directory)?;
                self.faults.extend(self.evidence.check_acted(&now));
            }
            return Ok(());
        }
        if plan.command.label == "cmp" {
            let bytes = |number: usize| Some(&file(&plan.tree, &plan.files[number])?.bytes);
            let is_equal = bytes(0) == bytes(1);
            let is_right = match code {
                Some(0) => is_equal,
                Some(1) => !is_equal,
                _ => !is_undisturbed,
            };
            if !is_right {
                self.fault("wrong verdict", format!("equal: {is_equal}"));
            }
        } else if is_undisturbed && !ended.status.success() && !self.may_refuse(&ended.stderr) {
            self.fault("needless refusal", "");
        }
        if code.is_some() && self.site.power.is_none() && !self.tells_of_left(ended) {
            self.check_left()?;
        }
        Ok(())
    }

    /// What is refused rightly though nothing disturbs.
    fn may_refuse(&self, stderr: &str) -> bool {
        // A method may be unavailable, and a file with several names is not replaced. On an overlay, the mappings of all processes
        // must be seen. The descriptors of this process are for a moment those of what another worker starts.
        let reasons = ["does not show mappings", "in use", "it open", "opened it"];
        self.plan.command.has("--method")
            || files(&self.evidence.before, TREE).count() > 1
            || reasons.iter().any(|reason| stderr.contains(reason))
    }

    /// Whether what is left after a failure is said, or removing it was made to fail.
    fn tells_of_left(&self, ended: &Ended) -> bool {
        let removes = |one: &Injection| one.call.starts_with("unlink");
        let is_said = ended.stderr.contains("recover") || ended.stderr.contains("journal");
        !ended.status.success() && (is_said || self.plan.disturbance.injections.iter().any(removes))
    }

    /// No file of seekless is beside the one that it was called for, but what it said.
    fn check_left(&mut self) -> Result<()> {
        let now = read_tree(&self.site.directory)?;
        self.faults.extend(check_left(&now, &self.evidence.told));
        Ok(())
    }

    /// Runs what follows: first disturbed, then to its end.
    fn recover(&mut self, ended: &Ended) -> Result<()> {
        let plan = self.plan;
        let loses_power = self.site.power.is_some();
        let may_be_needed = loses_power || !ended.status.success() && self.target().exists();
        if plan.recovery == Recovery::Recover && !(plan.command.is_update() && may_be_needed) {
            return Ok(());
        }
        let words = match plan.recovery {
            Recovery::Recover => "update FILE --recover",
            Recovery::Again => &plan.command.at_once,
            Recovery::Undo | Recovery::UndoTwice => "dupes undo",
        };
        if plan.recovery_injection.is_some() || loses_power {
            let command = self.command(words, plan.recovery_injection.as_slice())?;
            let ended = self.site.run_at(Stage::Recovery, command, None)?;
            self.note("recovering, disturbed", &ended);
        }
        let times = if plan.recovery == Recovery::UndoTwice { 2 } else { 1 };
        for _ in 0..times {
            let ended = self.site.run(self.command(words, &[])?, None)?;
            self.note(words, &ended);
            if plan.recovery == Recovery::Recover {
                self.after_recovery(&ended)?;
            } else if plan.is_calm() && ended.status.code() == Some(2) && !ended.stderr.contains(NOTHING) {
                self.fault("cannot recover", words);
            }
        }
        Ok(())
    }

    /// A file is recovered, unless others changed it since; nothing is left beside it, and it can be updated again.
    fn after_recovery(&mut self, ended: &Ended) -> Result<()> {
        if !ended.status.success() {
            let may_refuse = |act: &Act| act.answer.is_ok() || !act.wrote.is_empty();
            if !self.world.acts().iter().any(may_refuse) {
                self.fault("cannot recover", "");
            }
            if !self.evidence.told.contains(KEPT_BOTH) {
                // As the message says.
                self.is_unrecovered = true;
                for path in read_tree(&self.site.directory)?.keys() {
                    if path.to_string_lossy().contains("seekless-journal") {
                        fs::remove_file(self.site.directory.join(path))?;
                    }
                }
            }
        }
        self.check_left()?;
        let found = fs::read(self.target())?;
        if let Some(&first) = found.first() {
            let (offset, bytes) = (0, vec![first]);
            let mut command = self.command("update FILE --from", &[])?;
            command.arg(self.updates(&[Patch { offset, bytes }])?);
            let ended = self.site.run(command, None)?;
            self.note("updated again", &ended);
            self.check_left()?;
            if !ended.status.success() || fs::read(self.target())? != found {
                self.fault("cannot update again", "");
            }
        }
        Ok(())
    }

    /// Judges what is left in the end.
    fn judge(&mut self, now: &FileTree, ended: &Ended) {
        let plan = self.plan;
        self.evidence.acts = take(&mut self.world.acts());
        // What was not synced is lost with the power.
        self.evidence.is_done = ended.status.success() && (plan.power.is_none() || plan.command.syncs());
        let is_whole = !self.is_unrecovered && plan.command.label != "update in-place";
        self.evidence.updated = match (self.evidence.is_done, is_whole) {
            (true, _) => UpdatesPresent::All,
            (false, true) => UpdatesPresent::AllOrNone,
            (false, false) => UpdatesPresent::EachByte,
        };
        // A direct write that was cut off may have padded the file.
        let is_cut_off = !plan.disturbance.injections.is_empty() || ended.status.code().is_none();
        if is_cut_off && self.evidence.updated == UpdatesPresent::EachByte {
            self.evidence.slack = 4095;
        }
        // On an overlay, seekless may not be able to tell that nobody has the file mapped.
        if !self.evidence.acts.is_empty() || plan.file_system == TestFileSystem::Overlay {
            self.evidence.slack += said_longer(&ended.stderr).unwrap_or(0);
        }
        let mut faults = self.evidence.check(now);
        if plan.is_calm() {
            faults.extend(match plan.recovery {
                Recovery::Undo | Recovery::UndoTwice => self.evidence.check_restored(now),
                Recovery::Recover | Recovery::Again => self.evidence.check_acted(now),
            });
        }
        if faults.iter().any(|fault| fault.kind == NOT_RESTORED) && self.evidence.told.contains(NOTHING) {
            faults.push(Fault::new("said to be undone", ""));
        }
        self.faults.extend(faults);
    }
}

/// How many bytes a failed command says it left behind the end, because what others wrote there is not told from its own.
fn said_longer(stderr: &str) -> Option<usize> {
    let (_, after) = stderr.split_once("but the file stays ")?;
    after.split(' ').next()?.parse().ok()
}
