//! The commands of trials: `update`, `holes`, `cmp` and `dupes`, as the words that are typed, and the system calls that they make.
//!
//! Not here: how they are run (`trial`), and what must hold afterwards (`verdict`).

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;

use super::copy;
use super::disturb::Injection;
use super::draw::{Patch, random};
use super::tree::MOVED;
use crate::filesystems::TestFileSystem;

/// What seekless is called for. In its words, `FILE` and `OTHER` stand for the files that it is called for, `UPDATES` for the
/// document with the patches, and `FOUND` for the report or plan of a search.
#[derive(Debug)]
pub struct TrialCommand {
    /// The row of the table that it counts in: the command, and what it is to do.
    pub label: String,
    /// A search for duplicates that the run acts on, where that is a command of its own.
    pub search: Option<String>,
    /// What is disturbed.
    pub run: String,
    /// Search and run as one command.
    pub at_once: String,
}

/// The directories that are searched.
pub const ROOTS: [&str; 2] = ["tree/r0", "tree/r1"];

impl TrialCommand {
    pub fn of_file(label: &str, words: String) -> Self {
        Self {
            label: label.to_owned(),
            search: None,
            run: words.clone(),
            at_once: words,
        }
    }

    /// What is done with duplicates: `remove`, `hardlink`, `symlink`, `reflink` or `move`.
    pub fn action(&self) -> Option<&str> {
        self.label.strip_prefix("dupes ")
    }

    pub fn is_update(&self) -> bool {
        self.label.starts_with("update")
    }

    /// Whether it changes the store of runs, and no file of the tree.
    pub fn is_of_runs(&self) -> bool {
        self.label.starts_with("runs")
    }

    /// Whether it copies a tree.
    pub fn is_copy(&self) -> bool {
        self.label.starts_with("cp ")
    }

    pub fn has(&self, option: &str) -> bool {
        self.at_once.split(' ').any(|word| word == option)
    }

    /// Whether what it wrote is durable when it ends with success.
    pub fn syncs(&self) -> bool {
        let by_method = self.at_once.contains(",fsync") || self.at_once.contains(",write-through");
        match &self.label[..] {
            "update in-place" if self.has("--method") => by_method,
            "update in-place" => !self.has("none"),
            // The time of a file that was given back may be lost.
            label => !label.starts_with("holes"),
        }
    }

    /// Calls that it makes, and how many of each.
    pub fn calls(&self) -> &'static [(&'static str, u32)] {
        if self.is_copy() {
            return &copy::CALLS;
        }
        self.action().map_or(&FILE_CALLS[..], |_| &DUPES_CALLS)
    }

    /// Draws what disturbs the first recovery.
    pub fn draw_recovery_injection(&self, rng: &mut Rng) -> Injection {
        let calls: &[(&str, u32)] = match self.action() {
            None => &[("pwrite64", 4)],
            Some(_) => &UNDO_CALLS,
        };
        let fault = match rng.u8(..10) {
            0..6 => Injection::KILL.to_owned(),
            6..9 => Injection::delay(Duration::from_millis(rng.u64(5..60))),
            _ => "error=EIO".to_owned(),
        };
        Injection::new(calls[rng.usize(..calls.len())], fault, rng)
    }

    /// Whether a rule keeps a file with this path, whatever the others are.
    pub fn keeps(&self, path: &str) -> bool {
        self.at_once.split(' ').any(|rule| match rule.split_once(':') {
            Some(("name", pattern)) => path.ends_with(pattern.trim_start_matches('*')),
            Some(("under", directory)) => path.starts_with(&format!("{directory}/")),
            Some(("not-under", directory)) => !path.starts_with(&format!("{directory}/")),
            _ => false,
        })
    }

    /// How many files of each group stay at least.
    pub fn least(&self) -> usize {
        let words = self.at_once.split(' ');
        let least = words.filter_map(|rule| rule.strip_prefix("at-least:")?.parse().ok());
        least.max().unwrap_or(1)
    }
}

