//! Listing a pair of folders: what is on one side only is found at once, what is on both is queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::batch::Matched;
use super::folder::Folder;
use super::listing::{Listing, merge};
use super::look::{compare_metadata, failed};
use super::queue::Shared;
use super::{Difference, Kind, Side, What};

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
        let mut pairs = Vec::new();
        let mut children = Vec::new();
        let mut alone = Vec::new();
        let mut last = 0;
        for met in merge(&one, &other) {
            last += 1;
            let (name, difference) = match met {
                (Some(left), Some(right)) if left.kind != right.kind => {
                    (one.name(left), Difference::Kinds([left.kind, right.kind]))
                }
                (Some(left), Some(_)) if left.kind == Kind::Folder => {
                    children.push((last, folder.child(one.c_str(left))));
                    continue;
                }
                (Some(left), Some(_)) => {
                    pairs.push(Matched {
                        inode: left.inode,
                        name: left.name(),
                        entry: last,
                        kind: left.kind,
                    });
                    continue;
                }
                (Some(left), None) => (one.name(left), Difference::OnlyIn(Side::One, left.kind)),
                (None, Some(right)) => (other.name(right), Difference::OnlyIn(Side::Other, right.kind)),
                (None, None) => continue,
            };
            alone.push((last, Box::<[u8]>::from(name), vec![What::Difference(difference)]));
        }
        pairs.sort_unstable_by_key(|pair| pair.inode);
        self.untold
            .fetch_add(u64::from(last) + FOLDER_WEIGHT, Ordering::Relaxed);
        folder.keep(pairs.len());
        folder.release(1, self.is_crowded());
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
        let (pair, facts) = folder.open(&self.open, found)?;
        let folders = pair.borrowed();
        if self.options.metadata {
            compare_metadata(&facts, folders, found);
        }
        let listed = if facts[0].is_same(&facts[1]) {
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
            folder.release(1, false);
        }
        listed
    }
}
