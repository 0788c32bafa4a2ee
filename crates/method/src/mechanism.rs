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
        pub static MECHANISMS: &[Mechanism] = &[
            $($(Mechanism {
                id: MechanismId::$operation($mechanisms::$id),
                operation: Operation::$operation,
                $($field: $value),+
            }),+),+
        ];
    };
}

const LINUX: &[Platform] = &[Platform::Linux];
const MACOS: &[Platform] = &[Platform::MacOs];
const WITH_AIO: &[Platform] = &[Platform::Linux, Platform::MacOs];
const EVERYWHERE: &[Platform] = &[Platform::Linux, Platform::MacOs, Platform::Unix];

const fn takes(option: OptionId, values: &'static [Value]) -> Accepted {
    Accepted { option, values }
}

/// Blocks, of 128 KiB unless told otherwise; and so on.
const BLOCK_128K: Accepted = takes(OptionId::Block, &[Value::Number(128 << 10)]);
const BLOCK_256K: Accepted = takes(OptionId::Block, &[Value::Number(256 << 10)]);
const BLOCK_1M: Accepted = takes(OptionId::Block, &[Value::Number(1 << 20)]);
const BLOCK_8M: Accepted = takes(OptionId::Block, &[Value::Number(8 << 20)]);
/// Blocks, or all at once.
const BLOCK_OR_ALL: Accepted = takes(OptionId::Block, &[]);
const DEPTH: Accepted = takes(OptionId::Depth, &[Value::Number(8)]);
const THREADS: Accepted = takes(OptionId::Threads, &[Value::Number(1), Value::Number(2)]);
const TWO_THREADS: Accepted = takes(OptionId::Threads, &[Value::Number(2)]);

const DIRECT: Accepted = takes(
    OptionId::Cache,
    &[CachePolicy::Cached.value(), CachePolicy::Direct.value()],
);
const DIRECT_OR_DONTCACHE: Accepted = takes(
    OptionId::Cache,
    &[
        CachePolicy::Cached.value(),
        CachePolicy::Direct.value(),
        CachePolicy::DontCache.value(),
    ],
);

const ACCESS: Accepted = takes(
    OptionId::Access,
    &[AccessPattern::Sequential.value(), AccessPattern::Random.value()],
);

/// Hints for calls that read a descriptor.
const HINTS: Accepted = takes(
    OptionId::Hint,
    &[
        Hint::None.value(),
        Hint::Sequential.value(),
        Hint::SequentialNoReuse.value(),
        Hint::WillNeed.value(),
        Hint::ReadAhead.value(),
        Hint::RdAhead.value(),
        Hint::RdAdvise.value(),
    ],
);
const MAP_HINTS: Accepted = takes(
    OptionId::Hint,
    &[
        Hint::None.value(),
        Hint::Sequential.value(),
        Hint::WillNeed.value(),
        Hint::Populate.value(),
        Hint::RdAhead.value(),
        Hint::RdAdvise.value(),
    ],
);
const SEQUENTIAL: Accepted = takes(OptionId::Hint, &[Hint::None.value(), Hint::Sequential.value()]);
const SEQUENTIAL_NOREUSE: Accepted = takes(
    OptionId::Hint,
    &[
        Hint::None.value(),
        Hint::Sequential.value(),
        Hint::SequentialNoReuse.value(),
    ],
);
const SCATTERED: Accepted = takes(
    OptionId::Hint,
    &[Hint::None.value(), Hint::WillNeed.value(), Hint::Random.value()],
);

const PREALLOCATE: Accepted = takes(
    OptionId::Preallocate,
    &[
        Preallocate::None.value(),
        Preallocate::Allocate.value(),
        Preallocate::Truncate.value(),
        Preallocate::Both.value(),
    ],
);
/// A map cannot be longer than its file, so the file has to get its size first.
const PREALLOCATE_MAP: Accepted = takes(
    OptionId::Preallocate,
    &[
        Preallocate::Truncate.value(),
        Preallocate::Allocate.value(),
        Preallocate::Both.value(),
    ],
);
const PREALLOCATE_MAP_UPDATE: Accepted = takes(
    OptionId::Preallocate,
    &[Preallocate::Truncate.value(), Preallocate::Both.value()],
);

