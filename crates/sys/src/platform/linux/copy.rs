//! Copies that stay in the kernel: by range, by pipe-less sendfile, by sharing blocks.

use std::fs::File;
use std::io;

use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::ioctl::{Updater, opcode};

use crate::support::{ABSENT_FOR_PAIR, Support, attempt};

/// Copies up to `len` bytes in the kernel: `copy_file_range(2)`. Gives the bytes copied, 0 at the source's end.
///
/// On XFS and btrfs this shares blocks instead of copying them.
pub fn copy_file_range(
    src: &File,
    src_offset: u64,
    dst: &File,
    dst_offset: u64,
    len: usize,
) -> io::Result<Support<usize>> {
    attempt(
        ABSENT_FOR_PAIR,
        "these two files cannot be copied with copy_file_range",
        || {
            let (mut from, mut to) = (src_offset, dst_offset);
            rustix::fs::copy_file_range(src, Some(&mut from), dst, Some(&mut to), len)
        },
    )
}

/// Writes up to `len` bytes of `src` at the file position of `dst`: sendfile(2). Gives the bytes moved, 0 at the source's end.
pub fn sendfile(src: &File, src_offset: u64, dst: &File, len: usize) -> io::Result<Support<usize>> {
    attempt(
        &[Errno::NOSYS, Errno::INVAL],
        "these two files cannot be copied with sendfile",
        || {
            let mut from = src_offset;
            rustix::fs::sendfile(dst, src, Some(&mut from), len)
        },
    )
}

/// Makes `dst` share all blocks of `src`, replacing its contents: `ioctl_ficlone(2)`.
pub fn clone_file(src: &File, dst: &File) -> io::Result<Support<()>> {
    let (from, to) = (src.metadata()?.len(), dst.metadata()?.len());
    let clone = || rustix::fs::ioctl_ficlone(dst, src);
    attempt(
        ABSENT_FOR_PAIR,
        "the file system cannot share blocks between these two files",
        || match clone() {
            // XFS and btrfs do not clone a partial last block into the middle of a longer file.
            Err(Errno::INVAL) if from < to => {
                rustix::fs::ftruncate(dst, from)?;
                clone()
            }
            other => other,
        },
    )
}

/// `struct file_dedupe_range` (linux/fs.h) with one `struct file_dedupe_range_info`.
#[repr(C)]
struct Dedupe {
    src_offset: u64,
    src_length: u64,
    dest_count: u16,
    reserved: [u16; 3],
    dest_fd: i64,
    dest_offset: u64,
    bytes_deduped: u64,
    status: i32,
    reserved_of_info: u32,
}

const _: () = assert!(size_of::<Dedupe>() == 24 + 32);

/// Makes a range of `dst` share the blocks of the same range of `src` if their bytes are equal, which the kernel checks:
/// `ioctl_fideduperange(2)`. Returns the bytes that are shared now, which may be fewer than `len`; `None` if the bytes
/// differ. `dst` may be open for reading only, if its owner asks. Its times stay as they are.
pub fn share_range(src: &File, dst: &File, offset: u64, len: u64) -> io::Result<Support<Option<u64>>> {
    const REASON: &str = "the file system cannot share blocks between these two files";
    const DIFFERS: i32 = 1;
    // The number of the call has the size of the structure without the ranges behind it.
    const FIDEDUPERANGE: rustix::ioctl::Opcode = opcode::read_write::<[u64; 3]>(0x94, 54);
    let mut ask = Dedupe {
        src_offset: offset,
        src_length: len,
        dest_count: 1,
        reserved: [0; 3],
        dest_fd: dst.as_raw_fd().into(),
        dest_offset: offset,
        bytes_deduped: 0,
        status: 0,
        reserved_of_info: 0,
    };
    let asked = attempt(ABSENT_FOR_PAIR, REASON, || {
        // SAFETY: the call reads and writes a `struct file_dedupe_range` with `dest_count` infos behind it, which is the
        // layout and size of `Dedupe`; all bytes are a valid value of it.
        unsafe { rustix::ioctl::ioctl(src, Updater::<FIDEDUPERANGE, Dedupe>::new(&mut ask)) }
    })?;
    if let Support::Unavailable(reason) = asked {
        return Ok(Support::Unavailable(reason));
    }
    match ask.status {
        0 => Ok(Support::Available(Some(ask.bytes_deduped))),
        DIFFERS => Ok(Support::Available(None)),
        error => attempt(ABSENT_FOR_PAIR, REASON, || Err(Errno::from_raw_os_error(-error))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn source() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file
    }

    fn contents(file: &mut File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn copy_file_range_copies_and_is_unavailable_to_a_pipe() {
        let (src, mut dst) = (source(), tempfile::tempfile().unwrap());
        let Some(_) = copy_file_range(&src, 2, &dst, 1, 4).unwrap().or_skip() else {
            return;
        };
        assert_eq!(contents(&mut dst), b"\x002345");
        assert_eq!(copy_file_range(&src, 10, &dst, 0, 4).unwrap(), Support::Available(0));
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        let answer = copy_file_range(&src, 0, &pipe, 0, 4).unwrap();
        assert!(matches!(answer, Support::Unavailable(_)));
    }

    #[test]
    fn sendfile_writes_at_the_file_position() {
        let (src, mut dst) = (source(), tempfile::tempfile().unwrap());
        dst.write_all(b"ab").unwrap();
        assert_eq!(sendfile(&src, 3, &dst, 4).unwrap(), Support::Available(4));
        assert_eq!(contents(&mut dst), b"ab3456");
    }

    #[test]
    fn only_equal_ranges_are_shared_and_a_clone_equals_its_source() {
        let (src, mut dst) = (source(), source());
        let Some(shared) = share_range(&src, &dst, 0, 10).unwrap().or_skip() else {
            return;
        };
        assert_eq!(shared, Some(10));
        dst.write_all(b"x").unwrap();
        assert_eq!(share_range(&src, &dst, 0, 10).unwrap(), Support::Available(None));
        assert_eq!(contents(&mut dst)[9], b'9');
        let (src, mut dst) = (source(), tempfile::tempfile().unwrap());
        if clone_file(&src, &dst).unwrap().or_skip().is_some() {
            assert_eq!(contents(&mut dst), b"0123456789");
        }
    }
}
