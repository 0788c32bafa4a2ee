//! Equal directories: they hold the same names, each of an equal file, directory or link.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::contents::{Contents, Inside, Inventory};
use seekless::files::FileState;
use seekless::walk::Directory;

use super::{Class, ContainedDirectory, Equal, EqualFiles, FoundName, Met, Proof, Search, TreeOverlap};
use crate::walk::Visited;

/// What a search finds out about directories.
#[derive(Default)]
pub(super) struct FoundDirectories {
    /// Groups of equal ones, those that save most first.
    pub equal: Vec<EqualFiles>,
    pub contained: Vec<ContainedDirectory>,
    pub overlap: Option<[TreeOverlap; 2]>,
}

/// What is known of a directory that was visited.
pub(super) struct Tree {
    pub parent: Option<usize>,
    /// Files in it, by number.
    pub files: Vec<u32>,
    /// Directories in it that were visited.
    pub children: Vec<usize>,
    /// Directories with the same number are equal; `None` if not everything in it is known.
    pub class: Option<u32>,
    pub sum: TreeSum,
}

/// What is in a directory, and below.
#[derive(Clone, Copy, Default)]
pub(super) struct TreeSum {
    nodes: u64,
    pub files: u64,
    pub bytes: u64,
}

impl TreeSum {
    fn add(&mut self, nodes: u64, files: u64, bytes: u64) {
        self.nodes += nodes;
        self.files += files;
        self.bytes = self.bytes.saturating_add(bytes);
    }
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

/// The space that each file shares with no other, and the file that a name belongs to.
pub(super) struct Own {
    bytes: HashMap<u32, u64>,
    first_names: HashMap<u32, u32>,
}

impl Search<'_> {
    /// Finds equal directories that are not all inside other equal directories, and removes files that are reported with them
    /// from their classes. Those in references come first in each group. Finds what other directories contain, too.
    pub fn directories(&self, visited: &[Visited], classes: &mut Vec<Class>) -> FoundDirectories {
        if visited.is_empty() || self.stop.is_stopped() {
            return FoundDirectories::default();
        }
        let (mut trees, tree_of) = self.trees(visited);
        let nested = from_the_top(visited, &mut trees);
        let known = self.equal_files(classes);
        self.classify(visited, &mut trees, &nested, &known);
        let own = self.own(classes);
        let path = |number: usize| visited[number].directory.path_of(b"");
        let root = |number: usize| visited[number].root;
        let is_reference = |number: &usize| self.is_reference(root(*number));
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
            let mut met = Met::default();
            for number in &group {
                met.add([root(*number)]);
            }
            if trees[alike[0]].class.is_none() || bytes == 0 || !met.is_group(self.options.across) {
                continue;
            }
            group.sort_by_cached_key(|number| (!is_reference(number), path(*number)));
            for number in &group {
                (told[*number], grouped[*number]) = (*number != group[0], true);
            }
            let references = group.iter().filter(|number| is_reference(number)).count();
            let directory = |number: &usize| {
                let (state, contents) = self.seen(*number, visited, &trees);
                Equal {
                    names: vec![FoundName {
                        path: path(*number),
                        root: root(*number),
                    }],
                    state,
                    own_bytes: 0,
                    contents: Some(contents),
                }
            };
            equal.push(EqualFiles {
                bytes,
                files_in_each: Some(files),
                proof: Proof::Bytes,
                gain_bytes: self.freed_by(&group[references.max(1)..], &trees, &own),
                files: group.iter().map(directory).collect(),
            });
        }
        let contained = self.contained_directories((visited, &trees, &nested), &known, &own, (&grouped, &told));
        for class in &mut *classes {
            class.files.retain(|member| {
                let trees = self.names_of(member.number).map(|name| tree_of.get(&self.key_of(name)));
                // A file with a name elsewhere stays, and is reported there.
                trees.into_iter().any(|tree| tree.is_none_or(|tree| !told[*tree]))
            });
        }
        classes.retain(|class| self.is_group(class.files.iter().map(|member| member.number)));
        let paths = |group: &EqualFiles| group.names().map(|(_, name)| name.path.clone()).collect::<Vec<_>>();
        equal.sort_by_cached_key(|group| (Reverse(group.gain_bytes), paths(group)));
        FoundDirectories {
            equal,
            contained,
            overlap: self.overlap(visited, &known),
        }
    }

    /// The directories with their files, and the index of each directory.
    fn trees(&self, visited: &[Visited]) -> (Vec<Tree>, HashMap<usize, usize>) {
        let key = |directory: &Arc<Directory<1>>| Arc::as_ptr(directory) as usize;
        let tree_of: HashMap<usize, usize> = (0..).zip(visited).map(|(at, one)| (key(&one.directory), at)).collect();
        let mut trees: Vec<Tree> = Vec::with_capacity(visited.len());
        for one in visited {
            trees.push(Tree {
                parent: one
                    .directory
                    .parent()
                    .and_then(|parent| tree_of.get(&key(parent)).copied()),
                files: Vec::new(),
                children: Vec::new(),
                class: None,
                sum: TreeSum::default(),
            });
        }
        for number in 0..trees.len() {
            if let Some(parent) = trees[number].parent {
                trees[parent].children.push(number);
            }
        }
        for number in 0..self.files.len() {
            if let Some(tree) = tree_of.get(&self.key_of(number)) {
                trees[*tree].files.push(number);
            }
        }
        (trees, tree_of)
    }

    fn key_of(&self, number: u32) -> usize {
        Arc::as_ptr(self.files.directory(number)) as usize
    }

    /// The state of a directory and its contents at the search.
    fn seen(&self, number: usize, visited: &[Visited], trees: &[Tree]) -> (FileState, Contents) {
        let mut inventory = Inventory::new(visited[number].id);
        let mut waiting = Vec::new();
        let enter = |number: usize, above: usize, waiting: &mut Vec<_>| {
            let entries = self.visited_entries(number, visited, trees).into_iter().rev();
            waiting.extend(entries.map(|(name, entry)| (above, name, entry)));
        };
        enter(number, 0, &mut waiting);
        while let Some((above, name, entry)) = waiting.pop() {
            let inside = match entry {
                VisitedEntry::Link(target) => Inside::Link(target.to_vec()),
                VisitedEntry::Empty => Inside::Empty,
                VisitedEntry::File(file) if self.files.is_followed(file) => Inside::Link(Vec::new()),
                VisitedEntry::File(file) => match self.files.get(file).state {
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
        &'s self,
        number: usize,
        visited: &'s [Visited],
        trees: &[Tree],
    ) -> Vec<(&'s [u8], VisitedEntry<'s>)> {
        let others = visited[number].others.iter().flatten().map(|(name, target)| {
            let target = target.as_ref();
            (
                &name[..],
                target.map_or(VisitedEntry::Empty, |target| VisitedEntry::Link(target)),
            )
        });
        let files = trees[number].files.iter();
        let files = files.map(|file| (self.files.name(*file), VisitedEntry::File(*file)));
        let children = trees[number].children.iter();
        let children = children.map(|child| {
            let name = visited[*child].directory.name().to_bytes();
            (name, VisitedEntry::Directory(*child))
        });
        let mut entries: Vec<_> = others.chain(files).chain(children).collect();
        entries.sort_by_key(|(name, _)| *name);
        entries
    }

    /// The space freed by removing some directories: that of files with all their names in them.
    pub(super) fn freed_by(&self, removed: &[usize], trees: &[Tree], own: &Own) -> u64 {
        let mut bytes = 0;
        let mut several: HashMap<u32, u64> = HashMap::new();
        let mut waiting = removed.to_vec();
        while let Some(number) = waiting.pop() {
            waiting.extend(&trees[number].children);
            // Removing a symbolic link does not remove the file.
            let files = trees[number]
                .files
                .iter()
                .filter(|file| !self.files.is_followed(**file));
            for file in files {
                let first = own.first_names.get(file).copied();
                match own.bytes.get(&first.unwrap_or(*file)).copied() {
                    Some(own) if first.is_none() => bytes += own,
                    Some(_) => *several.entry(first.unwrap_or(*file)).or_default() += 1,
                    None => {}
                }
            }
        }
        let all_gone = several.iter().filter(|(first, names)| **names >= self.entries(**first));
        bytes + all_gone.map(|(first, _)| own.bytes[first]).sum::<u64>()
    }

    fn own(&self, classes: &[Class]) -> Own {
        let members = classes.iter().flat_map(|class| &class.files);
        let firsts = self
            .names
            .iter()
            .flat_map(|(first, other)| [(*first, *first), (*other, *first)]);
        Own {
            bytes: members.map(|member| (member.number, member.own_bytes)).collect(),
            first_names: firsts.collect(),
        }
    }

    /// Gives directories with equal contents the same class, innermost directories first.
    fn classify(&self, visited: &[Visited], trees: &mut [Tree], order: &[usize], known: &HashMap<u32, u32>) {
        let mut numbers: HashMap<blake3::Hash, u32> = HashMap::new();
        for number in order.iter().rev().copied() {
            let mut sum = TreeSum::default();
            let is_complete = trees[number].children.len() as u64 == visited[number].children;
            let mut is_known = visited[number].others.is_some() && is_complete;
            let mut hasher = blake3::Hasher::new();
            for (name, entry) in self.visited_entries(number, visited, trees) {
                // The kind of each entry, and its target or its class.
                let (kind, which) = match entry {
                    VisitedEntry::Link(target) => (b'l', Some(target.to_vec())),
                    VisitedEntry::Empty => (b'e', Some(Vec::new())),
                    VisitedEntry::File(file) => {
                        sum.add(1, 1, self.files.get(file).bytes);
                        (b'f', known.get(&file).map(|class| class.to_le_bytes().to_vec()))
                    }
                    VisitedEntry::Directory(child) => {
                        let Tree { sum: below, class, .. } = &trees[child];
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
    fn equal_files(&self, classes: &[Class]) -> HashMap<u32, u32> {
        let mut known = HashMap::new();
        for (number, class) in (0..).zip(classes) {
            for member in &class.files {
                known.extend(self.names_of(member.number).map(|name| (name, number)));
            }
        }
        let mut next = classes.len() as u32;
        for names in self.names.chunk_by(|one, other| one.0 == other.0) {
            let first = names[0].0;
            if !known.contains_key(&first) {
                known.extend(self.names_of(first).map(|name| (name, next)));
                next += 1;
            }
        }
        known
    }
}

/// What equal directories have in common.
fn key_of(tree: &Tree) -> (u64, Option<u32>) {
    (tree.sum.nodes, tree.class)
}

/// All directories, each followed by those in it, the last names first.
fn from_the_top(visited: &[Visited], trees: &mut [Tree]) -> Vec<usize> {
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
