//! Listing a pair of folders: what is on one side only is found at once, what is on both is queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::Matched;
use super::folder::{Folder, Progress};
use super::look::{compare_metadata, failed};
use super::queue::Shared;
use super::{Difference, Side, What};
use crate::walk::{Facts, Kind, Listing, merge};

/// What a folder takes beside its entries, in entries.
pub(super) const FOLDER_WEIGHT: u64 = 8;

impl Shared<'_> {
    /// Lists a folder that the caller has claimed: what is there on one side only is found, what is there on both is
    /// queued.
    pub fn list(&self, folder: &Arc<Folder>) {
        let mut found = Vec::new();
        let listed = self.open_and_list(folder, &mut found);
        self.folders.fetch_add(1, Ordering::Relaxed);
        let Some([one, other]) = listed else {
            self.untold.fetch_add(FOLDER_WEIGHT, Ordering::Relaxed);
            folder.update(|state| {
                state.is_listed = true;
                state.add(0, b"", found);
            });
            return;
        };
        let SortedOut {
            last,
            pairs,
            children,
            alone,
        } = sort_out(folder, &one, &other);
        self.untold
            .fetch_add(u64::from(last) + FOLDER_WEIGHT, Ordering::Relaxed);
        folder.keep(pairs.len());
        folder.release(1);
        folder.update(|state| {
            state.is_listed = true;
            state.last = last;
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
        self.push(folder, pairs, one, children);
    }

    fn open_and_list(&self, folder: &Arc<Folder>, found: &mut Vec<What>) -> Option<[Listing; 2]> {
        let mut fail = |side: usize, action, error| found.push(failed(Side::BOTH[side], action, error));
        let (pair, facts) = folder.open(&mut fail)?;
        let folders = pair.borrowed();
        if self.options.metadata {
            compare_metadata(&facts, folders, found);
        }
        let listed = if Facts::are_of_one_file(&facts, folders) {
            self.identical.fetch_add(1, Ordering::Relaxed);
            None
        } else {
            let mut list = |side: Side| {
                let listed = Listing::of(folders[side as usize]);
                listed.map_err(|error| found.push(failed(side, "listing", error))).ok()
            };
            let listed = Side::BOTH.map(&mut list);
            match listed {
                [Some(one), Some(other)] => Some([one, other]),
                _ => None,
            }
        };
        if listed.is_none() {
            folder.release(1);
        }
        listed
    }
}

/// The entries of two folders, by what is to be done with them, each with its number in the order of names.
#[derive(Default)]
struct SortedOut {
    /// The last number.
    last: u32,
    /// To be compared, in the order of their inodes.
    pairs: Vec<Matched>,
    /// To be listed.
    children: Vec<(u32, Arc<Folder>)>,
    /// Found to differ by being there, or by their kinds.
    alone: Vec<(u32, Box<[u8]>, Vec<What>)>,
}

fn sort_out(folder: &Arc<Folder>, one: &Listing, other: &Listing) -> SortedOut {
    let mut sorted = SortedOut::default();
    for met in merge(one, other) {
        sorted.last += 1;
        let entry = sorted.last;
        let (name, difference) = match met {
            (Some(left), Some(right)) if left.kind != right.kind => {
                (one.name(left), Difference::Kinds([left.kind, right.kind]))
            }
            (Some(left), Some(_)) if left.kind == Kind::Folder => {
                sorted
                    .children
                    .push((entry, folder.child(one.c_str(left), Progress::default())));
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
