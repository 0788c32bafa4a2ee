//! Trials of `seekless update`, `holes` and `cmp`: the file made, the command run and disturbed, and what is left judged.

mod others;
pub mod plan;
mod verdict;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr};

use self::others::{act, open_first};
use self::plan::TrialPlan;
use self::verdict::{Acknowledged, LOST_APPEND, LOST_WRITE, Model, Promise, Update, check_left, check_properties};
use super::disturb::{Injection, What};
use super::power::Stage;
use super::trial::{Ended, Ending, Fault, Properties, Site, TrialReport, check_ended, properties};

struct Running<'a> {
    site: &'a Site<'a>,
    file: PathBuf,
}

/// The file as it was made.
struct Before {
    properties: Properties,
    modified: SystemTime,
}

/// Runs a trial. An error is one of the harness, not of seekless.
pub fn run(plan: &TrialPlan, site: &Site<'_>) -> Result<TrialReport> {
    site.begin()?;
    let running = Running {
        site,
        file: site.directory.join("file"),
    };
    make_file(&plan.file, &running.file).context("cannot make the file")?;
    if let Some(second) = &plan.command.second {
        fs::write(site.directory.join("second"), &second.0)?;
    }
    let before = Before {
        properties: properties(&running.file)?,
        modified: fs::metadata(&running.file)?.modified()?,
    };
    let (ended, others) = site.filled(&plan.disturbance, || running.disturbed(plan, running.command(plan)?))?;
    let mut report = TrialReport::of(&ended, &plan.disturbance, others.count());
    report.faults.extend(check_ending(plan, &ended));
    if site.power.is_some() {
        // What was removed may be back.
        running.recover(plan, &before, &others, &mut report)?;
    }
    if ended.ending() == Ending::Success || (ended.ending() == Ending::Failure && !tells_of_left(plan, &ended.stderr)) {
        report.faults.extend(running.left()?);
    }
    running.check_file(plan, &before, &ended, &others, &mut report)?;
    report.faults.dedup();
    if !report.faults.is_empty() {
        let _ = write!(report.story, "\n{}", ended.trace);
    }
    Ok(report)
}

/// What is wrong with how it ended, whatever is in the file.
fn check_ending(plan: &TrialPlan, ended: &Ended) -> Vec<Fault> {
    let mut faults = check_ended(ended);
    if let Some(second) = &plan.command.second {
        let is_equal = second.0 == plan.file.content.0;
        let is_right = match ended.status.code() {
            Some(0) => is_equal,
            Some(1) => !is_equal,
            _ => !plan.is_undisturbed(),
        };
        if !is_right {
            faults.push(Fault::new("wrong verdict", format!("equal: {is_equal}")));
        }
    } else if plan.is_undisturbed() && plan.command.must_succeed && !ended.status.success() && !may_refuse(plan, ended)
    {
        faults.push(Fault::new("needless refusal", ""));
    }
    faults
}

/// What is refused rightly though nothing disturbs: several names for `replace`.
fn may_refuse(plan: &TrialPlan, ended: &Ended) -> bool {
    // On an overlay, the mappings of all processes must be seen.
    if ended.stderr.contains("a lease does not show mappings") {
        return true;
    }
    // The descriptors of this process are for a moment those of what another worker starts.
    let is_open = ["in use", "have it open", "has it open", "opened it"]
        .iter()
        .any(|words| ended.stderr.contains(words));
    plan.file.has_hard_link || is_open
}

/// How many bytes a failed command says it left behind the end, because what others wrote there is not told from its own.
fn said_longer(stderr: &str) -> usize {
    let after = stderr.split_once("but the file stays ");
    after
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or(0)
}

/// Whether what is left after a failure is said, or removing it was made to fail.
fn tells_of_left(plan: &TrialPlan, stderr: &str) -> bool {
    let removes = |one: &Injection| one.call.starts_with("unlink");
    stderr.contains("recover") || stderr.contains("journal") || plan.disturbance.injections.iter().any(removes)
}

