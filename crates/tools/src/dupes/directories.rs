//! Equal directories: they hold the same names, each of an equal file, directory or link.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::{Contents, Inside, Inventory};
use seekless::files::FileState;
use seekless::walk::Directory;

use super::{Class, Equal, EqualFiles, FoundName, Met, Proof, Search};
use crate::walk::Visited;

/// Equal directories that are not all inside other equal directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualDirectories {
    /// Regular files in each, and below.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// The space that is freed if only the first stays, or only those in references.
    pub gain_bytes: u64,
    /// In the order of their paths; those in references come first.
    pub paths: Vec<PathBuf>,
    /// For each, the number of the given path that led to it.
    pub roots: Vec<u32>,
    /// The state of each at the search, and what is in it.
    pub seen: Vec<(FileState, Contents)>,
}

impl EqualDirectories {
    /// The same as a group whose files are the directories.
    #[must_use]
    pub fn group(&self) -> EqualFiles {
        let one = |((path, root), (state, contents)): ((&PathBuf, &u32), &(FileState, Contents))| Equal {
            names: vec![FoundName {
                path: path.clone(),
                root: *root,
            }],
            state: *state,
            own_bytes: 0,
            contents: Some(*contents),
        };
        EqualFiles {
            bytes: self.bytes,
            proof: Proof::Bytes,
            gain_bytes: self.gain_bytes,
            files: self.paths.iter().zip(&self.roots).zip(&self.seen).map(one).collect(),
        }
    }
}

/// What is known of a directory that was visited.
struct Tree {
    parent: Option<usize>,
    /// Files in it, by number.
    files: Vec<u32>,
    /// Directories in it that were visited.
    children: Vec<usize>,
    /// Directories with the same number are equal; `None` if not everything in it is known.
    class: Option<u32>,
    sum: TreeSum,
}

/// What is in a directory, and below.
#[derive(Clone, Copy, Default)]
struct TreeSum {
    nodes: u64,
    files: u64,
    bytes: u64,
}

/// The space that each file shares with no other, and the file that a name belongs to.
struct Own {
    bytes: HashMap<u32, u64>,
    first_names: HashMap<u32, u32>,
}

