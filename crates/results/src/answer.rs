//! The answer of a contest in one line: the method to use, what it gains over the plain loop, and how sure that is. Every place that
//! names a method to use says it by this.

use std::fmt;

use seekless_method::{Choice, Operation};
use seekless_record::{Conclusion, Conditions, Contest, Device, Entry, Run, Sittings};

use crate::labels::{short_name, speed_in, title_in};
use crate::units::{counted, duration, percent, seconds, slower, sound, times};
use crate::verdict::ShownVerdict;

/// The sentence of a contest that had no turn.
pub const NOT_MEASURED: &str = "Not measured yet.";

/// The heading of the time of the method to use over that of the plain loop.
pub const VS_PLAIN: &str = "vs plain";

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ContestAnswer {
    /// What was asked, as in `read 64M, cold`.
    pub question: String,
    /// The method to use; if there is none, why.
    pub method: String,
    /// Its figures: a heading and a text each. Single requests have percentiles of their latency before the time over that of the plain
    /// loop.
    pub figures: Vec<(&'static str, String)>,
    /// How sure it is; `None` if there is no method.
    pub certainty: Option<Certainty>,
    /// Whether the method is recommended.
    pub is_decided: bool,
    /// The method for a single file, if another one.
    pub single_use: Option<SingleUse>,
    /// What that rests on: `one run of 40 s`, `2 runs within an hour` or `3 sittings`; on a simulated disk, its model, too.
    pub rests_on: String,
}

impl ContestAnswer {
    /// The answer of a contest of a run; `None` if nothing was concluded.
    #[must_use]
    pub fn of(run: &Run, contest: &Contest) -> Option<Self> {
        let conclusion = contest.conclusion.as_ref()?;
        let question = title_in(run, contest);
        let named = [&conclusion.recommended, &conclusion.until_decided, &conclusion.best];
        let named = named.into_iter().flatten().next();
        let used = named.and_then(|name| contest.entries.iter().find(|entry| entry.name() == *name));
        let Some(used) = used.filter(|used| !contest.sustained && used.summary.is_some()) else {
            return Some(Self {
                question,
                method: conclusion.sentence.clone(),
                figures: Vec::new(),
                certainty: None,
                is_decided: false,
                single_use: None,
                rests_on: String::new(),
            });
        };
        Some(Self {
            question,
            method: short_name(&used.name(), contest),
            figures: figures(contest, used),
            certainty: Certainty::of(contest, conclusion, used),
            is_decided: conclusion.recommended.is_some(),
            single_use: SingleUse::of(contest, used),
            rests_on: rests_on(run, contest, conclusion),
        })
    }

    /// The question and the answer, as in `read 64M, cold: mmap (best, one run of 40 s)`.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.question, self.words())
    }

    /// The method, how sure it is, and what that rests on.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.certainty {
            None => self.method.clone(),
            Some(certainty) => format!("{} ({certainty}, {})", self.method, self.rests_on),
        }
    }
}

/// The method for a single file in a process of its own, whose time includes set-up: buffers, rings and threads. A run measures
/// methods that are prepared once for many files.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleUse {
    /// The method.
    pub method: String,
    /// The seconds that a file takes by it, set-up included.
    pub seconds: f64,
    /// The seconds that a file takes by the method for many files, set-up included.
    pub seconds_of_answer: f64,
    /// The seconds of set-up of the method for many files.
    pub setup_seconds: f64,
}

/// A method for a single file is named if the one for many files takes this many times as long.
const CLEARLY_SLOWER: f64 = 1.1;
/// Of methods that take up to this many times as long as the fastest one, the simplest is used.
const SAME_TIME: f64 = 1.02;

