//! `seekless cmp` beside the system's cmp and diff: two large files warm and cold, holes, early differences, listings,
//! start-up and memory, each in alternation and held against its goal.
//!
//! Cold means cold for this machine, by `posix_fadvise`. Beside a direct read of the same bytes a comparison can only be
//! held on a disk whose rate is steady: run it under a throttle.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use seekless_results::statistics::median;

use crate::peers::cache::{make_file, prepare};
use crate::peers::cases::Start;
use crate::peers::memory::peak_kib;
use crate::peers::ours::Ours;
use crate::peers::report::in_words;
use crate::process::check_interrupt;

/// Where, how much, how often, and which.
#[derive(Args)]
pub struct Arguments {
    /// Directory on the storage to measure on
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// MiB of each of the two large files
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(64..))]
    mib: u64,
    /// Rounds of each case
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Another cmp to be held against the goals, such as one that was built before
    #[arg(long)]
    program: Option<PathBuf>,
}

/// What ours is held against.
enum Goal {
    /// At most so many times the seconds of this peer.
    Ratio(&'static str, f64),
    /// At most so many times the seconds of the quickest of the others.
    Best(f64),
    /// At most so many seconds.
    Seconds(f64),
    /// At most so many seconds more than this peer.
    More(&'static str, f64),
}

/// Programs on two files in a state.
struct Case {
    name: &'static str,
    files: [PathBuf; 2],
    start: Option<Start>,
    /// What ours is called with, before the files.
    ours: &'static [&'static str],
    /// The others: name, and a program with its words, where `1` and `2` stand for the files.
    peers: &'static [(&'static str, &'static [&'static str])],
    goals: &'static [Goal],
    /// The exit code of all.
    code: i32,
    /// Whether the output goes to a pipe that is read, rather than nowhere.
    is_listed: bool,
    rounds: u16,
}

const CMP: (&str, &[&str]) = ("cmp", &["cmp", "1", "2"]);
const SILENT: (&str, &[&str]) = ("cmp -s", &["cmp", "-s", "1", "2"]);
const DIFF: (&str, &[&str]) = ("diff -q", &["diff", "-q", "1", "2"]);
const DIRECT: (&str, &[&str]) = (
    "dd iflag=direct",
    &[
        "sh",
        "-c",
        r#"for file; do dd if="$file" iflag=direct bs=1M status=none | cat >/dev/null; done"#,
        "sh",
        "1",
        "2",
    ],
);
const ONE_THREAD: &[&str] = &["-s", "--method", "compare/mmap,block=8M"];
const SPARSE_BYTES: u64 = 20 << 30;
const SCATTERED: u64 = 1000;

/// Measures, prints, and fails where a goal is missed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => Ours::build()?.program().to_owned(),
    };
    let directory = tempfile::Builder::new()
        .prefix("seekless-peers-")
        .tempdir_in(&arguments.dir)
        .with_context(|| format!("cannot make a directory in {}", arguments.dir.display()))?;
    // Through a link of that name: what is compared with cmp is called as cmp is.
    let ours = directory.path().join("cmp");
    std::os::unix::fs::symlink(fs::canonicalize(&program)?, &ours)?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["case", "program", "ms (median)", "seekless / program", "goal", "kept"]);
    let mut missed = Vec::new();
    let large_bytes = arguments.mib << 20;
    for case in cases(directory.path(), &arguments.only, large_bytes)? {
        check_interrupt()?;
        let seconds = measure(&case, &ours, arguments.rounds.max(case.rounds))?;
        judge(&case, &seconds, &mut table, &mut missed);
        eprintln!("{} done", case.name);
    }
    if "early difference, bytes".contains(&arguments.only) {
        early_bytes(directory.path(), &ours, large_bytes, &mut table, &mut missed)?;
    }
    if "peak memory".contains(&arguments.only) {
        memory(directory.path(), &ours, large_bytes, &mut table, &mut missed)?;
    }
    println!("{table}");
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// The cases that were asked for, with their files made.
fn cases(directory: &Path, only: &str, large_bytes: u64) -> Result<Vec<Case>> {
    let all = large_cases(directory).into_iter().chain(other_cases(directory));
    let wanted: Vec<Case> = all.filter(|case| case.name.contains(only)).collect();
    for case in &wanted {
        make(case, large_bytes)?;
    }
    Ok(wanted)
}

fn files(directory: &Path, name: &str) -> [PathBuf; 2] {
    ["one", "other"].map(|side| directory.join(format!("{name}-{side}")))
}

/// Two large files that are equal.
fn large_cases(directory: &Path) -> [Case; 5] {
    let case = |name, start, ours, peers, goals| Case {
        name,
        files: files(directory, "large"),
        start: Some(start),
        ours,
        peers,
        goals,
        code: 0,
        is_listed: false,
        rounds: 0,
    };
    let silent: &[&str] = &["-s"];
    let ratios: &[Goal] = &[Goal::Ratio("cmp -s", 0.3), Goal::Ratio("diff -q", 0.3)];
    let beside_read: &[Goal] = &[Goal::Ratio("dd iflag=direct", 1.02)];
    [
        case("warm -s", Start::Warm, silent, &[SILENT, DIFF], ratios),
        case("warm", Start::Warm, &[], &[CMP], &[Goal::Ratio("cmp", 0.25)]),
        case(
            "warm, one thread",
            Start::Warm,
            ONE_THREAD,
            &[SILENT],
            &[Goal::Ratio("cmp -s", 0.6)],
        ),
        case("cold", Start::Cold, silent, &[SILENT, DIFF], &[Goal::Best(1.0)]),
        case("cold, direct read", Start::Cold, silent, &[DIRECT], beside_read),
    ]
}

