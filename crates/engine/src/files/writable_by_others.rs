//! Who else can write to a file or directory, and whether a document is this user's own.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Access, Opening, PathStep, PathWalk, Support};

/// A file or directory that another user than root and this one owns or may write to. In a directory with the sticky bit, users
/// may only add names.
#[derive(Debug, PartialEq, Eq)]
pub struct WritableByOthers {
    path: PathBuf,
    /// The other user who owns it.
    owner: Option<u32>,
    mode: u32,
    has_list: bool,
}

/// Bits of a mode that let others write.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

impl WritableByOthers {
    /// Who else controls an open file or directory, by its owner, mode and access control list (acl(5)); `None` if only root and this
    /// user do.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path, file: impl AsFd, found: &Metadata) -> io::Result<Option<Self>> {
        Self::to(&this_user(), path, file, found)
    }

    /// The same, of others than these users.
    fn to(users: &[u32], path: &Path, file: impl AsFd, found: &Metadata) -> io::Result<Option<Self>> {
        let is_private = || is_private(found.gid(), users);
        let list = match sys::access_list(file)? {
            Support::Available(list) => list,
            Support::Unavailable(_) => None,
        };
        let mode = found.mode() & 0o7777;
        let may_write = match &list {
            Some(list) => Entry::all(list).is_none_or(|entries| others_write(&entries, users, is_private)),
            None => mode & OTHERS_WRITE != 0 || mode & GROUP_WRITES != 0 && !is_private(),
        };
        let may_only_add = found.is_dir() && mode & STICKY != 0;
        let owner = Some(found.uid()).filter(|owner| !users.contains(owner));
        Ok((owner.is_some() || may_write && !may_only_add).then(|| Self {
            path: path.to_owned(),
            owner,
            mode,
            has_list: list.is_some(),
        }))
    }

    /// The first directory or link on the way to a path, which may be a directory, with which another user decides what names lead to.
    ///
    /// # Errors
    /// The system's.
    pub fn on_the_way(path: &Path) -> io::Result<Option<Self>> {
        Ok(walk(path, &this_user())?.1)
    }

    /// Whether an access control list is the reason.
    #[must_use]
    pub fn has_list(&self) -> bool {
        self.has_list
    }
}

/// Walks a path, and finds the first directory or link on the way with which other users than these decide what names lead to.
fn walk(path: &Path, users: &[u32]) -> io::Result<(PathWalk, Option<WritableByOthers>)> {
    let mut exposed = None;
    let walk = PathWalk::to(&std::path::absolute(path)?, &mut |at, step| {
        if exposed.is_none() {
            exposed = match *step {
                PathStep::Directory(directory) => WritableByOthers::to(users, at, directory, &directory.metadata()?)?,
                PathStep::Link { owner, .. } => (!users.contains(&owner)).then(|| WritableByOthers {
                    path: at.to_owned(),
                    owner: Some(owner),
                    mode: 0o777,
                    has_list: false,
                }),
            };
        }
        Ok(true)
    })?;
    Ok((walk, exposed))
}

/// Root and this user.
fn this_user() -> [u32; 2] {
    [0, sys::effective_user()]
}

impl fmt::Display for WritableByOthers {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        let path = path.escape_debug();
        match self.owner {
            Some(owner) => write!(to, "{path} belongs to another user (ID {owner})"),
            None if self.has_list => write!(to, "other users may write to {path} (access control list; setfacl -b)"),
            None => write!(
                to,
                "other users may write to {path} (mode {:04o}; chmod go-w)",
                self.mode
            ),
        }
    }
}

/// An entry of an access control list, as `system.posix_acl_access` has it: `linux/posix_acl_xattr.h`.
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Entry {
    const USER: u16 = 0x02;
    const OWN_GROUP: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHERS: u16 = 0x20;
    const WRITE: u16 = 0o2;

    /// `None` if the list is not understood.
    fn all(list: &[u8]) -> Option<Vec<Self>> {
        let (version, entries) = list.split_first_chunk()?;
        let (entries, rest) = entries.as_chunks::<8>();
        let entry = |&[t0, t1, p0, p1, a, b, c, d]: &[u8; 8]| Self {
            tag: u16::from_le_bytes([t0, t1]),
            permissions: u16::from_le_bytes([p0, p1]),
            id: u32::from_le_bytes([a, b, c, d]),
        };
        (u32::from_le_bytes(*version) == 2 && rest.is_empty()).then(|| entries.iter().map(entry).collect())
    }
}

fn others_write(entries: &[Entry], users: &[u32], is_private: impl Fn() -> bool) -> bool {
    let mask = entries.iter().find(|entry| entry.tag == Entry::MASK);
    let mask = mask.map_or(u16::MAX, |mask| mask.permissions);
    entries.iter().any(|entry| match entry.tag {
        Entry::OTHERS => entry.permissions & Entry::WRITE != 0,
        _ if entry.permissions & mask & Entry::WRITE == 0 => false,
        Entry::USER => !users.contains(&entry.id),
        Entry::OWN_GROUP => !is_private(),
        Entry::GROUP => true,
        _ => false,
    })
}