impl SingleUse {
    fn of(contest: &Contest, used: &Entry) -> Option<Self> {
        Conditions::of(contest).filter(|_| contest.operation != Operation::Scan)?;
        let files = f64::from(contest.files.max(1));
        let seconds = |entry: &Entry| {
            let summary = entry.summary.as_ref()?;
            Some(summary.seconds.median / files + summary.setup_seconds)
        };
        let timed = contest.entries.iter().filter_map(|entry| match entry.choice()? {
            Choice::Method(method) if entry.verdict.why_excluded().is_none() => Some((entry, method, seconds(entry)?)),
            _ => None,
        });
        let timed: Vec<_> = timed.collect();
        let least = timed.iter().map(|(_, _, seconds)| *seconds).reduce(f64::min)?;
        let near = timed.iter().filter(|(_, _, seconds)| *seconds <= SAME_TIME * least);
        let (entry, _, seconds_once) = near.min_by_key(|(_, method, _)| method.simplicity_rank())?;
        let seconds_of_answer = seconds(used)?;
        (seconds_of_answer > CLEARLY_SLOWER * seconds_once).then(|| Self {
            method: short_name(&entry.name(), contest),
            seconds: *seconds_once,
            seconds_of_answer,
            setup_seconds: used.summary.as_ref().map_or(0.0, |summary| summary.setup_seconds),
        })
    }
}

impl fmt::Display for SingleUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [once, answer, setup] = [self.seconds, self.seconds_of_answer, self.setup_seconds].map(seconds);
        write!(
            f,
            "for a single file use {} ({once}; the method above {answer}, of which {setup} set-up)",
            self.method
        )
    }
}

/// How sure it is that a method is the one to use.
#[derive(Clone, Debug, PartialEq)]
pub enum Certainty {
    /// It is the best.
    Best,
    /// All methods are equal within this part of the time.
    Equal(f64),
    /// It takes at most this part of the best's time longer.
    AtMost(f64),
    /// The same, which is too much to recommend it.
    Open(f64),
    /// There are too few rounds for a bound: the verdict on it.
    Unbounded(ShownVerdict),
}

impl Certainty {
    fn of(contest: &Contest, conclusion: &Conclusion, used: &Entry) -> Option<Self> {
        let finite = |cost: Option<f64>| cost.filter(|cost| (cost * 100.0).is_finite());
        match (finite(conclusion.costs_at_most), finite(conclusion.equal_within)) {
            (None, _) => Some(ShownVerdict::of(used, contest))
                .filter(|verdict| !verdict.word().is_empty())
                .map(Self::Unbounded),
            (Some(cost), _) if conclusion.recommended.is_none() => Some(Self::Open(cost)),
            (Some(0.0), _) => Some(Self::Best),
            (Some(_), Some(within)) => Some(Self::Equal(within)),
            (Some(cost), None) => Some(Self::AtMost(cost)),
        }
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("best"),
            Self::Equal(within) => write!(f, "equal within {}", percent(*within)),
            Self::AtMost(cost) => write!(f, "≤ {}", slower(*cost)),
            Self::Open(cost) => write!(f, "open, ≤ {}", slower(*cost)),
            Self::Unbounded(verdict) if verdict.leads() && !verdict.is_decided => f.write_str("few rounds"),
            Self::Unbounded(verdict) => f.write_str(&verdict.word()),
        }
    }
}

fn rests_on(run: &Run, contest: &Contest, conclusion: &Conclusion) -> String {
    let runs = match conclusion.sittings {
        Some(Sittings { count, .. }) if count > 1 => counted(count.into(), "sitting"),
        Some(Sittings { runs, .. }) if runs > 1 => format!("{runs} runs within an hour"),
        _ => format!("one run of {}", duration(run.elapsed_seconds)),
    };
    let device = run
        .storages
        .get(contest.storage)
        .and_then(|storage| storage.device.as_ref());
    match device.and_then(Device::simulated) {
        Some(model) => format!("{runs}, simulated: {model}"),
        None => runs,
    }
}

