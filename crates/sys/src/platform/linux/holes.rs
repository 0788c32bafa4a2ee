//! Holes, and keeping other processes out of files: lseek(2), fallocate(2), fcntl(2) leases, flock(2).

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::support::{ABSENT, Support, attempt, checked};
use crate::types::LeaseKind;

/// The start of the first hole at or after `offset`; the end of the file counts as one: lseek(2) `SEEK_HOLE`.
///
/// Moves the file's position. A file system that does not report holes returns the end of the file.
pub fn next_hole(file: &File, offset: u64) -> io::Result<Support<u64>> {
    attempt(
        &[Errno::INVAL],
        "the file system does not report holes",
        || match rustix::fs::seek(file, SeekFrom::Hole(offset)) {
            Err(Errno::NXIO) => Ok(offset),
            other => other,
        },
    )
}

/// The start of the first data at or after `offset`; `None` if only a hole is left: lseek(2) `SEEK_DATA`.
///
/// Moves the file's position. A file system that does not report holes returns `offset`.
pub fn next_data(file: &File, offset: u64) -> io::Result<Support<Option<u64>>> {
    attempt(
        &[Errno::INVAL],
        "the file system does not report holes",
        || match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => Ok(None),
            other => other.map(Some),
        },
    )
}

/// Frees the blocks of a range, which then reads as zeros; the size stays: fallocate(2) `FALLOC_FL_PUNCH_HOLE`.
pub fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system cannot punch holes", || {
        rustix::fs::fallocate(
            file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )
    })
}

/// Cuts a range of whole blocks out of a file, which becomes shorter; later data moves up in the file, but not on the
/// device: fallocate(2) `FALLOC_FL_COLLAPSE_RANGE`. The range must end before the end of the file.
pub fn collapse_range(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    attempt(ABSENT, "the file system cannot cut ranges out of a file", || {
        rustix::fs::fallocate(file, FallocateFlags::COLLAPSE_RANGE, offset, len)
    })
}

/// A process that starts a program shares its open files with the child until exec(2), so a file counts as open
/// elsewhere only after this time.
const PASSING: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(1);

/// Takes a lease on an open file, by which this process is notified before others open it: fcntl(2) `F_SETLEASE`. It
/// ends when the file is closed.
///
/// A process that opens it waits until the lease ends, at most for `/proc/sys/fs/lease-break-time`. The kernel's signal
/// is `SIGURG`, which is ignored by default; the usual one, `SIGIO`, would end the process. Check [`holds_lease`].
///
/// # Errors
/// `WouldBlock` if another process has the file open or mapped, in a way that conflicts, for longer than 40 ms;
/// `PermissionDenied` if the file belongs to another user.
pub fn take_lease(file: &File, kind: LeaseKind) -> io::Result<Support<()>> {
    let started = Instant::now();
    loop {
        match ask_for_lease(file, fcntl_kind(kind)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && started.elapsed() < PASSING => {
                std::thread::sleep(PAUSE);
            }
            answer => return answer,
        }
    }
}

fn ask_for_lease(file: &File, kind: libc::c_int) -> io::Result<Support<()>> {
    attempt(
        &[Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP],
        "the file system has no leases",
        || {
            // SAFETY: F_SETSIG takes an integer; `file` keeps the descriptor open.
            unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) };
            // SAFETY: F_SETLEASE takes an integer; as above.
            checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) })
        },
    )
}

/// `F_SETSIG` of fcntl(2), which the libc crate lacks for some systems: sets the signal for the end of a lease.
const F_SETSIG: libc::c_int = 10;

/// Whether a lease by [`take_lease`] holds, and no process waits for its end: fcntl(2) `F_GETLEASE`.
#[must_use]
pub fn holds_lease(file: &File, kind: LeaseKind) -> bool {
    // SAFETY: F_GETLEASE takes nothing; `file` keeps the descriptor open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == fcntl_kind(kind) }
}

fn fcntl_kind(kind: LeaseKind) -> libc::c_int {
    match kind {
        LeaseKind::Exclusive => libc::F_WRLCK,
        LeaseKind::AgainstWriters => libc::F_RDLCK,
    }
}

