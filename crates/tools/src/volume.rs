//! Which file system a directory is on, as journals say it: after a restart, a device number may mean another
//! one, and a path may lead below a mount point whose volume is not there.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, fstatvfs, openat};
use seekless_engine::Mounts;
use seekless_engine::files::hexadecimal;
use seekless_engine::walk::StatFacts;
use seekless_sys::{self as sys, Directory, Support};

use crate::visible::visible_path;

/// The type of a file system, and what identifies it on this machine: `f_fsid` of statvfs(3), which on btrfs is that of the subvolume,
/// or its UUID. Where both are missing, as on FUSE and NFS, its type only. A tmpfs has another identity whenever it is mounted.
///
/// # Errors
/// The system's: what is known of it by half would be another file system later.
pub(crate) fn system_of(directory: impl AsFd) -> io::Result<String> {
    let name = sys::file_system_of(&directory)?.type_name;
    let device = StatFacts::of(&directory)?.device;
    let id = fstatvfs(&directory)?.f_fsid;
    // XFS and exFAT report the number of their device.
    if id != 0 && id != device {
        return Ok(format!("{name} {id:016x}"));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = openat(&directory, ".", flags, Mode::empty()).map(File::from).ok();
    let uuid = readable.and_then(|readable| sys::file_system_uuid(&readable).ok().and_then(Support::available));
    Ok(match uuid.filter(|uuid| uuid.iter().any(|byte| *byte != 0)) {
        Some(uuid) => format!("{name} {}", hexadecimal(&uuid)),
        None => name,
    })
}

/// Names the volume of a directory: [`system_of`] it, where that is mounted, and which directory of it.
pub(crate) fn volume_of(directory: &Directory, mount: Option<u64>) -> String {
    // What is not known is not compared.
    let system = system_of(directory).unwrap_or_default();
    let mounts = Mounts::of_this_process();
    let Some(mount) = mounts.iter().find(|shown| Some(shown.id) == mount) else {
        return system;
    };
    // A directory that is mounted on itself, as services and containers do, has the paths that it would have without the mount.
    let (mut root, mut point) = (mount.root.as_path(), mount.point.as_path());
    while let (Some(name), Some(above), Some(there)) = (root.file_name(), root.parent(), point.parent())
        && point.file_name() == Some(name)
    {
        (root, point) = (above, there);
    }
    match root.parent() {
        Some(_) => format!("{system}{ON}{} ({})", visible_path(point), visible_path(root)),
        None => format!("{system}{ON}{}", visible_path(point)),
    }
}

/// Separates a file system from its mount point.
const ON: &str = " on ";

/// Whether a volume is one that a journal names. What one of them does not say is not compared.
pub(crate) fn is_volume(now: &str, was: &str) -> bool {
    let [now, was] = [now, was].map(|volume| {
        let (system, place) = volume.split_once(ON).unwrap_or((volume, ""));
        let (name, id) = system.split_once(' ').unwrap_or((system, ""));
        [name, id, place]
    });
    now.iter()
        .zip(was)
        .all(|(now, was)| now.is_empty() || was.is_empty() || **now == *was)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::{Mounted, mounts};

    #[test]
    fn volume_is_the_same_unless_something_known_differs() {
        for (now, was, expected) in [
            ("ext4 1 on /a", "ext4 1 on /a", true),
            ("ext4 2 on /a", "ext4 1 on /a", false),
            ("ext4 1 on /a (/x)", "ext4 1 on /a", false),
            ("xfs 1 on /a", "ext4 1 on /a", false),
            ("xfs 1 on /a", "xfs on /a", true),
            ("fuse on /a", "fuse on /a", true),
            ("ext4 1", "ext4 1 on /a", true),
        ] {
            assert_eq!(is_volume(now, was), expected, "{now}, {was}");
        }
    }

    #[test]
    fn a_directory_that_is_mounted_on_itself_is_where_it_was() {
        let place = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| place.path().join(name));
        let volume = |path: &Path| {
            let directory = Directory::open(path).unwrap();
            volume_of(&directory, sys::mount_id(&directory))
        };
        std::fs::create_dir(&own).unwrap();
        std::fs::create_dir(&other).unwrap();
        let before = volume(&own);
        let bind = |target: &Path| {
            let words = ["--bind".as_ref(), own.as_os_str(), target.as_os_str()];
            mounts("mount", &words).then(|| Mounted(target.to_owned()))
        };
        let Some(_itself) = bind(&own) else { return };
        assert_eq!(volume(&own), before);
        let _again = bind(&other);
        assert_ne!(volume(&other), before);
    }
}
