//! A run in the columns of a document: times by file size, a table for each way of writing.
//!
//! A storage and a durability have tables of their own: what is not equal work never stands side by side. So have the
//! cache states, buffers and preallocations in which some column's methods differ. A column whose methods do not differ in
//! one of these stands in all tables that do.

use std::collections::BTreeSet;

use globset::Glob;
use seekless_method::{Choice, Durability, Options};
use seekless_method::{format_size, parse_size};
use seekless_record::{Cache, Column, Contest, Entry, Finding, Run, Trial};

use crate::statistics::median;
use crate::trials::Trials;

/// More than any experiment gives: a run may come from a stranger.
const MOST_EXPERIMENTS: usize = 20;
const MOST_COLUMNS: usize = 24;
const MOST_POINTS: usize = 5000;
const MOST_TABLES: usize = 100;
const MOST_PUBLISHED: usize = 200;

/// What is told of one way of writing.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// The index of the storage.
    pub storage: usize,
    /// The durability.
    pub durability: Durability,
    /// What tells the table from others.
    pub way: Way,
    /// The columns.
    pub columns: Vec<&'a Column>,
    /// What was measured, by size, and then what was published of the same columns, durability and buffer.
    pub lines: Vec<Line<'a>>,
}

/// What the columns tell of one size.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The size of the files.
    pub size_bytes: u64,
    /// The machine that was published about; `None` for what was measured here.
    pub published: Option<&'a str>,
    /// A cell for each column, where it is known.
    pub cells: Vec<Option<Cell>>,
}

/// What was measured for one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The median.
    pub seconds: f64,
    /// The median of the extents that the file had.
    pub extents: Option<f64>,
}

/// What tells tables apart; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The size of the buffer.
    pub block_bytes: Option<u64>,
    preallocate: Option<&'static str>,
    cache: Option<Cache>,
}

/// One measurement of a column.
struct Point {
    column: usize,
    storage: usize,
    durability: Durability,
    way: Way,
    size_bytes: u64,
    cell: Cell,
}

impl Way {
    /// Whether a column that is told apart like this stands in the table of another way.
    fn is_in(self, table: Self) -> bool {
        fn is_in<T: PartialEq + Copy>(own: Option<T>, table: Option<T>) -> bool {
            own.is_none() || own == table
        }
        is_in(self.block_bytes, table.block_bytes)
            && is_in(self.preallocate, table.preallocate)
            && is_in(self.cache, table.cache)
    }
}

impl Table<'_> {
    /// What the table is about, as in `write-through, buffer 4K, preallocate=allocate`.
    #[must_use]
    pub fn title(&self) -> String {
        let durability = if self.durability == Durability::None {
            "not synced"
        } else {
            self.durability.name()
        };
        let mut words = vec![durability.to_owned()];
        words.extend(
            self.way
                .block_bytes
                .map(|bytes| format!("buffer {}", format_size(bytes))),
        );
        words.extend(self.way.preallocate.map(|name| match name {
            "none" => "not preallocated".to_owned(),
            name => format!("preallocate={name}"),
        }));
        words.extend(self.way.cache.map(|cache| format!("{cache:?}").to_lowercase()));
        words.join(", ")
    }
}

/// The tables of all experiments that give columns.
#[must_use]
pub fn tables<'a>(run: &'a Run, trials: &Trials<'a>) -> Vec<Table<'a>> {
    let mut experiments: Vec<&str> = Vec::new();
    for column in &run.columns {
        if !experiments.contains(&column.experiment.as_str()) && experiments.len() < MOST_EXPERIMENTS {
            experiments.push(&column.experiment);
        }
    }
    let tables = experiments
        .into_iter()
        .flat_map(|experiment| of_experiment(run, trials, experiment));
    tables.take(MOST_TABLES).collect()
}

fn of_experiment<'a>(run: &'a Run, trials: &Trials<'a>, experiment: &str) -> Vec<Table<'a>> {
    let columns = run.columns.iter().filter(|column| column.experiment == experiment);
    let columns: Vec<&Column> = columns.take(MOST_COLUMNS).collect();
    let mut points = Vec::<Point>::new();
    for (index, column) in columns.iter().enumerate() {
        let mut own = points_of(run, trials, index, column);
        forget_what_is_the_same(&mut own);
        points.append(&mut own);
    }
    points.truncate(MOST_POINTS);
    let places: BTreeSet<(usize, Durability)> = points.iter().map(|point| (point.storage, point.durability)).collect();
    let of_place = |(storage, durability): (usize, Durability)| {
        let here: Vec<&Point> = points
            .iter()
            .filter(|point| (point.storage, point.durability) == (storage, durability))
            .collect();
        let tables = ways(&here).into_iter().map(|way| Table {
            storage,
            durability,
            way,
            columns: columns.clone(),
            lines: [
                lines(&here, way, columns.len()),
                published(run, experiment, (durability, way), &columns),
            ]
            .concat(),
        });
        tables.collect::<Vec<_>>()
    };
    places.into_iter().flat_map(of_place).collect()
}

