//! The trash, as file managers show it: the Trash specification 1.0 of freedesktop.org.
//!
//! A file in the trash has a name of its own, and a file beside it says where it was.
//!
//! Not here: moving files there and back (`change`, `undo`).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Zoned;
use rustix::fs::FileType;
use seekless::update::{StepKind, Watch};
use seekless_sys as sys;

use super::place::{Directories, ExaminedName};
use super::prepare::missing;
use super::record::NameOf;
use super::session::Session;
use super::{Action, RefusalReason, cannot};
use crate::walk::StatFacts;

/// The directory of files in a trash.
const FILES: &str = "files";
/// The directory of what is known of them.
const INFO: &str = "info";
/// How much of the end of a name is part of the name in the trash.
const NAME_BYTES: usize = 150;

/// The trash for a file: that of the user if it is on the same file system, else the one in the topmost directory of the file's.
pub(super) fn of(
    home: &Path,
    place: &ExaminedName,
    session: &Session<'_>,
    directories: &Directories,
) -> Result<PathBuf, RefusalReason> {
    if missing(&home.join(FILES).join("name"), place, session, directories).is_ok() {
        return Ok(home.to_owned());
    }
    let device = |place: &ExaminedName| StatFacts::of(&*place.directory).ok().map(|facts| facts.device);
    let mut top = place.path.parent().unwrap_or(&place.path);
    while let Ok(inside) = directories.place(top) {
        if inside.limits.mount != place.limits.mount || device(&inside) != device(place) {
            break;
        }
        top = top.parent().unwrap_or(top);
    }
    let (user, shared) = (sys::effective_user(), top.join(".Trash"));
    let found = directories.place(&shared).and_then(|place| place.facts());
    // Everybody may write to it, so only the sticky bit keeps what is in it.
    let is_safe = |facts: StatFacts| facts.kind == FileType::Directory && facts.mode & 0o1000 != 0;
    let has_shared = found.map_err(cannot("stat"))?.is_some_and(is_safe);
    if has_shared {
        return Ok(shared.join(user.to_string()));
    }
    Ok(top.join(format!(".Trash-{user}")))
}

/// Where a file is in a trash, and the file that says where it was. `temporary` is a name that no other run uses.
pub(super) fn paths(trash: &Path, path: &Path, temporary: &str) -> (PathBuf, PathBuf) {
    let own = path.file_name().unwrap_or_default().as_bytes();
    let is_start = |at: &usize| own[*at] & 0xc0 != 0x80;
    let start = (own.len().saturating_sub(NAME_BYTES)..own.len()).find(is_start);
    let mut name = OsString::from(temporary.trim_start_matches('.').to_owned() + "-");
    name.push(OsStr::from_bytes(&own[start.unwrap_or(0)..]));
    let mut info = name.clone();
    info.push(".trashinfo");
    (trash.join(FILES).join(name), trash.join(INFO).join(info))
}

/// Writes where a file was, before it is moved to the trash.
pub(super) fn describe(name: &NameOf, action: &Action, directories: &Directories, watch: &dyn Watch) -> io::Result<()> {
    let (Some(info), Action::Trash { home }) = (&name.info, action) else {
        return Ok(());
    };
    let above = info.parent().unwrap_or(info);
    let place = directories.place(above)?;
    match place.change(|trash| trash.create_directory(&place.name, 0o700)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    watch.announce(StepKind::Make, info)?;
    let place = directories.place(info)?;
    let mut file = place.change(|directory| directory.create_file(&place.name, 0o600))?;
    let date = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let trash = above.parent().unwrap_or(above);
    let text = format!(
        "[Trash Info]\nPath={}\nDeletionDate={date}\n",
        shown(&name.path, trash, home)
    );
    file.write_all(text.as_bytes())
}

/// A path as it is said in a trash: from the topmost directory of the file system, unless the trash is the user's.
fn shown(path: &Path, trash: &Path, home: &Path) -> String {
    let levels = if trash.parent().is_some_and(|above| above.ends_with(".Trash")) {
        2
    } else {
        1
    };
    let top = trash.ancestors().nth(levels).filter(|_| trash != home);
    let path = top.and_then(|top| path.strip_prefix(top).ok()).unwrap_or(path);
    let mut shown = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => shown.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => shown.push(char::from(*byte)),
            byte => drop(write!(shown, "%{byte:02X}")),
        }
    }
    shown
}

/// Removes what was written of a file that is not in the trash.
pub(super) fn forget(name: &NameOf, directories: &Directories) -> io::Result<()> {
    let Some(info) = &name.info else { return Ok(()) };
    let above = info.parent().unwrap_or(info);
    let gone = directories
        .place(info)
        .and_then(|place| place.change(|directory| directory.remove_file(&place.name)));
    if name.made > 1 {
        directories.close();
        // It was made with the trash, and may have other files.
        let _ = directories
            .place(above)
            .and_then(|place| place.change(|trash| trash.remove_directory(&place.name)));
    }
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_said_from_the_top_of_its_file_system_with_all_but_plain_characters_escaped() {
        let home = Path::new("/home/eva/.local/share/Trash");
        for (path, trash, expected) in [
            (
                "/home/eva/a b%\n",
                "/home/eva/.local/share/Trash",
                "/home/eva/a%20b%25%0A",
            ),
            ("/mnt/d/\u{e9}~1", "/mnt/.Trash-7", "d/%C3%A9~1"),
            ("/mnt/d/x", "/mnt/.Trash/7", "d/x"),
            ("/d/x", "/.Trash-7", "d/x"),
        ] {
            assert_eq!(shown(Path::new(path), Path::new(trash), home), expected);
        }
    }

    #[test]
    fn a_name_in_the_trash_keeps_its_end_and_is_never_too_long() {
        let long = format!("/d/{}.jpg", "\u{e9}".repeat(120));
        for path in ["/d/a.jpg", &long] {
            let (file, info) = paths(Path::new("/t"), Path::new(path), ".seekless-dupes-1-0-0");
            let name = info.file_name().unwrap().to_str().unwrap();
            assert!(name.ends_with(".jpg.trashinfo") && name.len() < 255, "{name}");
            assert_eq!(file.file_name().unwrap().to_str(), name.strip_suffix(".trashinfo"));
        }
    }
}