/// Gives up a lease, so that waiting processes continue: fcntl(2) `F_SETLEASE` with `F_UNLCK`.
pub fn end_lease(file: &File) {
    // SAFETY: F_SETLEASE takes an integer; `file` keeps the descriptor open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether another process holds an exclusive flock(2) on the file with these numbers (stat(2)), according to
/// `/proc/locks` (proc(5)). Opening the file to try the lock would end a lease of that process. `false` if unknown.
#[must_use]
pub fn is_locked(device: u64, inode: u64) -> bool {
    // The kernel outputs the list page by page, and a lock that ends between two pages can hide another one.
    is_listed(|words| match *words {
        [_, "FLOCK", _, "WRITE", process, place, ..] => is_lock_of(process, place, device, inode),
        _ => false,
    })
}

/// Whether this process still has the lease that it took on a file, according to `/proc/locks`: also while another process waits for its
/// end, and so has not opened the file yet. `false` if unknown.
#[must_use]
pub fn keeps_lease(file: &File) -> bool {
    let Ok(found) = file.metadata() else { return false };
    let own = std::process::id().to_string();
    is_listed(|words| match *words {
        [_, "LEASE", "ACTIVE" | "BREAKING", _, process, place, ..] if process == own => {
            is_lock_of(process, place, found.dev(), found.ino())
        }
        _ => false,
    })
}

/// Whether the list has a line with such words.
fn is_listed(is_meant: impl Fn(&[&str]) -> bool) -> bool {
    (0..LOOKS_AT_LOCKS).any(|_| {
        let locks = locks().unwrap_or_default();
        locks
            .lines()
            .any(|line| is_meant(&line.split_whitespace().collect::<Vec<_>>()))
    })
}

/// How often the list is read before a missing lock counts as absent.
const LOOKS_AT_LOCKS: u32 = 3;

/// The list of locks, a page in each read: what reads less gets less at a time than the kernel can tell at once.
fn locks() -> io::Result<String> {
    let mut locks = Vec::with_capacity(64 << 10);
    File::open("/proc/locks")?.read_to_end(&mut locks)?;
    Ok(String::from_utf8_lossy(&locks).into_owned())
}

/// Whether the process and the place of a line, as in `2: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF`, are those of a file.
fn is_lock_of(process: &str, place: &str, device: u64, inode: u64) -> bool {
    let mut parts = place.split(':');
    let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
    let (major, minor) = (hex(), hex());
    let (own_major, own_minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let is_device = (major, minor) == (Some(own_major), Some(own_minor));
    let is_inode = parts.next().and_then(|inode| inode.parse().ok()) == Some(inode);
    // To files btrfs gives other devices than to their locks.
    is_inode && (is_device || has_open(process, device, inode))
}

/// Whether a process, by its ID, has a file open, as far as `/proc` shows that to this user.
#[must_use]
pub fn has_open(process: &str, device: u64, inode: u64) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| {
        let found = fs::metadata(entry.path());
        found.is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
    })
}

