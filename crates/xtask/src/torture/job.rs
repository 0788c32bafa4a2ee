//! The commands of trials: `update`, `holes`, `cmp` and `dupes`, with their options and the system calls that they make.
//!
//! Not here: how they are run (`trial`), and what must hold afterwards (`verdict`).

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;

use super::disturb::{Calls, InjectedFault, Injection};
use super::plan::{Content, FileTree, Made, Patch, draw_given, random};
use crate::filesystems::TestFileSystem;

/// What seekless is called for.
#[derive(Debug)]
pub enum TrialCommand {
    File(FileCommand),
    Dupes(DupesCommand),
}

/// A command on one file.
#[derive(Debug)]
pub struct FileCommand {
    /// The row of the table that it counts in.
    pub label: &'static str,
    /// Subcommand and options, all but the files.
    pub words: String,
    pub promise: Promise,
    /// Without any disturbance it may not fail.
    pub must_succeed: bool,
}

/// What a command says of the file when it ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It never changes a byte.
    Unchanged,
    /// All updates or none.
    AllOrNothing,
    /// Each byte is the one before or the updated one.
    EachByte,
}

/// A search for duplicates, and what is done with them.
#[derive(Debug)]
pub struct DupesCommand {
    /// `remove`, `hardlink`, `symlink`, `reflink` or `move`.
    pub action: &'static str,
    /// What stays, as the option `--keep` says it.
    pub rules: Vec<String>,
    pub route: Route,
    /// Options and paths of the search.
    pub search: String,
    /// Options of acting, all but the rules.
    pub options: String,
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

/// The directories that are searched.
pub const ROOTS: [&str; 2] = ["tree/r0", "tree/r1"];
/// The directory that files are moved to.
pub const MOVED: &str = "to";
const TO_MOVED: &str = "--to to";
/// The name of a directory that counts as trash.
pub const TRASH: &str = ".Trash-0";

impl TrialCommand {
    /// The row of the table that it counts in.
    pub fn label(&self) -> String {
        match self {
            Self::File(command) => command.label.to_owned(),
            Self::Dupes(command) => format!("dupes {}", command.action),
        }
    }

    pub fn dupes(&self) -> Option<&DupesCommand> {
        match self {
            Self::Dupes(command) => Some(command),
            Self::File(_) => None,
        }
    }

    pub fn file(&self) -> Option<&FileCommand> {
        match self {
            Self::File(command) => Some(command),
            Self::Dupes(_) => None,
        }
    }

    /// It also acts on files that others may have open for writing.
    pub fn is_busy(&self) -> bool {
        self.dupes().is_some_and(|command| command.options.contains("--busy"))
    }

    pub fn calls(&self) -> &'static Calls {
        match self {
            Self::File(_) => &FILE_CALLS,
            Self::Dupes(_) => &DUPES_CALLS,
        }
    }

    /// Draws what disturbs the first recovery.
    pub fn draw_recovery_injection(&self, rng: &mut Rng) -> Injection {
        let calls: &[(&str, u32)] = match self {
            Self::File(_) => &[("pwrite64", 4)],
            Self::Dupes(_) => &UNDO_CALLS,
        };
        let (call, most) = calls[rng.usize(..calls.len())];
        Injection {
            call,
            when: rng.u32(1..=most),
            what: match rng.u8(..10) {
                0..6 => InjectedFault::Kill,
                6..9 => InjectedFault::Delay(Duration::from_millis(rng.u64(5..60))),
                _ => InjectedFault::Error("EIO"),
            },
        }
    }
}

impl DupesCommand {
    /// The words of the search, where that is a command of its own which writes or prints to a file, and those of acting.
    pub fn words(&self, file: &Path) -> (Option<String>, String) {
        let Self { action, search, .. } = self;
        let (options, file) = (self.all_options(), file.display());
        match self.route {
            Route::AtOnce => (None, self.words_at_once()),
            Route::Report => (
                Some(format!("--json {search}")),
                format!("act {action} --quiet --yes --from {file} {options}"),
            ),
            Route::Plan => {
                let mut of_acting = self.options.clone();
                // The plan says the others.
                for option in ["--absolute", TO_MOVED] {
                    of_acting = of_acting.replace(option, "");
                }
                (
                    Some(format!("--action {action} --plan-file {file} {options} {search}")),
                    format!("act --quiet --yes --plan {file} {of_acting}"),
                )
            }
        }
    }

