//! What a trial of acting on duplicates does, all of it drawn from its seed: a tree, an action with its rules, and who or
//! what disturbs it.
//!
//! Not here: what the other processes do, which is drawn while they run.

use std::time::Duration;

use fastrand::Rng;

use super::others::{KINDS, Kind, PARTING};
use crate::filesystems::FileSystem;
use crate::torture::disturb::{Bytes, Calls, Disturbance, Injection, What, draw_file_system, moment, random};

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    pub file_system: FileSystem,
    pub tree: Tree,
    pub command: Invocation,
    pub disturbance: Disturbance,
    pub others: Vec<Other>,
    /// They go on until all is over, not only the run.
    pub others_stay: bool,
    /// Acts between the run and what follows.
    pub between: Option<Other>,
    pub recovery: Recovery,
    /// What comes first after the run meets this, and is run again whatever comes of it.
    pub recovery_injection: Option<Injection>,
}

/// The files before the trial. Paths are relative to the directory of the trial.
#[derive(Debug)]
pub struct Tree {
    pub contents: Vec<Bytes>,
    /// Each after the one that it is in.
    pub directories: Vec<String>,
    pub entries: Vec<Entry>,
}

#[derive(Debug)]
pub struct Entry {
    pub path: String,
    pub made: Made,
}

#[derive(Clone, Debug)]
pub enum Made {
    File {
        /// Its number among the contents.
        content: usize,
        attributes: Attributes,
    },
    /// Another name of the file with this number among the entries.
    Name(usize),
    Symlink(String),
}

#[derive(Clone, Debug)]
pub struct Attributes {
    pub mode: u32,
    pub owner: u32,
    /// Seconds and ns since 1970; that of making it if there is none.
    pub modified: Option<(i64, u32)>,
    pub extended: Option<u8>,
}

/// What seekless is called for.
#[derive(Debug)]
pub struct Invocation {
    pub action: Action,
    pub rules: Vec<Rule>,
    pub route: Route,
    /// Options and paths of the search.
    pub search: Vec<String>,
    /// Options of acting, all but the rules.
    pub options: Vec<&'static str>,
}

impl Invocation {
    /// It also acts on files that others may have open for writing.
    pub fn is_busy(&self) -> bool {
        self.options.contains(&"--busy")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Remove,
    Hardlink,
    Symlink,
    Reflink,
    Move,
}

impl Action {
    const ALL: [Self; 5] = [Self::Remove, Self::Hardlink, Self::Symlink, Self::Reflink, Self::Move];

    pub fn word(self) -> &'static str {
        self.label().trim_start_matches("dupes ")
    }

    /// The row of the table that it counts in.
    pub fn label(self) -> &'static str {
        match self {
            Self::Remove => "dupes remove",
            Self::Hardlink => "dupes hardlink",
            Self::Symlink => "dupes symlink",
            Self::Reflink => "dupes reflink",
            Self::Move => "dupes move",
        }
    }
}

/// What stays.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Order(&'static str),
    AtLeast(usize),
    /// Names that end with this.
    Name(&'static str),
    NotUnder(&'static str),
}

impl Rule {
    pub fn word(self) -> String {
        match self {
            Self::Order(order) => order.to_owned(),
            Self::AtLeast(number) => format!("at-least:{number}"),
            Self::Name(end) => format!("name:*{end}"),
            Self::NotUnder(directory) => format!("not-under:{directory}"),
        }
    }

    /// Whether it keeps a file with this path, whatever the others are.
    pub fn keeps(self, path: &str) -> bool {
        match self {
            Self::Name(end) => path.ends_with(end),
            Self::NotUnder(directory) => !path.starts_with(&format!("{directory}/")),
            Self::Order(_) | Self::AtLeast(_) => false,
        }
    }
}

/// How a search leads to the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `dupes --action`.
    AtOnce,
    /// `dupes --json`, then `dupes act --from`.
    Report,
    /// `dupes --plan-file`, then `dupes act --plan`.
    Plan,
}

/// Another process, which acts on files at random.
#[derive(Debug)]
pub struct Other {
    pub seed: u64,
    pub kinds: &'static [Kind],
    pub after: Duration,
    /// Or as soon as a delay begins.
    pub at_delay: bool,
    /// Between two acts, at most.
    pub pause: Duration,
    /// It stops after so many acts, or when the run ends.
    pub most_acts: usize,
    /// It comes to the names of one content only.
    pub is_at_one: bool,
}

/// What follows the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The same again.
    Again,
    Undo,
    UndoTwice,
}

/// The directories that are searched.
pub const ROOTS: [&str; 2] = ["tree/r0", "tree/r1"];
/// The directory that files are moved to.
pub const MOVED: &str = "to";
/// The name of a directory that counts as trash.
pub const TRASH: &str = ".Trash-0";
/// Of each other process.
const MOST_ACTS: usize = 2000;
/// No file is longer.
const MOST_BYTES: usize = 300 << 10;

