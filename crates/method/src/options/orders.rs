//! Orders: in which two files are read, and in which the updates of a batch are written. Some have a number of bytes.

use super::Value;

/// The order in which two files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// A block of each in turn.
    #[default]
    Alternate,
    /// First each file once into the page cache, then a block of each in turn, which the 2009 document found faster.
    Preload,
    /// The same in windows of this many bytes.
    Window(u64),
    /// Both at once.
    Parallel,
}

impl Order {
    /// All of them, with one size of a window.
    pub const ALL: &'static [Self] = &[Self::Alternate, Self::Preload, Self::Window(64 << 20), Self::Parallel];

    pub(crate) const fn value(self) -> Value {
        match self {
            Self::Alternate => Value::Word(0),
            Self::Preload => Value::Word(1),
            Self::Parallel => Value::Word(2),
            Self::Window(bytes) => Value::Number(bytes),
        }
    }

    /// Whether it reads through the page cache before it compares.
    #[must_use]
    pub fn preloads(self) -> bool {
        matches!(self, Self::Preload | Self::Window(_))
    }
}

/// In which order, and in what pieces, the updates of a batch are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpdateOrder {
    /// By offset, a write for each update.
    #[default]
    Ascending,
    /// As they were given, a write for each.
    AsGiven,
    /// The whole file with the updates in it, which the 2008 document found faster than skipping ahead.
    Rewrite,
    /// By offset; neighbours at most this many bytes apart become one write, for which the bytes between them are read.
    Coalesce(u64),
}

impl UpdateOrder {
    /// All of them, with a gap of 4K.
    pub const ALL: &'static [Self] = &[Self::Ascending, Self::AsGiven, Self::Rewrite, Self::Coalesce(4 << 10)];

    pub(crate) const fn value(self) -> Value {
        match self {
            Self::Ascending => Value::Word(0),
            Self::AsGiven => Value::Word(1),
            Self::Rewrite => Value::Word(2),
            Self::Coalesce(gap_bytes) => Value::Number(gap_bytes),
        }
    }

    /// Whether it may write bytes that are not in updates.
    #[must_use]
    pub fn fills_gaps(self) -> bool {
        matches!(self, Self::Rewrite | Self::Coalesce(1..))
    }
}
