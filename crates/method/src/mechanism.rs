//! The mechanisms, one row for each. How they move bytes is in the crate `seekless`.

use std::fmt;

use crate::accepted::Accepted;
use crate::options::{
    AccessPattern, CachePolicy, Differ, Durability, Hint, OptionId, Order, Preallocate, UpdateOrder, Value,
};
use crate::{Operation, Platform};

/// How bytes move in one operation.
pub struct Mechanism {
    /// Its row.
    pub id: MechanismId,
    /// The operation.
    pub operation: Operation,
    /// Its word in a method's text.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The options it takes.
    pub accepts: &'static [Accepted],
    /// Whether work on the bytes overlaps moving them.
    pub overlapping: bool,
    /// Where it exists.
    pub platforms: &'static [Platform],
    /// Among equally fast methods the one with the smallest rank is recommended: how much there is to get wrong.
    pub simplicity_rank: u32,
}

impl Mechanism {
    /// Whether it exists on this platform at all.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.platforms.contains(&Platform::HERE)
    }

    /// What it accepts of an option, if it takes the option.
    #[must_use]
    pub fn accepts(&self, option: OptionId) -> Option<&'static Accepted> {
        self.accepts.iter().find(|accepted| accepted.option == option)
    }
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Mechanism {}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operation, self.name)
    }
}

macro_rules! mechanisms {
    ($($operation:ident: $mechanisms:ident {
        $($id:ident { $($field:ident: $value:expr),+ $(,)? })+
    })+) => {
        /// A mechanism, by its row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MechanismId {
            $(#[doc = concat!("Of the operation ", stringify!($operation), ".")] $operation($mechanisms)),+
        }

        $(
            #[doc = concat!("The mechanisms of the operation ", stringify!($operation), ", as the rows describe them.")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[expect(missing_docs, reason = "each row says what its mechanism does")]
            pub enum $mechanisms { $($id),+ }
        )+

        /// All mechanisms of all operations and platforms.
        #[allow(clippy::needless_update, reason = "some rows say all")]
        pub static MECHANISMS: &[Mechanism] = &[
            $($(Mechanism {
                id: MechanismId::$operation($mechanisms::$id),
                operation: Operation::$operation,
                $($field: $value,)+
                ..ROW
            }),+),+
        ];
    };
}

/// The defaults of a row.
const ROW: Mechanism = Mechanism {
    id: MechanismId::Read(ReadMechanism::Sync),
    operation: Operation::Read,
    name: "",
    about: "",
    accepts: &[],
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 1,
};

const LINUX: &[Platform] = &[Platform::Linux];
const MACOS: &[Platform] = &[Platform::MacOs];
const WITH_AIO: &[Platform] = &[Platform::Linux, Platform::MacOs];