    /// The words of a search that acts.
    pub fn words_at_once(&self) -> String {
        format!(
            "--action {} {} --quiet --yes {}",
            self.action,
            self.all_options(),
            self.search
        )
    }

    fn all_options(&self) -> String {
        let keep = self.rules.iter().map(|rule| format!("--keep {rule} "));
        keep.chain([self.options.clone()]).collect()
    }

    /// Whether a rule keeps a file with this path, whatever the others are.
    pub fn keeps(&self, path: &str) -> bool {
        self.rules.iter().any(|rule| match rule.split_once(':') {
            Some(("name", pattern)) => path.ends_with(pattern.trim_start_matches('*')),
            Some(("not-under", directory)) => !path.starts_with(&format!("{directory}/")),
            _ => false,
        })
    }

    /// How many files of each group stay at least.
    pub fn least(&self) -> usize {
        let least = self
            .rules
            .iter()
            .filter_map(|rule| rule.strip_prefix("at-least:")?.parse().ok());
        least.max().unwrap_or(1)
    }
}

/// Draws a command on the first file of a tree, to which it adds the second file of a comparison, or the patches of an update.
pub fn draw_file_command(rng: &mut Rng, tree: &mut FileTree) -> TrialCommand {
    let plain = |label, words: &str| FileCommand {
        label,
        words: words.to_owned(),
        promise: Promise::Unchanged,
        must_succeed: true,
    };
    TrialCommand::File(match rng.u8(..20) {
        0 | 1 => plain("holes dig", ["holes dig", "holes dig --verify"][rng.usize(..2)]),
        2 => plain("holes fill", "holes fill"),
        3 => {
            let mut second = tree.contents[0].bytes.clone();
            match rng.u8(..3) {
                0 if !second.is_empty() => {
                    let at = rng.usize(..second.len());
                    second[at] ^= 2;
                }
                1 => second.truncate(rng.usize(..=second.len())),
                _ => {}
            }
            tree.contents.push(Content::of(second));
            let given = draw_given(rng);
            tree.add(rng, Made::File { content: 1, given });
            plain("cmp", ["cmp", "cmp -s", "cmp -l", "cmp -z"][rng.usize(..4)])
        }
        _ => draw_update(rng, &mut tree.contents[0]),
    })
}

