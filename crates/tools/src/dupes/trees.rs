//! The directories that a search visited, as trees, and the space that removing some of them frees.

use std::collections::HashMap;
use std::sync::Arc;

use seekless_engine::walk::WalkDirectory;

use super::Search;
use super::found::Class;
use super::opened::entries;
use crate::walk::Visited;

/// What is known of a directory that was visited.
pub(super) struct DirectoryNode {
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
    pub nodes: u64,
    pub files: u64,
    pub bytes: u64,
}

impl TreeSum {
    pub fn add(&mut self, nodes: u64, files: u64, bytes: u64) {
        self.nodes += nodes;
        self.files += files;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// The space that each file shares with no other, and the file that a name belongs to.
pub(super) struct OwnSpace {
    bytes: HashMap<u32, u64>,
    first_names: HashMap<u32, u32>,
}

/// The directories with their files, and the index of each directory.
pub(super) fn trees(search: &Search<'_>, visited: &[Visited]) -> (Vec<DirectoryNode>, HashMap<usize, usize>) {
    let key = |directory: &Arc<WalkDirectory<1>>| Arc::as_ptr(directory) as usize;
    let tree_of: HashMap<usize, usize> = (0..).zip(visited).map(|(at, one)| (key(&one.directory), at)).collect();
    let mut trees: Vec<DirectoryNode> = Vec::with_capacity(visited.len());
    for one in visited {
        trees.push(DirectoryNode {
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
    for number in 0..search.files.len() {
        if let Some(tree) = tree_of.get(&directory_key(search, number)) {
            trees[*tree].files.push(number);
        }
    }
    (trees, tree_of)
}

pub(super) fn directory_key(search: &Search<'_>, number: u32) -> usize {
    Arc::as_ptr(search.files.directory(number)) as usize
}

/// The space freed by removing some directories: that of files with all their names in them.
pub(super) fn freed_by(search: &Search<'_>, removed: &[usize], trees: &[DirectoryNode], own: &OwnSpace) -> u64 {
    let mut bytes = 0;
    let mut several: HashMap<u32, u64> = HashMap::new();
    let mut waiting = removed.to_vec();
    while let Some(number) = waiting.pop() {
        waiting.extend(&trees[number].children);
        // Removing a symbolic link does not remove the file.
        let files = trees[number]
            .files
            .iter()
            .filter(|file| !search.files.is_followed(**file));
        for file in files {
            let first = own.first_names.get(file).copied();
            match own.bytes.get(&first.unwrap_or(*file)).copied() {
                Some(own) if first.is_none() => bytes += own,
                Some(_) => *several.entry(first.unwrap_or(*file)).or_default() += 1,
                None => {}
            }
        }
    }
    let all_gone = several
        .iter()
        .filter(|(first, names)| **names >= entries(search, **first));
    bytes + all_gone.map(|(first, _)| own.bytes[first]).sum::<u64>()
}

pub(super) fn own(search: &Search<'_>, classes: &[Class]) -> OwnSpace {
    let members = classes.iter().flat_map(|class| &class.files);
    let firsts = search
        .names
        .iter()
        .flat_map(|(first, other)| [(*first, *first), (*other, *first)]);
    OwnSpace {
        bytes: members.map(|member| (member.number, member.own_bytes)).collect(),
        first_names: firsts.collect(),
    }
}
