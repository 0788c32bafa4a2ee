//! The user's configuration file: defaults that differ from user to user.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use anyhow::Context;
use clap::ColorChoice;
use seekless_engine::files::{open_of, read_within};
use seekless_lab::experiment::{Checked, one_of, parse_toml, problem};
use seekless_lab::store::{Store, StoreError};
use seekless_sys::{Access, lock_mutex};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use crate::budget;
use crate::call::UserDirectories;

/// The keys of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    budget: Option<Spanned<String>>,
    runs: Option<Spanned<String>>,
    color: Option<Spanned<String>>,
    /// Of the program `seekless-hub`.
    #[serde(rename = "hub")]
    _hub: Option<IgnoredAny>,
}

/// The defaults that the user chose.
#[derive(Debug, Default)]
pub struct Config {
    /// The text of the option `--budget`.
    pub budget: Option<String>,
    runs: Option<PathBuf>,
    /// When to use colors; `NO_COLOR` and similar variables override it.
    pub color: Option<ColorChoice>,
}

static CONFIG: Mutex<Config> = Mutex::new(Config {
    budget: None,
    runs: None,
    color: None,
});

/// The configuration that was loaded last.
pub fn get() -> MutexGuard<'static, Config> {
    lock_mutex(&CONFIG)
}

/// Loads the file; without one, and if that fails, the built-in defaults.
///
/// # Errors
/// If it cannot be read, is malformed, or may have been written by another user: it says where runs are saved, and
/// `bench --like` runs the commands of saved runs again.
pub fn load() -> anyhow::Result<()> {
    *get() = Config::default();
    if let Ok(directories) = UserDirectories::find() {
        *get() = read(&directories.config.join("seekless/config.toml"))?;
    }
    Ok(())
}

/// The store of the user's runs: in the directory that the configuration names, or in the data directory.
pub fn store() -> Result<Store, StoreError> {
    if let Some(directory) = &get().runs {
        return Ok(Store::new(directory.clone()));
    }
    let directories = UserDirectories::find().map_err(StoreError::NoHome)?;
    Ok(Store::new(directories.data.join("seekless")))
}

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 20;

fn read(path: &Path) -> anyhow::Result<Config> {
    let shown = path.display();
    match fs::metadata(path) {
        // The home directory may belong to another user; then this user has no file.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
            ) =>
        {
            return Ok(Config::default());
        }
        found => found.with_context(|| format!("{shown}: cannot stat"))?,
    };
    // sudo may keep the user's home directory.
    let invoker = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let users = [0, seekless_sys::effective_user()].into_iter().chain(invoker);
    let own = open_of(&users.collect::<Vec<_>>(), path, Access::Read);
    let text = own.and_then(|file| read_within(file, BYTES_MAX));
    let text = text.with_context(|| format!("{shown}: cannot use the configuration"))?;
    let text = String::from_utf8(text).with_context(|| format!("{shown}: is not UTF-8"))?;
    Ok(parse_toml(&text, &shown.to_string(), check)?)
}

fn check(text: Text) -> Checked<Config> {
    if let Some(given) = &text.budget
        && let Err(message) = budget::parse(given.get_ref())
    {
        return problem(given, format!("`{}` is not a budget: {message}", given.get_ref()));
    }
    let is_path = |runs: &String| Path::new(runs).is_absolute() && !runs.contains('\0');
    if let Some(runs) = text.runs.as_ref().filter(|runs| !is_path(runs.get_ref())) {
        return problem(
            runs,
            "`runs` must be an absolute path without zero bytes; write, for example, `runs = \"/data/seekless\"`",
        );
    }
    let colors = [
        ("auto", ColorChoice::Auto),
        ("always", ColorChoice::Always),
        ("never", ColorChoice::Never),
    ];
    let color = text.color.map(|color| one_of(&color, "color", &colors)).transpose()?;
    Ok(Config {
        budget: text.budget.map(Spanned::into_inner),
        runs: text.runs.map(|runs| runs.into_inner().into()),
        color,
    })
}
