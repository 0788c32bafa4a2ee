//! Finds steps that will not be done, before anything is done.
//!
//! Not here: the proofs at the moment of acting (`prepare`).

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use seekless::facts::ProcessFacts;
use seekless::files::{self, Attributes};
use seekless_sys::{self as sys, Support};

use super::held::{Holding, Refused, UNSURE};
use super::place::{Behind, Directories, Place};
use super::prepare::{fits, keeps_rights, missing, touched, unopened};
use super::{Action, Needless, Options, Outcome, Step, Unready, directory};
use crate::Stop;
use crate::threads::in_parts;
use crate::visible::visible_path;

/// btrfs stores files of up to a block with their metadata.
const SMALL_BYTES: u64 = 4096;
/// Steps that a thread checks in turn.
const AT_ONCE: usize = 256;

/// Steps that will not be done, and what will become of them, as far as this is known without reading files. Each has the space
/// that its file shared with no other at the search.
#[must_use]
pub fn check(action: &Action, steps: &[(Step, u64)], options: &Options) -> Vec<(usize, Outcome)> {
    let stop = Stop::default();
    let holding = Holding::new(options, &stop);
    let threads = ProcessFacts::here().processors;
    let parts = in_parts(threads, steps.len(), AT_ONCE, |part| {
        let directories = Directories::default();
        let refused = |number: usize| {
            directories.close_many();
            refused(action, &steps[number], &holding, &directories).err()
        };
        part.filter_map(|number| Some((number, refused(number)?.into())))
            .collect::<Vec<_>>()
    });
    parts.flatten().collect()
}

/// Fails with the reason why a step will not be done.
fn refused(
    action: &Action,
    (step, own_bytes): &(Step, u64),
    holding: &Holding<'_>,
    directories: &Directories,
) -> Result<(), Unready> {
    if step.seen.contents.is_some() {
        directory::examine(step, action, holding, directories)?;
        return Ok(());
    }
    let facts = |path: &Path| {
        let place = directories.place(path).map_err(|error| unopened(&error))?;
        let found = place.facts().map_err(|error| format!("cannot stat: {error}"))?;
        Ok::<_, Refused>((place, found.ok_or("it is gone")?))
    };
    let of_kept = |why: Refused| format!("the kept file {}: {why}", visible_path(&step.keep));
    let (kept_place, kept) = facts(&step.keep).map_err(of_kept)?;
    if !step.keep_seen.is(&kept) {
        return Err(of_kept("changed since the search".into()).into());
    }
    require_identity(holding, &kept_place, kept.device).map_err(of_kept)?;
    if *action != Action::Reflink {
        holding.require_owner(&kept_place, &kept).map_err(of_kept)?;
        holding.require_own_target(action, &kept_place).map_err(of_kept)?;
    }
    if *action == Action::Hardlink {
        require_changeable(&step.keep).map_err(of_kept)?;
    }
    for path in &step.paths {
        let (place, found) = facts(path)?;
        if !step.seen.is(&found) {
            return Err("changed since the search".into());
        }
        holding.require_owner(&place, &found)?;
        holding.require_removable(&place, &touched(action, &found, &kept))?;
        fits(action, (found.device, kept.device))?;
        let behind = require_identity(holding, &place, found.device)?;
        match () {
            () if behind.is_read_only => return Err("its file system is mounted read-only".into()),
            () if *action == Action::Reflink && !behind.system.may_share => {
                return Err("its file system cannot share blocks between files".into());
            }
            () => {}
        }
        require_changeable(path)?;
        if let Some(above) = path.parent().filter(|_| *action != Action::Reflink) {
            require_changeable(above).map_err(|why| format!("its directory: {why}"))?;
        }
        let [own, kept] = [found, kept].map(|facts| Attributes {
            owner: facts.owner,
            group: facts.group,
            mode: facts.mode,
            extended: None,
        });
        holding.require_restorable(action, &own)?;
        if !holding.options.ignore_metadata {
            keeps_rights(action, &own, &kept)?;
        }
        // Whoever removes names wants them gone, whatever that frees.
        let is_linked = matches!(action, Action::Hardlink | Action::Symlink { .. });
        if is_linked && found.names > step.paths.len() as u64 {
            return Err(Unready::Needless(Needless::OtherNames));
        }
        if let Action::Move { to } = action {
            missing(
                &to.join(path.strip_prefix("/").unwrap_or(path)),
                to,
                found.device,
                (holding, directories),
            )?;
        }
    }
    // Small files may be stored with their metadata, and a file may have blocks past its end.
    let is_doubtful = *own_bytes <= SMALL_BYTES || *own_bytes > step.seen.bytes.next_multiple_of(SMALL_BYTES);
    if *action == Action::Reflink && is_doubtful {
        let open = |path: &Path| directories.place(path).and_then(|place| place.open());
        if let (Ok(own), Ok(kept)) = (open(&step.paths[0]), open(&step.keep)) {
            require_own_blocks(&own, &kept)?;
        }
    }
    Ok(())
}

/// What the file system of a place is like. Fails where nothing can be proven about its files.
fn require_identity(holding: &Holding<'_>, place: &Place, device: u64) -> Result<Behind, Refused> {
    let behind = holding.systems.of(device, place.directory.as_fd());
    let behind = behind.map_err(|error| format!("cannot examine its file system: {error}"))?;
    if !behind.system.inodes_identify {
        return Err(UNSURE.into());
    }
    holding.require_leases(&behind)?;
    Ok(behind)
}

/// Fails if a file has no blocks that it could give up by sharing those of another, as far as the file system tells.
pub(super) fn require_own_blocks(file: &File, kept: &File) -> Result<u64, Unready> {
    let Ok(Some(bytes)) = files::own_bytes(file) else {
        return Ok(0);
    };
    if bytes > 0 {
        return Ok(bytes);
    }
    // btrfs takes longer the more files share the blocks, so the kept file comes last.
    let layout = files::shared_layout(file).ok().flatten();
    match layout {
        None => Err(Unready::Needless(Needless::NoBlocks)),
        own if files::shared_layout(kept).ok().flatten() == own => Err(Unready::Needless(Needless::Shared)),
        _ => Ok(0),
    }
}

/// Fails for what is immutable or append-only.
pub(super) fn require_changeable(path: &Path) -> Result<(), Refused> {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) => Err(protection.to_owned()),
        _ => Ok(()),
    }
}
