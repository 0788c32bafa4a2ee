//! The options that say how duplicates are acted on.
//!
//! Not here: acting (`act`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use seekless_sys::PathWalk;
use seekless_tools::dupes::act::plan::is_plan;
use seekless_tools::dupes::act::rules::{RULES, Rule};
use seekless_tools::dupes::act::{self, ActingOptions, Action};

use crate::call::UserDirectories;
use crate::command::values::{JsonOptions, Word};
use crate::output::require_own;
use crate::show::{ActReport, JsonForm, say, visible_path};

/// What is done with duplicates, and which files stay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Acting")]
pub struct ChooseOptions {
    /// Which files stay, as in newest or path:GLOB
    ///
    /// The rules are newest, oldest, shortest, longest, first, name:GLOB, path:GLOB, under:DIR, not-under:DIR and
    /// at-least:N. Several rules are an order of preference, from left to right (see below).
    #[arg(long, value_name = "RULE", requires = "what",
        value_parser = OsStringValueParser::new().try_map(|text: OsString| Rule::parse(&text)))]
    pub keep: Vec<Rule>,
    /// Ask for each group which files stay
    ///
    /// The next run with the same PATHs uses these answers. After the questions, the plan is shown, as always.
    #[arg(long, short = 'i', requires = "what", conflicts_with_all = ["keep", "yes", "names"],
        hide_short_help = true)]
    pub interactive: bool,
    /// Move files below DIR, with their whole paths
    ///
    /// DIR must be on the same file system. It is made if it is missing.
    #[arg(long, value_name = "DIR", requires = "what")]
    pub to: Option<PathBuf>,
    /// Make symbolic links with absolute targets
    #[arg(long, requires = "what", hide_short_help = true)]
    pub absolute: bool,
    /// Remove extra hard links, not duplicates: the rules choose which names of each file stay
    #[arg(long, requires = "what", hide_short_help = true)]
    pub names: bool,
    #[command(flatten)]
    pub how: ActOptions,
    /// Write the plan to FILE to edit it; change nothing
    ///
    /// Each file has a line that begins with `keep` or the action. `seekless dupes act --plan FILE` carries it out.
    #[arg(long, value_name = "FILE", requires = "what", conflicts_with_all = ["yes", "dry_run", "prune"])]
    pub plan_file: Option<PathBuf>,
}

/// How duplicates are acted on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Acting")]
pub struct ActOptions {
    /// Also act where no lease keeps other processes out: files that are open for writing; NFS, SMB, exFAT, NTFS, FUSE (mergerfs)
    ///
    /// `remove` then moves files to a directory `.seekless-trash-*` beside them, and compares them once more there. What
    /// another program writes to a file meanwhile is also in that directory: nothing is lost until you remove it. If a file
    /// must be moved back, and another program creates one under the old name at that moment, the new one is replaced on file
    /// systems that cannot rename without replacing (exFAT, NTFS-3g, NFS). As undo moves files back, this also acts on files
    /// whose owner, group or attributes only root could restore.
    #[arg(long, requires = "what", hide_short_help = true)]
    pub without_leases: bool,
    /// Also make symbolic links that lead through directories that other users own or may write to; as root, also act on files
    /// of other users, and below directories that they own or may write to
    #[arg(long, requires = "what", hide_short_help = true)]
    unsafe_owner: bool,
    /// Also remove directories that remove, move or trash leaves empty, except the PATHs
    #[arg(long, requires = "what", hide_short_help = true)]
    pub prune: bool,
    /// Act without asking
    #[arg(long, short, requires = "what")]
    pub yes: bool,
    /// Print what would be done; change nothing
    #[arg(long, requires = "what", conflicts_with = "yes")]
    pub dry_run: bool,
}

/// The actions; [`ChooseOptions::action`] adds what else they need.
pub fn actions() -> [Word<Action>; 6] {
    let (to, home) = (PathBuf::new(), PathBuf::new());
    let symlink = Action::Symlink { is_absolute: false };
    [
        ("Remove files", Action::Remove),
        ("Replace files with hard links to the file that stays", Action::Hardlink),
        ("Replace files with symbolic links to the file that stays", symlink),
        ("Let files share the blocks of the file that stays", Action::Reflink),
        ("Move files below the directory --to", Action::Move { to }),
        (
            "Move files to the trash, where file managers show them",
            Action::Trash { home },
        ),
    ]
    .map(|(help, action)| (action.word(), help, action))
}

impl ChooseOptions {
    /// Fails before a search if what is asked for cannot be done.
    pub fn check(&self, action: &Action, has_references: bool, json: &JsonOptions) -> anyhow::Result<()> {
        self.action(action)?;
        if self.keep.is_empty() && !self.interactive && !has_references {
            bail!("use --keep RULE or --interactive to say which files stay; rules are {RULES}");
        }
        if json.form().is_some() && self.plan_file.is_some() {
            bail!("--plan-file takes no --json or --jsonl: a plan is a text of its own");
        }
        if let Some(file) = &self.plan_file {
            require_own(file, "a plan", is_plan)?;
        }
        self.how.require_answer(json.form())
    }

