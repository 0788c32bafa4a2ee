//! A run on a terminal: the machine and the storages, a ranked table for each contest, and what follows.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use seekless::method::format_size;
use seekless_record::{Contest, Ended, Entry, Run, Status, Storage};
use seekless_results::{ContestView, Position, View, Visible, rate, short_name};

use super::contest::{cut, show_contest, speed, verdict};
use super::system::show_system;
use super::table::{Across, print_across};
use super::units::seconds;
use super::width::{Width, wrapped};
use super::{BOLD, DIM, WARNING};

/// Shows a run; `all` shows what was dropped and what is not to be had, too.
pub fn show_run(out: &mut dyn Write, run: &Run, all: bool, width: Width) -> std::io::Result<()> {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let run = view.run;
    for storage in &run.storages {
        let line = wrapped(INDENT, &storage_line(storage), width);
        writeln!(out, "{BOLD}Storage{BOLD:#}  {line}")?;
    }
    writeln!(
        out,
        "{BOLD}Machine{BOLD:#}  {}",
        wrapped(INDENT, &machine_line(run), width)
    )?;
    writeln!(out, "{DIM}Lab      {}{DIM:#}", wrapped(INDENT, &lab_line(run), width))?;
    let mut groups = HashMap::<_, Vec<&ContestView<'_>>>::new();
    for contest in &view.contests {
        let group = groups.entry((&contest.contest.experiment, &contest.name));
        group.or_default().push(contest);
    }
    let left = run.contests.iter().filter(|contest| has_had_no_turn(contest)).count();
    for contest in view.contests.iter().filter(|contest| !has_had_no_turn(contest.contest)) {
        // With the first of a group all of it is shown.
        if let Some(same) = groups.remove(&(&contest.contest.experiment, &contest.name)) {
            show_group(out, run, &same, all, width)?;
        }
    }
    for sentence in &view.crossovers {
        writeln!(out, "\n{}", wrapped(0, sentence, width))?;
    }
    if run.ended == Ended::Interrupted {
        writeln!(
            out,
            "\n{WARNING}Interrupted:{WARNING:#} what was measured until then is shown and saved."
        )?;
    }
    if left > 0 {
        let sentence = format!(
            "{left} of {} contests have not had their turn: `seekless bench --resume {}` goes on.",
            run.contests.len(),
            run.id
        );
        writeln!(out, "\n{BOLD}Left{BOLD:#}     {}", wrapped(INDENT, &sentence, width))?;
    }
    if !run.choices.is_empty() || !run.warnings.is_empty() {
        writeln!(out)?;
    }
    for choice in &run.choices {
        writeln!(out, "{DIM}Chosen   {}{DIM:#}", wrapped(INDENT, choice, width))?;
    }
    for warning in &run.warnings {
        writeln!(out, "{WARNING}Note{WARNING:#}     {}", wrapped(INDENT, warning, width))?;
    }
    Ok(())
}

/// Whether the run ended before anything of a contest was measured.
fn has_had_no_turn(contest: &Contest) -> bool {
    let waits = |entry: &Entry| matches!(entry.status, Status::Unmeasured(_));
    let is_missing = |entry: &Entry| matches!(entry.status, Status::Unavailable(_));
    let mut entries = contest.entries.iter();
    entries.clone().any(waits) && entries.all(|entry| waits(entry) || is_missing(entry))
}

/// How far what stands behind a word at the margin is set in.
const INDENT: usize = 9;

/// The contests of one description on all storages: side by side, or one after the other.
fn show_group(
    out: &mut dyn Write,
    run: &Run,
    group: &[&ContestView<'_>],
    all: bool,
    width: Width,
) -> std::io::Result<()> {
    if let [first, _, ..] = group {
        let mut table = Vec::new();
        if show_side_by_side(&mut table, run, group, all, width)? {
            writeln!(out, "\n{BOLD}{}{BOLD:#}", first.name)?;
            out.write_all(&table)?;
            for contest in group.iter().filter(|contest| all || contest.asks_for_system) {
                writeln!(out, "{DIM}{}{DIM:#}", run.storages[contest.contest.storage].path)?;
                show_system(out, contest, width)?;
            }
            return Ok(());
        }
    }
    for contest in group {
        writeln!(out)?;
        show_contest(out, contest, all, width)?;
        if all || contest.asks_for_system {
            show_system(out, contest, width)?;
        }
    }
    Ok(())
}

fn storage_line(storage: &Storage) -> String {
    let mut words = vec![storage.file_system.clone()];
    if let Some(device) = &storage.device {
        words.insert(0, device.name.clone());
        if !device.below.is_empty() {
            words.push(format!("on {}", device.below.join(", ")));
        }
        if device.is_virtual == Some(true) {
            words.push("virtual disk".to_owned());
        }
        words.extend(device.model.clone());
    }
    let rotates = storage.device.as_ref().and_then(|device| device.claims_rotational);
    let seeks = storage.alternating_ns.map(|ns| {
        if ns < FLAT_NS {
            "a random read costs no more than the next: flat".to_owned()
        } else {
            format!("a random read costs {} more than the next", seconds(ns / 1e9))
        }
    });
    let claim = rotates.map(|rotates| {
        if rotates {
            "claims to rotate"
        } else {
            "claims not to rotate"
        }
        .to_owned()
    });
    let facts: Vec<String> = claim.into_iter().chain(seeks).collect();
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join("; "))
    };
    format!("{}: {}{facts}", storage.path, words.join(", "))
}

