//! What follows from a contest: the figures and standing of each entry, and what to use.

use seekless_method::Choice;
use seekless_record::{Conclusion, Contest, Entry, Interval, Phase, Run, Standing, Status, Summary, Trial, Verdict};

use super::{PairedRatio, RECOMMENDED_RATIO, Samples, best, is_sound, only, standings, summarize};
use crate::ranking::{effects, sentence};
use crate::statistics::{FEWEST_SAMPLES, median_interval, paired_ratios};

/// The figures of an entry and where it stands.
pub type Judgement = (Option<Summary>, Option<Standing>);

/// A contest with its trials sorted out.
pub(crate) struct Judged<'a> {
    pub entries: &'a [Entry],
    /// The entries' methods and plans; `None` for a command, or a method that this version does not know.
    pub methods: Vec<Option<Choice>>,
    /// The entries' trials, invalid ones included.
    pub trials: Vec<Vec<&'a Trial>>,
    pub samples: Vec<Samples>,
    /// Where the methods stand among themselves, commands left out.
    pub among_methods: Vec<Option<Standing>>,
}

impl<'a> Judged<'a> {
    pub fn new(index: usize, contest: &'a Contest, trials: &'a [Trial]) -> Self {
        let mut of_entries = vec![Vec::new(); contest.entries.len()];
        for trial in trials.iter().filter(|trial| trial.contest == index) {
            if let Some(of_entry) = of_entries.get_mut(trial.entry) {
                of_entry.push(trial);
            }
        }
        Self::of(contest, of_entries)
    }

    /// With the trials of each entry.
    pub fn of(contest: &'a Contest, of_entries: Vec<Vec<&'a Trial>>) -> Self {
        let entries = contest.entries.as_slice();
        let methods: Vec<Option<Choice>> = entries.iter().map(Entry::choice).collect();
        let samples = entries.iter().zip(&of_entries);
        let samples: Vec<Samples> = samples
            .map(|(entry, trials)| Samples::of_entry(entry, trials))
            .collect();
        let among_methods = standings(&only(&samples, |entry| methods[entry].is_some()));
        Self {
            entries,
            methods,
            trials: of_entries,
            samples,
            among_methods,
        }
    }

    pub fn name(&self, entry: usize) -> String {
        self.entries[entry].name().into_owned()
    }

    pub fn is_method(&self, entry: usize) -> bool {
        self.methods[entry].is_some()
    }

    /// The best of the methods that overlap, or of those that do not; one that was dropped only where all were.
    pub fn best_where(&self, overlapping: bool) -> Option<usize> {
        let is_kind = |entry: usize| self.methods[entry].is_some_and(|method| method.is_overlapping() == overlapping);
        let is_kept = |entry: usize| is_kind(entry) && self.entries[entry].status == Status::Measured;
        best(&only(&self.samples, is_kept)).or_else(|| best(&only(&self.samples, is_kind)))
    }

    /// One entry's seconds over another's.
    pub fn compare(&self, entry: usize, over: usize) -> Option<PairedRatio> {
        self.samples[entry].over(&self.samples[over])
    }

    /// The best of the methods.
    pub fn best_method(&self) -> Option<usize> {
        self.ties()
            .find_map(|(entry, standing)| (standing.verdict == Verdict::Best).then_some(entry))
    }

    /// The methods that are best or tie with it.
    pub fn ties(&self) -> impl Iterator<Item = (usize, &Standing)> {
        let standings = self.among_methods.iter().enumerate();
        standings
            .filter_map(|(entry, standing)| Some((entry, standing.as_ref()?)))
            .filter(|(_, standing)| standing.verdict != Verdict::Slower)
    }

    /// Those of them that are known well enough to be recommended.
    pub fn known_ties(&self) -> impl Iterator<Item = (usize, &Standing)> {
        self.ties().filter(|(_, standing)| {
            standing.pairs as usize >= FEWEST_SAMPLES && standing.ratio.high <= RECOMMENDED_RATIO
        })
    }

