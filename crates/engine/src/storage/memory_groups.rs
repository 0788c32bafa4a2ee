//! What the control groups of this process leave it of the memory: cgroups(7). The page cache that a process fills counts as its memory.
//!
//! From `/proc/self/cgroup` and `/sys/fs/cgroup`. Without these, there are no limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where a version of control groups has its files, and their names.
struct GroupVersion {
    /// Its name in `/proc/self/cgroup`, and its directory in `/sys/fs/cgroup`.
    controller: &'static str,
    limits: &'static [&'static str],
    used: &'static str,
    /// In `memory.stat`: the page cache, which the kernel takes back for other uses.
    cached: [&'static str; 2],
}

const VERSIONS: [GroupVersion; 2] = [
    GroupVersion {
        controller: "",
        // Above the lower one, the kernel takes back what the page cache has.
        limits: &["memory.max", "memory.high"],
        used: "memory.current",
        cached: ["inactive_file", "active_file"],
    },
    GroupVersion {
        controller: "memory",
        limits: &["memory.limit_in_bytes"],
        used: "memory.usage_in_bytes",
        cached: ["total_inactive_file", "total_active_file"],
    },
];

/// A control group that limits memory.
struct LimitedGroup {
    version: &'static GroupVersion,
    directory: PathBuf,
    limit_bytes: u64,
}

/// The memory available within the limits of this process's groups, on a machine with this much memory; `None` without limits. Which
/// groups they are, and their limits, is read once.
pub(super) fn available_bytes(total_bytes: u64) -> Option<u64> {
    static GROUPS: OnceLock<Vec<LimitedGroup>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let named = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        limited(&named, Path::new("/sys/fs/cgroup"), total_bytes)
    });
    groups.iter().filter_map(LimitedGroup::available_bytes).min()
}

/// The groups with a limit below this many bytes: those that are named, and all above them. In a container, names may be those of the
/// host; of their directories, those that exist are taken.
fn limited(named: &str, mounted: &Path, total_bytes: u64) -> Vec<LimitedGroup> {
    let mut groups = Vec::new();
    for line in named.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let is_named = |version: &&GroupVersion| controllers.split(',').any(|name| name == version.controller);
        let Some(version) = VERSIONS.iter().find(is_named) else {
            continue;
        };
        let root = mounted.join(version.controller);
        let own = root.join(path.trim_start_matches('/'));
        for directory in own.ancestors().take_while(|directory| directory.starts_with(&root)) {
            let limits = version.limits.iter();
            // A group without a limit has the word `max`.
            let limit = limits
                .filter_map(|name| number(&fs::read_to_string(directory.join(name)).ok()?))
                .min();
            if let Some(limit_bytes) = limit.filter(|limit| *limit < total_bytes) {
                groups.push(LimitedGroup {
                    version,
                    directory: directory.to_owned(),
                    limit_bytes,
                });
            }
        }
    }
    groups
}

impl LimitedGroup {
    fn available_bytes(&self) -> Option<u64> {
        let text = |name: &str| fs::read_to_string(self.directory.join(name)).ok();
        let used = number(&text(self.version.used)?)?;
        let facts = text("memory.stat").unwrap_or_default();
        let fact = |name: &str| facts.lines().find_map(|line| number(line.strip_prefix(name)?));
        let cached: u64 = self.version.cached.iter().filter_map(|name| fact(name)).sum();
        Some(self.limit_bytes.saturating_sub(used.saturating_sub(cached)))
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(named: &str, files: &[(&str, &str)]) -> Option<u64> {
        let mounted = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = mounted.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let groups = limited(named, mounted.path(), 1 << 30);
        groups.iter().filter_map(LimitedGroup::available_bytes).min()
    }

    #[test]
    fn the_group_that_leaves_least_decides_and_page_cache_is_left() {
        let files = [
            ("a/memory.max", "1000"),
            ("a/memory.current", "900"),
            ("a/memory.stat", "anon 300\ninactive_file 400\nactive_file 100"),
            ("a/b/memory.max", "max"),
            ("a/b/memory.high", "700"),
            ("a/b/memory.current", "20"),
            ("c/memory.max", "1"),
            ("c/memory.current", "1"),
        ];
        assert_eq!(available("0::/a\n", &files), Some(600));
        assert_eq!(available("0::/a/b\n", &files), Some(600));
        assert_eq!(available("0::/a/b\n", &files[3..]), Some(680));
        assert_eq!(available("0::/\n", &files), None);
        let most = format!("{}", 1_u64 << 30);
        assert_eq!(available("0::/a\n", &[("a/memory.max", &most)]), None);
        assert_eq!(available("", &files), None);
    }

    #[test]
    fn limits_of_the_first_version_count_also_if_the_group_is_seen_as_the_root() {
        let cache = "inactive_file 1\ntotal_inactive_file 150\ntotal_active_file 50";
        let files = [
            ("memory/memory.limit_in_bytes", "1000"),
            ("memory/memory.usage_in_bytes", "900"),
            ("memory/memory.stat", cache),
            ("memory/a/memory.limit_in_bytes", "9223372036854771712"),
        ];
        let named = "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/x\n";
        assert_eq!(available(named, &files), Some(300));
        assert_eq!(available("4:memory:/a\n", &files), Some(300));
    }
}
