//! What plans predicted on a storage and what was then measured: a ring of two files beside the profiles of this user.
//!
//! A use is appended by one write(2), and nobody waits for a lock. Whatever is in doubt is lost: a damaged line, uses of two processes
//! that begin a new file at the same time, and all uses where other users could write the files.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use seekless_record::{PlanUse, UseSummary};
use seekless_sys::Access;

use super::{Profiles, StorageName, own_directory};
use crate::files::{WritableByOthers, open_own, read_within, replace_own, require_file_bytes};

/// A file of the ring with this many bytes is full.
const FULL_BYTES: u64 = 32 << 10;
/// The uses are summed up whenever about this many bytes were appended.
const SUM_BYTES: u64 = 1 << 10;

/// The uses of plans on a storage.
#[derive(Debug)]
pub struct StorageUses {
    /// The directory of this user's data, and the path without extensions; `None` if it is unknown where that is.
    stem: Option<(PathBuf, PathBuf)>,
}

impl StorageUses {
    /// Those on a storage.
    #[must_use]
    pub fn of(name: &StorageName) -> Self {
        Self::beside(own_directory().as_deref(), name)
    }

    /// Summaries of the uses on the storage of a path; none where plans use no or other profiles, or the storage is
    /// unknown.
    #[must_use]
    pub fn summaries_at(path: &Path) -> Vec<UseSummary> {
        if !Profiles::of_process().are_found() {
            return Vec::new();
        }
        StorageName::of(path).map_or_else(|_| Vec::new(), |name| Self::of(&name).summaries())
    }

    fn beside(profiles: Option<&Path>, name: &StorageName) -> Self {
        let data = profiles.and_then(Path::parent);
        Self {
            stem: data.map(|data| {
                (
                    data.to_owned(),
                    data.join("uses").join(name.file.trim_end_matches(".json")),
                )
            }),
        }
    }

    fn path(&self, extension: &str) -> io::Result<PathBuf> {
        let (_, stem) = self.stem.as_ref().ok_or(ErrorKind::NotFound)?;
        // A stem has no dot.
        Ok(stem.with_extension(extension))
    }

    /// Appends a use, unless this user has no directory of data yet.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` where other users could write the files.
    pub fn add(&self, one: &PlanUse) -> io::Result<()> {
        require_file_bytes(2 * FULL_BYTES)?;
        let path = self.path(NEWER)?;
        let mut file = match open_own(&path, Access::Append) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make(&path)?;
                open_own(&path, Access::Append)?
            }
            file => file?,
        };
        let line = one.to_line();
        file.write_all(line.as_bytes())?;
        let (after, appended) = (file.metadata()?.len(), line.len() as u64);
        if after / SUM_BYTES != (after - appended) / SUM_BYTES {
            self.sum_up()?;
        }
        if after >= FULL_BYTES {
            fs::rename(&path, self.path(OLDER)?)?;
        }
        Ok(())
    }

    /// Makes a file, and the directory of uses.
    fn make(&self, path: &Path) -> io::Result<()> {
        let (data, _) = self.stem.as_ref().ok_or(ErrorKind::NotFound)?;
        if WritableByOthers::on_the_way(data)?.is_some() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        match DirBuilder::new().mode(0o700).create(data.join("uses")) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        made.map(drop)
    }

    /// Keeps the summaries of the uses that a profile no longer predicts, which plans read.
    fn sum_up(&self) -> io::Result<()> {
        let path = self.path(OFF)?;
        let off = self.summaries().into_iter().filter(UseSummary::is_off);
        let lines: String = off.map(|summary| summary.to_line()).collect();
        if lines.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        replace_own(&path, lines.as_bytes())
    }

    /// Summaries of the uses that are kept.
    fn summaries(&self) -> Vec<UseSummary> {
        let uses = [OLDER, NEWER].into_iter().flat_map(|extension| self.lines(extension));
        let uses: Vec<PlanUse> = uses
            .filter_map(|line| PlanUse::from_line(line.as_bytes()).ok())
            .collect();
        UseSummary::of(&uses)
    }

    /// The summaries of those that a profile no longer predicts, as of some uses ago.
    pub(super) fn off(&self) -> Vec<UseSummary> {
        let lines = self.lines(OFF).into_iter();
        let off = lines.filter_map(|line| UseSummary::from_line(line.as_bytes()).ok());
        off.filter(UseSummary::is_off).collect()
    }

    fn lines(&self, extension: &str) -> Vec<String> {
        let text = self.path(extension).and_then(|path| open_own(&path, Access::Read));
        let text = text
            .and_then(|file| read_within(file, 2 * FULL_BYTES))
            .unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}