    /// The simplest of these: least to get wrong, then the smaller block, then the text. None where a simpler one may tie
    /// as well and is not known well enough to say so.
    pub fn recommended(&self) -> Option<usize> {
        let simplest = self.known_ties().map(|(entry, _)| entry).min_by_key(|&entry| {
            let block_bytes = self.methods[entry].and_then(|choice| choice.method()?.options().block_bytes());
            (self.simplicity_rank(entry), block_bytes.unwrap_or(0), self.name(entry))
        })?;
        self.simpler_unknown(simplest).is_none().then_some(simplest)
    }

    /// A method that is simpler than this one, still in the running, and may tie with the best, but varies too much to tell.
    pub fn simpler_unknown(&self, entry: usize) -> Option<usize> {
        let known: Vec<usize> = self.known_ties().map(|(entry, _)| entry).collect();
        let unknown = self
            .ties()
            .map(|(other, _)| other)
            .filter(|other| !known.contains(other));
        let running = unknown.filter(|&other| self.entries[other].status == Status::Measured);
        let simpler = running.filter(|&other| self.simplicity_rank(other) < self.simplicity_rank(entry));
        simpler.min_by_key(|&other| self.simplicity_rank(other))
    }

    fn simplicity_rank(&self, entry: usize) -> Option<u32> {
        self.methods[entry].map(|method| method.simplicity_rank())
    }

    /// One entry's seconds over another's, on the rounds that measured the winners again.
    pub fn compare_again(&self, entry: usize, over: usize) -> Option<Interval> {
        let seconds = |entry| self.again(entry).map(|trial| (trial.round, trial.seconds)).collect();
        median_interval(&paired_ratios(&seconds(entry), &seconds(over)))
    }

    /// The trials that measured an entry again.
    fn again(&self, entry: usize) -> impl Iterator<Item = &Trial> {
        let trials = self.trials[entry].iter().copied();
        trials.filter(|trial| trial.phase == Phase::Confirming && is_sound(trial))
    }

    /// Bytes per second of an entry on the rounds that measured it again.
    fn confirmed(&self, entry: usize) -> Option<Interval> {
        let rates = self.again(entry).map(|trial| trial.bytes as f64 / trial.seconds);
        median_interval(&rates.collect::<Vec<_>>())
    }
}

/// Judges the contest that has this index in its run, from the trials of the whole run.
///
/// Commands are ranked with the methods, but the recommendation is made among the methods alone: a program can use a
/// method, and a command may do less with the bytes. The winner whose confirming trials are used is the recommended
/// method, or where it is undecided the best one.
#[must_use]
pub fn conclude(index: usize, contest: &Contest, trials: &[Trial]) -> (Vec<Judgement>, Conclusion) {
    let judged = Judged::new(index, contest, trials);
    let summaries = judged.trials.iter().map(|trials| summarize(trials));
    let judgements = summaries.zip(standings(&judged.samples)).collect();
    let best = best(&judged.samples);
    let recommended = judged.recommended();
    let name = |entry: Option<usize>| entry.map(|entry| judged.name(entry));
    let effects = effects::effects(&judged);
    let conclusion = Conclusion {
        recommended: name(recommended),
        best: name(best),
        best_synchronous: name(judged.best_where(false)),
        best_overlapping: name(judged.best_where(true)),
        confirmed_bytes_per_second: recommended
            .or(judged.best_method())
            .and_then(|entry| judged.confirmed(entry)),
        sentence: sentence::sentence(&judged, recommended, best, &effects),
        effects: effects.into_iter().map(|effect| effect.record).collect(),
    };
    (judgements, conclusion)
}

/// Writes down what follows for every contest of a run.
pub fn conclude_all(run: &mut Run) {
    for (index, contest) in run.contests.iter_mut().enumerate() {
        let (judgements, conclusion) = conclude(index, contest, &run.trials);
        for (entry, (summary, standing)) in contest.entries.iter_mut().zip(judgements) {
            (entry.summary, entry.standing) = (summary, standing);
        }
        contest.conclusion = Some(conclusion);
    }
}
