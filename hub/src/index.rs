//! What is known of all runs, in memory: the pages and the search read it. It follows the database, so that several servers may share
//! one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use indexmap::IndexSet;
use seekless_results::{DeviceKind, size_class};
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::accept::SIMULATED;
use crate::figure::{Figure, Place, WORDS, Word};
use crate::store::{Counters, News, Store, StoreError, Stored};

/// So many runs are fetched at a time.
const FETCHED: i64 = 200;

/// A run, as the index knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// As it is stored.
    pub stored: Stored,
    /// The number of its machine.
    pub machine: u32,
    /// The number of its sitting, a day of a machine.
    pub sitting: u32,
    /// The places that it has, each once.
    pub places: Vec<u32>,
}

/// A method in a contest of a run.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The number of the run: its sequence.
    pub run: u32,
    /// The number of its machine.
    pub machine: u32,
    /// Its time over that of the best.
    pub ratio: f32,
    /// The time of one file, in seconds.
    pub seconds: f32,
    /// Whether it was the best.
    pub is_best: bool,
}

/// All runs, by what is searched.
#[derive(Debug, Default)]
pub struct Index {
    /// Up to where it follows the database.
    counters: Counters,
    /// By sequence; `None` if it was removed.
    runs: Vec<Option<Known>>,
    machines: IndexSet<String>,
    sittings: IndexSet<(u32, String)>,
    places: IndexSet<Place>,
    methods: IndexSet<String>,
    /// By the numbers of place and method.
    seen: BTreeMap<(u32, u32), Vec<Seen>>,
}

/// What is asked for; what is not given, or empty, is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "HashMap<String, String>")]
pub struct Filter {
    /// The words of places.
    pub words: [Option<String>; WORDS.len()],
    /// A size of files in bytes: all sizes of its class.
    pub size: Option<u64>,
    /// A method that was measured.
    pub method: Option<String>,
}

impl TryFrom<HashMap<String, String>> for Filter {
    type Error = std::num::ParseIntError;

    fn try_from(mut asked: HashMap<String, String>) -> Result<Self, Self::Error> {
        asked.retain(|_, value| !value.is_empty());
        Ok(Self {
            words: WORDS.map(|(name, _)| asked.remove(name)),
            size: asked.remove("size").map(|size| size.parse()).transpose()?,
            method: asked.remove("method"),
        })
    }
}

impl IntoParams for Filter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let others = [
            ("size", "A size of files in bytes: all sizes of its class"),
            ("method", "A method that was measured"),
        ];
        let parameter = |(name, about)| {
            let parameter = ParameterBuilder::new().name(name).description(Some(about));
            parameter.parameter_in(ParameterIn::Query).build()
        };
        WORDS.into_iter().chain(others).map(parameter).collect()
    }
}

impl Filter {
    /// The same, but of a word this is asked.
    pub fn with(&self, word: Word, value: Option<&str>) -> Self {
        let mut filter = self.clone();
        filter.words[word as usize] = value.map(str::to_owned);
        filter
    }

    /// The word that is asked for.
    pub fn word(&self, word: Word) -> Option<&str> {
        self.words[word as usize].as_deref()
    }

    fn has(&self, place: &Place) -> bool {
        let class = |bytes: u64| size_class(bytes).0;
        let mut words = self.words.iter().zip(&place.words);
        self.size.is_none_or(|size| class(size) == class(place.size()))
            && words.all(|(asked, has)| asked.as_ref().is_none_or(|asked| asked == has))
    }
}

/// What a figure rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Basis {
    /// How many machines.
    pub machines: usize,
    /// How many sittings: days of a machine.
    pub sittings: usize,
    /// How many runs.
    pub runs: usize,
    /// The revisions of trials and mechanisms that measured.
    pub revisions: BTreeSet<String>,
}

impl Known {
    /// Whether it counts beside those of real storages.
    pub fn counts(&self) -> bool {
        self.stored.marks.is_empty()
    }
}

