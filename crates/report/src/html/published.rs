//! What others published, beside this machine: figures of methods by name, and the recommended methods under their old
//! names with how they do here.

use maud::{Markup, html};
use seekless_method::format_size;
use seekless_method::{Method, Operation};
use seekless_record::{Contest, Entry, Finding, FindingKind, Published, Summary, Target};
use seekless_results::ranking::TIE_RATIO;
use seekless_results::{
    Here, Own, Row, Stands, View, ends_early, is_about, pair_words, rate, rate_of, short_name, state_words,
    three_digits,
};

use super::tables::{figure, kib, known, table};
use super::words::{breaking, heading, seconds, times, times_with_bounds};

/// More than any experiment gives.
const MOST_SOURCES: usize = 20;
const MOST_ROWS: usize = 100;
const MOST_COLUMNS: usize = 12;

/// Whether anything was published but figures of columns, which have a section of their own.
pub(super) fn is_shown(view: &View<'_>) -> bool {
    !view.published_figures().is_empty() || !view.published_methods().is_empty()
}

/// The section; nothing where nothing was published.
pub(super) fn published(view: &View<'_>) -> Markup {
    let sources = view.published_methods();
    html! {
        @if is_shown(view) {
            section id="published" {
                h2 { "Published, and here" }
                (figures(view))
                @if !sources.is_empty() { p.aside {
                    "What others recommend, and how the same methods do on this machine. A published method ties where the \
                     lower bound of its time over that of the best of its kind is at most " (TIE_RATIO) "; of a method that was \
                     published with several blocks the best one here is taken."
                } }
                @for (index, (source, findings)) in sources.iter().take(MOST_SOURCES).enumerate() {
                    (recommended(view, index, source, findings))
                }
            }
        }
    }
}

/// Tables of all published figures, one for each operation of an experiment, and the answer to the question of 2009.
fn figures(view: &View<'_>) -> Markup {
    let mut tasks: Vec<(&str, Operation)> = Vec::new();
    for (source, findings) in view.published_figures() {
        for finding in findings {
            let task = (source.experiment.as_str(), finding.operation);
            if !tasks.contains(&task) {
                tasks.push(task);
            }
        }
    }
    html! {
        @for (index, (experiment, operation)) in tasks.iter().take(MOST_COLUMNS).enumerate() {
            h3 id={"figures-" (index)} { (heading(operation.name())) ": published figures, and here" }
            (of_task(view, experiment, *operation))
        }
        (question_of_2009(view))
    }
}

/// A row for each program and state of its files; a column for each machine that published, and for each contest here.
fn of_task(view: &View<'_>, experiment: &str, operation: Operation) -> Markup {
    let mut sources = view.published_figures();
    sources.retain_mut(|(source, findings)| {
        findings.retain(|finding| source.experiment == experiment && finding.operation == operation);
        !findings.is_empty()
    });
    sources.truncate(MOST_COLUMNS);
    let mut rows: Vec<&Finding> = Vec::new();
    for finding in sources.iter().flat_map(|(_, findings)| findings) {
        if !rows.iter().any(|known| is_same_row(known, finding)) && rows.len() < MOST_ROWS {
            rows.push(finding);
        }
    }
    let contests = view.contests_of(operation).map(|contest| contest.contest);
    // What was published is about files that are read to their end.
    let contests = contests.filter(|contest| contest.experiment == experiment && !ends_early(contest));
    let contests = contests.filter(|contest| contest.read_ahead_kib.is_none());
    let contests: Vec<&Contest> = contests
        .filter(|contest| rows.iter().any(|row| entry_of(contest, row).is_some()))
        .take(MOST_COLUMNS)
        .collect();
    let mut heads = vec!["Program".to_owned()];
    // A machine is described behind a colon, as in `HDD 2009: a Pentium 4 with a SATA disk`.
    let machines = sources
        .iter()
        .filter_map(|(source, _)| source.machine.split(':').next());
    heads.extend(machines.map(str::to_owned));
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
                    td { (or_dash(findings.iter().find(|finding| is_same_row(finding, row)).map(|finding| as_published(finding)))) }
                }
                @for contest in &contests {
                    td { (or_dash(entry_of(contest, row).and_then(|entry| as_measured(row, entry)))) }
                }
            }
        }
    };
    let mut texts: Vec<&str> = sources.iter().map(|(source, _)| source.source.as_str()).collect();
    texts.dedup();
    html! {
        @for text in texts { p.aside { (text) } }
        ul { @for (source, _) in &sources { li { (source.machine) } } }
        (table(&format!("{}: published figures, and here", heading(operation.name())), &heads, None, &body))
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Whether two figures are about one program and the same files.
fn is_same_row(one: &Finding, other: &Finding) -> bool {
    (&one.method, one.cache, &one.layout) == (&other.method, other.cache, &other.layout)
}

/// What tells the files of a figure from those of others of the same program.
fn files_of(row: &Finding, rows: &[&Finding]) -> Option<String> {
    let alone = rows.iter().filter(|other| other.method == row.method).count() == 1;
    let state = row.cache.map(|cache| state_words(cache, Target::Fresh).to_owned());
    let words: Vec<String> = state.into_iter().chain(row.layout.clone()).collect();
    (!alone && !words.is_empty()).then(|| words.join(", "))
}

/// What a column of this machine is about, in as few words as tell it from the others.
fn here(view: &View<'_>, contest: &Contest) -> String {
    let place = view.place(contest.storage).map(|place| format!(", {place}"));
    format!(
        "Here, {}{}{}",
        state_words(contest.cache, contest.target),
        pair_words(contest),
        place.unwrap_or_default()
    )
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

/// What was measured of a published program: by its published name, or as the method or command that it is.
fn entry_of<'a>(contest: &'a Contest, finding: &Finding) -> Option<&'a Entry> {
    let mut entries = contest.entries.iter();
    let is_named = |entry: &&Entry| entry.label.as_deref() == Some(&finding.method) || entry.name() == finding.method;
    entries.find(is_named).filter(|_| is_about(finding, contest))
}

