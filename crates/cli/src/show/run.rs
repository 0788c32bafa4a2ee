//! A run on a terminal: the machine and the storages, a ranked table for each contest, and what follows.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use seekless_lab::{ranking, title};
use seekless_record::{Conclusion, Contest, Ended, Entry, Interval, Run, Status, Storage, Summary, Verdict};

use super::units::{bar, rate, seconds};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// How many characters the longest bar has.
const BAR_WIDTH: usize = 16;
/// So many rows are shown even where most were dropped.
const FEWEST_ROWS: usize = 6;

/// Shows a run; `all` shows what was dropped and what is not to be had, too.
pub fn show_run(out: &mut dyn Write, run: &Run, all: bool) -> std::io::Result<()> {
    for storage in &run.storages {
        writeln!(out, "{BOLD}Storage{BOLD:#}  {}", storage_line(storage))?;
    }
    writeln!(out, "{BOLD}Machine{BOLD:#}  {}", machine_line(run))?;
    let mut shown = Vec::new();
    for (index, contest) in run.contests.iter().enumerate() {
        if shown.contains(&index) {
            continue;
        }
        let same: Vec<usize> = (index..run.contests.len())
            .filter(|&other| {
                run.contests[other].experiment == contest.experiment && title(&run.contests[other]) == title(contest)
            })
            .collect();
        writeln!(out)?;
        if let [only] = same.as_slice() {
            show_contest(out, run, &run.contests[*only], all)?;
        } else {
            show_side_by_side(out, run, &same, all)?;
        }
        shown.extend(same);
    }
    for sentence in ranking::crossovers(run) {
        writeln!(out, "\n{sentence}")?;
    }
    if run.ended == Ended::Interrupted {
        writeln!(
            out,
            "\n{WARNING}Interrupted:{WARNING:#} what was measured until then is shown and saved."
        )?;
    }
    if !run.choices.is_empty() || !run.warnings.is_empty() {
        writeln!(out)?;
    }
    for choice in &run.choices {
        writeln!(out, "{DIM}Chosen   {choice}{DIM:#}")?;
    }
    for warning in &run.warnings {
        writeln!(out, "{WARNING}Note{WARNING:#}     {warning}")?;
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
    words.push(format!("{} {}", machine.system, machine.kernel));
    let percent = |name: &str, part: Option<f64>| part.map(|part| format!("{:.1} % {name}", part * 100.0));
    let noise = [
        percent("other reads", run.noise.other_io),
        percent("stolen", run.noise.stolen),
    ];
    let noise: Vec<String> = noise.into_iter().flatten().collect();
    let null = median(&run.lab_cost.null_seconds).map(|null| format!("; the clock costs {}", seconds(null)));
    format!(
        "{}; noise: {}{}",
        words.join(", "),
        noise.join(", "),
        null.unwrap_or_default()
    )
}

fn median(samples: &[f64]) -> Option<f64> {
    seekless_lab::statistics::median(samples)
}

/// What has figures, ranked by them, the dropped last.
fn ranked(contest: &Contest) -> Vec<(&Entry, &Summary)> {
    let mut rows: Vec<_> = contest
        .entries
        .iter()
        .filter_map(|entry| Some((entry, entry.summary.as_ref()?)))
        .collect();
    rows.sort_by(|(a, one), (b, other)| {
        let by_ratio = |entry: &Entry, summary: &Summary| {
            entry
                .standing
                .as_ref()
                .map_or(summary.seconds.median, |standing| standing.ratio.median)
        };
        is_dropped(a)
            .cmp(&is_dropped(b))
            .then(by_ratio(a, one).total_cmp(&by_ratio(b, other)))
    });
    rows
}

fn is_dropped(entry: &Entry) -> bool {
    !matches!(entry.status, Status::Measured)
}

/// How many rows are shown, and how many are not.
fn cut(rows: &[(&Entry, &Summary)], all: bool) -> usize {
    let standing = rows.iter().filter(|(entry, _)| !is_dropped(entry)).count();
    if all {
        rows.len()
    } else {
        standing.max(FEWEST_ROWS).min(rows.len())
    }
}

fn show_contest(out: &mut dyn Write, run: &Run, contest: &Contest, all: bool) -> std::io::Result<()> {
    let place = if run.storages.len() > 1 {
        format!("  {}", run.storages[contest.storage].path)
    } else {
        String::new()
    };
    writeln!(out, "{BOLD}{}{BOLD:#}{place}", title(contest))?;
    let rows = ranked(contest);
    let shown = cut(&rows, all);
    let best = rows
        .iter()
        .map(|(_, summary)| summary.bytes_per_second)
        .fold(0.0, f64::max);
    let syncs = rows.iter().any(|(_, summary)| summary.fsync_seconds > 0.0);
    let mut table = columns(&if syncs {
        vec!["", "", "", "95 %", "cpu", "fsync", "rounds", ""]
    } else {
        vec!["", "", "", "95 %", "cpu", "rounds", ""]
    });
    for (entry, summary) in &rows[..shown] {
        let mut cells = vec![
            format!("  {}", short_name(&entry.method)),
            rate(summary.bytes_per_second),
            bar(summary.bytes_per_second / best, BAR_WIDTH),
            spread(&summary.seconds),
            format!("{:.0} %", 100.0 * summary.cpu_seconds / summary.seconds.median),
        ];
        if syncs {
            cells.push(format!(
                "{:.0} %",
                100.0 * summary.fsync_seconds / summary.seconds.median
            ));
        }
        cells.extend([summary.rounds.to_string(), verdict(entry)]);
        table.add_row(cells);
    }
    let styles: Vec<Style> = rows[..shown].iter().map(|(entry, _)| style_of(entry)).collect();
    print_table(out, &table, if rows.is_empty() { None } else { Some(&styles) })?;
    show_rest(out, contest, rows.len() - shown, all)?;
    show_conclusion(out, contest.conclusion.as_ref(), all)
}

/// A table without lines, its first column left, the others right aligned; bars and verdicts left.
fn columns(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for (index, column) in table.column_iter_mut().enumerate() {
        let left = index == 0 || index == 2 || index + 1 == header.len();
        column.set_cell_alignment(if left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
        column.set_padding((0, 2));
    }
    table
}

fn print_table(out: &mut dyn Write, table: &Table, styles: Option<&[Style]>) -> std::io::Result<()> {
    let Some(styles) = styles else { return Ok(()) };
    let mut lines = table.lines();
    if let Some(header) = lines.next() {
        writeln!(out, "{DIM}{}{DIM:#}", header.trim_end())?;
    }
    for (line, style) in lines.zip(styles) {
        writeln!(out, "{style}{}{style:#}", line.trim_end())?;
    }
    Ok(())
}

/// The method without its operation, which the heading names.
fn short_name(method: &str) -> String {
    let name = method.split_once('/').map_or(method, |(_, name)| name);
    name.replacen(',', " ", 1)
}

/// Half the interval's width, in per cent of its median; the range where there is no interval yet.
fn spread(interval: &Interval) -> String {
    let half = 50.0 * (interval.high - interval.low) / interval.median;
    if interval.coverage.is_some() {
        format!("±{half:.0} %")
    } else {
        format!("~{half:.0} %")
    }
}

fn verdict(entry: &Entry) -> String {
    let Some(standing) = &entry.standing else {
        return String::new();
    };
    match (standing.verdict, &entry.status) {
        (_, Status::Failed(why)) => format!("failed: {why}"),
        (Verdict::Best, _) => "best".to_owned(),
        (Verdict::Tie, Status::Measured) => "tie".to_owned(),
        (Verdict::Slower, Status::Measured) => format!("{:.2}x", standing.ratio.median),
        _ => format!("{:.2}x, dropped", standing.ratio.median),
    }
}

fn style_of(entry: &Entry) -> Style {
    match entry.standing.as_ref().map(|standing| standing.verdict) {
        Some(Verdict::Best) => GOOD.bold(),
        Some(Verdict::Tie) if entry.status == Status::Measured => GOOD,
        _ if is_dropped(entry) => DIM,
        _ => Style::new(),
    }
}

/// What is not in the table, and why.
fn show_rest(out: &mut dyn Write, contest: &Contest, hidden: usize, all: bool) -> std::io::Result<()> {
    if hidden > 0 {
        writeln!(
            out,
            "{DIM}  ... {hidden} more, clearly beaten (--all shows them){DIM:#}"
        )?;
    }
    for entry in &contest.entries {
        if let (Status::Failed(why), None) = (&entry.status, &entry.standing) {
            writeln!(out, "{WARNING}  {} failed: {why}{WARNING:#}", short_name(&entry.method))?;
        }
    }
    let unavailable = |entry: &&Entry| matches!(entry.status, Status::Unavailable(_) | Status::Unmeasured(_));
    let missing: Vec<&Entry> = contest.entries.iter().filter(unavailable).collect();
    if all || missing.len() == contest.entries.len() {
        for entry in missing {
            let (Status::Unavailable(why) | Status::Unmeasured(why)) = &entry.status else {
                continue;
            };
            writeln!(out, "{DIM}  {}: {why}{DIM:#}", short_name(&entry.method))?;
        }
    } else if !missing.is_empty() {
        writeln!(
            out,
            "{DIM}  {} not measured here (--all says why){DIM:#}",
            missing.len()
        )?;
    }
    Ok(())
}

fn show_conclusion(out: &mut dyn Write, conclusion: Option<&Conclusion>, all: bool) -> std::io::Result<()> {
    let Some(conclusion) = conclusion else { return Ok(()) };
    writeln!(out, "{}", conclusion.sentence)?;
    let both = conclusion
        .best_synchronous
        .as_ref()
        .zip(conclusion.best_overlapping.as_ref());
    if let Some((synchronous, overlapping)) = both {
        writeln!(
            out,
            "{DIM}  best synchronous {}; best overlapping {}{DIM:#}",
            short_name(synchronous),
            short_name(overlapping)
        )?;
    }
    if let Some(confirmed) = &conclusion.confirmed_bytes_per_second {
        let (low, high) = (rate(confirmed.low), rate(confirmed.high));
        writeln!(
            out,
            "{DIM}  measured again: {} ({low} to {high}){DIM:#}",
            rate(confirmed.median)
        )?;
    }
    for effect in &conclusion.effects {
        if let Some(words) = effect_words(&effect.ratio, all) {
            writeln!(
                out,
                "{DIM}  {} beside {}: {words}{DIM:#}",
                effect.option,
                short_name(&effect.without)
            )?;
        }
    }
    Ok(())
}

/// What an option did on its own; `None` where nothing is known to be worth a line.
fn effect_words(ratio: &Interval, all: bool) -> Option<String> {
    let range = format!("({:.2} to {:.2} x the time)", ratio.low, ratio.high);
    if ratio.high < 1.0 {
        return Some(format!("gains {:.0} % {range}", 100.0 * (1.0 - ratio.median)));
    }
    if ratio.low > 1.0 {
        return Some(format!("costs {:.0} % {range}", 100.0 * (ratio.median - 1.0)));
    }
    all.then(|| format!("no difference to be seen {range}"))
}

/// One contest on several storages: a column of rates and verdicts for each.
fn show_side_by_side(out: &mut dyn Write, run: &Run, contests: &[usize], all: bool) -> std::io::Result<()> {
    let contests: Vec<&Contest> = contests.iter().map(|&contest| &run.contests[contest]).collect();
    let Some(first) = contests.first() else { return Ok(()) };
    writeln!(out, "{BOLD}{}{BOLD:#}", title(first))?;
    let names: Vec<String> = contests
        .iter()
        .map(|contest| run.storages[contest.storage].path.clone())
        .collect();
    let mut header = vec![""];
    header.extend(names.iter().flat_map(|name| [name.as_str(), ""]));
    let mut table = columns(&header);
    for (index, column) in table.column_iter_mut().enumerate() {
        let right = index % 2 == 1;
        column.set_cell_alignment(if right {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
    }
    let mut methods: Vec<&str> = Vec::new();
    for (entry, _) in contests.iter().flat_map(|contest| {
        let rows = ranked(contest);
        let shown = cut(&rows, all);
        rows.into_iter().take(shown).collect::<Vec<_>>()
    }) {
        if !methods.contains(&entry.method.as_str()) {
            methods.push(&entry.method);
        }
    }
    for method in &methods {
        let mut cells = vec![format!("  {}", short_name(method))];
        for contest in &contests {
            let entry = contest.entries.iter().find(|entry| entry.method == *method);
            let summary = entry.and_then(|entry| entry.summary.as_ref());
            cells.push(summary.map_or_else(|| "-".to_owned(), |summary| rate(summary.bytes_per_second)));
            cells.push(entry.map_or_else(String::new, verdict));
        }
        table.add_row(cells);
    }
    print_table(out, &table, Some(&vec![Style::new(); methods.len()]))?;
    for (contest, name) in contests.iter().zip(&names) {
        if let Some(conclusion) = &contest.conclusion {
            writeln!(out, "{BOLD}{name}{BOLD:#}: {}", conclusion.sentence)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_told_from_a_range() {
        let interval = Interval {
            low: 0.9,
            median: 1.0,
            high: 1.1,
            coverage: Some(0.97),
        };
        assert_eq!(spread(&interval), "±10 %");
        assert_eq!(
            spread(&Interval {
                coverage: None,
                ..interval
            }),
            "~10 %"
        );
    }

    #[test]
    fn an_option_is_said_to_gain_only_where_its_interval_does() {
        let ratio = |low, median, high| Interval {
            low,
            median,
            high,
            coverage: Some(0.97),
        };
        assert!(
            effect_words(&ratio(0.8, 0.9, 0.95), false)
                .unwrap()
                .starts_with("gains 10 %")
        );
        assert!(
            effect_words(&ratio(1.05, 1.2, 1.3), false)
                .unwrap()
                .starts_with("costs 20 %")
        );
        assert_eq!(effect_words(&ratio(0.9, 1.0, 1.1), false), None);
    }
}
