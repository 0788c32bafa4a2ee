//! Holes beside the system's programs: reading one, copying a sparse file beside cp, digging beside `fallocate --dig-holes`;
//! in alternation, each round on fresh files, checked, and held against its goal.
//!
//! Reading and copying are trials of the release binary: the seconds from opening to closing, while cp is timed from its
//! start to its end. Digging is timed from start to end on both sides.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use seekless::Method;
use seekless_lab::trial::Spec;
use seekless_lab::{Answer, Kernel};
use seekless_results::statistics::median;

use crate::peers::cache::remove;
use crate::peers::ours::{Ours, job};
use crate::peers::report::in_words;
use crate::process::{capture, check_interrupt, in_words as command_in_words};

/// Where, how much, how often, and which.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// MiB of zeros to dig in
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(16..))]
    mib: u64,
    /// Rounds of each case
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

/// What ours is held against.
enum Goal {
    /// At most so many times the peer's seconds.
    Ratio(f64),
    /// At most so many seconds.
    Seconds(f64),
}

/// One side of a case: runs once, checks what became of it, and gives the seconds.
type Side<'a> = (&'static str, Box<dyn Fn() -> Result<f64> + 'a>);

/// Ours and a peer.
struct Case<'a> {
    name: &'static str,
    ours: Side<'a>,
    peer: Side<'a>,
    goals: &'static [Goal],
}

const HOLE_BYTES: u64 = 1 << 30;
const SPARSE_BYTES: u64 = 1 << 40;
const BLOCKS: u64 = 1000;
const BLOCK_BYTES: u64 = 4096;
const READ: &str = "read/sync,holes=skip";
const READ_ALL: &str = "read/sync";
const COPY: &str = "copy/sync,holes=skip";
const DIG: &str = "holes dig";
const DIG_HOLES: &str = "fallocate --dig-holes";
const DIG_GOALS: &[Goal] = &[Goal::Ratio(0.2)];

/// Measures, prints, and fails where a goal is missed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let ours = Ours::build()?;
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "program", "ms (median)", "seekless / program", "goal", "kept"]);
    let mut missed = Vec::new();
    let dig_bytes = arguments.mib << 20;
    let all = [reading(&ours, directory.path())?, copying(&ours, directory.path())?]
        .into_iter()
        .chain(digging(&ours, directory.path(), dig_bytes));
    for case in all.filter(|case| case.name.contains(&arguments.only)) {
        let seconds = measure(&case, arguments.rounds)?;
        judge(&case, &seconds, &mut table, &mut missed);
        eprintln!("{} done", case.name);
    }
    println!("{table}");
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// A histogram of a hole, beside the same with the hole read.
fn reading<'a>(ours: &'a Ours, directory: &Path) -> Result<Case<'a>> {
    let path = directory.join("hole");
    File::create_new(&path)?.set_len(HOLE_BYTES)?;
    let histogram = |method: &'static str| {
        let path = path.clone();
        move || {
            let spec = Spec::of(Method::known(method), Kernel::Histogram, job(&path, &path, HOLE_BYTES));
            let report = ours.trial(&spec, || Ok(()))?;
            let Some(Answer::Histogram(counts)) = report.answers.first() else {
                anyhow::bail!("{method} gave no histogram")
            };
            ensure!(
                counts[0] == HOLE_BYTES && counts.iter().sum::<u64>() == HOLE_BYTES,
                "{method} counted {} zeros",
                counts[0]
            );
            Ok(report.trial.seconds)
        }
    };
    Ok(Case {
        name: "histogram of a hole of 1 GiB",
        ours: (READ, Box::new(histogram(READ))),
        peer: (READ_ALL, Box::new(histogram(READ_ALL))),
        goals: &[Goal::Seconds(0.005)],
    })
}

/// A sparse file with scattered blocks, copied.
fn copying<'a>(ours: &'a Ours, directory: &Path) -> Result<Case<'a>> {
    let (source, target) = (directory.join("sparse"), directory.join("copy"));
    let file = File::create_new(&source)?;
    file.set_len(SPARSE_BYTES)?;
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..BLOCKS {
        let block = random.u64(..SPARSE_BYTES / BLOCK_BYTES);
        file.write_all_at(&[random.u8(1..); BLOCK_BYTES as usize], block * BLOCK_BYTES)?;
    }
    file.sync_all()?;
    let (from, to) = (source.clone(), target.clone());
    let ours_copies = move || {
        remove(&to)?;
        let spec = Spec::of(Method::known(COPY), Kernel::None, job(&from, &to, SPARSE_BYTES));
        let report = ours.trial(&spec, || Ok(()))?;
        check_copy(ours, &from, &to)?;
        Ok(report.trial.seconds)
    };
    let cp = move || {
        remove(&target)?;
        let seconds = time(Command::new("cp").arg("--sparse=auto").arg(&source).arg(&target))?;
        check_copy(ours, &source, &target)?;
        Ok(seconds)
    };
    Ok(Case {
        name: "copy of 1 TiB with 1,000 blocks",
        ours: (COPY, Box::new(ours_copies)),
        peer: ("cp --sparse=auto", Box::new(cp)),
        goals: &[Goal::Ratio(1.1), Goal::Seconds(0.15)],
    })
}

