//! What a search finds: files that are equal, with all their names and the space that could be freed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seekless_engine::files::FileState;
use seekless_engine::plan::DuplicatesPlan;
use seekless_engine::walk::Closing;
use serde::Serialize;

use super::contents::Contents;
use super::order::PathOrder;
use super::{Across, all_names};
use crate::walk::{Files, Left, Unlisted};

/// How files were found to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Their bytes were compared.
    Bytes,
    /// Their BLAKE3 digests, of 256 bits, are equal.
    Blake3,
    /// The same; at least one of the digests is from an earlier search.
    Cached,
}

impl Proof {
    /// Its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Blake3 => "blake3",
            Self::Cached => "cached blake3",
        }
    }
}

/// Files with the same bytes, or directories with the same contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualFiles {
    /// The size of each.
    pub bytes: u64,
    /// Of directories: the number of files in each, and below.
    pub files_in_each: Option<u64>,
    /// How they were found to be equal.
    pub proof: Proof,
    /// The space that is freed if only one of them stays, or only those in references.
    pub gain_bytes: u64,
    /// In the order of their paths.
    pub files: Vec<Equal>,
}

/// A file, or directory, that equals others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equal {
    /// All of its names that were found.
    pub names: Vec<FoundName>,
    /// What it was; of a directory, the sum of the sizes of its files, and the latest times of those that are not empty.
    pub state: FileState,
    /// The space that is freed if all these names are removed: 0 if it has other names. Space that it shares with other files or
    /// snapshots does not count.
    pub own_bytes: u64,
    /// What is in it, if it is a directory.
    pub contents: Option<Contents>,
}

/// A group of equal files or directories, in a report.
#[derive(Debug, Serialize)]
pub struct ReportedGroup {
    kind: &'static str,
    #[serde(rename = "files", skip_serializing_if = "Option::is_none")]
    files_in_each: Option<u64>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'static str>,
    gain_bytes: u64,
    paths: Vec<ReportedPath>,
}

/// A name of a file that equals others, in a report.
#[derive(Clone, Debug, Serialize)]
struct ReportedPath {
    #[serde(with = "crate::json::path")]
    path: PathBuf,
    /// The number of the given path that led to it.
    root: u32,
    device: u64,
    inode: u64,
    modified_ns: i64,
    changed_ns: i64,
    /// Of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_bytes: Option<u64>,
    /// Hard links of a file that were not found, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    links_elsewhere: Option<u64>,
    /// Of a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    contents: Option<Contents>,
}

impl EqualFiles {
    /// Each name, with the file that has it.
    pub fn names(&self) -> impl Iterator<Item = (&Equal, &FoundName)> {
        let files = self.files.iter();
        files.flat_map(|file| file.names.iter().map(move |name| (file, name)))
    }

    /// The names of each file that has several, as if they were files.
    pub(super) fn names_apart(&self) -> impl Iterator<Item = Self> {
        let linked = self.files.iter().filter(|file| file.names.len() > 1);
        linked.map(|file| Self {
            files: (file.names.iter().cloned())
                .map(|name| Equal {
                    names: vec![name],
                    ..file.clone()
                })
                .collect(),
            ..self.clone()
        })
    }

    /// The group, for a report.
    #[must_use]
    pub fn reported(&self) -> ReportedGroup {
        let path = |(file, name): (&Equal, &FoundName)| ReportedPath {
            path: name.path.clone(),
            root: name.root,
            device: file.state.device,
            inode: file.state.inode,
            modified_ns: file.state.modified_ns,
            changed_ns: file.state.changed_ns,
            own_bytes: file.contents.is_none().then_some(file.own_bytes),
            links_elsewhere: Some(file.links_elsewhere()).filter(|links| *links > 0),
            contents: file.contents,
        };
        let is_of_files = self.files_in_each.is_none();
        ReportedGroup {
            kind: if is_of_files { "group" } else { "directories" },
            files_in_each: self.files_in_each,
            bytes: self.bytes,
            proof: is_of_files.then_some(self.proof.name()),
            gain_bytes: self.gain_bytes,
            paths: self.names().map(path).collect(),
        }
    }
}

