//! The ranked tables and sentences of a run as Markdown.

use std::fmt::Write;

use seekless_record::{Interval, Latency, Machine, Run, Status, Storage};
use seekless_results::{
    ContestView, Position, RateStretch, Row, SYSTEM_HEADS, View, Visible, mode_words, rate, rate_in, size,
};

/// The run as a page: machine, storages, a table and a recommendation for each contest, warnings.
///
/// Rates are in units of 1000 bytes; their intervals are computed from those of the seconds.
#[must_use]
pub fn to_markdown(run: &Run) -> String {
    let shown = Visible::of(run);
    let view = View::of(&shown);
    let run = view.run;
    let mut page = format!("# Run {}\n\n", escaped(&run.id));
    let _ = writeln!(page, "- Machine: {}", machine(&run.machine));
    for each in &run.storages {
        let _ = writeln!(page, "- Storage: {}", storage(each));
    }
    let _ = writeln!(page, "- {}", conditions(run));
    list(&mut page, "Which storage is faster", &view.storages);
    for contest in &view.contests {
        section(&mut page, contest);
    }
    list(&mut page, "Sittings", view.sittings.as_slice());
    list(&mut page, "Where the winner changes", &view.crossovers);
    list(&mut page, "Choices", &run.choices);
    list(&mut page, "Warnings", &run.warnings);
    page
}

fn list(page: &mut String, heading: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(page, "\n## {heading}\n\n");
    for item in items {
        let _ = writeln!(page, "- {}", escaped(item));
    }
}

fn machine(machine: &Machine) -> String {
    let memory = machine
        .memory_bytes
        .map(|bytes| format!("{:.0} GiB of memory", bytes as f64 / f64::from(1 << 30)));
    let parts = [
        machine.processor.clone(),
        Some(format!("{} processors ({})", machine.processors, machine.architecture)),
        memory,
        Some(format!("{} {}", machine.system, machine.kernel)),
        machine.hypervisor.as_ref().map(|name| format!("virtual ({name})")),
        machine.governor.as_ref().map(|name| format!("governor {name}")),
    ];
    escaped(&joined(parts))
}

fn storage(storage: &Storage) -> String {
    let device = storage.device.as_ref();
    let parts = [
        Some(storage.path.clone()),
        Some(storage.file_system.clone()),
        device.map(|device| device.name.clone()),
        device.and_then(|device| device.model.clone()),
        device
            .filter(|device| device.is_virtual == Some(true))
            .map(|_| "virtual disk".to_owned()),
    ];
    escaped(&joined(parts))
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn conditions(run: &Run) -> String {
    let percent = |part: Option<f64>, of: &str| part.map(|part| format!("{:.1} % {of}", part * 100.0));
    let noise = [
        percent(run.noise.other_io, "reads by other processes"),
        percent(run.noise.stolen, "steal time"),
        percent(run.noise.others, "processor time of other processes"),
    ];
    let noise = match joined(noise) {
        none if none.is_empty() => none,
        noise => format!("; noise: {noise}"),
    };
    format!(
        "seekless {}, {}, {:.0} s, {}, seed {}, cache dropped by {}{noise}",
        escaped(&run.seekless),
        escaped(&run.started),
        run.elapsed_seconds,
        run.ended.name(),
        run.seed,
        run.drop.name(),
    )
}

fn section(page: &mut String, view: &ContestView<'_>) {
    let contest = view.contest;
    let _ = write!(page, "\n## {}\n\n", escaped(&view.title));
    if !view.rows.is_empty() {
        let is_shown = |of: &Of| match of {
            Of::All => true,
            Of::Rates => contest.updates.is_none(),
            Of::Times => contest.updates.is_some(),
            Of::Requests => contest.random.is_some(),
        };
        let columns: Vec<&Column> = COLUMNS.iter().filter(|(of, ..)| is_shown(of)).collect();
        let heads: Vec<&str> = columns.iter().map(|(_, head, _)| *head).collect();
        let cells = |row| columns.iter().map(|(.., cell)| cell(row)).collect();
        table(page, &heads, view.rows.iter().map(cells));
    }
    if let Some(mode) = contest.mode {
        let _ = writeln!(page, "\n{}", mode_words(mode));
    }
    if let Some(conclusion) = &contest.conclusion {
        let _ = write!(page, "\n**{}**\n", escaped(&conclusion.sentence));
    }
    if let Some(sustained) = &view.sustained {
        page.push('\n');
        let heads = ["written up to", "#rate", "#slowest file"];
        table(page, &heads, sustained.stretches(STRETCHES).iter().map(stretch));
    }
    if let Some(rates) = view.confirmed() {
        let told = |rate: f64| rate_in(contest, rate);
        let (median, low, high) = (told(rates.median), told(rates.low), told(rates.high));
        let bounds = if rates.low < rates.high {
            format!(" ({low} to {high}{})", range(&rates))
        } else {
            String::new()
        };
        let _ = write!(page, "\nMeasured again: {median}{bounds}.\n");
    }
    effects(page, view);
    let without_figures = view.left_out.iter().filter(|(entry, _)| entry.summary.is_none());
    for (index, (entry, why)) in without_figures.enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let _ = writeln!(page, "{before}- {}: {}", escaped(&entry.name()), escaped(why));
    }
    if view.asks_for_system {
        system(page, view);
    }
}

