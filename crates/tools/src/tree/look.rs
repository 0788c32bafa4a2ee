//! Comparing entries without contents: targets of links, numbers of devices, and metadata.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, openat, readlinkat};
use seekless_engine::files::{XattrRole, read_some};
use seekless_engine::walk::{FOUND_FILE, StatFacts, in_each};
use seekless_sys::{ExtendedAttributes, Support, extended_attributes_at};
use serde::Serialize;

use super::directory::Directory;
use super::{ContentsDiffer, EntryDifference, Side, TreeFinding};

/// One piece of metadata that differs, with both values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "name", content = "values", rename_all = "lowercase")]
pub enum Attribute {
    /// The mode's permission bits.
    Mode([u32; 2]),
    /// The owner's number.
    Owner([u32; 2]),
    /// The group's number.
    Group([u32; 2]),
    /// The time of modification: seconds since 1970, nanoseconds.
    Modified([(i64, u32); 2]),
    /// An extended attribute of this name; the values may be long and are not kept.
    Extended(Vec<u8>),
}

/// A failure, as it is reported.
pub(super) fn failed(side: usize, action: &'static str, error: impl Into<io::Error>) -> TreeFinding {
    TreeFinding::Failed {
        side: Side::BOTH[side],
        action,
        reason: error.into().to_string(),
    }
}

/// Collects failures of both sides.
pub(super) fn failures(found: &mut Vec<TreeFinding>) -> impl FnMut(usize, &'static str, io::Error) {
    |side, action, error| found.push(failed(side, action, error))
}

/// The differences of metadata; `get` reads the extended attributes of a side.
pub(super) fn compare_metadata(
    facts: &[StatFacts; 2],
    found: &mut Vec<TreeFinding>,
    get: impl FnMut(usize) -> io::Result<Support<ExtendedAttributes>>,
) {
    let [one, other] = facts;
    let numbers = [
        (one.mode != other.mode).then_some(Attribute::Mode([one.mode, other.mode])),
        (one.owner != other.owner).then_some(Attribute::Owner([one.owner, other.owner])),
        (one.group != other.group).then_some(Attribute::Group([one.group, other.group])),
        (one.modified != other.modified).then_some(Attribute::Modified([one.modified, other.modified])),
    ];
    let mut differ: Vec<Attribute> = numbers.into_iter().flatten().collect();
    let mut failed = Vec::new();
    if let Some([Support::Available(one), Support::Available(other)]) =
        in_each("read extended attributes", &mut failures(&mut failed), get)
    {
        differ.extend(names_that_differ(&one, &other).into_iter().map(Attribute::Extended));
    }
    if !differ.is_empty() {
        found.push(TreeFinding::Difference(EntryDifference::Metadata(differ)));
    }
    found.append(&mut failed);
}

/// The names that only one side has, or that have different values; both lists are sorted.
fn names_that_differ(one: &ExtendedAttributes, other: &ExtendedAttributes) -> Vec<Vec<u8>> {
    let lacks = |all: &ExtendedAttributes, attribute| all.binary_search(attribute).is_err();
    let only_one = one.iter().filter(|attribute| lacks(other, attribute));
    let only_other = other.iter().filter(|attribute| lacks(one, attribute));
    let names = only_one.chain(only_other).map(|(name, _)| name);
    let names = names.filter(|name| XattrRole::of(name) != XattrRole::Skipped);
    let mut names: Vec<_> = names.cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a file is empty, or the side that failed and why. A size of 0 may mean that it is unknown, as in /proc.
pub(super) fn is_empty(directory: &Directory, name: &CStr, side: Side) -> Result<bool, (usize, io::Error)> {
    let handles = directory.handles()?;
    let at = handles.borrowed()[side as usize];
    let looked = || -> io::Result<bool> {
        if StatFacts::at(at, name)?.bytes > 0 {
            return Ok(false);
        }
        let file = File::from(openat(at, name, FOUND_FILE, Mode::empty())?);
        Ok(read_some(&file, &mut [0], 0)? == 0)
    };
    looked().map_err(|error| (side as usize, error))
}

/// Compares a file that only one side has with an empty one.
pub(super) fn compare_with_none(side: Side, is_empty: Result<bool, (usize, io::Error)>) -> Vec<TreeFinding> {
    let other = if side == Side::Left { Side::Right } else { Side::Left };
    match is_empty {
        Ok(true) => Vec::new(),
        Ok(false) => {
            let contents = EntryDifference::Contents(ContentsDiffer::Ends(other, 0));
            vec![TreeFinding::Difference(contents)]
        }
        Err((side, error)) => vec![failed(side, "read", error)],
    }
}

/// Compares two entries of one kind that are neither files nor directories.
pub(super) fn compare_special(
    kind: FileType,
    directories: [BorrowedFd<'_>; 2],
    name: &CStr,
    with_metadata: bool,
    found: &mut Vec<TreeFinding>,
) {
    let look = |side: usize| Ok(StatFacts::at(directories[side], name)?);
    if kind == FileType::Symlink {
        let read = |side: usize| Ok(readlinkat(directories[side], name, Vec::new())?);
        let read = in_each("read the link", &mut failures(found), read);
        if let Some([one, other]) = read.filter(|[one, other]| one != other) {
            let targets = [one, other].map(|target| PathBuf::from(OsString::from_vec(target.into_bytes())));
            found.push(TreeFinding::Difference(EntryDifference::Targets(targets)));
        }
    } else {
        let facts: Option<[StatFacts; 2]> = in_each("stat", &mut failures(found), look);
        let difference = facts.and_then(|[one, other]| match kind {
            FileType::CharacterDevice | FileType::BlockDevice if one.number != other.number => {
                Some(EntryDifference::Devices(kind, [one.number, other.number]))
            }
            // As with diff(1): what is read from two of them cannot be compared.
            _ => (one.id() != other.id()).then_some(EntryDifference::Kinds([kind; 2])),
        });
        found.extend(difference.map(TreeFinding::Difference));
    }
    if with_metadata {
        let facts = in_each("stat", &mut failures(found), look);
        if let Some(facts) = facts {
            compare_metadata(&facts, found, |side| extended_attributes_at(directories[side], name));
        }
    }
}