impl Equal {
    /// How many hard links it has that were not found.
    #[must_use]
    pub fn links_elsewhere(&self) -> u64 {
        let first = self.names.first().filter(|_| self.contents.is_none());
        first.map_or(0, |name| links_elsewhere(&name.path, self.names.len(), self.own_bytes))
    }
}

/// How many hard links a file has besides `known` names. Removing those frees nothing then, so other files are not looked at.
#[must_use]
pub fn links_elsewhere(path: &Path, known: usize, own_bytes: u64) -> u64 {
    let all = || fs::symlink_metadata(path).map_or(0, |found| found.nlink());
    if own_bytes > 0 {
        0
    } else {
        all().saturating_sub(known as u64)
    }
}

/// A name of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FoundName {
    /// Its path, which begins with a given one.
    #[serde(with = "crate::json::path")]
    pub path: PathBuf,
    /// The number of that given path; for all names of a file in a reference, the number of the reference.
    pub root: u32,
}

/// A directory, all files of which are also in another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename = "contained")]
pub struct ContainedDirectory {
    /// The directory.
    #[serde(flatten)]
    pub directory: FoundName,
    /// The files in it, and below.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// The space that is freed without it.
    pub gain_bytes: u64,
    /// The smallest directory that has an equal file for each of them, apart from those that contain the first one or are in it.
    pub within: FoundName,
    /// Files below that one with other contents.
    pub more_files: u64,
    /// The sum of their sizes.
    pub more_bytes: u64,
}

/// How much of a tree is also in another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeOverlap {
    /// Files of the tree; each of several names counts.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Files with an equal one in the other tree.
    pub shared_files: u64,
    /// The sum of their sizes.
    pub shared_bytes: u64,
}

/// What was found.
pub struct FoundDuplicates {
    pub(super) files: Files,
    pub(super) across: Across,
    /// For files with several names: the first name and another.
    pub(super) names: Vec<(u32, u32)>,
    /// Those that save most first.
    pub(super) classes: Vec<Class>,
    /// Directories that are equal, those that save most first.
    pub directories: Vec<EqualFiles>,
    /// Directories that others contain, those that save most first.
    pub contained: Vec<ContainedDirectory>,
    /// How much of each of two trees is in the other one, if two were searched for directories.
    pub overlap: Option<[TreeOverlap; 2]>,
    pub(super) sum: DuplicatesSum,
    /// What the walk left out.
    pub left: Left,
    /// Directories that are left out by default.
    pub left_out: Vec<PathBuf>,
    /// What could not be read, and why.
    pub failures: Vec<Unlisted>,
    /// Files that changed during the search, and how: they are in no group.
    pub changed: Vec<Unlisted>,
    /// Why digests could not be kept.
    pub cache_failure: Option<String>,
    /// Whether the search was stopped early: there may be more groups.
    pub is_stopped: bool,
    /// Files that could not be read.
    pub(super) failed: Vec<u32>,
    /// The methods by which large files were compared, why, and how many pairs.
    pub large: Vec<(String, String, u64)>,
    /// Files that share their size with another, and bytes that were read of them.
    pub read_files: u64,
    /// See `read_files`.
    pub read_bytes: u64,
    /// Number of digests of whole files that are from an earlier search.
    pub cached: u64,
    /// How files were read, and why.
    pub plan: DuplicatesPlan,
    /// How long listing files, grouping them, reading their beginnings and comparing them took.
    pub steps: [Duration; 4],
    /// Closes its directories. Dropping it waits until all are closed.
    pub(super) _closing: Option<Closing>,
}

/// Files that are equal.
pub(super) struct Class {
    pub proof: Proof,
    pub files: Vec<Member>,
}

/// A file by its number, and the space that it shares with no other.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub number: u32,
    pub own_bytes: u64,
    /// Whether one of its names is in a reference.
    pub is_reference: bool,
}

impl Class {
    /// Files that may be removed: those that are in no reference; without references, all but one.
    pub fn duplicates(&self) -> u64 {
        let references = self.files.iter().filter(|member| member.is_reference).count();
        (self.files.len() - references.max(1)) as u64
    }

