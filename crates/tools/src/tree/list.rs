//! Listing a pair of directories: entries on one side only are reported at once, entries on both sides are queued.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;
use seekless_engine::walk::{Handles, Listing, StatFacts, in_each, merge};
use seekless_sys::extended_attributes;

use super::directory::{Directory, Item, ListProgress, ListState};
use super::look::{compare_metadata, compare_with_none, failed, failures, is_empty};
use super::shared::{CompareJob, DIRECTORY_WEIGHT, Matched};
use super::{EntryDifference, Side, TreeFinding};
use crate::walk::Named;

/// The divisor for the size of a part: the entries that may be listed ahead, divided by this. Listing the rest reads
/// all names again.
const PART: usize = 8;

/// The listings of both sides, and the name after which there are more entries.
type Part = ([Listing; 2], Option<Box<[u8]>>);

/// Lists a directory that the caller has claimed, or its next part. Entries on one side only are reported, entries
/// on both sides are queued.
pub(super) fn list(job: &CompareJob<'_>, directory: &Arc<Directory>) {
    let after = directory.own.lock().rest.take();
    let mut found = Vec::new();
    let listed = match &after {
        None => open_and_list(job, directory, &mut found),
        Some(after) => match directory.handles() {
            Ok(pair) => list_from(job, &pair, directory.only(), after, &mut found),
            Err((side, error)) => {
                found.push(failed(side, "open again", error));
                None
            }
        },
    };
    // A directory that cannot be listed counts as empty.
    let ([mut one, other], rest) = listed.unwrap_or_default();
    let mut state = ListState {
        is_listed: true,
        rest,
        ..ListState::default()
    };
    let (pairs, children) = sort_out(job, directory, &one, &other, &mut state);
    state.add(0, b"", found);
    one.forget_entries();
    job.untold
        .fetch_add(u64::from(state.last) + DIRECTORY_WEIGHT, Ordering::Relaxed);
    directory.keep(pairs.len());
    if state.rest.is_none() {
        directory.release(1);
    }
    directory.own.update(|now| *now = state);
    job.push(directory, pairs, one, children);
}

fn open_and_list(job: &CompareJob<'_>, directory: &Arc<Directory>, found: &mut Vec<TreeFinding>) -> Option<Part> {
    job.count(|done| done.directories += 1);
    let (pair, facts) = directory.open(&mut failures(found))?;
    let directories = pair.borrowed();
    if job.options.metadata {
        compare_metadata(&facts, found, |side| extended_attributes(directories[side]));
    }
    let only = directory.only();
    if only.is_none() && !job.options.same_files && StatFacts::are_of_one_file(&facts, directories) {
        job.count(|done| done.identical += 1);
        return None;
    }
    list_from(job, &pair, only, b"", found)
}

fn list_from(
    job: &CompareJob<'_>,
    pair: &Handles<2>,
    only: Option<usize>,
    after: &[u8],
    found: &mut Vec<TreeFinding>,
) -> Option<Part> {
    let most = usize::try_from(job.plan().entries_ahead)
        .unwrap_or(usize::MAX)
        .saturating_mul(PART);
    let directories = pair.borrowed();
    let list = |side: usize| match only {
        Some(only) if only != side => Ok(Listing::default()),
        _ => Listing::sorted(directories[side], after, most),
    };
    let mut listed = in_each::<2, _>("list", &mut failures(found), list)?;
    let rest: Option<Box<[u8]>> = listed.iter().filter_map(Listing::end).min().map(Box::from);
    for listing in &mut listed {
        if let Some(rest) = &rest {
            listing.end_with(rest);
        }
    }
    Some((listed, rest))
}

/// Divides the entries of two directories into those to compare, in the order of their inodes, and those to list.
/// Missing entries and different kinds are reported.
fn sort_out(
    job: &CompareJob<'_>,
    directory: &Arc<Directory>,
    one: &Listing,
    other: &Listing,
    state: &mut ListState,
) -> (Vec<Matched>, Vec<Arc<Directory>>) {
    let (mut pairs, mut children) = (Vec::new(), Vec::new());
    for met in merge(one, other) {
        let (listing, entry, only) = match met {
            (Some(left), right) => (one, left, right.is_none().then_some(Side::Left)),
            (None, Some(right)) => (other, right, Some(Side::Right)),
            (None, None) => continue,
        };
        let name = listing.name(entry);
        if is_excluded(job, directory, name) {
            continue;
        }
        state.last += 1;
        let number = state.last;
        let mut enter = |child: Arc<Directory>| {
            state.items.insert(number, Item::Child(Arc::clone(&child)));
            children.push(child);
        };
        let child = || directory.child(listing.c_str(entry), ListProgress::default());
        let difference = match (only, met) {
            (None, (Some(left), Some(right))) if left.kind != right.kind => {
                EntryDifference::Kinds([left.kind, right.kind])
            }
            (None, _) if entry.kind == FileType::Directory => {
                enter(child());
                continue;
            }
            (None, _) => {
                pairs.push(Matched { number, entry: *entry });
                continue;
            }
            (Some(side), _) if job.options.new_files && entry.kind == FileType::Directory => {
                enter(child().only_in(side as usize));
                continue;
            }
            (Some(side), _) if job.options.new_files && entry.kind == FileType::RegularFile => {
                state.add(
                    number,
                    name,
                    compare_with_none(side, is_empty(directory, listing.c_str(entry), side)),
                );
                continue;
            }
            (Some(side), _) => EntryDifference::OnlyIn(side, entry.kind),
        };
        state.add(number, name, vec![TreeFinding::Difference(difference)]);
    }
    if !pairs.is_empty() {
        state.is_waited_for = vec![false; state.last as usize + 1];
    }
    for pair in &pairs {
        state.is_waited_for[pair.number as usize] = true;
    }
    pairs.sort_unstable_by_key(|pair| pair.entry.inode);
    (pairs, children)
}

fn is_excluded(job: &CompareJob<'_>, directory: &Directory, name: &[u8]) -> bool {
    let path = || directory.path_below_root(name);
    job.options.exclude.is_some_and(|globs| {
        globs.match_any(&Named {
            name: Path::new(OsStr::from_bytes(name)),
            path: &path,
        })
    })
}
