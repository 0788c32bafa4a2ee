//! Log messages, by the crate `tracing`; without that feature, nothing is logged.

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
