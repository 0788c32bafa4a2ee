//! Limits that a control group sets for a device: bytes and requests per second. On Linux, from `/proc/self/cgroup` and `/sys`; on other
//! systems there are none.

use std::fs;
use std::path::{Path, PathBuf};

/// What a process may read and write per second on a device; infinite without a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceLimits {
    /// Bytes read.
    pub read_bytes: f64,
    /// Requests that read.
    pub read_requests: f64,
    /// Bytes written.
    pub write_bytes: f64,
    /// Requests that write.
    pub write_requests: f64,
}

impl DeviceLimits {
    /// No limits.
    pub const NONE: Self = Self {
        read_bytes: f64::INFINITY,
        read_requests: f64::INFINITY,
        write_bytes: f64::INFINITY,
        write_requests: f64::INFINITY,
    };

    /// Those of this process on a disk, by its directory in `/sys`.
    pub(super) fn of(disk: &Path) -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::in_groups(&groups, Path::new("/sys"), disk)
    }

    /// Those of the groups of a process, as `/proc/self/cgroup` tells them: the least of the groups and those that they are in.
    fn in_groups(groups: &str, system: &Path, disk: &Path) -> Self {
        let Ok(number) = fs::read_to_string(disk.join("dev")) else {
            return Self::NONE;
        };
        let disk = number.trim();
        let mut least = Self::NONE;
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
                continue;
            };
            let of_root = system.join("fs/cgroup");
            let (root, of_group): (PathBuf, fn(&Path, &str, &mut Self)) = match controllers {
                "" => (of_root, Self::of_unified),
                _ if controllers.split(',').any(|name| name == "blkio") => (of_root.join("blkio"), Self::of_blkio),
                _ => continue,
            };
            let group = root.join(group.trim_start_matches('/'));
            for directory in group.ancestors().take_while(|directory| directory.starts_with(&root)) {
                of_group(directory, disk, &mut least);
            }
        }
        least
    }

    /// Of a group of version 2 (`io.max`): a line for each device, as in `254:0 rbps=1048576 wbps=max riops=max wiops=120`.
    fn of_unified(directory: &Path, disk: &str, least: &mut Self) {
        let text = fs::read_to_string(directory.join("io.max")).unwrap_or_default();
        let limits = text
            .lines()
            .filter_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
        for (name, figure) in limits
            .flat_map(str::split_whitespace)
            .filter_map(|limit| limit.split_once('='))
        {
            let limit = match name {
                "rbps" => &mut least.read_bytes,
                "riops" => &mut least.read_requests,
                "wbps" => &mut least.write_bytes,
                "wiops" => &mut least.write_requests,
                _ => continue,
            };
            lower(limit, figure);
        }
    }

    /// Of a group of version 1: a file for each limit, with a line for each device, as in `254:0 1048576`.
    fn of_blkio(directory: &Path, disk: &str, least: &mut Self) {
        for (name, limit) in [
            ("read_bps", &mut least.read_bytes),
            ("read_iops", &mut least.read_requests),
            ("write_bps", &mut least.write_bytes),
            ("write_iops", &mut least.write_requests),
        ] {
            let file = directory.join(format!("blkio.throttle.{name}_device"));
            let text = fs::read_to_string(file).unwrap_or_default();
            let figures = text
                .lines()
                .filter_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
            figures.for_each(|figure| lower(limit, figure));
        }
    }
}

fn lower(limit: &mut f64, figure: &str) {
    if let Some(figure) = figure.trim().parse().ok().filter(|figure: &f64| *figure >= 1.0) {
        *limit = limit.min(figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::device::disk_directory;

    #[test]
    fn limits_are_the_least_of_all_groups_above_for_the_disk_of_a_partition() {
        let directory = tempfile::tempdir().unwrap();
        let system = directory.path();
        let write = |path: &str, text: &str| {
            let path = system.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("devices/sda/dev", "8:0\n");
        write("devices/sda/sda1/dev", "8:1\n");
        write("devices/sda/sda1/partition", "1\n");
        fs::create_dir_all(system.join("dev/block")).unwrap();
        for (number, device) in [("8:0", "sda"), ("8:1", "sda/sda1")] {
            let target = system.join("devices").join(device);
            std::os::unix::fs::symlink(target, system.join("dev/block").join(number)).unwrap();
        }
        write(
            "fs/cgroup/a/io.max",
            "8:0 rbps=300 wbps=max riops=max wiops=7\n8:16 rbps=1 wbps=1 riops=1 wiops=1\n",
        );
        write("fs/cgroup/a/b/io.max", "8:0 rbps=500 wbps=max riops=40 wiops=max\n");
        write("fs/cgroup/blkio/c/blkio.throttle.write_bps_device", "8:01 5\n8:0 900\n");
        let of = |groups: &str, device| {
            let disk = disk_directory(system, device);
            disk.map_or(DeviceLimits::NONE, |disk| {
                DeviceLimits::in_groups(groups, system, &disk)
            })
        };
        let unified = DeviceLimits {
            read_bytes: 300.0,
            read_requests: 40.0,
            write_requests: 7.0,
            ..DeviceLimits::NONE
        };
        let both = DeviceLimits {
            write_bytes: 900.0,
            ..unified
        };
        let groups = "9:name=systemd:/a\n7:blkio:/c\n0::/a/b\n";
        assert_eq!(of("0::/a/b\n", "8:1"), unified);
        assert_eq!(of(groups, "8:0"), both);
        assert_eq!(of("0::/\n", "8:0"), DeviceLimits::NONE);
        assert_eq!(of("nonsense\n::\n", "8:0"), DeviceLimits::NONE);
        assert_eq!(of(groups, "0:40"), DeviceLimits::NONE, "no disk");
    }
}