impl TrialPlan {
    /// Draws a trial.
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let file_system = draw_file_system(rng);
        let tree = draw_tree(rng);
        let command = draw_command(rng, &tree, file_system);
        let mut disturbance = Disturbance::draw(rng, &CALLS);
        disturbance.draw_full_disk(rng, file_system);
        let are_met = rng.f32() < if disturbance.delayed_call().is_some() { 0.9 } else { 0.5 };
        let others = (0..if are_met { rng.usize(1..=3) } else { 0 }).map(|_| draw_other(rng));
        Self {
            file_system,
            others: others.collect(),
            tree,
            command,
            disturbance,
            recovery: [Recovery::Again, Recovery::Undo, Recovery::Undo, Recovery::UndoTwice][rng.usize(..4)],
            recovery_injection: (rng.f32() < 0.4).then(|| draw_recovery_injection(rng)),
            others_stay: rng.u8(..3) == 0,
            between: (rng.u8(..4) == 0).then(|| Other {
                kinds: if rng.bool() { &KINDS } else { &PARTING },
                most_acts: rng.usize(1..8),
                ..draw_other(rng)
            }),
        }
    }
}

fn draw_tree(rng: &mut Rng) -> Tree {
    let mut directories: Vec<String> = vec!["tree".to_owned()];
    directories.extend(ROOTS.map(str::to_owned));
    for number in 0..rng.usize(1..7) {
        let above = &directories[rng.usize(1..directories.len())];
        let name = ["d", "d d", "d\n", "dé"][rng.usize(..4)];
        directories.push(format!("{above}/{number}{name}"));
    }
    if rng.u8(..4) == 0 {
        directories.push(format!("{}/{TRASH}", rng.choice(ROOTS).unwrap_or_default()));
    }
    let mut tree = Tree {
        contents: Vec::new(),
        directories,
        entries: Vec::new(),
    };
    // Steps are done in batches of 512.
    let are_many = rng.u8(..60) == 0;
    for _ in 0..if are_many { rng.usize(2..5) } else { rng.usize(1..8) } {
        let bytes = match rng.u8(..12) {
            _ if are_many => rng.usize(1..40),
            0 => rng.usize(..40),
            1..5 => rng.usize(40..8000),
            _ => {
                let most = MOST_BYTES >> rng.u32(..14);
                rng.usize(1..=most)
            }
        };
        let content = random(rng, bytes);
        let mut group = vec![content];
        if rng.bool() && bytes > 200 {
            let mut other = group[0].clone();
            let at = rng.usize(bytes * 3 / 4..bytes);
            other[at] ^= 2;
            group.push(other);
        }
        let usual = draw_attributes(rng);
        let are_alike = rng.u8(..3) > 0;
        for content in group {
            if tree.contents.iter().any(|known| known.0 == content) {
                continue;
            }
            tree.contents.push(Bytes(content));
            let files = match rng.u8(..4) {
                _ if are_many => rng.usize(100..400),
                0 => 1,
                1 | 2 => rng.usize(2..5),
                _ => rng.usize(2..13),
            };
            for _ in 0..files {
                let attributes = if are_alike && rng.u8(..10) > 0 {
                    usual.clone()
                } else {
                    draw_attributes(rng)
                };
                let content = tree.contents.len() - 1;
                add(&mut tree, rng, Made::File { content, attributes });
            }
        }
    }
    for _ in 0..rng.usize(..3) {
        let target = rng.choice(&tree.entries).map(|entry| entry.path.clone());
        let target = target.and_then(|path| path.rsplit_once('/').map(|(_, name)| name.to_owned()));
        add(&mut tree, rng, Made::Symlink(target.unwrap_or_default()));
    }
    tree
}

/// Adds an entry with a name that no other contains, and perhaps further names of it.
fn add(tree: &mut Tree, rng: &mut Rng, made: Made) {
    let is_file = matches!(made, Made::File { .. });
    let mut made = made;
    loop {
        let number = tree.entries.len();
        let tail = match rng.u8(..20) {
            0 => " \x1b[31m",
            1 => "é\n",
            2 => "'\"\\",
            3..6 => ".keep",
            _ => "",
        };
        let long = if rng.u8(..40) == 0 { 180 } else { 0 };
        let above = &tree.directories[rng.usize(1..tree.directories.len())];
        let path = format!("{above}/{}f{number}_{tail}", "x".repeat(long));
        tree.entries.push(Entry { path, made });
        if !is_file || rng.u8(..8) > 0 {
            return;
        }
        let first = match &tree.entries[number].made {
            Made::Name(first) => *first,
            _ => number,
        };
        made = Made::Name(first);
    }
}

fn draw_attributes(rng: &mut Rng) -> Attributes {
    // A day of 1955, of 2001 and of 2242, and any since 1970.
    let seconds = [-450_000_000, 1_000_000_000, 8_600_000_000, rng.i64(0..1_700_000_000)];
    Attributes {
        mode: [0o600, 0o644, 0o644, 0o444, 0o4755][rng.usize(..5)],
        owner: if rng.u8(..12) == 0 { 1000 } else { 0 },
        modified: rng.bool().then(|| (seconds[rng.usize(..4)], rng.u32(..1_000_000_000))),
        extended: (rng.u8(..4) == 0).then(|| rng.u8(..3)),
    }
}

