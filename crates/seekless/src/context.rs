//! What plans rest on, and what methods may do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use seekless_engine::Planner;
use seekless_engine::facts::MeasuredFacts;
#[cfg(feature = "profile")]
use seekless_engine::profile::Profiles;

/// What plans rest on besides the files: the profiles that `seekless bench` measured on the storage, and what plans measured
/// within the last minute. A profile that was found is kept as long as the context. Calls without a context have one that
/// all of them share, which finds profiles. A clone is the same context.
///
/// Where profiles are found, a planned call of 20 ms or more also notes its predicted and actual time in the user's
/// `~/.local/share/seekless/uses`, by which `seekless profile` says whether the profile still predicts; it makes no directory of
/// data for a user who has none.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("file");
/// # std::fs::write(&path, b"bytes")?;
/// let context = seekless::Context::without_profiles();
/// let read = seekless::Options::new().context(&context).read_to_vec(&path)?;
/// # assert_eq!(read.value, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Context(Arc<Known>);

#[derive(Default)]
struct Known {
    #[cfg(feature = "profile")]
    profiles: Profiles,
    measured: MeasuredFacts,
}

impl Context {
    /// With the profiles that are found for a path: the user's, then the system's, unless the variable `SEEKLESS_PROFILE` names one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Without profiles: plans measure what they need, in at most 100 ms.
    #[must_use]
    pub fn without_profiles() -> Self {
        Self(Arc::new(Known {
            #[cfg(feature = "profile")]
            profiles: Profiles::none(),
            measured: MeasuredFacts::new(),
        }))
    }

    /// With the profile in a file, for paths whose storage it fits; for others, plans measure what they need.
    #[must_use]
    #[cfg_attr(
        not(feature = "profile"),
        expect(unused_variables, reason = "without profiles, none is read")
    )]
    pub fn with_profile(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Known {
            #[cfg(feature = "profile")]
            profiles: Profiles::of_file(path.into()),
            measured: MeasuredFacts::new(),
        }))
    }

    /// Allows methods that map files, such as `read/mmap`. If a mapped file shrinks, the system sends SIGBUS; this installs
    /// a handler that turns the signal into an error that names the file. A signal has one handler, so this is for the whole process,
    /// and a program calls it once and early. Without it, plans do not choose these methods, and to name one is an error.
    ///
    /// # Errors
    /// The system's, if the handler cannot be installed.
    pub fn allow_mapping() -> io::Result<()> {
        seekless_engine::allow_mapping()
    }

    pub(crate) fn planner(context: Option<&Self>, threads_max: usize) -> Planner<'_> {
        let usual = Planner::default().threads(threads_max);
        let Some(context) = context else { return usual };
        let planner = usual.measured(&context.0.measured);
        #[cfg(feature = "profile")]
        let planner = planner.profiles(&context.0.profiles);
        planner
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Context").finish_non_exhaustive()
    }
}