/// Draws a command on a file of this length, and what an update changes in it.
pub fn draw_file_command(rng: &mut Rng, length: usize) -> (TrialCommand, Vec<Patch>) {
    let (label, words) = match rng.u8(..20) {
        0 | 1 => (
            "holes dig",
            ["holes dig FILE", "holes dig --verify FILE"][rng.usize(..2)].to_owned(),
        ),
        2 => ("holes fill", "holes fill FILE".to_owned()),
        3 => (
            "cmp",
            ["cmp", "cmp -s", "cmp -l", "cmp -z"][rng.usize(..4)].to_owned() + " FILE OTHER",
        ),
        _ => return draw_update(rng, length),
    };
    (TrialCommand::of_file(label, words), Vec::new())
}

fn draw_update(rng: &mut Rng, before: usize) -> (TrialCommand, Vec<Patch>) {
    let safety = ["in-place", "journal", "replace"][rng.usize(..3)];
    let grows = before == 0 || rng.u8(..4) == 0;
    let end = before + if grows { rng.usize(1..100_000) } else { 0 };
    let count = if rng.bool() { 1 } else { rng.usize(1..=200) };
    let mut patches = Vec::new();
    for _ in 0..count {
        let longest = if rng.u8(..8) == 0 { 20_000 } else { 40 };
        let length = rng.usize(1..=longest).min(end);
        // Many are close together, as records are.
        let offset = rng.usize(..=end - length) / if rng.bool() { 1 } else { 8 };
        let bytes = random(rng, length);
        patches.push(Patch { offset, bytes });
    }
    let mut words = format!("update FILE --from UPDATES --safety {safety}");
    if rng.u8(..3) > 0 {
        let _ = write!(words, " --method {}", draw_method(rng, safety));
    } else if rng.bool() {
        let _ = write!(words, " --durability {}", ["none", "fsync", "through"][rng.usize(..3)]);
    }
    if patches.iter().any(|patch| patch.end() > before) {
        words.push_str(" --grow");
    }
    (TrialCommand::of_file(&format!("update {safety}"), words), patches)
}

fn draw_method(rng: &mut Rng, safety: &str) -> String {
    let mechanism = ["sync", "sync", "io_uring", "mmap"][rng.usize(..4)];
    let mut method = format!("update/{mechanism},block={}", ["4K", "64K", "1M"][rng.usize(..3)]);
    let mut add = |chance: u8, words: &[&str]| {
        if rng.u8(..4) < chance {
            let _ = write!(method, ",{}", words[rng.usize(..words.len())]);
        }
    };
    if mechanism == "mmap" {
        add(2, &["preallocate=both"]);
        add(2, &["fsync"]);
        return method;
    }
    let orders = ["order=rewrite", "gap=4K", "gap=64K", "order=as-given"];
    add(3, &orders[..if mechanism == "sync" { 4 } else { 3 }]);
    add(1, &["preallocate=allocate", "preallocate=truncate", "preallocate=both"]);
    add(2, &["fsync", "write-through"]);
    // A journal takes none.
    add(u8::from(safety != "journal"), &["direct"]);
    method
}

