//! Listing a pair of directories: entries on one side only are reported at once, entries on both sides are queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;
use seekless::walk::{Handles, Listing, StatFacts, in_each, merge};
use seekless_sys::extended_attributes;

use super::batch::Matched;
use super::directory::{Directory, Item, ListProgress, ListState};
use super::look::{compare_metadata, failed, failures};
use super::queue::Shared;
use super::{EntryDifference, TreeFinding, TreeSide};

/// The weight of a directory itself, in entries.
pub(super) const DIRECTORY_WEIGHT: u64 = 8;
/// The divisor for the size of a part: the entries that may be listed ahead, divided by this. Listing the rest reads
/// all names again.
const PART: usize = 8;

/// The listings of both sides, and the name after which there are more entries.
type Part = ([Listing; 2], Option<Box<[u8]>>);

impl Shared<'_> {
    /// Lists a directory that the caller has claimed, or its next part. Entries on one side only are reported, entries
    /// on both sides are queued.
    pub fn list(&self, directory: &Arc<Directory>) {
        let after = directory.own.lock().rest.take();
        let mut found = Vec::new();
        let listed = match &after {
            None => self.open_and_list(directory, &mut found),
            Some(after) => match directory.handles() {
                Ok(pair) => self.list_from(&pair, after, &mut found),
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
        let (pairs, children) = sort_out(directory, &one, &other, &mut state);
        state.add(0, b"", found);
        one.forget_entries();
        self.untold
            .fetch_add(u64::from(state.last) + DIRECTORY_WEIGHT, Ordering::Relaxed);
        directory.keep(pairs.len());
        if state.rest.is_none() {
            directory.release(1);
        }
        directory.own.update(|now| *now = state);
        self.push(directory, pairs, one, children);
    }

    fn open_and_list(&self, directory: &Arc<Directory>, found: &mut Vec<TreeFinding>) -> Option<Part> {
        self.count(|done| done.directories += 1);
        let (pair, facts) = directory.open(&mut failures(found))?;
        let directories = pair.borrowed();
        if self.options.metadata {
            compare_metadata(&facts, found, |side| extended_attributes(directories[side]));
        }
        if StatFacts::are_of_one_file(&facts, directories) {
            self.count(|done| done.identical += 1);
            return None;
        }
        self.list_from(&pair, b"", found)
    }

    fn list_from(&self, pair: &Handles<2>, after: &[u8], found: &mut Vec<TreeFinding>) -> Option<Part> {
        let most = usize::try_from(self.plan.entries_ahead)
            .unwrap_or(usize::MAX)
            .saturating_mul(PART);
        let directories = pair.borrowed();
        let list = |side: usize| Listing::sorted(directories[side], after, most);
        let mut listed = in_each::<2, _>("list", &mut failures(found), list)?;
        let rest: Option<Box<[u8]>> = listed.iter().filter_map(Listing::end).min().map(Box::from);
        for listing in &mut listed {
            if let Some(rest) = &rest {
                listing.end_with(rest);
            }
        }
        Some((listed, rest))
    }
}

/// Divides the entries of two directories into those to compare, in the order of their inodes, and those to list.
/// Missing entries and different kinds are reported.
fn sort_out(
    directory: &Arc<Directory>,
    one: &Listing,
    other: &Listing,
    state: &mut ListState,
) -> (Vec<Matched>, Vec<Arc<Directory>>) {
    let (mut pairs, mut children) = (Vec::new(), Vec::new());
    for met in merge(one, other) {
        state.last += 1;
        let number = state.last;
        let (name, difference) = match met {
            (Some(left), Some(right)) if left.kind != right.kind => {
                (one.name(left), EntryDifference::Kinds([left.kind, right.kind]))
            }
            (Some(left), Some(_)) if left.kind == FileType::Directory => {
                let child = directory.child(one.c_str(left), ListProgress::default());
                state.items.insert(number, Item::Child(Arc::clone(&child)));
                children.push(child);
                continue;
            }
            (Some(left), Some(_)) => {
                pairs.push(Matched { number, entry: *left });
                continue;
            }
            (Some(left), None) => (one.name(left), EntryDifference::OnlyIn(TreeSide::One, left.kind)),
            (None, Some(right)) => (other.name(right), EntryDifference::OnlyIn(TreeSide::Other, right.kind)),
            (None, None) => continue,
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