fn draw_update(rng: &mut Rng, content: &mut Content) -> FileCommand {
    let (safety, label, promise) = [
        ("in-place", "update in-place", Promise::EachByte),
        ("journal", "update journal", Promise::AllOrNothing),
        ("replace", "update replace", Promise::AllOrNothing),
    ][rng.usize(..3)];
    let before = content.bytes.len();
    let grows = before == 0 || rng.u8(..4) == 0;
    let end = before + if grows { rng.usize(1..100_000) } else { 0 };
    let count = if rng.bool() { 1 } else { rng.usize(1..=200) };
    for _ in 0..count {
        let longest = if rng.u8(..8) == 0 { 20_000 } else { 40 };
        let length = rng.usize(1..=longest).min(end);
        // Many are close together, as records are.
        let offset = rng.usize(..=end - length) / if rng.bool() { 1 } else { 8 };
        let bytes = random(rng, length);
        content.patches.push(Patch { offset, bytes });
    }
    let mut words = format!("update --safety {safety}");
    let is_auto = rng.u8(..3) == 0;
    if !is_auto {
        let _ = write!(words, " --method {}", draw_method(rng, safety));
    } else if rng.bool() {
        let _ = write!(words, " --durability {}", ["none", "fsync", "through"][rng.usize(..3)]);
    }
    if content.patches.iter().any(|patch| patch.end() > before) {
        words.push_str(" --grow");
    }
    FileCommand {
        label,
        words,
        promise,
        must_succeed: is_auto,
    }
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

/// Draws an action on duplicates in a tree.
pub fn draw_dupes(rng: &mut Rng, tree: &FileTree, file_system: TestFileSystem) -> TrialCommand {
    let shares = matches!(file_system, TestFileSystem::Xfs | TestFileSystem::Btrfs) || rng.u8(..8) == 0;
    let mut action = ["remove", "hardlink", "symlink", "reflink", "move"][rng.usize(..5)];
    if action == "reflink" && !shares {
        action = "remove";
    }
    let mut search = String::new();
    let has_empty = tree.contents.iter().any(|content| content.bytes.is_empty());
    if has_empty && rng.bool() {
        search.push_str("--min-size 0 ");
    }
    if rng.u8(..3) == 0 {
        search.push_str("--all ");
    }
    let has_reference = rng.u8(..6) == 0;
    let [one, other] = if rng.bool() { ROOTS } else { [ROOTS[1], ROOTS[0]] };
    let roots = match rng.u8(..4) {
        _ if has_reference => format!("--against {one} {other}"),
        0 => "tree".to_owned(),
        _ => format!("{one} {other}"),
    };
    search.push_str(&roots);
    let mut rules = Vec::new();
    for _ in 0..rng.usize(usize::from(!has_reference)..3) {
        rules.push(match rng.u8(..12) {
            0 => format!("at-least:{}", rng.usize(1..4)),
            1 => "name:*.keep".to_owned(),
            2 => format!("not-under:{}", ROOTS[rng.usize(..2)]),
            _ => ["newest", "oldest", "shortest", "longest", "first"][rng.usize(..5)].to_owned(),
        });
    }
    let mut options = String::new();
    let mut add = |is_possible: bool, one_of: u8, option: &str| {
        if is_possible && rng.u8(..one_of) == 0 {
            options.push_str(option);
        }
    };
    add(action == "symlink", 2, "--absolute ");
    add(action == "hardlink", 2, "--ignore-metadata ");
    add(true, 2, "--unsafe-owner ");
    add(true, 12, "--busy ");
    add(action == "move", 1, TO_MOVED);
    TrialCommand::Dupes(DupesCommand {
        action,
        rules,
        route: [Route::AtOnce, Route::AtOnce, Route::Report, Route::Plan][rng.usize(..4)],
        search,
        options,
    })
}

#[rustfmt::skip]
const FILE_CALLS: Calls = Calls {
    all: &[
        ("pwrite64", 6), ("ftruncate", 2), ("fallocate", 3), ("rename", 1), ("renameat2", 2), ("linkat", 1), ("fsync", 5),
        ("fchmod", 1), ("io_uring_enter", 4), ("fcntl", 10), ("flock", 3), ("unlink", 2), ("unlinkat", 2), ("pread64", 6),
        ("write", 3), ("openat", 18), ("open", 3), ("statx", 24), ("fsetxattr", 2), ("ioctl", 8), ("copy_file_range", 1),
        ("lseek", 4), ("msync", 2), ("io_uring_setup", 1),
    ],
    delayed: 11,
};

#[rustfmt::skip]
const DUPES_CALLS: Calls = Calls {
    all: &[
        ("renameat2", 10), ("unlinkat", 10), ("linkat", 8), ("symlinkat", 8), ("fcntl", 150), ("fdatasync", 3), ("syncfs", 1),
        ("write", 8), ("ioctl", 12), ("flock", 16), ("mkdirat", 4), ("statx", 150), ("openat", 150), ("pread64", 30),
        ("preadv2", 20), ("newfstatat", 60), ("readlinkat", 4), ("fstatfs", 20), ("getdents64", 8), ("flistxattr", 16),
        ("fgetxattr", 8), ("utimensat", 4), ("fsync", 2), ("mkdir", 3), ("read", 20), ("lseek", 4), ("unlink", 1),
    ],
    delayed: 11,
};

/// Calls of a run that settles or undoes.
#[rustfmt::skip]
const UNDO_CALLS: [(&str, u32); 9] = [
    ("renameat2", 8), ("unlinkat", 8), ("linkat", 6), ("write", 6), ("openat", 150), ("utimensat", 4), ("fdatasync", 1),
    ("syncfs", 1), ("flock", 3),
];
