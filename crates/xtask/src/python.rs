//! The Python package: its wheel is built, installed into an empty environment, and tested there.
//!
//! The environment of the tools and the wheel lie in `target/python`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::built::{self, beside, root};
use crate::process::{capture, check_interrupt, is_installed, run};

/// The oldest version that the package is for.
const OLDEST: &str = "import sys, venv; sys.exit(sys.version_info < (3, 10))";

/// Tests the package. Returns what was skipped.
pub fn test(is_long: bool) -> Result<Vec<String>> {
    if capture(Command::new("python3").args(["-c", OLDEST])).is_err() {
        return Ok(vec![
            "the Python package: there is no Python 3.10 or newer with venv".to_owned(),
        ]);
    }
    // The command of the wheel is the one that the other tests use.
    built::build()?;
    let [tools, wheels, empty] = ["tools", "wheels", "empty"].map(|name| root().join("target/python").join(name));
    for old in [&wheels, &empty] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    let python = |arguments: &str, environment: &PathBuf| {
        let mut command = Command::new(environment.join("bin/python"));
        command.args(arguments.split(' ')).current_dir(root().join("python"));
        command
    };
    let make = |environment: &PathBuf| run(Command::new("python3").args(["-m", "venv"]).arg(environment));
    let pip = "-m pip --quiet --disable-pip-version-check";
    let spark = ["", " -r tests/requirements-spark.txt"][usize::from(is_long)];
    let install = format!("{pip} install -r tests/requirements.txt{spark}");
    if let Err(error) = make(&tools).and_then(|()| run(&mut python(&install, &tools))) {
        check_interrupt()?;
        let reason = format!("the Python package: what its tests need cannot be had: {error:#}");
        return Ok(vec![reason]);
    }
    let mut wheel = python(&format!("{pip} wheel --no-deps --no-build-isolation . -w"), &tools);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", tools.join("bin").display());
    wheel.env("SEEKLESS_COMMAND", beside("debug/seekless")?);
    wheel.env("PATH", &path).env("SEEKLESS_CARGO_PROFILE", "dev");
    run(wheel.arg(&wheels).env_remove("CARGO_MANIFEST_DIR"))?;
    let found = fs::read_dir(&wheels)?.next().context("pip made no wheel")??.path();
    // Without NumPy and all that, it can be imported and used.
    make(&empty)?;
    run(python(&format!("{pip} install --no-index"), &empty).arg(&found))?;
    let said = capture(python("-m seekless --version", &empty).current_dir("/"))?;
    ensure!(said.starts_with("seekless "), "the command of the wheel says {said}");
    let use_it = [
        "-c",
        "import seekless; assert seekless.read('Cargo.toml') == open('Cargo.toml', 'rb').read()",
    ];
    run(Command::new(empty.join("bin/python")).args(use_it).current_dir(root()))?;
    capture(Command::new(empty.join("bin/seekless-fleet")).arg("--help"))?;
    run(python(&format!("{pip} install --no-deps --force-reinstall"), &tools).arg(&found))?;
    // Not beside the sources of the package, which Python would import instead.
    let mut pytest = python("-m pytest -q -p no:cacheprovider --durations=5 python/tests", &tools);
    pytest.env("XDG_CACHE_HOME", &wheels).env_remove("SEEKLESS_PROFILE");
    run(pytest.current_dir(root()))?;
    run(&mut python("-m mypy", &tools))?;
    run(python("-m pyright", &tools).env("PATH", &path))?;
    let without_java = (is_long && !is_installed("java")).then(|| "a fleet on Spark: there is no Java".to_owned());
    Ok(without_java.into_iter().collect())
}
