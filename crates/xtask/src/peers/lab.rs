//! Faithfulness: does a trial of the lab take as long as the same work in fio?
//!
//! Each round runs fio, fio again and seekless in shuffled order on the same file, under the same checked state of the
//! cache. Rounds go on until fio agrees with itself and the comparison with seekless is decided, or a limit is reached:
//! then the case is inconclusive if fio never agreed with itself, else seekless differs. No ratio to fio is printed of an
//! inconclusive case: what cannot tell fio from fio cannot tell fio from seekless.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::fs::statvfs;

use crate::peers::cases::{Case, Start};
use crate::peers::ours::Ours;
use crate::peers::statistics::median_interval;
use crate::peers::{cache, fio, idle, report};
use crate::process::{check_interrupt, is_installed};

/// How far from 1 the interval of fio's ratio to itself may reach.
const AA_TOLERANCE: f64 = 0.03;
/// How far from 1 the interval of our ratio to fio may reach.
const TOLERANCE: f64 = 0.05;

/// What to compare, where, and for how long.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to compare on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Bytes per trial, in whole MiB; four times that where warm
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    size: u64,
    /// Only these cases
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
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
    /// Before each round, wait until nothing else uses the processors
    #[arg(long)]
    wait_idle: bool,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same measurement, within the tolerance.
    Agrees,
    /// Not the same, or not shown to be.
    Differs,
    /// fio does not even agree with itself here.
    Inconclusive,
}

/// A case and what was measured.
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// Bytes moved in a trial.
    pub bytes: u64,
    /// Seconds.
    pub samples: Samples,
    /// The verdict.
    pub verdict: Verdict,
}

impl Outcome {
    /// Our ratio to fio in words, where fio agrees with itself.
    pub fn ours_to_fio(&self) -> String {
        match self.verdict {
            Verdict::Inconclusive => "-".to_owned(),
            Verdict::Agrees | Verdict::Differs => report::in_words(&ratios(&self.samples.ours, &self.samples.fio)),
        }
    }
}

/// Seconds by round.
#[derive(Default)]
pub struct Samples {
    /// fio.
    pub fio: Vec<f64>,
    /// fio under another name.
    pub fio_again: Vec<f64>,
    /// seekless; empty if it takes no part.
    pub ours: Vec<f64>,
}

impl Samples {
    /// fio's ratio to itself, by round.
    pub fn fio_to_fio(&self) -> Vec<f64> {
        ratios(&self.fio_again, &self.fio)
    }

    /// Whether fio agrees with itself.
    fn is_steady(&self) -> bool {
        median_interval(&self.fio_to_fio()).is_some_and(|interval| interval.is_within(AA_TOLERANCE))
    }

