//! Runs beside each other on a terminal: the list, what changed from one to another, the ranking across machines.

use std::io::Write;

use anstyle::Style;
use jiff::{Timestamp, Unit};
use seekless::method::format_size;
use seekless_lab::runs::{
    Availability, Change, Comparison, ContestChange, DeviceKind, Document, LIMIT_BYTES, MethodChange, Origin, Place,
    Ranked, Ranking, size_class,
};
use seekless_lab::title;
use seekless_record::{Cache, Contest, Ended, Interval, Run, Target};
use serde_json::{Value, json};

use super::table::{Columns, print_columns};
use super::units::{bytes, rate};
use super::visible::visible;
use super::width::{Width, wrapped};
use super::{BOLD, DIM, GOOD, WARNING};

/// Lists runs, three lines each, and what the store holds.
pub fn list_runs(
    out: &mut dyn Write,
    runs: &[(&Document, Run)],
    documents: &[Document],
    width: Width,
) -> std::io::Result<()> {
    for (document, run) in runs {
        let (style, whose) = match document.origin {
            Origin::Imported => (Style::new(), ", imported"),
            Origin::Own | Origin::File => (BOLD, ""),
        };
        let ended = match run.ended {
            Ended::Complete => "",
            Ended::Interrupted => ", interrupted",
        };
        let id = visible(&document.id);
        writeln!(
            out,
            "{style}{id}{style:#}  {DIM}{}{whose}{ended}{DIM:#}",
            when(&run.started)
        )?;
        writeln!(out, "  {}", wrapped(2, &visible(&what_and_where(run)), width))?;
        writeln!(out, "  {}\n", wrapped(2, &visible(&verdicts(run).join("; ")), width))?;
    }
    let held: u64 = documents.iter().map(|document| document.bytes).sum();
    let imported = runs
        .iter()
        .filter(|(document, _)| document.origin == Origin::Imported)
        .count();
    let others = if imported > 0 {
        format!(", {imported} of them imported")
    } else {
        String::new()
    };
    let count = match runs.len() {
        0 => "No runs yet: `seekless bench` measures one".to_owned(),
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let (held, limit) = (bytes(held as f64), bytes(LIMIT_BYTES as f64));
    writeln!(out, "{DIM}{count}{others}; {held} of at most {limit}{DIM:#}")
}

/// The same for programs.
pub fn runs_json(runs: &[(&Document, Run)]) -> Value {
    let storage = |storage: &seekless_record::Storage| {
        json!({
            "path": storage.path,
            "file_system": storage.file_system,
            "device": storage.device.as_ref().map(|device| &device.name),
            "device_kind": DeviceKind::of(storage),
        })
    };
    let recommended = |contest: &Contest| {
        json!({
            "contest": title(contest),
            "storage": contest.storage,
            "recommended": contest.conclusion.as_ref().and_then(|conclusion| conclusion.recommended.as_ref()),
        })
    };
    let one = |(document, run): &(&Document, Run)| {
        json!({
            "id": document.id,
            "origin": document.origin,
            "file": document.path.to_string_lossy(),
            "bytes": document.bytes,
            "started": run.started,
            "ended": run.ended,
            "experiments": run.experiments,
            "system": run.machine.system,
            "kernel": run.machine.kernel,
            "storages": run.storages.iter().map(storage).collect::<Vec<_>>(),
            "verdicts": run.contests.iter().map(recommended).collect::<Vec<_>>(),
        })
    };
    runs.iter().map(one).collect()
}

/// How long ago a time was, or the day where that is long; the text itself where it is no time.
fn when(started: &str) -> String {
    let Ok(time) = started.parse::<Timestamp>() else {
        return visible(started).into_owned();
    };
    let ago = |minutes: i64| match minutes {
        0 => Some("just now".to_owned()),
        1 => Some("a minute ago".to_owned()),
        2..120 => Some(format!("{minutes} minutes ago")),
        120..2880 => Some(format!("{} hours ago", minutes / 60)),
        2880..43_200 => Some(format!("{} days ago", minutes / 1440)),
        _ => None,
    };
    let minutes = (Timestamp::now() - time).total(Unit::Minute).unwrap_or(-1.0);
    ago(minutes.floor() as i64).unwrap_or_else(|| time.strftime("%Y-%m-%d").to_string())
}

/// What was measured, and on which storages.
fn what_and_where(run: &Run) -> String {
    let storage = |storage: &seekless_record::Storage| {
        let device = storage.device.as_ref().map(|device| format!(" {}", device.name));
        format!(
            "{} on {}{}",
            storage.file_system,
            DeviceKind::of(storage),
            device.unwrap_or_default()
        )
    };
    let storages: Vec<String> = run.storages.iter().map(storage).collect();
    format!(
        "{}: {}; {} {}",
        run.experiments.join(", "),
        storages.join("; "),
        run.machine.system,
        run.machine.kernel
    )
}

/// What was recommended for each operation: that of the largest files, cold before warm.
fn verdicts(run: &Run) -> Vec<String> {
    let mut operations: Vec<&str> = Vec::new();
    for contest in &run.contests {
        if !operations.contains(&contest.operation.as_str()) {
            operations.push(&contest.operation);
        }
    }
    let weight = |contest: &&Contest| (contest.size_bytes, contest.cache == Cache::Cold);
    let verdict = |operation: &str| {
        let contests = run.contests.iter().filter(|contest| contest.operation == operation);
        let contest = contests.rev().max_by_key(weight)?;
        let recommended = contest.conclusion.as_ref()?.recommended.as_deref();
        Some(format!(
            "{operation}: {}",
            recommended.map_or("undecided", without_operation)
        ))
    };
    operations.into_iter().filter_map(verdict).collect()
}

fn without_operation(method: &str) -> &str {
    method.split_once('/').map_or(method, |(_, name)| name)
}

/// A method as tables show it.
fn short(method: &str) -> String {
    visible(&without_operation(method).replacen(',', " ", 1)).into_owned()
}

/// Shows what changed.
pub fn show_comparison(
    out: &mut dyn Write,
    comparison: &Comparison,
    objections: &[String],
    all: bool,
    width: Width,
) -> std::io::Result<()> {
    for objection in objections {
        let text = wrapped(INDENT, &visible(objection), width);
        writeln!(out, "{WARNING}Differs{WARNING:#}  {text}")?;
    }
    for change in &comparison.changed {
        writeln!(out, "Changed  {}", wrapped(INDENT, &visible(change), width))?;
    }
    for caution in &comparison.cautions {
        writeln!(
            out,
            "{WARNING}Note{WARNING:#}     {}",
            wrapped(INDENT, &visible(caution), width)
        )?;
    }
    if !comparison.cautions.is_empty() {
        let advice = "So times and rates of the two are not to be compared as they are. What stands beside the reference \
                      was measured in the same rounds as it, and can be.";
        writeln!(out, "         {}", wrapped(INDENT, advice, width))?;
    }
    for contest in &comparison.contests {
        writeln!(out)?;
        show_change(out, contest, all, width)?;
    }
    for (only, which) in [(&comparison.only_first, "first"), (&comparison.only_second, "second")] {
        if !only.is_empty() {
            let text = format!("Only the {which} measured: {}", visible(&only.join("; ")));
            writeln!(out, "\n{DIM}{}{DIM:#}", wrapped(0, &text, width))?;
        }
    }
    Ok(())
}

/// How far what stands behind a word at the margin is set in.
const INDENT: usize = 9;

fn show_change(out: &mut dyn Write, contest: &ContestChange, all: bool, width: Width) -> std::io::Result<()> {
    let storage = contest
        .storage
        .as_ref()
        .map(|storage| format!(": {}", visible(storage)));
    let title = format!("{}{}", visible(&contest.title), storage.unwrap_or_default());
    let is_shown = |method: &&MethodChange| all || method.change != Change::TooFewRounds;
    let mut shown: Vec<&MethodChange> = contest.methods.iter().filter(is_shown).collect();
    if shown.is_empty() {
        shown = contest.methods.iter().take(FEWEST_ROWS).collect();
    }
    let rows: Vec<Columns> = shown.iter().map(|method| changed_row(method)).collect();
    let heads = ["before", "now", "beside reference", "change"];
    print_columns(out, &title, &heads, &rows, &[0, 1, 2], width)?;
    let hidden = contest.methods.len() - shown.len();
    let mut asides = Vec::new();
    if hidden > 0 {
        asides.push(format!(
            "... {hidden} more, with fewer than 6 rounds (--all shows them)"
        ));
    }
    if let Some(reference) = contest.reference.as_ref().filter(|_| rows.len() > 1) {
        asides.push(format!("the reference is {}", short(reference)));
    }
    asides.extend(told_apart("now measured", &contest.new, "was", all));
    asides.extend(told_apart("no longer measured", &contest.gone, "is", all));
    for aside in asides {
        writeln!(out, "{DIM}  {}{DIM:#}", wrapped(4, &aside, width))?;
    }
    for (word, [before, now]) in [("Recommended", &contest.recommended), ("Fastest", &contest.best)] {
        writeln!(
            out,
            "{}",
            wrapped(0, &before_and_now(word, before.as_deref(), now.as_deref()), width)
        )?;
    }
    Ok(())
}

/// So many rows are shown even where none has enough rounds, and so many reasons.
const FEWEST_ROWS: usize = 4;

fn changed_row(method: &MethodChange) -> Columns {
    let style = match method.change {
        Change::Faster => GOOD,
        Change::Slower => WARNING,
        Change::NoneShown => Style::new(),
        Change::TooFewRounds => DIM,
    };
    Columns {
        name: short(&method.method),
        cells: vec![
            rate(method.bytes_per_second[0]),
            rate(method.bytes_per_second[1]),
            method.beside_reference.as_ref().map_or_else(String::new, beside),
            change_words(method.change, &method.time),
        ],
        style,
    }
}

/// How its time beside the reference's changed.
fn beside(ratio: &Interval) -> String {
    let range = if ratio.coverage.is_some() { "" } else { "~" };
    format!("{range}{:.2}x ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high)
}

fn change_words(change: Change, time: &Interval) -> String {
    let Interval { low, median, high, .. } = time;
    match change {
        Change::Faster => format!("{:.2}x faster ({:.2} to {:.2})", 1.0 / median, 1.0 / high, 1.0 / low),
        Change::Slower => format!("{median:.2}x slower ({low:.2} to {high:.2})"),
        Change::NoneShown => format!("no difference shown ({low:.2} to {high:.2})"),
        Change::TooFewRounds => format!("too few rounds ({low:.2} to {high:.2})"),
    }
}

fn told_apart(what: &str, methods: &[Availability], verb: &str, all: bool) -> Vec<String> {
    let shown = if all { methods.len() } else { FEWEST_ROWS };
    let told = methods.iter().take(shown).map(|one| {
        let why = visible(&one.why).into_owned();
        format!("{what}: {} ({verb} {why})", short(&one.method))
    });
    let mut told: Vec<String> = told.collect();
    if methods.len() > shown {
        told.push(format!("{what}: {} more (--all shows them)", methods.len() - shown));
    }
    told
}

fn before_and_now(word: &str, before: Option<&str>, now: Option<&str>) -> String {
    let name =
        |method: Option<&str>| method.map_or_else(|| "undecided".to_owned(), |method| visible(method).into_owned());
    if before == now {
        format!("{word}: as before, {}", name(now))
    } else {
        format!("{word}: now {}, before {}", name(now), name(before))
    }
}

/// Shows the rankings.
pub fn show_rankings(out: &mut dyn Write, rankings: &[Ranking], all: bool, width: Width) -> std::io::Result<()> {
    for (index, ranking) in rankings.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        show_ranking(out, ranking, all, width)?;
    }
    Ok(())
}

/// So many methods of a ranking are shown.
const BEST_SHOWN: usize = 5;

fn show_ranking(out: &mut dyn Write, ranking: &Ranking, all: bool, width: Width) -> std::io::Result<()> {
    let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let imported = if ranking.imported > 0 {
        format!(" ({} imported)", ranking.imported)
    } else {
        String::new()
    };
    let shown = if all { ranking.methods.len() } else { BEST_SHOWN };
    let row = |method: &Ranked| Columns {
        name: short(&method.method),
        cells: vec![
            format!("{:.2}x", method.ratio),
            if ranking.machines > 1 {
                format!("{:.2} to {:.2}", method.range[0], method.range[1])
            } else {
                String::new()
            },
            method.best_on.to_string(),
            method.machines.to_string(),
        ],
        style: if method.best_on > 0 { GOOD } else { Style::new() },
    };
    let rows: Vec<Columns> = ranking.methods.iter().take(shown).map(row).collect();
    let place = &ranking.place;
    let device = format!("{}, {}, {}", place.device, place.file_system, place.kernel);
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}",
        wrapped(2, &visible(&format!("{}; {device}", place_title(place))), width)
    )?;
    let on = format!(
        "{}, {}{imported}",
        count(ranking.machines, "machine"),
        count(ranking.runs, "run")
    );
    let range = if ranking.machines > 1 { "range" } else { "" };
    print_columns(out, &on, &["time", range, "best on", "machines"], &rows, &[1], width)?;
    if ranking.methods.len() > shown {
        let more = ranking.methods.len() - shown;
        writeln!(out, "{DIM}  ... {more} more (--all shows them){DIM:#}")?;
    }
    Ok(())
}