fn draw_command(rng: &mut Rng, tree: &Tree, file_system: FileSystem) -> Invocation {
    let shares = matches!(file_system, FileSystem::Xfs | FileSystem::Btrfs) || rng.u8(..8) == 0;
    let action = Action::ALL[rng.usize(..5)];
    let action = if action == Action::Reflink && !shares {
        Action::Remove
    } else {
        action
    };
    let mut search: Vec<String> = Vec::new();
    let has_empty = tree.contents.iter().any(|content| content.0.is_empty());
    if has_empty && rng.bool() {
        search.extend(["--min-size".to_owned(), "0".to_owned()]);
    }
    if rng.u8(..3) == 0 {
        search.push("--all".to_owned());
    }
    let has_reference = rng.u8(..6) == 0;
    let roots = if rng.bool() { ROOTS } else { [ROOTS[1], ROOTS[0]] };
    if has_reference {
        search.extend(["--against", roots[0], roots[1]].map(str::to_owned));
    } else if rng.u8(..4) == 0 {
        search.push("tree".to_owned());
    } else {
        search.extend(roots.map(str::to_owned));
    }
    let mut rules = Vec::new();
    for _ in 0..rng.usize(usize::from(!has_reference)..3) {
        rules.push(match rng.u8(..12) {
            0 => Rule::AtLeast(rng.usize(1..4)),
            1 => Rule::Name(".keep"),
            2 => Rule::NotUnder(ROOTS[rng.usize(..2)]),
            _ => Rule::Order(["newest", "oldest", "shortest", "longest", "first"][rng.usize(..5)]),
        });
    }
    let mut options = Vec::new();
    let mut add = |is_possible: bool, one_of: u8, option: &'static str| {
        if is_possible && rng.u8(..one_of) == 0 {
            options.push(option);
        }
    };
    add(action == Action::Symlink, 2, "--absolute");
    add(action == Action::Hardlink, 2, "--ignore-metadata");
    add(true, 2, "--unsafe-owner");
    add(true, 12, "--busy");
    if action == Action::Move {
        options.extend(["--to", MOVED]);
    }
    Invocation {
        action,
        rules,
        route: [Route::AtOnce, Route::AtOnce, Route::Report, Route::Plan][rng.usize(..4)],
        search,
        options,
    }
}

const CALLS: Calls = Calls {
    all: &[
        ("renameat2", 10),
        ("unlinkat", 10),
        ("linkat", 8),
        ("symlinkat", 8),
        ("fcntl", 150),
        ("fdatasync", 3),
        ("syncfs", 1),
        ("write", 8),
        ("ioctl", 12),
        ("flock", 16),
        ("mkdirat", 4),
        ("statx", 150),
        ("openat", 150),
        ("pread64", 30),
        ("preadv2", 20),
        ("newfstatat", 60),
        ("readlinkat", 4),
        ("fstatfs", 20),
        ("getdents64", 8),
        ("flistxattr", 16),
        ("fgetxattr", 8),
        ("utimensat", 4),
        ("fsync", 2),
        ("mkdir", 3),
        ("read", 20),
        ("lseek", 4),
        ("unlink", 1),
    ],
    delayed: 11,
};

/// Calls of a run that settles or undoes.
const RECOVERY_CALLS: [(&str, u32); 9] = [
    ("renameat2", 8),
    ("unlinkat", 8),
    ("linkat", 6),
    ("write", 6),
    ("openat", 150),
    ("utimensat", 4),
    ("fdatasync", 1),
    ("syncfs", 1),
    ("flock", 3),
];

/// Draws what disturbs the first that follows the run.
pub fn draw_recovery_injection(rng: &mut Rng) -> Injection {
    let (call, most) = RECOVERY_CALLS[rng.usize(..RECOVERY_CALLS.len())];
    Injection {
        call,
        when: rng.u32(1..=most),
        what: match rng.u8(..10) {
            0..6 => What::Kill,
            6..9 => What::Delay(Duration::from_millis(rng.u64(5..60))),
            _ => What::Error("EIO"),
        },
    }
}

fn draw_other(rng: &mut Rng) -> Other {
    let number = rng.usize(..KINDS.len());
    Other {
        seed: rng.u64(..),
        // All kinds, or one alone.
        kinds: if rng.bool() { &KINDS } else { &KINDS[number..=number] },
        after: match rng.u8(..3) {
            0 => Duration::ZERO,
            _ => moment(rng),
        },
        at_delay: rng.u8(..3) > 0,
        pause: Duration::from_micros([0, 200, 1000, 5000][rng.usize(..4)]),
        most_acts: [rng.usize(1..8), rng.usize(8..80), MOST_ACTS][rng.usize(..3)],
        is_at_one: rng.bool(),
    }
}