/// The same figures as were published.
fn as_measured(finding: &Finding, entry: &Entry) -> Option<String> {
    let summary = entry.summary.as_ref()?;
    Some(if finding.bytes_per_second.is_some() {
        rate(summary.bytes_per_second)
    } else {
        let (time, cpu) = (seconds(summary.seconds.median), seconds(summary.cpu_seconds));
        format!("{time}, {cpu} of CPU")
    })
}

/// Two programs of 2009 that both read each file an extra time; the second was faster, and why was not known.
const SLOWER_2009: &str = "compare-with-extra-read";
const FASTER_2009: &str = "block-compare-with-extra-read-4k";

/// Why the block version with the extra read beats the one that takes byte after byte from stdio: how much of the
/// difference is the processor's time, and how the device was asked.
fn question_of_2009(view: &View<'_>) -> Markup {
    let contests = view.contests.iter().filter(|contest| !ends_early(contest.contest));
    let pairs = contests.filter_map(|contest| {
        let labelled = |label| {
            contest
                .rows
                .iter()
                .find(|row| row.entry.label.as_deref() == Some(label))
        };
        Some((&contest.title, labelled(SLOWER_2009)?, labelled(FASTER_2009)?))
    });
    let pairs: Vec<(&String, &Row<'_>, &Row<'_>)> = pairs.take(MOST_COLUMNS).collect();
    html! {
        @if !pairs.is_empty() {
            h3 { "Why " (FASTER_2009) " beats " (SLOWER_2009) }
            @for (title, slower, faster) in &pairs { p { (title) ": " (because(slower.summary, faster.summary)) } }
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
                let size = or_dash(summary.device_request_bytes.map(kib));
                format!("{reads:.0} requests of {size} on average")
            },
        );
        let (user, system) = (time(summary.user_seconds), time(summary.system_seconds));
        format!("{user} of user time, {system} of system time, {requests}")
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
        let (saved, cpu) = (seconds(saved), seconds(cpu));
        format!("it saves {saved}, and of CPU only {cpu}: what is saved is time at the device")
    };
    format!(
        "{verdict}. {SLOWER_2009}: {}. {FASTER_2009}: {}. Both ask the device for each file in turn.",
        use_of(slower),
        use_of(faster)
    )
}

