//! What a journal says of a step: enough to undo it, or to settle it after a kill.
//!
//! Not here: the file that holds it (`journal`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless::files::{Attributes, FileRef, times};
use seekless_sys as sys;
use serde::{Deserialize, Serialize};

use super::place::{Directories, ExaminedName, relative};
use super::twin::{KnownFile, born_ns_of};
use super::{Action, RefusalReason, Step, TEMPORARY, cannot, trash};
use crate::json;
use crate::walk::ASIDE;

/// A step, and what is known of it before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepRecord {
    #[serde(rename = "step")]
    pub number: u64,
    #[serde(flatten)]
    pub step: Step,
    /// BLAKE3 of the bytes of both files.
    #[serde(rename = "blake3")]
    pub digest: String,
    /// When the kept file was made, if its file system records this.
    pub keep_born_ns: Option<i64>,
    /// The volumes that the file and the kept file are on; journals of earlier versions do not say them.
    #[serde(default)]
    pub volume: Option<String>,
    #[serde(default)]
    pub keep_volume: Option<String>,
    pub old: OldFile,
    /// For each name of a file that is moved, how many of the last directories of its new path are made for it.
    pub made: Vec<u64>,
    /// The trash that it is moved to.
    #[serde(with = "json::paths", default, skip_serializing_if = "Vec::is_empty")]
    pub trash: Vec<PathBuf>,
    #[serde(skip)]
    pub names: Vec<NameOf>,
}

/// What undoing gives to a new file, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OldFile {
    #[serde(flatten)]
    pub attributes: Attributes,
    /// Flags (chattr(1)); `None` if the file system has none.
    pub flags: Option<u32>,
    /// Flags, extent sizes and project ([`seekless_sys::extended_flags`]); `None` if the file system has none.
    pub extended_flags: Option<[u32; 4]>,
    /// Seconds and ns since 1970: years after 2262 do not fit into ns alone.
    pub modified: (i64, u32),
    pub accessed: (i64, u32),
    /// Number of its hard links; the search may have seen fewer.
    pub links: u64,
    /// When it was made, if its file system records this.
    pub born_ns: Option<i64>,
}

/// A name of a file, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameOf {
    pub path: PathBuf,
    /// The temporary name, in the same directory, of the file or of what takes its place.
    pub temporary: String,
    /// The target of the symbolic link that takes its place.
    pub link: Option<PathBuf>,
    /// Where it is moved to.
    pub moved_to: Option<PathBuf>,
    /// The file that says where it was, if it is moved to the trash.
    pub info: Option<PathBuf>,
    /// How many of the last directories of that path are made for it.
    pub made: u64,
}

/// Where a path is moved to: below a directory, with its whole path.
pub(super) fn moved_to(to: &Path, path: &Path) -> PathBuf {
    to.join(path.strip_prefix("/").unwrap_or(path))
}

impl NameOf {
    /// The names of a step.
    pub fn all(action: &Action, run: &str, number: u64, step: &Step, trash: Option<&PathBuf>) -> Vec<Self> {
        let temporary = |at| format!("{TEMPORARY}{run}-{number}-{at}");
        let in_trash = |at, path: &Path| trash.map(|trash| trash::paths(trash, path, &temporary(at)));
        let name = |(at, path): (usize, &PathBuf)| Self {
            path: path.clone(),
            temporary: temporary(at),
            link: match action {
                Action::Symlink { is_absolute: true } => Some(step.keep.path.clone()),
                Action::Symlink { is_absolute: false } => {
                    Some(relative(path.parent().unwrap_or(Path::new("/")), &step.keep.path))
                }
                _ => None,
            },
            moved_to: match action {
                Action::Move { to } => Some(moved_to(to, path)),
                Action::Aside => {
                    let aside = path.with_file_name(format!("{ASIDE}{run}"));
                    Some(aside.join(path.file_name().unwrap_or_default()))
                }
                _ => in_trash(at, path).map(|(file, _)| file),
            },
            info: in_trash(at, path).map(|(_, info)| info),
            made: 0,
        };
        step.file.paths.iter().enumerate().map(name).collect()
    }
}

