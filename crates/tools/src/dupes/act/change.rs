//! Doing a step. A file is never overwritten: it is renamed, checked, and put back if it is not the file that was
//! compared.
//!
//! Not here: the proofs before, and the journal.

use std::ffi::OsStr;
use std::fs::FileTimes;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless::update::{StepKind, Watch};
use seekless_sys::{Support, descriptor_path, name_file, share_range};

use super::held::{Held, Holding, Kept, is_but_for_names};
use super::journal::{Name, before};
use super::place::{Directories, Place};
use super::prepare::Prepared;
use super::{Action, Outcome, STOPPED};
use crate::visible::visible_path;
use crate::walk::Facts;

/// Why a name was not, or not fully, acted on.
pub(super) enum Unchanged {
    /// The name is as it was.
    Left(String),
    /// The name is not as it was.
    Failed(String),
}

type Changed = Result<(), Unchanged>;

/// The system's reason why a call changed nothing.
fn left(action: &'static str) -> impl FnOnce(io::Error) -> Unchanged {
    move |error| Unchanged::Left(format!("cannot {action}: {error}"))
}

pub(super) fn required(answer: io::Result<Support<()>>) -> io::Result<()> {
    answer?.required()
}

/// Bytes that the kernel compares and shares in one call; longer calls take longer to be interrupted, and some file systems
/// refuse them.
const SHARED_AT_ONCE_BYTES: u64 = 16 << 20;

