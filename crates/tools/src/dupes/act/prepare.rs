//! What is proven and recorded of a step before it is done.
//!
//! Not here: doing it (`change`).

use std::borrow::Cow;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{StatVfsMountFlags, fstatvfs};
use seekless::files::{Attributes, shared_bytes};
use seekless_sys as sys;

use super::check::require_own_blocks;
use super::held::{Held, Holding, Kept, Refused, one_file};
use super::journal::{Entry, Name};
use super::place::{Directories, Place, relative};
use super::twin::born_ns_of;
use super::{Action, Step, TEMPORARY, Unready};
use crate::visible::visible_path;
use crate::walk::Facts;

/// A file that is proven to equal the kept one, and what is done with it.
pub(super) struct Prepared {
    pub held: Held,
    pub kept: Arc<Kept>,
    pub places: Vec<Place>,
    pub entry: Entry,
    /// The space that is freed when all its names are removed, or when it shares all its blocks.
    pub own_bytes: u64,
}

/// Proves that a step may be done, and collects what the journal says of it. `run` is unique to this run.
pub(super) fn prepare(
    (number, step): (usize, &Step),
    action: &Action,
    kept: &Arc<Kept>,
    (holding, directories): (&Holding<'_>, &Directories),
    run: &str,
) -> Result<Prepared, Unready> {
    let opened = |path: &PathBuf| directories.place(path);
    let places: Vec<Place> = step
        .paths
        .iter()
        .map(opened)
        .collect::<io::Result<_>>()
        .map_err(|error| unopened(&error))?;
    let first = places.first().ok_or("it has no path")?;
    let held = holding.hold(first, &step.seen)?;
    let kept_place = verify(kept, step, directories)?;
    let keep = step.keep.as_path();
    if let Some(why) = one_file(&kept.held, &held, keep) {
        return Err(why.into());
    }
    let is_broken_up = |held: &Held| held.behind.system.is_overlay && held.facts().names > 1;
    if is_broken_up(&held) || *action == Action::Hardlink && is_broken_up(&kept.held) {
        return Err("an overlay may break up its hard links, or those of the kept file, when one is changed".into());
    }
    for (at, place) in places.iter().enumerate() {
        holding.require_owner(place, &held.facts())?;
        holding.require_removable(place, &touched(action, &held.facts(), &kept.held.facts()))?;
        if at == 0 {
            continue;
        }
        let found = place.facts().map_err(|error| format!("cannot stat: {error}"))?;
        if found.is_none_or(|found| !step.seen.is_inode(&found)) {
            return Err(format!("{} is another file than at the search", visible_path(&place.path)).into());
        }
    }
    // Its owner could remove it, and with it the last copy.
    if *action != Action::Reflink {
        let of_kept = |why| format!("the kept file {}: {why}", visible_path(keep));
        holding
            .require_owner(&kept_place, &kept.held.facts())
            .and_then(|()| holding.require_own_target(action, &kept_place))
            .map_err(of_kept)?;
    }
    let attributes = Attributes::of(&held.file).map_err(|error| format!("cannot read its attributes: {error}"))?;
    let devices = (held.facts().device, kept.held.facts().device);
    fits(action, devices)?;
    holding.require_restorable(action, &attributes)?;
    if !holding.options.ignore_metadata {
        keeps_rights(action, &attributes, &kept.attributes)?;
        keeps_mount(action, first, &kept_place)?;
    }
    holding.compare(kept, &held)?;
    let metadata = held.file.metadata().map_err(|error| format!("cannot stat: {error}"))?;
    let flags = sys::inode_flags(&held.file).map_err(|error| format!("cannot read its flags: {error}"))?;
    let extended_flags =
        sys::extended_flags(&held.file).map_err(|error| format!("cannot read its extended flags: {error}"))?;
    let names = places.iter().enumerate();
    let names = names.map(|(at, place)| {
        let temporary = format!("{TEMPORARY}{run}-{number}-{at}");
        name(
            place,
            keep,
            action,
            temporary,
            held.facts().device,
            (holding, directories),
        )
    });
    let entry = Entry {
        step: number as u64,
        names: names.collect::<Result<_, _>>()?,
        seen: super::Seen::of(&held.facts()),
        links: held.facts().names,
        born_ns: born_ns_of(&metadata),
        keep: keep.to_owned(),
        keep_seen: super::Seen::of(&kept.held.facts()),
        keep_born_ns: kept.born_ns,
        digest: kept.digest.clone(),
        attributes,
        flags: flags.available(),
        extended_flags: extended_flags.available(),
        modified: held.facts().modified,
        accessed: (metadata.atime(), u32::try_from(metadata.atime_nsec()).unwrap_or(0)),
        why: step.why.clone(),
    };
    holding.require_trial(action, first, &entry)?;
    let own_bytes = if *action == Action::Reflink {
        // After sharing, its data has no block that is not the kept file's.
        require_own_blocks(&held.file, &kept.held.file)?
    } else {
        let shared = held.behind.system.may_share.then(|| shared_bytes(&held.file));
        let shared = shared.and_then(Result::ok).flatten().unwrap_or(0);
        held.facts().allocated_bytes.saturating_sub(shared)
    };
    Ok(Prepared {
        own_bytes,
        held,
        kept: Arc::clone(kept),
        places,
        entry,
    })
}

pub(super) fn unopened(error: &io::Error) -> Refused {
    format!("cannot open its directory: {error}")
}

/// The place that a step names for the kept file. Fails unless this is the open file.
fn verify<'k>(kept: &'k Kept, step: &Step, directories: &Directories) -> Result<Cow<'k, Place>, Refused> {
    if kept.place.path == step.keep {
        return Ok(Cow::Borrowed(&kept.place));
    }
    let place = directories.place(&step.keep).map_err(|error| unopened(&error))?;
    let found = place
        .facts()
        .map_err(|error| format!("cannot stat the kept file: {error}"))?;
    match found {
        Some(found) if found.id() == kept.held.facts().id() => Ok(Cow::Owned(place)),
        _ => Err(format!(
            "the kept file {} changed since the search",
            visible_path(&step.keep)
        )),
    }
}

