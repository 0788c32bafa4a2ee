//! Published figures beside this machine's: the seconds and rates that documents give for methods by name, and what the
//! processor's time and the device's requests tell about the question that the 2009 document left open.

use maud::{Markup, html};
use seekless_record::{Contest, Entry, Finding, Published, Summary};
use seekless_results::{View, ends_early, is_about, pair_words};

use super::columns::is_of_column;
use super::tables::{kib, table};
use super::words::{breaking, cache_words, heading, rate, seconds, state, three_digits};

/// More rows and columns than any experiment gives.
const MOST_ROWS: usize = 100;
const MOST_COLUMNS: usize = 12;

/// Whether a finding is a figure, and not the best method of a task.
pub(super) fn is_figure(finding: &Finding) -> bool {
    finding.seconds.is_some() || finding.cpu_seconds.is_some() || finding.bytes_per_second.is_some()
}

/// Tables of all published figures, one for each operation of an experiment, and the answer to the question of 2009.
pub(super) fn figures(view: &View<'_>) -> Markup {
    let mut tasks: Vec<(&str, &str)> = Vec::new();
    for source in &view.run.published {
        let findings = source.findings.iter().filter(|finding| is_figure(finding));
        for finding in findings.filter(|finding| !is_of_column(view, source, finding)) {
            let task = (source.experiment.as_str(), finding.operation.as_str());
            if !tasks.contains(&task) {
                tasks.push(task);
            }
        }
    }
    html! {
        @for (index, (experiment, operation)) in tasks.iter().take(MOST_COLUMNS).enumerate() {
            h3 id={"figures-" (index)} { (heading(operation)) ": published figures, and here" }
            (of_task(view, experiment, operation))
        }
        (question_of_2009(view))
    }
}

fn of_task(view: &View<'_>, experiment: &str, operation: &str) -> Markup {
    let sources: Vec<(&Published, Vec<&Finding>)> = view
        .run
        .published
        .iter()
        .filter(|source| source.experiment == experiment)
        .map(|source| {
            let findings = source.findings.iter();
            let meant = findings.filter(|finding| is_figure(finding) && finding.operation == operation);
            let meant = meant.filter(|finding| !is_of_column(view, source, finding));
            (source, meant.collect())
        })
        .filter(|(_, findings): &(_, Vec<&Finding>)| !findings.is_empty())
        .take(MOST_COLUMNS)
        .collect();
    let mut rows: Vec<&Finding> = Vec::new();
    for finding in sources.iter().flat_map(|(_, findings)| findings) {
        if !rows.iter().any(|known| is_same_row(known, finding)) && rows.len() < MOST_ROWS {
            rows.push(finding);
        }
    }
    let contests: Vec<&Contest> = view
        .contests_of(operation)
        .map(|contest| contest.contest)
        .filter(|contest| contest.experiment == experiment && contest.read_ahead_kib.is_none())
        // What was published is about files that are read to their end.
        .filter(|contest| !ends_early(contest))
        .filter(|contest| rows.iter().any(|finding| entry_of(contest, finding).is_some()))
        .take(MOST_COLUMNS)
        .collect();
    let mut heads = vec!["Program".to_owned()];
    heads.extend(
        sources
            .iter()
            .map(|(source, _)| short_machine(&source.machine).to_owned()),
    );
    heads.extend(contests.iter().map(|contest| here(view, contest)));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let body = html! {
        @for row in &rows {
            tr {
                td.m {
                    (breaking(row.method.strip_prefix("command/").unwrap_or(&row.method)))
                    @if let Some(files) = files_of(row, &rows) { br; small { (files) } }
                }
                @for (_, findings) in &sources {
                    td { (findings.iter().find(|finding| is_same_row(finding, row)).map_or_else(|| "–".to_owned(), |finding| as_published(finding))) }
                }
                @for contest in &contests {
                    td { (entry_of(contest, row).and_then(|entry| entry.summary.as_ref()).map_or_else(|| "–".to_owned(), |summary| as_measured(row, summary))) }
                }
            }
        }
    };
    html! {
        @for source in distinct_sources(&sources) { p.aside { (source) } }
        ul { @for (source, _) in &sources { li { (source.machine) } } }
        (table(&format!("{}: published figures, and here", heading(operation)), &heads, None, &body))
    }
}

/// Whether two figures are about one program and the same files.
fn is_same_row(one: &Finding, other: &Finding) -> bool {
    (&one.method, one.cache, &one.layout) == (&other.method, other.cache, &other.layout)
}

/// What tells the files of a figure from those of others of the same program.
fn files_of(row: &Finding, rows: &[&Finding]) -> Option<String> {
    let alone = rows.iter().filter(|other| other.method == row.method).count() == 1;
    let state = row.cache.map(cache_words).map(str::to_owned);
    let words: Vec<String> = state.into_iter().chain(row.layout.clone()).collect();
    (!alone && !words.is_empty()).then(|| words.join(", "))
}

