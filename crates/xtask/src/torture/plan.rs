//! What a trial does, all of it drawn from its seed: a tree of files, a command, who and what disturbs it, and how it recovers.
//!
//! Not here: what the disturbers do, which is drawn while they run.

use std::ops::Range;
use std::path::PathBuf;

use fastrand::Rng;

use super::command::{TrialCommand, draw_dupes, draw_file_command};
use super::copy;
use super::disturb::{AT_ONE_FILE, AT_TREES, Disturbance, Disturber, FILE_SYSTEMS, Injection, PARTING};
use super::draw::{Patch, TreeDraw};
use super::power::PowerPlan;
use super::tree::{FileTree, file};
use crate::filesystems::TestFileSystem;

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    pub file_system: TestFileSystem,
    /// The files before the trial. Paths are relative to the directory of the trial.
    pub tree: FileTree,
    /// Blocks of zeros are holes.
    pub is_sparse: bool,
    /// The files that the command is called for, if they are not the tree.
    pub files: Vec<PathBuf>,
    /// What an update changes in the first of them.
    pub patches: Vec<Patch>,
    pub command: TrialCommand,
    pub disturbance: Disturbance,
    pub disturbers: Vec<Disturber>,
    /// They go on until all is over, not only the run.
    pub disturbers_stay: bool,
    /// Acts between a search and a run that does what the search found.
    pub early: Option<Disturber>,
    /// Acts between the run and what follows.
    pub between: Option<Disturber>,
    pub recovery: Recovery,
    /// The first recovery meets this. It is run again, however the first one ends.
    pub recovery_injection: Option<Injection>,
    /// The power fails.
    pub power: Option<PowerPlan>,
}

/// What follows the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// `update --recover`, if the update ended early.
    Recover,
    /// The same command again.
    Again,
    Undo,
    UndoTwice,
}

/// What a trial is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TrialSubject {
    /// Updating files, digging and filling holes, comparing
    Update,
    /// Acting on duplicates
    Dupes,
    /// Copying trees
    Cp,
}

/// These seeds are of copies; all others are what they were before copies had trials.
pub const SEEDS_OF_COPIES: Range<u64> = 1 << 40..(1 << 40) + (1 << 32);

impl TrialSubject {
    /// What the trial of a seed is of: so that a campaign of one kind takes only its seeds.
    pub fn seed(seed: u64) -> Self {
        if SEEDS_OF_COPIES.contains(&seed) {
            Self::Cp
        } else if Rng::with_seed(!seed).bool() {
            Self::Update
        } else {
            Self::Dupes
        }
    }
}

impl TrialPlan {
    pub fn draw(seed: u64) -> Self {
        Self::draw_of(TrialSubject::seed(seed), seed)
    }

    pub fn draw_of(of: TrialSubject, seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let file_system = FILE_SYSTEMS[rng.usize(..FILE_SYSTEMS.len())];
        let is_dupes = of == TrialSubject::Dupes;
        let own_rng = &mut rng.fork();
        let mut draw = TreeDraw::new(own_rng);
        let (mut files, mut patches) = (Vec::new(), Vec::new());
        let command = if of == TrialSubject::Cp {
            draw.draw_groups();
            copy::draw(rng)
        } else if is_dupes {
            draw.draw_groups();
            draw_dupes(rng, file_system)
        } else {
            files.push(draw.draw_one());
            let bytes = file(&draw.tree, &files[0]).map_or(Vec::new(), |file| file.bytes.to_vec());
            let (command, drawn) = draw_file_command(rng, bytes.len());
            patches = drawn;
            if command.label == "cmp" {
                files.push(draw.draw_second(bytes));
            }
            command
        };
        let disturbance = Disturbance::draw(rng, command.calls(), file_system);
        let are_met = command.label != "cmp" && rng.f32() < if disturbance.delay().is_some() { 0.9 } else { 0.5 };
        // One at a file that is updated: so it is known which mode was set last.
        let (column, most) = if is_dupes { (AT_TREES, 3) } else { (AT_ONE_FILE, 1) };
        let number = if are_met { rng.usize(1..=most) } else { 0 };
        let recoveries = [Recovery::Again, Recovery::Undo, Recovery::Undo, Recovery::UndoTwice];
        let parting = if rng.bool() { PARTING } else { AT_TREES };
        Self {
            file_system,
            disturbers: (0..number).map(|_| Disturber::draw(rng, column)).collect(),
            recovery: if is_dupes {
                recoveries[rng.usize(..4)]
            } else {
                Recovery::Recover
            },
            recovery_injection: (rng.f32() < 0.4).then(|| command.draw_recovery_injection(rng)),
            disturbers_stay: is_dupes && rng.u8(..3) == 0,
            early: (is_dupes && rng.u8(..4) == 0).then(|| Disturber::draw_brief(rng, AT_TREES)),
            between: (is_dupes && rng.u8(..4) == 0).then(|| Disturber::draw_brief(rng, parting)),
            power: None,
            tree: draw.tree,
            is_sparse: rng.bool(),
            files,
            patches,
            command,
            disturbance,
        }
    }

    /// No other process is there before the run and during it.
    fn is_alone(&self) -> bool {
        self.disturbers.is_empty() && self.early.is_none()
    }

    pub fn is_undisturbed(&self) -> bool {
        self.disturbance.is_none() && self.is_alone() && !self.power.as_ref().is_some_and(PowerPlan::is_at_run)
    }

    /// No other process is there, from beginning to end.
    pub fn is_calm(&self) -> bool {
        self.is_alone() && self.between.is_none()
    }

    /// Nothing but time was taken from the run.
    pub fn is_only_slowed(&self) -> bool {
        let are_delays = self.disturbance.injections.iter().all(Injection::is_delay);
        let Disturbance { timed, free_bytes, .. } = &self.disturbance;
        are_delays
            && self.is_alone()
            && !self.power.as_ref().is_some_and(PowerPlan::is_at_run)
            && free_bytes.is_none()
            && timed.is_none()
    }
}
