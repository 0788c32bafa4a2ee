//! Who else can write to a file or directory, and whether a document is this user's own.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use seekless_sys::{self as sys, Access, Opening, Support};

/// A file or directory that another user than root and this one owns or may write to. In a directory with the sticky bit, users
/// may only add names.
#[derive(Debug, PartialEq, Eq)]
pub struct Exposed {
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

impl Exposed {
    /// Who else controls an open file or directory, by its owner, mode and access control list (acl(5)); `None` if only root and this
    /// user do.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path, file: impl AsFd, (owner, group, mode): (u32, u32, u32)) -> io::Result<Option<Self>> {
        let user = sys::effective_user();
        let other = Some(owner).filter(|owner| ![0, user].contains(owner));
        let is_private = || user != 0 && group == user && is_private(group);
        let list = match sys::access_list(file)? {
            Support::Available(list) => list,
            Support::Unavailable(_) => None,
        };
        let may_write = match &list {
            Some(list) => Entry::all(list).is_none_or(|entries| others_write(&entries, user, is_private)),
            None => mode & OTHERS_WRITE != 0 || mode & GROUP_WRITES != 0 && !is_private(),
        };
        let is_shared = may_write && mode & STICKY == 0;
        Ok((other.is_some() || is_shared).then(|| Self {
            path: path.to_owned(),
            owner: other,
            mode: mode & 0o7777,
            has_list: list.is_some(),
        }))
    }

    /// The first directory on the way to a path in which another user decides what names lead to. The path has no links.
    ///
    /// # Errors
    /// The system's.
    pub fn on_the_way(path: &Path) -> io::Result<Option<Self>> {
        for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let opened = sys::Directory::open(directory)?;
            let found = opened.metadata()?;
            let exposed = Self::of(directory, &opened, rights(&found))?;
            if exposed.is_some() {
                return Ok(exposed);
            }
        }
        Ok(None)
    }
}

impl fmt::Display for Exposed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display().to_string();
        let path = path.escape_debug();
        match self.owner {
            Some(owner) => write!(to, "{path} belongs to another user (ID {owner})"),
            None if self.has_list => write!(to, "other users may write to {path} (access control list, getfacl)"),
            None => write!(to, "other users may write to {path} (mode {:04o})", self.mode),
        }
    }
}

/// Owner, group and mode.
fn rights(found: &Metadata) -> (u32, u32, u32) {
    (found.uid(), found.gid(), found.mode())
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

fn others_write(entries: &[Entry], user: u32, is_private: impl Fn() -> bool) -> bool {
    let mask = entries.iter().find(|entry| entry.tag == Entry::MASK);
    let mask = mask.map_or(u16::MAX, |mask| mask.permissions);
    entries.iter().any(|entry| match entry.tag {
        Entry::OTHERS => entry.permissions & Entry::WRITE != 0,
        _ if entry.permissions & mask & Entry::WRITE == 0 => false,
        Entry::USER => ![0, user].contains(&entry.id),
        Entry::OWN_GROUP => !is_private(),
        Entry::GROUP => true,
        _ => false,
    })
}

/// Whether nobody else is in the group with this user's number, as far as group(5) and passwd(5) say. Many systems give each user
/// such a group, and let it write.
fn is_private(group: u32) -> bool {
    let number = group.to_string();
    let lines = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (groups, users) = (lines("/etc/group"), lines("/etc/passwd"));
    let field = |line: &str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
    let own = users
        .lines()
        .filter(|line| field(line, 2) == number)
        .map(|line| field(line, 0));
    let own: Vec<String> = own.collect();
    let is_other = |name: &str| !name.is_empty() && !own.iter().any(|own| own == name);
    let has_others = |line: &str| field(line, 2) == number && field(line, 3).split(',').any(is_other);
    let is_others_group = |line: &str| field(line, 3) == number && field(line, 2) != number;
    !groups.lines().any(has_others) && !users.lines().any(is_others_group)
}

/// Fails unless an open regular file, which a path without links names, is this user's own, or root's: nobody else can have written
/// it, or can have put it there. What is read back and acted on is opened by this question.
///
/// # Errors
/// `PermissionDenied` with who else can; the system's.
fn require_own(path: &Path, file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let exposed = match Exposed::of(path, file, rights(&found))? {
        None => Exposed::on_the_way(path.parent().unwrap_or(Path::new("/")))?,
        exposed => exposed,
    };
    match exposed {
        Some(exposed) => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("not trusted: {exposed}"),
        )),
        None => Ok(()),
    }
}

/// Opens a document that will be acted on: a regular file of this user or root, which nobody else can have written. A link as its
/// last name is not followed.
///
/// # Errors
/// `PermissionDenied` with who else can have written it; the system's.
pub fn open_own(path: &Path, access: Access) -> io::Result<File> {
    let directory = fs::canonicalize(super::directory_of(path))?;
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let how = Opening::plain(access);
    let file = sys::Directory::open(&directory)?.open_file(name, how)?.required()?;
    require_own(&directory.join(name), &file)?;
    Ok(file)
}

/// Reads a file of at most this many bytes, whatever size it claims.
///
/// # Errors
/// `FileTooLarge`; the system's.
pub fn read_within(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("longer than {} MiB", bytes_max >> 20),
        ));
    }
    Ok(bytes)
}