/// Equal, and no more blocks than the source.
fn check_copy(ours: &Ours, source: &Path, target: &Path) -> Result<()> {
    capture(Command::new(ours.program()).args(["cmp", "-s"]).arg(source).arg(target))?;
    File::open(target)?.sync_all()?;
    let [from, to] = [source, target].map(|path| fs::metadata(path).map(|metadata| metadata.blocks()));
    let (from, to) = (from?, to?);
    // The blocks that hold the map of extents come in other numbers where the extents came in another order.
    ensure!(
        to <= from + from / 10,
        "the copy has {to} sectors, its source {from}: it is less sparse"
    );
    Ok(())
}

/// Zeros made holes: written in large or small pieces (which decides how large the pages' folios are), on the device or not.
fn digging<'a>(ours: &'a Ours, directory: &Path, bytes: u64) -> [Case<'a>; 4] {
    let path = directory.join("zeros");
    let case = |name, piece_bytes, is_synced| {
        let (dug, theirs) = (path.clone(), path.clone());
        let dig = move || {
            make_zeros(&dug, bytes, piece_bytes, is_synced)?;
            let seconds = time(Command::new(ours.program()).args(["holes", "dig"]).arg(&dug))?;
            check_dug(&dug, bytes).map(|()| seconds)
        };
        let fallocate = move || {
            make_zeros(&theirs, bytes, piece_bytes, is_synced)?;
            let seconds = time(Command::new("fallocate").arg("--dig-holes").arg(&theirs))?;
            check_dug(&theirs, bytes).map(|()| seconds)
        };
        Case {
            name,
            ours: (DIG, Box::new(dig)),
            peer: (DIG_HOLES, Box::new(fallocate)),
            goals: DIG_GOALS,
        }
    };
    [
        case("dig, written in 1M, synced", 1 << 20, true),
        case("dig, written in 4K, synced", 4 << 10, true),
        case("dig, written in 1M, dirty", 1 << 20, false),
        case("dig, written in 4K, dirty", 4 << 10, false),
    ]
}

fn make_zeros(path: &Path, bytes: u64, piece_bytes: usize, is_synced: bool) -> Result<()> {
    remove(path)?;
    let mut file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let piece = vec![0; piece_bytes];
    for _ in 0..bytes / piece_bytes as u64 {
        file.write_all(&piece)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    check_interrupt()?;
    if is_synced {
        file.sync_all()?;
    }
    Ok(())
}

/// Nothing but a hole of the same size: such a file reads as zeros.
fn check_dug(path: &Path, bytes: u64) -> Result<()> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.len() == bytes, "its size is {}", metadata.len());
    ensure!(metadata.blocks() < 64, "{} sectors are left", metadata.blocks());
    match seek(&file, SeekFrom::Data(0)) {
        Err(Errno::NXIO) => Ok(()),
        Ok(at) => anyhow::bail!("there is data at byte {at}"),
        Err(errno) => Err(errno).context("cannot ask for data"),
    }
}

fn time(command: &mut Command) -> Result<f64> {
    let begun = Instant::now();
    let output = command.output();
    let seconds = begun.elapsed().as_secs_f64();
    let output = output.with_context(|| format!("cannot start {}", command_in_words(command)))?;
    ensure!(
        output.status.success(),
        "{}: {}: {}",
        command_in_words(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(seconds)
}

/// The seconds of both, round by round, in an order that turns.
fn measure(case: &Case<'_>, rounds: u16) -> Result<[Vec<f64>; 2]> {
    let mut seconds = [Vec::new(), Vec::new()];
    let sides = [&case.ours, &case.peer];
    for round in 0..usize::from(rounds) {
        for turn in 0..2 {
            check_interrupt()?;
            let index = (round + turn) % 2;
            let (name, run) = sides[index];
            seconds[index].push(run().with_context(|| format!("{}: {name}", case.name))?);
        }
    }
    Ok(seconds)
}

fn judge(case: &Case<'_>, [ours, theirs]: &[Vec<f64>; 2], table: &mut Table, missed: &mut Vec<String>) {
    let milliseconds = |samples: &[f64]| median(samples).map_or_else(|| "-".to_owned(), |s| format!("{:.2}", s * 1e3));
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    table.add_row([case.name, case.ours.0, &milliseconds(ours), "", "", ""]);
    table.add_row(["", case.peer.0, &milliseconds(theirs), &in_words(&ratios), "", ""]);
    for goal in case.goals {
        let (text, found, most) = match goal {
            Goal::Ratio(most) => (format!("{most} x {}", case.peer.0), median(&ratios), *most),
            Goal::Seconds(most) => (format!("{} ms", most * 1e3), median(ours), *most),
        };
        let is_kept = found.is_some_and(|found| found <= most);
        let kept = if is_kept { "yes" } else { "**no**" };
        let found = found.map_or_else(
            || "-".to_owned(),
            |found| match goal {
                Goal::Ratio(_) => format!("{found:.3}"),
                Goal::Seconds(_) => format!("{:.3} ms", found * 1e3),
            },
        );
        table.add_row(["", "", "", "", &text, &format!("{kept}: {found}")]);
        if !is_kept {
            missed.push(format!("{}: {text}", case.name));
        }
    }
}
