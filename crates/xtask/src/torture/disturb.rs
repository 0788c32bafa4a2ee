//! What disturbs seekless in trials of every kind, drawn from their seeds: kills, stops, delays, errors, full disks, and other
//! processes at its files. Each of these writes bytes that are found nowhere else, and keeps account of what it did and what the
//! system answered.
//!
//! None of them destroys what was there: what loses its name is moved to a directory of its own, by the same call, or was copied. So
//! each byte that any of them wrote, and each content that was there before, must be found afterwards (`verdict`).
//!
//! Not here: how the other processes do it (`world`).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::command::DELAYED_CALLS;
use crate::filesystems::TestFileSystem;

/// The file systems that trials run on.
pub const FILE_SYSTEMS: [TestFileSystem; 5] = [
    TestFileSystem::Ext4,
    TestFileSystem::Xfs,
    TestFileSystem::Btrfs,
    TestFileSystem::Tmpfs,
    TestFileSystem::Overlay,
];

/// `/proc/sys/fs/lease-break-time` during a campaign: the least there is.
pub const LEASE_BREAK_SECONDS: &str = "1";
/// Longer than that.
pub const OUTLASTING: Duration = Duration::from_millis(1250);

/// What strace does at the `when`th call of a name, in the words of its option `-e inject=`.
#[derive(Clone, Debug)]
pub struct Injection {
    pub call: &'static str,
    pub when: u32,
    pub fault: String,
    /// At all later ones, too.
    pub stays: bool,
}

/// What disturbs a run of seekless, other processes apart.
#[derive(Debug)]
pub struct Disturbance {
    pub injections: Vec<Injection>,
    /// SIGKILL, SIGTERM or SIGSTOP some time after the start, and SIGCONT when the lease is broken.
    pub timed: Option<(Duration, Signal)>,
    /// The file system has this much room left.
    pub free_bytes: Option<u64>,
}

impl Injection {
    pub const KILL: &str = "signal=KILL";