/// Holes, differences, and two files of a few words.
fn other_cases(directory: &Path) -> [Case; 6] {
    let case = |name, file, start, goals| Case {
        name,
        files: files(directory, file),
        start,
        ours: &["-s"],
        peers: &[],
        goals,
        code: 0,
        is_listed: false,
        rounds: 0,
    };
    let (warm, cold) = (Some(Start::Warm), Some(Start::Cold));
    [
        case("2 x 20 GiB hole", "hole", None, &[Goal::Seconds(0.003)]),
        case("1,000 blocks, warm", "scattered", None, &[Goal::Seconds(0.015)]),
        case("1,000 blocks, cold", "scattered", cold, &[Goal::Seconds(0.2)]),
        Case {
            code: 1,
            peers: &[SILENT],
            ..case("early difference, cold", "early", cold, &[Goal::Seconds(0.01)])
        },
        Case {
            code: 1,
            is_listed: true,
            ours: &["-l"],
            peers: &[("cmp -l", &["cmp", "-l", "1", "2"])],
            ..case("-l, all differ", "listed", warm, &[Goal::Ratio("cmp -l", 0.2)])
        },
        Case {
            ours: &[],
            peers: &[CMP],
            rounds: 301,
            ..case("start-up", "tiny", None, &[Goal::More("cmp", 0.0003)])
        },
    ]
}

/// Makes the files of a case, unless another case has.
fn make(case: &Case, large_bytes: u64) -> Result<()> {
    let [one, other] = &case.files;
    if one.exists() {
        return Ok(());
    }
    let name = one.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.as_str() {
        "hole-one" | "scattered-one" => {
            for path in &case.files {
                let file = File::create_new(path)?;
                file.set_len(SPARSE_BYTES)?;
                let blocks = if name == "hole-one" { 0 } else { SCATTERED };
                for block in 0..blocks {
                    // A step that is no multiple of anything, so that no two lie alike.
                    let at = (block * 5_242_879 + 4_999) % (SPARSE_BYTES / 4096) * 4096;
                    file.write_all_at(&[block as u8 | 1; 4096], at)?;
                }
                file.sync_all()?;
            }
        }
        "tiny-one" => {
            for path in &case.files {
                fs::write(path, "the same few words\n")?;
            }
        }
        "listed-one" => {
            make_file(one, 16 << 20)?;
            let inverted: Vec<u8> = fs::read(one)?.iter().map(|byte| !byte).collect();
            fs::write(other, inverted)?;
        }
        _ => {
            make_file(one, large_bytes)?;
            // Not a clone: the same bytes on the device twice.
            let mut source = File::open(one)?;
            let mut copy = File::create_new(other)?;
            std::io::Write::flush(&mut copy)?;
            let mut block = vec![0; 1 << 20];
            loop {
                check_interrupt()?;
                match std::io::Read::read(&mut source, &mut block)? {
                    0 => break,
                    read => std::io::Write::write_all(&mut copy, &block[..read])?,
                }
            }
            if name == "early-one" {
                let mut byte = [0];
                copy.sync_all()?;
                source.read_exact_at(&mut byte, 100)?;
                copy.write_all_at(&[!byte[0]], 100)?;
            }
            copy.sync_all()?;
        }
    }
    Ok(())
}

/// The seconds of ours and of each peer, round by round, in an order that turns.
fn measure(case: &Case, ours: &Path, rounds: u16) -> Result<Vec<Vec<f64>>> {
    let mut seconds = vec![Vec::new(); case.peers.len() + 1];
    for round in 0..usize::from(rounds) {
        for turn in 0..seconds.len() {
            let index = (round + turn) % seconds.len();
            // Nothing changes a tiny file's state between two of many rounds.
            if let Some(start) = case.start.filter(|_| case.rounds == 0 || round == 0) {
                for file in &case.files {
                    prepare(start, file)?;
                }
            }
            let command = match index {
                0 => {
                    let mut command = Command::new(ours);
                    command.args(case.ours).args(&case.files);
                    command
                }
                _ => command_of(case.peers[index - 1].1, &case.files),
            };
            seconds[index].push(time(command, case)?);
        }
    }
    Ok(seconds)
}

fn command_of(words: &[&str], files: &[PathBuf; 2]) -> Command {
    let mut command = Command::new(words[0]);
    for word in &words[1..] {
        match *word {
            "1" => command.arg(&files[0]),
            "2" => command.arg(&files[1]),
            word => command.arg(word),
        };
    }
    command
}