/// Accepted options: `NAME: Option = values`. The first value is the default. Without values, any number is accepted,
/// and there is no default.
macro_rules! accepted {
    ($($(#[$about:meta])* $name:ident: $option:ident $(= $($value:expr),+)?;)+) => {
        $($(#[$about])* const $name: Accepted = Accepted { option: OptionId::$option, values: &[$($($value.value()),+)?] };)+
    };
}

accepted! {
    /// Blocks, by default of 16 KiB; and so on.
    BLOCK_16K: Block = Value::Number(16 << 10);
    BLOCK_128K: Block = Value::Number(128 << 10);
    BLOCK_256K: Block = Value::Number(256 << 10);
    BLOCK_1M: Block = Value::Number(1 << 20);
    BLOCK_8M: Block = Value::Number(8 << 20);
    WRITE_BLOCK: WriteBlock;
    /// Blocks, or all at once.
    BLOCK_OR_ALL: Block;
    DEPTH: Depth = Value::Number(8);
    DEPTH_32: Depth = Value::Number(32);
    THREADS: Threads = Value::Number(1), Value::Number(2);
    TWO_THREADS: Threads = Value::Number(2);
    DIRECT: Cache = CachePolicy::Cached, CachePolicy::Direct;
    DIRECT_OR_DONTCACHE: Cache = CachePolicy::Cached, CachePolicy::Direct, CachePolicy::DontCache;
    ACCESS: Access = AccessPattern::Sequential, AccessPattern::Random;
    READS: Reads;
    /// Hints for calls that read a descriptor.
    HINTS: Hint = Hint::None, Hint::Sequential, Hint::SequentialNoReuse, Hint::WillNeed, Hint::ReadAhead,
        Hint::RdAhead, Hint::RdAdvise;
    MAP_HINTS: Hint = Hint::None, Hint::Sequential, Hint::WillNeed, Hint::Populate, Hint::RdAhead, Hint::RdAdvise;
    SEQUENTIAL: Hint = Hint::None, Hint::Sequential;
    SEQUENTIAL_NOREUSE: Hint = Hint::None, Hint::Sequential, Hint::SequentialNoReuse;
    SCATTERED: Hint = Hint::None, Hint::WillNeed, Hint::Random;
    PREALLOCATE: Preallocate = Preallocate::None, Preallocate::Allocate, Preallocate::Truncate, Preallocate::Both;
    /// A map cannot be longer than its file, so the size must be set first.
    PREALLOCATE_MAP: Preallocate = Preallocate::Truncate, Preallocate::Allocate, Preallocate::Both;
    PREALLOCATE_MAP_UPDATE: Preallocate = Preallocate::Truncate, Preallocate::Both;
    FSYNC: Durability = Durability::None, Durability::Fsync;
    DURABILITY: Durability = Durability::None, Durability::Fsync, Durability::WriteThrough;
    DURABILITY_OR_EACH: Durability = Durability::None, Durability::Fsync, Durability::WriteThrough,
        Durability::FdatasyncEach;
    PRELOAD: Order = Order::Alternate, Order::Preload, Order::Window(64 << 20);
    PRELOAD_OR_PARALLEL: Order = Order::Alternate, Order::Preload, Order::Window(64 << 20), Order::Parallel;
    UPDATE_ORDERS: UpdateOrder = UpdateOrder::Ascending, UpdateOrder::AsGiven, UpdateOrder::Rewrite,
        UpdateOrder::Coalesce(4 << 10);
    /// Without `as-given`: in that order, two writes of one aligned block could be in flight at once.
    SORTED_UPDATES: UpdateOrder = UpdateOrder::Ascending, UpdateOrder::Rewrite, UpdateOrder::Coalesce(4 << 10);
    DIFFERS: Differ = Differ::Memcmp, Differ::Bytewise, Differ::Linewise;
    BYTE_DIFFERS: Differ = Differ::Bytewise, Differ::Linewise;
    IDENTITY: Identity = Value::Word(0);
    HOLES_IGNORED: HolesIgnored = Value::Word(0);
    HOLES_SKIPPED: HolesSkipped = Value::Word(0);
}

mechanisms! {
    Read: ReadMechanism {
    Sync {
        name: "sync",
        about: "pread(2) in a loop",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, ACCESS, HINTS, HOLES_SKIPPED],
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread reads the next block while this one is consumed",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, HINTS, HOLES_SKIPPED],
        overlapping: true,
        simplicity_rank: 4,
    }
    PosixAio {
        name: "posix-aio",
        about: "aio_read(3) into one buffer while the other is consumed",
        accepts: &[BLOCK_128K, DIRECT, ACCESS, HINTS, HOLES_SKIPPED],
        overlapping: true,
        platforms: WITH_AIO,
        simplicity_rank: 6,
    }
    IoUring {
        name: "io_uring",
        about: "N reads in flight through one ring, into registered buffers",
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, ACCESS, HINTS, HOLES_SKIPPED],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "the file mapped whole, or in windows of a block",
        accepts: &[BLOCK_OR_ALL, MAP_HINTS, HOLES_SKIPPED],
        simplicity_rank: 3,
    }
    Threads {
        name: "threads",
        about: "ranges of the file read in parallel, consumed out of order",
        accepts: &[BLOCK_1M, TWO_THREADS, DIRECT_OR_DONTCACHE, ACCESS, SEQUENTIAL_NOREUSE, HOLES_SKIPPED],
        overlapping: true,
        simplicity_rank: 5,
    }
    }
    Write: WriteMechanism {
    Sync {
        name: "sync",
        about: "pwrite(2) in a loop",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, ACCESS, READS, PREALLOCATE, DURABILITY_OR_EACH],
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread writes this block while the next is produced",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, PREALLOCATE, DURABILITY],
        overlapping: true,
        simplicity_rank: 4,
    }
    PosixAio {
        name: "posix-aio",
        about: "aio_write(3) from one buffer while the other is filled",
        accepts: &[BLOCK_1M, DIRECT, ACCESS, PREALLOCATE, DURABILITY],
        overlapping: true,
        platforms: WITH_AIO,
        simplicity_rank: 6,
    }
    IoUring {
        name: "io_uring",
        about: "N writes in flight through one ring, from registered buffers",
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, ACCESS, READS, PREALLOCATE, DURABILITY_OR_EACH],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Threads {
        name: "threads",
        about: "each thread writes the next block that none has taken",
        accepts: &[BLOCK_1M, TWO_THREADS, DIRECT_OR_DONTCACHE, ACCESS, READS, PREALLOCATE, DURABILITY_OR_EACH],
        overlapping: true,
        simplicity_rank: 5,
    }
    Mmap {
        name: "mmap",
        about: "the file mapped and filled, whole or in windows of a block",
        accepts: &[BLOCK_OR_ALL, PREALLOCATE_MAP, FSYNC],
        simplicity_rank: 3,
    }
    }
    Copy: CopyMechanism {
    Sync {
        name: "sync",
        about: "pread(2) and pwrite(2) in a loop",
        accepts: &[BLOCK_1M, WRITE_BLOCK, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        simplicity_rank: 2,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread reads the next block while this one is written",
        accepts: &[BLOCK_1M, WRITE_BLOCK, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: true,
        simplicity_rank: 4,
    }
    IoUring {
        name: "io_uring",
        about: "N blocks in flight through one ring, each read, then written",
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "both files mapped, whole or in windows of a block",
        accepts: &[BLOCK_OR_ALL, MAP_HINTS, PREALLOCATE_MAP, FSYNC, HOLES_SKIPPED],
        simplicity_rank: 5,
    }
    Splice {
        name: "splice",
        about: "splice(2) through a pipe; a call moves no more than the pipe holds",
        accepts: &[BLOCK_1M, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        platforms: LINUX,
        simplicity_rank: 4,
    }
    Sendfile {
        name: "sendfile",
        about: "sendfile(2), with as many bytes per call as it takes, or with one block per call",
        accepts: &[BLOCK_OR_ALL, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        platforms: LINUX,
    }
    CopyFileRange {
        name: "copy_file_range",
        about: "copy_file_range(2): the file system copies, or shares the blocks",
        accepts: &[BLOCK_OR_ALL, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        platforms: LINUX,
    }
    Reflink {
        name: "reflink",
        about: "ioctl_ficlone(2): the target shares all blocks with the source",
        accepts: &[FSYNC],
        platforms: LINUX,
    }
    Fcopyfile {
        name: "fcopyfile",
        about: "fcopyfile(3), the system's own copy",
        accepts: &[FSYNC],
        platforms: MACOS,
    }
    Clonefile {
        name: "clonefile",
        about: "clonefile(2): a new file that shares all blocks with the source",
        accepts: &[],
        platforms: MACOS,
    }
    }
    Compare: CompareMechanism {
    Sync {
        name: "sync",
        about: "pread(2) of a block of each",
        accepts: &[
            BLOCK_128K,
            THREADS,
            DIRECT_OR_DONTCACHE,
            HINTS,
            PRELOAD_OR_PARALLEL,
            DIFFERS,
            IDENTITY,
            HOLES_IGNORED,
        ],
        simplicity_rank: 2,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "other threads read the next block of each while this one is compared",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, HINTS, PRELOAD_OR_PARALLEL, DIFFERS, IDENTITY, HOLES_IGNORED],
        overlapping: true,
        simplicity_rank: 4,
    }
    IoUring {
        name: "io_uring",
        about: "N reads of both in flight through one ring, into registered buffers",
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, HINTS, PRELOAD, DIFFERS, IDENTITY, HOLES_IGNORED],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "both files mapped whole, or in windows of a block",
        accepts: &[BLOCK_OR_ALL, THREADS, MAP_HINTS, PRELOAD, DIFFERS, IDENTITY, HOLES_IGNORED],
        simplicity_rank: 4,
    }
    Stdio {
        name: "stdio",
        about: "getc(3) of each in turn",
        accepts: &[SEQUENTIAL, PRELOAD, BYTE_DIFFERS, IDENTITY, HOLES_IGNORED],
        simplicity_rank: 3,
    }
    StdioUnlocked {
        name: "stdio-unlocked",
        about: "getc_unlocked(3) of each in turn, without the stream's lock",
        accepts: &[SEQUENTIAL, PRELOAD, BYTE_DIFFERS, IDENTITY, HOLES_IGNORED],
        simplicity_rank: 3,
    }
    }
    Update: UpdateMechanism {
    Sync {
        name: "sync",
        about: "pwrite(2), one write after the other",
        accepts: &[BLOCK_1M, DIRECT, SCATTERED, PREALLOCATE, DURABILITY, UPDATE_ORDERS],
    }
    IoUring {
        name: "io_uring",
        about: "N writes in flight through one ring; gaps are read first",
        accepts: &[BLOCK_256K, DEPTH, DIRECT, PREALLOCATE, DURABILITY, SORTED_UPDATES],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "the file mapped in windows of a block, in which the updates are stored",
        accepts: &[BLOCK_8M, PREALLOCATE_MAP_UPDATE, FSYNC],
        simplicity_rank: 3,
    }
}
    Scan: ScanMechanism {
    Sync {
        name: "sync",
        about: "each thread opens, reads and closes the next of many files",
        accepts: &[BLOCK_16K, THREADS],
    }
    IoUring {
        name: "io_uring",
        about: "each thread opens N files at a time, and reads their first blocks that are not in memory with one io_uring call",
        accepts: &[BLOCK_16K, DEPTH_32, THREADS],
        platforms: LINUX,
        simplicity_rank: 7,
    }
    }
}
