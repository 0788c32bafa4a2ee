//! Facts that are kept for the next processes: a file for each storage in the cache directory of this user, with a line for each group.
//!
//! Whatever is in doubt is lost: a damaged line, what is older than a day, and all of it where other users could write the file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use seekless_record::{Interval, PlanFacts};
use seekless_sys::Access;

use super::{Fact, Source};
use crate::files::{open_own, read_within, replace_own};
use crate::profile::{StorageName, user_directory};
use crate::{full_text, log};

/// A file is at most this long.
const MOST_BYTES: u64 = 16 << 10;

/// The facts of a storage that are kept.
#[derive(Debug)]
pub(super) struct FactStore {
    /// `None` if neither `XDG_CACHE_HOME` nor `HOME` says where that is.
    path: Option<PathBuf>,
}

impl FactStore {
    /// Those of a storage with this kernel and these mount options.
    pub fn of(name: &StorageName) -> Self {
        Self::in_cache(directory().as_deref(), name)
    }

    fn in_cache(directory: Option<&Path>, name: &StorageName) -> Self {
        // The name of the profile has the storage and the options of its mount.
        let mut hash = crc32fast::Hasher::new();
        hash.update(name.id.kernel.as_bytes());
        hash.update(&name.id.read_ahead_kib.unwrap_or(0).to_le_bytes());
        let file = format!("{}-{:08x}.jsonl", name.file.trim_end_matches(".json"), hash.finalize());
        Self {
            path: directory.map(|directory| directory.join(file)),
        }
    }

    /// The names of the groups, when they were measured, and the facts.
    pub fn read(&self) -> Vec<(String, Instant, Vec<Fact>)> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let known = self.lines().into_iter().filter_map(|group| {
            // One of the future says nothing of its age.
            let age = now.checked_sub(Duration::from_secs(group.unix_seconds))?;
            let at = Instant::now().checked_sub(age)?;
            let fact = |cost: &Interval| Fact {
                source: Source::Measured(at),
                ..Fact::assumed(cost.low, cost.median, cost.high)
            };
            Some((group.group, at, group.costs.iter().map(fact).collect()))
        });
        known.collect()
    }

    fn lines(&self) -> Vec<PlanFacts> {
        let text = self
            .path
            .as_ref()
            .map(|path| open_own(path, Access::Read).and_then(|file| read_within(file, MOST_BYTES)));
        let text = text.and_then(Result::ok).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| PlanFacts::from_line(line).ok()).collect()
    }

    /// Keeps the facts of a group. What another process adds at the same time may be lost.
    pub fn add(&self, group: &str, facts: &[Fact]) {
        let Some(path) = &self.path else { return };
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let cost = |fact: &Fact| Interval {
            low: fact.low,
            median: fact.value,
            high: fact.high,
            coverage: None,
        };
        let mut groups = self.lines();
        groups.retain(|other| other.group != group);
        groups.push(PlanFacts {
            group: group.to_owned(),
            unix_seconds: now.as_secs(),
            costs: facts.iter().map(cost).collect(),
        });
        let text: String = groups.iter().map(PlanFacts::to_line).collect();
        if let Err(error) = replace_own(path, text.as_bytes()) {
            log::debug!(path = %path.display(), error = full_text(&error), "facts for plans are not kept");
        }
    }
}

/// The directory of kept facts, in that of the user's caches; `None` where no such directory can be made.
fn directory() -> Option<PathBuf> {
    let cache = user_directory("XDG_CACHE_HOME", ".cache", Path::is_dir);
    cache.map(|cache| cache.join("seekless/facts"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::profile::tests::id;

    fn store(directory: &Path, kernel: &str) -> FactStore {
        let mut id = id();
        id.kernel = kernel.to_owned();
        FactStore::in_cache(Some(directory), &StorageName::new(id, None, None))
    }

    #[test]
    fn facts_are_kept_for_their_kernel_and_the_newest_of_a_group_counts() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache/facts");
        let kept = store(&cache, "6.18");
        assert!(kept.read().is_empty());
        let fact = |value| Fact::assumed(value / 2.0, value, value * 2.0);
        kept.add("reads", &[fact(1.0), fact(2.0)]);
        kept.add("calls", &[fact(3.0)]);
        kept.add("reads", &[fact(4.0), fact(5.0)]);
        let found = store(&cache, "6.18").read();
        let values = found
            .iter()
            .map(|(name, _, facts)| (name.as_str(), facts.iter().map(|fact| fact.value).collect()));
        let values: Vec<(&str, Vec<f64>)> = values.collect();
        assert_eq!(values, [("calls", vec![3.0]), ("reads", vec![4.0, 5.0])]);
        assert!(found.iter().all(|(_, _, facts)| facts.iter().all(Fact::is_measured)));
        assert!(store(&cache, "7.0").read().is_empty());
    }

    #[test]
    fn facts_are_lost_where_lines_are_damaged_or_others_could_write() {
        let directory = tempfile::tempdir().unwrap();
        let kept = store(directory.path(), "6.18");
        kept.add("reads", &[Fact::claimed(1.0)]);
        let path = kept.path.clone().unwrap();
        let line = fs::read_to_string(&path).unwrap();
        let future = line.replacen("\"unix_seconds\":", "\"unix_seconds\":9", 1);
        fs::write(&path, format!("{}\n{line}{future}\n\u{0}", &line[..20])).unwrap();
        assert_eq!(kept.read().len(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(kept.read().is_empty());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        assert!(kept.read().is_empty(), "no link is followed");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        kept.add("reads", &[Fact::claimed(1.0)]);
        assert!(kept.read().is_empty(), "no file is made where others can replace it");
    }
}
