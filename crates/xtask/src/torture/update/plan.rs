//! What a trial does, all of it drawn from its seed: a file, a command, and who or what disturbs it.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::verdict::{Promise, Update, overlay};
use crate::filesystems::FileSystem;
use crate::torture::disturb::{Bytes, Calls, Disturbance, What, draw_file_system, moment, random};

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    pub file_system: FileSystem,
    pub file: TestFile,
    pub command: Invocation,
    pub disturbance: Disturbance,
    pub other: Option<Other>,
    /// The first recovery after the trial is killed at this `pwrite64`, or whatever comes of it.
    pub recovery_killed_at: Option<u32>,
}

/// The file before the trial.
#[derive(Debug)]
pub struct TestFile {
    pub content: Bytes,
    /// Zeros are holes rather than data.
    pub is_sparse: bool,
    pub mode: u32,
    pub has_attribute: bool,
    pub has_hard_link: bool,
}

/// What seekless is called for.
#[derive(Debug)]
pub struct Invocation {
    /// The row of the table that it counts in.
    pub label: &'static str,
    /// Subcommand and options, all but the files.
    pub arguments: Vec<String>,
    pub updates: Vec<Update>,
    pub promise: Promise,
    /// The second file of `cmp`.
    pub second: Option<Bytes>,
    /// Without any disturbance it may not fail.
    pub must_succeed: bool,
}

/// Somebody else, who begins after a while.
#[derive(Debug)]
pub struct Other {
    pub after: Duration,
    /// Or as soon as a delay begins.
    pub at_delay: bool,
    /// Opens the file before seekless starts.
    pub opens_first: bool,
    pub action: Interference,
}

#[derive(Debug)]
pub enum Interference {
    /// Appends numbered lines.
    Append(usize),
    /// Writes where the file has bytes.
    Write(Vec<Update>),
    /// Saves as an editor does: a new file takes the name.
    Save(Bytes, u32),
    Mode(u32),
    Owner(u32),
    Attribute,
    /// A second seekless updates what the first leaves alone.
    Update(Vec<Update>, &'static str),
}

impl TrialPlan {
    /// Draws a trial. `can_grow` says whether `update` has the option `--grow`.
    pub fn draw(seed: u64, can_grow: bool) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let file_system = draw_file_system(rng);
        let file = draw_file(rng);
        let command = draw_command(rng, &file.content.0, can_grow);
        let is_update = !command.updates.is_empty();
        let mut disturbance = Disturbance::draw(rng, &CALLS);
        let waits = disturbance
            .injections
            .iter()
            .any(|one| matches!(one.what, What::Delay(_)));
        let is_met = command.second.is_none() && rng.f32() < if waits { 0.9 } else { 0.5 };
        let other = is_met.then(|| draw_other(rng, &file, &command));
        if command.second.is_none() {
            disturbance.draw_full_disk(rng, file_system);
        }
        Self {
            file_system,
            disturbance,
            other,
            recovery_killed_at: (is_update && rng.f32() < 0.3).then(|| rng.u32(1..4)),
            file,
            command,
        }
    }

    /// Nothing and nobody keeps seekless from doing its work.
    pub fn is_undisturbed(&self) -> bool {
        self.disturbance.is_none() && self.other.is_none()
    }
}

fn draw_file(rng: &mut Rng) -> TestFile {
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
    TestFile {
        content: Bytes(content),
        is_sparse: has_zeros && rng.bool(),
        mode: [0o600, 0o640, 0o644, 0o4755][rng.usize(..4)],
        has_attribute: rng.bool(),
        has_hard_link: rng.u8(..8) == 0,
    }
}

fn draw_command(rng: &mut Rng, before: &[u8], can_grow: bool) -> Invocation {
    let plain = |label, words: &str| Invocation {
        label,
        arguments: words.split(' ').map(str::to_owned).collect(),
        updates: Vec::new(),
        promise: Promise::Unchanged,
        second: None,
        must_succeed: true,
    };
    match rng.u8(..20) {
        0 | 1 => plain("holes dig", ["holes dig", "holes dig --verify"][rng.usize(..2)]),
        2 => plain("holes fill", "holes fill"),
        3 => {
            let mut second = before.to_vec();
            match rng.u8(..3) {
                0 if !second.is_empty() => *rng.choice(&mut second).expect("it is not empty") ^= 2,
                1 => second.truncate(rng.usize(..=before.len())),
                _ => {}
            }
            Invocation {
                second: Some(Bytes(second)),
                ..plain("cmp", ["cmp", "cmp -s", "cmp -l", "cmp -z"][rng.usize(..4)])
            }
        }
        _ => draw_update(rng, before, can_grow),
    }
}

