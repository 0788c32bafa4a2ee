//! What a call plans with, besides the facts of its files.

#[cfg(not(feature = "profile"))]
use std::marker::PhantomData;

use super::MeasuredFacts;
#[cfg(feature = "profile")]
use crate::profile::Profiles;

/// What a call plans with, besides the facts of its files: profiles, measurements and threads.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    /// What earlier runs of the lab measured.
    #[cfg(feature = "profile")]
    pub(crate) profiles: &'a Profiles,
    /// What was measured a short time ago.
    pub(crate) measured: &'a MeasuredFacts,
    /// A planned method has at most this many threads.
    pub(crate) threads_max: usize,
    #[cfg(not(feature = "profile"))]
    pub(crate) profiles: PhantomData<&'a ()>,
}

impl<'a> Planner<'a> {
    /// With these profiles.
    #[cfg(feature = "profile")]
    #[must_use]
    pub fn profiles(self, profiles: &'a Profiles) -> Self {
        Self { profiles, ..self }
    }

    /// With these measurements.
    #[must_use]
    pub fn measured(self, measured: &'a MeasuredFacts) -> Self {
        Self { measured, ..self }
    }

    /// With at most this many threads.
    #[must_use]
    pub fn threads(self, threads_max: usize) -> Self {
        Self { threads_max, ..self }
    }
}

impl Default for Planner<'_> {
    fn default() -> Self {
        Self {
            #[cfg(feature = "profile")]
            profiles: Profiles::of_process(),
            measured: MeasuredFacts::of_process(),
            threads_max: usize::MAX,
            #[cfg(not(feature = "profile"))]
            profiles: PhantomData,
        }
    }
}
