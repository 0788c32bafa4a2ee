//! What is told to whoever listens, by the crate `tracing`; in a build without that feature nobody does.

#[cfg(feature = "tracing")]
pub(crate) use tracing::{debug, warn};

#[cfg(not(feature = "tracing"))]
macro_rules! nothing {
    ($($told:tt)*) => {
        ()
    };
}

#[cfg(not(feature = "tracing"))]
pub(crate) use {nothing as debug, nothing as warn};