/// Whether a program's file has capabilities (capabilities(7)), which are lost when its bytes change.
#[must_use]
pub fn has_capabilities(file: &File) -> bool {
    let mut size_only: [u8; 0] = [];
    rustix::fs::fgetxattr(file, "security.capability", &mut size_only[..]).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn collapse_cuts_a_range_out_and_moves_the_rest_up() {
        let file = tempfile::tempfile().unwrap();
        for (place, byte) in [1, 2, 3].into_iter().enumerate() {
            file.write_all_at(&vec![byte; 64 << 10], (place as u64) << 16).unwrap();
        }
        let Some(()) = collapse_range(&file, 64 << 10, 64 << 10).unwrap().or_skip() else {
            return;
        };
        assert_eq!(file.metadata().unwrap().len(), 128 << 10);
        let mut found = vec![0; 128 << 10];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == [vec![1; 64 << 10], vec![3; 64 << 10]].concat());
    }

    #[test]
    fn a_punched_range_is_a_hole_that_reads_as_zeros() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 256 << 10], 0).unwrap();
        let Some(()) = punch_hole(&file, 64 << 10, 64 << 10).unwrap().or_skip() else {
            return;
        };
        let hole = |offset| next_hole(&file, offset).unwrap().available();
        assert_eq!(hole(0), Some(64 << 10));
        let data = |offset| next_data(&file, offset).unwrap().available().unwrap();
        assert_eq!((data(100), data(64 << 10)), (Some(100), Some(128 << 10)));
        assert_eq!(data(256 << 10), None, "nothing behind the end");
        assert_eq!(hole(128 << 10), Some(256 << 10), "the end");
        assert_eq!(hole(300 << 10), Some(300 << 10), "behind the end there is nothing else");
        let mut bytes = [9; 1];
        file.read_exact_at(&mut bytes, 100 << 10).unwrap();
        assert_eq!(bytes, [0]);
        assert_eq!(file.metadata().unwrap().len(), 256 << 10);
    }

    /// Whether a lease is refused to a file because others have it open; `false` where there are no leases.
    fn is_refused(file: &File, kind: LeaseKind) -> bool {
        match take_lease(file, kind) {
            Ok(Support::Unavailable(reason)) => {
                println!("skipped: {reason}");
                false
            }
            refused => refused.unwrap_err().kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Opens a file, which waits for the lease, until this process is told and ends it.
    fn ends_when_opened(file: &File, kind: LeaseKind, open: impl FnOnce() -> io::Result<File> + Send + 'static) {
        let other = std::thread::spawn(move || open().map(drop));
        let started = Instant::now();
        while holds_lease(file, kind) {
            assert!(started.elapsed().as_secs() < 20, "nobody was told");
            std::thread::sleep(Duration::from_millis(1));
        }
        end_lease(file);
        other.join().unwrap().unwrap();
    }

    #[test]
    fn write_lease_is_refused_while_the_file_is_open_elsewhere() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let second = File::options().read(true).write(true).open(named.path()).unwrap();
        if !is_refused(&second, LeaseKind::Exclusive) {
            return;
        }
        let (first, path) = named.into_parts();
        drop(second);
        let taken = || take_lease(&first, LeaseKind::Exclusive).unwrap();
        assert!(!holds_lease(&first, LeaseKind::Exclusive));
        assert_eq!(taken(), Support::Available(()));
        assert!(holds_lease(&first, LeaseKind::Exclusive));
        end_lease(&first);
        assert!(!holds_lease(&first, LeaseKind::Exclusive));
        assert_eq!(taken(), Support::Available(()));
        ends_when_opened(&first, LeaseKind::Exclusive, move || File::open(path));
    }

    #[test]
    fn read_lease_is_refused_while_a_writer_has_the_file() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(named.path()).unwrap();
        let kind = LeaseKind::AgainstWriters;
        if !is_refused(&reader, kind) {
            return;
        }
        let path = named.into_temp_path();
        assert_eq!(take_lease(&reader, kind).unwrap(), Support::Available(()));
        drop(File::open(&path).unwrap());
        assert!(holds_lease(&reader, kind), "readers are welcome");
        ends_when_opened(&reader, kind, move || File::options().write(true).open(path));
    }

    #[test]
    fn a_lock_is_seen_without_opening_the_file() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let is_locked = |file: &fs::Metadata| is_locked(file.dev(), file.ino());
        let found = || is_locked(&fs::metadata(named.path()).unwrap());
        assert!(!found());
        named.as_file().lock().unwrap();
        if fs::metadata("/proc/locks").is_err() {
            return println!("skipped: nothing tells of locks here");
        }
        assert!(found());
        let other = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_locked(&other.as_file().metadata().unwrap()));
        named.as_file().unlock().unwrap();
        assert!(!found());
    }

    #[test]
    fn a_lock_is_found_while_others_come_and_go() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let held = tempfile::tempfile().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let others = [(); 3].map(|()| tempfile::tempfile().unwrap());
                while !is_over.load(Ordering::Relaxed) {
                    for other in &others {
                        other.lock().unwrap();
                    }
                    for other in &others {
                        other.unlock().unwrap();
                    }
                }
            });
            held.lock().unwrap();
            let metadata = held.metadata().unwrap();
            let missed = (0..500).filter(|_| !is_locked(metadata.dev(), metadata.ino())).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
