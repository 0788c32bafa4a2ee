//! Which files processes have mapped, from `/proc/PID/maps`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::support::Support;

/// The namespaces of the machine itself, not of a container: linux/nsfs.h.
const INITIAL_NAMESPACES: [(&str, &str); 2] = [
    ("/proc/self/ns/pid", "pid:[4026531836]"),
    ("/proc/self/ns/user", "user:[4026531837]"),
];

/// The files that processes have mapped shared (mmap(2) `MAP_SHARED`) at one time, as `/proc` names them: device and inode.
#[derive(Debug)]
pub struct SharedMappings(HashSet<Box<[u8]>>);

/// Reads which files all processes have mapped shared.
///
/// `Unavailable` unless all processes can be seen: only root can look into those of others, and outside of containers only.
///
/// # Errors
/// The system's.
pub fn shared_mappings() -> io::Result<Support<SharedMappings>> {
    let is_outside = |(path, name): &(&str, &str)| fs::read_link(path).is_ok_and(|found| found.as_os_str() == *name);
    if !INITIAL_NAMESPACES.iter().all(is_outside) {
        let reason = "in a container, nobody sees the files that processes outside have mapped";
        return Ok(Support::Unavailable(reason));
    }
    let (mut files, mut read) = (HashSet::new(), HashSet::new());
    loop {
        let mut is_new = false;
        for entry in fs::read_dir("/proc")? {
            let process = entry?.path();
            let name = process.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.bytes().all(|byte| byte.is_ascii_digit()) || !read.insert(process.clone()) {
                continue;
            }
            is_new = true;
            match of_process(&process, &mut files) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    let reason = "some processes cannot be looked into (only root with all capabilities can)";
                    return Ok(Support::Unavailable(reason));
                }
                other => other?,
            }
        }
        // A process that ended meanwhile may have left its mappings to a new one.
        if !is_new {
            // The first process is hidden like those of all other users.
            let sees_all = read.contains(Path::new("/proc/1"));
            return Ok(if sees_all {
                Support::Available(SharedMappings(files))
            } else {
                Support::Unavailable("/proc hides the processes of other users (option `hidepid`)")
            });
        }
    }
}

/// Adds the files that a process has mapped.
fn of_process(process: &Path, files: &mut HashSet<Box<[u8]>>) -> io::Result<()> {
    if of_task(&process.join("maps"), files)? > 0 {
        return Ok(());
    }
    // A kernel thread; or a process whose first thread has ended.
    let Ok(tasks) = fs::read_dir(process.join("task")) else {
        return Ok(());
    };
    let tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
    for task in tasks.iter().filter(|_| tasks.len() > 1) {
        of_task(&task.join("maps"), files)?;
    }
    Ok(())
}

/// The same for a thread; returns the number of its mappings.
fn of_task(maps: &Path, files: &mut HashSet<Box<[u8]>>) -> io::Result<usize> {
    let text = match fs::read(maps) {
        Err(error)
            if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
        {
            return Ok(0);
        }
        text => text?,
    };
    let mut count = 0;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        count += 1;
        if let Some((_, file)) = file_of(line).filter(|(permissions, _)| permissions.ends_with(b"s")) {
            files.insert(file.into());
        }
    }
    Ok(count)
}

/// The permissions, and the device and inode, of a line as in `7f33bd7d7000-7f33bd7f0000 rw-s 00000000 00:27 15    /path`.
fn file_of(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut spaces = (0..line.len()).filter(|at| line[*at] == b' ');
    let (first, second, third) = (spaces.next()?, spaces.next()?, spaces.next()?);
    let (_, fifth) = (spaces.next()?, spaces.next().unwrap_or(line.len()));
    Some((&line[first + 1..second], &line[third + 1..fifth]))
}

impl SharedMappings {
    /// Whether a process had mapped an open file. Which device and inode `/proc` shows for it is learned by mapping it: on an
    /// overlay, these are not always those of stat(2).
    ///
    /// # Errors
    /// The system's.
    pub fn has(&self, file: &File) -> io::Result<bool> {
        let length = crate::page_bytes();
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
        let maps = fs::read("/proc/self/maps");
        // SAFETY: the mapping was just made, and nothing refers to it.
        unsafe { rustix::mm::munmap(start, length)? };
        let (maps, address) = (maps?, format!("{:x}-", start as usize));
        let mut lines = maps.split(|byte| *byte == b'\n');
        let own = lines.find_map(|line| line.strip_prefix(address.as_bytes()));
        let (_, own) = own.and_then(file_of).ok_or(ErrorKind::NotFound)?;
        Ok(self.0.contains(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(file: &File) -> bool {
        let mut files = HashSet::new();
        of_process(Path::new("/proc/self"), &mut files).unwrap();
        SharedMappings(files).has(file).unwrap()
    }

    #[test]
    fn mappings_show_shared_ones_until_they_end_and_no_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a name with spaces");
        let page_bytes = crate::page_bytes();
        fs::write(&path, vec![1; page_bytes]).unwrap();
        let writable = File::options().read(true).write(true).open(&path).unwrap();
        let other = tempfile::tempfile_in(directory.path()).unwrap();
        let map = |flags| {
            // SAFETY: the kernel chooses the address, so no existing memory is replaced.
            let map = unsafe { rustix::mm::mmap(ptr::null_mut(), page_bytes, ProtFlags::READ, flags, &writable, 0) };
            map.unwrap()
        };
        for (flags, is_seen) in [(MapFlags::SHARED, true), (MapFlags::PRIVATE, false)] {
            let start = map(flags);
            let asked = File::open(&path).unwrap();
            assert_eq!((sees(&asked), sees(&other)), (is_seen, false));
            // SAFETY: the mapping was just made, and nothing refers to it.
            unsafe { rustix::mm::munmap(start, page_bytes) }.unwrap();
            assert!(!sees(&asked));
        }
    }
}