fn distinct_sources<'a>(sources: &[(&'a Published, Vec<&Finding>)]) -> Vec<&'a str> {
    let mut texts: Vec<&str> = sources.iter().map(|(source, _)| source.source.as_str()).collect();
    texts.dedup();
    texts
}

/// What a column of this machine is about, in as few words as tell it from the others.
fn here(view: &View<'_>, contest: &Contest) -> String {
    let place = view
        .place(contest)
        .map_or_else(String::new, |place| format!(", {place}"));
    format!("Here, {}{}{place}", state(contest), pair_words(contest))
}

/// The name of a machine that is described behind a colon, as in `HDD 2009: a Pentium 4 with a SATA disk`.
fn short_machine(machine: &str) -> &str {
    machine.split_once(':').map_or(machine, |(name, _)| name)
}

/// What was measured of a published program: by its published name, or as the method or command that it is.
fn entry_of<'a>(contest: &'a Contest, finding: &Finding) -> Option<&'a Entry> {
    let mut entries = contest.entries.iter();
    let is_named = |entry: &&Entry| entry.label.as_deref() == Some(&finding.method) || entry.method == finding.method;
    entries.find(is_named).filter(|_| is_about(finding, contest))
}

fn as_published(finding: &Finding) -> String {
    let parts = [
        finding.seconds.map(hundredths),
        finding.cpu_seconds.map(|cpu| format!("{} of CPU", hundredths(cpu))),
        finding.bytes_per_second.map(rate),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Seconds as the documents write them.
fn hundredths(time: f64) -> String {
    if (0.0..1e6).contains(&time) {
        format!("{time:.2} s")
    } else {
        seconds(time)
    }
}

/// The same figures as were published.
fn as_measured(finding: &Finding, summary: &Summary) -> String {
    if finding.bytes_per_second.is_some() {
        return rate(summary.bytes_per_second);
    }
    format!(
        "{}, {} of CPU",
        seconds(summary.seconds.median),
        seconds(summary.cpu_seconds)
    )
}

/// Two programs of 2009 that both read each file an extra time; the second was faster, and why was not known.
const SLOWER_2009: &str = "compare-with-extra-read";
const FASTER_2009: &str = "block-compare-with-extra-read-4k";

/// Why the block version with the extra read beats the one that takes byte after byte from stdio: how much of the
/// difference is the processor's time, and how the device was asked.
fn question_of_2009(view: &View<'_>) -> Markup {
    let labelled = |contest: &Contest, label: &str| -> Option<Summary> {
        let mut entries = contest.entries.iter();
        entries
            .find(|entry| entry.label.as_deref() == Some(label))?
            .summary
            .clone()
    };
    let pairs = view.contests.iter().filter_map(|contest| {
        let pair = labelled(contest.contest, SLOWER_2009).zip(labelled(contest.contest, FASTER_2009))?;
        (!ends_early(contest.contest)).then_some((&contest.title, pair))
    });
    let pairs: Vec<(&String, (Summary, Summary))> = pairs.take(MOST_COLUMNS).collect();
    html! {
        @if !pairs.is_empty() {
            h3 { "Why " (FASTER_2009) " beats " (SLOWER_2009) }
            @for (title, (slower, faster)) in &pairs { p { (title) ": " (because(slower, faster)) } }
        }
    }
}

fn because(slower: &Summary, faster: &Summary) -> String {
    let saved = slower.seconds.median - faster.seconds.median;
    let cpu = slower.cpu_seconds - faster.cpu_seconds;
    let use_of = |summary: &Summary| {
        let time = |time: Option<f64>| time.map_or_else(|| "?".to_owned(), seconds);
        let requests = summary.device_reads.map_or_else(
            || "requests of the device that are not known apart from those of others".to_owned(),
            |reads| {
                let size = summary.device_request_bytes.map_or_else(|| "–".to_owned(), kib);
                format!("{reads:.0} requests of {size} on average")
            },
        );
        format!(
            "{} of user time, {} of system time, {requests}",
            time(summary.user_seconds),
            time(summary.system_seconds)
        )
    };
    let part = cpu / saved;
    let verdict = if saved <= 0.0 {
        "here it does not".to_owned()
    } else if part >= 0.5 {
        format!(
            "it saves {}, and of CPU {} ({} % of it): what is saved is the work for each byte, not seeks",
            seconds(saved),
            seconds(cpu),
            three_digits(part * 100.0)
        )
    } else {
        format!(
            "it saves {}, and of CPU only {}: what is saved is time at the device",
            seconds(saved),
            seconds(cpu)
        )
    };
    format!(
        "{verdict}. {SLOWER_2009}: {}. {FASTER_2009}: {}. Both ask the device for each file in turn.",
        use_of(slower),
        use_of(faster)
    )
}
