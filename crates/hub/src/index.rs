//! What is known of all runs, in memory: the pages and the search read it. It follows the database, so that several servers may share
//! one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use seekless_results::size_class;
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;
use utoipa::{IntoParams, ToSchema};

use crate::accept::Mark;
use crate::figure::Place;
use crate::store::{Counters, FigureRow, Store, StoreError, Stored};

/// A run, as the index knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// As it is stored.
    pub stored: Stored,
    /// The number of its machine.
    pub machine: u32,
    /// The places that it has, each once.
    pub places: Vec<u32>,
}

/// A method in a contest of a run.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The number of the run.
    pub run: u32,
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
    runs: Vec<Known>,
    machines: HashMap<String, u32>,
    places: Vec<Place>,
    /// The values of each word of places.
    values: [BTreeSet<String>; 10],
    numbers: HashMap<i64, u32>,
    methods: Vec<String>,
    method_numbers: HashMap<String, u32>,
    seen: BTreeMap<(u32, u32), Vec<Seen>>,
}

/// What is asked for; what is not given is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct Filter {
    /// The kind of storage, as in `nvme`.
    pub kind: Option<String>,
    /// The model of the device.
    pub model: Option<String>,
    /// The file system.
    pub file_system: Option<String>,
    /// The system and its version, as in `Linux 6.18`.
    pub kernel: Option<String>,
    /// `read`, `write`, `copy`, `compare`, `update` or `scan`.
    pub operation: Option<String>,
    /// The cache state.
    pub cache: Option<String>,
    /// The target of writes and copies.
    pub target: Option<String>,
    /// What is on the device at the end.
    pub durability: Option<String>,
    /// What else makes it another task.
    pub work: Option<String>,
    /// A size of files in bytes: all sizes of its class.
    pub size: Option<u64>,
    /// The revision of trials and mechanisms, as in `1.2`; the newest if it is not given.
    pub revision: Option<String>,
    /// A method that was measured.
    pub method: Option<String>,
}

impl Filter {
    /// The fields that name a value of a place, each with what it is called.
    pub fn words(&self) -> [(&'static str, Option<&String>); 10] {
        [
            ("kind", self.kind.as_ref()),
            ("model", self.model.as_ref()),
            ("file_system", self.file_system.as_ref()),
            ("kernel", self.kernel.as_ref()),
            ("operation", self.operation.as_ref()),
            ("cache", self.cache.as_ref()),
            ("target", self.target.as_ref()),
            ("durability", self.durability.as_ref()),
            ("work", self.work.as_ref()),
            ("revision", self.revision.as_ref()),
        ]
    }

    fn has(&self, place: &Place) -> bool {
        let words = self.words().into_iter().zip(place.words());
        let is_alike =
            |(asked, has): ((_, Option<&String>), &str)| asked.1.is_none_or(|asked| asked.is_empty() || asked == has);
        let class = |bytes: u64| size_class(bytes).0;
        let has_size = self
            .size
            .is_none_or(|size| class(size) == class(place.size_bytes.unsigned_abs()));
        has_size && words.into_iter().all(is_alike)
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
    /// Brings it up to date with the database; says whether anything changed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn follow(current: &RwLock<Self>, store: &Store) -> Result<bool, StoreError> {
        let now = store.counters().await?;
        let before = current.read().await.counters;
        if now == before {
            return Ok(false);
        }
        if now.removed == before.removed {
            // Other requests wait for a moment.
            let mut index = current.write().await;
            if index.counters == before {
                index.load(store, now).await?;
            }
        } else {
            // Of removed runs, nothing is left that tells which they were.
            let mut fresh = Self::default();
            fresh.load(store, now).await?;
            *current.write().await = fresh;
        }
        Ok(true)
    }

    /// Adds what is new.
    async fn load(&mut self, store: &Store, now: Counters) -> Result<(), StoreError> {
        let places = store.places().await?;
        let mut numbers: HashMap<i64, u32> = HashMap::new();
        for stored in store.runs_between(self.counters.added, now.added).await? {
            numbers.insert(stored.sequence, self.add_run(stored));
        }
        let after = self.counters.added;
        let add = |row: FigureRow<'_>| {
            // The run came or went meanwhile.
            if let (Some(&run), Some(place)) = (numbers.get(&row.run), places.get(&row.place)) {
                self.add_row(run, place, row);
            }
        };
        store.figures_between(after, now.added, add).await?;
        self.counters = now;
        Ok(())
    }

    /// Adds a run, and gives its number.
    pub fn add_run(&mut self, stored: Stored) -> u32 {
        let next = self.machines.len() as u32;
        let machine = *self.machines.entry(stored.machine.clone()).or_insert(next);
        self.runs.push(Known {
            stored,
            machine,
            places: Vec::new(),
        });
        self.runs.len() as u32 - 1
    }

