//! Equal directories: they hold the same names, each of an equal file, directory or link.

use std::cmp::Reverse;
use std::collections::HashMap;

use seekless_engine::files::FileState;

use super::contained::{contained_directories, overlap};
use super::contents::{Contents, Inside, Inventory};
use super::trees::{DirectoryNode, TreeSum, directory_key, freed_by, own, trees};
use super::{Class, ContainedDirectory, Equal, EqualFiles, FoundName, Proof, RootSpan, Search, TreeOverlap};
use crate::walk::Visited;

/// What a search finds out about directories.
#[derive(Default)]
pub(super) struct FoundDirectories {
    /// Groups of equal ones, those that save most first.
    pub equal: Vec<EqualFiles>,
    pub contained: Vec<ContainedDirectory>,
    pub overlap: Option<[TreeOverlap; 2]>,
}

/// An entry of a directory that was visited.
#[derive(Clone, Copy)]
enum VisitedEntry<'a> {
    Link(&'a [u8]),
    /// An empty file that was not listed.
    Empty,
    File(u32),
    Directory(usize),
}

/// Finds equal directories that are not all inside other equal directories, and removes files that are reported with them
/// from their classes. Those in references come first in each group. Finds what other directories contain, too.
pub(super) fn find_directories(search: &Search<'_>, visited: &[Visited], classes: &mut Vec<Class>) -> FoundDirectories {
    if visited.is_empty() || search.stop.is_stopped() {
        return FoundDirectories::default();
    }
    let (mut trees, tree_of) = trees(search, visited);
    let nested = from_the_top(visited, &mut trees);
    let known = equal_files(search, classes);
    classify(search, visited, &mut trees, &nested, &known);
    let own = own(search, classes);
    let path = |number: usize| visited[number].directory.path_of(b"");
    let root = |number: usize| visited[number].root;
    let is_reference = |number: &usize| search.is_reference(root(*number));
    // A directory comes before those in it, and equal ones are adjacent.
    let mut order = nested.clone();
    order.sort_by_key(|number| Reverse(key_of(&trees[*number])));
    let [mut told, mut grouped] = [(); 2].map(|()| vec![false; trees.len()]);
    let mut equal = Vec::new();
    for alike in order.chunk_by(|one, other| key_of(&trees[*one]) == key_of(&trees[*other])) {
        for number in alike {
            told[*number] = trees[*number].parent.is_some_and(|parent| told[parent]);
        }
        let mut group: Vec<usize> = alike.iter().copied().filter(|number| !told[*number]).collect();
        let TreeSum { files, bytes, .. } = trees[alike[0]].sum;
        let mut met = RootSpan::default();
        for number in &group {
            met.add([root(*number)]);
        }
        if trees[alike[0]].class.is_none() || bytes == 0 || !met.is_group(search.options.across) {
            continue;
        }
        group.sort_by_cached_key(|number| (!is_reference(number), path(*number)));
        for number in &group {
            (told[*number], grouped[*number]) = (*number != group[0], true);
        }
        let references = group.iter().filter(|number| is_reference(number)).count();
        let directory = |number: &usize| equal_directory(search, *number, visited, &trees);
        equal.push(EqualFiles {
            bytes,
            files_in_each: Some(files),
            proof: Proof::Bytes,
            gain_bytes: freed_by(search, &group[references.max(1)..], &trees, &own),
            files: group.iter().map(directory).collect(),
        });
    }
    let contained = contained_directories(search, (visited, &trees, &nested), &known, &own, (&grouped, &told));
    remove_reported(search, classes, |name| {
        tree_of
            .get(&directory_key(search, name))
            .is_some_and(|tree| told[*tree])
    });
    let paths = |group: &EqualFiles| group.names().map(|(_, name)| name.path.clone()).collect::<Vec<_>>();
    equal.sort_by_cached_key(|group| (Reverse(group.gain_bytes), paths(group)));
    FoundDirectories {
        equal,
        contained,
        overlap: overlap(search, visited, &known),
    }
}

/// Removes from classes the files whose names are all in directories that are reported.
fn remove_reported(search: &Search<'_>, classes: &mut Vec<Class>, is_reported: impl Fn(u32) -> bool) {
    for class in &mut *classes {
        class
            .files
            .retain(|member| !search.names_of(member.number).all(&is_reported));
    }
    classes.retain(|class| search.is_group(class.files.iter().map(|member| member.number)));
}

/// A directory of a group of equal ones.
fn equal_directory(search: &Search<'_>, number: usize, visited: &[Visited], trees: &[DirectoryNode]) -> Equal {
    let (state, contents) = seen(search, number, visited, trees);
    Equal {
        names: vec![FoundName {
            path: visited[number].directory.path_of(b""),
            root: visited[number].root,
        }],
        state,
        own_bytes: 0,
        contents: Some(contents),
    }
}