/// What one source recommends: a row for each finding, then one for each file size that was measured here.
fn recommended(view: &View<'_>, index: usize, source: &Published, findings: &[&Finding]) -> Markup {
    let findings = findings.iter().take(MOST_ROWS);
    let findings: Vec<(&Finding, Vec<Here<'_>>)> =
        findings.map(|finding| (*finding, view.here(source, finding))).collect();
    let heads = [
        "Task",
        "Kind",
        "File",
        "Published method",
        "Its name here",
        "Block",
        "On this machine",
    ];
    let rows = html! {
        @for (finding, here) in &findings {
            tr {
                td { (heading(finding.operation.name())) }
                td { (kind(finding.kind)) }
                td { (sizes(finding)) }
                td.m { (finding.method) }
                td.m { @match finding.method.parse::<Method>() { Ok(method) => { (breaking(&bare(&method))) }, Err(_) => { "unknown" } } }
                td { (finding.block.as_deref().unwrap_or("–")) }
                td { (in_short(here)) }
            }
        }
    };
    html! {
        h3 id={"source-" (index)} { (source.machine) }
        p.aside { (source.source) }
        (table(&format!("Published for: {}", source.machine), &heads, None, &rows))
        (size_by_size(source, &findings))
    }
}

fn size_by_size(source: &Published, findings: &[(&Finding, Vec<Here<'_>>)]) -> Markup {
    let heads = [
        "Published method",
        "Task",
        "#File",
        "Its best block here",
        "Best here",
        "#Rate",
        "#Published over best",
        "Verdict",
    ];
    let rows = findings.iter().flat_map(|(finding, all)| {
        let known = all.iter().filter_map(|here| Some((here, here.own.as_ref().ok()?)));
        known.map(|(here, own)| row(finding, here, own))
    });
    let rows: Vec<Markup> = rows.collect();
    html! {
        @if !rows.is_empty() {
            details open[rows.len() <= 24] {
                summary { "Size by size (" (rows.len()) ")" }
                (table(&format!("Size by size: {}", source.machine), &heads, None, &html! { @for row in &rows { (row) } }))
            }
        }
    }
}

fn row(finding: &Finding, here: &Here<'_>, own: &Own<'_>) -> Markup {
    let contest = here.contest;
    let best_entry = contest.entries.iter().find(|entry| Some(&*entry.name()) == here.best);
    let (class, word) = match own.stands {
        Stands::Best => ("best", "◆ the best"),
        Stands::Tie => ("tie", "○ tie"),
        Stands::Varies => ("tie", "○ may tie: varies"),
        Stands::Slower => ("slow", "slower"),
        Stands::TooFewRounds => ("slow", "too few rounds"),
    };
    let ratio = match own.stands {
        Stands::Best => times(1.0),
        _ => times_with_bounds(&own.ratio),
    };
    html! {
        tr {
            td.m { (finding.method) }
            td { (heading(contest.operation.name())) ", " (state_words(contest.cache, contest.target)) @if finding.kind != FindingKind::Any { ", " (kind(finding.kind)) } }
            (figure(&format_size(contest.size_bytes), contest.size_bytes as f64))
            td.m { (breaking(&short_name(&own.method, contest))) }
            td.m { (breaking(&or_dash(here.best.map(|best| short_name(best, contest))))) }
            (known(best_entry.and_then(rate_of), rate))
            (figure(&ratio, own.ratio.median))
            td class=(class) { (word) }
        }
    }
}

/// A method without its block, which the table has a column for.
fn bare(method: &Method) -> String {
    let text = method.to_string();
    let options: Vec<&str> = text.split(',').filter(|option| !option.starts_with("block=")).collect();
    options.join(",")
}

fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Any => "any",
        FindingKind::Synchronous => "synchronous",
        FindingKind::Overlapping => "overlapping",
    }
}

fn sizes(finding: &Finding) -> String {
    match (finding.at_least_bytes, finding.below_bytes) {
        (None, None) => "any".to_owned(),
        (Some(from), None) => format!("{} or more", format_size(from)),
        (None, Some(to)) => format!("below {}", format_size(to)),
        (Some(from), Some(to)) => format!("{} to below {}", format_size(from), format_size(to)),
    }
}

/// What became of a finding on this machine, over all its sizes.
fn in_short(here: &[Here<'_>]) -> String {
    use Stands::{Best, Slower, Tie, TooFewRounds, Varies};
    let known = || here.iter().filter_map(|here| here.own.as_ref().ok());
    let part = |words: &str, meant: &[Stands]| {
        let meant: Vec<&Own<'_>> = known().filter(|own| meant.contains(&own.stands)).collect();
        let sizes = if meant.len() == 1 { "size" } else { "sizes" };
        let ratios = meant.iter().map(|own| own.ratio.median);
        let [low, high] = [ratios.clone().fold(f64::MAX, f64::min), ratios.fold(0.0, f64::max)].map(times);
        let range = match words {
            "best or tie" => String::new(),
            _ if low == high => format!(" ({low} the time)"),
            _ => format!(" ({low} to {high} the time)"),
        };
        (!meant.is_empty()).then(|| format!("{words} at {} {sizes}{range}", meant.len()))
    };
    let parts = [
        part("best or tie", &[Best, Tie, Varies]),
        part("slower", &[Slower]),
        part("too few rounds", &[TooFewRounds]),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let missing = here.iter().find_map(|here| here.own.as_ref().err());
    match missing {
        _ if !parts.is_empty() => parts.join("; "),
        Some(why) => why.clone(),
        None => "no such file was measured".to_owned(),
    }
}