    /// Adds a row of a run by the run's number.
    pub fn add_row(&mut self, run: u32, place: &Place, row: FigureRow<'_>) {
        let place = self.place(row.place, place);
        let method = self.method(row.method);
        let known = &mut self.runs[run as usize];
        if !known.places.contains(&place) {
            known.places.push(place);
        }
        let is_simulated_alone = known.stored.marks == [Mark::Simulated];
        if known.stored.marks.is_empty() || is_simulated_alone {
            let (ratio, seconds, is_best) = (row.ratio as f32, row.seconds as f32, row.is_best);
            self.seen.entry((place, method)).or_default().push(Seen {
                run,
                ratio,
                seconds,
                is_best,
            });
        }
    }

    fn place(&mut self, number: i64, place: &Place) -> u32 {
        *self.numbers.entry(number).or_insert_with(|| {
            for (values, word) in self.values.iter_mut().zip(place.words()) {
                if !values.contains(word) {
                    values.insert(word.to_owned());
                }
            }
            self.places.push(place.clone());
            self.places.len() as u32 - 1
        })
    }

    fn method(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.method_numbers.get(name) {
            return known;
        }
        let number = self.methods.len() as u32;
        self.methods.push(name.to_owned());
        self.method_numbers.insert(name.to_owned(), number);
        number
    }

    /// What it has followed.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// All runs, the oldest first.
    pub fn runs(&self) -> &[Known] {
        &self.runs
    }

    /// Gives all rows of a place: the run, the place, the method and the figures.
    pub fn rows_of(&self, place: u32, mut each: impl FnMut(&Known, &Place, &str, Seen)) {
        for (method, seen) in self.seen_at(place) {
            for &one in seen {
                each(
                    &self.runs[one.run as usize],
                    self.place_at(place),
                    self.name_of(method),
                    one,
                );
            }
        }
    }

    /// What there is of each word of a filter.
    pub fn values(&self) -> &[BTreeSet<String>; 10] {
        &self.values
    }

    /// A place by its number.
    pub fn place_at(&self, place: u32) -> &Place {
        &self.places[place as usize]
    }

    /// The name of a method by its number.
    pub fn name_of(&self, method: u32) -> &str {
        &self.methods[method as usize]
    }

    /// The methods that were measured at a place, by their numbers, with what was seen of each.
    pub fn seen_at(&self, place: u32) -> impl Iterator<Item = (u32, &[Seen])> {
        let seen = self.seen.range((place, 0)..=(place, u32::MAX));
        seen.map(|(&(_, method), seen)| (method, seen.as_slice()))
    }

    /// The kinds of storage of a run.
    pub fn kinds_of(&self, run: &Known) -> BTreeSet<&str> {
        run.places
            .iter()
            .map(|&place| self.places[place as usize].kind.as_str())
            .collect()
    }

    /// The places that are asked for: of the newest revision that has any, unless one is given.
    pub fn places_of(&self, filter: &Filter) -> Vec<u32> {
        let found = |place: &u32| filter.has(&self.places[*place as usize]);
        let mut places: Vec<u32> = (0..self.places.len() as u32).filter(found).collect();
        let revision = |place: &u32| {
            let mut numbers = self.places[*place as usize]
                .revision
                .split('.')
                .map(|part| part.parse::<u32>().unwrap_or(0));
            (numbers.next(), numbers.next())
        };
        if filter.revision.is_none() {
            let newest = places.iter().map(revision).max();
            places.retain(|place| Some(revision(place)) == newest);
        }
        places
    }

    /// The runs that have any of the places, by their sequence, the newest first.
    pub fn runs_of<'a>(&'a self, filter: &Filter) -> impl Iterator<Item = &'a Known> {
        let any = Filter {
            revision: filter.revision.clone().or_else(|| Some(String::new())),
            ..filter.clone()
        };
        let places: BTreeSet<u32> = self.places_of(&any).into_iter().collect();
        // Of what was asked for, and not of anything else that the run has.
        let with_method: Option<HashSet<u32>> = filter.method.as_ref().map(|name| {
            let number = self.method_numbers.get(name);
            let seen = |&place: &u32| self.seen.get(&(place, *number?));
            places.iter().filter_map(seen).flatten().map(|one| one.run).collect()
        });
        let is_all = *filter == Filter::default();
        let is_asked = move |number: usize, run: &Known| match &with_method {
            Some(with_method) => with_method.contains(&(number as u32)),
            None => is_all || run.places.iter().any(|place| places.contains(place)),
        };
        let runs = self.runs.iter().enumerate().rev();
        runs.filter_map(move |(number, run)| is_asked(number, run).then_some(run))
    }
}
