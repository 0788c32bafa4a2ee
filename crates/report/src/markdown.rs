//! The ranked tables and the sentences of a run as Markdown, for an issue or a page.

use std::fmt::Write;

use seekless_record::{Contest, Entry, Interval, Machine, Run, Status, Storage, Summary, Verdict};
use seekless_results::ranking::crossovers;
use seekless_results::{SYSTEM_HEADS, asks_for_system, mode_words, system_rows, title};

use super::word;

/// The run as a page: machine, storages, a table and a recommendation for each contest, warnings.
///
/// Rates are in units of 1000 bytes; their intervals are those of the seconds, turned round.
#[must_use]
pub fn to_markdown(run: &Run) -> String {
    let mut page = format!("# Run {}\n\n", escaped(&run.id));
    line(&mut page, &format!("- Machine: {}", machine(&run.machine)));
    for each in &run.storages {
        line(&mut page, &format!("- Storage: {}", storage(each)));
    }
    line(&mut page, &format!("- {}", conditions(run)));
    for (index, contest) in run.contests.iter().enumerate() {
        section(&mut page, run, contest);
        if asks_for_system(run, contest) {
            system(&mut page, run, index);
        }
    }
    list(&mut page, "Where the winner changes", &crossovers(run));
    list(&mut page, "Choices", &run.choices);
    list(&mut page, "Warnings", &run.warnings);
    page
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

fn list(page: &mut String, heading: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(page, "\n## {heading}\n\n");
    for item in items {
        line(page, &format!("- {}", escaped(item)));
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
    escaped(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
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
    escaped(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn conditions(run: &Run) -> String {
    let ended = match run.ended {
        seekless_record::Ended::Complete => "complete",
        seekless_record::Ended::Interrupted => "interrupted",
    };
    let noise = [
        run.noise
            .other_io
            .map(|part| format!("{:.1} % other I/O", part * 100.0)),
        run.noise.stolen.map(|part| format!("{:.1} % stolen", part * 100.0)),
    ];
    let noise: Vec<String> = noise.into_iter().flatten().collect();
    let noise = if noise.is_empty() {
        String::new()
    } else {
        format!("; noise: {}", noise.join(", "))
    };
    format!(
        "seekless {}, {}, {:.0} s, {ended}, seed {}, cache dropped by {}{noise}",
        escaped(&run.seekless),
        escaped(&run.started),
        run.elapsed_seconds,
        run.seed,
        escaped(&run.drop),
    )
}

fn section(page: &mut String, run: &Run, contest: &Contest) {
    let place = match run.storages.get(contest.storage) {
        Some(storage) if run.storages.len() > 1 => format!(" ({})", storage.path),
        _ => String::new(),
    };
    let _ = write!(page, "\n## {}\n\n", escaped(&format!("{}{place}", title(contest))));
    let mut ranked: Vec<(&Entry, &Summary)> = contest
        .entries
        .iter()
        .filter_map(|entry| Some((entry, entry.summary.as_ref()?)))
        .collect();
    ranked.sort_by(|a, b| a.1.seconds.median.total_cmp(&b.1.seconds.median));
    if !ranked.is_empty() {
        if contest.updates.is_some() {
            update_table(page, &ranked);
        } else {
            table(page, &ranked);
        }
    }
    if let Some(mode) = contest.mode {
        let _ = writeln!(page, "\n{}", mode_words(mode));
    }
    if let Some(conclusion) = &contest.conclusion {
        let _ = write!(page, "\n**{}**\n", escaped(&conclusion.sentence));
        if let Some(rates) = conclusion.confirmed_bytes_per_second {
            let (median, low, high) = (rate(rates.median), rate(rates.low), rate(rates.high));
            let _ = write!(
                page,
                "\nMeasured again on fresh rounds: {median} ({low} to {high}{}).\n",
                range(rates)
            );
        }
        effects(page, contest);
    }
    let left_out: Vec<String> = contest.entries.iter().filter_map(left_out).collect();
    if !left_out.is_empty() {
        let _ = write!(page, "\n{}\n", left_out.join("\n"));
    }
}

fn table(page: &mut String, ranked: &[(&Entry, &Summary)]) {
    line(
        page,
        "| method | rate | 95 % interval | mean ± deviation | fsync | CPU | rounds | verdict |",
    );
    line(page, "|---|---:|---:|---:|---:|---:|---:|---|");
    for (entry, summary) in ranked {
        let Summary { seconds, .. } = summary;
        let rate_of = |at: f64| rate(summary.bytes_per_second * seconds.median / at);
        let deviation = summary
            .deviation_seconds
            .map_or(String::new(), |deviation| format!(" ± {deviation:.4}"));
        let _ = writeln!(
            page,
            "| {} | {} | {} to {}{} | {:.4}{deviation} s | {:.4} s | {:.0} % | {} | {} |",
            escaped(&entry.method),
            rate(summary.bytes_per_second),
            rate_of(seconds.high),
            rate_of(seconds.low),
            range(*seconds),
            summary.mean_seconds,
            summary.fsync_seconds,
            summary.cpu_seconds / seconds.median * 100.0,
            summary.rounds,
            escaped(&verdict(entry)),
        );
    }
}

/// Times, since a rate over the size of a file that is hardly written tells nothing; what was predicted, and what was
/// written.
fn update_table(page: &mut String, ranked: &[(&Entry, &Summary)]) {
    line(
        page,
        "| method | time | 95 % interval | predicted | calls | written for each byte | fsync | CPU | rounds | verdict |",
    );
    line(page, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let or_none = |figure: Option<String>| figure.unwrap_or_else(|| "–".to_owned());
    for (entry, summary) in ranked {
        let Summary { seconds, .. } = summary;
        let planned = summary.planned.as_ref().map(|planned| format!(" ({planned})"));
        let _ = writeln!(
            page,
            "| {}{} | {:.4} s | {:.4} to {:.4} s{} | {} | {} | {} | {:.4} s | {:.0} % | {} | {} |",
            escaped(&entry.method),
            escaped(&planned.unwrap_or_default()),
            seconds.median,
            seconds.low,
            seconds.high,
            range(*seconds),
            or_none(summary.predicted_seconds.map(|predicted| format!("{predicted:.4} s"))),
            or_none(summary.calls.map(|calls| format!("{calls:.0}"))),
            or_none(summary.amplification.map(|times| format!("{times:.1}"))),
            summary.fsync_seconds,
            summary.cpu_seconds / seconds.median * 100.0,
            summary.rounds,
            escaped(&verdict(entry)),
        );
    }
}

/// What the whole system did beside each entry.
fn system(page: &mut String, run: &Run, contest: usize) {
    let rows = system_rows(run, contest);
    if rows.is_empty() {
        return;
    }
    line(page, &format!("\n| the whole system | {} |", SYSTEM_HEADS.join(" | ")));
    line(page, &format!("|---|{}", "---:|".repeat(SYSTEM_HEADS.len())));
    for row in rows {
        let name = match row.published {
            Some(source) => format!("{source}, {}", row.method),
            None => row.method,
        };
        line(page, &format!("| {} | {} |", escaped(&name), row.cells.join(" | ")));
    }
}

/// What is said where an interval is only the range of few samples.
fn range(interval: Interval) -> &'static str {
    if interval.coverage.is_some() { "" } else { ", the range" }
}

fn verdict(entry: &Entry) -> String {
    let verdict = match &entry.standing {
        None => "unranked".to_owned(),
        Some(standing) if standing.verdict == Verdict::Slower => {
            let Interval { low, median, high, .. } = standing.ratio;
            format!("{median:.2}x slower ({low:.2} to {high:.2}{})", range(standing.ratio))
        }
        Some(standing) => word(standing.verdict),
    };
    match &entry.status {
        Status::Dropped(_) => format!("{verdict}, dropped"),
        Status::Failed(why) => format!("failed: {why}"),
        _ => verdict,
    }
}

fn effects(page: &mut String, contest: &Contest) {
    let effects = contest.conclusion.iter().flat_map(|conclusion| &conclusion.effects);
    let rows: Vec<String> = effects
        .map(|effect| {
            let Interval { low, median, high, .. } = effect.ratio;
            format!(
                "| {} | {} | {median:.2}x ({low:.2} to {high:.2}{}) | {:+.4} s |",
                escaped(&effect.option),
                escaped(&effect.without),
                range(effect.ratio),
                effect.cpu_seconds_difference,
            )
        })
        .collect();
    if !rows.is_empty() {
        line(
            page,
            "\n| option | added to | its time becomes | CPU |\n|---|---|---:|---:|",
        );
        line(page, &rows.join("\n"));
    }
}

/// Why an entry is in no table.
fn left_out(entry: &Entry) -> Option<String> {
    let why = match &entry.status {
        Status::Unavailable(why) => format!("not available: {why}"),
        Status::Failed(why) if entry.summary.is_none() => format!("failed: {why}"),
        Status::Unmeasured(why) if entry.summary.is_none() => format!("not measured: {why}"),
        Status::Measured if entry.summary.is_none() => "no valid trial".to_owned(),
        _ => return None,
    };
    Some(format!("- {}: {}", escaped(&entry.method), escaped(&why)))
}

/// A rate as people write it, in units of 1000.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.2} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.0} MB/s", rate / 1e6),
        rate => format!("{:.0} kB/s", rate / 1e3),
    }
}

/// Text in which nothing is taken for Markdown or HTML, and which stays on its line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
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
            page.contains("- read/mmap: not available: a \\| in the \\<reason\\>"),
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
