//! Directories whose files are all in another directory, too, and how much two trees have in common.
//!
//! Contents count, not names: each file of such a directory equals a file below the other one. Where its file with the fewest copies is,
//! the other directory is the lowest one above that has the other files, too.
//!
//! Not here: directories that are equal as a whole (`directories`).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::found::{ContainedDirectory, FoundName, TreeOverlap};
use super::trees::{DirectoryNode, OwnSpace, TreeSum, freed_by};
use super::{Across, Search};
use crate::walk::Visited;

/// A directory is not looked for if each of its files has more copies elsewhere.
const COPIES_MAX: usize = 100;

/// Directories in an order in which those in one directory follow it at once.
struct Nested<'a> {
    visited: &'a [Visited],
    trees: &'a [DirectoryNode],
    order: &'a [usize],
    /// The place of each directory in the order.
    place_of: Vec<u32>,
    /// For each place, where the directories in it end.
    end: Vec<u32>,
    /// The class of each file, and the place of its directory, ascending.
    files: Vec<(u32, u32)>,
}

impl<'a> Nested<'a> {
    fn new(visited: &'a [Visited], trees: &'a [DirectoryNode], order: &'a [usize], known: &HashMap<u32, u32>) -> Self {
        let mut place_of = vec![0; order.len()];
        let mut files = Vec::with_capacity(known.len());
        for (place, number) in (0..).zip(order) {
            place_of[*number] = place;
            files.extend(
                trees[*number]
                    .files
                    .iter()
                    .filter_map(|file| Some((*known.get(file)?, place))),
            );
        }
        files.sort_unstable();
        let mut end: Vec<u32> = (1..=order.len() as u32).collect();
        for place in (0..order.len()).rev() {
            if let Some(parent) = trees[order[place]].parent {
                let parent = place_of[parent] as usize;
                end[parent] = end[parent].max(end[place]);
            }
        }
        Self {
            visited,
            trees,
            order,
            place_of,
            end,
            files,
        }
    }

    fn tree(&self, place: u32) -> &'a DirectoryNode {
        &self.trees[self.order[place as usize]]
    }

    fn name(&self, place: u32) -> FoundName {
        let visited = &self.visited[self.order[place as usize]];
        FoundName {
            path: visited.directory.path_of(b""),
            root: visited.root,
        }
    }

    /// A directory whose files, of these classes and sizes, are all in another one.
    fn within(&self, place: u32, holder: u32, classes: &HashMap<u32, u64>, gain_bytes: u64) -> ContainedDirectory {
        let (own, other) = (self.tree(place).sum, self.tree(holder).sum);
        let equal = classes
            .iter()
            .map(|(class, bytes)| (self.below(holder, *class).len() as u64, bytes));
        let (equal_files, equal_bytes) =
            equal.fold((0, 0), |sum, (files, bytes)| (sum.0 + files, sum.1 + files * bytes));
        ContainedDirectory {
            directory: self.name(place),
            files: own.files,
            bytes: own.bytes,
            gain_bytes,
            within: self.name(holder),
            more_files: other.files - equal_files,
            more_bytes: other.bytes.saturating_sub(equal_bytes),
        }
    }

    /// Whether a directory is the other one, or in it.
    fn is_in(&self, place: u32, other: u32) -> bool {
        (other..self.end[other as usize]).contains(&place)
    }

    /// The files of a class in the directories from a place to another.
    fn of_class(&self, class: u32, [start, end]: [u32; 2]) -> &[(u32, u32)] {
        let [start, end] = [start, end].map(|at| self.files.partition_point(|file| *file < (class, at)));
        &self.files[start..end]
    }

    /// The files of a class in a directory, and below.
    fn below(&self, place: u32, class: u32) -> &[(u32, u32)] {
        self.of_class(class, [place, self.end[place as usize]])
    }

    /// The directory and those above it.
    fn with_above(&self, place: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(place), |place| {
            self.tree(*place).parent.map(|parent| self.place_of[parent])
        })
    }

    /// The lowest directories that have files of these classes that are not in directories that are `gone`, apart from those that
    /// contain a directory or are in it.
    fn holders(&self, place: u32, classes: &HashMap<u32, u64>, gone: &[bool]) -> Vec<u32> {
        let outside =
            |class: u32| [[0, place], [self.end[place as usize], u32::MAX]].map(|part| self.of_class(class, part));
        let copies = |class: u32| outside(class).map(<[_]>::len).iter().sum::<usize>();
        let rarest = classes.keys().map(|class| (copies(*class), *class)).min();
        let Some((_, rarest)) = rarest.filter(|(copies, _)| *copies <= COPIES_MAX) else {
            return Vec::new();
        };
        let is_left = |(_, place): &(u32, u32)| self.with_above(*place).all(|above| !gone[self.order[above as usize]]);
        let holds = |above: &u32| {
            classes
                .keys()
                .all(|class| self.below(*above, *class).iter().any(is_left))
        };
        let starts = outside(rarest).concat();
        let lowest = starts
            .into_iter()
            .filter_map(|(_, start)| self.with_above(start).find(holds));
        lowest.filter(|lowest| !self.is_in(place, *lowest)).collect()
    }
}

