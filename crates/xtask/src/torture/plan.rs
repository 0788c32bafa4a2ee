//! What a trial does, all of it drawn from its seed: a tree of files, a command, who and what disturbs it, and how it recovers.
//!
//! Not here: what the disturbers do, which is drawn while they run.

use std::fmt;

use fastrand::Rng;

use super::disturb::{Disturbance, InjectedFault, Injection, draw_file_system};
use super::disturber::{AT_ONE_FILE, AT_TREES, Disturber, PARTING};
use super::job::{self, ROOTS, TRASH, TrialCommand};
use super::power::PowerPlan;
use crate::filesystems::TestFileSystem;

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    pub file_system: TestFileSystem,
    pub tree: FileTree,
    pub job: TrialCommand,
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
}

impl TrialSubject {
    /// What the trial of a seed is of: so that a campaign of one kind takes only its seeds.
    pub fn seed(seed: u64) -> Self {
        if Rng::with_seed(!seed).bool() {
            Self::Update
        } else {
            Self::Dupes
        }
    }
}

/// The files before the trial. Paths are relative to the directory of the trial. A command on one file is run on the first entry.
#[derive(Debug)]
pub struct FileTree {
    pub contents: Vec<Content>,
    /// Each after the one that it is in.
    pub directories: Vec<String>,
    pub entries: Vec<TreeEntry>,
    /// Blocks of zeros are holes.
    pub is_sparse: bool,
}

/// The bytes of one or more files, and what an update changes in them.
pub struct Content {
    pub bytes: Vec<u8>,
    pub patches: Vec<Patch>,
}

/// Bytes for a place of a file.
#[derive(Clone, Debug)]
pub struct Patch {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct TreeEntry {
    pub path: String,
    pub made: Made,
}

#[derive(Clone, Debug)]
pub enum Made {
    File {
        /// Its number among the contents.
        content: usize,
        given: Given,
    },
    /// Another name of the file with this number among the entries.
    Name(usize),
    Symlink(String),
}

/// The attributes that a file is given.
#[derive(Clone, Debug)]
pub struct Given {
    pub mode: u32,
    pub owner: u32,
    /// Seconds and ns since 1970; that of making it if there is none.
    pub modified: Option<(i64, u32)>,
    pub extended: Option<u8>,
}

/// No file of duplicates is longer.
const MOST_BYTES: usize = 300 << 10;

impl TrialPlan {
    pub fn draw(seed: u64) -> Self {
        Self::draw_of(TrialSubject::seed(seed), seed)
    }

    pub fn draw_of(of: TrialSubject, seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let file_system = draw_file_system(rng);
        let is_dupes = of == TrialSubject::Dupes;
        let mut tree = if is_dupes { draw_tree(rng) } else { draw_file(rng) };
        let job = if is_dupes {
            job::draw_dupes(rng, &tree, file_system)
        } else {
            job::draw_file_command(rng, &mut tree)
        };
        let mut disturbance = Disturbance::draw(rng, job.calls());
        disturbance.draw_full_disk(rng, file_system);
        let are_met = job.label() != "cmp" && rng.f32() < if disturbance.delayed_call().is_some() { 0.9 } else { 0.5 };
        let column = if is_dupes { AT_TREES } else { AT_ONE_FILE };
        // One at a file that is updated: so it is known which mode was set last.
        let most = if is_dupes { 3 } else { 1 };
        let number = if are_met { rng.usize(1..=most) } else { 0 };
        let recoveries = [Recovery::Again, Recovery::Undo, Recovery::Undo, Recovery::UndoTwice];
        let is_parting = rng.bool();
        Self {
            file_system,
            disturbers: (0..number).map(|_| Disturber::draw(rng, column)).collect(),
            recovery: if is_dupes {
                recoveries[rng.usize(..4)]
            } else {
                Recovery::Recover
            },
            recovery_injection: (rng.f32() < 0.4).then(|| job.draw_recovery_injection(rng)),
            disturbers_stay: is_dupes && rng.u8(..3) == 0,
            early: (is_dupes && rng.u8(..4) == 0).then(|| draw_few_acts(rng, AT_TREES)),
            between: (is_dupes && rng.u8(..4) == 0)
                .then(|| draw_few_acts(rng, if is_parting { PARTING } else { AT_TREES })),
            power: None,
            tree,
            job,
            disturbance,
        }
    }

