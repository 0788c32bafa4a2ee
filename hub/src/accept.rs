//! What strangers send: a run is accepted as a whole or refused with the reason. What is possible but not believed, or says nothing
//! of other machines, is kept apart and marked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::discriminant;

use seekless_method::REVISION;
use seekless_record::{DocumentError, Ended, EntryVerdict, PROTOCOL, Run, Storage, from_json};
use seekless_results::{DeviceKind, Known, anonymous, busy, identity, standings, throttled};

use crate::figure::{Figure, Place};
use crate::receipt::digest;

/// The largest document, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The most entries of a contest: each is compared with each other.
const MOST_ENTRIES: usize = 400;
/// The same of all contests together.
const MOST_PAIRS: usize = 400 * MOST_ENTRIES;
const MOST_CONTESTS: usize = 1000;
const MOST_TRIALS: usize = 100_000;
/// No processor moves more bytes per second through its memory.
const FASTEST: f64 = 2e12;
/// Times of at least this many seconds have so many digits that equal ones are no coincidence.
const LONG_ENOUGH: f64 = 1e-3;
/// From this part of equal times on they are copies.
const COPIED: f64 = 0.05;
/// Of fewer samples, nothing is told.
const FEWEST_SAMPLES: usize = 6;

/// Why a run is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is not a run, or has a value that no run can have.
    #[error("{0}{cause}", cause = cause(.0))]
    Document(DocumentError),
    /// It has more of something than is accepted.
    #[error("the run has {found} {what}; at most {most} are accepted")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many it has.
        found: usize,
        /// How many are accepted.
        most: usize,
    },
    /// It has texts that could identify someone.
    #[error("the run is not anonymous: {0} names what only its owner may know; send an anonymous one")]
    NotAnonymous(String),
    /// Nothing of it can be ranked.
    #[error("the run has no contest that can be ranked: no method was measured in a valid trial")]
    Nothing,
}

impl From<DocumentError> for Refusal {
    fn from(error: DocumentError) -> Self {
        Self::Document(error)
    }
}

fn cause(error: &DocumentError) -> String {
    std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"))
}

/// A disk that does not exist. Such a run is shown apart, by its model.
pub const SIMULATED: &str = "simulated";
/// By a program that is newer than this one, or says so.
const NEWER: &str = "newer than this hub";
/// Samples that occur twice, here or in another run.
pub const COPIES: &str = "copied samples";

/// Marks, with one more.
pub fn with_mark(marks: &str, mark: &str) -> String {
    let comma = if marks.is_empty() { "" } else { ", " };
    format!("{marks}{comma}{mark}")
}

/// A run that is kept.
#[derive(Debug)]
pub struct Accepted {
    /// The digest of the document.
    pub id: String,
    /// The run, with the conclusions that follow from its samples.
    pub run: Run,
    /// Its document.
    pub document: Vec<u8>,
    /// Which machine it is of, as far as machines can be distinguished.
    pub machine: String,
    /// Why it does not count, with commas between; empty if it does.
    pub marks: String,
    /// What is searched of it, by contest and method.
    pub figures: Vec<Figure>,
    /// What it was measured on, by number.
    pub places: BTreeMap<i64, Place>,
    /// A digest of the samples of each contest that has enough.
    pub samples: Vec<String>,
}

/// Checks a document, which may come from anyone.
pub fn accept(document: &[u8], known: &Known) -> Result<Accepted, Refusal> {
    if document.len() > MAX_BYTES {
        let (bytes, most) = (document.len(), MAX_BYTES);
        return Err(DocumentError::TooLarge { bytes, most }.into());
    }
    let sent = from_json(document)?;
    limited(&sent)?;
    let run = anonymous(&sent, known);
    if let Some(field) = not_anonymous(&sent, &run) {
        return Err(Refusal::NotAnonymous(field));
    }
    let (places, figures) = figures(&run);
    if figures.is_empty() {
        return Err(Refusal::Nothing);
    }
    let document = serde_json::to_vec(&run).map_err(DocumentError::from)?;
    Ok(Accepted {
        id: digest(&document),
        machine: identity(&run.machine),
        marks: marks(&sent, &run),
        samples: samples(&run),
        document,
        figures,
        places,
        run,
    })
}

fn limited(run: &Run) -> Result<(), Refusal> {
    let pairs = run.contests.iter().map(|contest| contest.entries.len().pow(2)).sum();
    let entries = run.contests.iter().map(|contest| contest.entries.len()).max();
    for (what, found, most) in [
        ("contests", run.contests.len(), MOST_CONTESTS),
        ("entries in a contest", entries.unwrap_or(0), MOST_ENTRIES),
        ("trials", run.trials.len(), MOST_TRIALS),
        ("pairs of entries", pairs, MOST_PAIRS),
    ] {
        if found > most {
            return Err(Refusal::TooMany { what, found, most });
        }
    }
    Ok(())
}

/// The first field, conclusions and the ID apart, that making a run anonymous changes.
fn not_anonymous(sent: &Run, made: &Run) -> Option<String> {
    let [sent, made] = [sent, made].map(|run| {
        let mut run = run.clone();
        // It is made of the samples.
        run.id.clear();
        for contest in &mut run.contests {
            contest.conclusion = None;
            for entry in &mut contest.entries {
                entry.summary = None;
                entry.verdict.conclude(None);
            }
        }
        serde_json::to_value(run).unwrap_or_default()
    });
    different(&sent, &made, String::new())
}

