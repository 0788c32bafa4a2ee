//! What `~/.config/seekless/config.toml` says of hubs and of saved runs. The command `seekless` checks the other keys of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use etcetera::BaseStrategy;
use seekless_engine::files::{Access, open_of, read_within};
use seekless_lab::store::{Store, StoreError};
use serde::Deserialize;

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The keys that are used here.
#[derive(Debug, Default, Deserialize)]
pub struct Config {
    hub: Option<String>,
    runs: Option<PathBuf>,
}

impl Config {
    /// Reads the user's file; without one, all defaults hold.
    ///
    /// # Errors
    /// If it cannot be read, is malformed, or may have been written by another user: it says where runs are sent.
    pub fn load() -> anyhow::Result<Self> {
        match etcetera::choose_base_strategy() {
            Ok(directories) => read(&directories.config_dir().join("seekless/config.toml")),
            Err(_) => Ok(Self::default()),
        }
    }

    /// The store of the user's runs: in the directory that the file names, or in the data directory.
    pub fn store(&self) -> anyhow::Result<Store> {
        if let Some(directory) = &self.runs {
            return Ok(Store::new(directory.clone()));
        }
        let directories = etcetera::choose_base_strategy().map_err(StoreError::NoHome)?;
        Ok(Store::new(directories.data_dir().join("seekless")))
    }

    /// The address of the hub: the one given, or that of the environment, or that of the file.
    pub fn hub(&self, given: Option<&str>) -> anyhow::Result<String> {
        let named = || std::env::var("SEEKLESS_HUB").ok().filter(|hub| !hub.is_empty());
        let hub = given.map(str::to_owned).or_else(named).or_else(|| self.hub.clone());
        let hub = hub.context("no hub is named; use --hub URL, SEEKLESS_HUB, or `hub` in the configuration")?;
        Ok(hub.trim_end_matches('/').to_owned())
    }
}

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
    let users = [0, rustix::process::geteuid().as_raw()].into_iter().chain(invoker);
    let own = open_of(&users.collect::<Vec<_>>(), path, Access::Read);
    let text = own.and_then(|file| read_within(file, BYTES_MAX));
    let text = text.with_context(|| format!("{shown}: cannot use the configuration"))?;
    let text = String::from_utf8(text).with_context(|| format!("{shown}: is not UTF-8"))?;
    let config: Config = toml::from_str(&text).with_context(|| format!("{shown}: cannot use the configuration"))?;
    if config.runs.as_deref().is_some_and(|runs| !runs.is_absolute()) {
        bail!("{shown}: `runs` must be an absolute path");
    }
    Ok(config)
}
