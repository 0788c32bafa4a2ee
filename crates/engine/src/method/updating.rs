//! The options that updates have.

use super::size::format_size;

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

    pub(super) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}
