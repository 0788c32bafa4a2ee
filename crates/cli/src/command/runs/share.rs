//! `seekless runs share` and `fetch`: sending runs to a hub, withdrawing them, and fetching profiles of others.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use seekless::method;
use seekless::profile::{StorageProfile, own_directory};
use seekless_hub::client::{self, Receipt};
use seekless_lab::experiment::KNOWN;
use seekless_lab::store::{SharedRun, Store, keep_fetched_profile};
use seekless_record::Run;
use seekless_results::{DeviceKind, Origin, bytes, identity, plural, storage_words, visible};

use crate::call;
use crate::command::Failure;
use crate::command::confirm::require_agreement;
use crate::command::profile::{NO_HOME, require_private};
use crate::config;
use crate::show::{PLAIN, Page};

/// Send a run to a hub, where others can see it; or withdraw it.
///
/// The run is made anonymous, as by `seekless runs export --anonymous`. A pseudonym of this machine is added, which differs from hub to
/// hub. The command shows what it would send, and asks. The receipt is kept, so that the run can be withdrawn.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless runs share --hub https://hub.example.org
  seekless runs share --dry-run 2026-11-20 | less   # all that would be sent
  seekless runs share --withdraw latest

The hub can also be named in SEEKLESS_HUB, or in the configuration as
hub = \"https://hub.example.org\".")]
pub struct Share {
    /// The run, one of your own
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
    /// Withdraw a shared run: its ID here or at the hub, or `latest`
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "dry_run", "yes"])]
    withdraw: Option<String>,
}

/// Fetch a profile from a hub: what others measured on a kind of storage.
///
/// It is imported, as by `seekless profile import`: `advise` and the other commands use it for storages of this kind that have no
/// profile of their own, and say so. It replaces one of the same kind, fetched before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  seekless runs fetch --hub https://hub.example.org --kind ssd-sata
  seekless runs fetch --kind nvme --file-system ext4 --kernel 6.18

The hub can also be named in SEEKLESS_HUB, or in the configuration as
hub = \"https://hub.example.org\".")]
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

pub fn share(store: &Store, arguments: &Share) -> Result<(), Failure> {
    if let Some(id) = &arguments.withdraw {
        return Ok(withdraw(store, id, arguments.hub.as_deref())?);
    }
    let hub = config::hub(arguments.hub.as_deref())?;
    let document = store.find(&arguments.id)?;
    if document.origin != Origin::Own {
        return Err(anyhow!(
            "`{}` is not a run of this machine; only such runs can be shared",
            document.id
        )
        .into());
    }
    let run = client::prepared(&hub, &document.read_own()?, &KNOWN);
    if arguments.dry_run {
        call::output().write_all(seekless_record::to_json(&run)?.as_bytes())?;
        return Ok(());
    }
    let mut page = Page::stdout();
    summarise(&mut page, &hub, &document.id, &run)?;
    page.flush()?;
    if !arguments.yes {
        require_agreement(
            &format!("Send this run to {}?", visible(&hub)),
            "nobody can be asked without a terminal; use --yes to send the run, or --dry-run to see it",
        )?;
    }
    send(store, &mut page, &hub, &document.id, &run)?;
    Ok(page.flush()?)
}

/// Sends a run. Its receipt is kept before, so that the run can be withdrawn even if no answer arrives.
fn send(store: &Store, page: &mut Page<'_>, hub: &str, named: &str, run: &Run) -> anyhow::Result<()> {
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
        Err(error) => {
            bail!("{error}; if it arrived nevertheless, `seekless runs share --withdraw {named}` withdraws it")
        }
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
    Ok(tell(page, &receipt, &path, named)?)
}

/// The receipts of a run, or of all, at a hub, or at all, the newest first.
fn receipts(store: &Store, id: Option<&str>, hub: Option<&str>) -> anyhow::Result<Vec<(PathBuf, SharedRun)>> {
    let mut receipts = store.receipts(id)?;
    if let Some(hub) = hub {
        receipts.retain(|(_, receipt)| receipt.hub.trim_end_matches('/') == hub.trim_end_matches('/'));
    }
    Ok(receipts)
}

/// What is about to be sent.
fn summarise(page: &mut Page<'_>, hub: &str, id: &str, run: &Run) -> anyhow::Result<()> {
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
        page.labelled(PLAIN, name, 9, &visible(&fact))?;
    }
    Ok(())
}

/// What the hub said of a run with this name, whose receipt is in a file.
fn tell(page: &mut Page<'_>, receipt: &Receipt, path: &Path, named: &str) -> io::Result<()> {
    let word = if receipt.withdrawable { "Shared" } else { "Exists" };
    page.labelled(PLAIN, word, 9, &visible(&receipt.url))?;
    if !receipt.counted {
        let why = format!("the hub keeps it apart from its figures: {}", receipt.marks.join(", "));
        page.note(&visible(&why))?;
    }
    if !receipt.withdrawable {
        return page.note("The hub had this run already; only who sent it first can withdraw it.");
    }
    page.labelled(PLAIN, "Receipt", 9, &visible(&path.display().to_string()))?;
    let withdraw = format!("seekless runs share --withdraw {}", visible(named));
    page.labelled(PLAIN, "Withdraw", 9, &withdraw)
}

fn withdraw(store: &Store, id: &str, hub: Option<&str>) -> anyhow::Result<()> {
    let named = (id != "latest" && id != "last").then_some(id);
    let Some((path, receipt)) = receipts(store, named, hub)?.into_iter().next() else {
        bail!("there is no receipt of `{id}`; only runs that were shared from here can be withdrawn");
    };
    client::withdraw(&receipt.hub, &receipt.id, &receipt.secret)?;
    let mut page = Page::stdout();
    let withdrawn = format!("{} from {}", receipt.run, receipt.hub);
    page.labelled(PLAIN, "Withdrawn", 11, &visible(&withdrawn))?;
    store.forget_receipt(&path)?;
    Ok(page.flush()?)
}

pub fn fetch(arguments: &Fetch) -> anyhow::Result<()> {
    let Fetch {
        kind,
        file_system,
        kernel,
        model,
        ..
    } = arguments;
    let hub = config::hub(arguments.hub.as_deref())?;
    let directory = own_directory().context(NO_HOME)?;
    require_private()?;
    let [file_system, kernel, model] = [file_system, kernel, model].map(Option::as_deref);
    let profile = client::fetch_profile(&hub, *kind, file_system, kernel, model)?;
    let host = hub.split("://").last().unwrap_or_default();
    let asked = [Some(host), Some(kind.slug()), file_system, kernel, model];
    let name = asked.into_iter().flatten().collect::<Vec<_>>().join("-");
    let (path, _) = keep_fetched_profile(profile, &name, &directory)?;
    let found = StorageProfile::read(&path).map_err(|why| anyhow!("{why}"))?;
    let mut page = Page::stdout();
    let sittings = plural(found.head.sittings.into(), "sitting", "sittings");
    let about = found.borrowed_from().unwrap_or_default();
    page.labelled(
        PLAIN,
        "Fetched",
        9,
        &visible(&format!("{about}; each figure by at most {sittings}")),
    )?;
    page.labelled(PLAIN, "Profile", 9, &visible(&path.display().to_string()))?;
    let use_of = "storages of this kind and file system that have no profile of their own";
    page.labelled(PLAIN, "Used for", 9, use_of)?;
    if found.head.revision.mechanisms != method::REVISION {
        page.note("It was measured by another version of the methods, so it is not used.")?;
    }
    Ok(page.flush()?)
}