impl Running<'_> {
    fn update(&self, updates: &[Update], named: &str) -> Result<Command> {
        let path = self.site.aside.join(named);
        let mut text = String::new();
        for update in updates {
            let _ = write!(text, r#"{{"offset": {}, "hex": ""#, update.offset);
            update.bytes.iter().for_each(|byte| {
                let _ = write!(text, "{byte:02x}");
            });
            text.push_str("\"}\n");
        }
        fs::write(&path, text).context("cannot write the updates")?;
        let mut command = self.site.seekless();
        command.arg("update").arg(&self.file).arg("--from").arg(path);
        Ok(command)
    }

    fn command(&self, plan: &TrialPlan) -> Result<Command> {
        let ours = if plan.command.updates.is_empty() {
            let mut command = self.site.seekless();
            command.args(&plan.command.arguments).arg(&self.file);
            if plan.command.second.is_some() {
                command.arg(self.site.directory.join("second"));
            }
            command
        } else {
            let mut command = self.update(&plan.command.updates, "updates")?;
            command.args(&plan.command.arguments[1..]);
            command
        };
        Ok(self.site.traced(&plan.disturbance.injections, ours))
    }

    /// Runs the command, with all that disturbs it.
    fn disturbed(&self, plan: &TrialPlan, command: Command) -> Result<(Ended, Acknowledged)> {
        let opened = plan
            .other
            .as_ref()
            .map(|other| open_first(other, &self.file))
            .transpose()?
            .flatten();
        let second = |updates: &[Update], safety: &str| {
            let mut command = self.update(updates, "second")?;
            command.args(["--safety", safety]);
            Ok(command)
        };
        let started = Instant::now();
        thread::scope(|scope| {
            let others = plan.other.as_ref().map(|other| {
                let second = &second;
                scope.spawn(move || {
                    let call = plan.disturbance.delayed_call().filter(|_| other.at_delay);
                    self.site.wait_for(call, other.after, started);
                    act(other, opened, &self.file, second)
                })
            });
            let ended = self.site.run_at(Stage::Run, command, plan.disturbance.timed);
            let others = others.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            anyhow::Ok((ended?, others.transpose()?.unwrap_or_default()))
        })
    }

    /// Recovers the file if need be, and judges what it holds.
    fn check_file(
        &self,
        plan: &TrialPlan,
        before: &Before,
        ended: &Ended,
        others: &Acknowledged,
        report: &mut TrialReport,
    ) -> Result<()> {
        let ending = ended.ending();
        let ends_early = plan.command.promise != Promise::Unchanged && ending != Ending::Success;
        let is_unrecovered = ends_early && self.file.exists() && self.recover(plan, before, others, report)?;
        let found = match fs::read(&self.file) {
            Ok(found) => found,
            Err(error) => {
                report.faults.push(Fault::new("lost name", error.to_string()));
                return Ok(());
            }
        };
        let model = Model {
            before: &plan.file.content.0,
            updates: &plan.command.updates,
            others,
            promise: plan.command.promise,
            ending,
            is_unrecovered,
            padding: if plan.disturbance.injections.is_empty() && ending == Ending::Failure {
                0
            } else {
                4095
            },
            said_longer: if others.count() > 0 {
                said_longer(&ended.stderr)
            } else {
                0
            },
        };
        let is_in_place = plan.command.label != "update replace";
        match model.check(&found) {
            Some(fault)
                if [LOST_WRITE, LOST_APPEND].contains(&fault.kind)
                    && plan.disturbance.outlasts_lease()
                    && is_in_place =>
            {
                report.known_limit = true;
                let _ = write!(report.story, "; known limit: {}", fault.details);
            }
            fault => report.faults.extend(fault),
        }
        let now = properties(&self.file)?;
        report.faults.extend(check_properties(&before.properties, others, &now));
        let keeps_time = plan.command.label.starts_with("holes") && report.is_done && plan.other.is_none();
        if keeps_time && fs::metadata(&self.file)?.modified()? != before.modified {
            report.faults.push(Fault::new("changed time", ""));
        }
        if ends_early && !found.is_empty() {
            report.faults.extend(self.update_again(&found)?);
        }
        Ok(())
    }

    /// Recovers the file. Whether that was refused because others wrote to it.
    fn recover(
        &self,
        plan: &TrialPlan,
        before: &Before,
        others: &Acknowledged,
        report: &mut TrialReport,
    ) -> Result<bool> {
        let recovering = || {
            let mut command = self.site.seekless();
            command.arg("update").arg(&self.file).arg("--recover");
            command
        };
        let kill = plan.recovery_killed_at.map(|when| Injection {
            call: "pwrite64",
            when,
            what: What::Kill,
        });
        if kill.is_some() || self.site.power.is_some() {
            let command = self.site.traced(kill.as_slice(), recovering());
            self.site.run_at(Stage::Recovery, command, None)?;
        }
        let ended = self.site.run(recovering(), None)?;
        if ended.ending() != Ending::Success {
            let _ = write!(
                report.story,
                "\nrecovering it: {}: {}",
                ended.status,
                ended.stderr.trim_end()
            );
            // As the messages say: what others changed is the good one.
            if ended.stderr.contains("compare the two") && others.count() > 0 {
                let only_properties = others.saved.is_none() && others.writes.is_empty();
                let is_good = check_properties(&before.properties, others, &properties(&self.file)?).is_empty();
                for entry in fs::read_dir(&self.site.directory)? {
                    let entry = entry?;
                    if !entry.file_name().to_string_lossy().starts_with(".seekless-new-") {
                        continue;
                    }
                    if only_properties && is_good {
                        fs::remove_file(entry.path())?;
                    } else {
                        fs::rename(entry.path(), &self.file)?;
                    }
                }
                report.faults.extend(self.left()?);
                return Ok(false);
            }
            if !others.may_outdate_journal() {
                report.faults.push(Fault::new("cannot recover", ""));
            }
            let _ = fs::remove_file(self.site.directory.join(".file.seekless-journal"));
        }
        report.faults.extend(self.left()?);
        Ok(ended.ending() != Ending::Success)
    }

    /// Gives the file the first byte that it has.
    fn update_again(&self, found: &[u8]) -> Result<Option<Fault>> {
        let update = Update {
            offset: 0,
            bytes: found[..1].to_vec(),
        };
        let ended = self.site.run(self.update(&[update], "again")?, None)?;
        let mut faults = self.left()?;
        if ended.ending() != Ending::Success || fs::read(&self.file)? != found {
            faults.push(Fault::new("cannot update again", ended.stderr));
        }
        Ok(faults.pop())
    }

    fn left(&self) -> Result<Vec<Fault>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.site.directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(check_left(names.iter().map(String::as_str)))
    }
}

fn make_file(plan: &plan::TestFile, path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let content = &plan.content.0;
    file.set_len(content.len() as u64)?;
    for (number, block) in content.chunks(4096).enumerate() {
        if !plan.is_sparse || block.iter().any(|&byte| byte != 0) {
            file.write_all_at(block, number as u64 * 4096)?;
        }
    }
    if plan.has_attribute {
        setxattr(path, "user.ours", b"kept", XattrFlags::empty())?;
    }
    if plan.has_hard_link {
        fs::hard_link(path, path.with_extension("link"))?;
    }
    file.set_permissions(Permissions::from_mode(plan.mode))?;
    Ok(())
}
