//! Updates by offset, ready to be written: in memory, or, if they do not fit, window by window from a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::run::SortedRun;
use super::spill::Spill;
use super::window::{Unsorted, Window};
use crate::error::{Error, Result, UpdateErrorKind};
use crate::plan::Gaps;

/// Updates by offset, without overlaps.
#[derive(Debug)]
pub struct Updates {
    windows: Windows,
    given: u64,
    /// Their pieces, and the gaps between these.
    pub(super) gaps: Gaps,
    /// The size of their journal, once it was computed.
    pub(super) journal_bytes: OnceLock<u64>,
}

#[derive(Debug)]
enum Windows {
    InMemory(Window),
    /// Each window is a chunk of a run.
    Spilled {
        run: SortedRun,
        directory: PathBuf,
    },
}

impl Updates {
    pub(super) fn in_memory(given: u64, unsorted: Unsorted) -> Self {
        let (window, mut gaps) = (unsorted.resolve(0..u64::MAX), Gaps::none());
        count(&window, &mut gaps);
        Self::new(Windows::InMemory(window), given, gaps)
    }

    pub(super) fn spilled(given: u64, mut spill: Spill) -> Result<Self> {
        let mut gaps = Gaps::none();
        let mut merge = || -> io::Result<SortedRun> {
            let (mut windows, mut run) = (spill.merge(), SortedRun::new(&spill.directory)?);
            while let Some(window) = windows.next_window()? {
                count(&window, &mut gaps);
                run.append(window.range.start, &window.pieces, &window)?;
            }
            Ok(run)
        };
        let run = merge().map_err(|source| spill.failed(source))?;
        let directory = spill.directory;
        Ok(Self::new(Windows::Spilled { run, directory }, given, gaps))
    }

    fn new(windows: Windows, given: u64, gaps: Gaps) -> Self {
        Self {
            windows,
            given,
            gaps,
            journal_bytes: OnceLock::new(),
        }
    }

    /// The number of updates that were given.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The number of bytes that they change, each counted once.
    #[must_use]
    pub fn requested_bytes(&self) -> u64 {
        self.gaps.requested_bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.pieces == 0
    }

    /// The end of the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.gaps.end
    }

    /// Fails if one ends past the end of a file of this many bytes.
    ///
    /// # Errors
    /// [`UpdateErrorKind::PastEnd`].
    pub fn require_inside(&self, path: &Path, file_bytes: u64) -> Result<()> {
        if self.end() <= file_bytes {
            return Ok(());
        }
        let end = self.end();
        Err(UpdateErrorKind::PastEnd { end, file_bytes }.at(path))
    }

    /// The size of the unnamed file with the updates, if they did not fit into memory.
    #[must_use]
    pub fn spilled_bytes(&self) -> Option<u64> {
        match &self.windows {
            Windows::InMemory(_) => None,
            Windows::Spilled { run, .. } => Some(run.bytes),
        }
    }

    /// Visits all of them by offset, with their bytes.
    ///
    /// # Errors
    /// [`Error::System`], only if they did not fit into memory.
    pub fn visit(&self, mut visitor: impl FnMut(u64, &[u8])) -> Result<()> {
        self.each_window(|window| {
            window.iter().for_each(|(offset, bytes)| visitor(offset, bytes));
            Ok(())
        })
    }

    /// Calls `work` for each window.
    pub(super) fn each_window(&self, mut work: impl FnMut(&Window) -> Result<()>) -> Result<()> {
        match &self.windows {
            Windows::InMemory(window) => work(window),
            Windows::Spilled { run, directory } => (0..run.chunks.len()).try_for_each(|index| {
                let window = run.load(index);
                work(&window.map_err(|error| Error::system(directory, READING, error))?)
            }),
        }
    }
}

/// Counts the next window.
fn count(window: &Window, gaps: &mut Gaps) {
    for piece in &window.pieces {
        gaps.count(piece.offset, u64::from(piece.length));
    }
}

const READING: &str = "read back updates that did not fit into memory";