    pub fn new((call, most): (&'static str, u32), fault: String, rng: &mut Rng) -> Self {
        Self {
            call,
            // The first of a name are made most often.
            when: rng.u32(1..=most).min(rng.u32(1..=most)),
            fault,
            stays: false,
        }
    }

    pub fn delay(delay: Duration) -> String {
        format!("delay_enter={}", delay.as_micros())
    }

    pub fn option(&self) -> String {
        let later = if self.stays { "+" } else { "" };
        format!("inject={}:{}:when={}{later}", self.call, self.fault, self.when)
    }

    pub fn is_delay(&self) -> bool {
        self.fault.starts_with("delay")
    }

    pub fn is_error(&self) -> bool {
        self.fault.starts_with("error")
    }
}

impl Disturbance {
    pub fn draw(rng: &mut Rng, calls: &[(&'static str, u32)], file_system: TestFileSystem) -> Self {
        let (mut injections, mut timed) = (Vec::new(), None);
        match rng.u8(..100) {
            0..20 => timed = Some((moment(rng), Signal::KILL)),
            20..24 => timed = Some((moment(rng), Signal::TERM)),
            24..27 => timed = Some((moment(rng), Signal::STOP)),
            27..85 => injections = draw_injections(rng, calls),
            _ => {}
        }
        // An overlay lies on the machine's own disk.
        let is_full = file_system != TestFileSystem::Overlay && rng.f32() < 0.1;
        Self {
            injections,
            timed,
            free_bytes: is_full.then(|| rng.u64(0..8) * rng.u64(0..16) * 4096),
        }
    }

    pub fn is_none(&self) -> bool {
        self.injections.is_empty() && self.timed.is_none() && self.free_bytes.is_none()
    }

    /// What delays seekless at a call.
    pub fn delay(&self) -> Option<&Injection> {
        self.injections.iter().find(|one| one.is_delay())
    }

    /// seekless is stopped for longer than it may keep its lease.
    pub fn outlasts_lease(&self) -> bool {
        let outlasting = Injection::delay(OUTLASTING);
        self.is_stopped() || self.injections.iter().any(|one| one.fault == outlasting)
    }

    pub fn is_stopped(&self) -> bool {
        self.timed.is_some_and(|(_, signal)| signal == Signal::STOP)
    }
}

/// From 0.1 ms to 50 ms, each factor of two as likely as the others.
pub fn moment(rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(1e-4 * 500_f64.powf(rng.f64()))
}

fn draw_injections(rng: &mut Rng, calls: &[(&'static str, u32)]) -> Vec<Injection> {
    let mut injections: Vec<Injection> = Vec::new();
    for _ in 0..[1, 1, 2][rng.usize(..3)] {
        let error = ["EIO", "ENOSPC", "EINTR", "EACCES"][rng.usize(..4)];
        let kind = rng.u8(..20);
        let delayed = DELAYED_CALLS.min(calls.len());
        let (fault, among) = match kind {
            0..6 => (Injection::KILL.to_owned(), calls.len()),
            6 => (Injection::delay(OUTLASTING), delayed),
            7..13 => (Injection::delay(Duration::from_millis(rng.u64(5..60))), delayed),
            _ => (format!("error={error}"), calls.len()),
        };
        // The first one changes files: a delay before it is when others do most harm.
        let is_first = among == delayed && rng.bool();
        let at = if is_first { 0 } else { rng.usize(..among) };
        let mut injection = Injection::new(calls[at], fault, rng);
        // Calls are made again after EINTR: for ever, if that never ends.
        injection.stays = (13..15).contains(&kind) && error != "EINTR";
        // Of two for the same call strace takes the last.
        if injections.iter().all(|other| other.call != injection.call) {
            injections.push(injection);
        }
    }
    injections
}

/// The bytes that a mark has.
pub const MARK_BYTES: usize = 16;

/// Another process, which acts on files at random.
#[derive(Debug)]
pub struct Disturber {
    pub seed: u64,
    pub kinds: Vec<Interference>,
    pub after: Duration,
    /// Or as soon as a delay begins.
    pub at_delay: bool,
    /// It has a file open for writing before seekless starts, and writes to that.
    pub opens_first: bool,
    /// Between two acts, at most.
    pub pause: Duration,
    /// It stops after so many acts, or when the run ends.
    pub most_acts: usize,
    /// It comes to the names of one content only.
    pub is_at_one: bool,
}

/// What is done with a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Appends a mark.
    Append,
    /// The same, and puts back the times.
    AppendInSecret,
    /// Writes a mark over bytes.
    Overwrite,
    /// The same through a mapping, after the file was closed.
    OverwriteMapped,
    /// The same by a second `seekless update`.
    Update,
    /// A new file takes the name, as editors save; what had it is moved away, by one call.
    Save,
    /// A copy takes the name of the file, as `cp` and `mv` do: a name that was linked is parted from the others.
    Copy,
    /// What has the name is moved away.
    TakeAway,
    Mode,
    Owner,
    Times,
    Attribute,
    /// Makes another name, and removes it.
    Link,
    /// Renames a directory, and renames it back.
    RenameDirectory,
    /// Puts a symbolic link to a directory with files of the same names and bytes in the place of a directory, and puts the
    /// directory back.
    ReplaceDirectory,
}

/// How often each is drawn: at trees, at one file, and between a run and what follows, where they part the names that seekless
/// linked and write to one of them.
const WEIGHTS: [(Interference, [usize; 3]); 15] = [
    (Interference::Append, [2, 2, 1]),
    (Interference::AppendInSecret, [2, 1, 1]),
    (Interference::Overwrite, [2, 2, 1]),
    (Interference::OverwriteMapped, [1, 1, 0]),
    (Interference::Update, [0, 1, 0]),
    (Interference::Save, [4, 2, 1]),
    (Interference::Copy, [3, 0, 3]),
    (Interference::TakeAway, [2, 0, 0]),
    (Interference::Mode, [1, 1, 0]),
    (Interference::Owner, [1, 1, 0]),
    (Interference::Times, [1, 0, 0]),
    (Interference::Attribute, [1, 1, 0]),
    (Interference::Link, [1, 0, 0]),
    (Interference::RenameDirectory, [2, 0, 0]),
    (Interference::ReplaceDirectory, [2, 0, 0]),
];
pub const AT_TREES: usize = 0;
pub const AT_ONE_FILE: usize = 1;
pub const PARTING: usize = 2;

impl Disturber {
    /// Draws one that does all that one of these columns of the weights has, or one of that alone.
    pub fn draw(rng: &mut Rng, column: usize) -> Self {
        let kinds = WEIGHTS.iter().flat_map(|(kind, weights)| vec![*kind; weights[column]]);
        let mut kinds: Vec<_> = kinds.collect();
        if rng.bool() {
            kinds = vec![kinds[rng.usize(..kinds.len())]];
        }
        Self {
            seed: rng.u64(..),
            kinds,
            after: match rng.u8(..3) {
                0 => Duration::ZERO,
                _ => moment(rng),
            },
            at_delay: rng.u8(..3) > 0,
            opens_first: rng.u8(..4) == 0,
            pause: Duration::from_micros([0, 200, 1000, 5000][rng.usize(..4)]),
            most_acts: [rng.usize(1..8), rng.usize(8..80), 2000][rng.usize(..3)],
            is_at_one: rng.bool(),
        }
    }

    /// Draws one that acts a few times.
    pub fn draw_brief(rng: &mut Rng, column: usize) -> Self {
        Self {
            most_acts: rng.usize(1..8),
            ..Self::draw(rng, column)
        }
    }
}

impl Interference {
    pub fn moves_directory(self) -> bool {
        matches!(self, Self::RenameDirectory | Self::ReplaceDirectory)
    }
}

/// One of them did this.
#[derive(Clone)]
pub struct Act {
    pub kind: Interference,
    /// The file, or the directory if it is one, in the directory of the trial.
    pub path: PathBuf,
    /// What it wrote, as far as it was written: bytes that are found nowhere else. If the act failed, they may be in the file.
    pub wrote: Vec<u8>,
    /// Where, if it is a mark.
    pub offset: usize,
    /// The mode, owner or value of an attribute that was set.
    pub set: u32,
    pub answer: Result<(), String>,
}

impl Act {
    /// It gave a name of the tree to another file, or took it.
    pub fn gives_name(&self) -> bool {
        let kinds = [Interference::Save, Interference::Copy, Interference::TakeAway];
        self.answer.is_ok() && kinds.contains(&self.kind)
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, path, wrote, .. } = self;
        let start = wrote[..wrote.len().min(MARK_BYTES)].escape_ascii();
        write!(out, "{}: {kind:?}, {} B {start} ", path.display(), wrote.len())?;
        write!(out, "at {}, set {:o}: {:?}", self.offset, self.set, self.answer)
    }
}
