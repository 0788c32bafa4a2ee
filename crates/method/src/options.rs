//! The options of methods: one row for each. Parsing, printing, completing, enumerating and help read the rows.
//!
//! A method stores the values of its options by row. Code reads them as enums and numbers, by [`Options::cache`] and
//! similar methods.

mod orders;
mod settings;

use crate::size::format_size;
use crate::{Method, Operation};
pub use orders::{Order, UpdateOrder};
pub use settings::{Options, Setting};

/// A value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// One of the option's words, by its place among them.
    Word(u8),
    /// A number of bytes, or a count.
    Number(u64),
}

impl Value {
    pub(crate) const fn value(self) -> Self {
        self
    }
}

/// A number that an option takes.
#[derive(Debug)]
pub struct Number {
    /// Its word before the `=`.
    pub key: &'static str,
    /// Whether it counts bytes.
    pub is_size: bool,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// A word of the option that stands for a number, and that number.
    pub word: Option<(&'static str, u64)>,
}

/// An option of methods.
#[derive(Debug)]
pub struct OptionRow {
    /// Its place in [`OPTIONS`].
    pub id: OptionId,
    /// Its name, and the key before the `=` of its words.
    pub key: &'static str,
    /// Its former name, which is still accepted.
    pub former_key: Option<&'static str>,
    /// Its words, in the order in which they are listed.
    pub words: &'static [&'static str],
    /// The number that it takes.
    pub number: Option<Number>,
    /// Whether its words are written without the key.
    pub is_bare: bool,
    /// The value if the option is not given; it is not written.
    pub plain: Option<Value>,
    /// The operations that have it.
    pub operations: &'static [Operation],
    /// Whether a method with a value other than the plain one is less simple.
    pub complicates: bool,
    /// How [`variants`](crate::variants) tries it.
    pub tried: Tried,
}

/// How the values of an option are tried among the variants of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// At the default only.
    No,
    /// Each other value, with all else at its default.
    Alone,
    /// Each value with those of the others.
    Combined,
}

