//! `seekless profile`: what is known of storages from all runs that are kept.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use seekless_engine::profile::{
    OF_SYSTEM, ProfileMismatch, StorageProfile, StorageUses, directories, directory_of_borrowed, own_directory,
    without_profiles,
};
use seekless_lab::store::import_profile;
use seekless_record::{DocumentError, Storage};
use seekless_results::{counted, visible};

use super::{Failure, stat, unless_failed};
use crate::config;
use crate::output::Output;
use crate::show::{Page, profile_json, profile_page, shortened, show_profile, stderr, visible_path};

/// Show, list, export, import and remove profiles: summaries of the saved runs of a storage.
///
/// A profile is rebuilt from the saved runs whenever `seekless bench` saves a run or `seekless runs remove` removes one. `advise`,
/// `cmp`, `dupes`, `update`, `cache`, `holes` and the library choose methods from it. `SEEKLESS_PROFILE=FILE` uses another profile. An
/// empty `SEEKLESS_PROFILE` or `--no-profile` uses none. A storage without a profile of its own uses an imported one from a storage of the same kind, if there is
/// one; every answer that rests on it says so.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  seekless profile                       # of this directory's storage
  seekless profile show /mnt/backup      # the methods for ranges of sizes
  seekless profile list                  # all profiles
  seekless profile export . -o p.json    # without serial numbers and paths
  seekless profile import p.json         # for storages of its kind without one
  seekless profile remove /mnt/backup    # the next bench rebuilds it"
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
            without_profiles(true);
        }
    }
}

