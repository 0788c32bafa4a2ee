//! The page cache: hints, residency, and dropping pages.
//!
//! Some of these calls succeed but do nothing on some file systems. The caller checks the result with [`residency`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{Access as Permission, AtFlags, CWD, SeekFrom, seek};
use rustix::io::Errno;

use super::machine::magic;
use crate::advice::advise;
use crate::mincore;
use crate::support::{Support, attempt, checked};
use crate::types::{Advice, Residency};

/// cachestat(2), Linux 6.5; the number is the same on all architectures that Rust's std supports.
const SYS_CACHESTAT: libc::c_long = 451;
/// The `f_type` of overlayfs, where cachestat(2) was seen to answer 0 always.
const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
/// The `f_type` of FUSE, where cachestat(2) was seen to count pages that hold no valid data: the last one of a file that
/// was written and not read since. mincore(2) does not.
const FUSE_SUPER_MAGIC: u64 = 0x6573_5546;

/// Starts fetching `len` bytes from `offset` into the page cache: readahead(2).
///
/// `Unavailable` also for files that do not support it (EINVAL: neither regular nor a block device).
pub fn readahead(file: &File, offset: u64, len: usize) -> io::Result<Support<()>> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    attempt(
        &[Errno::NOSYS, Errno::INVAL],
        "the file does not support readahead(2)",
        || {
            // SAFETY: the call takes no pointers; `file` keeps the descriptor open.
            checked(unsafe { libc::readahead(file.as_raw_fd(), offset, len) })
        },
    )
}

/// How much of the file the page cache holds: cachestat(2) or, where that is missing or blind, mincore(2).
///
/// Pages on their way in by read-ahead count as held. `Unavailable` where the kernel would not tell the truth: mincore(2)
/// claims everything resident to a caller who neither owns the file nor may write it.
pub fn residency(file: &File) -> io::Result<Support<Residency>> {
    let metadata = file.metadata()?;
    let size = if metadata.file_type().is_block_device() {
        seek(file, SeekFrom::End(0))?
    } else {
        metadata.len()
    };
    let page = crate::page_bytes() as u64;
    let total_bytes = size.next_multiple_of(page);
    let answer = |resident_pages: u64| {
        let resident_bytes = (resident_pages * page).min(total_bytes);
        Support::Available(Residency {
            resident_bytes,
            total_bytes,
        })
    };
    if size == 0 {
        return Ok(answer(0));
    }
    let file_system = magic(file)?;
    if ![OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC].contains(&file_system) {
        match cachestat(file, size) {
            Ok(found) => return Ok(answer(found.cache)),
            Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if !mincore_is_honest(file)? {
        return Ok(Support::Unavailable(
            "the kernel reports what is cached only to the file's owner and to writers",
        ));
    }
    match mincore::resident_pages(file, size) {
        // A FUSE program may forbid mapping; then its cached pages are not used.
        Err(error) if file_system == FUSE_SUPER_MAGIC && error.raw_os_error() == Some(libc::ENODEV) => {
            Ok(answer(cachestat(file, size)?.cache))
        }
        pages => Ok(answer(pages?)),
    }
}

/// Bytes of the file in the page cache that are not yet written to the device: cachestat(2). `Unavailable` before Linux
/// 6.5, on overlayfs, and without permission.
pub fn unwritten_bytes(file: &File) -> io::Result<Support<u64>> {
    const UNKNOWN: Support<u64> = Support::Unavailable("the kernel does not report unwritten pages");
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(Support::Available(0));
    }
    if magic(file)? == OVERLAYFS_SUPER_MAGIC {
        return Ok(UNKNOWN);
    }
    match cachestat(file, size) {
        Ok(found) => {
            let pages = found.dirty + found.writeback;
            Ok(Support::Available(pages * crate::page_bytes() as u64))
        }
        Err(Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP) => Ok(UNKNOWN),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes the dirty pages of a range of a file, or from `offset` to its end if `len` is 0:
/// `sync_file_range(2)`. The device's cache and the metadata are not flushed. Nobody who has mapped
/// the file then writes to it without a new mtime. For a clean file, it takes a third of a microsecond.
/// On overlayfs, which keeps pages elsewhere, it does nothing.
pub fn write_back(file: &File, offset: u64, len: u64) -> io::Result<Support<()>> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    attempt(&[Errno::NOSYS], "the kernel has no sync_file_range(2)", || {
        // SAFETY: the call takes no pointers; `file` keeps the descriptor open.
        checked(unsafe { libc::sync_file_range(file.as_raw_fd(), offset.cast_signed(), len.cast_signed(), flags) })
    })
}

/// Drops the file's clean pages from the cache: `posix_fadvise(2)` `DONTNEED`. The caller has synced the file.
///
/// Pages that anyone maps stay, and tmpfs drops nothing; neither is an error.
pub fn drop_from_cache(file: &File) -> io::Result<Support<()>> {
    advise(file, Advice::DontNeed, 0, 0)
}

/// Drops all clean pages, dentries and inodes of the whole system: sync(2), then 3 into `/proc/sys/vm/drop_caches`.
///
/// # Errors
/// `PermissionDenied` for all but root.
pub fn drop_system_caches() -> io::Result<Support<()>> {
    let mut control = match drop_caches()? {
        Support::Available(control) => control,
        Support::Unavailable(reason) => return Ok(Support::Unavailable(reason)),
    };
    rustix::fs::sync();
    control.write_all(b"3").map(Support::Available)
}

/// Whether [`drop_system_caches`] is allowed; drops nothing.
///
/// # Errors
/// `PermissionDenied` for all but root.
pub fn may_drop_system_caches() -> io::Result<Support<()>> {
    Ok(drop_caches()?.map(drop))
}

/// The control file, open for writing. Opening it has no effect.
fn drop_caches() -> io::Result<Support<File>> {
    match File::options().write(true).open("/proc/sys/vm/drop_caches") {
        Ok(file) => Ok(Support::Available(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Support::Unavailable("the system has no /proc/sys/vm/drop_caches"))
        }
        Err(error) => Err(error),
    }
}

/// linux/mman.h, `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    off: u64,
    len: u64,
}

/// linux/mman.h, `struct cachestat` without the fields' prefix; counts of pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn cachestat(file: &File, size: u64) -> rustix::io::Result<Cachestat> {
    // Not len 0 ("to the end"): that counts the pages of a large folio past the end of the file too.
    let range = CachestatRange { off: 0, len: size };
    let mut found = Cachestat::default();
    rustix::io::retry_on_intr(|| {
        // SAFETY: both pointers are to live values laid out as the kernel's structs of the same names, of which it reads
        // the first and writes the second; `file` keeps the descriptor open; the flags must be 0.
        checked(unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0_u32) })
    })?;
    Ok(found)
}

