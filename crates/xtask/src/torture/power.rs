//! Losses of power, and faults of the device: a trial runs on a file system of a simulated disk. During one of its commands, or
//! soon after, the power fails at a request or a moment that is drawn, or requests fail first. What a real disk would hold then
//! is mounted again, and the trial goes on.
//!
//! Not here: what the commands are (`command`), and what must hold (`verdict`).

use std::fs::{self, File};
use std::io::Write;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::fs::syncfs;
use seekless_sim::power::PowerLoss;

use super::disk::NullDisk;
use super::disturb::moment;
use super::plan::{Recovery, TrialPlan};
use super::site::{Ended, Site};
use super::store;
use super::tree::STATE;
use crate::filesystems::TestFileSystem;
use crate::process::capture;

const POLL: Duration = Duration::from_millis(1);
const NO_FAULTS: &str = "fault = []\n";
/// The file systems that a simulated disk is formatted with.
pub const ON_DISKS: [TestFileSystem; 3] = [TestFileSystem::Ext4, TestFileSystem::Xfs, TestFileSystem::Btrfs];

/// The command during which the power fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Run,
    /// The first that follows the run.
    Recovery,
}

/// When the power fails, and what fails before, drawn from the seed of a trial.
#[derive(Debug)]
pub struct PowerPlan {
    /// What is done when the power fails, and where the journals of actions are.
    pub label: String,
    stage: Stage,
    /// What the disk does from the beginning of the stage, as a plan of faults.
    faults: String,
    /// The power fails this long after the beginning of the stage, if not before.
    moment: Option<Duration>,
    /// Or so long after its end.
    after: Duration,
    /// Another file system, which has the journals, and what it loses.
    journals: Option<(TestFileSystem, Option<PowerLoss>)>,
    /// File systems write this often what is in memory; XFS each 30 s.
    commit_seconds: u16,
    /// So often another program syncs a file of its own, and with it the names that others made.
    others_sync: Option<Duration>,
    seed: u64,
}

impl PowerPlan {
    /// Draws a trial that loses power. It has no other processes and no full disk.
    pub fn draw(seed: u64) -> TrialPlan {
        let mut trial = TrialPlan::draw(seed);
        let rng = &mut Rng::with_seed(!seed);
        if trial.command.label == "cmp" {
            // It writes nothing.
            trial.command = store::draw(&mut rng.fork());
        }
        let mut stage = [Stage::Run, Stage::Recovery, Stage::Recovery][rng.usize(..3)];
        let own = rng.usize(..3);
        let other = ON_DISKS[(own + rng.usize(1..3)) % 3];
        // A journal of a later moment knows no less.
        let (mut place, mut journals) = [
            ("journal beside", None),
            ("journal elsewhere", Some((other, None))),
            ("journal kept", Some((other, Some(PowerLoss::Kept)))),
        ][rng.usize(..3)];
        trial.file_system = ON_DISKS[own];
        (trial.disturbers, trial.early, trial.between) = (Vec::new(), None, None);
        trial.disturbance.free_bytes = None;
        let mut label = trial.command.label.clone();
        if trial.command.action().is_none() {
            (place, journals) = ("journal beside", None);
            if !trial.command.is_update() {
                stage = Stage::Run;
            }
        } else {
            if trial.recovery == Recovery::Undo {
                trial.recovery = Recovery::UndoTwice;
            }
            label = format!("{label}, {:?}", trial.recovery);
        }
        match stage {
            Stage::Run => (trial.disturbance.injections, trial.disturbance.timed) = (Vec::new(), None),
            Stage::Recovery => trial.recovery_injection = None,
        }
        if stage == Stage::Recovery && trial.command.action().is_some() && rng.u8(..4) > 0 {
            // Most runs end, so that there is something to undo.
            (trial.disturbance.injections, trial.disturbance.timed) = (Vec::new(), None);
        }
        // Each factor of two as likely as the others.
        let nth = Duration::from_secs_f64(200_f64.powf(rng.f64())).as_secs();
        let (mut faults, mut moment_of_cut, mut end) = (NO_FAULTS.to_owned(), None, "cut");
        match rng.u8(..12) {
            0..6 => faults = format!("[[fault]]\nwhat = 'power-cut'\nnth = {nth}\n"),
            6..8 => moment_of_cut = Some(moment(rng)),
            8 => {}
            _ => {
                end = "fault";
                let what = ["eio", "eio", "enospc", "stall"][rng.usize(..4)];
                let on = match what {
                    "enospc" => "['write']",
                    _ => ["['read']", "['write']", "['flush']", "['write', 'flush', 'discard']"][rng.usize(..4)],
                };
                let times = [1, 1, 3, 1_000_000][rng.usize(..4)];
                faults = format!(
                    "[[fault]]\nwhat = '{what}'\non = {on}\nnth = {}\ntimes = {times}\n",
                    1 + nth / 4
                );
                if what == "stall" {
                    faults = faults.replace("1000000", "9") + "ms = 40\n";
                }
            }
        }
        trial.power = Some(Self {
            label: format!("{label}, {place}, {end} at {stage:?}"),
            stage,
            faults,
            moment: moment_of_cut,
            after: Duration::from_millis([0, 0, 0, rng.u64(..100), rng.u64(..100), rng.u64(..2500)][rng.usize(..6)]),
            journals,
            commit_seconds: [1, 300][rng.usize(..2)],
            others_sync: (rng.u8(..4) > 0).then(|| moment(rng)),
            seed,
        });
        trial
    }