/// Does a step.
pub(super) fn act(
    prepared: &Prepared,
    action: &Action,
    acting: (&Holding<'_>, &Directories),
    watch: &dyn Watch,
) -> Outcome {
    if *action == Action::Reflink {
        return match reflink(prepared, acting.0, watch) {
            Ok(gained_bytes) => Outcome::Done { gained_bytes },
            Err(why) => Outcome::Left { why },
        };
    }
    let names = prepared.places.len();
    let names_before = prepared.held.facts().names;
    for done in 0..names {
        // Two paths may lead to one name, by a bind mount.
        if prepared.held.facts().names == 0 {
            break;
        }
        let why = match change(prepared, done, action, acting, watch) {
            Ok(()) => continue,
            Err(Unchanged::Left(why)) if done == 0 => return Outcome::Left { why },
            Err(Unchanged::Left(why) | Unchanged::Failed(why)) => why,
        };
        let path = visible_path(&prepared.places[done].path);
        return Outcome::Failed {
            why: if done == 0 {
                why
            } else {
                format!("done for {done} of {names} names; {path}: {why}")
            },
        };
    }
    let is_gone = !matches!(action, Action::Move { .. }) && names_before <= names as u64;
    Outcome::Done {
        gained_bytes: if is_gone { prepared.own_bytes } else { 0 },
    }
}

/// Acts on one name of a file.
fn change(
    prepared: &Prepared,
    at: usize,
    action: &Action,
    (holding, directories): (&Holding<'_>, &Directories),
    watch: &dyn Watch,
) -> Changed {
    let (place, name) = (&prepared.places[at], &prepared.entry.names[at]);
    let (held, kept) = (&prepared.held, &*prepared.kept);
    require_unchanged(place, held, kept).map_err(Unchanged::Left)?;
    match action {
        Action::Remove => remove(place, name, (held, kept), watch)?,
        Action::Hardlink => {
            let linked = hardlink(place, name, held, kept, watch);
            // Even a link that was removed again has changed the ctime of the kept file.
            let renewed = kept.held.renew();
            holding.remember(&kept.held);
            linked?;
            renewed.map_err(|why| Unchanged::Failed(format!("the kept file: {why}")))?;
        }
        Action::Symlink { .. } => symlink(place, name, held, kept, watch)?,
        Action::Move { .. } => {
            let look = |there: &Place| look(there, &there.name, held);
            relocate(place, name, &look, (holding, directories), watch)?;
        }
        Action::Reflink => {}
    }
    if at + 1 == prepared.places.len() {
        return Ok(());
    }
    // Its remaining names are checked against what the file is now.
    held.renew().map_err(Unchanged::Failed)
}

/// Fails unless a name still leads to the file that was compared, and it and the kept file are unchanged.
fn require_unchanged(place: &Place, held: &Held, kept: &Kept) -> Result<(), String> {
    held.require_unchanged()?;
    let unchanged = kept.held.require_unchanged();
    unchanged.map_err(|why| format!("the kept file {}: {why}", visible_path(&kept.place.path)))?;
    match place.facts() {
        Ok(Some(found)) if found.id() == held.facts().id() => Ok(()),
        Ok(_) => Err("another program replaced or removed it since it was compared".into()),
        Err(error) => Err(format!("cannot stat: {error}")),
    }
}

/// Checks that the renamed file is the one that was compared, and that nobody writes to it.
fn look(place: &Place, name: &OsStr, held: &Held) -> Result<(), String> {
    match place.facts_of(name) {
        Ok(Some(found)) if found.id() != held.facts().id() => Err("another program replaced it at that moment".into()),
        Ok(Some(found)) if !is_but_for_names(&found, &held.facts()) => Err("it was changed at that moment".into()),
        Ok(Some(_)) if held.is_alone() => Ok(()),
        Ok(Some(_)) => Err("in use: another process is opening it for writing".into()),
        Ok(None) => Err("another program renamed or removed it at that moment".into()),
        Err(error) => Err(format!("cannot stat: {error}")),
    }
}

/// Removes a file that was renamed, if it still is what was compared, and `is_right` agrees.
///
/// Changes between this check and the removal go unnoticed. If another program renames or removes the kept file then, the result
/// is the same as if it did so right after. If a program looked up the file before the rename and opens it then, it waits for the
/// lease, and writes to a file without a name.
fn unlink(
    place: &Place,
    temporary: &OsStr,
    held: &Held,
    watch: &dyn Watch,
    is_right: &dyn Fn() -> Result<(), String>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot remove it: {error}");
    before(watch, StepKind::Remove, &place.beside(temporary)).map_err(failed)?;
    is_right()?;
    look(place, temporary, held)?;
    place.directory.remove_file(temporary).map_err(failed)
}

fn remove(place: &Place, name: &Name, (held, kept): (&Held, &Kept), watch: &dyn Watch) -> Changed {
    let temporary = OsStr::new(&name.temporary);
    let aside = place.beside(temporary);
    let renamed = before(watch, StepKind::Rename, &place.path)
        .and_then(|()| required(place.directory.rename_new(&place.name, &place.directory, temporary)));
    renamed.map_err(left("rename it"))?;
    let removed = unlink(place, temporary, held, watch, &|| kept.require_bytes());
    let Err(why) = removed else { return Ok(()) };
    let back = before(watch, StepKind::Rename, &aside)
        .and_then(|()| required(place.directory.rename_new(temporary, &place.directory, &place.name)));
    Err(match back {
        Ok(()) => Unchanged::Left(why),
        // Somebody removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Unchanged::Left(why),
        Err(error) => Unchanged::Failed(not_put_back(&why, &aside, &error)),
    })
}

fn not_put_back(why: &str, aside: &Path, error: &io::Error) -> String {
    format!(
        "{why}; cannot restore its name ({error}); it is now {}",
        visible_path(aside)
    )
}

fn hardlink(place: &Place, name: &Name, held: &Held, kept: &Kept, watch: &dyn Watch) -> Changed {
    let temporary = OsStr::new(&name.temporary);
    let linked = before(watch, StepKind::Make, &place.beside(temporary)).and_then(|()| {
        let path = descriptor_path(&kept.held.file);
        let path = path.ok_or_else(|| io::Error::other("this system does not link open files"))?;
        name_file(&path, &place.directory, temporary)
    });
    linked.map_err(left("make a hard link to the kept file"))?;
    let is_ours = |found: &Facts| found.id() == kept.held.facts().id();
    take_place(
        place,
        temporary,
        (held, kept),
        &Link {
            is_ours: &is_ours,
            leads: &|_| Ok(()),
        },
        watch,
    )
}

fn symlink(place: &Place, name: &Name, held: &Held, kept: &Kept, watch: &dyn Watch) -> Changed {
    let temporary = OsStr::new(&name.temporary);
    let target = name.link.as_deref().unwrap_or(Path::new(""));
    let linked = before(watch, StepKind::Make, &place.beside(temporary))
        .and_then(|()| place.directory.make_link(target, temporary));
    linked.map_err(left("make a symbolic link"))?;
    let made = place.facts_of(temporary).map_err(|error| {
        let aside = place.beside(temporary);
        Unchanged::Failed(format!(
            "cannot stat the symbolic link, which is {}: {error}",
            visible_path(&aside)
        ))
    })?;
    let is_ours = |found: &Facts| made.is_some_and(|made| made.id() == found.id());
    // Its path was proven before: directories may have been renamed since.
    let leads = |called: &OsStr| match place.facts_behind(called) {
        Ok(Some(found)) if found.id() == kept.held.facts().id() => Ok(()),
        _ => Err("the link would not lead to the kept file: a directory was renamed or replaced".to_owned()),
    };
    take_place(
        place,
        temporary,
        (held, kept),
        &Link {
            is_ours: &is_ours,
            leads: &leads,
        },
        watch,
    )
}

/// A link that is to take the place of a file.
struct Link<'a> {
    /// Whether these are the facts of the link.
    is_ours: &'a dyn Fn(&Facts) -> bool,
    /// Fails unless the link with this name leads to the kept file.
    leads: &'a dyn Fn(&OsStr) -> Result<(), String>,
}

/// Exchanges names with a link that was made beside a file, and removes the file.
fn take_place(
    place: &Place,
    temporary: &OsStr,
    (held, kept): (&Held, &Kept),
    link: &Link<'_>,
    watch: &dyn Watch,
) -> Changed {
    let is_ours = link.is_ours;
    let aside = place.beside(temporary);
    let exchange = || required(place.directory.exchange(temporary, &place.name));
    let unexchanged = |error: io::Error| format!("cannot exchange names with the link: {error}");
    // Removes the link, which did not get the name or lost it again.
    let discard = |why: String| {
        let found = place.facts_of(temporary);
        if !matches!(&found, Ok(Some(found)) if is_ours(found)) {
            return Unchanged::Failed(format!("{why}; what another program saved is {}", visible_path(&aside)));
        }
        let removed = before(watch, StepKind::Remove, &aside).and_then(|()| place.directory.remove_file(temporary));
        match removed {
            Ok(()) => Unchanged::Left(why),
            Err(error) => Unchanged::Failed(format!(
                "{why}; cannot remove the link {}: {error}",
                visible_path(&aside)
            )),
        }
    };
    let exchanged = before(watch, StepKind::Rename, &place.path).map_err(unexchanged);
    let exchanged = exchanged.and_then(|()| {
        (link.leads)(temporary)?;
        kept.require_bytes()?;
        exchange().map_err(unexchanged)
    });
    exchanged.map_err(&discard)?;
    // The kept file is not checked again: a write to the link is a write to that file.
    let removed = unlink(place, temporary, held, watch, &|| (link.leads)(&place.name));
    let Err(why) = removed else { return Ok(()) };
    // What another program saved over the link meanwhile stays.
    let has_link = matches!(place.facts(), Ok(Some(found)) if is_ours(&found));
    if !has_link {
        let name = place.directory.rename_new(temporary, &place.directory, &place.name);
        return Err(match required(name) {
            Ok(()) => Unchanged::Left(why),
            Err(error) => Unchanged::Failed(not_put_back(&why, &aside, &error)),
        });
    }
    match before(watch, StepKind::Rename, &place.path).and_then(|()| exchange()) {
        Ok(()) => Err(discard(why)),
        Err(error) => Err(Unchanged::Failed(not_put_back(&why, &aside, &error))),
    }
}

/// Moves a file or directory. `look` checks, at the new place, that it is what was proven; if not, it is moved back.
pub(super) fn relocate(
    place: &Place,
    name: &Name,
    look: &dyn Fn(&Place) -> Result<(), String>,
    (holding, directories): (&Holding<'_>, &Directories),
    watch: &dyn Watch,
) -> Changed {
    let to = name.moved_to.as_deref().unwrap_or(Path::new("/"));
    let made = before(watch, StepKind::Make, to).and_then(|()| destination(name, (holding, directories)));
    let moved = made.and_then(|there| {
        before(watch, StepKind::Rename, &place.path)?;
        required(place.directory.rename_new(&place.name, &there.directory, &there.name))?;
        Ok(there)
    });
    let there = match moved {
        Ok(there) => there,
        Err(error) => {
            holding.unmake_later(name, &unmake(name, directories));
            return Err(Unchanged::Left(format!(
                "cannot move it to {}: {error}",
                visible_path(to)
            )));
        }
    };
    let Err(why) = look(&there) else {
        return Ok(());
    };
    let back = before(watch, StepKind::Rename, to)
        .and_then(|()| required(there.directory.rename_new(&there.name, &place.directory, &place.name)));
    Err(match back {
        Ok(()) => {
            holding.unmake_later(name, &unmake(name, directories));
            Unchanged::Left(why)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Unchanged::Left(why),
        Err(error) => Unchanged::Failed(not_put_back(&why, to, &error)),
    })
}

/// Opens the place that a file is moved to. Makes missing directories for this user only (mode 0700): a file that its directories
/// protected stays protected.
fn destination(name: &Name, (holding, directories): (&Holding<'_>, &Directories)) -> io::Result<Place> {
    let path = name.moved_to.as_deref().unwrap_or(Path::new("/"));
    let above: Vec<&Path> = path.ancestors().skip(1).take(name.made as usize).collect();
    for directory in above.into_iter().rev() {
        let place = directories.place(directory)?;
        match place.directory.create_directory(&place.name, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let there = directories.place(path)?;
    // Another user may have made one of them meanwhile.
    holding.require_private(&there).map_err(io::Error::other)?;
    Ok(there)
}

/// Removes the directories that were made for a file that is moved, if nothing is in them.
pub(super) fn unmake(name: &Name, directories: &Directories) -> io::Result<()> {
    directories.close();
    let path = name.moved_to.as_deref().unwrap_or(Path::new("/"));
    for directory in path.ancestors().skip(1).take(name.made as usize) {
        let removed = directories
            .place(directory)
            .and_then(|place| place.directory.remove_directory(&place.name));
        match removed {
            Ok(()) => {}
            // It was not made yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(error) => return Err(error),
        }
    }
    directories.close();
    Ok(())
}

/// Makes a file share the blocks of the kept one; returns the space that is free.
fn reflink(prepared: &Prepared, holding: &Holding<'_>, watch: &dyn Watch) -> Result<u64, String> {
    let (place, held, kept) = (&prepared.places[0], &prepared.held, &*prepared.kept);
    require_unchanged(place, held, kept)?;
    let bytes = held.facts().bytes;
    let mut at = 0;
    while at < bytes {
        if holding.stop.is_stopped() {
            return Err(STOPPED.into());
        }
        let length = SHARED_AT_ONCE_BYTES.min(bytes - at);
        let shared = before(watch, StepKind::Write, &place.path)
            .and_then(|()| share_range(&kept.held.file, &held.file, at, length));
        match shared.map_err(|error| format!("cannot share blocks: {error}"))? {
            Support::Available(Some(shared)) if shared > 0 => at += shared,
            Support::Available(Some(_)) => return Err("the file system shared no blocks".into()),
            Support::Available(None) => return Err("the file system reports that it differs from the kept file".into()),
            Support::Unavailable(reason) => return Err(reason.into()),
        }
    }
    let now = Facts::of(&held.file).map_err(|error| format!("cannot stat: {error}"))?;
    if now.modified != held.facts().modified && held.is_alone() {
        let modified = time(held.facts().modified).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
        let set = modified.and_then(|modified| held.file.set_times(FileTimes::new().set_modified(modified)));
        set.map_err(|error| format!("blocks are shared, but its time cannot be restored: {error}"))?;
    }
    // All blocks are now those of the kept file. This is not checked: btrfs takes longer the more files share them.
    Ok(prepared.own_bytes)
}

/// A time in seconds and ns since 1970; `None` if no file can have it.
pub(super) fn time((seconds, more): (i64, u32)) -> Option<SystemTime> {
    let since = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 {
        UNIX_EPOCH.checked_sub(since)
    } else {
        UNIX_EPOCH.checked_add(since)
    };
    whole?.checked_add(Duration::from_nanos(more.into()))
}
