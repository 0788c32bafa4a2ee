//! Listing a pair of directories: what is on one side only is found at once, what is on both is queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::Matched;
use super::directory::{Directory, Pair, Progress};
use super::look::{compare_metadata, failed};
use super::queue::Shared;
use super::{Difference, Side, What};
use crate::walk::{Facts, Kind, Listing, merge};

/// What a directory takes beside its entries, in entries.
pub(super) const DIRECTORY_WEIGHT: u64 = 8;
/// The entries of a directory that are listed at once, in those that may be listed ahead. Listing the rest reads all names
/// again.
const PART: usize = 8;

impl Shared<'_> {
    /// Lists a directory that the caller has claimed, or the rest of one of which a part was told: what is there on one
    /// side only is found, what is there on both is queued.
    pub fn list(&self, directory: &Arc<Directory>) {
        let after = directory.lock_state().rest.take();
        let mut found = Vec::new();
        let listed = match &after {
            None => self.open_and_list(directory, &mut found),
            Some(after) => match directory.handles() {
                Ok(pair) => self.list_from(&pair, after, &mut found),
                Err((side, error)) => {
                    found.push(failed(Side::BOTH[side], "opening it again", error));
                    None
                }
            },
        };
        let Some(([one, other], rest)) = listed else {
            directory.release(1);
            self.untold.fetch_add(DIRECTORY_WEIGHT, Ordering::Relaxed);
            directory.update(|state| {
                state.is_listed = true;
                state.last = 0;
                state.add(0, b"", found);
            });
            return;
        };
        let SortedOut {
            last,
            pairs,
            children,
            alone,
        } = sort_out(directory, &one, &other);
        self.untold
            .fetch_add(u64::from(last) + DIRECTORY_WEIGHT, Ordering::Relaxed);
        directory.keep(pairs.len());
        if rest.is_none() {
            directory.release(1);
        }
        directory.update(|state| {
            state.is_listed = true;
            state.last = last;
            state.rest = rest;
            if !pairs.is_empty() {
                state.is_waited_for = vec![false; last as usize + 1];
                state.waited_for = pairs.len();
            }
            for pair in &pairs {
                state.is_waited_for[pair.entry as usize] = true;
            }
            state.add(0, b"", found);
            for (entry, name, what) in alone {
                state.add(entry, &name, what);
            }
            state.children = children
                .iter()
                .map(|(entry, child)| (*entry, Arc::clone(child)))
                .collect();
        });
        self.push(directory, pairs, one, children);
    }

    fn open_and_list(&self, directory: &Arc<Directory>, found: &mut Vec<What>) -> Option<Part> {
        self.directories.fetch_add(1, Ordering::Relaxed);
        let mut fail = |side: usize, action, error| found.push(failed(Side::BOTH[side], action, error));
        let (pair, facts) = directory.open(&mut fail)?;
        let directories = pair.borrowed();
        if self.options.metadata {
            compare_metadata(&facts, directories, found);
        }
        if Facts::are_of_one_file(&facts, directories) {
            self.identical.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.list_from(&pair, b"", found)
    }

    fn list_from(&self, pair: &Pair, after: &[u8], found: &mut Vec<What>) -> Option<Part> {
        let most = usize::try_from(self.plan.entries_ahead)
            .unwrap_or(usize::MAX)
            .saturating_mul(PART);
        let directories = pair.borrowed();
        let listed = Side::BOTH.map(|side| {
            let listed = Listing::sorted(directories[side as usize], after, most);
            listed.map_err(|error| found.push(failed(side, "listing", error))).ok()
        });
        let [Some(mut one), Some(mut other)] = listed else {
            return None;
        };
        let rest = [one.end(), other.end()].into_iter().flatten().min().map(Box::from);
        if let Some(rest) = &rest {
            one.end_with(rest);
            other.end_with(rest);
        }
        Some(([one, other], rest))
    }
}

/// The listings of both sides, and the name behind which there is more.
type Part = ([Listing; 2], Option<Box<[u8]>>);

/// The entries of two directories, by what is to be done with them, each with its number in the order of names.
#[derive(Default)]
struct SortedOut {
    /// The last number.
    last: u32,
    /// To be compared, in the order of their inodes.
    pairs: Vec<Matched>,
    /// To be listed.
    children: Vec<(u32, Arc<Directory>)>,
    /// Found to differ by being there, or by their kinds.
    alone: Vec<(u32, Box<[u8]>, Vec<What>)>,
}

fn sort_out(directory: &Arc<Directory>, one: &Listing, other: &Listing) -> SortedOut {
    let mut sorted = SortedOut::default();
    for met in merge(one, other) {
        sorted.last += 1;
        let entry = sorted.last;
        let (name, difference) = match met {
            (Some(left), Some(right)) if left.kind != right.kind => {
                (one.name(left), Difference::Kinds([left.kind, right.kind]))
            }
            (Some(left), Some(_)) if left.kind == Kind::Directory => {
                sorted
                    .children
                    .push((entry, directory.child(one.c_str(left), Progress::default())));
                continue;
            }
            (Some(left), Some(_)) => {
                sorted.pairs.push(Matched {
                    inode: left.inode,
                    name: left.name(),
                    entry,
                    kind: left.kind,
                });
                continue;
            }
            (Some(left), None) => (one.name(left), Difference::OnlyIn(Side::One, left.kind)),
            (None, Some(right)) => (other.name(right), Difference::OnlyIn(Side::Other, right.kind)),
            (None, None) => continue,
        };
        sorted
            .alone
            .push((entry, name.into(), vec![What::Difference(difference)]));
    }
    sorted.pairs.sort_unstable_by_key(|pair| pair.inode);
    sorted
}
