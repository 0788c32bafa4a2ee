//! Faithfulness: does a trial of the lab take as long as the same work in fio?
//!
//! Each round runs fio, fio again and seekless in shuffled order on the same file, under the same checked state of the
//! cache. Rounds go on until fio agrees with itself and the comparison with seekless is decided, or a limit is reached:
//! then the case is inconclusive if fio never agreed with itself, else seekless differs. No ratio to fio is printed of an
//! inconclusive case: what cannot tell fio from fio cannot tell fio from seekless.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless::{StorageFacts, cache};
use seekless_record::{Cache, Interval};
use seekless_results::statistics::{median, ratio_interval};

use super::{fio, in_words, ours};
use crate::process::{check_interrupt, is_installed};

/// How far from 1 the interval of fio's ratio to itself may reach.
const AA_TOLERANCE: f64 = 0.03;
/// How far from 1 the interval of our ratio to fio may reach.
const TOLERANCE: f64 = 0.05;
/// Lets a device's own work die down after a sync.
const SETTLE: Duration = Duration::from_millis(100);
/// A page-out by the system may undo what was just done.
const ATTEMPTS: u32 = 3;

/// What to compare, where, and for how long.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to compare on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// MiB per trial; four times that where warm
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    mib: u64,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Most rounds per case
    #[arg(long, default_value_t = 40)]
    rounds_max: usize,
    /// Most seconds per case
    #[arg(long, default_value_t = 150)]
    seconds_max: u64,
    /// Seed of the order of trials [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Only fio against itself: is this storage steady enough to compare on?
    #[arg(long)]
    fio_only: bool,
}

/// The same work in our words and in fio's.
pub struct Case {
    name: &'static str,
    method: &'static str,
    /// `psync` is pread and pwrite, as our sync is; `fixedbufs` registers the buffers, as ours does.
    pub fio: &'static [&'static str],
    /// What must hold when the clock starts; [`Cache::None`] where a write makes the file.
    start: Cache,
}

pub const CASES: [Case; 4] = [
    Case {
        name: "warm sync read, 128K",
        method: "read/sync,block=128K",
        fio: &["--rw=read", "--ioengine=psync", "--bs=128k"],
        start: Cache::Warm,
    },
    Case {
        name: "cold direct read, 1M",
        method: "read/sync,direct,block=1M",
        fio: &["--rw=read", "--ioengine=psync", "--bs=1m", "--direct=1"],
        start: Cache::Cold,
    },
    Case {
        name: "cold direct io_uring read, 1M, depth 8",
        method: "read/io_uring,depth=8,direct,block=1M",
        fio: &[
            "--rw=read",
            "--ioengine=io_uring",
            "--iodepth=8",
            "--fixedbufs=1",
            "--bs=1m",
            "--direct=1",
        ],
        start: Cache::Cold,
    },
    Case {
        name: "write and fsync, 1M",
        method: "write/sync,block=1M,fsync",
        fio: &["--rw=write", "--ioengine=psync", "--bs=1m", "--end_fsync=1"],
        start: Cache::None,
    },
];

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The same measurement, within the tolerance.
    Agrees,
    /// Not the same, or not shown to be.
    Differs,
    /// fio does not even agree with itself here.
    Inconclusive,
}

/// Seconds by round.
#[derive(Default)]
struct Samples {
    fio: Vec<f64>,
    /// fio under another name.
    fio_again: Vec<f64>,
    /// seekless; empty if it takes no part.
    ours: Vec<f64>,
}

impl Samples {
    fn over_fio(&self, seconds: &[f64]) -> Option<Interval> {
        let ratios: Vec<f64> = seconds
            .iter()
            .zip(&self.fio)
            .map(|(over, under)| over / under)
            .collect();
        ratio_interval(&ratios)
    }

    fn fio_to_fio(&self) -> Option<Interval> {
        self.over_fio(&self.fio_again)
    }

    /// Our ratio to fio, where fio agrees with itself.
    fn ours_to_fio(&self) -> Option<Interval> {
        self.over_fio(&self.ours).filter(|_| self.is_steady())
    }

    fn is_steady(&self) -> bool {
        self.fio_to_fio().is_some_and(|ratio| is_within(ratio, AA_TOLERANCE))
    }