    /// The verdict that the rounds so far allow, if any.
    fn decided(&self) -> Option<Verdict> {
        if !self.is_steady() {
            return None;
        }
        match median_interval(&ratios(&self.ours, &self.fio)) {
            None if self.ours.is_empty() => Some(Verdict::Agrees),
            Some(interval) if interval.is_within(TOLERANCE) => Some(Verdict::Agrees),
            Some(interval) if interval.is_outside(TOLERANCE) => Some(Verdict::Differs),
            _ => None,
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

#[derive(Clone, Copy)]
enum Side<'a> {
    Fio,
    FioAgain,
    Ours(&'a Ours),
}

/// Compares, prints the table, and fails where a case differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        is_installed("fio"),
        "fio is not installed (`cargo xtask test --only set-up` installs it)"
    );
    ensure!(arguments.dir.is_dir(), "{} is not a directory", arguments.dir.display());
    let cases = if arguments.cases.is_empty() {
        Case::ALL.to_vec()
    } else {
        arguments.cases.clone()
    };
    check_space(&arguments.dir, &cases, arguments.size)?;
    let ours = if arguments.fio_only { None } else { Some(Ours::build()?) };
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let preface = report::preface(&arguments.dir, arguments.size, seed)?;
    println!("{preface}\n");

    let mut random = fastrand::Rng::with_seed(seed);
    let mut outcomes = Vec::new();
    for case in cases {
        let outcome =
            compare(case, arguments, ours.as_ref(), &mut random).with_context(|| format!("case `{}`", case.name()))?;
        outcomes.push(outcome);
    }
    println!("\n{}", report::table(&outcomes));
    if let Some(path) = &arguments.markdown {
        report::write_markdown(path, &preface, &outcomes)?;
    }
    let differs = |outcome: &&Outcome| outcome.verdict == Verdict::Differs;
    match outcomes.iter().filter(differs).count() {
        0 => Ok(()),
        count => bail!("{count} cases differ"),
    }
}

fn compare(case: Case, arguments: &Arguments, ours: Option<&Ours>, random: &mut fastrand::Rng) -> Result<Outcome> {
    let bytes = case.bytes(arguments.size);
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    let file = directory.path().join("file");
    if case.start() != Start::Fresh {
        cache::make_file(&file, bytes)?;
    }
    // A host below a virtual machine caches too: after one reading nobody is the first to have the file read.
    let mut pause = Duration::ZERO;
    trial(case, Side::Fio, &file, bytes, &mut pause)?;

    let mut sides = vec![Side::Fio, Side::FioAgain];
    sides.extend(ours.map(Side::Ours));
    let mut samples = Samples::default();
    let limit = Duration::from_secs(arguments.seconds_max);
    let mut measuring = Duration::ZERO;
    while samples.decided().is_none() && samples.fio.len() < arguments.rounds_max && measuring < limit {
        if arguments.wait_idle {
            idle::wait()?;
        }
        let started = Instant::now();
        random.shuffle(&mut sides);
        for &side in &sides {
            let seconds = trial(case, side, &file, bytes, &mut pause)?;
            match side {
                Side::Fio => samples.fio.push(seconds),
                Side::FioAgain => samples.fio_again.push(seconds),
                Side::Ours(_) => samples.ours.push(seconds),
            }
        }
        measuring += started.elapsed();
    }
    let outcome = Outcome {
        case,
        bytes,
        verdict: samples.concluded(),
        samples,
    };
    println!(
        "{}: {:?} after {} rounds, {measuring:.0?}; seekless / fio {}, fio / fio {}",
        case.name(),
        outcome.verdict,
        outcome.samples.fio.len(),
        outcome.ours_to_fio(),
        report::in_words(&outcome.samples.fio_to_fio()),
    );
    Ok(outcome)
}

/// fio rests for about a quarter of a second before its clock starts, in which the host of a virtual machine grants the
/// disk new credit. So we rest as long as fio last did (`pause`).
fn trial(case: Case, side: Side<'_>, file: &Path, bytes: u64, pause: &mut Duration) -> Result<f64> {
    check_interrupt()?;
    let prepare = || cache::prepare(case.start(), file);
    let seconds = match side {
        Side::Fio | Side::FioAgain => {
            prepare()?;
            let (seconds, rest) = fio::time(case, file, bytes)?;
            *pause = rest;
            seconds
        }
        Side::Ours(ours) => ours.time(case, file, bytes, || {
            prepare()?;
            std::thread::sleep(*pause);
            Ok(())
        })?,
    };
    let found = file
        .metadata()
        .with_context(|| format!("cannot look at {}", file.display()))?
        .len();
    ensure!(
        found == bytes,
        "{} has {found} bytes after the trial, not {bytes}",
        file.display()
    );
    if case.start() == Start::Fresh {
        cache::remove(file)?;
    }
    Ok(seconds)
}

fn check_space(directory: &Path, cases: &[Case], size_bytes: u64) -> Result<()> {
    let space = statvfs(directory).with_context(|| format!("cannot look at the storage of {}", directory.display()))?;
    let free_bytes = space.f_bavail * space.f_frsize;
    let needed_bytes = cases.iter().map(|case| case.bytes(size_bytes)).max().unwrap_or(0);
    ensure!(
        needed_bytes <= free_bytes / 10 * 9,
        "{} has {} MiB free; {} MiB are needed, and a tenth stays free",
        directory.display(),
        free_bytes >> 20,
        needed_bytes >> 20,
    );
    Ok(())
}

fn ratios(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.strip_suffix('G') {
        Some(number) => (number, 30),
        None => (
            text.strip_suffix('M')
                .ok_or("a size is a number and M or G, as in 512M")?,
            20,
        ),
    };
    match number.parse::<u64>() {
        Ok(number @ 1..=0xffff) => Ok(number << shift),
        _ => Err(format!("`{number}` is no number of 1 to 65535")),
    }
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
        let told = |fio_again| {
            let samples = samples([fio_again; 6], [1.27; 6]);
            let outcome = Outcome {
                case: Case::ColdUring,
                bytes: 1,
                verdict: samples.concluded(),
                samples,
            };
            outcome.ours_to_fio()
        };
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

    #[test]
    fn sizes_are_whole_mebibytes() {
        assert_eq!(parse_size("3M"), Ok(3 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for wrong in ["", "1", "1K", "0M", "-1M", "99999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
