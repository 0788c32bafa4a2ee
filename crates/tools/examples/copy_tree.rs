//! Copies a directory tree and shows the progress: `copy_tree FROM TO`. Enter stops it; the same command resumes.

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use seekless_tools::Stop;
use seekless_tools::cp::{CpFailure, CpOptions, CpWatch, TargetMeaning, copy_trees};

#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
}

impl CpWatch for Progress {
    fn progress(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before >> 26 != (before + bytes) >> 26 {
            eprintln!("{} MiB copied", (before + bytes) >> 20);
        }
    }

    fn failed(&self, failure: &CpFailure) {
        eprintln!(
            "{}: cannot {}: {}",
            failure.path.display(),
            failure.action,
            failure.reason
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &paths[..] else {
        return Err("copy_tree FROM TO".into());
    };
    let stop = Stop::default();
    let stopped = stop.clone();
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
    let summary = copy_trees(&[from], to, &options, &stop, &Progress::default())?;
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
