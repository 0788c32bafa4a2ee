//! Loop devices: files as block devices (loop(4), linux/loop.h).

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::support::{Support, checked};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    numbers: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_bytes: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// Makes a block device of a file, with direct I/O on it and sectors of `block_bytes`, and returns its path. It stays until it is
/// detached. Other processes may take the same free device at the same time, so this tries again.
pub fn attach_loop(backing: &File, block_bytes: u32) -> io::Result<Support<PathBuf>> {
    let control = match File::open("/dev/loop-control") {
        Ok(control) => control,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Support::Unavailable(
                "/dev/loop-control does not exist: the kernel has no loop devices",
            ));
        }
        Err(error) => return Err(error),
    };
    let config = LoopConfig {
        descriptor: backing.as_raw_fd().cast_unsigned(),
        block_bytes,
        info: LoopInfo {
            numbers: [0; 5],
            number: 0,
            encryption: [0; 2],
            flags: LO_FLAGS_DIRECT_IO,
            names: [0; 160],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    loop {
        // SAFETY: LOOP_CTL_GET_FREE takes nothing and returns a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        checked(number)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, which `config` is, and keeps no reference to it.
        let done = checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) });
        match done {
            Err(Errno::BUSY) => {}
            other => return Ok(other.map(|()| Support::Available(path))?),
        }
    }
}

/// Ends a block device that [`attach_loop`] made. If it is in use, it ends when its last user closes it.
pub fn detach_loop(device: &Path) -> io::Result<Support<()>> {
    let device = File::open(device)?;
    // SAFETY: LOOP_CLR_FD takes nothing.
    match checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) }) {
        // It ended meanwhile.
        Err(Errno::NXIO) => Ok(Support::Available(())),
        other => Ok(other.map(Support::Available)?),
    }
}
