//! `seekless profile`: what is known of storages from all runs that are kept.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use seekless::profile::{StorageProfile, Unfit, directories, without_profiles};
use seekless_record::Storage;
use seekless_results::{plural, visible};

use super::{Failure, unless_failed};
use crate::config;
use crate::output::Output;
use crate::show::{Page, json_text, profile_json, shortened, show_profile};

/// Show, list, export and remove profiles: what all saved runs say about the methods on a storage.
///
/// A profile is made again from the saved runs whenever `seekless bench` saves a run or `seekless runs remove` removes one. `cmp`,
/// `cmp -r` and `dupes` choose methods from it. `SEEKLESS_PROFILE=FILE` uses another profile. An empty `SEEKLESS_PROFILE` or
/// `--no-profile` uses none.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  seekless profile                       # that of the storage here
  seekless profile show /mnt/backup      # the methods for ranges of sizes
  seekless profile list                  # all profiles
  seekless profile export . -o p.json    # without serial numbers and paths
  seekless profile remove /mnt/backup    # the next bench makes it again"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    show: Show,
}

/// The option, for every command.
#[derive(Debug, Args)]
pub struct NoProfile {
    /// Do not use the profile of the storage
    #[arg(id = "no-profile", long, global = true, display_order = 997, hide_short_help = true)]
    is_given: bool,
}

impl NoProfile {
    /// Makes all plans of this process do without.
    pub fn heed(&self) {
        if self.is_given {
            without_profiles();
        }
    }
}

#[derive(Debug, Args)]
struct Show {
    /// A path on the storage, or the file of a profile
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the method to use for each range of file sizes.
    #[command(after_help = "\
Examples:
  seekless profile show /mnt/backup
  seekless profile show --json | jq '.curves[].method'")]
    Show(Show),
    /// List all profiles.
    #[command(after_help = "\
Examples:
  seekless profile list
  seekless profile list --json")]
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Write a profile to a file, without serial numbers, UUID and paths.
    #[command(after_help = "\
Examples:
  seekless profile export
  seekless profile export /mnt/backup -o profile.json")]
    Export {
        /// A path on the storage
        #[arg(value_name = "PATH", default_value = ".")]
        path: PathBuf,
        /// The file to write; `-` is standard output
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
    /// Remove a profile. The next run of `seekless bench` on its storage makes it again.
    #[command(after_help = "\
Examples:
  seekless profile remove /mnt/backup
  seekless profile remove ~/.local/share/seekless/profiles/ext4-none-0.json")]
    Remove {
        /// A path on the storage, or the file of a profile
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

/// Makes the profiles of storages again. If that fails, what was saved or removed stays so.
pub(super) fn renew_profiles(storages: &[Storage]) {
    let Some(directory) = directories().into_iter().next() else {
        return;
    };
    let renewed = config::store().and_then(|store| store.renew_profiles(storages, &directory));
    if let Err(error) = renewed {
        let error = anyhow::Error::from(error);
        crate::complain(&error.context("cannot update the profile of the storage"));
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        None => show(&arguments.show),
        Some(Command::Show(asked)) => show(asked),
        Some(Command::List { json }) => list(*json),
        Some(Command::Export { path, output }) => export(path, output),
        Some(Command::Remove { path }) => remove(path),
    }
}

/// Whether a name is that of a document.
fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The profile of a path's storage, or the one in a file of this form.
fn found(path: &Path) -> anyhow::Result<StorageProfile> {
    let found = if is_document(path) && path.is_file() {
        StorageProfile::read(path)
    } else {
        StorageProfile::of(path)
    };
    found.map_err(|why| {
        let next = match why {
            Unfit::Missing => "; `seekless bench` measures it",
            Unfit::Document(..) => "; remove the file, and `seekless bench` makes it again",
            _ => "",
        };
        anyhow!("{}: {}{next}", path.display(), shortened(&why.to_string()))
    })
}

fn show(Show { path, json }: &Show) -> Result<(), Failure> {
    let found = found(path)?;
    let mut page = Page::stdout();
    if *json {
        write!(page, "{}", json_text(&found.profile())?)?;
    } else {
        show_profile(&mut page, &found)?;
    }
    Ok(page.flush()?)
}

fn list(json: bool) -> Result<(), Failure> {
    let mut page = Page::stdout();
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for directory in directories() {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        for path in paths.filter(|path| is_document(path)) {
            match StorageProfile::read(&path) {
                Ok(found) => all.push(found),
                Err(why) => failed.push(anyhow!("skipped: {}", shortened(&why.to_string()))),
            }
        }
    }
    if json {
        write!(
            page,
            "{}",
            json_text(&all.iter().map(profile_json).collect::<serde_json::Value>())?
        )?;
    } else if all.is_empty() {
        writeln!(page, "There are no profiles yet. `seekless bench` makes one.")?;
    } else {
        for found in &all {
            let profile = &found.head;
            let place = profile.mount_point.as_deref().unwrap_or("?");
            let text = format!(
                "{place}: {} on {}, {}",
                profile.storage.file_system,
                profile
                    .storage
                    .devices
                    .first()
                    .map_or("no device", |device| device.name.as_str()),
                plural(profile.sittings.into(), "sitting", "sittings")
            );
            writeln!(
                page,
                "{}\n  {}",
                visible(&text),
                visible(&found.path.display().to_string())
            )?;
        }
    }
    page.flush()?;
    unless_failed(failed)
}

fn export(path: &Path, output: &Path) -> Result<(), Failure> {
    let found = found(path)?;
    let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    if file(output).is_some_and(|output| Some(output) == file(&found.path)) {
        return Err(anyhow!("{}: is the profile itself; name another file", output.display()).into());
    }
    let mut profile = found.profile();
    let head = &mut profile.head;
    head.storage.uuid = None;
    (head.mount_point, head.mount_options) = (None, None);
    for device in &mut head.storage.devices {
        device.serial = None;
    }
    Output::prepare(output)?.write(profile.to_text()?.as_bytes())?;
    Ok(())
}

fn remove(path: &Path) -> Result<(), Failure> {
    let file = match found(path) {
        Ok(found) => found.path,
        // What is damaged can be removed by its name.
        Err(error) if !path.is_file() => return Err(error.into()),
        Err(_) if is_document(path) => path.to_owned(),
        Err(error) => return Err(error.into()),
    };
    if file.is_symlink() {
        return Err(anyhow!("{}: is a symbolic link, not a profile", file.display()).into());
    }
    let absolute = file.canonicalize().context("cannot find the profile")?;
    let is_of_ours = |directory: &PathBuf| {
        directory
            .canonicalize()
            .is_ok_and(|ours| absolute.parent() == Some(&ours))
    };
    if !directories().iter().any(is_of_ours) {
        return Err(anyhow!("{}: not a profile that seekless made", file.display()).into());
    }
    std::fs::remove_file(&file).with_context(|| format!("{}: cannot remove", file.display()))?;
    writeln!(Page::stdout(), "Removed  {}", visible(&file.display().to_string()))?;
    Ok(())
}