/// Where two values differ first, as in `/machine/host`.
fn different(one: &serde_json::Value, other: &serde_json::Value, place: String) -> Option<String> {
    use serde_json::Value::{Array, Object};
    let inside = match (one, other) {
        (Object(one), Object(other)) => one
            .iter()
            .find_map(|(name, value)| different(value, other.get(name)?, format!("{place}/{name}"))),
        (Array(one), Array(other)) if one.len() == other.len() => (one.iter().zip(other).enumerate())
            .find_map(|(at, (one, other))| different(one, other, format!("{place}/{at}"))),
        _ => None,
    };
    inside.or_else(|| (one != other).then_some(place))
}

fn marks(sent: &Run, run: &Run) -> String {
    let is_simulated = |storage: &Storage| DeviceKind::of(storage) == DeviceKind::Simulated;
    let found = [
        (SIMULATED, run.storages.iter().any(is_simulated)),
        ("busy", !busy(run).is_empty()),
        ("unfinished", run.ended != Ended::Complete),
        ("throttled", throttled(run).is_some()),
        (COPIES, has_copies(run)),
        ("faster than memory", is_too_fast(run)),
        (
            NEWER,
            run.revision
                .is_some_and(|of| of.protocol > PROTOCOL || of.mechanisms > REVISION),
        ),
        ("verdicts differ", has_other_verdicts(sent, run)),
    ];
    let found = found.into_iter().filter(|(_, is_found)| *is_found);
    found.map(|(mark, _)| mark).collect::<Vec<_>>().join(", ")
}

fn has_copies(run: &Run) -> bool {
    let mut seen = HashSet::new();
    let long = run
        .trials
        .iter()
        .filter(|trial| trial.valid && trial.seconds >= LONG_ENOUGH);
    let all: Vec<u64> = long.map(|trial| trial.seconds.to_bits()).collect();
    let copies = all.iter().filter(|bits| !seen.insert(**bits)).count();
    all.len() >= FEWEST_SAMPLES && copies as f64 > COPIED * all.len() as f64
}

fn is_too_fast(run: &Run) -> bool {
    let touched = run.lab_cost.second_touch_bytes_per_second;
    let fastest = touched.map_or(FASTEST, |rate| {
        (10.0 * rate * f64::from(run.machine.processors)).min(FASTEST)
    });
    run.trials.iter().filter(|trial| trial.valid).any(|trial| {
        let contest = &run.contests[trial.contest];
        // Of those, not all bytes pass through memory.
        let moves_less = contest.shared_blocks || contest.holes_skipped || contest.updates.is_some();
        let moved = trial.bytes.saturating_sub(trial.hole_bytes.unwrap_or(0)) as f64;
        !moves_less && contest.kernel != "none" && moved > fastest * trial.seconds.max(1e-9)
    })
}

fn has_other_verdicts(sent: &Run, run: &Run) -> bool {
    let mut contests = sent.contests.iter().zip(&run.contests);
    contests.any(|(sent, made)| {
        let recommended = |contest: &seekless_record::Contest| Some(contest.conclusion.as_ref()?.recommended.clone());
        let rank = |verdict: &EntryVerdict| (discriminant(verdict), verdict.relative().is_some());
        recommended(sent) != recommended(made)
            || (sent.entries.iter().zip(&made.entries)).any(|(sent, made)| rank(&sent.verdict) != rank(&made.verdict))
    })
}

/// The digests of the samples of each contest that has enough of them.
fn samples(run: &Run) -> Vec<String> {
    let mut of_contest: HashMap<usize, Vec<u8>> = HashMap::new();
    for trial in run
        .trials
        .iter()
        .filter(|trial| trial.valid && trial.seconds >= LONG_ENOUGH)
    {
        of_contest
            .entry(trial.contest)
            .or_default()
            .extend(trial.seconds.to_le_bytes());
    }
    let enough = of_contest
        .into_values()
        .filter(|samples| samples.len() >= 8 * FEWEST_SAMPLES);
    enough.map(|samples| digest(&samples)).collect()
}

/// A row for each method of each contest that can be ranked, and the places that they name.
fn figures(run: &Run) -> (BTreeMap<i64, Place>, Vec<Figure>) {
    let revision = run
        .revision
        .map_or_else(|| "0.0".to_owned(), |of| format!("{}.{}", of.protocol, of.mechanisms));
    let (mut places, mut figures) = (BTreeMap::new(), Vec::new());
    for found in standings(run) {
        let contest = &run.contests[found.contest];
        let place = Place::of(&found.place, run, contest, &revision);
        let number = place.number();
        for (method, (ratio, is_best)) in found.methods {
            let entry = contest.entries.iter().find(|entry| entry.name() == method);
            let summary = entry.and_then(|entry| entry.summary.as_ref());
            figures.extend(summary.map(|summary| Figure {
                run: 0,
                contest: found.contest.try_into().unwrap_or(i64::MAX),
                place: number,
                method,
                ratio,
                is_best: i64::from(is_best),
                seconds: summary.seconds.median / f64::from(contest.files.max(1)),
            }));
        }
        places.insert(number, place);
    }
    figures.sort_by(|one, other| (one.contest, &one.method).cmp(&(other.contest, &other.method)));
    figures.dedup_by(|one, other| (one.contest, &one.method) == (other.contest, &other.method));
    (places, figures)
}
