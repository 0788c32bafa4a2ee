//! What follows from a contest: the figures and standing of each entry, and what to use.

use std::cell::OnceCell;
use std::collections::HashMap;

use seekless_method::Choice;
use seekless_record::{Conclusion, Contest, Entry, Interval, Phase, Run, Sittings, Standing, Status, Summary, Trial};

use super::{Samples, cpu_seconds, is_ranked, is_sound, only, stand, summarize};
use crate::between::{Pooled, Sitting, fit};
use crate::model::Field;
use crate::ranking::{effects, sentence};
use crate::samples::sorted;
use crate::statistics::{FEWEST_SAMPLES, mean, median, median_interval, paired_ratios, ratio_interval};
use crate::words::task;

/// The figures of an entry and where it stands.
pub type Judgement = (Option<Summary>, Option<Standing>);

/// A contest with its trials sorted out.
pub(crate) struct Judged<'a> {
    pub contest: &'a Contest,
    /// The entries' methods and plans; `None` for a command, or a method that this version does not know.
    pub methods: Vec<Option<Choice>>,
    /// The entries' trials, invalid ones included.
    pub trials: Vec<Vec<&'a Trial>>,
    pub samples: Vec<Samples>,
    /// Where it rests on several sittings.
    pub over: Option<Over<'a>>,
    /// By entry: how far it is behind the leader at other sizes of the same task, on the mean of logarithms.
    behind_elsewhere: Vec<f64>,
    // Concluded once, and only where somebody asks: most who compare two entries do not.
    all: OnceCell<Option<Field>>,
    of_methods: OnceCell<Option<Field>>,
    pick: OnceCell<Option<Pick>>,
}

/// The sittings that a conclusion rests on.
pub(crate) struct Over<'a> {
    pooled: Pooled,
    sittings: &'a [Sitting],
}

/// What a choice may cost where it is made for its simplicity.
pub(super) const CHEAP: f64 = 0.05;
/// What a recommended method may cost, and how far apart methods are that are said to be equal.
const RECOMMENDED: f64 = 0.10;

/// Processor times that differ by less are not told apart.
const SAME_CPU: f64 = 1.10;

/// The most sittings that are said to be needed.
const MOST_SITTINGS: u32 = 30;

/// A method to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub entry: usize,
    /// What it costs at most over the best, as of [`Field::costs_at_most`].
    pub costs_at_most: f64,
    pub why: Why,
}

/// Why a method is picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Why {
    /// All others are slower.
    Best,
    /// All methods are within this of the best, and it is the simplest.
    Equal { within: f64 },
    /// It is the simplest of so many that cost next to nothing.
    Simplest { of: usize },
    /// It is the one that costs least.
    Least,
    /// The same, but it may cost more than a recommended method may.
    Undecided,
}

impl<'a> Judged<'a> {
    /// A contest of a run.
    pub fn new(run: &'a Run, index: usize) -> Self {
        Self::of(&run.contests[index], sorted(run).swap_remove(index))
    }

    /// With the trials of each entry.
    pub fn of(contest: &'a Contest, of_entries: Vec<Vec<&'a Trial>>) -> Self {
        let entries = &contest.entries;
        let samples = entries.iter().zip(&of_entries);
        let samples = samples.map(|(entry, trials)| Samples::of_entry(entry, trials));
        Self {
            contest,
            methods: entries.iter().map(Entry::choice).collect(),
            samples: samples.collect(),
            trials: of_entries,
            over: None,
            behind_elsewhere: Vec::new(),
            all: OnceCell::new(),
            of_methods: OnceCell::new(),
            pick: OnceCell::new(),
        }
    }

    /// With the trials of each entry in all sittings, whose rounds follow each other, and what these say together.
    pub fn over_sittings(contest: &'a Contest, of_entries: Vec<Vec<&'a Trial>>, sittings: &'a [Sitting]) -> Self {
        let pooled = fit(sittings);
        Self {
            over: Some(Over { pooled, sittings }),
            ..Self::of(contest, of_entries)
        }
    }

    /// All entries beside the one that leads, commands among them.
    pub fn all(&self) -> Option<&Field> {
        self.all.get_or_init(|| self.field_of(&self.samples, |_| true)).as_ref()
    }