impl Index {
    /// Brings it up to date with the database.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn follow(current: &RwLock<Self>, store: &Store) -> Result<(), StoreError> {
        let now = store.counters().await?;
        loop {
            let before = current.read().await.counters;
            if before.removed < now.removed {
                let left = store.sequences().await?;
                current.write().await.keep(&left, before.added, now.removed);
            } else if before.added < now.added {
                let last = now.added.min(before.added + FETCHED);
                let news = store.news_between(before.added, last).await?;
                let mut index = current.write().await;
                // Unless another request brought them.
                if index.counters.added == before.added {
                    index.add(news);
                    index.counters.added = last;
                }
            } else {
                return Ok(());
            }
        }
    }

    /// Adds what came.
    pub fn add(&mut self, news: News) {
        for stored in news.runs {
            self.add_run(stored);
        }
        for figure in news.figures {
            if let Some(place) = news.places.get(&figure.place) {
                self.add_figure(place, &figure);
            }
        }
    }

    fn add_run(&mut self, stored: Stored) {
        let machine = number(&mut self.machines, &stored.machine);
        let sitting = number(&mut self.sittings, &(machine, stored.day.clone()));
        let at = at(stored.sequence);
        self.runs.resize(self.runs.len().max(at + 1), None);
        self.runs[at] = Some(Known {
            stored,
            machine,
            sitting,
            places: Vec::new(),
        });
    }

    fn add_figure(&mut self, place: &Place, figure: &Figure) {
        let place = number(&mut self.places, place);
        let method = number(&mut self.methods, &figure.method);
        // The run came or went meanwhile.
        let Some(Some(known)) = self.runs.get_mut(at(figure.run)) else {
            return;
        };
        if !known.places.contains(&place) {
            known.places.push(place);
        }
        if known.counts() || known.stored.marks == SIMULATED {
            self.seen.entry((place, method)).or_default().push(Seen {
                run: at(figure.run) as u32,
                machine: known.machine,
                ratio: figure.ratio as f32,
                seconds: figure.seconds as f32,
                is_best: figure.is_best > 0,
            });
        }
    }

    /// Drops the runs up to one of which nothing is left in the database.
    fn keep(&mut self, left: &HashSet<i64>, last: i64, removed: i64) {
        for run in &mut self.runs {
            let is_left = |run: &Known| run.stored.sequence > last || left.contains(&run.stored.sequence);
            *run = run.take().filter(is_left);
        }
        for seen in self.seen.values_mut() {
            seen.retain(|one| self.runs[one.run as usize].is_some());
        }
        self.counters.removed = removed;
    }

    /// What it has followed.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// All runs, the oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Known> {
        self.runs.iter().flatten()
    }

    /// What these runs are of.
    pub fn basis(&self, runs: impl Iterator<Item = u32>, revisions: &BTreeSet<String>) -> Basis {
        let mut is_in = vec![false; self.runs.len()];
        runs.for_each(|run| is_in[run as usize] = true);
        let mut basis = Basis {
            revisions: revisions.clone(),
            ..Basis::default()
        };
        let (mut machines, mut sittings) = (vec![false; self.machines.len()], vec![false; self.sittings.len()]);
        let runs = self.runs.iter().zip(is_in).filter(|(_, is_in)| *is_in);
        for run in runs.filter_map(|(run, _)| run.as_ref()) {
            basis.runs += 1;
            basis.machines += usize::from(!std::mem::replace(&mut machines[run.machine as usize], true));
            basis.sittings += usize::from(!std::mem::replace(&mut sittings[run.sitting as usize], true));
        }
        basis
    }

    /// The run of what was seen.
    pub fn run_of(&self, seen: &Seen) -> Option<&Known> {
        self.runs.get(seen.run as usize)?.as_ref()
    }

    /// What there is of a word.
    pub fn values(&self, word: usize) -> BTreeSet<&str> {
        self.places.iter().map(|place| place.words[word].as_str()).collect()
    }

    /// The methods that were measured at a place, with what was seen of each.
    pub fn seen_at(&self, place: &Place) -> impl Iterator<Item = (&str, &[Seen])> {
        let number = self.places.get_index_of(place).unwrap_or(usize::MAX) as u32;
        let seen = self.seen.range((number, 0)..=(number, u32::MAX));
        let seen = seen.filter(|(_, seen)| !seen.is_empty());
        seen.map(|(&(_, method), seen)| (self.methods[method as usize].as_str(), seen.as_slice()))
    }

    /// The kinds of storage of a run.
    pub fn kinds_of(&self, run: &Known) -> BTreeSet<&str> {
        let places = run.places.iter().map(|&place| &self.places[place as usize]);
        places.map(|place| place[Word::Kind].as_str()).collect()
    }

    /// The places that are asked for, of all revisions.
    pub fn all_places_of(&self, filter: &Filter) -> Vec<&Place> {
        self.places.iter().filter(|place| filter.has(place)).collect()
    }

    /// The places that are asked for. Unless a revision is given, they are of one: the newest that three machines measured, or else
    /// one, so that the first run of a new version does not stand for all.
    pub fn places_of(&self, filter: &Filter) -> Vec<&Place> {
        let all = self.all_places_of(filter);
        if filter.word(Word::Revision).is_some() {
            return all;
        }
        let mut revisions: BTreeMap<Vec<u32>, Vec<&Place>> = BTreeMap::new();
        for place in all {
            let numbers = place[Word::Revision].split('.');
            let revision = numbers.map(|number| number.parse().unwrap_or(0)).collect();
            revisions.entry(revision).or_default().push(place);
        }
        let chosen = [3, 1, 0].into_iter().find_map(|machines| {
            let mut newest = revisions.values().rev();
            newest.find(|places| self.is_measured_by(machines, places))
        });
        chosen.cloned().unwrap_or_default()
    }

    /// Whether so many machines measured these places, without those of simulated disks.
    fn is_measured_by(&self, machines: usize, places: &[&Place]) -> bool {
        let real = places
            .iter()
            .filter(|place| place[Word::Kind] != DeviceKind::Simulated.slug());
        let mut seen = real.flat_map(|place| self.seen_at(place)).flat_map(|(_, seen)| seen);
        let mut found = HashSet::new();
        machines == 0 || seen.any(|one| found.insert(one.machine) && found.len() == machines)
    }

    /// The runs that have any of the places, by their sequence, the newest first.
    pub fn runs_of<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Known> {
        let is_asked: Vec<bool> = self.places.iter().map(|place| filter.has(place)).collect();
        // Of what was asked for, and not of anything else that the run has.
        let with_method: Option<HashSet<i64>> = filter.method.as_ref().map(|name| {
            let number = self.methods.get_index_of(name).map_or(u32::MAX, |number| number as u32);
            let seen = self
                .seen
                .iter()
                .filter(|((place, method), _)| *method == number && is_asked[*place as usize]);
            seen.flat_map(|(_, seen)| seen).map(|one| one.run.into()).collect()
        });
        self.runs().rev().filter(move |run| match &with_method {
            Some(with_method) => with_method.contains(&run.stored.sequence),
            None => run.places.iter().any(|place| is_asked[*place as usize]),
        })
    }
}

/// Where a run is by its sequence.
fn at(sequence: i64) -> usize {
    usize::try_from(sequence).unwrap_or(0)
}

/// The number of a value; a new one has the next.
fn number<T: Clone + Eq + Hash>(values: &mut IndexSet<T>, value: &T) -> u32 {
    let known = values.get_index_of(value);
    known.unwrap_or_else(|| values.insert_full(value.clone()).0) as u32
}
