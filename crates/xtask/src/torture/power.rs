//! Losses of power: a trial runs on a file system in an image; when the power fails during one of its commands or soon after
//! it, what the device holds is mounted again, and the trial goes on.
//!
//! A device here holds all that was written to it: a cache of its own that is lost with the power is not simulated.
//!
//! Not here: what the commands are (`job`), and what must hold (`verdict`).

use std::fs::File;
use std::io::Write;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use rustix::fs::syncfs;

use super::disturb::{FILE_SYSTEMS, moment};
use super::plan::{Recovery, TrialPlan, TrialSubject};
use super::site::{Ended, Site};
use crate::filesystems::{Mounted, TestFileSystem};
use crate::process::capture;

/// The command during which the power fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Run,
    /// The first that follows the run.
    Recovery,
}

/// When the power fails, drawn from the seed of a trial.
#[derive(Debug)]
pub struct PowerPlan {
    /// What is done when the power fails, and where the journals of actions are.
    pub label: String,
    stage: Stage,
    /// Another file system, which has the journals, and whether it loses power as well.
    journals: Option<(TestFileSystem, bool)>,
    /// File systems write this often what is in memory; XFS each 30 s.
    commit_seconds: u16,
    /// So often another program syncs a file of its own, and with it the names that others made.
    others_sync: Option<Duration>,
    /// From the end of the command to the loss of power.
    after: Duration,
}

impl PowerPlan {
    /// Draws a trial that loses power. It has no other processes and no full disk, and acts on duplicates where an update promises
    /// nothing for a loss of power.
    pub fn draw(seed: u64) -> TrialPlan {
        let mut trial = TrialPlan::draw(seed);
        if !["update journal", "update replace"].contains(&trial.command.label.as_str()) {
            trial = TrialPlan::draw_of(TrialSubject::Dupes, seed);
        }
        let rng = &mut Rng::with_seed(!seed);
        let stage = [Stage::Run, Stage::Recovery, Stage::Recovery][rng.usize(..3)];
        // The first three have devices.
        let own = rng.usize(..3);
        let other = FILE_SYSTEMS[(own + rng.usize(1..3)) % 3];
        let (mut place, mut journals) = [
            ("journal beside", None),
            ("journal elsewhere", Some((other, true))),
            ("journal kept", Some((other, false))),
        ][rng.usize(..3)];
        trial.file_system = FILE_SYSTEMS[own];
        (trial.disturbers, trial.early, trial.between) = (Vec::new(), None, None);
        trial.disturbance.free_bytes = None;
        let mut label = trial.command.label.clone();
        if trial.command.action().is_none() {
            (place, journals) = ("journal beside", None);
        } else {
            if trial.recovery == Recovery::Undo {
                trial.recovery = Recovery::UndoTwice;
            }
            if stage == Stage::Recovery {
                // Most runs end, so that there is something to undo.
                if rng.u8(..4) > 0 {
                    (trial.disturbance.injections, trial.disturbance.timed) = (Vec::new(), None);
                }
                trial.recovery_injection = Some(trial.command.draw_recovery_injection(rng));
            }
            label = format!("{label}, {:?}", trial.recovery);
        }
        trial.power = Some(Self {
            label: format!("{label}, {place}, cut at {stage:?}"),
            stage,
            journals,
            commit_seconds: [1, 300][rng.usize(..2)],
            others_sync: (rng.u8(..4) > 0).then(|| moment(rng)),
            after: Duration::from_millis([0, rng.u64(..100), rng.u64(..4000)][rng.usize(..3)]),
        });
        trial
    }
}

/// The file systems of a trial that loses power.
pub struct Power<'a> {
    plan: &'a PowerPlan,
    own: Mounted,
    journals: Option<Mounted>,
}

impl<'a> Power<'a> {
    /// Mounts images in the directory of a trial, which is on XFS.
    pub fn mount(plan: &'a PowerPlan, file_system: TestFileSystem, site: &Site<'_>) -> Result<Self> {
        site.begin()?;
        let mount = |file_system| Mounted::new(file_system, &site.directory);
        let own = mount(file_system)?;
        if file_system != TestFileSystem::Xfs {
            let options = format!("remount,commit={}", plan.commit_seconds);
            capture(Command::new("mount").args(["-o", &options]).arg(own.point()))?;
        }
        let journals = plan.journals.map(|(other, _)| mount(other)).transpose()?;
        Ok(Self { plan, own, journals })
    }

    /// The site of the trial on them.
    pub fn site<'s>(&'s self, site: &Site<'s>) -> Site<'s> {
        Site {
            directory: self.own.point().join("trial"),
            state: self.journals.as_ref().unwrap_or(&self.own).point().join("state"),
            power: Some(self),
            ..*site
        }
    }

    /// Runs a command. If the power fails at this stage, what devices held then is mounted when it returns.
    pub fn run(&self, stage: Stage, command: impl FnOnce() -> Result<Ended>) -> Result<Ended> {
        if stage == Stage::Run {
            // What was there before is not lost.
            syncfs(File::open(self.own.point())?)?;
        }
        if stage != self.plan.stage {
            return command();
        }
        let is_over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let others = scope.spawn(|| self.sync_often(&is_over));
            let ended = command();
            thread::sleep(self.plan.after);
            is_over.store(true, Ordering::SeqCst);
            others.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            ended
        })?;
        self.own.lose_power()?;
        // A journal of a later moment knows no less.
        if let (Some(journals), Some((_, true))) = (&self.journals, self.plan.journals) {
            journals.lose_power()?;
        }
        Ok(ended)
    }

    fn sync_often(&self, is_over: &AtomicBool) -> Result<()> {
        let Some(pause) = self.plan.others_sync else {
            return Ok(());
        };
        let mut file = File::create(self.own.point().join("others"))?;
        while !is_over.load(Ordering::SeqCst) {
            file.write_all(b"line\n")?;
            file.sync_all()?;
            thread::sleep(pause);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_draw_every_action_on_every_file_system_with_every_place_of_the_journal() {
        let rows: BTreeSet<_> = (0..12_000)
            .map(PowerPlan::draw)
            .map(|plan| (plan.file_system.name(), plan.power.unwrap().label))
            .collect();
        // Five actions, two that follow, three places, two stages; two ways of updating, two stages.
        assert_eq!(rows.len(), 3 * (5 * 2 * 3 * 2 + 2 * 2), "{rows:?}");
    }
}
