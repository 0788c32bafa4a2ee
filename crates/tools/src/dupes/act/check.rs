//! Finds steps that will not be done, before anything is done.
//!
//! Not here: the proofs at the moment of acting (`prepare`).

use std::os::fd::AsFd;
use std::path::Path;

use seekless::facts::ProcessFacts;
use seekless::files::Attributes;
use seekless_sys::{self as sys, Support};

use super::held::{Holding, Refused, UNSURE};
use super::place::Directories;
use super::prepare::{fits, keeps_rights, missing, touched, unopened};
use super::{Action, Options, Step, directory};
use crate::Stop;
use crate::threads::in_parts;
use crate::visible::visible_path;

/// Steps that a thread checks in turn.
const AT_ONCE: usize = 256;

/// Steps that will not be done, and why, as far as this is known without reading files.
#[must_use]
pub fn check(action: &Action, steps: &[Step], options: &Options) -> Vec<(usize, String)> {
    let stop = Stop::default();
    let holding = Holding::new(options, &stop);
    let threads = ProcessFacts::here().processors;
    let parts = in_parts(threads, steps.len(), AT_ONCE, |part| {
        let directories = Directories::default();
        let refused = |number: usize| {
            directories.close_many();
            refused(action, &steps[number], &holding, &directories).err()
        };
        part.filter_map(|number| Some((number, refused(number)?)))
            .collect::<Vec<_>>()
    });
    parts.flatten().collect()
}

/// Fails with the reason why a step will not be done.
fn refused(action: &Action, step: &Step, holding: &Holding<'_>, directories: &Directories) -> Result<(), Refused> {
    if step.seen.contents.is_some() {
        return directory::examine(step, action, holding, directories).map(drop);
    }
    let facts = |path: &Path| {
        let place = directories.place(path).map_err(|error| unopened(&error))?;
        let found = place.facts().map_err(|error| format!("cannot stat: {error}"))?;
        Ok::<_, Refused>((place, found.ok_or("it is gone")?))
    };
    let of_kept = |why: Refused| format!("the kept file {}: {why}", visible_path(&step.keep));
    let (kept_place, kept) = facts(&step.keep).map_err(of_kept)?;
    if !step.keep_seen.is(&kept) {
        return Err(of_kept("changed since the search".into()));
    }
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
        let behind = holding.systems.of(found.device, place.directory.as_fd());
        let behind = behind.map_err(|error| format!("cannot examine its file system: {error}"))?;
        holding.require_leases(&behind)?;
        match () {
            () if behind.is_read_only => return Err("its file system is mounted read-only".into()),
            () if !behind.system.inodes_identify => return Err(UNSURE.into()),
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
        if let Action::Move { to } = action {
            missing(
                &to.join(path.strip_prefix("/").unwrap_or(path)),
                to,
                found.device,
                (holding, directories),
            )?;
        }
    }
    Ok(())
}

/// Fails for what is immutable or append-only.
pub(super) fn require_changeable(path: &Path) -> Result<(), Refused> {
    match sys::protection(path) {
        Ok(Support::Available(Some(protection))) => Err(protection.to_owned()),
        _ => Ok(()),
    }
}
