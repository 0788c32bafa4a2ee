//! What others published, beside what was measured here: which findings are figures and which recommend a method, and how a
//! recommended method does here.

use std::borrow::Cow;

use seekless_method::differing_options;
use seekless_method::{Choice, Method};
use seekless_record::{Contest, Entry, Finding, FindingKind, Interval, Published, Status};

use super::{ContestView, View};
use crate::ranking::RECOMMENDED_RATIO;

/// How a published method does in one contest.
#[derive(Debug)]
pub struct Here<'a> {
    /// The contest.
    pub contest: &'a Contest,
    /// The best of its kind.
    pub best: Option<&'a str>,
    /// The published method with the block that was best, or why it has no figures.
    pub own: Result<Own<'a>, String>,
}

/// A published method beside the best of its kind.
#[derive(Debug)]
pub struct Own<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// Where it stands.
    pub stands: Stands,
    /// Its time over that of the best.
    pub ratio: Interval,
}

/// Where a published method stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is the best.
    Best,
    /// It ties with the best.
    Tie,
    /// It is not slower for certain, but varies too much to be recommended.
    Varies,
    /// It is slower.
    Slower,
    /// There are too few rounds to tell.
    TooFewRounds,
}

/// Whether a finding is a figure, and not the best method of a task.
fn is_figure(finding: &Finding) -> bool {
    finding.seconds.is_some() || finding.cpu_seconds.is_some() || finding.bytes_per_second.is_some()
}

impl<'a> View<'a> {
    /// The figures that each source published of methods by name. Those of a document's columns are in [`View::columns`].
    #[must_use]
    pub fn published_figures(&self) -> Vec<(&'a Published, Vec<&'a Finding>)> {
        self.published(is_figure)
    }

    /// The methods that each source recommends.
    #[must_use]
    pub fn published_methods(&self) -> Vec<(&'a Published, Vec<&'a Finding>)> {
        self.published(|finding| !is_figure(finding))
    }

    fn published(&self, is_meant: fn(&Finding) -> bool) -> Vec<(&'a Published, Vec<&'a Finding>)> {
        let is_of_column = |source: &Published, finding: &Finding| {
            let mut columns = self.run.columns.iter();
            columns.any(|column| (&column.experiment, &column.name) == (&source.experiment, &finding.method))
        };
        let sources = self.run.published.iter().map(|source| {
            let findings = source.findings.iter().filter(|finding| is_meant(finding));
            (
                source,
                findings.filter(|finding| !is_of_column(source, finding)).collect(),
            )
        });
        sources
            .filter(|(_, findings): &(_, Vec<_>)| !findings.is_empty())
            .collect()
    }

    /// How a published method does in all contests that it is about.
    #[must_use]
    pub fn here(&self, source: &Published, finding: &Finding) -> Vec<Here<'a>> {
        let is_meant = |contest: &Contest| {
            contest.experiment == source.experiment
                && finding.at_least_bytes.is_none_or(|bytes| contest.size_bytes >= bytes)
                && finding.below_bytes.is_none_or(|bytes| contest.size_bytes < bytes)
        };
        let contests = self.contests_of(finding.operation);
        let meant = contests.filter(|contest| is_meant(contest.contest));
        meant
            .map(|contest| {
                let best = best_of_kind(contest, finding.kind);
                Here {
                    contest: contest.contest,
                    best,
                    own: own(contest, finding, best),
                }
            })
            .collect()
    }
}

fn best_of_kind<'a>(contest: &ContestView<'a>, kind: FindingKind) -> Option<&'a str> {
    let conclusion = contest.contest.conclusion.as_ref()?;
    let synchronous = conclusion.best_synchronous.as_deref();
    let overlapping = conclusion.best_overlapping.as_deref();
    match (kind, synchronous, overlapping) {
        (FindingKind::Synchronous, ..) => synchronous,
        (FindingKind::Overlapping, ..) => overlapping,
        (FindingKind::Any, Some(one), Some(other)) => {
            let comparison = contest.compare(other, one);
            let is_faster = comparison.is_some_and(|comparison| comparison.ratio.median < 1.0);
            Some(if is_faster { other } else { one })
        }
        (FindingKind::Any, ..) => synchronous.or(overlapping),
    }
}

fn own<'a>(contest: &ContestView<'a>, finding: &Finding, best: Option<&str>) -> Result<Own<'a>, String> {
    let published: Method = finding
        .method
        .parse()
        .map_err(|_| "its name is not known here".to_owned())?;
    let is_meant = |entry: &&Entry| {
        let choice = entry.choice();
        let method = choice.as_ref().and_then(Choice::method);
        method.is_some_and(|method| is_same(method, &published))
    };
    let same: Vec<&Entry> = contest.contest.entries.iter().filter(is_meant).collect();
    let beside_best = |entry: &&'a Entry| {
        let comparison = contest.compare(&entry.name(), best?)?;
        let stands = match comparison.ratio {
            _ if best == Some(&*entry.name()) => Stands::Best,
            _ if comparison.is_slower() => Stands::Slower,
            ratio if ratio.coverage.is_none() => Stands::TooFewRounds,
            ratio if ratio.high > RECOMMENDED_RATIO => Stands::Varies,
            _ => Stands::Tie,
        };
        Some(Own {
            method: entry.name(),
            stands,
            ratio: comparison.ratio,
        })
    };
    let rank = |own: &Own<'_>| (own.stands != Stands::Best, own.ratio.median);
    let nearest = same.iter().filter_map(beside_best).min_by(|one, other| {
        let ((one, own), (other, others)) = (rank(one), rank(other));
        one.cmp(&other).then(own.total_cmp(&others))
    });
    nearest.ok_or_else(|| {
        let why = same.iter().find_map(|entry| match &entry.status {
            Status::Unavailable(why) | Status::Failed(why) | Status::Unmeasured(why) => Some(why.clone()),
            Status::Measured | Status::Dropped(_) => None,
        });
        why.unwrap_or_else(|| "not among the methods of this run".to_owned())
    })
}

/// Whether two methods differ at most in block and durability: those published tried many blocks, and none synced.
fn is_same(one: &Method, other: &Method) -> bool {
    let may_differ = |option: &&str| matches!(*option, "block" | "durability");
    one.mechanism() == other.mechanism() && differing_options(one, other).iter().all(may_differ)
}