/// The files whose names in a directory are made or removed.
pub(super) fn touched<'f>(action: &Action, held: &'f Facts, kept: &'f Facts) -> Vec<&'f Facts> {
    match action {
        Action::Hardlink => vec![held, kept],
        Action::Remove | Action::Symlink { .. } | Action::Move { .. } => vec![held],
        Action::Reflink => Vec::new(),
    }
}

/// Whether an action can be done with files of these devices.
pub(super) fn fits(action: &Action, (one, kept): (u64, u64)) -> Result<(), Refused> {
    let kind = match action {
        Action::Hardlink => "hard links",
        Action::Reflink => "shared blocks",
        Action::Remove | Action::Symlink { .. } | Action::Move { .. } => return Ok(()),
    };
    if one == kept {
        return Ok(());
    }
    Err(format!(
        "is on another file system than the kept file, and {kind} cannot cross file systems"
    ))
}

/// Fails if a file, once it is a name of the kept one or a link to it, would have other attributes, or would let somebody do
/// more with its path.
pub(super) fn keeps_rights(action: &Action, own: &Attributes, kept: &Attributes) -> Result<(), Refused> {
    let of_hardlink = |what: &str| {
        Err(format!(
            "its {what} from that of the kept file, and hard links have only one"
        ))
    };
    let of_symlink = |what: &str| {
        Err(format!(
            "its {what}, and a symbolic link would give the rights of that file"
        ))
    };
    let owners = |file: &Attributes| (file.owner, file.group);
    match action {
        Action::Hardlink if owners(own) != owners(kept) => of_hardlink("owner or group differs"),
        Action::Hardlink if own.mode != kept.mode => of_hardlink("mode differs"),
        Action::Hardlink if own.extended != kept.extended => {
            of_hardlink("access control list or another extended attribute differs")
        }
        Action::Symlink { .. } if own.owner != kept.owner => of_symlink("owner is not that of the kept file"),
        Action::Symlink { .. } if gives_more(own, kept) => {
            of_symlink("mode or access control list gives less than that of the kept file")
        }
        _ => Ok(()),
    }
}

/// Fails if a symbolic link would lead from a mount where programs get no privileges to one where they do.
fn keeps_mount(action: &Action, own: &Place, kept: &Place) -> Result<(), Refused> {
    let is_limited = |place: &Place| {
        let found = fstatvfs(&*place.directory);
        found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOSUID))
    };
    if matches!(action, Action::Symlink { .. }) && is_limited(own) && !is_limited(kept) {
        return Err("its mount gives programs no privileges (nosuid), and that of the kept file does".into());
    }
    Ok(())
}