    /// No other process is there before the run and during it.
    fn is_alone(&self) -> bool {
        self.disturbers.is_empty() && self.early.is_none()
    }

    pub fn is_undisturbed(&self) -> bool {
        self.disturbance.is_none() && self.is_alone()
    }

    /// No other process is there, from beginning to end.
    pub fn is_calm(&self) -> bool {
        self.is_alone() && self.between.is_none()
    }

    /// Nothing but time was taken from the run.
    pub fn is_only_slowed(&self) -> bool {
        let mut injections = self.disturbance.injections.iter();
        let are_delays = injections.all(|one| matches!(one.what, InjectedFault::Delay(_)));
        let Disturbance { timed, free_bytes, .. } = &self.disturbance;
        are_delays && self.is_alone() && free_bytes.is_none() && timed.is_none()
    }
}

impl Content {
    pub fn of(bytes: Vec<u8>) -> Self {
        let patches = Vec::new();
        Self { bytes, patches }
    }

    /// The bytes with all patches.
    pub fn patched(&self, bytes: &[u8]) -> Vec<u8> {
        let mut after = bytes.to_vec();
        for patch in &self.patches {
            if after.len() < patch.end() {
                after.resize(patch.end(), 0);
            }
            after[patch.offset..patch.end()].copy_from_slice(&patch.bytes);
        }
        after
    }

    /// For each byte, whether a patch names it.
    pub fn named(&self) -> Vec<bool> {
        let end = self.patches.iter().map(Patch::end).max().unwrap_or(0);
        let mut named = vec![false; end.max(self.bytes.len())];
        for patch in &self.patches {
            named[patch.offset..patch.end()].fill(true);
        }
        named
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} B", self.bytes.len())?;
        for patch in &self.patches {
            write!(out, ", {}+{}", patch.offset, patch.bytes.len())?;
        }
        Ok(())
    }
}

impl Patch {
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

impl FileTree {
    /// The number of the content that an entry has, if it is a file.
    pub fn content(&self, number: usize) -> Option<usize> {
        match &self.entries[number].made {
            Made::File { content, .. } => Some(*content),
            Made::Name(first) => self.content(*first),
            Made::Symlink(_) => None,
        }
    }

    /// The path of the first file with a content.
    pub fn path(&self, content: usize) -> &str {
        let number = (0..self.entries.len()).find(|&number| self.content(number) == Some(content));
        number.map_or("", |number| &self.entries[number].path)
    }

    /// Adds an entry with a name that no other contains, and perhaps further names of it.
    pub fn add(&mut self, rng: &mut Rng, made: Made) {
        let is_file = matches!(made, Made::File { .. });
        let mut made = made;
        loop {
            let number = self.entries.len();
            let tail = match rng.u8(..20) {
                0 => " \x1b[31m",
                1 => "é\n",
                2 => "'\"\\",
                3..6 => ".keep",
                _ => "",
            };
            let long = if rng.u8(..40) == 0 { 180 } else { 0 };
            let above = &self.directories[rng.usize(1..self.directories.len())];
            let path = format!("{above}/{}f{number}_{tail}", "x".repeat(long));
            self.entries.push(TreeEntry { path, made });
            if !is_file || rng.u8(..8) > 0 {
                return;
            }
            let first = match &self.entries[number].made {
                Made::Name(first) => *first,
                _ => number,
            };
            made = Made::Name(first);
        }
    }
}

fn draw_few_acts(rng: &mut Rng, column: usize) -> Disturber {
    Disturber {
        most_acts: rng.usize(1..8),
        ..Disturber::draw(rng, column)
    }
}

/// Bytes none of which is zero, so that missing ones are seen.
pub fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes
}