/// Whether at least one of these users and nobody else is in a group, as far as group(5) and passwd(5) say. Many systems give each user
/// such a group, and let it write. A group that they do not name is private if it has the number of one of the users. Root's never
/// is: containers run programs of other users in it.
fn is_private(group: u32, users: &[u32]) -> bool {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    group != 0 && members_are(&text("/etc/group"), &text("/etc/passwd"), group, users)
}

fn members_are(groups: &str, passwords: &str, group: u32, users: &[u32]) -> bool {
    let group = group.to_string();
    let field = |line: &str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
    let accounts = || passwords.lines().map(|line| [0, 2, 3].map(|at| field(line, at)));
    let numbers: HashMap<String, String> = accounts().map(|[name, user, _]| (name, user)).collect();
    let listed: Vec<String> = groups
        .lines()
        .filter(|line| field(line, 2) == group)
        .map(|line| field(line, 3))
        .collect();
    let names = listed
        .iter()
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty());
    // Who is listed without an account is somebody else.
    let mut members: Vec<String> = names
        .map(|name| numbers.get(name).cloned().unwrap_or_default())
        .collect();
    members.extend(
        accounts()
            .filter(|[.., primary]| *primary == group)
            .map(|[_, user, _]| user),
    );
    let is_one = |number: &String| users.iter().any(|user| user.to_string() == *number);
    members.iter().all(is_one) && (is_one(&group) || !listed.is_empty() && !members.is_empty())
}

/// Opens a document that will be acted on: a regular file of this user or root, which nobody else can have written or put there, by
/// the links and directories on the way to it either.
///
/// # Errors
/// `PermissionDenied` with who else can; the system's.
pub fn open_own(path: &Path, access: Access) -> io::Result<File> {
    open_of(&this_user(), path, access)
}

/// Replaces a document of this user by a new file of this text, which only this user can read. Directories that do not exist are made where
/// nobody else could put others in their place. It is not synced.
///
/// # Errors
/// `PermissionDenied` where other users could replace it; the system's.
#[cfg(feature = "profile")]
pub(crate) fn replace_own(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    super::require_file_bytes(text.len() as u64)?;
    let directory = path.parent().ok_or(ErrorKind::NotFound)?;
    let existing = directory.ancestors().find(|above| above.exists());
    if let Some(exposed) = WritableByOthers::on_the_way(existing.ok_or(ErrorKind::NotFound)?)? {
        return Err(not_trusted(&exposed));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let new = path.with_extension(format!("{:016x}.new", fastrand::u64(..)));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = file.write_all(text).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| _ = fs::remove_file(&new))
}

/// As [`open_own`], for one of these users: what is read back and acted on is opened by this question.
///
/// # Errors
/// As [`open_own`].
pub fn open_of(users: &[u32], path: &Path, access: Access) -> io::Result<File> {
    let (walk, exposed) = walk(path, users)?;
    let irregular = || io::Error::new(ErrorKind::InvalidInput, "not a regular file");
    let name = walk.name.ok_or_else(irregular)?;
    let file = walk.directory.open_plain(&name, access)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(irregular());
    }
    match WritableByOthers::to(users, &walk.path, &file, &found)?.or(exposed) {
        Some(exposed) => Err(not_trusted(&exposed)),
        None => Ok(file),
    }
}

/// Opens a document for reading by [`open_own`], or a pipe that nobody else can write to.
///
/// # Errors
/// As [`open_own`].
pub fn open_own_input(path: &Path) -> io::Result<File> {
    let is_pipe = |found: &Metadata| found.file_type().is_fifo();
    if !is_pipe(&fs::metadata(path)?) {
        return open_own(path, Access::Read);
    }
    // It does not wait for a writer.
    let pipe = sys::open(path, Opening::plain(Access::Read))?.required()?;
    let found = pipe.metadata()?;
    match WritableByOthers::of(path, &pipe, &found)? {
        _ if !is_pipe(&found) => Err(io::Error::other("another program replaced it")),
        Some(exposed) => Err(not_trusted(&exposed)),
        None => sys::await_writer(pipe),
    }
}

fn not_trusted(exposed: &WritableByOthers) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, format!("not trusted: {exposed}"))
}

/// Room for most documents, which are then read in one piece.
const ROOM_BYTES: usize = 64 << 10;

/// Reads at most this many bytes, whatever size a file claims.
///
/// # Errors
/// `FileTooLarge`; the system's.
pub fn read_within(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM_BYTES);
    from.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("longer than {} MiB", bytes_max >> 20),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_if_nobody_else_is_in_it_whatever_its_number() {
        let passwords = "root:x:0:0::/:\nann:x:1000:2000::/:\nbob:x:1001:100::/:\ncy:x:1002:100::/:\n";
        let groups = "root:x:0:\nann:x:2000:\nusers:x:100:\nproject:x:50:ann\nboth:x:51:ann,bob\nstrange:x:52:ann,who\nempty:x:53:\n";
        let is_private = |group: u32, user: u32| members_are(groups, passwords, group, &[0, user]);
        for (group, user, expected) in [
            (2000, 1000, true),
            (50, 1000, true),
            (50, 1001, false),
            (51, 1000, false),
            (52, 1000, false),
            (53, 1000, false),
            (100, 1001, false),
            (2000, 1001, false),
            // Neither is listed: a user of another database.
            (3000, 3000, true),
            (3000, 3001, false),
        ] {
            assert_eq!(is_private(group, user), expected, "group {group}, user {user}");
        }
    }
}
