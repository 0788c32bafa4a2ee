//! What a call plans with, besides the facts of its files.

#[cfg(not(feature = "profile"))]
use std::marker::PhantomData;

#[cfg(feature = "profile")]
use crate::profile::Profiles;

/// What a call plans with, besides the facts of its files: profiles, and threads.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    /// What earlier runs of the lab measured.
    #[cfg(feature = "profile")]
    pub profiles: &'a Profiles,
    /// A planned method has at most this many threads.
    pub threads_max: usize,
    #[cfg(not(feature = "profile"))]
    pub(crate) profiles: PhantomData<&'a ()>,
}

impl Planner<'_> {
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
            threads_max: usize::MAX,
            #[cfg(not(feature = "profile"))]
            profiles: PhantomData,
        }
    }
}
