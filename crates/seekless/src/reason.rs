//! Why a method was chosen.

use std::fmt;

use seekless_engine::plan::Reason as EngineReason;

use crate::Method;

/// Why a method was chosen. `Display` is a clause, as in "the file is in the page cache, and several threads fill memory faster than
/// one"; [`Reason::kind`] is for programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason(pub(crate) EngineReason);

/// What decided, with its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReasonKind {
    /// The program named the method.
    Asked,
    /// This method was planned, but it is unavailable here.
    Unavailable(Method),
    /// There are too few bytes for another method to pay.
    Little,
    /// Runs of `seekless bench` on this storage, or on one like it, measured it.
    Measured {
        /// How many sittings.
        sittings: u32,
        /// Its time over that of the simplest method; `None` if it is the simplest.
        times: Option<f64>,
    },
    /// What is in the page cache, and what must reach the device.
    PageCache,
    /// The copy can share the blocks of its source.
    SharedBlocks,
    /// Where the two files are. A read elsewhere on their device takes this many milliseconds longer than a sequential one; `None` if no
    /// head has to move between them, as far as is known.
    Placement(Option<f64>),
    /// A write of one change costs as much as writing this many bytes between changes; `None` if the method is the same at any cost.
    WriteCost(Option<f64>),
    /// The text says it.
    Other,
}

impl Reason {
    /// What decided, with its figures.
    #[must_use]
    pub fn kind(&self) -> ReasonKind {
        kind(&self.0)
    }
}

fn kind(reason: &EngineReason) -> ReasonKind {
    match reason {
        EngineReason::Asked | EngineReason::Named => ReasonKind::Asked,
        EngineReason::Unavailable { planned, .. } => ReasonKind::Unavailable(Method(*planned)),
        EngineReason::Little { .. } => ReasonKind::Little,
        EngineReason::Measured { sittings, plain, .. } => ReasonKind::Measured {
            sittings: sittings.count,
            times: plain.map(|(_, times)| times),
        },
        EngineReason::PartlyCached { .. }
        | EngineReason::DirectNotFaster
        | EngineReason::MappedFromCache
        | EngineReason::DirectReads { .. }
        | EngineReason::NotDurable { .. }
        | EngineReason::DirectWrites { .. }
        | EngineReason::FilledByThreads { .. }
        | EngineReason::BothCached { .. } => ReasonKind::PageCache,
        EngineReason::SharedBlocks => ReasonKind::SharedBlocks,
        EngineReason::Alternating { seek_ms } => ReasonKind::Placement(Some(*seek_ms)),
        EngineReason::NeitherCached | EngineReason::TwoDevices => ReasonKind::Placement(None),
        EngineReason::AtAnyCost { .. } => ReasonKind::WriteCost(None),
        EngineReason::AtWriteCost { gap_bytes, .. } => ReasonKind::WriteCost(Some(*gap_bytes)),
        EngineReason::AtProfileCosts { reason, .. }
        | EngineReason::AtAssumedCosts { reason, .. }
        | EngineReason::PastCache(reason)
        | EngineReason::CountingLines(reason)
        | EngineReason::NotExclusive { reason, .. } => kind(reason),
        _ => ReasonKind::Other,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
