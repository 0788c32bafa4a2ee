//! What a command meets in a trial besides other processes: signals, errors and delays at its system calls, and a full disk.
//!
//! Not here: power cuts (`power`), and doing all that to a command (`site`).

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::power::PowerCut;

/// What a command meets. The default is nothing.
#[derive(Debug, Default)]
pub struct Harm {
    /// A system call, and what strace(1) does at one of them, in the words of its option `-e inject=`.
    pub injection: Option<(&'static str, String)>,
    /// A signal, this long after the start. A stopped command goes on after a moment.
    pub signal: Option<(Duration, Signal)>,
    /// The file system has this much room left.
    pub free_bytes: Option<u64>,
    /// The power fails.
    pub power: Option<PowerCut>,
}

impl Harm {
    /// Draws some; in a part of the trials none.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut harm = Self::default();
        let signals = [Signal::KILL, Signal::KILL, Signal::INT, Signal::TERM, Signal::STOP];
        match rng.u8(..20) {
            0..7 => harm.signal = Some((moment(rng), signals[rng.usize(..5)])),
            7..17 => harm.injection = Some(draw_injection(rng)),
            _ => {}
        }
        harm
    }

    pub fn of_power(power: PowerCut) -> Self {
        let power = Some(power);
        Self {
            power,
            ..Self::default()
        }
    }

    /// Whether nothing but time is taken from the command.
    pub fn only_slows(&self) -> bool {
        let is_stop = self.signal.is_none_or(|(_, signal)| signal == Signal::STOP);
        let is_delay = self.injection.is_none() || self.injects("delay");
        is_stop && is_delay && self.free_bytes.is_none() && self.power.is_none()
    }

    /// Whether a system call meets this.
    pub fn injects(&self, fault: &str) -> bool {
        self.injection
            .as_ref()
            .is_some_and(|(_, injected)| injected.starts_with(fault))
    }
}

/// From 0.1 ms to 50 ms, each factor of two as likely as the others.
pub fn moment(rng: &mut Rng) -> Duration {
    Duration::from_secs_f64(1e-4 * 500_f64.powf(rng.f64()))
}

fn draw_injection(rng: &mut Rng) -> (&'static str, String) {
    let kind = rng.u8(..20);
    // A kill or a delay says most where something is changed.
    let among = if kind < 13 && rng.u8(..4) > 0 {
        CHANGING
    } else {
        CALLS.len()
    };
    let (call, most) = CALLS[rng.usize(..among)];
    let fault = match kind {
        0..7 => "signal=KILL".to_owned(),
        7..13 => format!("delay_enter={}", rng.u32(5_000..60_000)),
        _ => format!("error={}", ["EIO", "ENOSPC", "EACCES", "EINTR"][rng.usize(..4)]),
    };
    // The first of a name are made most often.
    let when = most >> rng.u32(..=most.ilog2());
    // Calls are made again after EINTR: for ever, if that never ends.
    let later = if kind > 17 && !fault.ends_with("EINTR") {
        "+"
    } else {
        ""
    };
    (call, format!("{fault}:when={when}{later}"))
}

/// The calls that change something come first.
const CHANGING: usize = 20;

/// System calls, and about how many of each a command makes.
#[rustfmt::skip]
const CALLS: [(&str, u32); 38] = [
    ("pwrite64", 40), ("ftruncate", 3), ("fallocate", 3), ("rename", 2), ("renameat", 4), ("renameat2", 10), ("linkat", 40),
    ("symlinkat", 8), ("unlink", 2), ("unlinkat", 10), ("mkdirat", 8), ("fsync", 5), ("fdatasync", 3), ("syncfs", 2),
    ("write", 8), ("copy_file_range", 30), ("fchmod", 20), ("fsetxattr", 4), ("utimensat", 40), ("io_uring_enter", 4),
    ("io_uring_setup", 1), ("msync", 2), ("openat", 150), ("open", 3), ("statx", 150), ("newfstatat", 60), ("fstatfs", 20),
    ("getdents64", 8), ("readlinkat", 4), ("pread64", 30), ("preadv2", 20), ("read", 20), ("lseek", 4), ("fcntl", 150),
    ("flock", 16), ("ioctl", 12), ("fgetxattr", 8), ("flistxattr", 16),
];
