//! What is compared: the same work in fio's words and in ours.

use clap::ValueEnum;

/// The state of the page cache when the clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The whole file is resident.
    Warm,
    /// Nothing of it is.
    Cold,
    /// The file does not exist: a write makes it.
    Fresh,
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// Read from the page cache with 128K blocks
    WarmSync,
    /// Read from the device with 1M blocks, one at a time
    ColdDirect,
    /// Read from the device with 1M blocks, eight in flight
    ColdUring,
    /// Write a new file with 1M blocks, then fsync
    WriteFsync,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::WarmSync, Self::ColdDirect, Self::ColdUring, Self::WriteFsync];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::WarmSync => "warm sync read, 128K",
            Self::ColdDirect => "cold direct read, 1M",
            Self::ColdUring => "cold direct io_uring read, 1M, depth 8",
            Self::WriteFsync => "write and fsync, 1M",
        }
    }

    /// Our side of it.
    pub fn method(self) -> &'static str {
        match self {
            Self::WarmSync => "read/sync,block=128K",
            Self::ColdDirect => "read/sync,direct,block=1M",
            Self::ColdUring => "read/io_uring,depth=8,direct,block=1M",
            Self::WriteFsync => "write/sync,block=1M,fsync",
        }
    }

    /// fio's side of it. `psync` is pread and pwrite, as our sync is; `fixedbufs` registers the buffers, as ours does.
    pub fn fio_options(self) -> &'static [&'static str] {
        match self {
            Self::WarmSync => &["--rw=read", "--ioengine=psync", "--bs=128k"],
            Self::ColdDirect => &["--rw=read", "--ioengine=psync", "--bs=1m", "--direct=1"],
            Self::ColdUring => &[
                "--rw=read",
                "--ioengine=io_uring",
                "--iodepth=8",
                "--fixedbufs=1",
                "--bs=1m",
                "--direct=1",
            ],
            Self::WriteFsync => &["--rw=write", "--ioengine=psync", "--bs=1m", "--end_fsync=1"],
        }
    }

    /// What must hold when the clock starts.
    pub fn start(self) -> Start {
        match self {
            Self::WarmSync => Start::Warm,
            Self::ColdDirect | Self::ColdUring => Start::Cold,
            Self::WriteFsync => Start::Fresh,
        }
    }

    /// Bytes moved, where `size_bytes` was asked for. Memory is several times faster than a device, and fio's clock
    /// ticks in milliseconds: the warm file is larger, so that a tick stays below 0.5 % of a trial.
    pub fn bytes(self, size_bytes: u64) -> u64 {
        match self.start() {
            Start::Warm => size_bytes * 4,
            Start::Cold | Start::Fresh => size_bytes,
        }
    }
}
