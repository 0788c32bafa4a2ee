//! Draws the files of a trial, and the bytes that an update changes in one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use super::command::ROOTS;
use super::tree::{DECOYS, FileTree, MOVED, Properties, TRASH, TREE, TreeEntry, TreeFile, YARD};

/// Bytes for a place of a file.
#[derive(Clone)]
pub struct Patch {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

/// A tree that is being drawn.
pub struct TreeDraw<'r> {
    rng: &'r mut Rng,
    pub tree: FileTree,
    /// Those that files are made in.
    directories: Vec<String>,
}

/// No file of duplicates is longer.
const MOST_BYTES: usize = 300 << 10;

impl Patch {
    pub fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{}", self.offset, self.bytes.len())
    }
}

/// The bytes with all patches.
pub fn patched(bytes: &[u8], patches: &[Patch]) -> Vec<u8> {
    let mut after = bytes.to_vec();
    for patch in patches {
        after.resize(after.len().max(patch.end()), 0);
        after[patch.offset..patch.end()].copy_from_slice(&patch.bytes);
    }
    after
}

/// Bytes none of which is zero, so that missing ones are seen.
pub fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes
}

impl<'r> TreeDraw<'r> {
    pub fn new(rng: &'r mut Rng) -> Self {
        let directories = [TREE, YARD, DECOYS, MOVED].into_iter().chain(ROOTS);
        Self {
            rng,
            tree: directories.map(|path| (path.into(), TreeEntry::Directory)).collect(),
            directories: ROOTS.map(str::to_owned).into(),
        }
    }

    fn add_directory(&mut self, above: &str, name: &str) {
        let path = format!("{above}/{name}");
        self.tree.insert(path.clone().into(), TreeEntry::Directory);
        self.directories.push(path);
    }

    /// Adds a link, or a file and perhaps further names of it, none of which is in another. Returns the last name.
    fn add(&mut self, mut entry: TreeEntry) -> PathBuf {
        if let TreeEntry::File(file) = &mut entry {
            file.inode = self.tree.len() as u64;
        }
        loop {
            let number = self.tree.len();
            let tail = match self.rng.u8(..20) {
                0 => " \x1b[31m",
                1 => "é\n",
                2 => "'\"\\",
                3..6 => ".keep",
                _ => "",
            };
            let long = if self.rng.u8(..40) == 0 { 180 } else { 0 };
            let above = &self.directories[self.rng.usize(..self.directories.len())];
            let path = PathBuf::from(format!("{above}/{}f{number}_{tail}", "x".repeat(long)));
            self.tree.insert(path.clone(), entry.clone());
            if !matches!(entry, TreeEntry::File(_)) || self.rng.u8(..8) > 0 {
                return path;
            }
        }
    }

    fn draw_file(&mut self, bytes: Arc<[u8]>) -> TreeFile {
        let rng = &mut *self.rng;
        // A day of 1955, of 2001 and of 2242, and any since 1970.
        let earliest = UNIX_EPOCH - Duration::from_hours(125_000);
        let since = [0, 1_450_000_000, 9_050_000_000, rng.u64(450_000_000..2_150_000_000)][rng.usize(..4)];
        let modified = earliest + Duration::new(since, rng.u32(..1_000_000_000));
        let value = rng.u8(..12);
        let attribute = (value < 3).then(|| ("user.ours".to_owned(), vec![value]));
        TreeFile {
            inode: 0,
            bytes,
            properties: Properties {
                mode: [0o600, 0o644, 0o644, 0o444, 0o4755][rng.usize(..5)],
                owner: if rng.u8(..12) == 0 { 1000 } else { 0 },
                attributes: attribute.into_iter().collect(),
            },
            modified: Some(modified).filter(|_| rng.bool()),
        }
    }

