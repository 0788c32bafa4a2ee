//! The state of a file, for detecting changes by other processes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use seekless_sys::{self as sys, Support};

use crate::files::HeldState;

/// The properties of a file that other processes may change.
#[derive(PartialEq)]
pub(super) struct WatchedState {
    pub held: HeldState,
    pub attributes: Support<sys::ExtendedAttributes>,
}

impl WatchedState {
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self {
            held: HeldState::of(&file.metadata()?),
            attributes: sys::extended_attributes(file.as_fd())?,
        })
    }

    /// Whether nothing but the ctime differs.
    pub fn is(&self, other: &Self) -> bool {
        self.held.with_ctime_of(&other.held) == other.held && self.attributes == other.attributes
    }
}