    /// The verdict that the rounds so far allow, if any.
    fn decided(&self) -> Option<Verdict> {
        if !self.is_steady() {
            return None;
        }
        match self.ours_to_fio() {
            None => Some(Verdict::Agrees),
            Some(ratio) if is_within(ratio, TOLERANCE) => Some(Verdict::Agrees),
            Some(ratio) if ratio.high < 1.0 - TOLERANCE || 1.0 + TOLERANCE < ratio.low => Some(Verdict::Differs),
            Some(_) => None,
        }
    }

    /// The verdict when no more rounds will come.
    fn concluded(&self) -> Verdict {
        self.decided().unwrap_or(if self.is_steady() {
            Verdict::Differs
        } else {
            Verdict::Inconclusive
        })
    }
}

/// Whether all of an interval, where there are enough samples for one, lies within `tolerance` of 1.
fn is_within(ratio: Interval, tolerance: f64) -> bool {
    ratio.coverage.is_some() && 1.0 - tolerance <= ratio.low && ratio.high <= 1.0 + tolerance
}

#[derive(Clone, Copy)]
enum Side {
    Fio,
    FioAgain,
    Ours,
}

/// Compares, prints the table, and fails where a case differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        is_installed("fio"),
        "fio is not installed (`cargo xtask test --only set-up` installs it)"
    );
    let program = (!arguments.fio_only).then(ours::build).transpose()?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!(
        "{} and seekless in alternation on {}; {} MiB (four times that where warm), seed {seed}. Ratios of seconds are paired by \
         round, with intervals of 95 %. fio first has to agree with itself within 3 %; then seekless agrees with fio where the \
         interval lies within 5 %.\n",
        fio::version()?,
        StorageFacts::of(&arguments.dir)?.file_system,
        arguments.mib,
    );
    let mut random = fastrand::Rng::with_seed(seed);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "case",
        "fio",
        "seekless",
        "seekless / fio, seconds",
        "fio / fio",
        "pairs",
        "verdict",
    ]);
    let mut differing = 0;
    for case in CASES.iter().filter(|case| case.name.contains(&arguments.only)) {
        // Memory is several times faster than a device, and fio's clock ticks in milliseconds: the warm file is larger, so that
        // a tick stays below 0.5 % of a trial.
        let bytes = arguments.mib << if case.start == Cache::Warm { 22 } else { 20 };
        let samples = compare(case, bytes, arguments, program.as_deref(), &mut random)
            .with_context(|| format!("case `{}`", case.name))?;
        let rate = |seconds: &[f64]| {
            median(seconds).map_or_else(
                || "-".to_owned(),
                |seconds| format!("{:.2} GB/s", bytes as f64 / seconds / 1e9),
            )
        };
        let verdict = samples.concluded();
        eprintln!("{}: {verdict:?}", case.name);
        differing += usize::from(verdict == Verdict::Differs);
        table.add_row([
            case.name,
            &rate(&samples.fio),
            &rate(&samples.ours),
            &in_words(samples.ours_to_fio()),
            &in_words(samples.fio_to_fio()),
            &samples.fio.len().to_string(),
            match verdict {
                Verdict::Agrees => "agrees",
                Verdict::Differs => "**differs**",
                Verdict::Inconclusive => "inconclusive",
            },
        ]);
    }
    println!("{table}");
    ensure!(differing == 0, "{differing} cases differ");
    Ok(())
}