const FSYNC: Accepted = takes(
    OptionId::Durability,
    &[Durability::None.value(), Durability::Fsync.value()],
);
const DURABILITY: Accepted = takes(
    OptionId::Durability,
    &[
        Durability::None.value(),
        Durability::Fsync.value(),
        Durability::WriteThrough.value(),
    ],
);

const PRELOAD: Accepted = takes(
    OptionId::Order,
    &[
        Order::Alternate.value(),
        Order::Preload.value(),
        Order::Window(64 << 20).value(),
    ],
);
const PRELOAD_OR_PARALLEL: Accepted = takes(
    OptionId::Order,
    &[
        Order::Alternate.value(),
        Order::Preload.value(),
        Order::Window(64 << 20).value(),
        Order::Parallel.value(),
    ],
);
const UPDATE_ORDERS: Accepted = takes(
    OptionId::UpdateOrder,
    &[
        UpdateOrder::Ascending.value(),
        UpdateOrder::AsGiven.value(),
        UpdateOrder::Rewrite.value(),
        UpdateOrder::Coalesce(4 << 10).value(),
    ],
);
/// Without `as-given`: in that order, two writes of one aligned block could be in flight at once.
const SORTED_UPDATES: Accepted = takes(
    OptionId::UpdateOrder,
    &[
        UpdateOrder::Ascending.value(),
        UpdateOrder::Rewrite.value(),
        UpdateOrder::Coalesce(4 << 10).value(),
    ],
);
const DIFFERS: Accepted = takes(
    OptionId::Differ,
    &[
        Differ::Memcmp.value(),
        Differ::Bytewise.value(),
        Differ::Linewise.value(),
    ],
);
const BYTE_DIFFERS: Accepted = takes(OptionId::Differ, &[Differ::Bytewise.value(), Differ::Linewise.value()]);
const IDENTITY: Accepted = takes(OptionId::Identity, &[Value::Word(0)]);
const HOLES_IGNORED: Accepted = takes(OptionId::HolesIgnored, &[Value::Word(0)]);
const HOLES_SKIPPED: Accepted = takes(OptionId::HolesSkipped, &[Value::Word(0)]);

