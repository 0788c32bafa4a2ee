//! Other processes at the files of a tree while seekless works on them. Each writes bytes that are found nowhere else, and keeps
//! account of what it did and what the system answered.
//!
//! None of them destroys what was there: what loses its name is moved to a directory of its own, by the same call, or was copied. So
//! each byte that any of them wrote, and each content that was there before, must be found afterwards (`verdict`).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;

use super::disturb::moment;

/// The bytes that a mark has.
pub const MARK_BYTES: usize = 16;

/// Another process, which acts on files at random.
#[derive(Debug)]
pub struct Disturber {
    pub seed: u64,
    pub kinds: Vec<Interference>,
    pub after: Duration,
    /// Or as soon as a delay begins.
    pub at_delay: bool,
    /// It has a file open for writing before seekless starts, and writes to that.
    pub opens_first: bool,
    /// Between two acts, at most.
    pub pause: Duration,
    /// It stops after so many acts, or when the run ends.
    pub most_acts: usize,
    /// It comes to the names of one content only.
    pub is_at_one: bool,
}

/// What is done with a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Appends a mark.
    Append,
    /// The same, and puts back the times.
    AppendInSecret,
    /// Writes a mark over bytes.
    Overwrite,
    /// The same through a mapping, after the file was closed.
    OverwriteMapped,
    /// The same by a second `seekless update`.
    Update,
    /// A new file takes the name, as editors save; what had it is moved away, by one call.
    Save,
    /// A copy takes the name of the file, as `cp` and `mv` do: a name that was linked is parted from the others.
    Copy,
    /// What has the name is moved away.
    TakeAway,
    Mode,
    Owner,
    Times,
    Attribute,
    /// Makes another name, and removes it.
    Link,
    /// Renames a directory, and renames it back.
    RenameDirectory,
    /// Puts a symbolic link to a directory with files of the same names and bytes in the place of a directory, and puts the
    /// directory back.
    ReplaceDirectory,
}

/// How often each is drawn: at trees, at one file, and between a run and what follows, where they part the names that seekless
/// linked and write to one of them.
const WEIGHTS: [(Interference, [usize; 3]); 15] = [
    (Interference::Append, [2, 2, 1]),
    (Interference::AppendInSecret, [2, 1, 1]),
    (Interference::Overwrite, [2, 2, 1]),
    (Interference::OverwriteMapped, [1, 1, 0]),
    (Interference::Update, [0, 1, 0]),
    (Interference::Save, [4, 2, 1]),
    (Interference::Copy, [3, 0, 3]),
    (Interference::TakeAway, [2, 0, 0]),
    (Interference::Mode, [1, 1, 0]),
    (Interference::Owner, [1, 1, 0]),
    (Interference::Times, [1, 0, 0]),
    (Interference::Attribute, [1, 1, 0]),
    (Interference::Link, [1, 0, 0]),
    (Interference::RenameDirectory, [2, 0, 0]),
    (Interference::ReplaceDirectory, [2, 0, 0]),
];
pub const AT_TREES: usize = 0;
pub const AT_ONE_FILE: usize = 1;
pub const PARTING: usize = 2;

impl Disturber {
    /// Draws one that does all that one of these columns of the weights has, or one of that alone.
    pub fn draw(rng: &mut Rng, column: usize) -> Self {
        let kinds = WEIGHTS.iter().flat_map(|(kind, weights)| vec![*kind; weights[column]]);
        let mut kinds: Vec<_> = kinds.collect();
        if rng.bool() {
            kinds = vec![kinds[rng.usize(..kinds.len())]];
        }
        Self {
            seed: rng.u64(..),
            kinds,
            after: match rng.u8(..3) {
                0 => Duration::ZERO,
                _ => moment(rng),
            },
            at_delay: rng.u8(..3) > 0,
            opens_first: rng.u8(..4) == 0,
            pause: Duration::from_micros([0, 200, 1000, 5000][rng.usize(..4)]),
            most_acts: [rng.usize(1..8), rng.usize(8..80), 2000][rng.usize(..3)],
            is_at_one: rng.bool(),
        }
    }

    /// Draws one that acts a few times.
    pub fn draw_brief(rng: &mut Rng, column: usize) -> Self {
        Self {
            most_acts: rng.usize(1..8),
            ..Self::draw(rng, column)
        }
    }
}

impl Interference {
    pub fn moves_directory(self) -> bool {
        matches!(self, Self::RenameDirectory | Self::ReplaceDirectory)
    }
}

/// One of them did this.
#[derive(Clone)]
pub struct Act {
    pub kind: Interference,
    /// The file, or the directory if it is one, in the directory of the trial.
    pub path: PathBuf,
    /// What it wrote, as far as it was written: bytes that are found nowhere else. If the act failed, they may be in the file.
    pub wrote: Vec<u8>,
    /// Where, if it is a mark.
    pub offset: usize,
    /// The mode, owner or value of an attribute that was set.
    pub set: u32,
    pub answer: Result<(), String>,
}

impl Act {
    /// Whether it gives a directory another name, or another directory the name.
    pub fn moves_directory(&self) -> bool {
        self.kind.moves_directory()
    }

    /// It gave a name of the tree to another file, or took it.
    pub fn gives_name(&self) -> bool {
        let kinds = [Interference::Save, Interference::Copy, Interference::TakeAway];
        self.answer.is_ok() && kinds.contains(&self.kind)
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, path, wrote, .. } = self;
        let start = wrote[..wrote.len().min(MARK_BYTES)].escape_ascii();
        write!(out, "{}: {kind:?}, {} B {start} ", path.display(), wrote.len())?;
        write!(out, "at {}, set {:o}: {:?}", self.offset, self.set, self.answer)
    }
}
