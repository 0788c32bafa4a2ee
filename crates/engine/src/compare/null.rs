//! `compare/null`: touches nothing, not even the files. What it costs is what the measuring costs.

use std::ops::Range;

use super::pair::Pair;
use super::{CompareBytes, PrepareCompare};
use crate::error::Result;
use crate::method::{Accepts, Mechanism, Operation, Platform, Prepare};

const PREPARE: PrepareCompare = |_| Ok(Box::new(Null));

pub(super) static MECHANISM: Mechanism = Mechanism {
    operation: Operation::Compare,
    name: "null",
    about: "does nothing, so that the cost of measuring is known",
    accepts: Accepts::NOTHING,
    overlapping: false,
    platforms: &[Platform::Linux, Platform::MacOs, Platform::Unix],
    simplicity_rank: 0,
    prepare: Prepare::Compare(PREPARE),
};

struct Null;

impl CompareBytes for Null {
    fn preload(&mut self, _pair: &Pair<'_>, _file: usize, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn compare(&mut self, _pair: &Pair<'_>, _range: Range<u64>, _newlines: &mut u64) -> Result<Option<u64>> {
        Ok(None)
    }
}
