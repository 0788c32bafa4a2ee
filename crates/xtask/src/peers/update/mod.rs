//! `seekless update` beside what one does without it: integers changed in a random order, each by a write that waits for
//! the device (the 2008 document's question).
//!
//! The planned update, the same program told to write as given, and a plain loop of pwrite with `O_DSYNC`, in alternation,
//! warm and cold; then the planned update beside the best of all methods that the library knows, which was found in rounds
//! of their own. After each the file is held against what it should be. Last, what planning ten million updates takes.

mod planning;
mod search;
mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless_results::statistics::median;

use crate::filesystems::{FileSystem, Matrix};
use crate::peers::cases::Start;
use crate::peers::ours::Ours;
use crate::peers::report::in_words;
use workload::Seconds;
pub use workload::Workload;

/// The most that the planned update may take of the naive one's time.
const GOALS: [(Start, f64); 2] = [(Start::Warm, 1.0 / 150.0), (Start::Cold, 1.0 / 100.0)];
/// The most that it may take of the best method's time.
const BEST_GOAL: f64 = 1.2;
const NAIVE: &str = "update/sync,write-through,order=as-given";

/// Where, how much, how often, and which.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// On ext4, XFS and btrfs in image files instead (needs root)
    #[arg(long, conflicts_with = "dir")]
    filesystems: bool,
    /// Integers of the file, every hundredth of which is changed
    #[arg(long, default_values_t = [1_000_000, 10_000_000], value_delimiter = ',')]
    integers: Vec<u32>,
    /// Rounds of each case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Rounds beside a write for each update, which may take minutes [default: as --rounds]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    naive_rounds: Option<u16>,
    /// Rounds in which the best method is looked for
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    search_rounds: u16,
    /// Leave out planning ten million updates
    #[arg(long)]
    no_planning: bool,
    /// Seed of the orders [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Another seekless to be measured, such as one that was built before
    #[arg(long)]
    program: Option<PathBuf>,
}

/// What is measured, where, and what came of it.
struct Report {
    program: PathBuf,
    table: Table,
    missed: Vec<String>,
}

/// Measures, prints, and fails where a goal is missed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => std::fs::canonicalize(program)?,
        None => Ours::build()?.program().to_owned(),
    };
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "who", "ms (median)", "planned / who", "goal", "kept"]);
    let mut report = Report {
        program,
        table,
        missed: Vec::new(),
    };
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    let measured = measure(arguments, seed, &mut report);
    // What was measured until it was interrupted is worth seeing.
    println!("{}", report.table);
    measured?;
    ensure!(report.missed.is_empty(), "missed: {}", report.missed.join("; "));
    Ok(())
}

fn measure(arguments: &Arguments, seed: u64, report: &mut Report) -> Result<()> {
    if !arguments.filesystems {
        return in_directory(arguments, "", &arguments.dir, seed, report);
    }
    let matrix = Matrix::mount(&[FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs])?;
    for reason in matrix.skipped() {
        println!("skipped: {reason}");
    }
    for mounted in matrix.mounted() {
        let name = mounted.file_system().name();
        in_directory(arguments, name, mounted.point(), seed, report)?;
    }
    Ok(())
}

fn in_directory(arguments: &Arguments, place: &str, dir: &Path, seed: u64, report: &mut Report) -> Result<()> {
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(dir)
        .with_context(|| format!("cannot make a directory in {}", dir.display()))?;
    for &integers in &arguments.integers {
        let workload = Workload::make(directory.path(), integers, seed)?;
        for (start, goal) in GOALS {
            let name = format!("{place} {:.1} MB, {start:?}", f64::from(integers) * 4.0 / 1e6);
            let name = name.trim().to_lowercase();
            beside_naive(arguments, &workload, start, goal, &name, report)?;
            beside_best(arguments, &workload, start, &name, report)?;
            eprintln!("{name} done");
        }
    }
    if !arguments.no_planning {
        planning::measure(directory.path(), seed, report)?;
    }
    Ok(())
}

