//! What disturbs seekless in trials of every kind, drawn from their seeds: kills, stops, delays, errors and full disks.
//!
//! Not here: the other processes (`disturber`), which know the files of a trial.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use crate::filesystems::TestFileSystem;

/// The file systems that trials run on.
pub const FILE_SYSTEMS: [TestFileSystem; 5] = [
    TestFileSystem::Ext4,
    TestFileSystem::Xfs,
    TestFileSystem::Btrfs,
    TestFileSystem::Tmpfs,
    TestFileSystem::Overlay,
];

/// The file system of a seed: so that a campaign on some takes only their seeds.
pub fn file_system(seed: u64) -> TestFileSystem {
    draw_file_system(&mut Rng::with_seed(seed))
}

/// The first that a trial draws.
pub fn draw_file_system(rng: &mut Rng) -> TestFileSystem {
    FILE_SYSTEMS[rng.usize(..FILE_SYSTEMS.len())]
}

/// `/proc/sys/fs/lease-break-time` during a campaign: the least there is.
pub const LEASE_BREAK_SECONDS: &str = "1";
/// Longer than that.
pub const OUTLASTING: Duration = Duration::from_millis(1250);

/// What strace does at the `when`th call of a name.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    pub call: &'static str,
    pub when: u32,
    pub what: InjectedFault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InjectedFault {
    Kill,
    Delay(Duration),
    Error(&'static str),
    /// This call and all later ones of its name.
    Errors(&'static str),
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

/// Calls that a command makes, and how many of each.
pub struct Calls {
    pub all: &'static [(&'static str, u32)],
    /// Before the first of them, a delay lets others in at a moment that matters.
    pub delayed: usize,
}

impl Injection {
    /// The option `-e inject=` of strace.
    pub fn option(&self) -> String {
        let Self { call, when, .. } = self;
        match self.what {
            InjectedFault::Kill => format!("{call}:signal=KILL:when={when}"),
            InjectedFault::Delay(delay) => format!("{call}:delay_enter={}:when={when}", delay.as_micros()),
            InjectedFault::Error(error) => format!("{call}:error={error}:when={when}"),
            InjectedFault::Errors(error) => format!("{call}:error={error}:when={when}+"),
        }
    }
}

impl Disturbance {
    /// Draws one, without a full disk.
    pub fn draw(rng: &mut Rng, calls: &Calls) -> Self {
        let (mut injections, mut timed) = (Vec::new(), None);
        match rng.u8(..100) {
            0..20 => timed = Some((moment(rng), Signal::KILL)),
            20..24 => timed = Some((moment(rng), Signal::TERM)),
            24..27 => timed = Some((moment(rng), Signal::STOP)),
            27..85 => injections = draw_injections(rng, calls),
            _ => {}
        }
        Self {
            injections,
            timed,
            free_bytes: None,
        }
    }

    /// Fills the disk in one of ten trials.
    pub fn draw_full_disk(&mut self, rng: &mut Rng, file_system: TestFileSystem) {
        // An overlay lies on the machine's own disk.
        let is_full = file_system != TestFileSystem::Overlay && rng.f32() < 0.1;
        self.free_bytes = is_full.then(|| rng.u64(0..8) * rng.u64(0..16) * 4096);
    }

    pub fn is_none(&self) -> bool {
        self.injections.is_empty() && self.timed.is_none() && self.free_bytes.is_none()
    }

    /// The call before which seekless is delayed, and which of its calls it is.
    pub fn delayed_call(&self) -> Option<(&'static str, usize)> {
        let delay = self
            .injections
            .iter()
            .find(|one| matches!(one.what, InjectedFault::Delay(_)));
        delay.map(|one| (one.call, one.when as usize))
    }

    /// seekless is stopped for longer than it may keep its lease.
    pub fn outlasts_lease(&self) -> bool {
        let mut injections = self.injections.iter();
        self.is_stopped() || injections.any(|one| one.what == InjectedFault::Delay(OUTLASTING))
    }

    pub fn is_stopped(&self) -> bool {
        self.timed.is_some_and(|(_, signal)| signal == Signal::STOP)
    }
}

/// From 0.1 ms to 50 ms, each factor of two as likely as the others.
pub fn moment(rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(1e-4 * 500_f64.powf(rng.f64()))
}

fn draw_injections(rng: &mut Rng, calls: &Calls) -> Vec<Injection> {
    let mut injections: Vec<Injection> = Vec::new();
    for _ in 0..[1, 1, 2][rng.usize(..3)] {
        let error = ["EIO", "ENOSPC", "EINTR", "EACCES"][rng.usize(..4)];
        let what = match rng.u8(..20) {
            0..6 => InjectedFault::Kill,
            6 => InjectedFault::Delay(OUTLASTING),
            7..13 => InjectedFault::Delay(Duration::from_millis(rng.u64(5..60))),
            // Calls are made again after EINTR: for ever, if that never ends.
            13..15 if error != "EINTR" => InjectedFault::Errors(error),
            _ => InjectedFault::Error(error),
        };
        let is_delay = matches!(what, InjectedFault::Delay(_));
        let among = if is_delay { calls.delayed } else { calls.all.len() };
        // The first one changes files: a delay before it is when others do most harm.
        let at = if is_delay && rng.bool() { 0 } else { rng.usize(..among) };
        let (call, most) = calls.all[at];
        // The first of a name are made most often.
        let when = rng.u32(1..=most).min(rng.u32(1..=most));
        // Of two for the same call strace takes the last.
        if injections.iter().all(|other| other.call != call) {
            injections.push(Injection { call, when, what });
        }
    }
    injections
}