impl OldFile {
    /// What an open file has.
    pub fn of(file: &File) -> Result<Self, RefusalReason> {
        let found = file.metadata().map_err(cannot("stat"))?;
        let [accessed, modified] = times(&found);
        Ok(Self {
            attributes: Attributes::of(file).map_err(cannot("read its attributes"))?,
            flags: sys::inode_flags(file).map_err(cannot("read its flags"))?.available(),
            extended_flags: sys::extended_flags(file)
                .map_err(cannot("read its extended flags"))?
                .available(),
            modified,
            accessed,
            links: found.nlink(),
            born_ns: born_ns_of(&found),
        })
    }

    /// Whether every owner of a file may give this to it.
    pub fn is_plain(&self) -> bool {
        self.attributes.mode & 0o7000 == 0
            && self.attributes.extended.as_ref().is_none_or(Vec::is_empty)
            && self.flags.is_none_or(|flags| flags == 0)
            && self.extended_flags.unwrap_or_default() == [0; 4]
    }

    /// What distinguishes it from files that get something else.
    pub fn kind(&self) -> String {
        format!("{:?} {:?} {:?}", self.attributes, self.flags, self.extended_flags)
    }

    /// Gives an empty file the flags, some of which only an empty file takes.
    pub fn give_flags(&self, new: &File) -> Result<(), RefusalReason> {
        if let Some(flags) = self.flags {
            sys::set_inode_flags(new, flags).map_err(cannot("restore its flags (lsattr)"))?;
        }
        if let Some(flags) = self.extended_flags {
            sys::set_extended_flags(new, flags).map_err(cannot("restore its project or extent size (xfs_io)"))?;
        }
        Ok(())
    }

    /// Gives a file the owner, mode, attributes and times.
    pub fn give_attributes(&self, new: &File) -> Result<(), RefusalReason> {
        let given = self.attributes.give(new);
        given.map_err(|(attribute, error)| cannot(format!("restore its {attribute}"))(error))?;
        self.give_times(new)
    }

    /// Gives a file the times.
    pub fn give_times(&self, new: &File) -> Result<(), RefusalReason> {
        let set = FileRef::Open(new.as_fd()).set_times(Some(self.accessed), self.modified);
        set.map_err(cannot("restore its times"))
    }
}

impl StepRecord {
    /// What is known of a step before it is done. `run` is unique to this run; `made` are the directories that are made for each
    /// name, and `trash` the trash that it is moved to.
    pub fn new(
        action: &Action,
        run: &str,
        number: u64,
        step: &Step,
        (made, trash): (Vec<u64>, Option<PathBuf>),
        old: OldFile,
    ) -> Self {
        let mut record = Self {
            trash: trash.into_iter().collect(),
            number,
            step: step.clone(),
            digest: String::new(),
            keep_born_ns: None,
            volume: None,
            keep_volume: None,
            old,
            made,
            names: Vec::new(),
        };
        record.name(action, run);
        record
    }

    /// Names what is not written down.
    pub fn name(&mut self, action: &Action, run: &str) {
        self.names = NameOf::all(action, run, self.number, &self.step, self.trash.first());
        for (name, made) in self.names.iter_mut().zip(&self.made) {
            name.made = *made;
        }
    }

    /// The place that one of its paths names. Fails if the volume that it was on is not mounted there.
    pub fn place(&self, path: &Path, directories: &Directories) -> io::Result<ExaminedName> {
        let is_kept = *path == self.step.keep.path;
        let volume = if is_kept { &self.keep_volume } else { &self.volume };
        directories.place_on(path, volume.as_deref())
    }

    /// The file that was acted on.
    pub fn acted_on(&self) -> KnownFile {
        KnownFile::new(self.step.file.state.id(), self.old.born_ns)
    }

    /// The file that was kept.
    pub fn kept(&self) -> KnownFile {
        KnownFile::new(self.step.keep.state.id(), self.keep_born_ns)
    }
}