fn beside_naive(
    arguments: &Arguments,
    workload: &Workload,
    start: Start,
    goal: f64,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let (mut planned, mut ours, mut loops) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = arguments.naive_rounds.unwrap_or(arguments.rounds);
    for round in 0..usize::from(rounds) {
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => planned.push(workload.update(&report.program, None, start)?),
                1 => ours.push(workload.update(&report.program, Some(NAIVE), start)?),
                _ => loops.push(workload.naive(start)?),
            }
        }
    }
    let whole = whole(&planned);
    report.parts(name, "planned", &planned);
    report.judge(name, "as given by seekless", &whole, &self::whole(&ours), goal);
    report.judge(name, "a loop of pwrite", &whole, &loops, goal);
    Ok(())
}

fn beside_best(
    arguments: &Arguments,
    workload: &Workload,
    start: Start,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let best = search::best(workload, &report.program, start, arguments.search_rounds)?;
    let (mut planned, mut others) = (Vec::new(), Vec::new());
    for round in 0..usize::from(arguments.rounds) * 2 {
        for turn in 0..2 {
            match (round + turn) % 2 {
                0 => planned.push(workload.update(&report.program, None, start)?),
                _ => others.push(workload.update(&report.program, Some(&best), start)?),
            }
        }
    }
    report.parts(name, &best, &others);
    report.judge(name, "the best, whole", &whole(&planned), &whole(&others), BEST_GOAL);
    report.judge(name, "the best, update", &itself(&planned), &itself(&others), BEST_GOAL);
    Ok(())
}

fn whole(seconds: &[Seconds]) -> Vec<f64> {
    seconds.iter().map(|seconds| seconds.whole).collect()
}

/// What is left without starting the program and reading the updates.
fn itself(seconds: &[Seconds]) -> Vec<f64> {
    let updates = seconds.iter();
    updates
        .map(|seconds| seconds.facts + seconds.plan + seconds.write)
        .collect()
}

impl Report {
    /// The parts of a process's time.
    fn parts(&mut self, case: &str, who: &str, seconds: &[Seconds]) {
        let middle = |part: fn(&Seconds) -> f64| {
            let parts: Vec<f64> = seconds.iter().map(part).collect();
            format!("{:.2}", median(&parts).unwrap_or(f64::NAN) * 1e3)
        };
        self.table.add_row([
            case,
            who,
            &format!(
                "{} (read {}, facts {}, plan {}, write {})",
                middle(|s| s.whole),
                middle(|s| s.read),
                middle(|s| s.facts),
                middle(|s| s.plan),
                middle(|s| s.write)
            ),
        ]);
    }

    fn judge(&mut self, case: &str, who: &str, planned: &[f64], theirs: &[f64], goal: f64) {
        let ratios: Vec<f64> = planned.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        let found = median(&ratios).unwrap_or(f64::NAN);
        let (goal_text, found_text) = if goal < 1.0 {
            (format!("1/{:.0}", 1.0 / goal), format!("1/{:.0}", 1.0 / found))
        } else {
            (format!("{goal} x"), format!("{found:.3} x"))
        };
        let milliseconds = median(theirs).map_or_else(String::new, |seconds| format!("{:.2}", seconds * 1e3));
        self.goal(
            [case, who, &milliseconds, &in_words(&ratios), &goal_text, &found_text],
            found <= goal,
        );
    }

    /// A row whose last cell is what was found, with the word whether it is good enough.
    fn goal(&mut self, row: [&str; 6], is_kept: bool) {
        let kept = format!("{}: {}", if is_kept { "yes" } else { "**no**" }, row[5]);
        if !is_kept {
            self.missed.push(format!("{}, {}: {}", row[0], row[1], row[5]));
        }
        self.table.add_row([row[0], row[1], row[2], row[3], row[4], &kept]);
    }
}
