//! What others published, beside this machine: the recommended methods under their old names, and how they do here.

use maud::{Markup, html};
use seekless::Method;
use seekless::method::{differing_options, format_size};
use seekless_record::{Contest, Entry, Finding, FindingKind, Published, Status};
use seekless_results::ranking::{PairedRatio, RECOMMENDED_RATIO, TIE_RATIO};
use seekless_results::{ContestView, View, rate_of, short_name};

use super::tables::{figure, table};
use super::words::{breaking, heading, rate, state, times, times_with_bounds};
use super::{columns, figures};

/// More tables than any experiment gives.
const MOST_SOURCES: usize = 20;
const MOST_FINDINGS: usize = 100;

/// How a published method does in one contest of this machine.
struct Here<'a> {
    contest: &'a Contest,
    /// The best of the same kind here.
    best: Option<&'a str>,
    outcome: Outcome<'a>,
}

enum Outcome<'a> {
    /// It is the best of its kind, with this block.
    Best(&'a str),
    /// Its time over the best's of its kind.
    Against(&'a str, PairedRatio),
    /// Why it has no figures here.
    Missing(String),
}

/// Whether anything was published but figures of columns, which have a section of their own.
pub(super) fn is_shown(view: &View<'_>) -> bool {
    let of_columns = |source: &Published| {
        let mut findings = source.findings.iter();
        findings.all(|finding| columns::is_of_column(view, source, finding))
    };
    !view.run.published.iter().all(of_columns)
}

/// The section; nothing where nothing was published.
pub(super) fn published(view: &View<'_>) -> Markup {
    let sources: Vec<&Published> = view
        .run
        .published
        .iter()
        .filter(|source| !source.findings.iter().all(figures::is_figure))
        .collect();
    html! {
        @if is_shown(view) {
            section id="published" {
                h2 { "Published, and here" }
                (figures::figures(view))
                @if !sources.is_empty() { p.aside {
                    "What others recommend, and how the same methods do on this machine. A published method ties where the \
                     lower bound of its time over that of the best of its kind is at most " (TIE_RATIO) "; of a method that was \
                     published with several blocks the best one here is taken."
                } }
                @for (index, source) in sources.iter().take(MOST_SOURCES).enumerate() { (source_section(view, index, source)) }
            }
        }
    }
}

fn source_section(view: &View<'_>, index: usize, source: &Published) -> Markup {
    let findings: Vec<(&Finding, Vec<Here<'_>>)> = source
        .findings
        .iter()
        .filter(|finding| !figures::is_figure(finding))
        .take(MOST_FINDINGS)
        .map(|finding| (finding, here(view, source, finding)))
        .collect();
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
                td { (heading(&finding.operation)) }
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
    let rows = html! {
        @for (finding, here) in findings {
            @for here in here.iter().filter(|here| is_known(here)) {
                tr {
                    td.m { (finding.method) }
                    td { (heading(&here.contest.operation)) ", " (state(here.contest)) @if finding.kind != FindingKind::Any { ", " (kind(finding.kind)) } }
                    (figure(&format_size(here.contest.size_bytes), here.contest.size_bytes as f64))
                    (cells(here))
                }
            }
        }
    };
    let count: usize = findings
        .iter()
        .map(|(_, here)| here.iter().filter(|here| is_known(here)).count())
        .sum();
    html! {
        @if count > 0 {
            details open[count <= 24] {
                summary { "Size by size (" (count) ")" }
                (table(&format!("Size by size: {}", source.machine), &heads, None, &rows))
            }
        }
    }
}

/// Whether the published method has figures here; the table above says why it has not.
fn is_known(here: &Here<'_>) -> bool {
    !matches!(here.outcome, Outcome::Missing(_))
}

fn cells(here: &Here<'_>) -> Markup {
    let own = match &here.outcome {
        Outcome::Best(method) | Outcome::Against(method, _) => short_name(method, here.contest),
        Outcome::Missing(_) => "–".to_owned(),
    };
    let entry = |method: &str| here.contest.entries.iter().find(|entry| entry.method == method);
    let best_rate = here.best.and_then(|best| rate_of(entry(best)?));
    let (ratio, value) = match &here.outcome {
        Outcome::Best(_) => ("1.00x".to_owned(), 1.0),
        Outcome::Against(_, PairedRatio { ratio, .. }) => (times_with_bounds(ratio), ratio.median),
        Outcome::Missing(_) => ("–".to_owned(), f64::NAN),
    };
    html! {
        td.m { (breaking(&own)) }
        td.m { (breaking(&here.best.map_or_else(|| "–".to_owned(), |best| short_name(best, here.contest)))) }
        (figure(&best_rate.map_or_else(|| "–".to_owned(), rate), best_rate.unwrap_or(f64::NAN)))
        (figure(&ratio, value))
        td class=(class(&here.outcome)) { (word(&here.outcome)) }
    }
}

/// All contests of the experiment that a finding is about.
fn here<'a>(view: &View<'a>, source: &Published, finding: &Finding) -> Vec<Here<'a>> {
    let is_meant = |contest: &Contest| {
        contest.experiment == source.experiment
            && finding.at_least_bytes.is_none_or(|bytes| contest.size_bytes >= bytes)
            && finding.below_bytes.is_none_or(|bytes| contest.size_bytes < bytes)
    };
    let contests = view
        .contests_of(&finding.operation)
        .filter(|contest| is_meant(contest.contest));
    contests
        .map(|contest| {
            let best = best_of_kind(contest, finding.kind);
            Here {
                contest: contest.contest,
                best,
                outcome: outcome(contest, finding, best),
            }
        })
        .collect()
}

