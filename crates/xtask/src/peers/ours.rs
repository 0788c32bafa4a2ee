//! Our side: one trial as the lab runs it, in a child process of the release binary, timed by the lab's clock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use seekless::{Method, Operation};
use seekless_lab::Kernel;
use seekless_lab::trial::{Child, Job, Report, Spec, Stop};
use seekless_record::Status;

use crate::built::{beside, cargo_command};
use crate::peers::cases::Case;
use crate::process::run;

/// The binary whose trials are compared.
pub struct Ours {
    program: PathBuf,
    stop: Stop,
}

impl Ours {
    /// Builds it.
    pub fn build() -> Result<Self> {
        run(cargo_command().args(["build", "--release", "--package", "seekless-cli"]))?;
        Ok(Self {
            program: beside("release/seekless")?,
            stop: Stop::default(),
        })
    }

    /// Where it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The seconds that seekless takes for the case's work on the file. `prepare` brings the page cache into its state
    /// when the child has made its buffers.
    pub fn time(&self, case: Case, file: &Path, bytes: u64, prepare: impl FnOnce() -> Result<()>) -> Result<f64> {
        let method: Method = case.method().parse()?;
        let operation = method.operation();
        ensure!(
            matches!(operation, Operation::Read | Operation::Write),
            "fio does not {operation}"
        );
        // fio looks at nothing that it reads, and changes nothing that it writes.
        let spec = Spec {
            seed: bytes,
            repeats_block: true,
            ..Spec::of(method, Kernel::None, job(file, file, bytes))
        };
        let report = self.trial(&spec, prepare)?;
        let moved = report.trial.bytes;
        ensure!(moved == bytes, "seekless moved {moved} bytes, not {bytes}");
        Ok(report.trial.seconds)
    }

    /// The seconds inside the clock of a trial that does nothing.
    pub fn time_null(&self) -> Result<f64> {
        let nothing = Spec {
            jobs: vec![Job::default()],
            ..Spec::default()
        };
        let report = self.trial(&nothing, || Ok(()))?;
        Ok(report.trial.seconds)
    }

    /// One trial: from opening the files to closing them, in a process that has its buffers already.
    pub fn trial(&self, spec: &Spec, prepare: impl FnOnce() -> Result<()>) -> Result<Report> {
        let child = Child::start(&self.program, spec, &self.stop)?;
        prepare()?;
        match child.run(Duration::MAX)? {
            Ok(report) => Ok(report),
            Err(Status::Unavailable(why)) => bail!("it is not available here: {why}"),
            Err(other) => bail!("{other:?}"),
        }
    }
}

/// A trial's work: a source and a target, which may be one where only one is used.
pub fn job(source: &Path, target: &Path, bytes: u64) -> Job {
    Job {
        source: source.into(),
        other: source.into(),
        target: target.into(),
        bytes,
    }
}
