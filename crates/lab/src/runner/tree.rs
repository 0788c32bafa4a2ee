//! An existing directory that commands read as it is. Nothing in it is written.

use std::fs;
use std::path::Path;

use seekless::{StorageFacts, full_text};
use seekless_record::Contest;
use seekless_results::files;

use super::first_touch::{LeftOut, find, test_files};
use super::place::Place;
use super::{Runner, identity};
use crate::experiment::MOST_FILES;
use crate::testfile::TestFile;
use crate::trial::LaunchStop;

/// The files of a directory with data, each by one name.
pub(super) struct Tree {
    pub files: Vec<TestFile>,
    left_out: LeftOut,
}

impl Tree {
    fn find(path: &Path, stop: &LaunchStop) -> Result<Self, String> {
        let (found, left_out) = find(
            path,
            |found| stop.is_requested() || found > MOST_FILES as usize,
            |_, _| Ok(()),
        );
        match found.len() {
            _ if stop.is_requested() => Err("stopped".to_owned()),
            0 => Err(format!("{}: no readable file in it has data", path.display())),
            count if count > MOST_FILES as usize => Err(format!(
                "{}: more than {}, the most of a trial",
                path.display(),
                files(MOST_FILES.into())
            )),
            _ => Ok(Self {
                files: test_files(&found),
                left_out,
            }),
        }
    }

    /// How many files there are, and their mean size.
    pub fn size(&self) -> (u32, u64) {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        (self.files.len() as u32, bytes / self.files.len() as u64)
    }
}

impl Place {
    /// The absolute path of a directory, given relative to the current one, and its files; or why it cannot be measured. It is walked once.
    pub fn tree(&mut self, named: &str, stop: &LaunchStop) -> Result<(String, &Tree), String> {
        let joined = self.directory.join(named);
        let failed = |error| format!("{}: {error}", joined.display());
        let path = fs::canonicalize(&joined).map_err(failed)?;
        if !path.is_dir() {
            return Err(format!("{}: not a directory", path.display()));
        }
        let Some(key) = path.to_str().map(str::to_owned) else {
            return Err(format!("{}: its path is not UTF-8", path.display()));
        };
        if !self.trees.contains_key(&key) {
            self.look_where(&path)?;
            self.trees.insert(key.clone(), Tree::find(&path, stop)?);
        }
        Ok((key.clone(), &self.trees[&key]))
    }

    /// Why a directory cannot be measured from here.
    fn look_where(&self, path: &Path) -> Result<(), String> {
        let (shown, own) = (path.display(), fs::canonicalize(&self.directory));
        let own = own.map_err(|error| format!("{}: {error}", self.directory.display()))?;
        if own.starts_with(path) {
            return Err(format!(
                "{shown}: test files are created in {}, inside it",
                own.display()
            ));
        }
        let facts = StorageFacts::of(path).map_err(|error| full_text(&error))?;
        if identity::of(path, &facts) != identity::of(&own, &self.facts) {
            return Err(format!("{shown}: not on the storage of {}", own.display()));
        }
        Ok(())
    }
}

impl Runner<'_> {
    /// If a contest names a directory, records its absolute path and its files in the contest, or why it cannot be measured.
    pub(super) fn look_at_tree(&mut self, contest: &mut Contest) -> Result<(), String> {
        let Some(named) = &contest.tree else { return Ok(()) };
        let (path, tree) = self.places[contest.storage].tree(named, self.stop)?;
        (contest.files, contest.size_bytes) = tree.size();
        if !tree.left_out.is_empty() {
            let choice = format!("{}: {path}: left out: {}", contest.experiment, tree.left_out);
            if !self.run.choices.contains(&choice) {
                self.run.choices.push(choice);
            }
        }
        contest.tree = Some(path);
        Ok(())
    }
}