/// Finds directories whose files are all in another one, and not those in them. None of the content is lost if all of these are
/// removed, and all in `told`: equal directories that need not stay. Those in `grouped`, which equal others, are not told again.
pub(super) fn contained_directories(
    search: &Search<'_>,
    (visited, trees, order): (&[Visited], &[DirectoryNode], &[usize]),
    known: &HashMap<u32, u32>,
    own: &OwnSpace,
    (grouped, told): (&[bool], &[bool]),
) -> Vec<ContainedDirectory> {
    let nested = Nested::new(visited, trees, order, known);
    let (mut gone, mut is_done) = (told.to_vec(), grouped.to_vec());
    let mut contained = Vec::new();
    let gain = |number: &usize| freed_by(search, &[*number], trees, own);
    let mut all: Vec<(u32, usize, u64)> = (0..)
        .zip(order)
        .map(|(place, number)| (place, *number, gain(number)))
        .collect();
    // The one that frees most goes, whatever it is called; a directory frees at least what those in it do. Of others, the one whose
    // path was given last goes.
    all.sort_by_key(|(place, number, gain)| (Reverse(*gain), Reverse(visited[*number].root), *place));
    for (place, number, gain_bytes) in all {
        let (tree, root) = (&trees[number], visited[number].root);
        is_done[number] |= tree.parent.is_some_and(|parent| is_done[parent]);
        // Without a class, not all of its files are known.
        if is_done[number] || tree.sum.bytes == 0 || tree.class.is_none() {
            continue;
        }
        let below = (place..nested.end[place as usize]).flat_map(|place| &nested.tree(place).files);
        let class_of = |file: &u32| Some((*known.get(file)?, search.files.get(*file).bytes));
        let classes: HashMap<u32, u64> = below.filter_map(class_of).collect();
        let may_hold = |other: &u32| {
            let other = visited[order[*other as usize]].root;
            match search.options.across {
                Across::Files => true,
                Across::Roots => root != other,
                Across::References(_) => !search.is_reference(root) && search.is_reference(other),
            }
        };
        let size = |holder: &u32| {
            let TreeSum { files, bytes, .. } = nested.tree(*holder).sum;
            (bytes, files, Reverse(*holder))
        };
        let holders = nested.holders(place, &classes, &gone).into_iter();
        if let Some(holder) = holders.filter(may_hold).min_by_key(size) {
            (gone[number], is_done[number]) = (true, true);
            contained.push(nested.within(place, holder, &classes, gain_bytes));
        }
    }
    contained.sort_by(|one, other| {
        let by_gain = other.gain_bytes.cmp(&one.gain_bytes);
        by_gain.then_with(|| one.directory.cmp(&other.directory))
    });
    contained
}

/// How much of each of two trees is also in the other one, if two were searched.
pub(super) fn overlap(search: &Search<'_>, visited: &[Visited], known: &HashMap<u32, u32>) -> Option<[TreeOverlap; 2]> {
    let roots: HashSet<u32> = visited.iter().map(|one| one.root).collect();
    let files = 0..search.files.len();
    if roots != HashSet::from([0, 1]) || files.clone().any(|file| search.files.root(file) > 1) {
        return None;
    }
    let mut class_roots: HashMap<u32, [bool; 2]> = HashMap::new();
    for (file, class) in known {
        class_roots.entry(*class).or_default()[search.files.root(*file) as usize] = true;
    }
    let mut overlap = [TreeOverlap::default(); 2];
    for file in files {
        let (tree, bytes) = (
            &mut overlap[search.files.root(file) as usize],
            search.files.get(file).bytes,
        );
        tree.files += 1;
        tree.bytes += bytes;
        if known.get(&file).is_some_and(|class| class_roots[class] == [true; 2]) {
            tree.shared_files += 1;
            tree.shared_bytes += bytes;
        }
    }
    Some(overlap)
}