const NEWER: &str = "jsonl";
const OLDER: &str = "old.jsonl";
const OFF: &str = "off.jsonl";

#[cfg(test)]
mod tests {
    use seekless_record::Conditions;

    use super::super::tests::id;
    use super::*;

    fn uses_in(data: &Path) -> StorageUses {
        StorageUses::beside(Some(&data.join("profiles")), &StorageName::new(id(), None, None))
    }

    fn plan_use(number: u64, ratio: f64) -> PlanUse {
        PlanUse {
            unix_seconds: number,
            conditions: Conditions::default(),
            bytes: 1 << 20,
            method: "read/sync,block=1M".to_owned(),
            predicted_seconds: 0.1,
            actual_seconds: 0.1 * ratio,
            sitting_unix_seconds: Some(5),
        }
    }

    #[test]
    fn uses_are_kept_in_a_ring_of_at_most_64_kib_and_the_newest_are_summed_up() {
        let directory = tempfile::tempdir().unwrap();
        let uses = uses_in(directory.path());
        for number in 0..1000 {
            uses.add(&plan_use(number, if number < 900 { 9.0 } else { 1.0 }))
                .unwrap();
        }
        let files = fs::read_dir(directory.path().join("uses")).unwrap();
        let bytes: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(bytes.len(), 2, "nothing is off at the end");
        assert!(bytes.iter().sum::<u64>() <= (64 << 10) + 512, "{bytes:?}");
        let summary = uses.summaries().remove(0);
        assert_eq!((summary.uses, summary.median), (40, 1.0));
    }

    #[test]
    fn uses_that_take_longer_than_predicted_are_off_until_some_take_what_was_predicted() {
        let directory = tempfile::tempdir().unwrap();
        let uses = uses_in(directory.path());
        let add = |count, ratio| (0..count).for_each(|number| uses.add(&plan_use(number, ratio)).unwrap());
        add(7, 2.0);
        assert!(uses.off().is_empty());
        add(10, 2.0);
        let off = uses.off();
        assert!(
            off.len() == 1 && off[0].uses >= 8 && (off[0].median - 2.0).abs() < 1e-9,
            "{off:?}"
        );
        add(30, 1.0);
        assert!(uses.off().is_empty());
    }

    #[test]
    fn uses_are_lost_where_lines_are_damaged_or_others_could_write() {
        let directory = tempfile::tempdir().unwrap();
        let uses = uses_in(directory.path());
        uses.add(&plan_use(1, 1.0)).unwrap();
        let path = uses.path(NEWER).unwrap();
        let line = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{}\n{line}{}", &line[..20], &line[..30])).unwrap();
        assert_eq!(uses.summaries()[0].uses, 1);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert!(uses.summaries().is_empty());
        assert!(uses.add(&plan_use(2, 1.0)).is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        assert!(uses.add(&plan_use(2, 1.0)).is_err(), "no link is followed");
        // Nobody gets a directory of data who had none.
        let missing = directory.path().join("missing");
        assert!(uses_in(&missing).add(&plan_use(1, 1.0)).is_err());
        assert!(!missing.exists());
    }
}
