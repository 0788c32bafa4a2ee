//! What is in a directory: enough to tell later whether it has changed.
//!
//! Not here: listing directories (`walk`).

use seekless_engine::files::{FileId, FileState};
use serde::Serialize;

/// What is in a directory, and below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Regular files.
    pub files: u64,
    /// Directories, itself included.
    pub directories: u64,
    /// BLAKE3 of all names, with what each was.
    pub listing: Digest,
}

/// 256 bits, which are written as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Digest(blake3::Hash);

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.to_hex().to_string()
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// A regular file.
    File(FileState),
    /// An empty regular file. A search may omit it, so nothing more is known of it.
    Empty,
    /// A symbolic link with its target, which is empty if the search followed the link.
    Link(Vec<u8>),
    Directory,
}

/// Sums up the entries of a directory, recursively. The contents of a directory follow it, in the order of names, so not all of
/// them need be in memory.
pub(super) struct Inventory {
    state: FileState,
    files: u64,
    directories: u64,
    hasher: blake3::Hasher,
}

impl Inventory {
    /// An inventory of the directory with this ID.
    pub fn new(id: FileId) -> Self {
        Self {
            state: FileState {
                device: id.device,
                inode: id.inode,
                bytes: 0,
                modified_ns: i64::MIN,
                changed_ns: i64::MIN,
            },
            files: 0,
            directories: 1,
            hasher: blake3::Hasher::new(),
        }
    }

    /// Adds an entry with `above` directories above it.
    pub fn add(&mut self, above: usize, name: &[u8], inside: &Inside) {
        self.number(above as u64);
        self.text(name);
        match inside {
            Inside::File(file) => {
                self.files += 1;
                self.state.bytes = self.state.bytes.saturating_add(file.bytes);
                self.state.modified_ns = self.state.modified_ns.max(file.modified_ns);
                self.state.changed_ns = self.state.changed_ns.max(file.changed_ns);
                self.hasher.update(b"f");
                // Without the device: a restart may change its number, and all entries are on the directory's device.
                self.number(file.inode);
                self.number(file.bytes);
                self.number(file.modified_ns.cast_unsigned());
                self.number(file.changed_ns.cast_unsigned());
            }
            Inside::Empty => {
                self.files += 1;
                self.hasher.update(b"e");
            }
            Inside::Link(target) => {
                self.hasher.update(b"l");
                self.text(target);
            }
            Inside::Directory => {
                self.directories += 1;
                self.hasher.update(b"d");
            }
        }
    }

    fn number(&mut self, number: u64) {
        self.hasher.update(&number.to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.hasher.update(text);
    }

    /// The directory: the sum of the sizes of its files, and the latest times of those that are not empty; and what is in it.
    pub fn seen(&self) -> (FileState, Contents) {
        let contents = Contents {
            files: self.files,
            directories: self.directories,
            listing: Digest(self.hasher.finalize()),
        };
        (self.state, contents)
    }
}
