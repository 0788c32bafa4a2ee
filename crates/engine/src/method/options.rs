//! The options of methods, what each mechanism accepts of them, and how they are written.

use std::fmt;

use super::parse::ParseError;
use super::size::format_size;
use super::{Mechanism, Method};

/// An option whose values are words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$value_about:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$value_about])* $value),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Its word in a method's text.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }

            pub(super) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

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
        /// `POSIX_FADV_RANDOM`: no more is read than is asked for.
        Random = "random",
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

words! {
    /// What finds the first difference.
    Comparing {
        /// memcmp(3): the widest vectors that the processor has.
        #[default]
        Memcmp = "memcmp",
        /// A loop that looks at one byte of each after the other.
        Bytewise = "bytewise",
        /// The same, counting the lines on the way: what cmp did in 2012.
        Linewise = "linewise",
    }
}

/// In which order two files are read that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// A block of each in turn.
    #[default]
    Alternate,
    /// Each file once through the page cache, one after the other, and then in turn: what the 2009 document found faster.
    Preload,
    /// The same in windows of so many bytes.
    Window(u64),
    /// Both at once.
    Parallel,
}

impl Order {
    /// All of them, with the window that has no size given.
    pub const ALL: &'static [Self] = &[Self::Alternate, Self::Preload, Self::Window(64 << 20), Self::Parallel];

    /// As it is written in a method's text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Alternate => "order=alternate".to_owned(),
            Self::Preload => "order=preload".to_owned(),
            Self::Window(bytes) => format!("window={}", format_size(bytes)),
            Self::Parallel => "order=parallel".to_owned(),
        }
    }

    /// Whether it reads through the page cache before it compares.
    #[must_use]
    pub fn preloads(self) -> bool {
        matches!(self, Self::Preload | Self::Window(_))
    }

    fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// In which order, and in what pieces, the updates of a batch are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateOrder {
    /// By offset, a write for each update.
    Ascending,
    /// As they were given, a write for each.
    AsGiven,
    /// The whole file, from its start, with the updates in it: what the 2008 document found faster than skipping ahead.
    Rewrite,
    /// By offset; neighbours no further apart than so many bytes are one write, for which what lies between is read.
    Coalesce(u64),
}

impl UpdateOrder {
    /// All of them, with a gap of 4K.
    pub const ALL: &'static [Self] = &[Self::Ascending, Self::AsGiven, Self::Rewrite, Self::Coalesce(4 << 10)];

    /// Its word behind `order=`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::AsGiven => "as-given",
            Self::Rewrite => "rewrite",
            Self::Coalesce(_) => "coalesce",
        }
    }

    /// As it is written in a method's text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Coalesce(gap_bytes) => format!("gap={}", format_size(gap_bytes)),
            other => format!("order={}", other.name()),
        }
    }

    /// Whether it may write bytes that no update names.
    #[must_use]
    pub fn fills_gaps(self) -> bool {
        matches!(self, Self::Rewrite | Self::Coalesce(1..))
    }

    fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
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
    /// Whether holes and shared extents are read like everything else.
    pub holes_ignored: bool,
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
        Ok(())
    }

    pub(super) fn count_departures(&self) -> u32 {
        u32::from(self.cache != CachePolicy::Cached)
            + u32::from(self.hint != Hint::None)
            + u32::from(self.preallocate != Preallocate::None)
            + u32::from(self.order != Order::Alternate)
            + u32::from(self.update_order.is_some_and(|order| order != UpdateOrder::Ascending))
    }
}

/// The options that a mechanism accepts. An empty list or `None` means that it does not take the option.
#[derive(Clone, Copy, Debug)]
pub struct Accepts {
    /// Whether it takes a block, and the one it has where none is given (`Some(None)`: all at once).
    pub block: Option<Option<u64>>,
    /// Whether it takes a depth, and its default.
    pub depth: Option<u32>,
    /// Whether it takes a number of threads, and its default.
    pub threads: Option<u32>,
    /// The cache policies beside `cached`.
    pub cache: &'static [CachePolicy],
    /// The hints beside `none`.
    pub hints: &'static [Hint],
    /// The preallocations; the first is the default.
    pub preallocate: &'static [Preallocate],
    /// The durabilities beside `none`.
    pub durability: &'static [Durability],
    /// The orders beside `alternate`, a window standing for all.
    pub orders: &'static [Order],
    /// What may find the first difference; the first is the default. Empty where nothing is compared.
    pub comparing: &'static [Comparing],
    /// The orders of updates; the first is the default, and one gap stands for all. Empty where nothing is updated.
    pub update_orders: &'static [UpdateOrder],
}

/// The largest block: what one call can move on Linux, rounded down to a power of two.
const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// The largest queue depth and number of threads.
const MAX_DEPTH: u32 = 4096;

impl Accepts {
    /// Nothing at all: for mechanisms that have no options.
    pub const NOTHING: Self = Self {
        block: None,
        depth: None,
        threads: None,
        cache: &[],
        hints: &[],
        preallocate: &[Preallocate::None],
        durability: &[],
        orders: &[],
        comparing: &[],
        update_orders: &[],
    };