    /// The paths on file systems that have what the action needs. Says once for each other one what it lacks, before the search, and
    /// fails if none is left.
    pub fn able(&self, action: &Action, paths: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
        let ((action, _), options) = (self.action(action)?, self.how.options(true)?);
        let mut known = BTreeMap::new();
        let mut lacks = |path: &PathBuf| {
            let device = fs::metadata(path).map_or(0, |found| found.dev());
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let lacking = || (path.clone(), act::lacking(&action, &options, &absolute));
            let (_, why) = known.entry(device).or_insert_with(lacking);
            why.is_some()
        };
        let (lacking, able): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(&mut lacks);
        let wish = ActReport::new(&action, None).wish();
        let told = known.into_values();
        let told = told.filter_map(|(path, why)| Some((format!("{}: cannot {wish}", visible_path(&path)), why?)));
        let mut told: Vec<_> = told.collect();
        if able.is_empty()
            && let Some((path, why)) = told.pop()
        {
            return Err(why).context(path);
        }
        // Files elsewhere cannot be links to files there; other actions may keep those.
        if lacking.is_empty() || !matches!(action, Action::Hardlink | Action::Reflink) {
            return Ok(paths);
        }
        for (path, why) in told {
            say(&format!("{path}: {why}; it is not searched"));
        }
        Ok(able)
    }

    /// The action with what else it needs, and the rules. Fails if a directory of theirs does not exist.
    pub fn action(&self, action: &Action) -> anyhow::Result<(Action, Vec<Rule>)> {
        let action = match (action, &self.to) {
            (Action::Move { .. }, Some(to)) => Action::Move {
                to: target("--to", to)?,
            },
            (Action::Move { .. }, None) => bail!("move needs --to DIR"),
            (_, Some(_)) => bail!("only move takes --to"),
            (Action::Trash { .. }, None) => Action::Trash { home: trash()? },
            (Action::Symlink { .. }, None) => Action::Symlink {
                is_absolute: self.absolute,
            },
            _ if self.absolute => bail!("only symlink takes --absolute"),
            (Action::Remove, None) if self.names => Action::Names,
            (action, None) => action.clone(),
        };
        if self.names && action != Action::Names {
            bail!("only remove takes --names");
        }
        let action = self.how.action(action)?;
        let resolved = self.keep.iter().map(|rule| match rule {
            Rule::Under(path) => directory("--keep under", path).map(Rule::Under),
            Rule::NotUnder(path) => directory("--keep not-under", path).map(Rule::NotUnder),
            other => Ok(other.clone()),
        });
        Ok((action, resolved.collect::<anyhow::Result<_>>()?))
    }
}

impl ActOptions {
    /// What an action is with these options. Fails if it does not take them.
    pub fn action(&self, action: Action) -> anyhow::Result<Action> {
        let action = match action {
            Action::Remove if self.without_leases => Action::Quarantine,
            action => action,
        };
        if self.without_leases && !action.moves() {
            bail!("only remove (without --names), move and trash take --without-leases");
        }
        if self.prune && (self.without_leases || !action.empties()) {
            bail!("only remove, move and trash take --prune, and not with --without-leases");
        }
        Ok(action)
    }

    /// JSON output has no room for a question.
    pub fn require_answer(&self, json: Option<JsonForm>) -> anyhow::Result<()> {
        if json.is_some() && !self.yes && !self.dry_run {
            bail!("--json and --jsonl do not ask; use --yes or --dry-run");
        }
        Ok(())
    }

    pub fn options(&self, is_fresh: bool) -> anyhow::Result<ActingOptions> {
        Ok(ActingOptions {
            without_leases: self.without_leases,
            unsafe_owner: self.unsafe_owner,
            is_fresh,
            state_directory: state_directory()?,
        })
    }
}

/// The same of a directory that may be missing, with others above it: it is made when a file is moved there.
fn target(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    let found = path.symlink_metadata();
    let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) if is_missing => {
            let is_here = above.as_os_str().is_empty();
            let above = if is_here { Path::new(".") } else { above };
            Ok(target(option, above)?.join(name))
        }
        _ => directory(option, path),
    }
}

/// A directory as an absolute path without links; none of another user in a directory open to all is followed.
fn directory(option: &str, path: &Path) -> anyhow::Result<PathBuf> {
    let shown = visible_path(path);
    let cannot_find = || format!("{option}: {shown}: cannot find it");
    let found = PathWalk::protected(path).with_context(cannot_find)?.path;
    if !fs::symlink_metadata(&found).with_context(cannot_find)?.is_dir() {
        bail!("{option}: {shown}: is not a directory");
    }
    Ok(found)
}

/// The trash of this user.
fn trash() -> anyhow::Result<PathBuf> {
    let directories = UserDirectories::find().context("cannot find the user's trash: set HOME")?;
    target("the trash", &directories.data.join("Trash"))
}

/// Where journals are kept.
pub fn state_directory() -> anyhow::Result<PathBuf> {
    let directories = UserDirectories::find().context("cannot find the user's state directory: set HOME")?;
    Ok(directories.state.join("seekless"))
}