fn compare(
    case: &Case,
    bytes: u64,
    arguments: &Arguments,
    program: Option<&Path>,
    random: &mut fastrand::Rng,
) -> Result<Samples> {
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    let file = directory.path().join("file");
    if case.start != Cache::None {
        let (mut made, mut block) = (File::create_new(&file)?, vec![0; 1 << 20]);
        for _ in 0..bytes >> 20 {
            random.fill(&mut block);
            made.write_all(&block)?;
        }
        made.sync_all()?;
    }
    // A host below a virtual machine caches too: after one reading nobody is the first to have the file read.
    let mut pause = Duration::ZERO;
    let mut trial = |side| -> Result<f64> {
        check_interrupt()?;
        let seconds = if let (Side::Ours, Some(program)) = (side, program) {
            ours::time(program, case.method, &file, bytes, || {
                prepare(case.start, &file)?;
                // fio rests for about a quarter of a second before its clock starts, in which the host of a virtual machine
                // grants the disk new credit. So we rest as long as fio last did.
                thread::sleep(pause);
                Ok(())
            })?
        } else {
            prepare(case.start, &file)?;
            let (seconds, rest) = fio::time(case, &file, bytes)?;
            pause = rest;
            seconds
        };
        let found = fs::metadata(&file)?.len();
        ensure!(
            found == bytes,
            "the file has {found} bytes after the trial, not {bytes}"
        );
        Ok(seconds)
    };
    trial(Side::Fio)?;
    let mut sides = vec![Side::Fio, Side::FioAgain];
    sides.extend(program.map(|_| Side::Ours));
    let mut samples = Samples::default();
    let begun = Instant::now();
    let limit = Duration::from_secs(arguments.seconds_max);
    while samples.decided().is_none() && samples.fio.len() < arguments.rounds_max && begun.elapsed() < limit {
        random.shuffle(&mut sides);
        for &side in &sides {
            let seconds = trial(side)?;
            match side {
                Side::Fio => samples.fio.push(seconds),
                Side::FioAgain => samples.fio_again.push(seconds),
                Side::Ours => samples.ours.push(seconds),
            }
        }
    }
    Ok(samples)
}

/// Brings about what a trial starts from, and makes sure of it.
fn prepare(start: Cache, file: &Path) -> Result<()> {
    if start == Cache::None && file.exists() {
        fs::remove_file(file)?;
    }
    cache::sync_storage(file.parent().context("a trial's file lies in a directory")?);
    thread::sleep(SETTLE);
    let (bring, wanted): (fn(&Path) -> seekless::Result<cache::Resident>, f64) = match start {
        Cache::None => return Ok(()),
        Cache::Warm => (|path| cache::warm_file(path), 1.0),
        _ => (|path| cache::drop_file(path), 0.0),
    };
    for _ in 0..ATTEMPTS {
        if bring(file)?.part() == Some(wanted) {
            return Ok(());
        }
    }
    bail!("{} cannot be made {start:?}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(fio_again: [f64; 6], ours: [f64; 6]) -> Samples {
        Samples {
            fio: vec![1.0; 6],
            fio_again: fio_again.to_vec(),
            ours: ours.to_vec(),
        }
    }

    #[test]
    fn agreement_needs_fio_to_agree_with_itself() {
        assert_eq!(samples([1.01; 6], [1.04; 6]).decided(), Some(Verdict::Agrees));
        assert_eq!(samples([1.01; 6], [1.06; 6]).decided(), Some(Verdict::Differs));
        assert_eq!(samples([1.04; 6], [1.00; 6]).decided(), None);
        assert_eq!(samples([1.04; 6], [1.00; 6]).concluded(), Verdict::Inconclusive);
    }

    #[test]
    fn no_ratio_is_told_where_fio_does_not_agree_with_itself() {
        let told = |fio_again| in_words(samples([fio_again; 6], [1.27; 6]).ours_to_fio());
        assert_eq!(told(1.27), "-");
        assert_eq!(told(1.01), "1.270 (1.270 to 1.270)");
    }

    #[test]
    fn what_straddles_the_tolerance_goes_on_and_differs_at_the_limit() {
        let straddling = samples([1.0; 6], [0.99, 1.0, 1.0, 1.0, 1.0, 1.09]);
        assert_eq!(straddling.decided(), None);
        assert_eq!(straddling.concluded(), Verdict::Differs);
    }

    #[test]
    fn nothing_is_decided_below_six_rounds() {
        let few = Samples {
            fio: vec![1.0; 5],
            fio_again: vec![1.0; 5],
            ours: vec![1.0; 5],
        };
        assert_eq!(few.decided(), None);
        assert_eq!(few.concluded(), Verdict::Inconclusive);
    }

    #[test]
    fn fio_alone_is_judged_by_itself() {
        let alone = Samples {
            fio: vec![1.0; 6],
            fio_again: vec![1.01; 6],
            ours: Vec::new(),
        };
        assert_eq!(alone.decided(), Some(Verdict::Agrees));
    }
}