fn best_of_kind<'a>(contest: &ContestView<'a>, kind: FindingKind) -> Option<&'a str> {
    let conclusion = contest.contest.conclusion.as_ref()?;
    let (synchronous, overlapping) = (
        conclusion.best_synchronous.as_deref(),
        conclusion.best_overlapping.as_deref(),
    );
    match kind {
        FindingKind::Synchronous => synchronous,
        FindingKind::Overlapping => overlapping,
        FindingKind::Any => match synchronous.zip(overlapping) {
            None => synchronous.or(overlapping),
            Some((one, other)) => Some(
                if contest
                    .compare(other, one)
                    .is_some_and(|comparison| comparison.ratio.median < 1.0)
                {
                    other
                } else {
                    one
                },
            ),
        },
    }
}

fn outcome<'a>(contest: &ContestView<'a>, finding: &Finding, best: Option<&str>) -> Outcome<'a> {
    let Ok(published) = finding.method.parse::<Method>() else {
        return Outcome::Missing("its name is not known here".to_owned());
    };
    let entries = contest.contest.entries.iter();
    let same: Vec<&Entry> = entries
        .filter(|entry| entry.command.is_none())
        .filter(|entry| {
            entry
                .method
                .parse::<Method>()
                .is_ok_and(|method| is_same(&method, &published))
        })
        .collect();
    if let Some(entry) = same.iter().find(|entry| best == Some(entry.method.as_str())) {
        return Outcome::Best(&entry.method);
    }
    let compared = same
        .iter()
        .filter_map(|entry| Some((*entry, contest.compare(&entry.method, best?)?)));
    let nearest = compared.min_by(|one, other| one.1.ratio.median.total_cmp(&other.1.ratio.median));
    if let Some((entry, comparison)) = nearest {
        return Outcome::Against(&entry.method, comparison);
    }
    let why = same.iter().find_map(|entry| match &entry.status {
        Status::Unavailable(why) | Status::Failed(why) | Status::Unmeasured(why) => Some(why.clone()),
        _ => None,
    });
    Outcome::Missing(why.unwrap_or_else(|| "not among the methods of this run".to_owned()))
}

/// Whether two methods are one but for block and durability: the published ones tried many blocks, and none synced.
fn is_same(one: &Method, other: &Method) -> bool {
    let may_differ = |option: &&str| matches!(*option, "block" | "durability");
    one.mechanism() == other.mechanism() && differing_options(one, other).iter().all(may_differ)
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
    let ratios = |chosen: fn(&PairedRatio) -> bool| {
        let ratios = here.iter().filter_map(|here| match &here.outcome {
            Outcome::Against(_, comparison) if chosen(comparison) => Some(comparison.ratio.median),
            _ => None,
        });
        ratios.collect::<Vec<f64>>()
    };
    let good = here.iter().filter(|here| is_good(&here.outcome)).count();
    let few = ratios(|comparison| !comparison.is_slower() && comparison.ratio.coverage.is_none());
    let slower = ratios(|comparison| comparison.is_slower());
    let missing = here.iter().find_map(|here| match &here.outcome {
        Outcome::Missing(why) => Some(why.clone()),
        _ => None,
    });
    let sizes = |count: usize| {
        if count == 1 {
            "1 size".to_owned()
        } else {
            format!("{count} sizes")
        }
    };
    let mut parts = Vec::new();
    if good > 0 {
        parts.push(format!("best or tie at {}", sizes(good)));
    }
    if !slower.is_empty() {
        parts.push(format!(
            "slower at {} ({} the time)",
            sizes(slower.len()),
            range(&slower)
        ));
    }
    if !few.is_empty() {
        parts.push(format!(
            "too few rounds at {} ({} the time)",
            sizes(few.len()),
            range(&few)
        ));
    }
    match missing {
        _ if !parts.is_empty() => parts.join("; "),
        Some(why) => why,
        None => "no such file was measured".to_owned(),
    }
}

/// The smallest and the largest of some ratios.
fn range(ratios: &[f64]) -> String {
    let (low, high) = ratios
        .iter()
        .fold((f64::MAX, 0.0), |(low, high), &ratio| (ratio.min(low), ratio.max(high)));
    let (low, high) = (times(low), times(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// Whether the published method is the best of its kind, or known to tie with it.
fn is_good(outcome: &Outcome<'_>) -> bool {
    match outcome {
        Outcome::Best(_) => true,
        Outcome::Against(_, comparison) => comparison.ratio.coverage.is_some() && !comparison.is_slower(),
        Outcome::Missing(_) => false,
    }
}

fn word(outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Best(_) => "◆ the best".to_owned(),
        Outcome::Against(_, comparison) if comparison.is_slower() => "slower".to_owned(),
        Outcome::Against(_, PairedRatio { ratio, .. }) if ratio.coverage.is_none() => "too few rounds".to_owned(),
        Outcome::Against(_, PairedRatio { ratio, .. }) if ratio.high > RECOMMENDED_RATIO => {
            "○ may tie: varies".to_owned()
        }
        Outcome::Against(..) => "○ tie".to_owned(),
        Outcome::Missing(why) => why.clone(),
    }
}

fn class(outcome: &Outcome<'_>) -> &'static str {
    match outcome {
        Outcome::Best(_) => "best",
        outcome if is_good(outcome) => "tie",
        _ => "slow",
    }
}
