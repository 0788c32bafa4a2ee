//! A contest with its trials, judged: the fields of its entries, and the method to pick.

use std::cell::OnceCell;

use seekless_method::Choice;
use seekless_record::{Contest, Entry, Interval, Phase, Run, Sittings, Trial};

use super::{Samples, cpu_seconds, is_sound, only};
use crate::between::{Pooled, Sitting, fit};
use crate::model::ModelField;
use crate::samples::sorted;
use crate::statistics::{FEWEST_SAMPLES, median};

/// A contest with its trials by entry.
pub(crate) struct JudgedContest<'a> {
    pub contest: &'a Contest,
    /// The entries' methods and plans; `None` for a command, or a method that this version does not know.
    pub methods: Vec<Option<Choice>>,
    /// The entries' trials, invalid ones included.
    pub trials: Vec<Vec<&'a Trial>>,
    pub samples: Vec<Samples>,
    /// The sittings, if it rests on several.
    pub over: Option<Over<'a>>,
    /// By entry: how far it is behind the leader at other sizes of the same task, as a mean of logarithms.
    pub(super) behind_elsewhere: Vec<f64>,
    // Computed once, on demand.
    /// By entry: the samples of its fresh rounds.
    fresh: OnceCell<Vec<Samples>>,
    all: OnceCell<Option<ModelField>>,
    of_methods: OnceCell<Option<ModelField>>,
    pick: OnceCell<Option<Pick>>,
}

/// The sittings that a conclusion rests on.
pub(crate) struct Over<'a> {
    pooled: Pooled,
    sittings: &'a [Sitting],
}

/// The largest bound of a method that is chosen for its simplicity.
pub(super) const CHEAP: f64 = 0.05;
/// The largest bound of a recommended method, and of methods that are called equal.
const RECOMMENDED: f64 = 0.10;

/// Processor times that differ by less count as equal.
const SAME_CPU: f64 = 1.10;

/// The largest number of needed sittings to report.
const MOST_SITTINGS: u32 = 30;

/// A method to use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub entry: usize,
    /// The bound on how much slower than the best it is: [`ModelField::costs_at_most`].
    pub costs_at_most: f64,
    pub why: PickReason,
}

/// Why a method is picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PickReason {
    /// All others are slower.
    Best,
    /// All methods are within this of the best, and it is the simplest.
    Equal { within: f64 },
    /// It is the simplest of this many methods near the best.
    Simplest { of: usize },
    /// It has the smallest bound.
    Least,
    /// The same, but the bound is too large for a recommendation.
    Undecided,
}

