//! `seekless storage`: the file systems and devices behind a path, and the features that work there.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use seekless_engine::{DeviceUse, Feature, StorageFacts, direct_alignment, features};
use seekless_results::visible;

use super::{Failure, stat, unless_printed};
use crate::show::{Described, FoundStorage, Page, StorageBehind, reason_behind, show_storage, storage_json};
use crate::test_directory::TestDirectory;

/// Show the file systems and devices behind files and directories, and which features work there.
///
/// What devices and mounts report about themselves is shown as a claim. Features are tested with temporary files of 1
/// MiB; if none can be created, they are unknown. For a block device, such as /dev/sda, the file systems and devices on
/// it are shown, and nothing is tested.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless storage                    # the storage of this directory
  seekless storage /home big.iso      # the storage of several paths
  seekless storage /dev/sda           # a device, and what is on it
  seekless storage --json / | jq '.[].features[] | select(.name == \"reflink\")'")]
pub struct Arguments {
    /// Files, directories or block devices
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Print one JSON document: a list with an object for each path
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let test_directory = TestDirectory::new()?;
    let look = |path: &PathBuf| {
        let found = found(path, &test_directory).unwrap_or_else(|error| {
            crate::print_error(&error);
            let reason = reason_behind(path, &error);
            FoundStorage::Failed { reason }
        });
        (path.clone(), found)
    };
    let all: Vec<(PathBuf, FoundStorage)> = arguments.paths.iter().map(look).collect();
    test_directory.remove();
    let mut page = Page::stdout();
    if arguments.json {
        page.json(&storage_json(&all))?;
    } else {
        show_storage(&mut page, &all)?;
    }
    let has_failed = |(_, found): &(_, FoundStorage)| matches!(found, FoundStorage::Failed { .. });
    unless_printed(all.iter().any(has_failed))
}

/// The storage or device that a path names; the error begins with the path.
fn found(path: &Path, test_directory: &TestDirectory) -> anyhow::Result<FoundStorage> {
    let kind = stat(path)?.file_type();
    if kind.is_block_device() {
        let device = DeviceUse::of(path)?;
        let device = device.with_context(|| format!("{}: this system does not describe the device", path.display()))?;
        return Ok(FoundStorage::Device(Box::new(device)));
    }
    if !kind.is_file() && !kind.is_dir() {
        bail!("{}: not a file, directory or block device", path.display());
    }
    Ok(FoundStorage::Storage(Box::new(describe(path, test_directory)?)))
}

/// More layers of file systems than anybody mounts.
const DEEPEST: usize = 8;

fn describe(path: &Path, test_directory: &TestDirectory) -> anyhow::Result<Described> {
    let facts = StorageFacts::of(path)?;
    let mut behind = Vec::new();
    let mut next = facts.behind.clone();
    while let Some(path) = next.take_if(|_| behind.len() < DEEPEST) {
        let Ok(facts) = StorageFacts::of(&path) else { break };
        next.clone_from(&facts.behind);
        behind.push(StorageBehind { path, facts });
    }
    let (features, alignment) = match tried(path, &facts, test_directory) {
        Ok((features, alignment)) => (Ok(features), alignment),
        Err(error) => (Err(visible(&format!("{error:#}")).into_owned()), None),
    };
    Ok(Described {
        alignment: direct_alignment(path).or(alignment),
        facts,
        behind,
        features,
    })
}

/// What tests found: the features, and the alignment of direct I/O.
type Tried = (Vec<Feature>, Option<(u32, u32)>);

/// Tests the features in a directory, or beside a file.
fn tried(path: &Path, facts: &StorageFacts, test_directory: &TestDirectory) -> anyhow::Result<Tried> {
    let place = std::fs::canonicalize(path)?;
    let directory = match place.parent() {
        Some(parent) if !place.is_dir() => parent,
        _ => &place,
    };
    if StorageFacts::of(directory)?.mount_point != facts.mount_point {
        bail!("the file is a mount point, so no temporary file can be created on its storage");
    }
    let scratch = test_directory.make(directory);
    let scratch = scratch.map_err(|error| anyhow!("{}", error.root_cause()));
    let scratch = scratch.context("cannot create a temporary file here")?;
    let features = features(&scratch)?;
    let sample = scratch.join("sample");
    std::fs::File::create_new(&sample)?.write_all(&[0; 4096])?;
    let alignment = direct_alignment(&sample);
    test_directory.remove();
    Ok((features, alignment))
}
