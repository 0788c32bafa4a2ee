//! Files that a catalogue has, too.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{CatalogueError, CatalogueRow, RowReader};
use crate::Stop;
use crate::dupes::digest::whole_digest;
use crate::dupes::disk_order::look_at_devices;
use crate::dupes::heads::{AllHeads, all_heads};
use crate::dupes::opened::sort_out;
use crate::dupes::{Search, SearchOptions, distinct, planned};
use crate::json;
use crate::walk::{Files, Filter, Listed, Selection, Unlisted};
use crate::watch::JobWatch;

/// A name of a file in a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CatalogueName {
    /// The machine or drive.
    pub host: String,
    /// Its path there.
    #[serde(with = "json::path")]
    pub path: PathBuf,
    /// Whether inode number and times are also the same, so that it may be the file itself.
    pub is_itself: bool,
}

/// A file that a catalogue has, too, as far as digests tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The names of the file here.
    #[serde(with = "json::paths")]
    pub paths: Vec<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// Names there with the same digest.
    pub same: Vec<CatalogueName>,
    /// How many there are besides.
    pub more_same: u64,
    /// Names there of files with the same size and the same beginning, of whose content the catalogue has no digest.
    pub perhaps: Vec<CatalogueName>,
    /// How many there are besides.
    pub more_perhaps: u64,
}

/// Of the names of one content in catalogues, those that are told. A small catalogue may have millions of them.
const TOLD: usize = 10;

/// The names of one content in catalogues.
#[derive(Default)]
struct ContentNames {
    others: Vec<CatalogueRow>,
    /// Files that may be files here, each once.
    own: Vec<CatalogueRow>,
    more: u64,
}

/// Size and digest of the beginning.
type Beginning = (u64, u64);

/// Names in catalogues, by the beginning of their files and a digest of the whole; those of which there is none have none.
type NamesByContent = HashMap<(Beginning, Option<[u8; 32]>), ContentNames>;

/// What is needed of files with such a beginning.
const COLUMNS: [&str; 8] = [
    "host",
    "path",
    "size",
    "inode",
    "mtime_ns",
    "changed_ns",
    "first",
    "blake3",
];

/// What was found.
#[derive(Debug, Default)]
pub struct CatalogueMatches {
    /// The files that are there, too, in the order of their first paths.
    pub matches: Vec<Match>,
    /// The files that were searched.
    pub files: u64,
    /// What could not be read, and why.
    pub failures: Vec<Unlisted>,
    /// What changed meanwhile.
    pub changed: Vec<Unlisted>,
}

/// Whether a file is a catalogue, perhaps a damaged one.
#[must_use]
pub fn is_catalogue(path: &Path) -> bool {
    match RowReader::open(path) {
        Ok(reader) => reader.is_some(),
        Err(error) => error.kind() == io::ErrorKind::InvalidData,
    }
}

/// Finds the files below the paths of a selection that catalogues have, too.
///
/// # Errors
/// If a catalogue cannot be read.
pub fn elsewhere(
    selection: &Selection,
    filter: &Filter,
    catalogues: &[PathBuf],
    keeps_cached: bool,
    watch: &dyn JobWatch,
) -> Result<CatalogueMatches, CatalogueError> {
    let read =
        |columns: &[&str], each: &mut dyn FnMut(CatalogueRow)| read_rows(catalogues, columns, watch.stop(), &mut *each);
    let (process, plan) = planned();
    let found = Files::list(selection, filter, false, &plan.batch, watch);
    let (mut numbers, names) = distinct(&found.files);
    let searched = numbers.len() as u64;
    let options = SearchOptions {
        keeps_cached,
        ..SearchOptions::default()
    };
    let mut search = Search::new(&found.files, (process, plan), &options, watch, names, None);
    let bytes = |number: &u32| found.files.get(*number).bytes;
    let sizes: HashSet<u64> = numbers.iter().map(bytes).collect();
    let mut there = HashSet::new();
    read(&["size"], &mut |row| {
        if sizes.contains(&row.bytes) {
            there.insert(row.bytes);
        }
    })?;
    numbers.retain(|number| there.contains(&bytes(number)));
    look_at_devices(&mut search, &mut numbers);
    let AllHeads {
        digests: heads,
        mut failed,
        ..
    } = all_heads(&mut search, &numbers, |_| ());
    let beginning = |digest: &u64, number: &u32| (bytes(number), *digest);
    let mut beginnings: HashMap<Beginning, [bool; 2]> = heads
        .iter()
        .map(|(digest, number)| (beginning(digest, number), [false; 2]))
        .collect();
    read(&["size", "first", "blake3"], &mut |row| {
        if let Some(there) = row.beginning().and_then(|beginning| beginnings.get_mut(&beginning)) {
            there[usize::from(row.blake3.is_some())] = true;
        }
    })?;
    let there = |(digest, number): &(u64, u32)| beginnings[&beginning(digest, number)];
    let alike: Vec<(u64, u32)> = heads.into_iter().filter(|head| there(head).contains(&true)).collect();
    let digests = search.map(&alike, |head| {
        let [_, has_whole] = there(head);
        has_whole.then(|| whole_digest(&search, head.1)).transpose()
    });
    let mut contents = Vec::new();
    for ((digest, number), whole) in alike.into_iter().zip(digests) {
        match whole {
            Ok(whole) => contents.push((
                number,
                (beginning(&digest, &number), whole.map(|(whole, _)| *whole.as_bytes())),
            )),
            Err(error) => failed.push((number, error)),
        }
    }
    // Only of contents that are here: a small catalogue may have digests of millions of others.
    let keys = contents.iter().flat_map(|(_, key)| [*key, (key.0, None)]);
    let mut places: NamesByContent = keys.map(|key| (key, ContentNames::default())).collect();
    let own: HashSet<Mark> = contents
        .iter()
        .map(|(number, _)| found.files.get(*number).mark())
        .collect();
    read(&COLUMNS, &mut |row| {
        let beginning = row.beginning();
        if let Some(places) = beginning.and_then(|beginning| places.get_mut(&(beginning, row.blake3))) {
            places.add(row, &own);
        }
    })?;
    let matches = contents.into_iter().filter_map(|(number, key)| {
        let mut paths: Vec<PathBuf> = search.names_of(number).map(|name| found.files.path(name)).collect();
        paths.sort();
        Match::of(paths, found.files.get(number), &places, key)
    });
    let mut matches: Vec<Match> = matches.collect();
    matches.sort_by(|one, other| one.paths.cmp(&other.paths));
    let (changed, failures) = sort_out(&search, failed, found.gone, found.failures);
    Ok(CatalogueMatches {
        matches,
        files: searched,
        failures,
        changed,
    })
}