    fn field_of(&self, samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<Field> {
        match &self.over {
            Some(over) => Field::of_model(over.pooled.model.only(&may_lead), samples, may_lead),
            None => Field::of(samples, may_lead),
        }
    }

    /// The methods beside the one that leads.
    pub fn field(&self) -> Option<&Field> {
        if self.methods.iter().all(Option::is_some) {
            return self.all();
        }
        let is_method = |entry: usize| self.is_method(entry);
        let field = || self.field_of(&only(&self.samples, is_method), is_method);
        self.of_methods.get_or_init(field).as_ref()
    }

    pub fn name(&self, entry: usize) -> String {
        self.contest.entries[entry].name().into_owned()
    }

    pub fn is_method(&self, entry: usize) -> bool {
        self.methods[entry].is_some()
    }

    /// The one that leads the methods that overlap, or those that do not; one that was dropped only where all were.
    pub fn leader_where(&self, overlapping: bool) -> Option<usize> {
        let is_kind = |entry: usize| self.methods[entry].is_some_and(|method| method.is_overlapping() == overlapping);
        let is_kept = |entry: usize| is_kind(entry) && self.contest.entries[entry].status == Status::Measured;
        let field = self.field()?;
        field
            .leader_of(&self.samples, is_kept)
            .or_else(|| field.leader_of(&self.samples, is_kind))
    }

    /// One entry's seconds over another's.
    pub fn compare(&self, entry: usize, over: usize) -> Option<Interval> {
        let paired = self.samples[entry].over(&self.samples[over])?;
        match &self.over {
            None => Some(paired.ratio),
            Some(_) => self.all()?.ratio(entry, over),
        }
    }

    /// The method that leads.
    pub fn leader(&self) -> Option<usize> {
        self.field().map(|field| field.leader)
    }

    /// The methods with samples, the fastest first.
    pub fn by_speed(&self) -> impl Iterator<Item = usize> {
        let effects = self
            .field()
            .into_iter()
            .flat_map(|field| field.model.effects.iter().enumerate());
        let mut known: Vec<(f64, usize)> = effects
            .filter_map(|(entry, effect)| Some((effect.as_ref()?.log_seconds, entry)))
            .collect();
        known.sort_by(|one, other| one.0.total_cmp(&other.0));
        known.into_iter().map(|(_, entry)| entry)
    }

    /// The methods that are not slower than it.
    pub fn contenders(&self) -> &[usize] {
        self.field().map_or(&[], |field| &field.contenders)
    }

    /// The method to use. None where none has enough rounds.
    ///
    /// The simplest of those that cost next to nothing: least to get wrong, then least processor time, then least behind at
    /// other sizes. Where none is known to cost so little, the one that costs least at most.
    pub fn pick(&self) -> Option<Pick> {
        *self.pick.get_or_init(|| self.picked())
    }

    fn picked(&self) -> Option<Pick> {
        let field = self.field()?;
        let has_enough = |entry: &usize| self.samples[*entry].rounds() >= FEWEST_SAMPLES;
        let known = field.contenders.iter().copied().filter(has_enough);
        let known: Vec<(usize, f64)> = known
            .filter_map(|entry| Some((entry, field.costs_at_most(entry)?)))
            .collect();
        let measured =
            (0..self.samples.len()).filter(|&entry| self.is_method(entry) && self.samples[entry].rounds() > 0);
        let are_all_known = known.len() > 1 && known.len() == measured.count();
        let equal = field
            .all_within()
            .filter(|within| are_all_known && *within <= RECOMMENDED);
        let cheap: Vec<(usize, f64)> = known
            .iter()
            .copied()
            .filter(|(_, cost)| equal.is_some() || *cost <= CHEAP)
            .collect();
        let least = || known.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let &(entry, costs_at_most) = self.simplest(&cheap).or_else(least)?;
        let why = match equal {
            Some(within) => Why::Equal { within },
            None if field.contenders.len() == 1 => Why::Best,
            None if !cheap.is_empty() => Why::Simplest { of: cheap.len() },
            None if costs_at_most <= RECOMMENDED => Why::Least,
            None => Why::Undecided,
        };
        Some(Pick {
            entry,
            costs_at_most,
            why,
        })
    }

    /// The method that is recommended.
    pub fn recommended(&self) -> Option<usize> {
        self.pick()
            .filter(|pick| pick.why != Why::Undecided)
            .map(|pick| pick.entry)
    }

    /// Whether it is decided so well that more rounds would change nothing worth having.
    pub fn is_settled(&self) -> bool {
        if !self.has_commands_alone() {
            let is_enough =
                |pick: Pick| matches!(pick.why, Why::Best | Why::Equal { .. }) || pick.costs_at_most <= CHEAP;
            return self.pick().is_some_and(is_enough);
        }
        // None is picked: what is decided is which one leads, or that all are equal.
        self.all().is_some_and(|field| {
            let leads = field.costs_at_most(field.leader).is_some_and(|cost| cost <= CHEAP);
            leads || field.all_within().is_some_and(|within| within <= RECOMMENDED)
        })
    }

    /// Whether no entry is a method or a plan, so that none can be recommended.
    pub fn has_commands_alone(&self) -> bool {
        self.methods.iter().all(Option::is_none)
    }

    /// How many times the rounds there are should decide it.
    pub fn decided_by_times(&self) -> Option<f64> {
        let leader = self.leader()?;
        match self.pick() {
            None => Some(FEWEST_SAMPLES as f64 / self.samples[leader].rounds() as f64),
            // What is not known of a mean halves with four times the rounds.
            Some(pick) => (pick.why == Why::Undecided).then(|| (pick.costs_at_most / RECOMMENDED).powi(2)),
        }
    }

    /// The sittings it rests on, where there are several.
    pub fn sittings(&self) -> Option<Sittings> {
        let over = self.over.as_ref()?;
        let count = over.sittings.len() as u32;
        let used = self.pick().map(|pick| pick.entry).or(self.leader());
        let agree = |sitting: &&Sitting| used.is_some_and(|used| sitting.contenders.contains(&used));
        // However sure one sitting is, another hour may differ.
        let times = self.decided_by_times().or((count == 1).then_some(1.0));
        Some(Sittings {
            count,
            agreeing: over.sittings.iter().filter(agree).count() as u32,
            needed: times.map(|times| sittings_for(count, times * f64::from(count))),
            deviation: over.pooled.deviation,
        })
    }

    /// An entry's seconds over all sittings, with the interval that holds them with a probability of 95 %.
    fn seconds_over_sittings(&self, entry: usize) -> Option<Interval> {
        self.over.as_ref()?.pooled.model.seconds(entry)
    }

    /// The simplest of these; of those that are equally simple and need about as little processor time, the one that does best
    /// at other sizes.
    fn simplest<'c>(&self, cheap: &'c [(usize, f64)]) -> Option<&'c (usize, f64)> {
        let cpu = |entry: usize| {
            let ranked = self.trials[entry].iter().filter(|trial| is_ranked(trial));
            median(&ranked.map(|trial| cpu_seconds(trial)).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        let rank = cheap.iter().map(|(entry, _)| self.simplicity_rank(*entry)).min()?;
        let simple: Vec<_> = cheap
            .iter()
            .filter(|(entry, _)| self.simplicity_rank(*entry) == rank)
            .collect();
        let least_cpu = simple
            .iter()
            .map(|(entry, _)| cpu(*entry))
            .fold(f64::INFINITY, f64::min);
        let frugal = simple
            .into_iter()
            .filter(|(entry, _)| cpu(*entry) <= least_cpu * SAME_CPU);
        let elsewhere = |entry: usize| self.behind_elsewhere.get(entry).copied().unwrap_or(0.0);
        frugal.min_by(|one, other| {
            let sizes = elsewhere(one.0).total_cmp(&elsewhere(other.0));
            sizes.then_with(|| one.1.total_cmp(&other.1))
        })
    }

    fn simplicity_rank(&self, entry: usize) -> Option<u32> {
        self.methods[entry].map(|method| method.simplicity_rank())
    }

    /// One entry's seconds over another's, on the rounds that measured the winners again.
    pub fn compare_again(&self, entry: usize, over: usize) -> Option<Interval> {
        let seconds = |entry| {
            self.again(entry)
                .map(|trial| (trial.round, trial.compared_seconds()))
                .collect()
        };
        ratio_interval(&paired_ratios(&seconds(entry), &seconds(over)))
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

/// The whole sittings that are at least so many, more than there are; no more than anybody waits for.
fn sittings_for(there_are: u32, wanted: f64) -> u32 {
    let more = there_are + 1..MOST_SITTINGS;
    more.into_iter()
        .find(|&all| f64::from(all) >= wanted)
        .unwrap_or(MOST_SITTINGS.max(there_are + 1))
}

/// Judges a contest.
///
/// Commands are ranked with the methods, but the recommendation is made among the methods alone: a program can use a
/// method, and a command may do less with the bytes. The winner whose confirming trials are used is the recommended
/// method, or where it is undecided the best one.
pub(crate) fn conclude_judged(judged: &Judged<'_>) -> (Vec<Judgement>, Conclusion) {
    let summaries = judged.trials.iter().enumerate().map(|(entry, trials)| {
        let mut summary = summarize(trials)?;
        if let Some(seconds) = judged.seconds_over_sittings(entry) {
            summary.bytes_per_second *= summary.seconds.median / seconds.median;
            summary.seconds = seconds;
        }
        Some(summary)
    });
    let judgements = summaries.zip(stand(&judged.samples, judged.all())).collect();
    let best = judged.all().map(|field| field.leader);
    let pick = judged.pick();
    let recommended = judged.recommended();
    let name = |entry: Option<usize>| entry.map(|entry| judged.name(entry));
    let effects = effects::effects(judged);
    let until_decided = pick.map(|pick| pick.entry).or(judged.leader());
    let conclusion = Conclusion {
        recommended: name(recommended),
        until_decided: name(until_decided.filter(|_| recommended.is_none())),
        costs_at_most: pick.map(|pick| pick.costs_at_most),
        equal_within: pick.and_then(|pick| match pick.why {
            Why::Equal { within } => Some(within),
            _ => None,
        }),
        decided_by_times: judged.decided_by_times().filter(|_| judged.over.is_none()),
        sittings: judged.sittings(),
        best: name(best),
        best_synchronous: name(judged.leader_where(false)),
        best_overlapping: name(judged.leader_where(true)),
        confirmed_bytes_per_second: recommended
            .or(judged.leader())
            .and_then(|entry| judged.confirmed(entry)),
        sentence: sentence::sentence(judged, best, &effects),
        effects: effects.into_iter().map(|effect| effect.record).collect(),
    };
    (judgements, conclusion)
}

/// Tells the contests of a run how their methods do at the other sizes of the same task.
pub(crate) fn tell_other_sizes(contests: &mut [Judged<'_>]) {
    let behind = |judged: &Judged<'_>| -> HashMap<String, f64> {
        let Some(field) = judged.field() else {
            return HashMap::new();
        };
        let effects = field.model.effects.iter().enumerate();
        let known = effects.filter_map(|(entry, effect)| Some((entry, effect.as_ref()?.log_seconds)));
        let known: Vec<(usize, f64)> = known.collect();
        let least = known.iter().map(|(_, log)| *log).fold(f64::INFINITY, f64::min);
        known
            .into_iter()
            .map(|(entry, log)| (judged.name(entry), log - least))
            .collect()
    };
    if contests
        .iter()
        .all(|judged| judged.contest.size_bytes == contests[0].contest.size_bytes)
    {
        return;
    }
    let all: Vec<HashMap<String, f64>> = contests.iter().map(behind).collect();
    for at in 0..contests.len() {
        let contest = contests[at].contest;
        let is_other_size = |other: &usize| {
            let other = contests[*other].contest;
            other.size_bytes != contest.size_bytes && other.cache == contest.cache && task(other) == task(contest)
        };
        let others: Vec<usize> = (0..contests.len()).filter(is_other_size).collect();
        let behind_elsewhere = contest.entries.iter().map(|entry| {
            let known = others
                .iter()
                .filter_map(|&other| all[other].get(&*entry.name()).copied());
            mean(&known.collect::<Vec<f64>>()).unwrap_or(0.0)
        });
        contests[at].behind_elsewhere = behind_elsewhere.collect();
    }
}

/// Writes down what follows for every contest of a run.
pub fn conclude_all(run: &mut Run) {
    let contests = run.contests.iter().zip(sorted(run));
    let mut judged: Vec<_> = contests.map(|(contest, trials)| Judged::of(contest, trials)).collect();
    tell_other_sizes(&mut judged);
    let concluded: Vec<_> = judged.iter().map(conclude_judged).collect();
    drop(judged);
    for (contest, concluded) in run.contests.iter_mut().zip(concluded) {
        write_down(contest, concluded);
    }
}

/// Writes down what follows for a contest.
pub(crate) fn write_down(contest: &mut Contest, (judgements, conclusion): (Vec<Judgement>, Conclusion)) {
    for (entry, (summary, standing)) in contest.entries.iter_mut().zip(judgements) {
        (entry.summary, entry.standing) = (summary, standing);
    }
    contest.conclusion = Some(conclusion);
}
