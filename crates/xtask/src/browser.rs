//! The report in a real browser: Chromium without a network, driven by `browser/report.mjs`.
//!
//! Pages, screenshots and the packages of npm lie in `target/browser`. Where the browser or the packages cannot be had,
//! that is a reason to skip, and not a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::built::{self, beside, root};
use crate::process::{check_interrupt, find_program, is_installed, run};

/// What Chromium is called, by who packages it.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What the test is made of; copied to where its packages are.
const FILES: [(&str, &str); 3] = [
    ("package.json", include_str!("../browser/package.json")),
    ("package-lock.json", include_str!("../browser/package-lock.json")),
    ("report.mjs", include_str!("../browser/report.mjs")),
];

/// A short run whose methods are ranked, and a long one of hundreds of methods.
const RUNS: [(&str, &str); 2] = [
    (
        "ranked",
        "read write --size 1M --rounds 7 --methods */sync* --methods */mmap* --cache both",
    ),
    ("long", "methods-2014 --size 16K --size 64K --rounds 2"),
];

const MEMORY: &str = "/dev/shm";

/// Tests the reports of runs that are measured now. Returns what was skipped.
pub fn test() -> Result<Vec<String>> {
    let browser = match prepared()? {
        Ok(browser) => browser,
        Err(reason) => return Ok(vec![format!("the report in a browser: {reason}")]),
    };
    built::build(&[])?;
    // In memory, if that is a directory here: hundreds of methods with fsync take many minutes on a disk that others use.
    let directory = if Path::new(MEMORY).is_dir() { MEMORY } else { "." };
    for (name, contests) in RUNS {
        let exports = format!("--export-json {name}.json --report {name}.html --alone");
        let bench = format!("bench {contests} --quiet --seed 1 --dir {directory} {exports}");
        let mut command = Command::new(beside("debug/seekless")?);
        // With a data directory of its own.
        let variables = ["XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, self::directory().join(name)));
        command.current_dir(self::directory()).envs(variables);
        run(command.args(bench.split(' ')).stdout(Stdio::null()))?;
    }
    let mut node = Command::new("node");
    node.args(["report.mjs", "test"])
        .arg(browser)
        .args(RUNS.map(|(name, _)| name));
    run(node.current_dir(self::directory()))?;
    println!("screenshots and PDF: target/browser/");
    Ok(Vec::new())
}

fn directory() -> PathBuf {
    root().join("target/browser")
}

/// The browser, with all that drives it; or why there is none.
fn prepared() -> Result<Result<PathBuf, String>> {
    let Some(browser) = BROWSERS.into_iter().find_map(find_program) else {
        return Ok(Err("there is no Chromium".to_owned()));
    };
    if let Some(missing) = ["node", "npm"].into_iter().find(|program| !is_installed(program)) {
        return Ok(Err(format!("{missing} is not installed")));
    }
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // npm leaves a lock of its own there, which tells what it installed.
    let installed = fs::read_to_string(directory.join("node_modules/.seekless-lock")).unwrap_or_default();
    for (name, text) in FILES {
        fs::write(directory.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    let lock = FILES[1].1;
    if installed != lock {
        let npm = "ci --ignore-scripts --no-audit --no-fund --loglevel=error";
        let install = run(Command::new("npm").args(npm.split(' ')).current_dir(&directory));
        if let Err(error) = install {
            check_interrupt()?;
            return Ok(Err(format!("its driver could not be installed: {error:#}")));
        }
        fs::write(directory.join("node_modules/.seekless-lock"), lock).context("cannot write what was installed")?;
    }
    Ok(Ok(browser))
}
