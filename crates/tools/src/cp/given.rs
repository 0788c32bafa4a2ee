//! What a copy has of its source beside the bytes.

use std::ffi::CStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::LazyLock;

use seekless::files::{Attributes, FileRef, FileState, NotGiven, Own, Time, XattrRole, times, without_group_rights};
use seekless::walk::StatFacts;
use seekless_sys::{self as sys, Support, effective_user};

use super::copying::{Copying, Worker};
use super::stored_times::lost;
use super::{CpFailure, CpOptions, OWNER_OF_OTHERS, Preserved};

/// What is known of a source.
pub(super) struct SourceFacts {
    pub state: FileState,
    is_directory: bool,
    attributes: Attributes,
    times: [Time; 2],
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
        let attributes = Attributes {
            owner: metadata.uid(),
            group: metadata.gid(),
            mode,
            extended,
        };
        Ok(Self {
            state: FileState::of(metadata),
            is_directory: metadata.is_dir(),
            attributes: kept(attributes, options),
            times: times(metadata),
        })
    }

    /// Of an entry that must not be opened.
    pub fn of_entry(directory: BorrowedFd<'_>, name: &CStr, facts: &StatFacts, options: &CpOptions) -> Self {
        let extended = if options.preserved.xattr {
            let read = sys::extended_attributes_at(directory, name);
            read.ok().and_then(Support::available)
        } else {
            Some(Vec::new())
        };
        Self {
            state: facts.state,
            is_directory: false,
            attributes: kept(Attributes::new(facts, extended), options),
            times: [facts.accessed, facts.modified],
        }
    }

    /// The mode that a new file without a name may have from the beginning.
    pub fn first_mode(&self) -> u32 {
        self.attributes.mode & 0o777
    }

    /// Takes from an existing copy, until it gets what its source has, the rights that nobody is to have.
    pub fn restrict(&self, copy: BorrowedFd<'_>, found: &StatFacts, options: &CpOptions) -> io::Result<()> {
        let (copy, own) = (FileRef::Open(copy), Own::of(found));
        self.some(copy, &own, false, options).restrict(copy, &own)
    }

    /// What a copy with these attributes of its own gets. `is_new` says whether this copy made it.
    fn some(&self, copy: FileRef<'_>, own: &Own, is_new: bool, options: &CpOptions) -> Attributes {
        let (preserved, mut attributes) = (options.preserved, self.attributes.clone());
        if !preserved.ownership {
            attributes.limit_to(own.owner, own.group);
        }
        if !is_new {
            attributes.keep_own(copy, |role| !preserved.mode || role != XattrRole::Permissions);
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

/// Those that are kept. An access control list is part of the permissions.
fn kept(mut attributes: Attributes, options: &CpOptions) -> Attributes {
    let has_mode = options.preserved.mode;
    attributes.retain(|role| role != XattrRole::Skipped && (has_mode || role != XattrRole::Permissions));
    attributes
}

impl Copying<'_> {
    /// Makes a copy like its source, counts what that cannot get, and returns what it is then.
    pub fn give(
        &self,
        origin: &SourceFacts,
        copy: FileRef<'_>,
        (own, is_new): (&Own, bool),
        path: impl Fn() -> PathBuf,
        worker: &mut Worker,
    ) -> io::Result<StatFacts> {
        let preserved = self.options.preserved;
        let mut not_given = if preserved == Preserved::ALL && is_new {
            origin.attributes.give_possible(copy, own)
        } else {
            origin.some(copy, own, is_new, self.options).give_possible(copy, own)
        };
        let [accessed, modified] = origin.times;
        let set = preserved.timestamps.then(|| copy.set_times(Some(accessed), modified));
        let facts = copy.facts()?;
        match set {
            Some(Err(error)) => not_given.push(("times", error)),
            Some(Ok(())) => {
                if let Some(what) = lost(modified, facts.modified) {
                    *worker.done.not_preserved.entry(what).or_default() += 1;
                }
            }
            None => {}
        }
        self.count_not_given(not_given, path, worker);
        Ok(facts)
    }

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
