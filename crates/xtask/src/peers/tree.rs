//! `seekless cmp -r` beside the programs that people compare trees with: `diff -rq`, `rsync -rcn`, `tar | tar d`.
//!
//! A tree of many small files against its copy, warm and cold, in alternation: in each round every program compares them
//! once, in a shuffled order. Cold is after `drop_caches`, which needs root: what is dropped are pages, inodes and entries
//! of directories.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use rustix::fs::syncfs;
use seekless_results::statistics::median;

use crate::peers::ours::Ours;
use crate::peers::report::in_words;
use crate::process::{check_interrupt, is_installed, is_root};

/// Seconds over those of the best peer, at most.
const GOALS: [(&str, f64); 2] = [("warm", 0.6), ("cold", 0.25)];
const DIRECTORIES: u32 = 1000;
/// Files are of 0 to so many bytes.
const LARGEST_BYTES: usize = 16 << 10;

/// Where, how much, and how often.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Files of the tree
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..))]
    files: u32,
    /// Rounds, warm and cold each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seed of the contents and the order [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

/// A program that compares `one` with `other` in the directory that it is started in.
struct Peer {
    name: &'static str,
    needs: &'static str,
    command: String,
}

/// Measures, prints, and fails where a goal is missed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let ours = Ours::build()?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    println!(
        "{} files of 0 to {} KiB in {DIRECTORIES} directories and their copies, seed {seed}\n",
        arguments.files,
        LARGEST_BYTES >> 10
    );
    make_trees(directory.path(), arguments.files, &mut random)?;
    let peers = peers(ours.program());
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["cache", "program", "seconds (median)", "seekless / program, seconds"]);
    let mut missed = Vec::new();
    for (state, goal) in GOALS {
        if state == "cold" && !is_root() {
            println!("skipped: dropping the system's caches needs root");
            continue;
        }
        let seconds = measure(directory.path(), &peers, state == "cold", arguments.rounds, &mut random)?;
        for (peer, samples) in peers.iter().zip(&seconds) {
            let ratios: Vec<f64> = seconds[0]
                .iter()
                .zip(samples)
                .map(|(ours, theirs)| ours / theirs)
                .collect();
            table.add_row([
                state.to_owned(),
                peer.name.to_owned(),
                median(samples).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}")),
                in_words(&ratios),
            ]);
        }
        // The best of the others in each round, so that what slows a round down cancels.
        let best = |round: usize| {
            seconds[1..]
                .iter()
                .map(|samples| samples[round])
                .fold(f64::INFINITY, f64::min)
        };
        let ratios: Vec<f64> = (0..seconds[0].len())
            .map(|round| seconds[0][round] / best(round))
            .collect();
        let middle = median(&ratios).context("there are rounds")?;
        table.add_row([state, "the best in each round", "", &in_words(&ratios)]);
        if middle > goal {
            missed.push(format!("{state}: {middle:.3}, not {goal}"));
        }
    }
    println!("{table}");
    ensure!(missed.is_empty(), "slower than the goal: {}", missed.join("; "));
    Ok(())
}

/// Ours first, and those of the others that are installed.
fn peers(program: &Path) -> Vec<Peer> {
    let others = [
        ("diff -rq", "diff", "diff -rq one other"),
        ("rsync -rcn", "rsync", "rsync -rcn one/ other/"),
        ("tar | tar d", "tar", "tar cf - -C one . | tar df - -C other"),
    ];
    let mut peers = vec![Peer {
        name: "seekless",
        needs: "",
        command: format!("'{}' cmp -r one other", program.display()),
    }];
    for (name, needs, command) in others {
        if is_installed(needs) {
            let command = command.to_owned();
            peers.push(Peer { name, needs, command });
        } else {
            println!("skipped: {name}: there is no {needs} here");
        }
    }
    peers
}

/// The seconds of each program, round by round.
fn measure(
    directory: &Path,
    peers: &[Peer],
    is_cold: bool,
    rounds: u16,
    random: &mut fastrand::Rng,
) -> Result<Vec<Vec<f64>>> {
    let mut seconds = vec![Vec::new(); peers.len()];
    if !is_cold {
        // Once unmeasured, which brings everything into memory.
        for peer in peers {
            time(directory, peer)?;
        }
    }
    let mut order: Vec<usize> = (0..peers.len()).collect();
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &index in &order {
            check_interrupt()?;
            if is_cold {
                sync(directory)?;
                seekless::cache::drop_system().context("cannot drop the system's caches")?;
            }
            seconds[index].push(time(directory, &peers[index])?);
        }
    }
    Ok(seconds)
}

/// Runs a program, which must find no difference.
fn time(directory: &Path, peer: &Peer) -> Result<f64> {
    let begun = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", &peer.command])
        .current_dir(directory)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", peer.name))?;
    let status = child.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{} ({}): {status}: the trees are equal", peer.name, peer.needs);
    }
    Ok(seconds)
}

/// Makes a tree `one`, and then its copy `other`, in the order in which a copy is made.
pub fn make_trees(directory: &Path, files: u32, random: &mut fastrand::Rng) -> Result<()> {
    let seed = random.u64(..);
    for tree in ["one", "other"] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut block = vec![0; LARGEST_BYTES];
        for number in 0..DIRECTORIES {
            check_interrupt()?;
            let below = directory
                .join(tree)
                .join((number % 40).to_string())
                .join(number.to_string());
            fs::create_dir_all(&below)?;
            for file in 0..files / DIRECTORIES {
                let length = random.usize(..=LARGEST_BYTES);
                random.fill(&mut block[..length]);
                let mut made = File::create_new(below.join(format!("file-{file}.dat")))?;
                made.write_all(&block[..length])?;
                // tar d compares it, too.
                made.set_modified(SystemTime::UNIX_EPOCH)?;
            }
        }
        sync(directory)?;
    }
    Ok(())
}

fn sync(directory: &Path) -> Result<()> {
    syncfs(File::open(directory)?).with_context(|| format!("cannot sync the file system of {}", directory.display()))
}
