//! What a trial does, all of it drawn from its seed: a file, a command, and who or what disturbs it.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::verdict::{Promise, Update, overlay};
use crate::filesystems::FileSystem;

/// The file systems that trials run on.
pub const FILE_SYSTEMS: [FileSystem; 5] = [
    FileSystem::Ext4,
    FileSystem::Xfs,
    FileSystem::Btrfs,
    FileSystem::Tmpfs,
    FileSystem::Overlay,
];

/// `/proc/sys/fs/lease-break-time` during a campaign: the least there is.
pub const LEASE_BREAK_SECONDS: u64 = 1;
/// Longer than that.
const OUTLASTING: Duration = Duration::from_millis(1250);

/// One trial.
#[derive(Debug)]
pub struct TrialPlan {
    pub file_system: FileSystem,
    pub file: TestFile,
    pub command: Invocation,
    pub injections: Vec<Injection>,
    pub timed: Option<(Duration, Interruption)>,
    pub other: Option<Other>,
    /// The file system has this much room left.
    pub free_bytes: Option<u64>,
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

/// Bytes that are shown by their number alone.
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} B", self.0.len())
    }
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

/// What strace does at the `when`th call of a name.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    pub call: &'static str,
    pub when: u32,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    Kill,
    Delay(Duration),
    Error(&'static str),
    /// This call and all later ones of its name.
    Errors(&'static str),
}

/// What happens some time after the start.
#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    Kill,
    Terminate,
    /// SIGSTOP, and SIGCONT when the lease is broken.
    Stop(Duration),
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

impl Injection {
    /// The option `-e inject=` of strace.
    pub fn option(&self) -> String {
        let Self { call, when, .. } = self;
        match self.what {
            What::Kill => format!("{call}:signal=KILL:when={when}"),
            What::Delay(delay) => format!("{call}:delay_enter={}:when={when}", delay.as_micros()),
            What::Error(error) => format!("{call}:error={error}:when={when}"),
            What::Errors(error) => format!("{call}:error={error}:when={when}+"),
        }
    }
}

impl TrialPlan {
    /// The file system of a seed: so that a campaign on some takes only their seeds.
    pub fn file_system(seed: u64) -> FileSystem {
        FILE_SYSTEMS[Rng::with_seed(seed).usize(..FILE_SYSTEMS.len())]
    }

    /// Draws a trial. `can_grow` says whether `update` has the option `--grow`.
    pub fn draw(seed: u64, can_grow: bool) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let file_system = FILE_SYSTEMS[rng.usize(..FILE_SYSTEMS.len())];
        let file = draw_file(rng);
        let command = draw_command(rng, &file.content.0, can_grow);
        let is_update = !command.updates.is_empty();
        let (mut injections, mut timed) = (Vec::new(), None);
        match rng.u8(..100) {
            0..20 => timed = Some((moment(rng), Interruption::Kill)),
            20..24 => timed = Some((moment(rng), Interruption::Terminate)),
            24..27 => timed = Some((moment(rng), Interruption::Stop(OUTLASTING))),
            27..85 => injections = draw_injections(rng),
            _ => {}
        }
        let waits = injections
            .iter()
            .any(|one: &Injection| matches!(one.what, What::Delay(_)));
        let is_met = command.second.is_none() && rng.f32() < if waits { 0.9 } else { 0.5 };
        let other = is_met.then(|| draw_other(rng, &file, &command));
        // An overlay lies on the machine's own disk.
        let is_full = command.second.is_none() && file_system != FileSystem::Overlay && rng.f32() < 0.1;
        Self {
            file_system,
            injections,
            timed,
            other,
            free_bytes: is_full.then(|| rng.u64(0..8) * rng.u64(0..16) * 4096),
            recovery_killed_at: (is_update && rng.f32() < 0.3).then(|| rng.u32(1..4)),
            file,
            command,
        }
    }

    /// Nothing and nobody keeps seekless from doing its work.
    pub fn is_undisturbed(&self) -> bool {
        self.injections.is_empty() && self.timed.is_none() && self.other.is_none() && self.free_bytes.is_none()
    }

    /// The call before which seekless is delayed, and which of its calls it is.
    pub fn delayed_call(&self) -> Option<(&'static str, usize)> {
        let delay = self.injections.iter().find(|one| matches!(one.what, What::Delay(_)));
        delay.map(|one| (one.call, one.when as usize))
    }

    /// seekless is stopped for longer than it may keep its lease.
    pub fn outlasts_lease(&self) -> bool {
        let is_stopped = matches!(self.timed, Some((_, Interruption::Stop(_))));
        is_stopped || self.injections.iter().any(|one| one.what == What::Delay(OUTLASTING))
    }
}

/// From 0.1 ms to 50 ms, each factor of two as likely as the others.
fn moment(rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(1e-4 * 500_f64.powf(rng.f64()))
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

/// Bytes none of which is zero, so that what is missing is seen.
fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes
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

/// Calls that seekless makes, and how many of each. Before the first [`DELAYED`] a delay lets others in at a moment that
/// matters.
const CALLS: [(&str, u32); 24] = [
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
];
const DELAYED: usize = 11;

fn draw_injections(rng: &mut Rng) -> Vec<Injection> {
    let mut injections: Vec<Injection> = Vec::new();
    for _ in 0..[1, 1, 2][rng.usize(..3)] {
        let error = ["EIO", "ENOSPC", "EINTR", "EACCES"][rng.usize(..4)];
        let what = match rng.u8(..20) {
            0..6 => What::Kill,
            6 => What::Delay(OUTLASTING),
            7..13 => What::Delay(Duration::from_millis(rng.u64(5..60))),
            // Calls are made again after EINTR: for ever, if that never ends.
            13..15 if error != "EINTR" => What::Errors(error),
            _ => What::Error(error),
        };
        let is_delay = matches!(what, What::Delay(_));
        let (call, most) = CALLS[rng.usize(..if is_delay { DELAYED } else { CALLS.len() })];
        let when = rng.u32(1..=most);
        // Of two for the same call strace takes the last.
        if injections.iter().all(|other| other.call != call) {
            injections.push(Injection { call, when, what });
        }
    }
    injections
}

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
