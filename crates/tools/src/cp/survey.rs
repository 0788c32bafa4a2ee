//! What a copy will have to do, found out while it is under way: for the time that is left, and to tell early that it cannot fit.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use seekless_sys::FileSystem;

use super::copying::{Copying, Worker};
use super::{CpOptions, CpSummary, When, copy_trees};
use crate::Stop;

/// A shorter copy ends sooner than its survey. Tests do not wait that long.
const BEGUN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1000 });
const LOOKED: Duration = Duration::from_millis(20);

impl Copying<'_> {
    /// Counts what there is to copy. If the target, which has this much space, is found to be too small, it is told, and the copy
    /// stops. Ends with `is_over`.
    pub fn survey(
        &self,
        sources: &[impl AsRef<Path> + Sync],
        target: &Path,
        space: Option<&FileSystem>,
        is_over: &Stop,
    ) -> CpSummary {
        let mut worker = Worker::default();
        let began = Instant::now();
        while began.elapsed() < BEGUN {
            if is_over.is_stopped() {
                return worker.done;
            }
            std::thread::sleep(LOOKED);
        }
        let options = CpOptions {
            dry_run: true,
            ..self.options.clone()
        };
        let Ok(all) = copy_trees(sources, target, &options, is_over, &()) else {
            return worker.done;
        };
        if is_over.is_stopped() {
            return worker.done;
        }
        self.watch.total(&all);
        let needed = all.bytes.saturating_sub(all.hole_bytes);
        // Some space is reserved for root, usually a twentieth.
        let free = |space: &FileSystem| space.free_bytes + space.total_bytes / 16;
        if let Some(space) = space.filter(|space| needed > free(space))
            && self.options.sparse != When::Always
        {
            let reason = format!(
                "{} MiB needed, {} MiB free",
                needed.div_ceil(1 << 20),
                space.free_bytes >> 20
            );
            let full = io::Error::new(io::ErrorKind::StorageFull, reason);
            self.fail(&mut worker, target.to_owned(), "copy everything", &full);
        }
        worker.done
    }
}
