//! Choosing by hand which files of each group stay: what an answer says, and a file with the answers, which another run for the same
//! paths takes up.
//!
//! Not here: asking (the command).

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use seekless_engine::files::{hexadecimal, open_own, read_within};
use seekless_sys::Access;

use super::copies::SearchOrigin;
use crate::dupes::{Equal, EqualFiles};

/// The file with the answers is not read if it is longer.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What was answered for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandAnswer {
    /// These files stay, by their numbers from 0 on; nothing is done with the group if there are none.
    Keep {
        /// Ascending.
        files: Vec<usize>,
        /// Whether the same is done in each later group with files in the same directories.
        is_for_all: bool,
    },
    /// Nothing more is asked.
    Stop,
    /// What may be answered is to be said.
    Help,
}

impl HandAnswer {
    /// Reads an answer for a group.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, group: &EqualFiles) -> Result<Self, String> {
        let (mut files, mut is_for_all, mut is_skipped) = (Vec::new(), false, false);
        let number = group.files.len();
        for word in text.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()) {
            match word {
                "q" | "quit" | "stop" => return Ok(Self::Stop),
                "?" | "h" | "help" => return Ok(Self::Help),
                "a" | "all" => is_for_all = true,
                "s" | "skip" => is_skipped = true,
                _ => match word.parse::<usize>() {
                    Ok(file) if (1..=number).contains(&file) => files.push(file - 1),
                    _ => {
                        return Err(format!(
                            "`{word}` is neither a number from 1 to {number} nor a, s, q or ?"
                        ));
                    }
                },
            }
        }
        if files.is_empty() != is_skipped {
            return Err("give the numbers of the files that stay, s to skip the group, or ? for help".to_owned());
        }
        if is_for_all && directories(group).is_none() {
            return Err("`a` works only if each file of the group is in a different directory".to_owned());
        }
        files.sort_unstable();
        files.dedup();
        Ok(Self::Keep { files, is_for_all })
    }
}

/// The directories of the files of a group, ascending; `None` if two files are in one.
fn directories(group: &EqualFiles) -> Option<Vec<PathBuf>> {
    let mut directories: Vec<PathBuf> = group.files.iter().map(directory).collect();
    directories.sort_unstable();
    directories.dedup();
    (directories.len() == group.files.len()).then_some(directories)
}

fn directory(file: &Equal) -> PathBuf {
    file.names[0].path.parent().map(Path::to_owned).unwrap_or_default()
}

/// A digest of texts, as a word.
fn key(texts: impl Iterator<Item = Vec<u8>>) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("seekless dupes: chosen by hand");
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(&text);
    }
    hexadecimal(&hasher.finalize().as_bytes()[..16])
}

/// The digest of the files of a group, and of what they were.
fn key_of(group: &EqualFiles) -> String {
    key(group
        .files
        .iter()
        .map(|file| format!("{:?} {:?}", file.names, file.state).into_bytes()))
}

/// Answers, which are also in a file: a line for each group, with a digest of it and the numbers of what stays.
#[derive(Debug)]
pub struct HandAnswers {
    path: PathBuf,
    file: File,
    known: HashMap<String, Vec<usize>>,
    /// For groups in the same directories, the directories of what stays.
    alike: HashMap<Vec<PathBuf>, Vec<PathBuf>>,
}

impl HandAnswers {
    /// Takes up the answers for a search of the same paths, in the directory for the state of programs.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub fn open(state_directory: &Path, origin: &SearchOrigin) -> Result<Self, (PathBuf, io::Error)> {
        let directory = state_directory.join("choices");
        let roots = origin
            .roots
            .iter()
            .map(|root| (&root.given, &root.path, root.is_reference));
        let path = directory.join(key(roots.map(|root| format!("{root:?}").into_bytes())));
        let opened = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                // A pipe would wait for a reader.
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(&path)?;
            Ok((file, read_within(open_own(&path, Access::Read)?, FILE_BYTES_MAX)?))
        };
        let (file, text) = opened().map_err(|error| (path.clone(), error))?;
        let known = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| {
            // The last line may not be whole.
            let mut words = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split(' ');
            let group = words.next()?.to_owned();
            Some((group, words.map(|word| word.parse().ok()).collect::<Option<_>>()?))
        });
        Ok(Self {
            known: known.collect(),
            path,
            file,
            alike: HashMap::new(),
        })
    }

    /// The file with the answers.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which files of a group stay by an earlier answer.
    #[must_use]
    pub fn known(&self, group: &EqualFiles) -> Option<Vec<usize>> {
        let numbers = 0..group.files.len();
        let alike = || {
            let kept = self.alike.get(&directories(group)?)?;
            let is_kept = |file: &usize| kept.contains(&directory(&group.files[*file]));
            Some(numbers.clone().filter(is_kept).collect())
        };
        let known = self.known.get(&key_of(group)).cloned().or_else(alike);
        known.filter(|files| files.iter().all(|file| numbers.contains(file)))
    }

    /// Keeps an answer.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn add(&mut self, group: &EqualFiles, files: &[usize], is_for_all: bool) -> io::Result<()> {
        if let Some(directories) = directories(group).filter(|_| is_for_all) {
            let kept = files.iter().map(|file| directory(&group.files[*file]));
            self.alike.insert(directories, kept.collect());
        }
        let key = key_of(group);
        if self.known.contains_key(&key) {
            return Ok(());
        }
        let numbers = files.iter().map(usize::to_string);
        let words: Vec<String> = std::iter::once(key.clone()).chain(numbers).collect();
        self.file.write_all((words.join(" ") + "\n").as_bytes())?;
        self.known.insert(key, files.to_vec());
        Ok(())
    }
}
