//! What others published of the files of a contest, each finding beside the same method here.

use seekless_method::differing_options;
use seekless_method::{Choice, Method};
use seekless_record::{Contest, Entry, EntryVerdict, Finding, FindingKind, Published, RelativeResult, Run};

use super::figures::NOT_VALID;
use super::{ContestView, Row};
use crate::labels::ends_early;
use crate::ranking::{PairedRatio, TIE_RATIO};
use crate::sheet::{Sheet, SheetCell};
use crate::units::{rate, seconds};
use crate::verdict::{ShownVerdict, why_missing};

/// More than any experiment has for the files of one contest; a run from elsewhere may have more.
const MOST_ROWS: usize = 100;

/// The findings about a contest's files, source after source. Those of a document's columns are in [`View::columns`].
///
/// [`View::columns`]: super::View::columns
pub(super) fn findings<'a>(run: &'a Run, contest: &Contest) -> Vec<(&'a Published, &'a Finding)> {
    let experiment = &contest.experiment;
    let columns = run.columns.iter().filter(|column| column.experiment == *experiment);
    let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    let sources = run.published.iter().filter(|source| source.experiment == *experiment);
    let findings = sources.flat_map(|source| source.findings.iter().map(move |finding| (source, finding)));
    let about = findings.filter(|(_, finding)| is_about(finding, contest));
    about
        .filter(|(_, finding)| !columns.contains(&finding.method.as_str()))
        .take(MOST_ROWS)
        .collect()
}

/// Each finding beside the same method here, with its best block, compared with the best of its kind; or why it has no figures.
pub(super) fn published(view: &ContestView<'_>, findings: &[(&Published, &Finding)]) -> Sheet {
    let mut sheet = Sheet::new("Published, and here");
    for (source, finding) in findings {
        let here = here(view, finding);
        let [name, figures, verdict] = match &here {
            Ok(row) => [
                row.entry.name().into_owned(),
                as_measured(finding, row),
                row.verdict.word(),
            ],
            Err(why) => [String::new(), String::new(), why.clone()],
        };
        let cells = [
            ("source", SheetCell::words(short_machine(source))),
            ("published as", SheetCell::method(&finding.method)),
            ("published", SheetCell::words(as_published(finding))),
            ("here", SheetCell::method(name)),
            ("figures here", SheetCell::words(figures)),
            ("vs the best", SheetCell::verdict(verdict)),
        ];
        sheet.push(here.ok().map(|row| row.verdict), cells);
    }
    sheet
}

/// The machine of a source in a few words, from before the colon of a text such as `2003: an Athlon`.
pub(super) fn short_machine(source: &Published) -> &str {
    let machine = source.machine.as_str();
    machine.split_once(':').map_or(machine, |(name, _)| name)
}

/// The published figure of a method, or the group in which it was the best, with its block.
fn as_published(finding: &Finding) -> String {
    let figures = [
        finding.seconds.map(hundredths),
        finding.cpu_seconds.map(|cpu| format!("{} of CPU", hundredths(cpu))),
        finding.bytes_per_second.map(rate),
    ];
    let best = match finding.kind {
        _ if figures.iter().any(Option::is_some) => None,
        FindingKind::Any => Some("the best"),
        FindingKind::Synchronous => Some("the best synchronous"),
        FindingKind::Overlapping => Some("the best overlapping"),
    };
    let block = finding.block.as_ref().map(|block| format!("block {block}"));
    let words = figures.into_iter().chain([best.map(str::to_owned), block]);
    words.flatten().collect::<Vec<_>>().join(", ")
}

/// Seconds as the documents write them.
fn hundredths(time: f64) -> String {
    if (0.0..1e6).contains(&time) {
        format!("{time:.2} s")
    } else {
        seconds(time)
    }
}

/// The figures here that correspond to the published ones.
fn as_measured(finding: &Finding, here: &Row<'_>) -> String {
    let (time, cpu) = (here.summary.seconds.median, here.summary.cpu_seconds);
    if finding.seconds.is_some() || finding.cpu_seconds.is_some() {
        format!("{}, {} of CPU", seconds(time), seconds(cpu))
    } else {
        here.speed()
    }
}

/// Whether a finding is about the files of a contest. Published methods read files to the end, holes included, with the
/// system's read-ahead window.
fn is_about(finding: &Finding, contest: &Contest) -> bool {
    !ends_early(contest)
        && contest.read_ahead_kib.is_none()
        && finding.operation == contest.operation
        && finding.cache.is_none_or(|cache| cache == contest.cache)
        && finding.layout == contest.layout
        && finding.at_least_bytes.is_none_or(|bytes| contest.size_bytes >= bytes)
        && finding.below_bytes.is_none_or(|bytes| contest.size_bytes < bytes)
}

fn here<'a>(view: &ContestView<'a>, finding: &Finding) -> Result<Row<'a>, String> {
    let published = finding.method.parse::<Method>().ok();
    let is_named = |entry: &Entry| entry.label.as_ref() == Some(&finding.method) || entry.name() == finding.method;
    let has_name = view.contest.entries.iter().any(is_named);
    let is_meant = |entry: &Entry| match (entry.choice(), &published) {
        _ if has_name => is_named(entry),
        (Some(Choice::Method(method)), Some(published)) => is_same(&method, published, is_figure(finding)),
        _ => false,
    };
    let conclusion = view.contest.conclusion.as_ref();
    let best = conclusion.and_then(|conclusion| match finding.kind {
        FindingKind::Any => conclusion.best.as_deref(),
        FindingKind::Synchronous => conclusion.best_synchronous.as_deref(),
        FindingKind::Overlapping => conclusion.best_overlapping.as_deref(),
    });
    let is_best = |row: &&Row<'_>| best == Some(&*row.entry.name());
    let mut same = view.rows.iter().filter(|row| is_meant(row.entry));
    if let Some(row) = same.clone().find(is_best).or_else(|| same.next()) {
        let compared = view.compare(&row.entry.name(), best.unwrap_or_default());
        let verdict = compared.map_or(EntryVerdict::Measured, |PairedRatio { ratio, pairs }| {
            let pairs = pairs as u32;
            let result = RelativeResult { ratio, pairs };
            match () {
                () if is_best(&row) => EntryVerdict::Best(result),
                () if ratio.low > TIE_RATIO => EntryVerdict::Slower(result),
                () => EntryVerdict::Tie(result),
            }
        });
        return Ok(Row {
            verdict: ShownVerdict::new(verdict, true),
            ..row.clone()
        });
    }
    let left_out = view.contest.entries.iter().find(|entry| is_meant(entry));
    Err(left_out.map_or_else(
        || "not among the methods of this run".to_owned(),
        |entry| why_missing(entry, NOT_VALID),
    ))
}

/// Whether a finding is the time of a method, and not the best method of a task.
fn is_figure(finding: &Finding) -> bool {
    finding.seconds.is_some() || finding.cpu_seconds.is_some() || finding.bytes_per_second.is_some()
}

/// Whether a method is the published one, without durability. A figure is for one block; a recommended method was the
/// best with several.
fn is_same(one: &Method, published: &Method, is_figure: bool) -> bool {
    let may_differ = |option: &&str| *option == "durability" || *option == "block" && !is_figure;
    one.mechanism() == published.mechanism() && differing_options(one, published).iter().all(may_differ)
}