/// The number of lines for the rate of a sustained write.
const STRETCHES: usize = 20;

fn stretch(stretch: &RateStretch) -> Vec<String> {
    let rates = [stretch.bytes_per_second, stretch.slowest_bytes_per_second];
    [size(stretch.to_bytes)].into_iter().chain(rates.map(rate)).collect()
}

/// The contests that have it, its heading (which starts with `#` for figures), and its cell in a row.
type Column = (Of, &'static str, fn(&Row<'_>) -> String);

enum Of {
    All,
    /// All but updates.
    Rates,
    /// Random access, with timed requests.
    Requests,
    /// Updates, for which a rate over the size of the file is meaningless.
    Times,
}

const COLUMNS: [Column; 19] = [
    (Of::All, "method", |row| {
        let planned = row.summary.planned.as_ref().map(|planned| format!(" ({planned})"));
        row.entry.name().into_owned() + &planned.unwrap_or_default()
    }),
    (Of::Rates, "#rate", |row| {
        rate_in(row.contest, row.summary.bytes_per_second)
    }),
    (Of::Rates, "#95 % interval", |Row { contest, summary, .. }| {
        let at = |bound: f64| rate_in(contest, summary.bytes_per_second * summary.seconds.median / bound);
        let Interval { low, high, .. } = summary.seconds;
        format!("{} to {}{}", at(high), at(low), range(&summary.seconds))
    }),
    (Of::All, "#mean ± deviation", |Row { summary, .. }| {
        let deviation = summary
            .deviation_seconds
            .map_or(String::new(), |deviation| format!(" ± {deviation:.4}"));
        format!("{:.4}{deviation} s", summary.mean_seconds)
    }),
    (Of::All, "#p90 time", |row| {
        known(row.summary.p90_seconds, |seconds| format!("{seconds:.4} s"))
    }),
    (Of::Requests, "#p50", |row| latency(row, |latency| latency.p50_ns)),
    (Of::Requests, "#p90", |row| latency(row, |latency| latency.p90_ns)),
    (Of::Requests, "#p99", |row| latency(row, |latency| latency.p99_ns)),
    (Of::Requests, "#p99.9", |row| latency(row, |latency| latency.p99_9_ns)),
    (Of::Requests, "#longest", |row| latency(row, |latency| latency.max_ns)),
    (Of::Times, "#time", |row| format!("{:.4} s", row.summary.seconds.median)),
    (Of::Times, "#95 % interval", |row| {
        let Interval { low, high, .. } = row.summary.seconds;
        format!("{low:.4} to {high:.4} s{}", range(&row.summary.seconds))
    }),
    (Of::Times, "#predicted", |row| {
        known(row.summary.predicted_seconds, |predicted| format!("{predicted:.4} s"))
    }),
    (Of::Times, "#calls", |row| {
        known(row.summary.calls, |calls| format!("{calls:.0}"))
    }),
    (Of::Times, "#write amplification", |row| {
        known(row.summary.amplification, |times| format!("{times:.1}"))
    }),
    (Of::All, "#fsync", |row| format!("{:.4} s", row.summary.fsync_seconds)),
    (Of::All, "#CPU", |Row { summary, .. }| {
        format!("{:.0} %", summary.cpu_seconds / summary.seconds.median * 100.0)
    }),
    (Of::All, "#rounds", |row| row.summary.rounds.to_string()),
    (Of::All, "verdict", verdict),
];

fn latency(row: &Row<'_>, nanoseconds: fn(Latency) -> u64) -> String {
    let latency = row.summary.latency.map(nanoseconds);
    known(latency.map(|ns| ns as f64), |ns| format!("{:.1} µs", ns / 1e3))
}

fn known(figure: Option<f64>, text: fn(f64) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), text)
}

