//! One trial: the files made, the commands run and disturbed, what follows, and what is left judged.
//!
//! Not here: what must hold (`verdict`).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::contents::UpdatesPresent;
use super::disturb::{Injection, Interruption};
use super::disturber::Act;
use super::files::{FilesByPath, files_in, make_tree};
use super::job::{DupesCommand, Promise, Route, TrialCommand};
use super::plan::{Patch, Recovery, TrialPlan};
use super::power::Stage;
use super::site::{Ended, Fault, Site, TrialReport, check_ended};
use super::verdict::{KEPT_BOTH, KNOWN_LIMIT, NOT_RESTORED, TrialModel, says_kept};
use super::world::{World, update_line};
use crate::filesystems::TestFileSystem;
use crate::process::in_words;

/// What undo says where all journals are undone.
const NOTHING: &str = "there is nothing to undo";

struct Trial<'a> {
    site: &'a Site<'a>,
    plan: &'a TrialPlan,
    world: &'a World<'a>,
    before: FilesByPath,
    /// What all commands said.
    told: String,
    faults: Vec<Fault>,
    /// A journal was refused because others wrote to the file: neither all nor nothing is promised.
    is_unrecovered: bool,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    site.begin()?;
    make_tree(&plan.tree, &site.directory).context("cannot make the tree")?;
    let world = World::new(site, plan);
    world.make_decoys().context("cannot make directories")?;
    let mut trial = Trial {
        site,
        plan,
        world: &world,
        before: files_in(&site.directory)?,
        told: String::new(),
        faults: Vec::new(),
        is_unrecovered: false,
    };
    trial.search()?;
    let ended = trial.run_disturbed()?;
    let acts = world.acts();
    let now = files_in(&site.directory)?;
    trial.judge(&now, &acts, &ended);
    let (mut story, mut faults) = (trial.told, trial.faults);
    let known_limits = faults.extract_if(.., |fault| fault.kind == KNOWN_LIMIT).count();
    faults.dedup();
    if !faults.is_empty() {
        story.push_str(&ended.trace);
        for act in acts.iter() {
            let _ = writeln!(story, "others: {} {act:?}", name_of(plan, act));
        }
        for (path, found) in now {
            let _ = writeln!(story, "now: {} {found:?}", path.display());
        }
    }
    let is_stopped = matches!(plan.disturbance.timed, Some((_, Interruption::Stop(_))));
    let counts = [
        1,
        usize::from(ended.status.success()),
        usize::from(ended.status.signal() == Some(Signal::KILL.as_raw())),
        usize::from(is_stopped || ended.trace.contains("(DELAYED)")),
        acts.iter().filter(|act| act.answer.is_ok()).count(),
        ended.trace.matches("(INJECTED)").count(),
        usize::from(plan.disturbance.free_bytes.is_some()),
        usize::from(!faults.is_empty()),
    ];
    Ok(TrialReport {
        counts,
        known_limits,
        faults,
        story,
    })
}

/// What others acted on.
fn name_of<'p>(plan: &'p TrialPlan, act: &Act) -> &'p str {
    if act.moves_directory() {
        &plan.tree.directories[act.number]
    } else {
        &plan.tree.entries[act.number].path
    }
}