macro_rules! options {
    ($($(#[$about:meta])* $id:ident { $($field:ident: $value:expr),* $(,)? })+) => {
        /// An option, by its row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OptionId { $($(#[$about])* $id),+ }

        const ROWS: &[OptionRow] = &[
            $(OptionRow { id: OptionId::$id, $($field: $value,)* ..ROW }),+
        ];

        /// The number of options.
        const COUNT: usize = [$(OptionId::$id),+].len();
    };
}

/// The defaults of a row.
const ROW: OptionRow = OptionRow {
    id: OptionId::Threads,
    key: "",
    former_key: None,
    words: &[],
    number: None,
    is_bare: false,
    plain: None,
    operations: &Operation::ALL,
    complicates: false,
    tried: Tried::No,
};

const fn count(key: &'static str, max: u64) -> Number {
    number(key, false, 1, max)
}

const fn size(key: &'static str, min: u64, max: u64) -> Number {
    number(key, true, min, max)
}

const fn number(key: &'static str, is_size: bool, min: u64, max: u64) -> Number {
    Number {
        key,
        is_size,
        min,
        max,
        word: None,
    }
}

/// All options, in the order in which a method's text has them.
pub static OPTIONS: &[OptionRow] = ROWS;

options! {
    /// Threads that share the blocks of a file, or many files.
    Threads {
        key: "threads",
        // The pool of threads takes time that grows with their square: 1,024 on two processors took 26 s.
        number: Some(count("threads", 256)),
        plain: Some(Value::Number(1)),
        operations: &[Operation::Read, Operation::Write, Operation::Compare, Operation::Scan],
        tried: Tried::Alone,
    }
    /// Requests in flight.
    Depth { key: "depth", number: Some(count("depth", 4096)) }
    /// How the page cache takes part: [`CachePolicy`].
    Cache {
        key: "cache",
        words: CachePolicy::WORDS,
        is_bare: true,
        plain: Some(Value::Word(0)),
        complicates: true,
        tried: Tried::Combined,
    }
    /// Bytes per call; at most what one call can move on Linux, rounded down to a power of two.
    Block { key: "block", number: Some(size("block", 1, 1 << 30)) }
    /// Bytes per call that writes, where calls that read move another number.
    WriteBlock {
        key: "write-block",
        number: Some(size("write-block", 1, 1 << 30)),
        operations: &[Operation::Copy],
        complicates: true,
    }
    /// The order in which the blocks of a file are moved: [`AccessPattern`].
    Access {
        key: "access",
        words: AccessPattern::WORDS,
        plain: Some(Value::Word(0)),
        operations: &[Operation::Read, Operation::Write],
        tried: Tried::Combined,
    }
    /// How many in a hundred of the blocks are read instead of written, where blocks of a file are moved at random.
    Reads { key: "reads", number: Some(number("reads", false, 1, 99)), operations: &[Operation::Write] }
    /// The read-ahead hint: [`Hint`].
    Hint {
        key: "hint",
        words: Hint::WORDS,
        plain: Some(Value::Word(0)),
        complicates: true,
        tried: Tried::Combined,
    }
    /// Preallocation before the first write: [`Preallocate`].
    Preallocate {
        key: "preallocate",
        words: Preallocate::WORDS,
        plain: Some(Value::Word(0)),
        operations: &[Operation::Write, Operation::Copy, Operation::Update],
        complicates: true,
        tried: Tried::Combined,
    }
    /// What is on the device at the end: [`Durability`].
    Durability {
        key: "durability",
        words: Durability::WORDS,
        is_bare: true,
        plain: Some(Value::Word(0)),
        operations: &[Operation::Write, Operation::Copy, Operation::Update],
        tried: Tried::Combined,
    }
    /// The order in which two files are read: [`Order`].
    Order {
        key: "order",
        words: &["alternate", "preload", "parallel"],
        number: Some(size("window", 4096, 1 << 40)),
        plain: Some(Value::Word(0)),
        operations: &[Operation::Compare],
        complicates: true,
        tried: Tried::Alone,
    }
    /// The order in which updates are written: [`UpdateOrder`].
    UpdateOrder {
        key: "order",
        words: &["ascending", "as-given", "rewrite"],
        number: Some(Number { key: "gap", is_size: true, min: 0, max: 1 << 62, word: Some(("coalesce", 4 << 10)) }),
        plain: Some(Value::Word(0)),
        operations: &[Operation::Update],
        complicates: true,
        tried: Tried::Alone,
    }
    /// What finds the first difference: [`Differ`].
    Differ {
        key: "differ",
        former_key: Some("kernel"),
        words: Differ::WORDS,
        operations: &[Operation::Compare],
        tried: Tried::Alone,
    }
    /// Reads a file that is compared with itself.
    Identity { key: "identity", words: &["ignore"], operations: &[Operation::Compare] }
    /// Holes and shared extents are read like everything else when two files are compared.
    HolesIgnored { key: "holes", words: &["ignore"], operations: &[Operation::Compare] }
    /// Holes are neither read nor written; comparing does so anyway.
    HolesSkipped {
        key: "holes",
        words: &["skip"],
        operations: &[Operation::Read, Operation::Copy],
        complicates: true,
        tried: Tried::Alone,
    }
}

impl OptionId {
    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static OptionRow {
        &OPTIONS[self as usize]
    }
}

impl OptionRow {
    /// A value as it is written.
    #[must_use]
    pub fn text(&self, value: Value) -> String {
        match (value, &self.number) {
            (Value::Word(at), _) if self.is_bare => self.words[usize::from(at)].to_owned(),
            (Value::Number(bytes), Some(number)) if number.is_size => format!("{}={}", number.key, format_size(bytes)),
            (Value::Number(count), Some(number)) => format!("{}={count}", number.key),
            (Value::Word(at), _) => format!("{}={}", self.key, self.words[usize::from(at)]),
            (Value::Number(count), None) => format!("{}={count}", self.key),
        }
    }
}

words! {
    /// How the page cache takes part.
    #[derive(Default)]
    CachePolicy {
        /// Through the page cache.
        #[default]
        Cached = "cached",
        /// Bypassing it: `O_DIRECT`, aligned as statx(2) says; `F_NOCACHE` on macOS.
        Direct = "direct",
        /// Through it, leaving nothing behind: `RWF_DONTCACHE` (Linux 6.14).
        DontCache = "dontcache",
    }

    /// The order in which the blocks of a file are moved.
    #[derive(Default)]
    AccessPattern {
        /// From its start to its end.
        #[default]
        Sequential = "sequential",
        /// Each block once, in random order.
        Random = "random",
    }

    /// The read-ahead hint for the kernel.
    #[derive(Default)]
    Hint {
        /// Nothing.
        #[default]
        None = "none",
        /// `POSIX_FADV_SEQUENTIAL` (it doubles the read-ahead window), for maps `MADV_SEQUENTIAL`.
        Sequential = "sequential",
        /// `POSIX_FADV_SEQUENTIAL` and `POSIX_FADV_NOREUSE`: what the 2014 document calls fadvise.
        SequentialNoReuse = "sequential-noreuse",
        /// `POSIX_FADV_RANDOM`: no read-ahead.
        Random = "random",
        /// `POSIX_FADV_WILLNEED`, in pieces ahead of the reading; for maps `MADV_WILLNEED`.
        WillNeed = "willneed",
        /// readahead(2), in pieces ahead of the reading.
        ReadAhead = "readahead",
        /// `MADV_POPULATE_READ`: fills the page tables before the first access (maps only).
        Populate = "populate",
        /// `F_RDAHEAD` (macOS).
        RdAhead = "rdahead",
        /// `F_RDADVISE` (macOS).
        RdAdvise = "rdadvise",
    }

    /// Whether the file gets its size or its blocks before the first write.
    #[derive(Default)]
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

    /// What is on the device when a write or copy returns.
    #[derive(Default)]
    Durability {
        /// Nothing is promised.
        #[default]
        None = "none",
        /// All of it: fsync(2) at the end, `F_FULLFSYNC` on macOS.
        Fsync = "fsync",
        /// All of it after each call: `O_DSYNC`.
        WriteThrough = "write-through",
        /// The same by fdatasync(2) after each call, which a ring links with the write in one submission.
        FdatasyncEach = "fdatasync-each",
    }

    /// What finds the first difference.
    #[derive(Default)]
    Differ {
        /// memcmp(3): the widest vectors that the processor has.
        #[default]
        Memcmp = "memcmp",
        /// A loop over single bytes.
        Bytewise = "bytewise",
        /// The same, also counting lines, as cmp did in 2012.
        Linewise = "linewise",
    }
}

/// Options whose values are words: the enum, the option, and the method that reads it.
macro_rules! worded {
    ($($(#[$about:meta])* $name:ident of $option:ident by $getter:ident)+) => {$(
        impl $name {
            pub(crate) const fn value(self) -> Value {
                Value::Word(self as u8)
            }
        }

        impl From<$name> for Setting {
            fn from(value: $name) -> Self {
                Self(OptionId::$option, Some(value.value()))
            }
        }

        impl Options {
            $(#[$about])*
            #[inline]
            #[must_use]
            pub fn $getter(&self) -> $name {
                match self.get(OptionId::$option) {
                    Some(Value::Word(at)) => $name::ALL[usize::from(at)],
                    _ => $name::default(),
                }
            }
        }
    )+};
}

worded! {
    /// How the page cache takes part.
    CachePolicy of Cache by cache
    /// The order in which the blocks of a file are moved.
    AccessPattern of Access by access
    /// The read-ahead hint.
    Hint of Hint by hint
    /// The preallocation of what is written.
    Preallocate of Preallocate by preallocate
    /// The durability of what is written.
    Durability of Durability by durability
    /// What finds the first difference.
    Differ of Differ by differ
}

impl Durability {
    /// Whether each call is durable when it returns.
    #[must_use]
    pub fn is_of_each_call(self) -> bool {
        matches!(self, Self::WriteThrough | Self::FdatasyncEach)
    }
}

/// The keys of the options in which two methods differ.
#[must_use]
pub fn differing_options(one: &Method, other: &Method) -> Vec<&'static str> {
    let differs = |row: &&OptionRow| one.options().get(row.id) != other.options().get(row.id);
    let mut keys: Vec<_> = OPTIONS.iter().filter(differs).map(|row| row.key).collect();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MECHANISMS;

    #[test]
    fn options_rows_agree_with_enums_and_mechanisms() {
        for (at, row) in OPTIONS.iter().enumerate() {
            assert_eq!(row.id as usize, at);
        }
        let words = |Setting(of, value): Setting| (of, of.row().text(value.unwrap()));
        let orders = Order::ALL.iter().map(|order| words(Setting::from(*order)));
        let expected = ["order=alternate", "order=preload", "window=64M", "order=parallel"];
        assert!(orders.eq(expected.map(|words| (OptionId::Order, words.into()))));
        let orders = UpdateOrder::ALL.iter().map(|order| words(Setting::from(*order)));
        let expected = ["order=ascending", "order=as-given", "order=rewrite", "gap=4K"];
        assert!(orders.eq(expected.map(|words| (OptionId::UpdateOrder, words.into()))));
        for order in UpdateOrder::ALL {
            assert_eq!(Options::default().with(*order).update_order(), *order);
        }
        for order in Order::ALL {
            assert_eq!(Options::default().with(*order).order(), *order);
        }
        for mechanism in MECHANISMS {
            for accepted in mechanism.accepts {
                let row = accepted.option.row();
                let is_known = row.operations.contains(&mechanism.operation);
                assert!(is_known, "{mechanism:?} {}", row.key);
                for value in accepted.values {
                    assert!(!row.text(*value).is_empty());
                }
            }
            let _ = Method::plain(mechanism);
        }
    }
}