#[derive(Debug, Args)]
struct Show {
    /// A path on the storage, or the file of a profile
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Write a page with the curves of all methods
    #[arg(long, value_name = "FILE.html", conflicts_with = "json")]
    report: Option<PathBuf>,
    /// Also save the profile, made from root's runs, in /var/lib/seekless/profiles, for all users (needs root)
    #[arg(long)]
    system: bool,
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
  seekless profile show --report profile.html   # with the curves of all methods
  sudo seekless profile show / --system         # for the tools of all users
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
    /// Import profiles from other machines, for storages that have no profile.
    ///
    /// An imported profile is used for storages with the same file system and kinds of devices. Its times for cached files are used only
    /// if the number of processors and the size of memory are equal. Its bounds are widened.
    #[command(after_help = "\
Examples:
  seekless profile import theirs.json
  seekless profile import downloads/*.json")]
    Import {
        /// Files written by `seekless profile export`
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Remove the profile that a storage uses.
    ///
    /// The next `seekless bench` there rebuilds the storage's own profile; an imported one must be imported again. To remove the shared
    /// profile in /var/lib/seekless/profiles, give the name of its file.
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

/// Makes the profiles of storages again, also for all users if `is_shared`. If that fails, what was saved or removed stays so.
pub(super) fn renew_profiles(storages: &[Storage], is_shared: bool) {
    let renewed = config::store().map_err(anyhow::Error::from).and_then(|store| {
        require_private()?;
        let directory = own_directory().context(NO_HOME)?;
        let renewed = store.renew_profiles(storages, &directory)?;
        if is_shared {
            store.renew_shared_profiles(storages, Path::new(OF_SYSTEM))?;
        }
        Ok(renewed)
    });
    if let Err(error) = renewed {
        crate::print_error(&error.context("cannot update the profile of the storage"));
    }
}

/// Fails if other users can write to the user's profiles.
pub(super) fn require_private() -> anyhow::Result<()> {
    match config::store()?.exposed() {
        Some(exposed) => Err(anyhow!("{exposed}; with sudo, use `sudo -H`, or set XDG_DATA_HOME")),
        None => Ok(()),
    }
}

/// Why a user has no profiles.
pub(super) const NO_HOME: &str = "neither HOME nor XDG_DATA_HOME says where profiles of this user are";

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        None => show(&arguments.show),
        Some(Command::Show(asked)) => show(asked),
        Some(Command::List { json }) => list(*json),
        Some(Command::Export { path, output }) => export(path, output),
        Some(Command::Import { files }) => import(files),
        Some(Command::Remove { path }) => remove(path),
    }
}

/// The directories of profiles, and those of imported ones.
fn all_directories() -> Vec<PathBuf> {
    let both = |directory: PathBuf| [directory_of_borrowed(&directory), directory];
    directories().into_iter().flat_map(both).collect()
}

/// Whether a name is that of a document.
fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The profile of a path's storage, or the one in a file of this form.
fn found(path: &Path) -> anyhow::Result<StorageProfile> {
    stat(path)?;
    let found = if is_document(path) && path.is_file() {
        StorageProfile::read(path)
    } else {
        StorageProfile::of(path)
    };
    found.map_err(|why| {
        let next = match &why {
            ProfileMismatch::Missing => "; `seekless bench` measures it",
            ProfileMismatch::Document(_, DocumentError::Older { .. }) => "; `seekless bench` makes it again",
            ProfileMismatch::Document(..) => "; remove the file, and `seekless bench` makes it again",
            _ => "",
        };
        let why = why.to_string();
        let name = format!("{}: ", path.display());
        // What cannot be read is named by its error.
        let name = if why.starts_with(&name) { "" } else { &name };
        anyhow!("{name}{}{next}", shortened(&why))
    })
}

/// Fails unless this user may write to the system's directory of profiles.
pub(super) fn require_root() -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(anyhow!("--system needs root: only root may write to /var/lib/seekless"))
}

fn show(asked: &Show) -> Result<(), Failure> {
    let Show {
        path,
        report,
        json,
        system,
    } = asked;
    let found = found(path)?;
    let output = report.as_deref().map(|path| output_for(path, &found)).transpose()?;
    if *system {
        require_root()?;
        keep_for_all(&found)?;
    }
    if let Some(output) = output {
        return Ok(output.write(profile_page(&found).as_bytes())?);
    }
    let mut page = Page::stdout();
    if *json {
        page.json(&found.profile())?;
    } else {
        let uses = if is_document(path) {
            Vec::new()
        } else {
            StorageUses::summaries_at(path)
        };
        show_profile(&mut page, &found, &uses)?;
    }
    Ok(page.flush()?)
}

/// Keeps a profile, made of saved runs, in the system's directory.
fn keep_for_all(found: &StorageProfile) -> anyhow::Result<()> {
    let head = &found.head;
    let storage = Storage {
        id: Some(head.storage.clone()),
        mount_point: head.mount_point.clone(),
        mount_options: head.mount_options.clone(),
        ..Storage::default()
    };
    let kept = config::store()?.renew_shared_profiles(&[storage], Path::new(OF_SYSTEM))?;
    let none = "you have no saved run on this storage; `seekless bench --system` makes one";
    let kept = kept.first().context(none)?;
    let _ = writeln!(stderr(), "Kept for all users: {}", visible_path(kept));
    Ok(())
}

fn list(json: bool) -> Result<(), Failure> {
    let mut page = Page::stdout();
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for directory in all_directories() {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        for path in paths.filter(|path| is_document(path)) {
            match StorageProfile::read(&path) {
                Ok(found) => all.push(found),
                Err(why) => failed.push(anyhow!("skipped: {}", shortened(&why.to_string()))),
            }
        }
    }
    if json {
        page.json(&all.iter().map(profile_json).collect::<Vec<_>>())?;
    } else if all.is_empty() && failed.is_empty() {
        writeln!(page, "There are no profiles yet. `seekless bench` makes one.")?;
    } else {
        for found in &all {
            let profile = &found.head;
            let place = profile.mount_point.as_deref();
            let place = place.unwrap_or(if found.is_borrowed() { "imported" } else { "?" });
            let devices = profile.storage.devices.iter();
            let devices: Vec<String> = devices.map(|device| format!(" on {}", device.name)).collect();
            let (system, sittings) = (&profile.storage.file_system, profile.sittings.into());
            let sittings = counted(sittings, "sitting");
            let text = format!("{place}: {system}{}, {sittings}", devices.concat());
            writeln!(page, "{}\n  {}", visible(&text), visible_path(&found.path))?;
        }
    }
    page.flush()?;
    unless_failed(failed)
}

fn output_for(path: &Path, profile: &StorageProfile) -> anyhow::Result<Output> {
    Output::prepare(path, [profile.path.as_path()])
}

fn export(path: &Path, output: &Path) -> Result<(), Failure> {
    let found = found(path)?;
    let output = output_for(output, &found)?;
    Ok(output.write(found.profile().anonymous().to_text()?.as_bytes())?)
}

fn import(files: &[PathBuf]) -> Result<(), Failure> {
    let directory = own_directory().context(NO_HOME)?;
    require_private()?;
    let (mut page, mut failed) = (Page::stdout(), Vec::new());
    for file in files {
        match import_profile(file, &directory) {
            Ok((path, is_new)) => {
                let word = if is_new { "Imported" } else { "Exists  " };
                writeln!(page, "{word}  {}", visible_path(&path))?;
            }
            Err(error) => failed.push(anyhow!(error)),
        }
    }
    page.flush()?;
    unless_failed(failed)
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
    if !path.is_file() && absolute.starts_with(OF_SYSTEM) {
        let (path, file) = (path.display(), file.display());
        let why = format!("has only the profile of all users; `seekless profile remove {file}` removes it");
        return Err(anyhow!("{path}: {why}").into());
    }
    let mut ours = all_directories().into_iter().flat_map(fs::canonicalize);
    if !ours.any(|ours| absolute.parent() == Some(&ours)) {
        return Err(anyhow!("{}: not a profile that seekless made", file.display()).into());
    }
    fs::remove_file(&file).with_context(|| format!("{}: cannot remove", file.display()))?;
    writeln!(Page::stdout(), "Removed  {}", visible_path(&file))?;
    Ok(())
}