/// Whether some user may do more with the kept file than with this one, which has the same owner.
fn gives_more(own: &Attributes, kept: &Attributes) -> bool {
    let is_in_group = own.group == kept.group;
    let lists = [own, kept].map(|file| -> Vec<_> {
        let all = file.extended.iter().flatten();
        // Integrity hashes differ by file.
        let is_right =
            |name: &[u8]| !name.starts_with(b"user.") && ![&b"security.ima"[..], b"security.evm"].contains(&name);
        all.filter(|(name, _)| is_right(name)).collect()
    });
    // With an access control list, the group bits are a mask, and a named user may get less than others.
    if lists[0] != lists[1] || !(lists[0].is_empty() || is_in_group) {
        return true;
    }
    let [of_owner, of_group, of_others] = [6, 3, 0].map(|shift| move |file: &Attributes| file.mode >> shift & 7);
    let is_more = |kept: u32, own: u32| kept & !own != 0;
    // Set-user-ID, set-group-ID.
    is_more(kept.mode & 0o6000, own.mode & 0o6000)
        || is_more(of_owner(kept), of_owner(own))
        || is_more(of_others(kept), of_others(own))
        || is_more(of_group(kept), of_group(own))
        // Members of one file's group are others for the other file.
        || !is_in_group
            && (kept.mode & 0o2000 != 0
                || is_more(of_group(kept), of_others(own))
                || is_more(of_others(kept), of_group(own)))
}

fn name(
    place: &Place,
    keep: &Path,
    action: &Action,
    temporary: String,
    device: u64,
    at: (&Holding<'_>, &Directories),
) -> Result<Name, Refused> {
    let above = place.path.parent().unwrap_or(Path::new("/"));
    let mut name = Name {
        path: place.path.clone(),
        temporary,
        link: None,
        moved_to: None,
        made: 0,
    };
    match action {
        Action::Symlink { is_absolute: true } => name.link = Some(keep.to_owned()),
        Action::Symlink { is_absolute: false } => name.link = Some(relative(above, keep)),
        Action::Move { to } => {
            let moved_to = to.join(place.path.strip_prefix("/").unwrap_or(&place.path));
            name.made = missing(&moved_to, to, device, at)?;
            name.moved_to = Some(moved_to);
        }
        Action::Remove | Action::Hardlink | Action::Reflink => {}
    }
    Ok(name)
}

/// How many of the directories between `to`, which exists, and a path in it are missing. Fails on another file system, and for
/// root where another user decides what names lead to.
pub(super) fn missing(
    path: &Path,
    to: &Path,
    device: u64,
    (holding, directories): (&Holding<'_>, &Directories),
) -> Result<u64, Refused> {
    let mut count = 0;
    for (path, above) in path.ancestors().zip(path.ancestors().skip(1)) {
        match directories.place(path) {
            Ok(place) => {
                let found = Facts::of(&*place.directory);
                let found = found.map_err(|error| format!("cannot stat {}: {error}", visible_path(above)))?;
                if found.device != device {
                    return Err(format!("is on another file system than {}", visible_path(above)));
                }
                return holding.require_private(&place).map(|()| count);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && above != to => count += 1,
            Err(error) => return Err(format!("cannot open {}: {error}", visible_path(above))),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether a user who is in groups and not the owner may do something with a file by its mode.
    fn may(file: &Attributes, groups: &[u32], wish: u32) -> bool {
        let shift = if groups.contains(&file.group) { 3 } else { 0 };
        file.mode >> shift & wish == wish
    }

    proptest! {
        #[test]
        fn a_file_gives_more_if_some_user_may_do_something_that_the_other_refuses(
            own_mode in 0..0o1000_u32,
            kept_mode in 0..0o1000_u32,
            kept_group in 1..3_u32,
        ) {
            let [own, kept] = [(own_mode, 1), (kept_mode, kept_group)].map(|(mode, group)| Attributes {
                owner: 0,
                group,
                mode,
                extended: None,
            });
            let users: [&[u32]; 4] = [&[], &[1], &[2], &[1, 2]];
            let more = (1..8).any(|wish| {
                let of_owner = |file: &Attributes| file.mode >> 6 & wish == wish;
                let by_groups = |groups: &&[u32]| may(&kept, groups, wish) && !may(&own, groups, wish);
                of_owner(&kept) && !of_owner(&own) || users.iter().any(by_groups)
            });
            prop_assert_eq!(gives_more(&own, &kept), more);
        }
    }
}
