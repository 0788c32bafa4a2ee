//! Looking at what is not read: targets of links, numbers of devices, extended attributes.

use std::ffi::{CStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use seekless_sys::{ExtendedAttributes, Support};
use serde::Serialize;

use super::{Difference, Kind, Side, What};
use crate::walk::Facts;

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

/// A failure, as it is told.
pub(super) fn failed(side: Side, action: &'static str, error: impl Into<std::io::Error>) -> What {
    What::Failed {
        side,
        action,
        reason: error.into().to_string(),
    }
}

/// What is got from each side, or the failures.
pub(super) fn both<T>(
    action: &'static str,
    found: &mut Vec<What>,
    mut get: impl FnMut(Side) -> rustix::io::Result<T>,
) -> Option<[T; 2]> {
    let got = Side::BOTH.map(|side| get(side).map_err(|error| found.push(failed(side, action, error))).ok());
    match got {
        [Some(one), Some(other)] => Some([one, other]),
        _ => None,
    }
}

/// Where the metadata of two open files or directories differ.
pub(super) fn compare_metadata(facts: &[Facts; 2], files: [BorrowedFd<'_>; 2], found: &mut Vec<What>) {
    let get = |side: Side| {
        let attributes = seekless_sys::extended_attributes(files[side as usize]);
        attributes.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
    };
    compare_all(facts, get, found);
}

/// The same of entries that are not opened.
pub(super) fn compare_metadata_at(
    facts: &[Facts; 2],
    directories: [BorrowedFd<'_>; 2],
    name: &CStr,
    found: &mut Vec<What>,
) {
    let get = |side: Side| {
        let attributes = seekless_sys::extended_attributes_at(directories[side as usize], name);
        attributes.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
    };
    compare_all(facts, get, found);
}

fn compare_all(
    facts: &[Facts; 2],
    get: impl FnMut(Side) -> rustix::io::Result<Support<ExtendedAttributes>>,
    found: &mut Vec<What>,
) {
    let [one, other] = facts;
    let mut differ = Vec::new();
    if one.mode != other.mode {
        differ.push(Attribute::Mode([one.mode, other.mode]));
    }
    if one.owner != other.owner {
        differ.push(Attribute::Owner([one.owner, other.owner]));
    }
    if one.group != other.group {
        differ.push(Attribute::Group([one.group, other.group]));
    }
    if one.modified != other.modified {
        differ.push(Attribute::Modified([one.modified, other.modified]));
    }
    let mut failures = Vec::new();
    if let Some([Support::Available(one), Support::Available(other)]) =
        both("reading extended attributes", &mut failures, get)
    {
        differ.extend(names_that_differ(&one, &other).into_iter().map(Attribute::Extended));
    }
    if !differ.is_empty() {
        found.push(What::Difference(Difference::Metadata(differ)));
    }
    found.append(&mut failures);
}

/// The names that only one has, or with another value; both are sorted.
fn names_that_differ(one: &ExtendedAttributes, other: &ExtendedAttributes) -> Vec<Vec<u8>> {
    let lacks = |all: &ExtendedAttributes, attribute| all.binary_search(attribute).is_err();
    let only_one = one.iter().filter(|attribute| lacks(other, attribute));
    let only_other = other.iter().filter(|attribute| lacks(one, attribute));
    let mut names: Vec<_> = only_one.chain(only_other).map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Compares two entries of one kind that are neither files nor directories.
pub(super) fn compare_special(
    kind: Kind,
    directories: [BorrowedFd<'_>; 2],
    name: &CStr,
    with_metadata: bool,
    found: &mut Vec<What>,
) {
    match kind {
        Kind::Link => {
            let read = |side: Side| rustix::fs::readlinkat(directories[side as usize], name, Vec::new());
            if let Some([one, other]) = both("reading the link", found, read)
                && one != other
            {
                let targets = [one, other].map(|target| PathBuf::from(OsString::from_vec(target.into_bytes())));
                found.push(What::Difference(Difference::Targets(targets)));
            }
        }
        Kind::CharacterDevice | Kind::BlockDevice => {
            let look = |side: Side| Facts::at(directories[side as usize], name);
            if let Some([one, other]) = both("looking at it", found, look)
                && one.number != other.number
            {
                found.push(What::Difference(Difference::Devices(kind, [one.number, other.number])));
            }
        }
        _ => {}
    }
    if with_metadata {
        let look = |side: Side| Facts::at(directories[side as usize], name);
        if let Some(facts) = both("looking at it", found, look) {
            compare_metadata_at(&facts, directories, name, found);
        }
    }
}
