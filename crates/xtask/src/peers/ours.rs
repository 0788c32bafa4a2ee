//! Our side: trials and runs of the lab, in processes of the release binary.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use seekless_lab::trial::{Child, Job, Spec, Stop};
use seekless_lab::{Bench, Event, Kernel, Watch};
use seekless_record::{Run, Status, Trial};

use crate::built::{beside, cargo_command};
use crate::process::{check_interrupt, run};

/// Builds the binary whose trials are compared.
pub fn build() -> Result<PathBuf> {
    run(cargo_command().args(["build", "--release", "--package", "seekless-cli"]))?;
    beside("release/seekless")
}

/// A method's work on a file, from opening to closing it, in a process that has its buffers already. `prepare` brings the
/// page cache into its state when the child has made its buffers.
pub fn time(
    program: &Path,
    method: &str,
    file: &Path,
    bytes: u64,
    prepare: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    let job = Job {
        source: file.into(),
        target: file.into(),
        bytes,
        ..Job::default()
    };
    // fio looks at nothing that it reads, and changes nothing that it writes.
    let spec = Spec {
        seed: bytes,
        repeats_block: true,
        ..Spec::of(method.parse()?, Kernel::None, job)
    };
    let trial = trial(program, &spec, prepare)?;
    ensure!(
        trial.bytes == bytes,
        "seekless moved {} bytes, not {bytes}",
        trial.bytes
    );
    Ok(trial.seconds)
}

/// The seconds inside the clock of a trial that does nothing.
pub fn time_null(program: &Path) -> Result<f64> {
    let nothing = Spec {
        jobs: vec![Job::default()],
        ..Spec::default()
    };
    Ok(trial(program, &nothing, || Ok(()))?.seconds)
}

fn trial(program: &Path, spec: &Spec, prepare: impl FnOnce() -> Result<()>) -> Result<Trial> {
    let stop = Stop::default();
    let child = Child::start(program, spec, &stop)?;
    prepare()?;
    match child.run(Duration::MAX)? {
        Ok(report) => Ok(report.trial),
        Err(Status::Unavailable(why)) => bail!("it is not available here: {why}"),
        Err(other) => bail!("{other:?}"),
    }
}

/// A run, whose trials end when the user asks for it.
pub fn bench(bench: &Bench) -> Result<Run> {
    struct Interruptible(Stop);
    impl Watch for Interruptible {
        fn event(&mut self, _: &Event<'_>) {
            if check_interrupt().is_err() {
                self.0.request();
            }
        }
    }
    let stop = Stop::default();
    let run = seekless_lab::run(bench, &stop, &mut Interruptible(stop.clone()));
    check_interrupt()?;
    Ok(run?)
}
