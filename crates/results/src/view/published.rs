//! What others published of the files of a contest, each finding beside the same method here.

use seekless_method::differing_options;
use seekless_method::{Choice, Method};
use seekless_record::{Contest, Entry, Finding, FindingKind, Published, Run};

use super::{ContestView, Position, Row, is_range};
use crate::ranking::{PairedRatio, TIE_RATIO};
use crate::words::ends_early;

/// More than any experiment has for the files of one contest; a run from elsewhere may have more.
const MOST_ROWS: usize = 100;

/// A published finding about the files of a contest.
#[derive(Debug)]
pub struct PublishedRow<'a> {
    /// Where it was published.
    pub source: &'a Published,
    /// What was published.
    pub finding: &'a Finding,
    /// The same method here, with its best block, compared with the best of its kind; or why it has no figures.
    pub here: Result<Row<'a>, String>,
}

impl<'a> PublishedRow<'a> {
    /// The machine in a few words, from behind the colon of a text such as `2003: an Athlon`.
    #[must_use]
    pub fn machine(&self) -> &'a str {
        let machine = self.source.machine.as_str();
        machine.split_once(':').map_or(machine, |(name, _)| name)
    }
}

/// The findings about a contest's files, source after source. Those of a document's columns are in [`View::columns`].
///
/// [`View::columns`]: super::View::columns
pub(super) fn published<'a>(run: &'a Run, view: &ContestView<'a>) -> Vec<PublishedRow<'a>> {
    let experiment = &view.contest.experiment;
    let columns = run.columns.iter().filter(|column| column.experiment == *experiment);
    let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    let sources = run.published.iter().filter(|source| source.experiment == *experiment);
    let findings = sources.flat_map(|source| source.findings.iter().map(move |finding| (source, finding)));
    let about = findings.filter(|(_, finding)| is_about(finding, view.contest));
    about
        .filter(|(_, finding)| !columns.contains(&finding.method.as_str()))
        .take(MOST_ROWS)
        .map(|(source, finding)| PublishedRow {
            source,
            finding,
            here: here(view, finding),
        })
        .collect()
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
        let position = match view.compare(&row.entry.name(), best.unwrap_or_default()) {
            None => Position::Unranked,
            Some(PairedRatio { ratio, .. }) if is_best(&row) => Position::leading(is_range(&ratio)),
            Some(PairedRatio { ratio, .. }) if ratio.low > TIE_RATIO => Position::Slower(ratio),
            Some(PairedRatio { ratio, .. }) => Position::level(is_range(&ratio)),
        };
        return Ok(Row { position, ..*row });
    }
    let left_out = view.left_out.iter().find(|(entry, _)| is_meant(entry));
    Err(left_out.map_or_else(
        || "not among the methods of this run".to_owned(),
        |(_, why)| why.clone(),
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