    /// Checks options and fills in the defaults.
    pub(super) fn complete(&self, mechanism: &Mechanism, given: Options) -> Result<Options, ParseError> {
        let refuse = |option: &str, accepted: String| {
            ParseError::new(format!("{mechanism:?} does not take {option}; it takes {accepted}"))
        };
        let mut options = given;
        options.block_bytes = match (self.block, given.block_bytes) {
            (None, Some(_)) => return Err(refuse("a block", self.in_words())),
            (None, None) => None,
            (Some(default), block) => block.or(default),
        };
        options.depth = bounded(self.depth, given.depth).map_err(|()| refuse("this depth", self.in_words()))?;
        options.threads =
            bounded(self.threads, given.threads).map_err(|()| refuse("so many threads", self.in_words()))?;
        if options
            .block_bytes
            .is_some_and(|bytes| bytes == 0 || bytes > MAX_BLOCK_BYTES)
        {
            return Err(ParseError::new("a block has 1 byte to 1G".to_owned()));
        }
        if given.cache != CachePolicy::Cached && !self.cache.contains(&given.cache) {
            return Err(refuse(given.cache.name(), self.in_words()));
        }
        if given.hint != Hint::None && !self.hints.contains(&given.hint) {
            return Err(refuse(&format!("hint={}", given.hint.name()), self.in_words()));
        }
        if !self.preallocate.contains(&given.preallocate) {
            if given.preallocate != Preallocate::None {
                return Err(refuse(
                    &format!("preallocate={}", given.preallocate.name()),
                    self.in_words(),
                ));
            }
            options.preallocate = self.preallocate[0];
        }
        if given.durability != Durability::None && !self.durability.contains(&given.durability) {
            return Err(refuse(given.durability.name(), self.in_words()));
        }
        options.update_order = given.update_order.or(self.update_orders.first().copied());
        if let Some(order) = options.update_order
            && !self.update_orders.iter().any(|known| known.is_like(order))
        {
            return Err(refuse(&order.text(), self.in_words()));
        }
        self.complete_comparing(&mut options)
            .map_err(|option| refuse(&option, self.in_words()))?;
        Ok(options)
    }

    /// The same for the options that two files have; the error is what is refused.
    fn complete_comparing(&self, options: &mut Options) -> Result<(), String> {
        let Some(&default) = self.comparing.first() else {
            let text = match options {
                Options { order, .. } if *order != Order::Alternate => order.text(),
                Options {
                    comparing: Some(comparing),
                    ..
                } => format!("kernel={}", comparing.name()),
                Options {
                    identity_ignored: true, ..
                } => "identity=ignore".to_owned(),
                Options {
                    holes_ignored: true, ..
                } => "holes=ignore".to_owned(),
                _ => return Ok(()),
            };
            return Err(text);
        };
        let comparing = options.comparing.unwrap_or(default);
        if !self.comparing.contains(&comparing) {
            return Err(format!("kernel={}", comparing.name()));
        }
        options.comparing = Some(comparing);
        let order = options.order;
        if order != Order::Alternate && !self.orders.iter().any(|known| known.is_like(order)) {
            return Err(order.text());
        }
        if order.preloads() && options.cache != CachePolicy::Cached {
            return Err(format!("{} with {}", order.text(), options.cache.name()));
        }
        if matches!(order, Order::Window(bytes) if !(4096..=1 << 40).contains(&bytes)) {
            return Err(format!("{} (a window has 4K to 1T)", order.text()));
        }
        if options.threads.is_some_and(|threads| threads > 1) {
            if comparing == Comparing::Linewise || order == Order::Parallel {
                return Err("several threads with kernel=linewise or order=parallel".to_owned());
            }
            // Threads take windows in turn: there are none where the file is mapped whole.
            options.block_bytes = options.block_bytes.or(Some(8 << 20));
        }
        Ok(())
    }

    /// The accepted options as a list for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.block.is_some() {
            words.push("block=SIZE".to_owned());
        }
        if self.depth.is_some() {
            words.push("depth=N".to_owned());
        }
        if self.threads.is_some() && !self.comparing.is_empty() {
            words.push("threads=N".to_owned());
        }
        words.extend(self.cache.iter().map(|policy| policy.name().to_owned()));
        if !self.hints.is_empty() {
            words.push(format!("hint={}", joined(self.hints.iter().map(|hint| hint.name()))));
        }
        let preallocations = self.preallocate.iter().filter(|way| **way != Preallocate::None);
        let preallocations = joined(preallocations.map(|way| way.name()));
        if !preallocations.is_empty() {
            words.push(format!("preallocate={preallocations}"));
        }
        words.extend(self.durability.iter().map(|durability| durability.name().to_owned()));
        let orders = self.orders.iter().filter(|order| !matches!(order, Order::Window(_)));
        let orders: Vec<_> = orders.map(|order| order.text().replace("order=", "")).collect();
        if !orders.is_empty() {
            words.push(format!("order={}", orders.join("|")));
        }
        if self.orders.iter().any(|order| matches!(order, Order::Window(_))) {
            words.push("window=SIZE".to_owned());
        }
        if !self.update_orders.is_empty() {
            let orders = joined(self.update_orders.iter().map(|order| order.name()));
            words.push(format!("order={orders}"));
        }
        if self.update_orders.iter().any(|order| order.fills_gaps()) {
            words.push("gap=SIZE".to_owned());
        }
        if !self.comparing.is_empty() {
            let kernels = joined(self.comparing.iter().map(|kernel| kernel.name()));
            words.extend([
                format!("kernel={kernels}"),
                "identity=ignore".to_owned(),
                "holes=ignore".to_owned(),
            ]);
        }
        if words.is_empty() {
            "no options".to_owned()
        } else {
            words.join(", ")
        }
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join("|")
}

/// A count that a mechanism takes, between 1 and [`MAX_DEPTH`].
fn bounded(default: Option<u32>, given: Option<u32>) -> Result<Option<u32>, ()> {
    match (default, given) {
        (None, None) => Ok(None),
        (Some(default), None) => Ok(Some(default)),
        (Some(_), Some(count)) if (1..=MAX_DEPTH).contains(&count) => Ok(Some(count)),
        (_, Some(_)) => Err(()),
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
    note(a.holes_ignored != b.holes_ignored, "holes");
    names
}