fn figures(contest: &Contest, used: &Entry) -> Vec<(&'static str, String)> {
    let Some(summary) = &used.summary else {
        return Vec::new();
    };
    let rate = sound(summary.bytes_per_second).map_or_else(String::new, |rate| speed_in(contest, rate));
    let mut figures = vec![("rate", rate)];
    if let Some(latency) = summary.latency {
        let percentiles = [
            ("p50", latency.p50_ns),
            ("p99", latency.p99_ns),
            ("p99.9", latency.p99_9_ns),
        ];
        figures.extend(percentiles.map(|(head, ns)| (head, seconds(ns as f64 / 1e9))));
    }
    let plain = plain_loop(contest).and_then(|plain| plain.summary.as_ref());
    let gain = plain.map_or_else(String::new, |plain| {
        times(summary.seconds.median / plain.seconds.median)
    });
    figures.push((VS_PLAIN, gain));
    figures
}

/// The simplest loop that was measured: the first if there are several.
fn plain_loop(contest: &Contest) -> Option<&Entry> {
    let entries = contest.entries.iter().filter(|entry| entry.summary.is_some());
    let methods = entries.filter_map(|entry| match entry.choice()? {
        Choice::Method(method) if !method.is_overlapping() => Some((method.simplicity_rank(), entry)),
        _ => None,
    });
    methods.min_by_key(|(rank, _)| *rank).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation;

    fn answer(methods: &[(&str, f64)], rounds: u32) -> ContestAnswer {
        let run = simulation::concluded(simulation::run(methods, rounds));
        ContestAnswer::of(&run, &run.contests[0]).unwrap()
    }

    #[test]
    fn answer_names_method_gain_and_what_it_rests_on() {
        let found = answer(&[("read/sync,block=128K", 2.0), ("read/sync,direct,block=4M", 1.0)], 8);
        assert_eq!((found.question.as_str(), found.is_decided), ("read 64 MiB, cold", true));
        assert_eq!(found.words(), "sync direct,block=4M (best, one run of 1 s)");
        assert_eq!(found.figures[1], ("vs plain", "0.50x".to_owned()));
        let mut run = simulation::run(&[("read/sync,block=128K", 1.0)], 8);
        run.storages[0].device = Some(Device {
            name: "loop0".to_owned(),
            below: vec!["simulated-hdd-2009".to_owned()],
            ..Device::default()
        });
        let run = simulation::concluded(run);
        let found = ContestAnswer::of(&run, &run.contests[0]).unwrap();
        assert_eq!(found.rests_on, "one run of 1 s, simulated: hdd-2009");
    }

    #[test]
    fn answer_names_another_method_for_a_single_file_where_set_up_decides() {
        let methods = [("read/sync,block=1M", 1.2), ("read/io_uring,depth=8,block=1M", 1.0)];
        let found = |setup_seconds: f64| {
            let mut run = simulation::run(&methods, 8);
            let by_ring = run.trials.iter_mut().filter(|trial| trial.entry == 1);
            by_ring.for_each(|trial| trial.setup_seconds = setup_seconds);
            let run = simulation::concluded(run);
            ContestAnswer::of(&run, &run.contests[0]).unwrap()
        };
        assert_eq!(found(0.1).single_use, None, "the ring is as fast with its set-up");
        let slow = found(0.5);
        assert!(slow.method.starts_with("io_uring"), "{}", slow.method);
        let words = slow.single_use.unwrap().to_string();
        let expected =
            "for a single file use sync block=1M (1.20 s; the method above 1.50 s, of which 500.0 ms set-up)";
        assert_eq!(words, expected);
    }

    #[test]
    fn answer_undecided_has_the_leader_or_says_why_none() {
        let found = answer(&[("read/mmap", 1.0), ("read/sync,block=4K", 1.0)], 3);
        let expected = ("mmap (few rounds, one run of 1 s)", false);
        assert_eq!((found.words().as_str(), found.is_decided), expected);
        let commands = answer(&[("command/one", 1.0), ("command/other", 2.0)], 8);
        assert_eq!(commands.words(), "one (best, one run of 1 s)");
        let nothing = answer(&[("read/mmap", 0.0)], 8);
        assert_eq!(nothing.words(), "Undecided: no trial is valid.");
    }
}