/// The kernel's rule (mm/mincore.c, `can_do_mincore`) that decides whether its answer is true, or always "all
/// resident".
fn mincore_is_honest(file: &File) -> io::Result<bool> {
    let user = rustix::process::geteuid();
    if user.is_root() || user.as_raw() == file.metadata()?.uid() {
        return Ok(true);
    }
    // By the descriptor's link, since faccessat2(2) with AT_EMPTY_PATH is younger than the kernels that need mincore.
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::accessat(CWD, link, Permission::WRITE_OK, AtFlags::EACCESS).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    const SIZE: u64 = (1 << 20) + 100;

    /// A written and synced file, or nothing where the temporary directory has no page cache to drop.
    fn synced_file() -> Option<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; SIZE as usize]).unwrap();
        file.sync_all().unwrap();
        if crate::file_system(&std::env::temp_dir()).unwrap().type_name == "tmpfs" {
            println!("skipped: the temporary directory is memory");
            return None;
        }
        Some(file)
    }

    #[test]
    fn cache_residency_is_none_after_a_drop_and_all_after_a_read() {
        let found = residency(&tempfile::tempfile().unwrap()).unwrap().available().unwrap();
        assert_eq!((found.resident_bytes, found.total_bytes), (0, 0));
        let Some(mut file) = synced_file() else { return };
        drop_from_cache(&file).unwrap();
        let cold = residency(&file).unwrap().available().unwrap();
        assert_eq!((cold.resident_bytes, cold.total_bytes), (0, (1 << 20) + 4096));
        file.rewind().unwrap();
        file.read_to_end(&mut Vec::new()).unwrap();
        let warm = residency(&file).unwrap().available().unwrap();
        assert_eq!(warm.resident_bytes, warm.total_bytes);
    }

    #[test]
    fn cache_tells_what_is_to_be_written_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        let (Support::Available(()), Support::Available(unwritten)) =
            (write_back(&file, 0, 0).unwrap(), unwritten_bytes(&file).unwrap())
        else {
            return println!("skipped: sync_file_range or cachestat is unavailable");
        };
        assert_eq!(unwritten, 0);
        let Some(mut file) = synced_file() else { return };
        assert_eq!(unwritten_bytes(&file).unwrap(), Support::Available(0));
        file.write_all(&[1; 10]).unwrap();
        let page = crate::page_bytes() as u64;
        assert_eq!(unwritten_bytes(&file).unwrap(), Support::Available(page));
        file.sync_all().unwrap();
        assert_eq!(unwritten_bytes(&file).unwrap(), Support::Available(0));
    }

    #[test]
    fn mincore_and_cachestat_agree() {
        let Some(file) = synced_file() else { return };
        let file_system = magic(&file).unwrap();
        if [OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC].contains(&file_system) || cachestat(&file, SIZE).is_err() {
            return println!("skipped: cachestat is unavailable or wrong here");
        }
        drop_from_cache(&file).unwrap();
        assert_eq!(mincore::resident_pages(&file, SIZE).unwrap(), 0);
        advise(&file, Advice::Random, 0, 0).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 10_000], 40_000).unwrap();
        let pages = cachestat(&file, SIZE).unwrap().cache;
        assert!(pages >= 3);
        assert_eq!(mincore::resident_pages(&file, SIZE).unwrap(), pages);
    }

    #[test]
    fn a_stranger_is_told_that_residency_is_unknown() {
        const NOBODY: libc::uid_t = 65534;
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: needs root, to be somebody else");
        }
        let named = tempfile::NamedTempFile::new().unwrap();
        named.as_file().set_len(SIZE).unwrap();
        let file = File::open(named.path()).unwrap();
        let stranger = std::thread::spawn(move || {
            // SAFETY: the raw call changes this thread's identity only, and the thread ends below.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(result, 0);
            residency(&file).unwrap()
        });
        assert!(matches!(stranger.join().unwrap(), Support::Unavailable(_)));
    }

    #[test]
    fn hints_are_taken_or_unavailable() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        for advice in [Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::NoReuse] {
            advise(&file, advice, 0, 4096).unwrap();
        }
        readahead(&file, 0, 4096).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        assert!(matches!(
            readahead(&pipe, 0, 4096),
            Ok(Support::Unavailable(_)) | Err(_)
        ));
    }
}