mechanisms! {
    Read: ReadMechanism {
    Sync {
        name: "sync",
        about: "pread(2) in a loop",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, ACCESS, HINTS, HOLES_SKIPPED],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 1,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread reads the next block while this one is consumed",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, HINTS, HOLES_SKIPPED],
        overlapping: true,
        platforms: EVERYWHERE,
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
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 3,
    }
    Threads {
        name: "threads",
        about: "ranges of the file read in parallel, consumed out of order",
        accepts: &[BLOCK_1M, TWO_THREADS, DIRECT_OR_DONTCACHE, SEQUENTIAL_NOREUSE, HOLES_SKIPPED],
        overlapping: true,
        platforms: EVERYWHERE,
        simplicity_rank: 5,
    }
    }
    Write: WriteMechanism {
    Sync {
        name: "sync",
        about: "pwrite(2) in a loop",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, ACCESS, PREALLOCATE, DURABILITY],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 1,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread writes this block while the next is produced",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, PREALLOCATE, DURABILITY],
        overlapping: true,
        platforms: EVERYWHERE,
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
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, ACCESS, PREALLOCATE, DURABILITY],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "the file mapped and filled, whole or in windows of a block",
        accepts: &[BLOCK_OR_ALL, PREALLOCATE_MAP, FSYNC],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 3,
    }
    }
    Copy: CopyMechanism {
    Sync {
        name: "sync",
        about: "pread(2) and pwrite(2) in a loop",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 2,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "a second thread reads the next block while this one is written",
        accepts: &[BLOCK_1M, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: true,
        platforms: EVERYWHERE,
        simplicity_rank: 4,
    }
    IoUring {
        name: "io_uring",
        about: "N blocks on their way through one ring, each read, then written",
        accepts: &[BLOCK_256K, DEPTH, DIRECT_OR_DONTCACHE, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "both files mapped, whole or in windows of a block",
        accepts: &[BLOCK_OR_ALL, MAP_HINTS, PREALLOCATE_MAP, FSYNC, HOLES_SKIPPED],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 5,
    }
    Splice {
        name: "splice",
        about: "splice(2) through a pipe; a call moves no more than the pipe holds",
        accepts: &[BLOCK_1M, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: false,
        platforms: LINUX,
        simplicity_rank: 4,
    }
    Sendfile {
        name: "sendfile",
        about: "sendfile(2), as much as a call moves, or a block a call",
        accepts: &[BLOCK_OR_ALL, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: false,
        platforms: LINUX,
        simplicity_rank: 1,
    }
    CopyFileRange {
        name: "copy_file_range",
        about: "copy_file_range(2): the file system copies, or shares the blocks",
        accepts: &[BLOCK_OR_ALL, HINTS, PREALLOCATE, DURABILITY, HOLES_SKIPPED],
        overlapping: false,
        platforms: LINUX,
        simplicity_rank: 1,
    }
    Reflink {
        name: "reflink",
        about: "ioctl_ficlone(2): the target shares all blocks with the source",
        accepts: &[FSYNC],
        overlapping: false,
        platforms: LINUX,
        simplicity_rank: 1,
    }
    Fcopyfile {
        name: "fcopyfile",
        about: "fcopyfile(3), the system's own copy",
        accepts: &[FSYNC],
        overlapping: false,
        platforms: MACOS,
        simplicity_rank: 1,
    }
    Clonefile {
        name: "clonefile",
        about: "clonefile(2): a new file that shares all blocks with the source",
        accepts: &[],
        overlapping: false,
        platforms: MACOS,
        simplicity_rank: 1,
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
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 2,
    }
    DoubleBuffer {
        name: "double-buffer",
        about: "other threads read the next block of each while this one is compared",
        accepts: &[BLOCK_128K, DIRECT_OR_DONTCACHE, HINTS, PRELOAD_OR_PARALLEL, DIFFERS, IDENTITY, HOLES_IGNORED],
        overlapping: true,
        platforms: EVERYWHERE,
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
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 4,
    }
    Stdio {
        name: "stdio",
        about: "getc(3) of each in turn",
        accepts: &[SEQUENTIAL, PRELOAD, BYTE_DIFFERS, IDENTITY, HOLES_IGNORED],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 3,
    }
    StdioUnlocked {
        name: "stdio-unlocked",
        about: "getc_unlocked(3) of each in turn, without the stream's lock",
        accepts: &[SEQUENTIAL, PRELOAD, BYTE_DIFFERS, IDENTITY, HOLES_IGNORED],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 3,
    }
    }
    Update: UpdateMechanism {
    Sync {
        name: "sync",
        about: "pwrite(2), one write after the other",
        accepts: &[BLOCK_1M, DIRECT, SCATTERED, PREALLOCATE, DURABILITY, UPDATE_ORDERS],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 1,
    }
    IoUring {
        name: "io_uring",
        about: "N writes in flight through one ring, what lies between updates read first",
        accepts: &[BLOCK_256K, DEPTH, DIRECT, PREALLOCATE, DURABILITY, SORTED_UPDATES],
        overlapping: true,
        platforms: LINUX,
        simplicity_rank: 7,
    }
    Mmap {
        name: "mmap",
        about: "the file mapped in windows of a block, and the updates stored in them",
        accepts: &[BLOCK_8M, PREALLOCATE_MAP_UPDATE, FSYNC],
        overlapping: false,
        platforms: EVERYWHERE,
        simplicity_rank: 3,
    }
}
}
