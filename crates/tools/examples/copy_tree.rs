//! Copies a directory tree and shows the progress: `copy_tree FROM TO`. Enter stops it; the same command resumes.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_tools::cp::{CpEvent, CpOptions, TargetMeaning, copy_trees};
use seekless_tools::{JobProgress, JobWatch, Stop};

#[derive(Default)]
struct Printed {
    bytes: AtomicU64,
    stop: Stop,
}

impl JobWatch<CpEvent<'_>> for Printed {
    fn progress(&self, progress: &JobProgress) {
        let done = progress.done_bytes;
        if self.bytes.fetch_max(done, Ordering::Relaxed) >> 26 < done >> 26 {
            eprintln!("{} MiB copied", done >> 20);
        }
    }

    fn event(&self, event: CpEvent<'_>) -> ControlFlow<()> {
        if let CpEvent::Failed(failure) = event {
            eprintln!(
                "{}: cannot {}: {}",
                failure.path.display(),
                failure.action,
                failure.reason
            );
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) -> &Stop {
        &self.stop
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &paths[..] else {
        return Err("copy_tree FROM TO".into());
    };
    let watch = Printed::default();
    let stopped = watch.stop.clone();
    std::thread::spawn(move || {
        if std::io::stdin()
            .read_line(&mut String::new())
            .is_ok_and(|bytes| bytes > 0)
        {
            stopped.stop();
        }
    });
    let options = CpOptions {
        target: TargetMeaning::Name,
        ..CpOptions::default()
    };
    let summary = copy_trees(&[from], to, &options, &watch)?;
    println!("{} files, {} bytes", summary.files, summary.bytes);
    if summary.is_unfinished {
        println!("stopped: the same command resumes");
    }
    if summary.is_complete() {
        Ok(())
    } else {
        Err("the copy lacks something".into())
    }
}