/// What was published of a table's columns: of its buffer and durability, where the finding names one. A line has what one
/// machine took for files of one size.
fn published<'a>(
    run: &'a Run,
    experiment: &str,
    (durability, way): (Durability, Way),
    columns: &[&Column],
) -> Vec<Line<'a>> {
    let is_here = |finding: &Finding| {
        let block_bytes = finding.block.as_deref().and_then(|block| parse_size(block).ok());
        (way.block_bytes.is_none() || block_bytes.is_none() || block_bytes == way.block_bytes)
            && finding.durability.is_none_or(|own| own == durability)
    };
    let mut lines: Vec<Line<'a>> = Vec::new();
    let sources = run.published.iter().filter(|source| source.experiment == *experiment);
    let findings = sources.flat_map(|source| source.findings.iter().map(move |finding| (source, finding)));
    let figures = findings
        .filter(|(_, finding)| is_here(finding))
        .filter_map(|(source, finding)| {
            let column = columns.iter().position(|column| column.name == finding.method)?;
            let size_bytes = finding.at_least_bytes.filter(|&bytes| bytes > 0)?;
            let seconds = finding
                .seconds
                .filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
            Some((column, (size_bytes, Some(source.machine.as_str())), seconds))
        });
    for (column, key, seconds) in figures.take(MOST_PUBLISHED) {
        let place = lines.iter().position(|line| (line.size_bytes, line.published) == key);
        let place = place.unwrap_or_else(|| {
            lines.push(Line {
                size_bytes: key.0,
                published: key.1,
                cells: vec![None; columns.len()],
            });
            lines.len() - 1
        });
        lines[place].cells[column] = Some(Cell { seconds, extents: None });
    }
    lines
}

/// All that was measured of a column.
fn points_of(run: &Run, trials: &Trials<'_>, index: usize, column: &Column) -> Vec<Point> {
    // As in experiments, `*` stands for any text, `/` and `,` included.
    let Ok(glob) = Glob::new(&column.methods) else {
        return Vec::new();
    };
    let glob = glob.compile_matcher();
    let is_meant = |contest: &Contest| {
        (&contest.experiment, &contest.operation) == (&column.experiment, &column.operation)
            && column.target.is_none_or(|target| contest.target == target)
            && column
                .draw
                .is_none_or(|draw| contest.updates.is_some_and(|updates| updates.draw == draw))
    };
    let contests = run.contests.iter().enumerate().filter(|(_, contest)| is_meant(contest));
    let entries = contests.flat_map(|(place, contest)| {
        let entries = contest.entries.iter().enumerate();
        entries.map(move |(entry, measured)| ((place, entry), contest, measured))
    });
    let points = entries.filter(|(.., measured)| glob.is_match(&*measured.name()));
    let points = points.filter_map(|(place, contest, measured)| {
        Some(Point {
            column: index,
            storage: contest.storage,
            durability: contest.durability,
            way: way_of(contest, measured)?,
            size_bytes: contest.size_bytes,
            cell: Cell {
                seconds: measured.summary.as_ref()?.seconds.median / f64::from(contest.files),
                extents: extents(trials.of(place.0, place.1)),
            },
        })
    });
    points.take(MOST_POINTS).collect()
}

fn way_of(contest: &Contest, entry: &Entry) -> Option<Way> {
    let options = match entry.choice()? {
        Choice::Method(method) => *method.options(),
        Choice::Plan(_) => Options::default(),
    };
    Some(Way {
        block_bytes: options.block_bytes(),
        preallocate: Some(options.preallocate().name()),
        cache: Some(contest.cache),
    })
}

fn extents(trials: &[&Trial]) -> Option<f64> {
    let extents = trials.iter().filter_map(|trial| trial.extents);
    median(&extents.map(|extents| extents as f64).collect::<Vec<_>>())
}

/// What all points of a column have in common does not tell its tables apart.
fn forget_what_is_the_same(points: &mut [Point]) {
    let Some(first) = points.first().map(|point| point.way) else {
        return;
    };
    let all = |is_same: &dyn Fn(Way) -> bool| points.iter().all(|point| is_same(point.way));
    let is_one_block = all(&|way| way.block_bytes == first.block_bytes);
    let is_one_preallocation = all(&|way| way.preallocate == first.preallocate);
    let is_one_cache = all(&|way| way.cache == first.cache);
    for Point { way, .. } in points {
        way.block_bytes = way.block_bytes.filter(|_| !is_one_block);
        way.preallocate = way.preallocate.filter(|_| !is_one_preallocation);
        way.cache = way.cache.filter(|_| !is_one_cache);
    }
}

/// The ways that have a table: all combinations of what tells points apart, of which something was measured.
fn ways(points: &[&Point]) -> Vec<Way> {
    fn values<T: Ord + Copy>(points: &[&Point], of: fn(Way) -> Option<T>) -> Vec<Option<T>> {
        let known: BTreeSet<T> = points.iter().filter_map(|point| of(point.way)).collect();
        if known.is_empty() {
            vec![None]
        } else {
            known.into_iter().map(Some).collect()
        }
    }
    let mut ways = Vec::new();
    for block_bytes in values(points, |way| way.block_bytes) {
        for preallocate in values(points, |way| way.preallocate) {
            for cache in values(points, |way| way.cache) {
                ways.push(Way {
                    block_bytes,
                    preallocate,
                    cache,
                });
            }
        }
    }
    let anywhere = Way::default();
    let tells = |way: Way| points.iter().any(|point| point.way != anywhere && point.way.is_in(way));
    ways.retain(|&way| way == anywhere || tells(way));
    ways.truncate(MOST_TABLES);
    ways
}

fn lines<'a>(points: &[&Point], way: Way, columns: usize) -> Vec<Line<'a>> {
    let here: Vec<&&Point> = points.iter().filter(|point| point.way.is_in(way)).collect();
    let sizes: BTreeSet<u64> = here.iter().map(|point| point.size_bytes).collect();
    let line = |size_bytes| {
        let cell = |column| {
            let mut own = here
                .iter()
                .filter(|point| (point.column, point.size_bytes) == (column, size_bytes));
            own.next().map(|point| point.cell)
        };
        Line {
            size_bytes,
            published: None,
            cells: (0..columns).map(cell).collect(),
        }
    };
    sizes.into_iter().map(line).collect()
}