fn draw_update(rng: &mut Rng, before: &[u8], can_grow: bool) -> Invocation {
    let (safety, label, promise) = [
        ("in-place", "update in-place", Promise::EachByte),
        ("journal", "update journal", Promise::AllOrNothing),
        ("replace", "update replace", Promise::AllOrNothing),
    ][rng.usize(..3)];
    let grows = before.is_empty() || rng.u8(..4) == 0;
    let end = before.len() + if grows { rng.usize(1..100_000) } else { 0 };
    let count = 1 + rng.usize(..200) * rng.usize(..2);
    let updates: Vec<_> = (0..count)
        .map(|_| {
            let longest = if rng.u8(..8) == 0 { 20_000 } else { 40 };
            let length = rng.usize(1..=longest).min(end);
            // Many are close together, as records are.
            let offset = rng.usize(..=end - length) / if rng.bool() { 1 } else { 8 };
            Update {
                offset,
                bytes: random(rng, length),
            }
        })
        .collect();
    let mut arguments = vec!["update".to_owned(), "--safety".to_owned(), safety.to_owned()];
    let is_auto = rng.u8(..3) == 0;
    if !is_auto {
        arguments.extend(["--method".to_owned(), draw_method(rng, safety)]);
    } else if rng.bool() {
        let durability = ["none", "fsync", "through"][rng.usize(..3)];
        arguments.extend(["--durability".to_owned(), durability.to_owned()]);
    }
    if can_grow && updates.iter().any(|update| update.end() > before.len()) {
        arguments.push("--grow".to_owned());
    }
    Invocation {
        label,
        arguments,
        updates,
        promise,
        second: None,
        must_succeed: is_auto,
    }
}

fn draw_method(rng: &mut Rng, safety: &str) -> String {
    let mechanism = ["sync", "sync", "io_uring", "mmap"][rng.usize(..4)];
    let mut method = format!("update/{mechanism},block={}", ["4K", "64K", "1M"][rng.usize(..3)]);
    let mut add = |chance: u8, words: &[&str], rng: &mut Rng| {
        if rng.u8(..4) < chance {
            let _ = write!(method, ",{}", words[rng.usize(..words.len())]);
        }
    };
    if mechanism == "mmap" {
        add(2, &["preallocate=both"], rng);
        add(2, &["fsync"], rng);
        return method;
    }
    let orders = ["order=rewrite", "gap=4K", "gap=64K", "order=as-given"];
    add(3, &orders[..if mechanism == "sync" { 4 } else { 3 }], rng);
    add(
        1,
        &["preallocate=allocate", "preallocate=truncate", "preallocate=both"],
        rng,
    );
    add(2, &["fsync", "write-through"], rng);
    // A journal takes none.
    add(u8::from(safety != "journal"), &["direct"], rng);
    method
}

const CALLS: Calls = Calls {
    all: &[
        ("pwrite64", 6),
        ("ftruncate", 2),
        ("fallocate", 3),
        ("rename", 1),
        ("renameat2", 2),
        ("linkat", 1),
        ("fsync", 5),
        ("fchmod", 1),
        ("io_uring_enter", 4),
        ("fcntl", 10),
        ("flock", 3),
        ("unlink", 2),
        ("unlinkat", 2),
        ("pread64", 6),
        ("write", 3),
        ("openat", 18),
        ("open", 3),
        ("statx", 24),
        ("fsetxattr", 2),
        ("ioctl", 8),
        ("copy_file_range", 1),
        ("lseek", 4),
        ("msync", 2),
        ("io_uring_setup", 1),
    ],
    delayed: 11,
};

fn draw_other(rng: &mut Rng, file: &TestFile, command: &Invocation) -> Other {
    let before = &file.content.0;
    let action = match rng.u8(..12) {
        0..3 => Interference::Append(rng.usize(1..30)),
        3..6 => Interference::Write(draw_writes(rng, before.len(), &command.updates)),
        6 | 7 => {
            let length = rng.usize(0..20_000);
            Interference::Save(Bytes(random(rng, length)), [0o600, 0o640][rng.usize(..2)])
        }
        8 => Interference::Mode([0o600, 0o400, 0o664][rng.usize(..3)]),
        9 => Interference::Owner(1),
        10 => Interference::Attribute,
        _ => {
            let writes = draw_writes(rng, before.len(), &command.updates);
            Interference::Update(writes, ["in-place", "journal", "replace"][rng.usize(..3)])
        }
    };
    Other {
        after: if rng.bool() {
            moment(rng)
        } else {
            Duration::from_millis(rng.u64(..60))
        },
        at_delay: rng.u8(..3) > 0,
        opens_first: rng.u8(..3) == 0,
        action,
    }
}

/// Writes to places that no update names; one in eight to any.
fn draw_writes(rng: &mut Rng, end: usize, updates: &[Update]) -> Vec<Update> {
    let mut named = vec![0; end];
    for update in updates {
        overlay(&mut named, update.offset, &vec![1; update.bytes.len()]);
    }
    let is_anywhere = rng.u8(..8) == 0;
    let mut writes = Vec::new();
    for _ in 0..rng.usize(1..20) * usize::from(end > 0) {
        let offset = rng.usize(..end);
        let place: Range<usize> = offset..(offset + rng.usize(1..100)).min(end);
        if is_anywhere || named[place.clone()].iter().all(|&named| named == 0) {
            let bytes = random(rng, place.len());
            writes.push(Update { offset, bytes });
        }
    }
    writes
}
