//! The state of a file, for detecting changes by other processes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use seekless_sys::{self as sys, Support};

use crate::files::StatFacts;

/// The properties of a file that other processes may change.
pub(super) struct WatchedState {
    pub facts: StatFacts,
    pub attributes: Support<sys::ExtendedAttributes>,
}

impl WatchedState {
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self {
            facts: StatFacts::of(file)?,
            attributes: sys::extended_attributes(file.as_fd())?,
        })
    }

    /// Whether nothing differs.
    pub fn is_same(&self, other: &Self) -> bool {
        self.facts.changed_ns == other.facts.changed_ns && self.is_but_for_ctime(other)
    }

    /// Whether nothing but the ctime differs.
    pub fn is_but_for_ctime(&self, other: &Self) -> bool {
        let has_same_names = self.facts.names == other.facts.names && self.facts.is_but_for_names(&other.facts);
        has_same_names && self.attributes == other.attributes
    }
}