impl<'a> JudgedContest<'a> {
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
            fresh: OnceCell::new(),
            all: OnceCell::new(),
            of_methods: OnceCell::new(),
            pick: OnceCell::new(),
        }
    }

    /// Judges all sittings together: `of_entries` has the trials of each entry in all of them, their rounds numbered on.
    pub fn over_sittings(contest: &'a Contest, of_entries: Vec<Vec<&'a Trial>>, sittings: &'a [Sitting]) -> Self {
        let pooled = fit(sittings);
        Self {
            over: Some(Over { pooled, sittings }),
            ..Self::of(contest, of_entries)
        }
    }

    /// The field of all entries, including commands.
    pub fn all(&self) -> Option<&ModelField> {
        self.all.get_or_init(|| self.field_of(&self.samples, |_| true)).as_ref()
    }

    fn field_of(&self, samples: &[Samples], may_lead: impl Fn(usize) -> bool) -> Option<ModelField> {
        match &self.over {
            Some(over) => ModelField::of_model(over.pooled.model.only(&may_lead), samples, may_lead),
            None => ModelField::of(samples, may_lead),
        }
    }

    /// The field of the methods.
    pub fn field(&self) -> Option<&ModelField> {
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

    /// The leader of the overlapping methods, or of the synchronous ones; a dropped one only if all were dropped.
    pub fn leader_where(&self, overlapping: bool) -> Option<usize> {
        let is_kind = |entry: usize| self.methods[entry].is_some_and(|method| method.is_overlapping() == overlapping);
        let is_kept = |entry: usize| is_kind(entry) && self.contest.entries[entry].verdict.is_measured();
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

    /// The leader among the methods.
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

    /// The methods that are not slower than the leader.
    pub fn contenders(&self) -> &[usize] {
        self.field().map_or(&[], |field| &field.contenders)
    }

    /// The method to use; `None` if none has enough rounds.
    ///
    /// The simplest of the methods near the best: the simplest first, then the least processor time, then the fastest
    /// at other sizes. If none is known to be near the best, the one with the smallest bound. Its fresh rounds alone never refute the bound.
    pub fn pick(&self) -> Option<Pick> {
        *self.pick.get_or_init(|| self.picked())
    }

    fn picked(&self) -> Option<Pick> {
        let field = self.field()?;
        let has_enough = |entry: &usize| self.samples[*entry].rounds() >= FEWEST_SAMPLES;
        let known = field.contenders.iter().copied().filter(has_enough);
        let known: Vec<(usize, f64)> = known
            .filter_map(|entry| Some((entry, self.checked(field.costs_at_most(entry)?, entry))))
            .collect();
        let measured =
            (0..self.samples.len()).filter(|&entry| self.is_method(entry) && self.samples[entry].rounds() > 0);
        let are_all_known = known.len() > 1 && known.len() == measured.count();
        let within = |bound| {
            known
                .iter()
                .fold(bound, |bound, (entry, _)| self.checked(bound, *entry))
        };
        let equal = field
            .all_within()
            .map(within)
            .filter(|within| are_all_known && *within <= RECOMMENDED);
        let cheap: Vec<(usize, f64)> = known
            .iter()
            .copied()
            .filter(|(_, cost)| equal.is_some() || *cost <= CHEAP)
            .collect();
        let least = || known.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let &(entry, costs_at_most) = self.simplest(&cheap).or_else(least)?;
        let why = match equal {
            Some(within) => PickReason::Equal { within },
            None if field.contenders.len() == 1 => PickReason::Best,
            None if cheap.len() > 1 => PickReason::Simplest { of: cheap.len() },
            None if costs_at_most <= RECOMMENDED => PickReason::Least,
            None => PickReason::Undecided,
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
            .filter(|pick| pick.why != PickReason::Undecided)
            .map(|pick| pick.entry)
    }

    /// Whether more rounds would not improve the decision.
    pub fn is_settled(&self) -> bool {
        if !self.has_commands_alone() {
            let is_enough = |pick: Pick| {
                matches!(pick.why, PickReason::Best | PickReason::Equal { .. }) || pick.costs_at_most <= CHEAP
            };
            return self.pick().is_some_and(is_enough);
        }
        // Without a method to use, it is settled if the leader is known, or all are equal.
        self.all().is_some_and(|field| {
            let leads = field.costs_at_most(field.leader).is_some_and(|cost| cost <= CHEAP);
            leads || field.all_within().is_some_and(|within| within <= RECOMMENDED)
        })
    }

    /// Whether no entry is a method or a plan, so that none can be recommended.
    pub fn has_commands_alone(&self) -> bool {
        self.methods.iter().all(Option::is_none)
    }

    /// How many times as many rounds should decide it.
    pub fn decided_by_times(&self) -> Option<f64> {
        let leader = self.leader()?;
        match self.pick() {
            None => Some(FEWEST_SAMPLES as f64 / self.samples[leader].rounds() as f64),
            // The uncertainty of a mean halves with four times the rounds.
            Some(pick) => (pick.why == PickReason::Undecided).then(|| (pick.costs_at_most / RECOMMENDED).powi(2)),
        }
    }

    /// The sittings it rests on, if there are several.
    pub fn sittings(&self) -> Option<Sittings> {
        let over = self.over.as_ref()?;
        let count = over.sittings.len() as u32;
        let used = self.pick().map(|pick| pick.entry).or(self.leader());
        let agree = |sitting: &&Sitting| used.is_some_and(|used| sitting.contenders.contains(&used));
        // However certain one sitting is, another hour may differ.
        let times = self.decided_by_times().or((count == 1).then_some(1.0));
        Some(Sittings {
            count,
            runs: over.sittings.iter().map(|sitting| sitting.runs).sum(),
            agreeing: over.sittings.iter().filter(agree).count() as u32,
            needed: times.map(|times| sittings_for(count, times * f64::from(count))),
            deviation: over.pooled.deviation,
        })
    }

    /// An entry's seconds in a usual round: those of the leader times their ratio, so that both figures of a table agree. In one sitting,
    /// the interval is that of its trials, relative to their median.
    pub(super) fn seconds(&self, entry: usize, of_trials: &Interval) -> Option<Interval> {
        let field = self.all()?;
        let [own, leader] = [entry, field.leader].map(|entry| field.model.seconds(entry));
        let spread = if self.over.is_some() { own? } else { *of_trials };
        let times = leader?.median * field.ratio(entry, field.leader)?.median / spread.median;
        Some(Interval {
            low: spread.low * times,
            median: spread.median * times,
            high: spread.high * times,
            ..spread
        })
    }

    /// The simplest of these. Of those that are equally simple and need about the same processor time, the fastest at
    /// other sizes.
    fn simplest<'c>(&self, cheap: &'c [(usize, f64)]) -> Option<&'c (usize, f64)> {
        let cpu = |entry: usize| {
            let ranked = self.trials[entry].iter().filter(|trial| is_sound(trial));
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

    /// A bound on the extra time of an entry, widened if its fresh rounds refute it beside another contender: it was chosen for being
    /// fast in the rounds before, and may have been lucky there.
    fn checked(&self, bound: f64, entry: usize) -> f64 {
        let is_fresh = |trial: &&Trial| trial.phase == Phase::Confirming;
        let of_entry = |trials: &Vec<&'a Trial>| Samples::of(trials.iter().copied().filter(is_fresh));
        let fresh = self.fresh.get_or_init(|| self.trials.iter().map(of_entry).collect());
        let others = self.contenders().iter().filter(|&&other| other != entry);
        let ratios = others.filter_map(|&other| Some(fresh[entry].over(&fresh[other])?.ratio));
        let refuting = ratios.filter(|ratio| ratio.coverage.is_some() && ratio.low > 1.0 + bound);
        refuting.map(|ratio| ratio.median - 1.0).fold(bound, f64::max)
    }
}

/// The number of needed sittings as a whole number, more than there are, within the limit.
fn sittings_for(there_are: u32, wanted: f64) -> u32 {
    let more = there_are + 1..MOST_SITTINGS;
    more.into_iter()
        .find(|&all| f64::from(all) >= wanted)
        .unwrap_or(MOST_SITTINGS.max(there_are + 1))
}