    /// The run meets it, so that it may fail.
    pub fn is_at_run(&self) -> bool {
        self.stage == Stage::Run
    }
}

/// The disks of a trial that loses power.
pub struct Power<'a> {
    plan: &'a PowerPlan,
    own: &'a NullDisk,
    journals: Option<(&'a NullDisk, Option<PowerLoss>)>,
    /// The disks answer nobody.
    is_lost: AtomicBool,
    /// They are back.
    is_back: AtomicBool,
}

impl<'a> Power<'a> {
    /// Takes the disks that a trial needs, and makes way for it there.
    pub fn new(plan: &'a PowerPlan, file_system: TestFileSystem, disks: &'a [NullDisk]) -> Result<Self> {
        let disk = |file_system| {
            let disk = disks.iter().find(|disk| disk.file_system() == file_system);
            disk.with_context(|| format!("{} has no disk", file_system.name()))
        };
        let own = disk(file_system)?;
        let journals = plan.journals.map(|(other, loss)| anyhow::Ok((disk(other)?, loss)));
        let power = Self {
            plan,
            own,
            journals: journals.transpose()?,
            is_lost: AtomicBool::new(false),
            is_back: AtomicBool::new(false),
        };
        if let Some((journals, _)) = power.journals {
            let state = journals.point().join(STATE);
            if state.exists() {
                fs::remove_dir_all(state)?;
            }
        }
        if file_system != TestFileSystem::Xfs {
            let options = format!("remount,commit={}", plan.commit_seconds);
            capture(Command::new("mount").args(["-o", &options]).arg(own.point()))?;
        }
        Ok(power)
    }

    /// The site of the trial on them.
    pub fn site<'s>(&'s self, seekless: &'s Path, aside: &'s Path) -> Site<'s> {
        let mut site = Site::new(seekless, self.own.point(), aside);
        if let Some((journals, _)) = self.journals {
            site.state = journals.point().join(STATE);
        }
        site.power = Some(self);
        site
    }

    fn disks(&self) -> impl Iterator<Item = (&NullDisk, Option<PowerLoss>)> {
        [(self.own, None)].into_iter().chain(self.journals)
    }

    /// Whether the power is gone: nobody who waits for a disk gets an answer.
    pub fn is_gone(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst) && !self.is_back.load(Ordering::SeqCst)
    }

    /// Whatever ran is dead, or over: what the disks have kept is mounted.
    pub fn cut(&self) -> Result<()> {
        self.is_back.store(true, Ordering::SeqCst);
        self.own.plan(NO_FAULTS, 0)?;
        NullDisk::cut(&self.disks().collect::<Vec<_>>(), self.plan.seed)
    }

    /// Runs a command. If the power fails at this stage, what the disks held then is mounted when it returns.
    pub fn run(&self, stage: Stage, command: impl FnOnce() -> Result<Ended>) -> Result<Ended> {
        if stage == Stage::Run {
            // What was there before is not lost.
            for (disk, _) in self.disks() {
                syncfs(File::open(disk.point())?)?;
            }
        }
        if stage != self.plan.stage {
            return command();
        }
        self.own.plan(&self.plan.faults, self.plan.seed)?;
        let is_over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let others = scope.spawn(|| self.sync_often(&is_over));
            let watching = scope.spawn(|| self.watch(&is_over));
            let ended = command();
            let ends = Instant::now() + self.plan.after;
            while !self.is_lost.load(Ordering::SeqCst) && Instant::now() < ends {
                thread::sleep(POLL);
            }
            is_over.store(true, Ordering::SeqCst);
            watching.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            if !self.is_back.load(Ordering::SeqCst) {
                self.cut()?;
            }
            others.join().unwrap_or_else(|panic| resume_unwind(panic));
            ended
        })?;
        Ok(ended)
    }

    /// Cuts the power at its moment, and sees when it is gone.
    fn watch(&self, is_over: &AtomicBool) -> Result<()> {
        let started = Instant::now();
        while !is_over.load(Ordering::SeqCst) {
            if self.plan.moment.is_some_and(|moment| started.elapsed() >= moment) {
                self.own.lose_power()?;
            }
            if self.own.is_power_lost()? {
                self.is_lost.store(true, Ordering::SeqCst);
                break;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn sync_often(&self, is_over: &AtomicBool) {
        let (Some(pause), Ok(mut file)) = (self.plan.others_sync, File::create(self.own.point().join("others"))) else {
            return;
        };
        while !is_over.load(Ordering::SeqCst) && file.write_all(b"line\n").and_then(|()| file.sync_all()).is_ok() {
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seekless_sim::faults::Faults;

    use super::*;

    #[test]
    fn seeds_draw_every_command_on_every_file_system_with_every_place_of_the_journal() {
        let plans: Vec<_> = (0..20_000).map(PowerPlan::draw).collect();
        let label = |plan: &TrialPlan| plan.power.as_ref().unwrap().label.replace("fault at", "cut at");
        let rows = plans.iter().map(|plan| (plan.file_system.name(), label(plan)));
        let rows: BTreeSet<_> = rows.collect();
        // Five actions, two that follow, three places, two stages; three ways of updating, two stages; two of holes; three of runs.
        assert_eq!(rows.len(), 3 * (5 * 2 * 3 * 2 + 3 * 2 + 2 + 3), "{rows:?}");
        for plan in plans {
            Faults::from_toml(&plan.power.unwrap().faults, "the plan", 0).unwrap();
        }
    }
}