impl Trial<'_> {
    /// Searches for duplicates, where that is a command of its own: what changes from now on is found when acting.
    fn search(&mut self) -> Result<()> {
        let Some(dupes) = self.plan.job.dupes() else {
            return Ok(());
        };
        let file = self.found(dupes);
        let (Some(words), _) = dupes.words(&file) else {
            return Ok(());
        };
        let mut search = self.dupes(&words);
        if dupes.route == Route::Report {
            search.stdout(File::create(&file)?);
        }
        let ended = self.site.run(search, None)?;
        self.note("searched", &ended);
        if let Some(disturber) = &self.plan.early {
            self.world.act_often(disturber, None);
            self.world.repair()?;
        }
        Ok(())
    }

    /// The report or plan of the search. Other trials left theirs there, and a plan replaces no report.
    fn found(&self, dupes: &DupesCommand) -> PathBuf {
        let is_plan = dupes.route == Route::Plan;
        self.site.aside.join(if is_plan { "plan" } else { "report" })
    }

    fn dupes(&self, words: &str) -> Command {
        let mut command = self.site.seekless();
        command.arg("dupes").args(words.split_whitespace());
        command
            .current_dir(&self.site.directory)
            .env("XDG_STATE_HOME", &self.site.state);
        command
    }

    /// The command of the trial.
    fn command(&self) -> Result<Command> {
        let file = match &self.plan.job {
            TrialCommand::File(file) => file,
            TrialCommand::Dupes(dupes) => return Ok(self.dupes(&dupes.words(&self.found(dupes)).1)),
        };
        let tree = &self.plan.tree;
        let mut command = self.site.seekless();
        command.args(file.words.split(' ')).arg(self.target());
        if tree.contents.len() > 1 {
            command.arg(self.site.directory.join(tree.path(1)));
        }
        if file.promise != Promise::Unchanged {
            command.arg("--from").arg(self.updates(&tree.contents[0].patches)?);
        }
        Ok(command)
    }

    fn target(&self) -> PathBuf {
        self.site.directory.join(&self.plan.tree.entries[0].path)
    }

    fn updates(&self, patches: &[Patch]) -> Result<PathBuf> {
        let path = self.site.aside.join("updates");
        let lines = patches.iter().map(|patch| update_line(patch.offset, &patch.bytes));
        fs::write(&path, lines.collect::<String>()).context("cannot write the updates")?;
        Ok(path)
    }

    /// Runs the command, with all that disturbs it, and what follows.
    fn run_disturbed(&mut self) -> Result<Ended> {
        let world = self.world;
        let disturbance = &self.plan.disturbance;
        let ended = thread::scope(|scope| {
            let started = Instant::now();
            let disturb = |one| scope.spawn(move || world.disturb(one, disturbance.delayed_call(), started));
            let disturbers: Vec<_> = self.plan.disturbers.iter().map(disturb).collect();
            let ended = (|| {
                let command = self.site.traced(&disturbance.injections, self.command()?);
                let ended = self
                    .site
                    .filled(disturbance, || self.site.run_at(Stage::Run, command, disturbance.timed))?;
                self.note("ran", &ended);
                if !self.plan.disturbers_stay {
                    world.end(true);
                    for disturber in disturbers {
                        disturber.join().unwrap_or_else(|panic| resume_unwind(panic));
                    }
                    world.repair()?;
                    world.end(false);
                }
                self.check_run(&ended)?;
                if let Some(disturber) = &self.plan.between {
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
        let _ = writeln!(self.told, "{did}: {}: {}", ended.status, ended.stderr.trim_end());
        self.faults.extend(check_ended(ended));
        // 143: SIGTERM. An error may be injected before the program is loaded.
        let is_loaded = !ended.stderr.contains("error while loading shared libraries");
        let is_known = |code: &i32| [0, 1, 2, 143].contains(code);
        if let Some(code) = ended.status.code().filter(|code| is_loaded && !is_known(code)) {
            self.fault("exit code", code.to_string());
        }
    }

    fn fault(&mut self, kind: &'static str, details: impl Into<String>) {
        self.faults.push(Fault::new(kind, details));
    }

    /// Checks how the run ended, and what it did where nothing but time was taken from it.
    fn check_run(&mut self, ended: &Ended) -> Result<()> {
        let is_undisturbed = self.plan.is_undisturbed();
        match &self.plan.job {
            TrialCommand::Dupes(_) => {
                if is_undisturbed && !ended.status.success() && ended.status.code() != Some(1) {
                    self.fault("needless failure", "");
                }
                if self.plan.is_only_slowed() {
                    let now = files_in(&self.site.directory)?;
                    let faults = self.model(&[], ended).check_acted(&now);
                    self.faults.extend(faults);
                }
            }
            TrialCommand::File(command) if command.label == "cmp" => {
                let contents = &self.plan.tree.contents;
                let is_equal = contents[0].bytes == contents[1].bytes;
                let is_right = match ended.status.code() {
                    Some(0) => is_equal,
                    Some(1) => !is_equal,
                    _ => !is_undisturbed,
                };
                if !is_right {
                    self.fault("wrong verdict", format!("equal: {is_equal}"));
                }
            }
            TrialCommand::File(command) => {
                if is_undisturbed && command.must_succeed && !ended.status.success() && !self.may_refuse(&ended.stderr)
                {
                    self.fault("needless refusal", "");
                }
                if ended.status.code().is_some() && self.site.power.is_none() && !self.tells_of_left(ended) {
                    self.check_left()?;
                }
            }
        }
        Ok(())
    }

    /// What is refused rightly though nothing disturbs.
    fn may_refuse(&self, stderr: &str) -> bool {
        // Several names for `replace`. On an overlay, the mappings of all processes must be seen. The descriptors of this process
        // are for a moment those of what another worker starts.
        let reasons = [
            "a lease does not show mappings",
            "in use",
            "have it open",
            "has it open",
            "opened it",
        ];
        self.plan.tree.entries.len() > 1 || reasons.iter().any(|reason| stderr.contains(reason))
    }

    /// Whether what is left after a failure is said, or removing it was made to fail.
    fn tells_of_left(&self, ended: &Ended) -> bool {
        let removes = |one: &Injection| one.call.starts_with("unlink");
        let is_said = ended.stderr.contains("recover") || ended.stderr.contains("journal");
        !ended.status.success() && (is_said || self.plan.disturbance.injections.iter().any(removes))
    }

    /// No file of seekless is beside the one that it was called for, but what it said.
    fn check_left(&mut self) -> Result<()> {
        for path in self.beside("seekless")? {
            let path = path.display().to_string();
            if !says_kept(&self.told, &path) {
                self.fault("left behind", path);
            }
        }
        Ok(())
    }

    /// What is beside the file that seekless was called for, and has this in its name.
    fn beside(&self, part: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.target().parent().unwrap_or(Path::new("/")))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(part) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// Runs what follows: first disturbed, then to its end.
    fn recover(&mut self, ended: &Ended) -> Result<()> {
        let may_be_needed = self.site.power.is_some() || !ended.status.success() && self.target().exists();
        if let Some(command) = self.plan.job.file()
            && (command.promise == Promise::Unchanged || !may_be_needed)
        {
            return Ok(());
        }
        let injection = self.plan.recovery_injection;
        if injection.is_some() || self.site.power.is_some() {
            let command = self.site.traced(injection.as_slice(), self.recovery());
            let ended = self.site.run_at(Stage::Recovery, command, None)?;
            self.note("recovering, disturbed", &ended);
        }
        let times = if self.plan.recovery == Recovery::UndoTwice {
            2
        } else {
            1
        };
        for _ in 0..times {
            let command = self.recovery();
            let words = in_words(&command);
            let ended = self.site.run(command, None)?;
            self.note(&words, &ended);
            if self.plan.recovery == Recovery::Recover {
                self.after_recovery(&ended)?;
            } else if self.plan.is_calm() && ended.status.code() == Some(2) && !ended.stderr.contains(NOTHING) {
                self.fault("cannot recover", words);
            }
        }
        Ok(())
    }

    fn recovery(&self) -> Command {
        match (&self.plan.job, self.plan.recovery) {
            (TrialCommand::Dupes(dupes), Recovery::Again) => self.dupes(&dupes.words_at_once()),
            (TrialCommand::Dupes(_), _) => self.dupes("undo"),
            (TrialCommand::File(_), _) => {
                let mut command = self.site.seekless();
                command.arg("update").arg(self.target()).arg("--recover");
                command
            }
        }
    }

    /// A file is recovered, unless others changed it since; nothing is left beside it, and it can be updated again.
    fn after_recovery(&mut self, ended: &Ended) -> Result<()> {
        if !ended.status.success() {
            let may_refuse = |act: &Act| act.answer.is_ok() || !act.wrote.is_empty();
            if !self.world.acts().iter().any(may_refuse) {
                self.fault("cannot recover", "");
            }
            if !self.told.contains(KEPT_BOTH) {
                // As the message says.
                self.is_unrecovered = true;
                for journal in self.beside("seekless-journal")? {
                    fs::remove_file(journal)?;
                }
            }
        }
        self.check_left()?;
        let found = fs::read(self.target())?;
        if let Some(&first) = found.first() {
            let (offset, bytes) = (0, vec![first]);
            let mut command = self.site.seekless();
            command.arg("update").arg(self.target()).arg("--from");
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
    fn judge(&mut self, now: &FilesByPath, acts: &[Act], ended: &Ended) {
        let model = self.model(acts, ended);
        let mut faults = model.check(now);
        if self.plan.is_calm() {
            faults.extend(match (&self.plan.job, self.plan.recovery) {
                (TrialCommand::Dupes(dupes), Recovery::Undo | Recovery::UndoTwice) => model.check_restored(dupes, now),
                _ => model.check_acted(now),
            });
        }
        if faults.iter().any(|fault| fault.kind == NOT_RESTORED) && self.told.contains(NOTHING) {
            faults.push(Fault::new("said to be undone", ""));
        }
        self.faults.extend(faults);
    }

    fn model<'m>(&'m self, acts: &'m [Act], ended: &Ended) -> TrialModel<'m> {
        let promise = self
            .plan
            .job
            .file()
            .map_or(Promise::Unchanged, |command| command.promise);
        let is_done = ended.status.success();
        let updated = match promise {
            Promise::Unchanged => UpdatesPresent::No,
            _ if is_done => UpdatesPresent::Yes,
            Promise::AllOrNothing if !self.is_unrecovered => UpdatesPresent::AllOrNone,
            _ => UpdatesPresent::EachByte,
        };
        // A direct write that was cut off may have padded the file.
        let is_cut_off = !self.plan.disturbance.injections.is_empty() || ended.status.code().is_none();
        let padding = if updated == UpdatesPresent::EachByte && is_cut_off {
            4095
        } else {
            0
        };
        // On an overlay, seekless may not be able to tell that nobody has the file mapped.
        let may_be_met = !acts.is_empty() || self.plan.file_system == TestFileSystem::Overlay;
        TrialModel {
            plan: self.plan,
            before: &self.before,
            acts,
            told: &self.told,
            directory: &self.site.directory,
            is_done,
            updated,
            slack: padding + if may_be_met { said_longer(&ended.stderr) } else { 0 },
        }
    }
}

/// How many bytes a failed command says it left behind the end, because what others wrote there is not told from its own.
fn said_longer(stderr: &str) -> usize {
    let after = stderr.split_once("but the file stays ");
    after
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or(0)
}