    /// One file, perhaps with several names. Returns one.
    pub fn draw_one(&mut self) -> PathBuf {
        let length = match self.rng.u8(..20) {
            0 => 0,
            1 => self.rng.usize(1..100),
            2..12 => self.rng.usize(100..20_000),
            12..19 => self.rng.usize(20_000..300_000),
            _ => self.rng.usize(300_000..3_000_000),
        };
        let mut bytes = random(self.rng, length);
        let has_zeros = self.rng.bool();
        for block in bytes.chunks_mut(4096) {
            if has_zeros && self.rng.bool() {
                block.fill(0);
            }
        }
        let mut file = self.draw_file(bytes.into());
        // A journal that a kill left incomplete is refused if the file is dated in the future.
        file.modified = file.modified.filter(|modified| *modified < SystemTime::now());
        self.add(TreeEntry::File(file))
    }

    /// A file that is compared with one of these bytes.
    pub fn draw_second(&mut self, mut bytes: Vec<u8>) -> PathBuf {
        match self.rng.u8(..3) {
            0 if !bytes.is_empty() => {
                let at = self.rng.usize(..bytes.len());
                bytes[at] ^= 2;
            }
            1 => bytes.truncate(self.rng.usize(..=bytes.len())),
            _ => {}
        }
        let file = self.draw_file(bytes.into());
        self.add(TreeEntry::File(file))
    }

    /// Groups of equal files, and links, in directories.
    pub fn draw_groups(&mut self) {
        for number in 0..self.rng.usize(1..7) {
            let above = self.directories[self.rng.usize(..self.directories.len())].clone();
            let name = ["d", "d d", "d\n", "dé"][self.rng.usize(..4)];
            self.add_directory(&above, &format!("{number}{name}"));
        }
        if self.rng.u8(..4) == 0 {
            let root = ROOTS[self.rng.usize(..2)];
            self.add_directory(root, TRASH);
        }
        // Steps are done in batches of 512.
        let are_many = self.rng.u8(..60) == 0;
        for _ in 0..self.rng.usize(if are_many { 2..5 } else { 1..8 }) {
            self.draw_group(are_many);
        }
        for _ in 0..self.rng.usize(..3) {
            let number = self.rng.usize(..self.tree.len());
            let target = self.tree.keys().nth(number).and_then(|path| path.file_name());
            let (target, bytes) = (target.unwrap_or_default().into(), None);
            self.add(TreeEntry::Symlink { target, bytes });
        }
        self.add_decoys();
    }

    /// Adds directories that stand in for those of the tree, with files of the same names and bytes.
    fn add_decoys(&mut self) {
        for (path, mut entry) in self.tree.clone() {
            if let TreeEntry::File(file) = &mut entry {
                file.inode = self.tree.len() as u64;
            }
            if path.starts_with(TREE) {
                self.tree.insert(Path::new(DECOYS).join(path), entry);
            }
        }
    }

    /// Adds equal files, and perhaps others that differ from them in one byte.
    fn draw_group(&mut self, are_many: bool) {
        let rng = &mut *self.rng;
        let length = match rng.u8(..12) {
            _ if are_many => rng.usize(1..40),
            0 => rng.usize(..40),
            1..5 => rng.usize(40..8000),
            _ => {
                let most = MOST_BYTES >> rng.u32(..14);
                rng.usize(1..=most)
            }
        };
        let mut group = vec![random(rng, length)];
        if rng.bool() && length > 200 {
            let mut differing = group[0].clone();
            let at = rng.usize(length * 3 / 4..length);
            differing[at] ^= 2;
            group.push(differing);
        }
        let are_alike = rng.u8(..3) > 0;
        let usual = self.draw_file(Arc::default());
        for bytes in group.into_iter().map(Arc::<[u8]>::from) {
            let files = match self.rng.u8(..4) {
                _ if are_many => self.rng.usize(100..400),
                0 => 1,
                1 | 2 => self.rng.usize(2..5),
                _ => self.rng.usize(2..13),
            };
            for _ in 0..files {
                let mut file = self.draw_file(Arc::clone(&bytes));
                if are_alike && self.rng.u8(..10) > 0 {
                    (file.properties, file.modified) = (usual.properties.clone(), usual.modified);
                }
                self.add(TreeEntry::File(file));
            }
        }
    }
}
