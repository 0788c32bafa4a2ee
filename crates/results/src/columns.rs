//! A run in the columns of a document: times by file size, one table for each way of writing.
//!
//! Each storage and durability has tables of its own, because unequal work is never shown side by side. So do the cache states,
//! buffers and preallocations in which the methods of a column differ. A column whose methods do not differ in one of these is in
//! all of its tables.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;
use seekless_method::{Choice, Durability, Options};
use seekless_method::{format_size, parse_size};
use seekless_record::{Cache, Column, Contest, Entry, Finding, Run, Trial};

use crate::sheet::{Sheet, SheetCell};
use crate::statistics::median;
use crate::units::sound;

/// More than any experiment gives: a run may come from a stranger.
const MOST_EXPERIMENTS: usize = 20;
const MOST_COLUMNS: usize = 24;
const MOST_POINTS: usize = 5000;
const MOST_TABLES: usize = 100;
const MOST_PUBLISHED: usize = 200;

/// The times of one way of writing.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// The index of the storage.
    pub storage: usize,
    /// The columns.
    pub columns: Vec<&'a Column>,
    /// What was measured, by size; then what was published for the same columns, durability and buffer.
    pub lines: Vec<Line<'a>>,
    durability: Durability,
    way: TableKey,
}

/// The times of one file size.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The size of the files.
    pub size_bytes: u64,
    /// The machine of published times; `None` for what was measured here.
    pub published: Option<&'a str>,
    /// A cell for each column; `None` if it is unknown.
    pub cells: Vec<Option<Cell>>,
}

/// What was measured for one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The median.
    pub seconds: f64,
    /// The median of the extents that the file had.
    extents: Option<f64>,
}

/// What distinguishes tables: buffer, preallocation and cache state; `None` for what does not.
type TableKey = [Option<Trait>; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trait {
    Buffer(u64),
    Preallocate(&'static str),
    Cache(Cache),
}

/// One measurement of a column.
struct Point {
    column: usize,
    storage: usize,
    durability: Durability,
    way: TableKey,
    size_bytes: u64,
    cell: Cell,
}

impl Point {
    /// Whether it is in the table of a way.
    fn is_in(&self, table: &TableKey) -> bool {
        let mut traits = self.way.iter().zip(table);
        traits.all(|(own, table)| own.is_none() || own == table)
    }
}

impl Table<'_> {
    /// What the table is about, as in `write-through, buffer 4K, preallocate=allocate`.
    #[must_use]
    pub fn title(&self) -> String {
        let durability = match self.durability {
            Durability::None => "not synced".to_owned(),
            durability => durability.name().to_owned(),
        };
        let traits = self.way.iter().flatten().map(|own| match own {
            Trait::Buffer(bytes) => format!("buffer {}", format_size(*bytes)),
            Trait::Preallocate("none") => "not preallocated".to_owned(),
            Trait::Preallocate(name) => format!("preallocate={name}"),
            Trait::Cache(cache) => cache.name().to_owned(),
        });
        std::iter::once(durability).chain(traits).collect::<Vec<_>>().join(", ")
    }

    /// Milliseconds of a file for each size and column, the extents of the first column's file, and the machine of what was
    /// published, if something was.
    #[must_use]
    pub fn sheet(&self, title: &str) -> Sheet {
        let mut sheet = Sheet::new(title);
        for line in &self.lines {
            let size = SheetCell::figure(Some(line.size_bytes as f64), |_| document_size(line.size_bytes));
            let times = self.columns.iter().zip(&line.cells).map(|(column, cell)| {
                let seconds = cell.map(|cell| cell.seconds);
                let time = SheetCell::figure(seconds, |seconds| format!("{:.3}", seconds * 1e3));
                (column.name.as_str(), time)
            });
            let extents = SheetCell::figure(line.extents(), |extents| extents.to_string());
            let machine = SheetCell::words(line.published.unwrap_or_default());
            let published = self.has_published().then_some(("Published", machine));
            let cells = [("Bytes", size)].into_iter().chain(times).chain([("Extents", extents)]);
            sheet.push(None, cells.chain(published));
        }
        sheet
    }

    /// Whether something was published of it.
    #[must_use]
    pub fn has_published(&self) -> bool {
        self.lines.iter().any(|line| line.published.is_some())
    }
}

impl Line<'_> {
    /// The extents of the file of the first column.
    fn extents(&self) -> Option<f64> {
        self.cells.first().copied().flatten()?.extents
    }
}

/// A size, in the units of the documents if it is a round one.
#[must_use]
pub fn document_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        bytes if bytes > 0 && bytes.is_multiple_of(1000) => format!("{} kB", bytes / 1000),
        bytes => format_size(bytes),
    }
}

/// The tables of all experiments that give columns.
#[must_use]
pub fn tables<'a>(run: &'a Run, trials: &[Vec<Vec<&Trial>>]) -> Vec<Table<'a>> {
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

