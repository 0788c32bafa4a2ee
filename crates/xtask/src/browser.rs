//! Reports and the pages of a hub in a real browser: Chromium, driven by `browser/*.mjs`. A report has no network, and a hub
//! is on both databases.
//!
//! Pages, screenshots and the packages of npm lie in `target/browser`. Where the browser or the packages cannot be had,
//! that is a reason to skip, and not a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::built::{self, beside, root};
use crate::hub;
use crate::process::{check_interrupt, find_program, is_installed, is_root, run};

/// What Chromium is called, by who packages it.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What the test is made of; copied to where its packages are.
const FILES: [(&str, &str); 5] = [
    ("package.json", include_str!("../browser/package.json")),
    ("package-lock.json", include_str!("../browser/package-lock.json")),
    ("browser.mjs", include_str!("../browser/browser.mjs")),
    ("hub.mjs", include_str!("../browser/hub.mjs")),
    ("report.mjs", include_str!("../browser/report.mjs")),
];

/// A short run whose methods are ranked, and a long one of hundreds of methods.
const RUNS: [(&str, &str); 2] = [
    ("ranked", RANKED),
    ("long", "methods-2014 --size 16K --size 64K --rounds 2"),
];
const RANKED: &str = "read write --size 1M --rounds 7 --methods */sync* --methods */mmap* --cache both";

/// A run of a simulated disk, for the hub, which keeps it apart.
const SIMULATED: &str = "read --size 64K --size 1M --rounds 6 --on ssd-sata";

/// Shares runs of reading and writing measured here with a hub, by its program, and visits its pages.
const VISIT: &str = r#"
set -e
for run in data/seekless/runs/*-read*.json; do
    "$PROGRAM" share --yes "$(basename "$run" .json)"
done
node hub.mjs "$BROWSER" "$DATABASE" "$SEEKLESS_HUB"
"#;

const MEMORY: &str = "/dev/shm";

/// Tests the reports of runs that are measured now, and, `with_hub`, a hub with them. Returns what was skipped.
pub fn test(with_hub: bool) -> Result<Vec<String>> {
    let browser = match prepared()? {
        Ok(browser) => browser,
        Err(reason) => return Ok(vec![format!("the report and the hub in a browser: {reason}")]),
    };
    built::build()?;
    let seekless = beside("debug/seekless")?;
    // Of an earlier test.
    let _ = fs::remove_dir_all(directory().join("data"));
    let homes = [("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")];
    let homes = homes.map(|(variable, name)| (variable, directory().join(name)));
    let bench = |arguments: &str| {
        let mut command = Command::new(&seekless);
        let arguments = format!("bench {arguments} --quiet --seed 1");
        command.args(arguments.split(' ')).envs(homes.clone());
        command.current_dir(directory());
        run(command.stdout(Stdio::null()))
    };
    // In memory, if that is a directory here: hundreds of methods with fsync take many minutes on a disk that others use.
    let memory = if Path::new(MEMORY).is_dir() { MEMORY } else { "." };
    for (name, contests) in RUNS {
        let exports = format!("--export-json {name}.json --report {name}.html --alone");
        bench(&format!("{contests} --dir {memory} {exports}"))?;
    }
    let mut node = Command::new("node");
    node.args(["report.mjs", "test"]).arg(&browser);
    node.args(RUNS.map(|(name, _)| name));
    run(node.current_dir(directory()))?;
    println!("screenshots and PDF: target/browser/");
    let mut skipped = Vec::new();
    if !with_hub {
        return Ok(skipped);
    }
    if cfg!(target_os = "linux") && is_root() {
        bench(SIMULATED)?;
    } else {
        skipped.push("a simulated disk on a hub: needs Linux and root".to_owned());
    }
    let visit = format!("cd '{}'\n{VISIT}", directory().display());
    let mut tests = hub::cargo();
    tests.args("test --test hub -- --ignored --show-output pages_in_a_browser".split(' '));
    tests
        .env("SEEKLESS_TEST_VISITOR", visit)
        .env("BROWSER", &browser)
        .envs(homes);
    run(&mut tests)?;
    Ok(skipped)
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
