//! Files that a catalogue has, too.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{CatalogueError, Reader, Row};
use crate::Stop;
use crate::dupes::heads::AllHeads;
use crate::dupes::{Search, SearchOptions, SearchProgress, Tell, distinct, planned};
use crate::json;
use crate::walk::{Files, Filter, Listed, Selection, Unlisted};

/// A name of a file in a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
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
    /// The files there with the same digest.
    pub same: Vec<Elsewhere>,
    /// The files there with the same size and the same beginning, of whose content the catalogue has no digest.
    pub perhaps: Vec<Elsewhere>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct FoundElsewhere {
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
    match Reader::open(path) {
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
    stop: &Stop,
    tell: Tell<'_>,
) -> Result<FoundElsewhere, CatalogueError> {
    let read = |columns: &[&str], each: &mut dyn FnMut(Row)| {
        catalogues.iter().try_for_each(|path| {
            let failed = |reason: &dyn std::fmt::Display| CatalogueError::of(path, "read", reason);
            let reader = Reader::open(path).map_err(|error| failed(&error))?;
            let reader = reader.ok_or_else(|| failed(&"it is not a catalogue"))?;
            reader.rows(columns, &mut *each).map_err(|error| failed(&error))
        })
    };
    let (process, plan) = planned();
    let listed = |files| tell(SearchProgress::Listed(files));
    let found = Files::list(selection, filter, false, &plan.batch, stop, &listed);
    let (mut numbers, names) = distinct(&found.files);
    let searched = numbers.len() as u64;
    let options = SearchOptions {
        keeps_cached,
        ..SearchOptions::default()
    };
    let mut search = Search::new(&found.files, (process, plan), &options, (stop, tell), names, None);
    let bytes = |number: &u32| found.files.get(*number).bytes;
    let sizes: HashSet<u64> = numbers.iter().map(bytes).collect();
    let mut there = HashSet::new();
    read(&["size"], &mut |row| {
        if sizes.contains(&row.bytes) {
            there.insert(row.bytes);
        }
    })?;
    numbers.retain(|number| there.contains(&bytes(number)));
    search.look_at_devices(&mut numbers);
    let AllHeads {
        digests: heads,
        mut failed,
        ..
    } = search.all_heads(&numbers, |_| ());
    let mut wanted: HashMap<(u64, u64), Vec<Row>> = HashMap::new();
    for (digest, number) in &heads {
        wanted.entry((bytes(number), *digest)).or_default();
    }
    let columns = [
        "host",
        "path",
        "size",
        "inode",
        "mtime_ns",
        "changed_ns",
        "first",
        "blake3",
    ];
    read(&columns, &mut |row| {
        if let Some(rows) = row.first.and_then(|first| wanted.get_mut(&(row.bytes, first))) {
            rows.push(row);
        }
    })?;
    let mut alike: Vec<(u32, &[Row])> = Vec::new();
    for (digest, number) in &heads {
        let rows = wanted.get(&(bytes(number), *digest)).map_or(&[][..], Vec::as_slice);
        alike.extend((!rows.is_empty()).then_some((*number, rows)));
    }
    let digests = search.map(&alike, |(number, rows)| {
        let is_needed = rows.iter().any(|row| row.blake3.is_some());
        is_needed.then(|| search.whole_digest(*number)).transpose()
    });
    let mut matches = Vec::new();
    for ((number, rows), digest) in alike.into_iter().zip(digests) {
        let digest = match digest {
            Ok(digest) => digest.map(|(digest, _)| *digest.as_bytes()),
            Err(error) => {
                failed.push((number, error));
                continue;
            }
        };
        let here = found.files.get(number);
        let those = |is_it: &dyn Fn(&Row) -> bool| -> Vec<Elsewhere> {
            rows.iter()
                .filter(|row| is_it(row))
                .map(|row| row.place(here))
                .collect()
        };
        let mut paths: Vec<PathBuf> = search.names_of(number).map(|name| found.files.path(name)).collect();
        paths.sort();
        let found = Match {
            paths,
            bytes: bytes(&number),
            same: those(&|row| digest.is_some() && row.blake3 == digest),
            perhaps: those(&|row| row.blake3.is_none()),
        };
        matches.extend((!found.same.is_empty() || !found.perhaps.is_empty()).then_some(found));
    }
    matches.sort_by(|one, other| one.paths.cmp(&other.paths));
    let (changed, failures) = search.sort_out(failed, found.gone, found.failures);
    Ok(FoundElsewhere {
        matches,
        files: searched,
        failures,
        changed,
    })
}

impl Row {
    fn place(&self, here: &Listed) -> Elsewhere {
        let state = (self.inode, self.modified_ns, self.changed_ns);
        Elsewhere {
            host: self.host.clone(),
            path: OsString::from_vec(self.path.clone()).into(),
            is_itself: state == (here.inode, here.modified_ns, here.changed_ns),
        }
    }
}