fn time(mut command: Command, case: &Case) -> Result<f64> {
    check_interrupt()?;
    // GNU's cmp does less where the output goes nowhere.
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let read = child
        .stdout
        .take()
        .map(|mut output| std::io::copy(&mut output, &mut std::io::sink()));
    let status = child.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    let read = read.transpose()?.unwrap_or(0);
    ensure!(
        status.code() == Some(case.code) && (read > 0) == (case.is_listed || (case.code == 1 && read > 0)),
        "{command:?}: {status}, {read} bytes of output"
    );
    Ok(seconds)
}

fn judge(case: &Case, seconds: &[Vec<f64>], table: &mut Table, missed: &mut Vec<String>) {
    let milliseconds = |samples: &[f64]| median(samples).map_or_else(|| "-".to_owned(), |s| format!("{:.2}", s * 1e3));
    table.add_row([case.name, "seekless", &milliseconds(&seconds[0]), "", "", ""]);
    for ((peer, _), samples) in case.peers.iter().zip(&seconds[1..]) {
        let ratios = paired(&seconds[0], samples);
        table.add_row(["", peer, &milliseconds(samples), &in_words(&ratios), "", ""]);
    }
    let of = |peer: &str| {
        let index = case.peers.iter().position(|(name, _)| *name == peer);
        index.map_or(&[] as &[f64], |index| &seconds[index + 1])
    };
    for goal in case.goals {
        let (text, found, most) = match goal {
            Goal::Ratio(peer, most) => (
                format!("{most} x {peer}"),
                median(&paired(&seconds[0], of(peer))),
                *most,
            ),
            Goal::Best(most) => {
                let rounds = 0..seconds[0].len();
                let best = |round: usize| seconds[1..].iter().map(|s| s[round]).fold(f64::INFINITY, f64::min);
                let ratios: Vec<f64> = rounds.map(|round| seconds[0][round] / best(round)).collect();
                (format!("{most} x the best"), median(&ratios), *most)
            }
            Goal::Seconds(most) => (format!("{} ms", most * 1e3), median(&seconds[0]), *most),
            Goal::More(peer, most) => {
                let more = median(&seconds[0])
                    .zip(median(of(peer)))
                    .map(|(ours, theirs)| ours - theirs);
                (format!("{peer} + {} ms", most * 1e3), more, *most)
            }
        };
        let is_kept = found.is_some_and(|found| found <= most);
        let kept = found.map_or("-".to_owned(), |found| {
            format!("{}: {found:.4}", if is_kept { "yes" } else { "**no**" })
        });
        table.add_row(["", "", "", "", &text, &kept]);
        if !is_kept {
            missed.push(format!("{}: {text}", case.name));
        }
    }
}

fn paired(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// What is read from the device until a difference in the first block of two cold files is found.
fn early_bytes(
    directory: &Path,
    ours: &Path,
    large_bytes: u64,
    table: &mut Table,
    missed: &mut Vec<String>,
) -> Result<()> {
    const MOST_BYTES: f64 = 2.0 * 1024.0 * 1024.0;
    let files = [directory.join("early-one"), directory.join("early-other")];
    cases(directory, "early difference, cold", large_bytes)?;
    let mut found = Vec::new();
    for _ in 0..5 {
        for file in &files {
            prepare(Start::Cold, file)?;
        }
        // What a shell waited for counts in its own account.
        let script = r#""$1" -s "$2" "$3"; exec cat /proc/$$/io"#;
        let output = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(ours)
            .args(&files)
            .output()?;
        let account = String::from_utf8_lossy(&output.stdout).into_owned();
        let read = account
            .lines()
            .find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<f64>().ok());
        found.push(read.context("/proc has no account of bytes read")?);
    }
    let bytes = median(&found).context("there are rounds")?;
    tell("early difference, bytes", bytes, MOST_BYTES, "bytes", table, missed);
    Ok(())
}

/// The most memory that comparing takes, warm and cold, as the system counts it.
fn memory(directory: &Path, ours: &Path, large_bytes: u64, table: &mut Table, missed: &mut Vec<String>) -> Result<()> {
    const MOST_KIB: f64 = 64.0 * 1024.0;
    let files = [directory.join("large-one"), directory.join("large-other")];
    cases(directory, "warm -s", large_bytes)?;
    for start in [Start::Warm, Start::Cold] {
        for file in &files {
            prepare(start, file)?;
        }
        let mut child = Command::new(ours).arg("-s").args(&files).spawn()?;
        let (_, most) = peak_kib(&mut child)?;
        let name = if start == Start::Warm {
            "peak memory, warm"
        } else {
            "peak memory, cold"
        };
        tell(name, most, MOST_KIB, "KiB", table, missed);
    }
    Ok(())
}

fn tell(name: &str, found: f64, most: f64, unit: &str, table: &mut Table, missed: &mut Vec<String>) {
    let is_kept = found > 0.0 && found <= most;
    let kept = if is_kept { "yes" } else { "**no**" };
    table.add_row([
        name,
        "seekless",
        "",
        "",
        &format!("{most} {unit}"),
        &format!("{kept}: {found}"),
    ]);
    if !is_kept {
        missed.push(format!("{name}: {most} {unit}"));
    }
}