/// Calls `each` with the rows of all catalogues, of which these columns are read.
fn read_rows(
    catalogues: &[PathBuf],
    columns: &[&str],
    stop: &Stop,
    each: &mut dyn FnMut(CatalogueRow),
) -> Result<(), CatalogueError> {
    catalogues.iter().try_for_each(|path| {
        let failed = |reason: &dyn std::fmt::Display| CatalogueError::of(path, "read", reason);
        let reader = RowReader::open(path).map_err(|error| failed(&error))?;
        let reader = reader.ok_or_else(|| failed(&"it is not a catalogue"))?;
        reader.rows(columns, stop, &mut *each).map_err(|error| failed(&error))
    })
}

impl Match {
    /// A file here, if catalogues have names of files with its digest, or with its beginning and no digest.
    fn of(
        paths: Vec<PathBuf>,
        here: &Listed,
        alike: &NamesByContent,
        (beginning, digest): (Beginning, Option<[u8; 32]>),
    ) -> Option<Self> {
        let told = |digest| {
            alike
                .get(&(beginning, digest))
                .map_or_else(Default::default, |places| places.told(here))
        };
        let (same, more_same) = digest.map_or_else(Default::default, |digest| told(Some(digest)));
        let (perhaps, more_perhaps) = told(None);
        let found = Self {
            paths,
            bytes: here.bytes,
            same,
            more_same,
            perhaps,
            more_perhaps,
        };
        (!found.same.is_empty() || !found.perhaps.is_empty()).then_some(found)
    }
}

/// Inode number, mtime and ctime.
type Mark = (u64, i64, i64);

impl Listed {
    fn mark(&self) -> Mark {
        (self.inode, self.modified_ns, self.changed_ns)
    }
}

impl ContentNames {
    fn add(&mut self, row: CatalogueRow, own: &HashSet<Mark>) {
        let is_own = own.contains(&row.mark());
        let told = if is_own { &mut self.own } else { &mut self.others };
        let is_again = is_own && told.iter().any(|other| other.mark() == row.mark());
        if told.len() < TOLD && !is_again {
            told.push(row);
        } else {
            self.more += 1;
        }
    }

    fn told(&self, here: &Listed) -> (Vec<CatalogueName>, u64) {
        let all = self.others.iter().chain(&self.own);
        let more = all.clone().count().saturating_sub(TOLD) as u64;
        (all.take(TOLD).map(|row| row.place(here)).collect(), self.more + more)
    }
}

impl CatalogueRow {
    fn beginning(&self) -> Option<Beginning> {
        Some((self.bytes, self.first?))
    }

    fn mark(&self) -> Mark {
        (self.inode, self.modified_ns, self.changed_ns)
    }

    fn place(&self, here: &Listed) -> CatalogueName {
        CatalogueName {
            host: self.host.clone(),
            path: OsString::from_vec(self.path.clone()).into(),
            is_itself: self.mark() == here.mark(),
        }
    }
}
