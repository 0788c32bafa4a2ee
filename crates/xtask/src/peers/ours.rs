//! Our side: one trial of the release binary, in a process of its own, timed by the lab's clock.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::peers::cases::Case;
use crate::process::{capture, run};

/// Builds the binary that is compared.
pub fn build() -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    run(Command::new(cargo)
        .current_dir(top)
        .args(["build", "--release", "--package", "seekless-cli"]))
}

/// The seconds that seekless takes for the case's work on the file.
pub fn time(case: Case, file: &Path, bytes: u64) -> Result<f64> {
    let mut command = Command::new(binary()?);
    command
        .arg("trial")
        .arg(case.method())
        .arg(file)
        .arg("--size")
        .arg(bytes.to_string());
    let output = capture(&mut command)?;
    let report: Value = serde_json::from_str(&output).context("`seekless trial` printed no JSON")?;
    report["seconds"]
        .as_f64()
        .context("`seekless trial` reports no seconds")
}

/// Beside the folder of the profile that xtask itself was built in, wherever the target folder is.
fn binary() -> Result<PathBuf> {
    let ours = env::current_exe().context("cannot find this program's own file")?;
    let target = ours
        .parent()
        .and_then(Path::parent)
        .context("this program does not lie in a target folder")?;
    Ok(target.join("release").join("seekless"))
}