impl Search<'_> {
    /// Finds equal directories, and removes files that are reported with them from their classes.
    pub fn equal_directories(&self, visited: &[Visited], classes: &mut Vec<Class>) -> Vec<EqualDirectories> {
        if visited.is_empty() || self.stop.is_stopped() {
            return Vec::new();
        }
        let (mut trees, tree_of) = self.trees(visited);
        let mut order = from_the_top(&trees);
        self.classify(visited, &mut trees, &order, classes);
        let own = self.own(classes);
        let path = |number: usize| visited[number].directory.path_of(b"");
        let root = |number: usize| visited[number].root;
        let is_reference = |number: &usize| self.is_reference(root(*number));
        // A directory comes before those in it, and equal ones are adjacent.
        order.sort_by_key(|number| Reverse(key_of(&trees[*number])));
        let mut told = vec![false; trees.len()];
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
            for number in &group[1..] {
                told[*number] = true;
            }
            let references = group.iter().filter(|number| is_reference(number)).count();
            equal.push(EqualDirectories {
                files,
                bytes,
                gain_bytes: self.freed_by(&group[references.max(1)..], &trees, &own),
                paths: group.iter().map(|number| path(*number)).collect(),
                roots: group.iter().map(|number| root(*number)).collect(),
                seen: group.iter().map(|number| self.seen(*number, visited, &trees)).collect(),
            });
        }
        for class in &mut *classes {
            class.files.retain(|member| {
                let trees = self.names_of(member.number).map(|name| tree_of.get(&self.key_of(name)));
                // A file with a name elsewhere stays, and is reported there.
                trees.into_iter().any(|tree| tree.is_none_or(|tree| !told[*tree]))
            });
        }
        classes.retain(|class| self.is_group(class.files.iter().map(|member| member.number)));
        equal.sort_by(|one, other| (other.gain_bytes, &one.paths).cmp(&(one.gain_bytes, &other.paths)));
        equal
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
        let mut waiting = self.inside(number, 0, visited, trees);
        while let Some((above, name, inside, directory)) = waiting.pop() {
            inventory.add(above, &name, &inside);
            if let Some(number) = directory {
                waiting.extend(self.inside(number, above + 1, visited, trees));
            }
        }
        inventory.seen()
    }

    /// The entries of a directory, the last first: number of directories above, name, what it is, and index of a directory.
    fn inside(
        &self,
        number: usize,
        above: usize,
        visited: &[Visited],
        trees: &[Tree],
    ) -> Vec<(usize, Vec<u8>, Inside, Option<usize>)> {
        let others = visited[number].others.iter().flatten().map(|(name, target)| {
            let inside = target.clone().map_or(Inside::Empty, Inside::Link);
            (above, name.clone(), inside, None)
        });
        let files = trees[number].files.iter().map(|file| {
            let found = self.files.get(*file);
            let inside = match found.bytes {
                _ if self.files.is_followed(*file) => Inside::Link(Vec::new()),
                0 => Inside::Empty,
                _ => Inside::File(found.state),
            };
            (above, self.files.name(*file).to_vec(), inside, None)
        });
        let children = trees[number].children.iter().map(|child| {
            let name = visited[*child].directory.name().to_bytes().to_vec();
            (above, name, Inside::Directory, Some(*child))
        });
        let mut entries: Vec<_> = others.chain(files).chain(children).collect();
        entries.sort_by(|(_, one, ..), (_, other, ..)| other.cmp(one));
        entries
    }

    /// The space freed by removing some directories: that of files with all their names in them.
    fn freed_by(&self, removed: &[usize], trees: &[Tree], own: &Own) -> u64 {
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
    fn classify(&self, visited: &[Visited], trees: &mut [Tree], order: &[usize], classes: &[Class]) {
        let known = self.equal_files(classes);
        let mut numbers: HashMap<blake3::Hash, u32> = HashMap::new();
        for number in order.iter().rev().copied() {
            let mut sum = TreeSum {
                nodes: 1,
                ..TreeSum::default()
            };
            let others = visited[number].others.as_deref();
            let is_complete = trees[number].children.len() as u64 == visited[number].children;
            // By name: the kind of each entry, and its class or its target.
            let mut entries: BTreeMap<&[u8], (u8, Vec<u8>)> = BTreeMap::new();
            let mut is_known = others.is_some() && is_complete;
            for (name, target) in others.unwrap_or_default() {
                let kind = if target.is_some() { b'l' } else { b'e' };
                entries.insert(name, (kind, target.clone().unwrap_or_default()));
            }
            for file in &trees[number].files {
                sum.files += 1;
                sum.nodes += 1;
                sum.bytes = sum.bytes.saturating_add(self.files.get(*file).bytes);
                match known.get(file) {
                    Some(class) => drop(entries.insert(self.files.name(*file), (b'f', class.to_le_bytes().to_vec()))),
                    None => is_known = false,
                }
            }
            for child in &trees[number].children {
                let below = trees[*child].sum;
                sum.nodes += below.nodes;
                sum.files += below.files;
                sum.bytes = sum.bytes.saturating_add(below.bytes);
                match trees[*child].class {
                    Some(class) => {
                        let name = visited[*child].directory.name().to_bytes();
                        entries.insert(name, (b'd', class.to_le_bytes().to_vec()));
                    }
                    None => is_known = false,
                }
            }
            trees[number].sum = sum;
            if is_known {
                let mut hasher = blake3::Hasher::new();
                for (name, (kind, which)) in &entries {
                    for part in [name, &which[..]] {
                        hasher.update(&(part.len() as u64).to_le_bytes());
                        hasher.update(part);
                    }
                    hasher.update(&[*kind]);
                }
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

/// All directories, parents before children.
fn from_the_top(trees: &[Tree]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trees.len())
        .filter(|number| trees[*number].parent.is_none())
        .collect();
    let mut at = 0;
    while let Some(number) = order.get(at) {
        order.extend(&trees[*number].children);
        at += 1;
    }
    order
}
