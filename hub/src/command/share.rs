//! `seekless-hub share`, `withdraw` and `fetch`: sending runs to a hub, withdrawing them, and fetching profiles of others.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use seekless_engine::profile::{StorageProfile, own_directory};
use seekless_lab::experiment::KNOWN;
use seekless_lab::store::{SharedRun, Store, keep_fetched_profile};
use seekless_record::Run;
use seekless_results::{DeviceKind, Origin, bytes, identity, plural, storage_words};

use super::config::Config;
use super::terminal::{labelled, note, require_agreement};
use crate::client::{self, Receipt};

/// Send a run to a hub, where others can see it.
///
/// The run is made anonymous, as by `seekless runs export --anonymous`. A pseudonym of this machine is added, which differs from hub to
/// hub. The command shows what it would send, and asks. The receipt is kept, so that the run can be withdrawn.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless-hub share --hub https://hub.example.org
  seekless-hub share --dry-run 2026-11-20 | less   # all that would be sent

The hub can also be named in SEEKLESS_HUB, or in the configuration of seekless,
~/.config/seekless/config.toml, as hub = \"https://hub.example.org\".")]
pub struct Share {
    /// The run, one of your own, as `seekless runs` lists it
    #[arg(value_name = "ID", default_value = "latest")]
    id: OsString,
    /// Address of the hub
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// Print the document that would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Send it without asking
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

/// Withdraw a run that was shared from here.
///
/// The hub is the one that the run was sent to; --hub chooses between several.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless-hub withdraw latest
  seekless-hub withdraw 2026-11-20T14-03-22-read")]
pub struct Withdraw {
    /// The run: its ID here or at the hub, or `latest`
    #[arg(value_name = "ID")]
    id: String,
    /// Address of the hub
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
}

/// Fetch a profile from a hub: what others measured on a kind of storage.
///
/// It is imported, as by `seekless profile import`: `seekless advise` and the other commands use it for storages of this kind that have
/// no profile of their own, and say so. It replaces one of the same kind, fetched before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless-hub fetch --hub https://hub.example.org --kind ssd-sata
  seekless-hub fetch --kind nvme --file-system ext4 --kernel 6.18

The hub can also be named in SEEKLESS_HUB, or in the configuration of seekless,
~/.config/seekless/config.toml, as hub = \"https://hub.example.org\".")]
pub struct Fetch {
    /// Address of the hub
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// Kind of storage
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: DeviceKind,
    /// Only of this file system [default: the one that most machines have]
    #[arg(long, value_name = "NAME")]
    file_system: Option<String>,
    /// Only of this kernel, as in 6.18
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Only of this model of disk
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

fn kinds() -> impl TypedValueParser<Value = DeviceKind> {
    PossibleValuesParser::new(DeviceKind::ALL.map(DeviceKind::slug)).try_map(|slug| slug.parse::<DeviceKind>())
}

/// Shows a run, asks, and sends it.
pub fn share(arguments: &Share, out: &mut dyn Write) -> anyhow::Result<()> {
    let config = Config::load()?;
    let (store, hub) = (config.store()?, config.hub(arguments.hub.as_deref())?);
    let document = store.find(&arguments.id)?;
    if document.origin != Origin::Own {
        let id = document.id;
        bail!("`{id}` is not a run of this machine; only such runs can be shared");
    }
    let run = client::prepared(&hub, &document.read_own()?, &KNOWN);
    if arguments.dry_run {
        return Ok(out.write_all(seekless_record::to_json(&run)?.as_bytes())?);
    }
    summarise(out, &hub, &document.id, &run)?;
    out.flush()?;
    if !arguments.yes {
        require_agreement(
            &format!("Send this run to {}?", seekless_results::visible(&hub)),
            "nobody can be asked without a terminal; use --yes to send the run, or --dry-run to see it",
        )?;
    }
    send(&store, out, &hub, &document.id, &run)
}

/// Sends a run. Its receipt is kept before, so that the run can be withdrawn even if no answer arrives.
fn send(store: &Store, out: &mut dyn Write, hub: &str, named: &str, run: &Run) -> anyhow::Result<()> {
    // One that is damaged does not keep from sharing.
    let earlier = receipts(store, Some(named), Some(hub))
        .unwrap_or_default()
        .into_iter()
        .next();
    let is_first = earlier.is_none();
    let (mut path, mut shared) = if let Some(earlier) = earlier {
        earlier
    } else {
        let shared = SharedRun {
            hub: hub.to_owned(),
            run: named.to_owned(),
            id: client::id(run)?,
            secret: client::new_secret().context("cannot make a secret")?,
            shared: Timestamp::now().to_string(),
        };
        (store.keep_receipt(&shared)?, shared)
    };
    let receipt = match client::share(hub, run, &shared.secret) {
        Ok(receipt) => receipt,
        Err(error) if error.is_refusal() => {
            if is_first {
                store.forget_receipt(&path)?;
            }
            return Err(error.into());
        }
        Err(error) => bail!("{error}; if it arrived nevertheless, `seekless-hub withdraw {named}` withdraws it"),
    };
    if !receipt.withdrawable {
        if is_first {
            store.forget_receipt(&path)?;
        }
    } else if receipt.id != shared.id {
        // Its version is another one.
        shared.id.clone_from(&receipt.id);
        let new = store.keep_receipt(&shared)?;
        store.forget_receipt(&path)?;
        path = new;
    }
    Ok(tell(out, &receipt, &path, named)?)
}

/// The receipts of a run, or of all, at a hub, or at all, the newest first.
fn receipts(store: &Store, id: Option<&str>, hub: Option<&str>) -> anyhow::Result<Vec<(PathBuf, SharedRun)>> {
    let mut receipts = store.receipts(id)?;
    if let Some(hub) = hub {
        receipts.retain(|(_, receipt)| receipt.hub.trim_end_matches('/') == hub.trim_end_matches('/'));
    }
    Ok(receipts)
}

/// Writes what is about to be sent.
fn summarise(out: &mut dyn Write, hub: &str, id: &str, run: &Run) -> anyhow::Result<()> {
    let contests = plural(run.contests.len() as u64, "contest", "contests");
    let samples = plural(run.trials.len() as u64, "sample", "samples");
    let size = bytes(seekless_record::to_json(run)?.len() as u64);
    let machine = &run.machine;
    let storages: Vec<String> = run.storages.iter().map(storage_words).collect();
    for (name, fact) in [
        ("Hub", hub.to_owned()),
        ("Run", format!("{id}, sent as {}", run.id)),
        (
            "Machine",
            format!("{}, {} {}", identity(machine), machine.system, machine.kernel),
        ),
        ("Storage", storages.join("; ")),
        (
            "Measured",
            format!("{}: {contests}, {samples}, {size}", run.experiments.join(", ")),
        ),
        (
            "Not sent",
            "host name, paths, serial numbers, commands, error messages, time of day".to_owned(),
        ),
    ] {
        labelled(out, name, 9, &fact)?;
    }
    Ok(())
}

/// Writes what the hub said of a run with this name, whose receipt is in a file.
fn tell(out: &mut dyn Write, receipt: &Receipt, path: &Path, named: &str) -> io::Result<()> {
    let word = if receipt.withdrawable { "Shared" } else { "Exists" };
    labelled(out, word, 9, &receipt.url)?;
    if !receipt.counted {
        let why = format!("the hub keeps it apart from its figures: {}", receipt.marks.join(", "));
        note(out, &why)?;
    }
    if !receipt.withdrawable {
        return note(
            out,
            "The hub had this run already; only who sent it first can withdraw it.",
        );
    }
    labelled(out, "Receipt", 9, &path.display().to_string())?;
    labelled(out, "Withdraw", 9, &format!("seekless-hub withdraw {named}"))
}

/// Withdraws a run by its receipt.
pub fn withdraw(arguments: &Withdraw, out: &mut dyn Write) -> anyhow::Result<()> {
    let store = Config::load()?.store()?;
    let id = arguments.id.as_str();
    let named = (id != "latest" && id != "last").then_some(id);
    let Some((path, receipt)) = receipts(&store, named, arguments.hub.as_deref())?.into_iter().next() else {
        bail!("there is no receipt of `{id}`; only runs that were shared from here can be withdrawn");
    };
    client::withdraw(&receipt.hub, &receipt.id, &receipt.secret)?;
    labelled(out, "Withdrawn", 11, &format!("{} from {}", receipt.run, receipt.hub))?;
    Ok(store.forget_receipt(&path)?)
}

/// Fetches a profile, and keeps it among the imported ones.
pub fn fetch(arguments: &Fetch, out: &mut dyn Write) -> anyhow::Result<()> {
    let Fetch {
        kind,
        file_system,
        kernel,
        model,
        ..
    } = arguments;
    let config = Config::load()?;
    let hub = config.hub(arguments.hub.as_deref())?;
    let directory = own_directory().context("neither HOME nor XDG_DATA_HOME says where profiles of this user are")?;
    if let Some(exposed) = config.store()?.exposed() {
        bail!("{exposed}; with sudo, use `sudo -H`, or set XDG_DATA_HOME");
    }
    let [file_system, kernel, model] = [file_system, kernel, model].map(Option::as_deref);
    let profile = client::fetch_profile(&hub, *kind, file_system, kernel, model)?;
    let host = hub.split("://").last().unwrap_or_default();
    let asked = [Some(host), Some(kind.slug()), file_system, kernel, model];
    let name = asked.into_iter().flatten().collect::<Vec<_>>().join("-");
    let (path, _) = keep_fetched_profile(profile, &name, &directory)?;
    let found = StorageProfile::read(&path).map_err(|why| anyhow!("{why}"))?;
    let sittings = plural(found.head.sittings.into(), "sitting", "sittings");
    let about = found.borrowed_from().unwrap_or_default();
    labelled(
        out,
        "Fetched",
        9,
        &format!("{about}; each figure by at most {sittings}"),
    )?;
    labelled(out, "Profile", 9, &path.display().to_string())?;
    let use_of = "storages of this kind and file system that have no profile of their own";
    labelled(out, "Used for", 9, use_of)?;
    if found.head.revision.mechanisms != seekless_method::REVISION {
        note(
            out,
            "It was measured by another version of the methods, so it is not used.",
        )?;
    }
    Ok(())
}
