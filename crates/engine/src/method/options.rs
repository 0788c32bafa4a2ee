//! The options of methods, and how they are written.

use std::fmt;

use super::size::format_size;
use super::{Comparing, Mechanism, Method, Order, UpdateOrder};

words! {
    /// How the page cache takes part.
    CachePolicy {
        /// Through the page cache.
        #[default]
        Cached = "cached",
        /// Past it: `O_DIRECT`, aligned as statx(2) says; `F_NOCACHE` on macOS.
        Direct = "direct",
        /// Through it, leaving nothing behind: `RWF_DONTCACHE` (Linux 6.14).
        DontCache = "dontcache",
    }
}

words! {
    /// What the kernel is told about the reading to come.
    Hint {
        /// Nothing.
        #[default]
        None = "none",
        /// `POSIX_FADV_SEQUENTIAL` (it doubles the read-ahead window), for maps `MADV_SEQUENTIAL`.
        Sequential = "sequential",
        /// `POSIX_FADV_SEQUENTIAL` and `POSIX_FADV_NOREUSE`: what the 2014 document calls fadvise.
        SequentialNoReuse = "sequential-noreuse",
        /// `POSIX_FADV_WILLNEED`, in pieces ahead of the reading; for maps `MADV_WILLNEED`.
        WillNeed = "willneed",
        /// readahead(2), in pieces ahead of the reading.
        ReadAhead = "readahead",
        /// `MADV_POPULATE_READ`: the page tables are filled before the first look (maps only).
        Populate = "populate",
        /// `F_RDAHEAD` (macOS).
        RdAhead = "rdahead",
        /// `F_RDADVISE` (macOS).
        RdAdvise = "rdadvise",
    }
}

words! {
    /// Whether the file gets its size or its blocks before the first write.
    Preallocate {
        /// It grows as it is written.
        #[default]
        None = "none",
        /// Blocks are reserved: fallocate(2), `F_PREALLOCATE` on macOS.
        Allocate = "allocate",
        /// The size is set: ftruncate(2).
        Truncate = "truncate",
        /// Both.
        Both = "both",
    }
}

words! {
    /// What is on the device when a write or copy returns.
    Durability {
        /// Nothing is promised.
        #[default]
        None = "none",
        /// All of it: fsync(2) at the end, `F_FULLFSYNC` on macOS.
        Fsync = "fsync",
        /// All of it after each call: `O_DSYNC`.
        WriteThrough = "write-through",
    }
}

/// The options of a method. `None` where a mechanism does not take an option, or moves all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Ranges read in parallel.
    pub threads: Option<u32>,
    /// Requests in flight.
    pub depth: Option<u32>,
    /// How the page cache takes part.
    pub cache: CachePolicy,
    /// Bytes per call.
    pub block_bytes: Option<u64>,
    /// The read-ahead hint.
    pub hint: Hint,
    /// The preallocation of what is written.
    pub preallocate: Preallocate,
    /// The durability of what is written.
    pub durability: Durability,
    /// The order in which two files are read.
    pub order: Order,
    /// What finds the first difference.
    pub comparing: Option<Comparing>,
    /// In which order and pieces updates are written.
    pub update_order: Option<UpdateOrder>,
    /// Whether a file is compared with itself for real, which is equal at once otherwise.
    pub identity_ignored: bool,
    /// Whether holes and shared extents are read like everything else, where two files are compared.
    pub holes_ignored: bool,
    /// Whether holes of what is read or copied are passed over: nobody reads them, and a copy has them too. Comparing does
    /// so anyway.
    pub holes_skipped: bool,
}

impl Options {
    /// Writes `,NAME=VALUE` for every option that is set, in the canonical order.
    pub(super) fn write_text(&self, mechanism: &Mechanism, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            Some(threads) if mechanism.name == "threads" => write!(f, "={threads}")?,
            Some(threads) if threads > 1 => write!(f, ",threads={threads}")?,
            _ => {}
        }
        if let Some(depth) = self.depth {
            write!(f, ",depth={depth}")?;
        }
        if self.cache != CachePolicy::Cached {
            write!(f, ",{}", self.cache.name())?;
        }
        if let Some(block_bytes) = self.block_bytes {
            write!(f, ",block={}", format_size(block_bytes))?;
        }
        if self.hint != Hint::None {
            write!(f, ",hint={}", self.hint.name())?;
        }
        if self.preallocate != Preallocate::None {
            write!(f, ",preallocate={}", self.preallocate.name())?;
        }
        if self.durability != Durability::None {
            write!(f, ",{}", self.durability.name())?;
        }
        if self.order != Order::Alternate {
            write!(f, ",{}", self.order.text())?;
        }
        if let Some(order) = self.update_order
            && mechanism.accepts.update_orders.first() != Some(&order)
        {
            write!(f, ",{}", order.text())?;
        }
        if let Some(comparing) = self.comparing
            && mechanism.accepts.comparing.first() != Some(&comparing)
        {
            write!(f, ",kernel={}", comparing.name())?;
        }
        if self.identity_ignored {
            f.write_str(",identity=ignore")?;
        }
        if self.holes_ignored {
            f.write_str(",holes=ignore")?;
        }
        if self.holes_skipped {
            f.write_str(",holes=skip")?;
        }
        Ok(())
    }

    pub(super) fn count_departures(&self) -> u32 {
        u32::from(self.cache != CachePolicy::Cached)
            + u32::from(self.hint != Hint::None)
            + u32::from(self.preallocate != Preallocate::None)
            + u32::from(self.order != Order::Alternate)
            + u32::from(self.holes_skipped)
            + u32::from(self.update_order.is_some_and(|order| order != UpdateOrder::Ascending))
    }
}

/// Options in which two methods of one mechanism differ, each as it is written.
#[must_use]
pub fn differing_options(one: &Method, other: &Method) -> Vec<&'static str> {
    let (a, b) = (one.options(), other.options());
    let mut names = Vec::new();
    let mut note = |differs: bool, name| {
        if differs {
            names.push(name);
        }
    };
    note(a.threads != b.threads, "threads");
    note(a.depth != b.depth, "depth");
    note(a.cache != b.cache, "cache");
    note(a.block_bytes != b.block_bytes, "block");
    note(a.hint != b.hint, "hint");
    note(a.preallocate != b.preallocate, "preallocate");
    note(a.durability != b.durability, "durability");
    note(a.order != b.order, "order");
    note(a.update_order != b.update_order, "order");
    note(a.comparing != b.comparing, "kernel");
    note(a.identity_ignored != b.identity_ignored, "identity");
    let holes = |options: &Options| (options.holes_ignored, options.holes_skipped);
    note(holes(a) != holes(b), "holes");
    names
}