    /// The space that is freed if the references stay or, without any, the file that would free least.
    pub fn gain_bytes(&self) -> u64 {
        let own = |member: &Member| member.own_bytes;
        let others = self.files.iter().filter(|member| !member.is_reference);
        let sum = others.map(own).sum::<u64>();
        if self.files.iter().any(|member| member.is_reference) {
            return sum;
        }
        sum - self.files.iter().map(own).min().unwrap_or(0)
    }
}

/// How much was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DuplicatesSum {
    /// Groups of equal files.
    pub groups: u64,
    /// Files in them that may be removed: all but one of each group, or all that are in no reference.
    pub duplicates: u64,
    /// The space that is free without them.
    pub gain_bytes: u64,
}

impl DuplicatesSum {
    pub(super) fn of(classes: &[Class]) -> Self {
        Self {
            groups: classes.len() as u64,
            duplicates: classes.iter().map(Class::duplicates).sum(),
            gain_bytes: classes.iter().map(Class::gain_bytes).sum(),
        }
    }
}

impl FoundDuplicates {
    /// How much was found, including files in equal directories.
    #[must_use]
    pub fn sum(&self) -> DuplicatesSum {
        self.sum
    }

    /// Files without a duplicate, in the order of their paths; none if the search was stopped.
    pub fn unique(&self) -> impl Iterator<Item = EqualFiles> {
        let mut numbers: Vec<u32> = Vec::new();
        if !self.is_stopped {
            let members = self
                .classes
                .iter()
                .flat_map(|class| class.files.iter().map(|member| member.number));
            let others = self.names.iter().map(|(_, other)| *other);
            let known: HashSet<u32> = members.chain(others).chain(self.failed.iter().copied()).collect();
            numbers.extend((0..self.files.len()).filter(|number| !known.contains(number)));
            PathOrder::new(&self.files, &self.names).sort(&mut numbers, |number| *number);
        }
        numbers.into_iter().map(|number| self.single(number))
    }

    /// Files with several names.
    pub fn linked(&self) -> impl Iterator<Item = EqualFiles> {
        let files = self.names.chunk_by(|one, other| one.0 == other.0);
        files.map(|names| self.single(names[0].0))
    }

    fn single(&self, number: u32) -> EqualFiles {
        EqualFiles {
            bytes: self.files.get(number).bytes,
            files_in_each: None,
            proof: Proof::Bytes,
            gain_bytes: 0,
            files: vec![self.equal(number, 0)],
        }
    }

    /// Number of listed files; one with several names counts once.
    #[must_use]
    pub fn files(&self) -> u64 {
        u64::from(self.files.len()) - self.names.len() as u64
    }

    /// The groups, those that save most first.
    pub fn groups(&self) -> impl Iterator<Item = EqualFiles> {
        self.classes.iter().map(|class| EqualFiles {
            bytes: self.files.get(class.files[0].number).bytes,
            files_in_each: None,
            proof: class.proof,
            gain_bytes: class.gain_bytes(),
            files: class
                .files
                .iter()
                .map(|member| self.equal(member.number, member.own_bytes))
                .collect(),
        })
    }

    fn equal(&self, number: u32, own_bytes: u64) -> Equal {
        let root = |number| self.files.root(number);
        let all = || all_names(&self.names, number);
        let reference = all().map(root).max().filter(|root| self.across.is_reference(*root));
        let name = |number| FoundName {
            path: self.files.path(number),
            root: reference.unwrap_or_else(|| root(number)),
        };
        // Most files have one name; collecting would make room for four.
        let mut names: Vec<(FoundName, u32)> = Vec::with_capacity(1);
        names.extend(all().map(|number| (name(number), number)));
        names.sort();
        // A file may be named, and be in a directory that was named.
        names.dedup_by(|(next, _), (first, _)| next.path == first.path);
        // If an overlay shows it, its numbers depend on the name.
        let listed = self.files.get(names[0].1);
        Equal {
            names: names.into_iter().map(|(name, _)| name).collect(),
            state: listed.state,
            own_bytes,
            contents: None,
        }
    }
}