/// The state of a directory and its contents at the search.
pub(super) fn seen(
    search: &Search<'_>,
    number: usize,
    visited: &[Visited],
    trees: &[DirectoryNode],
) -> (FileState, Contents) {
    let mut inventory = Inventory::new(visited[number].id);
    let mut waiting = Vec::new();
    let enter = |number: usize, above: usize, waiting: &mut Vec<_>| {
        let entries = visited_entries(search, number, visited, trees).into_iter().rev();
        waiting.extend(entries.map(|(name, entry)| (above, name, entry)));
    };
    enter(number, 0, &mut waiting);
    while let Some((above, name, entry)) = waiting.pop() {
        let inside = match entry {
            VisitedEntry::Link(target) => Inside::Link(target.to_vec()),
            VisitedEntry::Empty => Inside::Empty,
            VisitedEntry::File(file) if search.files.is_followed(file) => Inside::Link(Vec::new()),
            VisitedEntry::File(file) => match search.files.get(file).state {
                FileState { bytes: 0, .. } => Inside::Empty,
                state => Inside::File(state),
            },
            VisitedEntry::Directory(_) => Inside::Directory,
        };
        inventory.add(above, name, &inside);
        if let VisitedEntry::Directory(number) = entry {
            enter(number, above + 1, &mut waiting);
        }
    }
    inventory.seen()
}

/// The entries of a directory that were found, in the order of their names.
fn visited_entries<'s>(
    search: &'s Search<'_>,
    number: usize,
    visited: &'s [Visited],
    trees: &[DirectoryNode],
) -> Vec<(&'s [u8], VisitedEntry<'s>)> {
    let others = visited[number].others.iter().flatten().map(|(name, target)| {
        let target = target.as_ref();
        (
            &name[..],
            target.map_or(VisitedEntry::Empty, |target| VisitedEntry::Link(target)),
        )
    });
    let files = trees[number].files.iter();
    let files = files.map(|file| (search.files.name(*file), VisitedEntry::File(*file)));
    let children = trees[number].children.iter();
    let children = children.map(|child| {
        let name = visited[*child].directory.name().to_bytes();
        (name, VisitedEntry::Directory(*child))
    });
    let mut entries: Vec<_> = others.chain(files).chain(children).collect();
    entries.sort_by_key(|(name, _)| *name);
    entries
}

/// Gives directories with equal contents the same class, innermost directories first.
fn classify(
    search: &Search<'_>,
    visited: &[Visited],
    trees: &mut [DirectoryNode],
    order: &[usize],
    known: &HashMap<u32, u32>,
) {
    let mut numbers: HashMap<blake3::Hash, u32> = HashMap::new();
    for number in order.iter().rev().copied() {
        let mut sum = TreeSum::default();
        let is_complete = trees[number].children.len() as u64 == visited[number].children;
        let mut is_known = visited[number].others.is_some() && is_complete;
        let mut hasher = blake3::Hasher::new();
        for (name, entry) in visited_entries(search, number, visited, trees) {
            // The kind of each entry, and its target or its class.
            let (kind, which) = match entry {
                VisitedEntry::Link(target) => (b'l', Some(target.to_vec())),
                VisitedEntry::Empty => (b'e', Some(Vec::new())),
                VisitedEntry::File(file) => {
                    sum.add(1, 1, search.files.get(file).bytes);
                    (b'f', known.get(&file).map(|class| class.to_le_bytes().to_vec()))
                }
                VisitedEntry::Directory(child) => {
                    let DirectoryNode { sum: below, class, .. } = &trees[child];
                    sum.add(below.nodes, below.files, below.bytes);
                    (b'd', class.map(|class| class.to_le_bytes().to_vec()))
                }
            };
            is_known &= which.is_some();
            for part in [name, &which.unwrap_or_default()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
            hasher.update(&[kind]);
        }
        sum.add(1, 0, 0);
        trees[number].sum = sum;
        if is_known {
            let next = numbers.len() as u32;
            trees[number].class = Some(*numbers.entry(hasher.finalize()).or_insert(next));
        }
    }
}

/// The class of each name whose file equals another or has several names.
pub(super) fn equal_files(search: &Search<'_>, classes: &[Class]) -> HashMap<u32, u32> {
    let mut known = HashMap::new();
    for (number, class) in (0..).zip(classes) {
        for member in &class.files {
            known.extend(search.names_of(member.number).map(|name| (name, number)));
        }
    }
    let mut next = classes.len() as u32;
    for names in search.names.chunk_by(|one, other| one.0 == other.0) {
        let first = names[0].0;
        if !known.contains_key(&first) {
            known.extend(search.names_of(first).map(|name| (name, next)));
            next += 1;
        }
    }
    known
}

/// What equal directories have in common.
fn key_of(tree: &DirectoryNode) -> (u64, Option<u32>) {
    (tree.sum.nodes, tree.class)
}

/// All directories, each followed by those in it, the last names first.
fn from_the_top(visited: &[Visited], trees: &mut [DirectoryNode]) -> Vec<usize> {
    let roots = (0..trees.len()).filter(|number| trees[*number].parent.is_none());
    let mut waiting: Vec<usize> = roots.collect();
    waiting.sort_by_cached_key(|number| visited[*number].directory.path_of(b""));
    let mut order = Vec::with_capacity(trees.len());
    while let Some(number) = waiting.pop() {
        order.push(number);
        let children = &mut trees[number].children;
        children.sort_unstable_by_key(|child| visited[*child].directory.name());
        waiting.extend(&*children);
    }
    order
}