fn table<H: AsRef<str>>(page: &mut String, heads: &[H], rows: impl Iterator<Item = Vec<String>>) {
    let heads = || heads.iter().map(AsRef::as_ref);
    let names: Vec<&str> = heads().map(|head| head.trim_start_matches('#')).collect();
    let rules = heads().map(|head| if head.starts_with('#') { "---:|" } else { "---|" });
    let _ = writeln!(page, "| {} |\n|{}", names.join(" | "), rules.collect::<String>());
    for cells in rows {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

/// The figures of the whole system for each entry.
fn system(page: &mut String, view: &ContestView<'_>) {
    if view.system.is_empty() {
        return;
    }
    let mut heads = vec!["the whole system".to_owned()];
    heads.extend(SYSTEM_HEADS.iter().map(|head| format!("#{head}")));
    let rows = view.system.iter().map(|row| {
        let name = match &row.published {
            Some(source) => format!("{source}, {}", row.method),
            None => row.method.clone(),
        };
        std::iter::once(name).chain(row.cells.iter().cloned()).collect()
    });
    page.push('\n');
    table(page, &heads, rows);
}

/// A remark if an interval is only the range of few samples.
fn range(interval: &Interval) -> &'static str {
    if interval.coverage.is_some() { "" } else { ", the range" }
}

fn verdict(row: &Row<'_>) -> String {
    let verdict = match row.position {
        Position::Best => "best".to_owned(),
        Position::Leading => "leads".to_owned(),
        Position::Tie => "tie".to_owned(),
        Position::Open => "undecided".to_owned(),
        Position::Slower(ratio) => format!("{:.2}x slower ({})", ratio.median, bounds(&ratio)),
        Position::Failed => "failed".to_owned(),
        Position::Unranked => "unranked".to_owned(),
    };
    match &row.entry.status {
        Status::Dropped(_) => format!("{verdict}, dropped"),
        Status::Failed(why) => format!("{verdict}: {why}"),
        _ => verdict,
    }
}

fn bounds(ratio: &Interval) -> String {
    format!("{:.2} to {:.2}{}", ratio.low, ratio.high, range(ratio))
}

fn effects(page: &mut String, view: &ContestView<'_>) {
    let conclusion = view.contest.conclusion.iter();
    let mut effects = conclusion.flat_map(|conclusion| &conclusion.effects).peekable();
    if effects.peek().is_none() {
        return;
    }
    let rows = effects.map(|effect| {
        vec![
            effect.option.clone(),
            effect.without.clone(),
            format!("{:.2}x ({})", effect.ratio.median, bounds(&effect.ratio)),
            format!("{:+.4} s", effect.cpu_seconds_difference),
        ]
    });
    page.push('\n');
    table(page, &["option", "added to", "#its time becomes", "#CPU"], rows);
}

/// Escapes a line of text, so that nothing in it is Markdown or HTML.
fn escaped(text: &str) -> String {
    let backslash = |character: char| r"|*_`[]<>\".contains(character).then_some('\\');
    text.chars()
        .flat_map(|character| backslash(character).into_iter().chain([character]))
        .collect()
}

#[cfg(test)]
mod tests {
    use seekless_results::ranking::conclude_all;
    use seekless_results::simulation;

    use super::*;

    fn concluded(methods: &[(&str, f64)], rounds: u32) -> Run {
        let mut run = simulation::run(methods, rounds);
        conclude_all(&mut run);
        run
    }

    #[test]
    fn the_table_is_ranked_and_the_sentence_follows() {
        let page = to_markdown(&concluded(&[("read/mmap", 0.2), ("read/sync,block=128K", 0.1)], 6));
        let best = page
            .find("| read/sync,block=128K | 671 MB/s | 671 MB/s to 671 MB/s | 0.1000 ± 0.0000 s |")
            .unwrap();
        let slower = page.find("2.00x slower (2.00 to 2.00)").unwrap();
        let sentence = page.find("**Use read/sync,block=128K: the best").unwrap();
        assert!(best < slower && slower < sentence, "{page}");
    }

    #[test]
    fn few_rounds_show_a_range_and_what_was_not_measured_its_reason() {
        let mut run = concluded(&[("read/mmap", 0.2), ("read/sync,block=128K", 0.1)], 3);
        run.contests[0].entries[0].status = Status::Unavailable("a | in\nthe <reason>".to_owned());
        run.contests[0].entries[0].summary = None;
        let page = to_markdown(&run);
        assert!(page.contains("671 MB/s to 671 MB/s, the range"), "{page}");
        assert!(
            page.contains("- read/mmap: not available: a \\| in\\\\nthe \\<reason\\>"),
            "{page}"
        );
        assert!(page.contains("Undecided: 3 rounds are too few"), "{page}");
    }

    #[test]
    fn an_update_shows_its_time_what_was_predicted_and_what_was_written() {
        let run = seekless_record::from_json(simulation::FULL.as_bytes()).unwrap();
        let page = to_markdown(&run);
        let planned = page.lines().find(|line| line.starts_with("| update/planned")).unwrap();
        assert!(
            planned.contains("(update/sync,block=8M,write-through,gap=512)"),
            "{planned}"
        );
        assert!(
            planned.contains(" | 0.0060 s | ") && planned.contains(" | 100.0 | "),
            "{planned}"
        );
    }

    #[test]
    fn a_run_without_anything_is_a_page() {
        let mut run = simulation::run(&[], 0);
        run.contests.clear();
        assert!(to_markdown(&run).starts_with("# Run"));
    }
}
