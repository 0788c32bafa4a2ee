//! The places of a file's bytes on its device: FIEMAP (the kernel's Documentation/filesystems/fiemap.rst).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, opcode};

use super::machine::magic;
use crate::support::{ABSENT, Support, attempt, checked};
use crate::types::{Extent, ExtentFlags};

/// Extents asked for in one call: 14 KiB of answers.
const PAGE_EXTENTS: usize = 256;
/// Without it the extents from before a clone was written to were still reported, on XFS and btrfs.
const FIEMAP_FLAG_SYNC: u32 = 1;

/// linux/fiemap.h, `struct fiemap` without its flexible array; its size is part of the request's number.
#[repr(C)]
#[derive(Default)]
struct FiemapHeader {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

/// linux/fiemap.h, `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for answers.
#[repr(C)]
struct Fiemap {
    header: FiemapHeader,
    extents: [FiemapExtent; PAGE_EXTENTS],
}

/// The extents of a range in order of their place in the file, after writing back what is dirty; holes are the gaps. The first and
/// last may reach beyond the range.
///
/// The answer is valid for one moment: before relying on it, read it and the ctime again.
pub fn extents(file: &File, within: Range<u64>) -> io::Result<Support<Vec<Extent>>> {
    extents_by(file, within, FIEMAP_FLAG_SYNC)
}

/// The same without writing back what is dirty: quick, and proof of nothing. A clone that was written to may still show
/// the extents that it shared before.
pub fn extents_as_known(file: &File, within: Range<u64>) -> io::Result<Support<Vec<Extent>>> {
    extents_by(file, within, 0)
}

/// Whether equal places in the [`extents`] of two files with the same `st_dev` are the same bytes: only if the file
/// system keeps all its data in one address space. An overlay shows files of several file systems with one `st_dev`;
/// XFS with a realtime volume has two devices, whose offsets begin at 0 each.
pub fn is_one_address_space(file: &File) -> io::Result<bool> {
    match magic(file)? {
        EXT_MAGIC => Ok(true),
        XFS_MAGIC => Ok(XfsGeometry::of(file)?.realtime_blocks == 0),
        BTRFS_MAGIC => Ok(BtrfsInfo::of(file)?.devices == 1),
        _ => Ok(false),
    }
}

const EXT_MAGIC: u64 = 0xef53;
const XFS_MAGIC: u64 = 0x5846_5342;
const BTRFS_MAGIC: u64 = 0x9123_683e;

/// `struct xfs_fsop_geom_v1` (`xfs_fs.h`) with names only for the fields that are used.
#[repr(C)]
#[derive(Clone, Copy)]
struct XfsGeometry {
    sizes: [u32; 8],
    data_blocks: u64,
    realtime_blocks: u64,
    rest: [u64; 8],
}

const _: () = assert!(size_of::<XfsGeometry>() == 112 && size_of::<BtrfsInfo>() == 1024);

impl XfsGeometry {
    fn of(file: &File) -> io::Result<Self> {
        const XFS_IOC_FSGEOMETRY_V1: rustix::ioctl::Opcode = opcode::read::<XfsGeometry>(b'X', 100);
        // SAFETY: the call fills a `struct xfs_fsop_geom_v1`, which has the size and layout of `XfsGeometry`; all bytes are
        // a valid value of it.
        unsafe {
            Ok(rustix::ioctl::ioctl(
                file,
                Getter::<XFS_IOC_FSGEOMETRY_V1, Self>::new(),
            )?)
        }
    }
}

/// `struct btrfs_ioctl_fs_info_args` (linux/btrfs.h) with names only for the fields that are used.
#[repr(C)]
#[derive(Clone, Copy)]
struct BtrfsInfo {
    highest_device: u64,
    devices: u64,
    rest: [u64; 126],
}

impl BtrfsInfo {
    fn of(file: &File) -> io::Result<Self> {
        const BTRFS_IOC_FS_INFO: rustix::ioctl::Opcode = opcode::read::<BtrfsInfo>(0x94, 31);
        // SAFETY: the call fills a `struct btrfs_ioctl_fs_info_args`, which has the size and layout of `BtrfsInfo`; all bytes
        // are a valid value of it.
        unsafe { Ok(rustix::ioctl::ioctl(file, Getter::<BTRFS_IOC_FS_INFO, Self>::new())?) }
    }
}

fn extents_by(file: &File, within: Range<u64>, flags: u32) -> io::Result<Support<Vec<Extent>>> {
    let mut found: Vec<Extent> = Vec::new();
    // Not in a box: whether it would be made there, or copied there, depends on the rest of the program.
    let mut page = Fiemap {
        header: FiemapHeader::default(),
        extents: [FiemapExtent::default(); PAGE_EXTENTS],
    };
    let mut start = within.start;
    while start < within.end {
        match fetch_page(file, start..within.end, flags, &mut page)? {
            Support::Available(()) => {}
            Support::Unavailable(reason) => return Ok(Support::Unavailable(reason)),
        }
        let mapped = (page.header.mapped_extents as usize).min(PAGE_EXTENTS);
        found.extend(page.extents[..mapped].iter().map(|extent| Extent {
            logical: extent.logical,
            physical: extent.physical,
            length: extent.length,
            flags: ExtentFlags(extent.flags),
        }));
        let Some(last) = page.extents[..mapped].last() else {
            break;
        };
        let next = last.logical.saturating_add(last.length);
        // A file that changes meanwhile must not keep this loop going in place.
        if ExtentFlags(last.flags).contains(ExtentFlags::LAST) || next <= start {
            break;
        }
        start = next;
    }
    Ok(Support::Available(found))
}

fn fetch_page(file: &File, within: Range<u64>, flags: u32, page: &mut Fiemap) -> io::Result<Support<()>> {
    const FS_IOC_FIEMAP: rustix::ioctl::Opcode = opcode::read_write::<FiemapHeader>(b'f', 11);
    // EBADR: the file system knows FIEMAP, but not with this flag.
    let absent = [ABSENT, &[Errno::BADR]].concat();
    attempt(&absent, "the file system does not report extents", || {
        page.header = FiemapHeader {
            start: within.start,
            length: within.end - within.start,
            flags,
            extent_count: PAGE_EXTENTS as u32,
            ..FiemapHeader::default()
        };
        // SAFETY: `page` is laid out as `struct fiemap` followed by as many extents as `extent_count` says, which is all
        // that the kernel writes to; `file` keeps the descriptor open.
        #[allow(clippy::cast_lossless, reason = "musl's ioctl takes a narrower number")]
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *page) };
        checked(answer)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::types::WHOLE_FILE;

    #[test]
    fn extents_leave_out_the_hole_and_an_empty_file_has_none() {
        let file = tempfile::tempfile().unwrap();
        let block = vec![1_u8; 64 << 10];
        file.write_all_at(&block, 0).unwrap();
        file.write_all_at(&block, 1 << 20).unwrap();
        let Support::Available(found) = extents(&file, WHOLE_FILE).unwrap() else {
            return println!("skipped: no FIEMAP on the temporary directory");
        };
        let held: u64 = found.iter().map(|extent| extent.length).sum();
        assert_eq!(held, 128 << 10, "{found:?}");
        for extent in &found {
            assert!(!extent.flags.is_doubtful() && !extent.flags.is_shared());
            assert!(extent.logical + extent.length <= 64 << 10 || extent.logical >= 1 << 20);
        }
        assert!(found.last().unwrap().flags.contains(ExtentFlags::LAST));
        let file = tempfile::tempfile().unwrap();
        assert_eq!(extents(&file, WHOLE_FILE).unwrap(), Support::Available(Vec::new()));
    }

    #[test]
    fn more_extents_than_one_page_are_all_found() {
        let file = tempfile::tempfile().unwrap();
        let count = PAGE_EXTENTS as u64 + 100;
        for n in 0..count {
            file.write_all_at(&[1; 4096], n * (128 << 10)).unwrap();
        }
        let Support::Available(found) = extents(&file, WHOLE_FILE).unwrap() else {
            return println!("skipped: no FIEMAP on the temporary directory");
        };
        let held: u64 = found.iter().map(|extent| extent.length).sum();
        assert!(held >= count * 4096);
        assert!(found.len() > PAGE_EXTENTS || held > count * 4096);
        assert!(found.is_sorted_by_key(|extent| extent.logical));
        // Those of a range are those that reach into it, whatever pages they are on.
        for within in [
            0..1,
            5000..300_000,
            20 << 20..40 << 20,
            (count - 1) * (128 << 10)..u64::MAX,
            1 << 40..1 << 41,
        ] {
            let reaches = |e: &&Extent| e.logical < within.end && e.logical + e.length > within.start;
            let inside = found.iter().filter(reaches).map(|e| (e.logical, e.length));
            let asked = extents(&file, within.clone()).unwrap().available().unwrap();
            let asked = asked.iter().map(|e| (e.logical, e.length));
            assert!(asked.eq(inside), "{within:?}");
        }
    }
}