fn of_experiment<'a>(run: &'a Run, trials: &[Vec<Vec<&Trial>>], experiment: &str) -> Vec<Table<'a>> {
    let columns = run.columns.iter().filter(|column| column.experiment == experiment);
    let columns: Vec<&Column> = columns.take(MOST_COLUMNS).collect();
    let points = columns.iter().enumerate();
    let points = points.flat_map(|(index, column)| points_of(run, trials, index, column));
    let points: Vec<Point> = points.take(MOST_POINTS).collect();
    let places: BTreeSet<(usize, Durability)> = points.iter().map(|point| (point.storage, point.durability)).collect();
    let mut tables = Vec::new();
    for (storage, durability) in places {
        let here = points.iter();
        let here = here.filter(|point| (point.storage, point.durability) == (storage, durability));
        let here: Vec<&Point> = here.collect();
        tables.extend(ways(&here).into_iter().map(|way| {
            let mut lines = lines(&here, &way, columns.len());
            lines.extend(published(run, experiment, durability, way, &columns));
            Table {
                storage,
                columns: columns.clone(),
                lines,
                durability,
                way,
            }
        }));
    }
    tables
}

/// What was published of a table's columns: of its buffer and durability, where the finding names one. A line has what one
/// machine took for files of one size.
fn published<'a>(
    run: &'a Run,
    experiment: &str,
    durability: Durability,
    way: TableKey,
    columns: &[&Column],
) -> Vec<Line<'a>> {
    let is_here = |finding: &Finding| {
        let block = finding.block.as_deref().and_then(|block| parse_size(block).ok());
        let buffer = block.map(Trait::Buffer);
        (way[0].is_none() || buffer.is_none() || buffer == way[0])
            && finding.durability.is_none_or(|own| own == durability)
    };
    let sources = run.published.iter().filter(|source| source.experiment == *experiment);
    let findings = sources.flat_map(|source| source.findings.iter().map(move |finding| (source, finding)));
    let figures = findings
        .filter(|(_, finding)| is_here(finding))
        .filter_map(|(source, finding)| {
            let column = columns.iter().position(|column| column.name == finding.method)?;
            let size_bytes = finding.at_least_bytes.filter(|&bytes| bytes > 0)?;
            Some((
                column,
                (size_bytes, Some(source.machine.as_str())),
                sound(finding.seconds?)?,
            ))
        });
    let mut lines: Vec<Line<'a>> = Vec::new();
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

/// All that was measured of a column. What all of it has in common does not tell its tables apart.
fn points_of(run: &Run, trials: &[Vec<Vec<&Trial>>], index: usize, column: &Column) -> Vec<Point> {
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
    let points = points.filter_map(|((place, entry), contest, measured)| {
        Some(Point {
            column: index,
            storage: contest.storage,
            durability: contest.durability,
            way: way_of(contest, measured)?,
            size_bytes: contest.size_bytes,
            cell: Cell {
                seconds: measured.summary.as_ref()?.seconds.median / f64::from(contest.files),
                extents: extents(&trials[place][entry]),
            },
        })
    });
    let mut points: Vec<Point> = points.take(MOST_POINTS).collect();
    for place in 0..3 {
        let is_one = points.windows(2).all(|pair| pair[0].way[place] == pair[1].way[place]);
        for point in points.iter_mut().filter(|_| is_one) {
            point.way[place] = None;
        }
    }
    points
}

fn way_of(contest: &Contest, entry: &Entry) -> Option<TableKey> {
    let options = match entry.choice()? {
        Choice::Method(method) => *method.options(),
        Choice::Plan(_) => Options::default(),
    };
    Some([
        options.block_bytes().map(Trait::Buffer),
        Some(Trait::Preallocate(options.preallocate().name())),
        Some(Trait::Cache(contest.cache)),
    ])
}

fn extents(trials: &[&Trial]) -> Option<f64> {
    let extents = trials.iter().filter_map(|trial| trial.extents);
    median(&extents.map(|extents| extents as f64).collect::<Vec<_>>())
}

/// The ways that have a table: all combinations of what points differ in, if anything was measured for them.
fn ways(points: &[&Point]) -> Vec<TableKey> {
    let anywhere: TableKey = [None; 3];
    let mut ways = vec![anywhere];
    for place in 0..3 {
        let known: BTreeSet<Trait> = points.iter().filter_map(|point| point.way[place]).collect();
        if known.is_empty() {
            continue;
        }
        let with = |way: &TableKey, own: Trait| {
            let mut way = *way;
            way[place] = Some(own);
            way
        };
        let combined = ways.iter().flat_map(|way| known.iter().map(move |&own| with(way, own)));
        ways = combined.collect();
    }
    let tells = |way: &TableKey| points.iter().any(|point| point.way != anywhere && point.is_in(way));
    ways.retain(|way| *way == anywhere || tells(way));
    ways.truncate(MOST_TABLES);
    ways
}

fn lines<'a>(points: &[&Point], way: &TableKey, columns: usize) -> Vec<Line<'a>> {
    let mut lines: BTreeMap<u64, Vec<Option<Cell>>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.is_in(way)) {
        let cells = lines.entry(point.size_bytes).or_insert_with(|| vec![None; columns]);
        cells[point.column].get_or_insert(point.cell);
    }
    let line = |(size_bytes, cells)| Line {
        size_bytes,
        published: None,
        cells,
    };
    lines.into_iter().map(line).collect()
}