/// What was measured, as in `read, 1M to 16M, cold`.
fn place_title(place: &Place) -> String {
    let (least, most) = size_class(place.at_least_bytes + 1);
    let size = match (least, most) {
        (0, most) => format!("up to {}", format_size(most)),
        (least, u64::MAX) => format!("more than {}", format_size(least)),
        (least, most) => format!("{} to {}", format_size(least), format_size(most)),
    };
    let state = match (place.cache, place.target) {
        (Cache::Cold, _) => "cold",
        (Cache::Warm, _) => "warm",
        (Cache::Over, _) => "more than the memory allowed",
        (Cache::None, Target::Fresh) => "new file",
        (Cache::None, Target::Overwrite) => "written over",
    };
    let mut words = vec![place.operation.clone(), size, state.to_owned()];
    if place.operation == "read" {
        words.push(place.work.trim_end_matches(", 0 ns/KiB").to_owned());
    } else {
        words.push(place.durability.clone());
        words.extend(place.shared_blocks.then(|| "sharing blocks".to_owned()));
        words.extend(
            place
                .work
                .strip_prefix("none, ")
                .filter(|work| *work != "0 ns/KiB")
                .map(str::to_owned),
        );
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, median: f64, high: f64) -> Interval {
        Interval {
            low,
            median,
            high,
            coverage: Some(0.94),
        }
    }

    #[test]
    fn a_change_is_told_as_a_factor_above_one_with_its_interval() {
        let words = |change, low, median, high| change_words(change, &interval(low, median, high));
        assert_eq!(words(Change::Faster, 0.4, 0.5, 0.8), "2.00x faster (1.25 to 2.50)");
        assert_eq!(words(Change::Slower, 1.1, 1.5, 2.0), "1.50x slower (1.10 to 2.00)");
        assert_eq!(
            words(Change::NoneShown, 0.9, 1.0, 1.1),
            "no difference shown (0.90 to 1.10)"
        );
    }

    #[test]
    fn a_time_that_is_none_is_shown_as_it_is_and_harmless() {
        assert_eq!(when("y\u{1b}[2J"), "y\\u{1b}[2J");
        assert_eq!(when("1999-12-31T23:59:59Z"), "1999-12-31");
        assert_eq!(when(&Timestamp::now().to_string()), "just now");
        assert_eq!(when("9000-01-01T00:00:00Z"), "9000-01-01");
    }

    #[test]
    fn no_line_of_a_comparison_is_wider_than_the_terminal() {
        let run =
            seekless_record::from_json(include_bytes!("../../../record/testdata/full-run.json")).expect("it is one");
        let comparison = seekless_lab::runs::compare(&run, &run).expect("it has itself in common");
        for columns in 66..120 {
            let mut out = Vec::new();
            show_comparison(&mut out, &comparison, &[], true, Width::of(columns)).expect("memory takes it");
            let text = String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).expect("it is text");
            for line in text.lines() {
                assert!(super::super::width::columns_of(line) <= columns, "{columns}: {line}");
            }
        }
    }
}
