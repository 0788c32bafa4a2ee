//! What a copy has of its source beside the bytes.

use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use seekless::files::{Attributes, FileState, NotGiven, Own, without_group_rights};
use seekless_sys::{self as sys, effective_user};

use super::copying::{Copying, Worker};
use super::{CpFailure, CpOptions, OWNER_OF_OTHERS, Preserved};

/// What is known of a source.
pub(super) struct SourceFacts {
    pub state: FileState,
    is_directory: bool,
    attributes: Attributes,
    times: FileTimes,
}

/// The permissions that a new file does not get: umask(2), which cannot be read without changing it for a moment.
pub(super) static UMASK: LazyLock<u32> = LazyLock::new(|| {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask
        .and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .unwrap_or(0o022)
});

impl SourceFacts {
    /// Of an open directory.
    pub fn of_directory(directory: BorrowedFd<'_>, options: &CpOptions) -> io::Result<Self> {
        let directory = File::from(directory.try_clone_to_owned()?);
        Self::of(&directory, &directory.metadata()?, options)
    }

    /// Of an open file.
    pub fn of(file: &File, metadata: &Metadata, options: &CpOptions) -> io::Result<Self> {
        let mut mode = metadata.mode() & 0o7777;
        let extended = if options.preserved.xattr {
            sys::extended_attributes(file.as_fd())?.available()
        } else {
            // The group's rights are then the most that the list grants to anybody in it.
            if sys::access_list(file)?.available().flatten().is_some() {
                mode = without_group_rights(mode);
            }
            Some(Vec::new())
        };
        Ok(Self {
            state: FileState::of(metadata),
            is_directory: metadata.is_dir(),
            attributes: Attributes {
                owner: metadata.uid(),
                group: metadata.gid(),
                mode,
                extended,
            },
            times: FileTimes::new()
                .set_accessed(metadata.accessed()?)
                .set_modified(metadata.modified()?),
        })
    }

    /// The permissions of the source.
    pub fn mode(&self) -> u32 {
        self.attributes.mode
    }

    /// The mode that a new file without a name may have from the beginning.
    pub fn first_mode(&self) -> u32 {
        self.attributes.mode & 0o777
    }

    /// Makes an open copy like it, and returns what that cannot get. `is_new` says whether this copy made it.
    pub fn give(&self, copy: &File, own: &Own, is_new: bool, options: &CpOptions) -> Vec<NotGiven> {
        let preserved = options.preserved;
        let mut not_given = if preserved == Preserved::ALL && is_new {
            self.attributes.give_possible(copy, own)
        } else {
            let mut attributes = self.some(own, is_new, options);
            if !is_new {
                attributes.keep_own(copy);
            }
            attributes.give_possible(copy, own)
        };
        if preserved.timestamps
            && let Err(error) = copy.set_times(self.times)
        {
            not_given.push(("times", error));
        }
        not_given
    }

    /// What a copy gets that is not to be like it in everything.
    fn some(&self, own: &Own, is_new: bool, options: &CpOptions) -> Attributes {
        let (preserved, mut attributes) = (options.preserved, self.attributes.clone());
        if !preserved.ownership {
            if attributes.group != own.group {
                // Another group does not get the rights of this one.
                attributes.mode = without_group_rights(attributes.mode) & 0o1777;
            }
            (attributes.owner, attributes.group) = (own.owner, own.group);
        }
        if !preserved.mode {
            let usual = if self.is_directory { 0o777 } else { 0o666 };
            attributes.mode = match (is_new, options.usual_mode) {
                (true, true) => usual & !*UMASK,
                (true, false) => attributes.mode & 0o777 & !*UMASK,
                (false, _) => own.mode,
            };
        }
        attributes
    }
}

impl Copying<'_> {
    /// Counts what a copy could not get, and tells it.
    pub fn count_not_given(&self, not_given: Vec<NotGiven>, path: impl Fn() -> PathBuf, worker: &mut Worker) {
        for (what, error) in not_given {
            let is_expected = what == OWNER_OF_OTHERS && effective_user() != 0;
            *worker.done.not_preserved.entry(what).or_default() += 1;
            if !is_expected {
                self.watch.failed(&CpFailure {
                    path: path(),
                    action: "preserve all attributes",
                    reason: format!("{what}: {error}"),
                });
            }
        }
    }
}