/// One file, perhaps with several names.
fn draw_file(rng: &mut Rng) -> FileTree {
    let bytes = match rng.u8(..20) {
        0 => 0,
        1 => rng.usize(1..100),
        2..12 => rng.usize(100..20_000),
        12..19 => rng.usize(20_000..300_000),
        _ => rng.usize(300_000..3_000_000),
    };
    let mut content = random(rng, bytes);
    let has_zeros = rng.bool();
    for block in content.chunks_mut(4096) {
        if has_zeros && rng.bool() {
            block.fill(0);
        }
    }
    let mut tree = FileTree {
        contents: vec![Content::of(content)],
        directories: ["tree", ROOTS[0], ROOTS[1]].map(str::to_owned).into(),
        entries: Vec::new(),
        is_sparse: has_zeros && rng.bool(),
    };
    let mut given = draw_given(rng);
    // A journal that a kill left incomplete is refused if the file is dated in the future.
    given.modified = given.modified.filter(|(seconds, _)| *seconds <= 1_700_000_000);
    tree.add(rng, Made::File { content: 0, given });
    tree
}

/// Groups of equal files, and links, in directories.
fn draw_tree(rng: &mut Rng) -> FileTree {
    let mut directories: Vec<String> = ["tree", ROOTS[0], ROOTS[1]].map(str::to_owned).into();
    for number in 0..rng.usize(1..7) {
        let above = &directories[rng.usize(1..directories.len())];
        let name = ["d", "d d", "d\n", "dé"][rng.usize(..4)];
        directories.push(format!("{above}/{number}{name}"));
    }
    if rng.u8(..4) == 0 {
        directories.push(format!("{}/{TRASH}", rng.choice(ROOTS).unwrap_or_default()));
    }
    let mut tree = FileTree {
        contents: Vec::new(),
        directories,
        entries: Vec::new(),
        is_sparse: false,
    };
    // Steps are done in batches of 512.
    let are_many = rng.u8(..60) == 0;
    for _ in 0..if are_many { rng.usize(2..5) } else { rng.usize(1..8) } {
        draw_group(&mut tree, rng, are_many);
    }
    for _ in 0..rng.usize(..3) {
        let target = rng.choice(&tree.entries).map(|entry| entry.path.clone());
        let target = target.and_then(|path| path.rsplit_once('/').map(|(_, name)| name.to_owned()));
        tree.add(rng, Made::Symlink(target.unwrap_or_default()));
    }
    tree
}

/// Adds equal files, and perhaps others that differ from them in one byte.
fn draw_group(tree: &mut FileTree, rng: &mut Rng, are_many: bool) {
    let bytes = match rng.u8(..12) {
        _ if are_many => rng.usize(1..40),
        0 => rng.usize(..40),
        1..5 => rng.usize(40..8000),
        _ => {
            let most = MOST_BYTES >> rng.u32(..14);
            rng.usize(1..=most)
        }
    };
    let mut group = vec![random(rng, bytes)];
    if rng.bool() && bytes > 200 {
        let mut differing = group[0].clone();
        let at = rng.usize(bytes * 3 / 4..bytes);
        differing[at] ^= 2;
        group.push(differing);
    }
    let usual = draw_given(rng);
    let are_alike = rng.u8(..3) > 0;
    for bytes in group {
        if tree.contents.iter().any(|known| known.bytes == bytes) {
            continue;
        }
        let content = tree.contents.len();
        tree.contents.push(Content::of(bytes));
        let files = match rng.u8(..4) {
            _ if are_many => rng.usize(100..400),
            0 => 1,
            1 | 2 => rng.usize(2..5),
            _ => rng.usize(2..13),
        };
        for _ in 0..files {
            let is_usual = are_alike && rng.u8(..10) > 0;
            let given = if is_usual { usual.clone() } else { draw_given(rng) };
            tree.add(rng, Made::File { content, given });
        }
    }
}

pub fn draw_given(rng: &mut Rng) -> Given {
    // A day of 1955, of 2001 and of 2242, and any since 1970.
    let seconds = [-450_000_000, 1_000_000_000, 8_600_000_000, rng.i64(0..1_700_000_000)];
    Given {
        mode: [0o600, 0o644, 0o644, 0o444, 0o4755][rng.usize(..5)],
        owner: if rng.u8(..12) == 0 { 1000 } else { 0 },
        modified: rng.bool().then(|| (seconds[rng.usize(..4)], rng.u32(..1_000_000_000))),
        extended: (rng.u8(..4) == 0).then(|| rng.u8(..3)),
    }
}