/// Draws an action on duplicates.
pub fn draw_dupes(rng: &mut Rng, file_system: TestFileSystem) -> TrialCommand {
    let shares = matches!(file_system, TestFileSystem::Xfs | TestFileSystem::Btrfs);
    let mut action = ["remove", "hardlink", "symlink", "reflink", "move"][rng.usize(..5)];
    if action == "reflink" && !shares {
        action = "remove";
    }
    let has_reference = rng.u8(..6) == 0;
    let [one, other] = if rng.bool() { ROOTS } else { [ROOTS[1], ROOTS[0]] };
    let mut search = match rng.u8(..4) {
        _ if has_reference => format!("--against {one} {other}"),
        0 => "tree".to_owned(),
        _ => format!("{one} {other}"),
    };
    let mut rules = String::new();
    for _ in 0..rng.usize(usize::from(!has_reference)..3) {
        let rule = match rng.u8(..12) {
            0 => format!("at-least:{}", rng.usize(1..4)),
            1 => "name:*.keep".to_owned(),
            2 => format!("{}under:{}", ["", "not-"][rng.usize(..2)], ROOTS[rng.usize(..2)]),
            _ => ["newest", "oldest", "shortest", "longest", "first"][rng.usize(..5)].to_owned(),
        };
        let _ = write!(rules, " --keep {rule}");
    }
    let mut maybe = |is_possible: bool, one_of: u8, option: &str| {
        let is_drawn = is_possible && rng.u8(..one_of) == 0;
        if is_drawn { option.to_owned() } else { String::new() }
    };
    search += &maybe(true, 4, " --min-size 0");
    search += &maybe(true, 3, " --all");
    // A plan says these.
    let planned = maybe(action == "symlink", 2, " --absolute")
        + &maybe(action == "move", 1, &format!(" --to {MOVED}"))
        + &maybe(action == "remove", 4, " --names");
    let options = maybe(action == "hardlink", 2, " --ignore-metadata")
        + &maybe(true, 2, " --unsafe-owner")
        + &maybe(true, 12, " --busy");
    let all = format!("{rules}{planned}{options}");
    // A plan does not say this.
    let prune = maybe(["remove", "move"].contains(&action), 2, " --prune");
    let at_once = format!("dupes --action {action}{all}{prune} --quiet --yes {search}");
    let (search, run) = match rng.u8(..4) {
        0 => (
            Some(format!("dupes --json {search}")),
            format!("dupes act {action} --quiet --yes --from FOUND{all}{prune}"),
        ),
        1 => (
            Some(format!("dupes --action {action} --plan-file FOUND{all} {search}")),
            format!("dupes act --quiet --yes --plan FOUND{options}{prune}"),
        ),
        _ => (None, at_once.clone()),
    };
    TrialCommand {
        label: format!("dupes {action}"),
        search,
        run,
        at_once,
    }
}

/// Before the first calls of both lists, a delay lets others in at a moment that matters.
pub const DELAYED_CALLS: usize = 11;

#[rustfmt::skip]
const FILE_CALLS: [(&str, u32); 24] = [
    ("pwrite64", 6), ("ftruncate", 2), ("fallocate", 3), ("rename", 1), ("renameat2", 2), ("linkat", 1), ("fsync", 5),
    ("fchmod", 1), ("io_uring_enter", 4), ("fcntl", 10), ("flock", 3), ("unlink", 2), ("unlinkat", 2), ("pread64", 6),
    ("write", 3), ("openat", 18), ("open", 3), ("statx", 24), ("fsetxattr", 2), ("ioctl", 8), ("copy_file_range", 1),
    ("lseek", 4), ("msync", 2), ("io_uring_setup", 1),
];

#[rustfmt::skip]
const DUPES_CALLS: [(&str, u32); 27] = [
    ("renameat2", 10), ("unlinkat", 10), ("linkat", 8), ("symlinkat", 8), ("fcntl", 150), ("fdatasync", 3), ("syncfs", 1),
    ("write", 8), ("ioctl", 12), ("flock", 16), ("mkdirat", 4), ("statx", 150), ("openat", 150), ("pread64", 30),
    ("preadv2", 20), ("newfstatat", 60), ("readlinkat", 4), ("fstatfs", 20), ("getdents64", 8), ("flistxattr", 16),
    ("fgetxattr", 8), ("utimensat", 4), ("fsync", 2), ("mkdir", 3), ("read", 20), ("lseek", 4), ("unlink", 1),
];

/// Calls of a run that settles or undoes.
#[rustfmt::skip]
const UNDO_CALLS: [(&str, u32); 9] = [
    ("renameat2", 8), ("unlinkat", 8), ("linkat", 6), ("write", 6), ("openat", 150), ("utimensat", 4), ("fdatasync", 1),
    ("syncfs", 1), ("flock", 3),
];