/// Below this, reading elsewhere costs about as much as reading on.
const FLAT_NS: f64 = 50_000.0;

fn machine_line(run: &Run) -> String {
    let machine = &run.machine;
    let memory = machine
        .memory_bytes
        .map(|memory| format!("{:.0} GiB", memory as f64 / f64::from(1 << 30)));
    let mut words = vec![format!(
        "{} {}",
        machine.processors,
        if machine.processors == 1 { "core" } else { "cores" }
    )];
    words.extend(memory);
    let caches = machine.level_1_cache_bytes.zip(machine.level_2_cache_bytes);
    words.extend(caches.map(|(one, two)| format!("caches of {} and {}", format_size(one), format_size(two))));
    words.push(format!("{} {}", machine.system, machine.kernel));
    let percent = |name: &str, part: Option<f64>| part.map(|part| format!("{:.1} % {name}", part * 100.0));
    let noise = [
        percent("other reads", run.noise.other_io),
        percent("stolen", run.noise.stolen),
    ];
    let noise: Vec<String> = noise.into_iter().flatten().collect();
    format!("{}; noise: {}", words.join(", "), noise.join(", "))
}

/// What measuring itself costs, and how fast the bytes of write trials are made.
fn lab_line(run: &Run) -> String {
    let cost = &run.lab_cost;
    let null = median(&cost.null_seconds).map(|null| format!("a trial that does nothing takes {}", seconds(null)));
    let producer = cost
        .producer_bytes_per_second
        .map(|speed| format!("test data is made at {}", rate(speed)));
    let touches = cost
        .first_touch_bytes_per_second
        .zip(cost.second_touch_bytes_per_second);
    let touches =
        touches.map(|(first, second)| format!("memory is touched first at {}, again at {}", rate(first), rate(second)));
    null.into_iter()
        .chain(producer)
        .chain(touches)
        .collect::<Vec<_>>()
        .join("; ")
}

fn median(samples: &[f64]) -> Option<f64> {
    seekless_results::statistics::median(samples)
}

/// One contest on several storages: a column of rates and verdicts for each. Tells whether there was room for it.
fn show_side_by_side(
    out: &mut dyn Write,
    run: &Run,
    contests: &[&ContestView<'_>],
    all: bool,
    width: Width,
) -> std::io::Result<bool> {
    let paths: Vec<&str> = contests
        .iter()
        .map(|contest| run.storages[contest.contest.storage].path.as_str())
        .collect();
    let heads: Vec<String> = paths.iter().map(|path| tail(path, LONGEST_HEAD)).collect();
    let mut methods = Vec::new();
    for row in contests.iter().flat_map(|contest| cut(&contest.rows, all)) {
        if !methods.contains(&row.entry.name()) {
            methods.push(row.entry.name());
        }
    }
    let cell = |contest: &ContestView<'_>, method: &str| {
        let row = contest.rows.iter().find(|row| row.entry.name() == method);
        let position = contest.entry(method).map_or(Position::Unranked, Position::of);
        (row.map_or_else(|| "-".to_owned(), speed), verdict(position))
    };
    let rows: Vec<Across> = methods
        .iter()
        .map(|method| Across {
            name: short_name(method, contests[0].contest),
            cells: contests.iter().map(|contest| cell(contest, method)).collect(),
        })
        .collect();
    if !print_across(out, &heads, &rows, width)? {
        return Ok(false);
    }
    for (contest, path) in contests.iter().zip(&paths) {
        if let Some(conclusion) = &contest.contest.conclusion {
            let sentence = wrapped(0, &format!("{path}: {}", conclusion.sentence), width);
            writeln!(out, "{sentence}")?;
        }
        if contest.rows.is_empty() {
            show_reasons(out, contest.contest, width)?;
        }
    }
    Ok(true)
}

/// Why nothing was measured on a storage, each reason once.
fn show_reasons(out: &mut dyn Write, contest: &Contest, width: Width) -> std::io::Result<()> {
    let reasons: BTreeSet<&str> = contest
        .entries
        .iter()
        .filter_map(|entry| match &entry.status {
            Status::Unavailable(why) | Status::Unmeasured(why) | Status::Failed(why) => Some(why.as_str()),
            Status::Measured | Status::Dropped(_) => None,
        })
        .collect();
    for reason in reasons {
        writeln!(out, "{DIM}  {}{DIM:#}", wrapped(2, reason, width))?;
    }
    Ok(())
}

/// The longest name of a storage above its column.
const LONGEST_HEAD: usize = 20;

/// The end of a path that is too long.
fn tail(path: &str, longest: usize) -> String {
    let count = path.chars().count();
    if count <= longest {
        return path.to_owned();
    }
    format!("…{}", path.chars().skip(count - longest + 1).collect::<String>())
}
